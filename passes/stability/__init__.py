"""Numerical stability: what overflows or cancels on the way is spelled anew."""
