"""Judging results: comparisons, samples, true values, and what explains a difference."""
