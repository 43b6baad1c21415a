"""Numerical stability: spellings that overflow or cancel on the way are replaced."""
