"""Fusion: which operations become one kernel."""
