"""Pointwise operations: arithmetic, logic, functions of real numbers, rounding."""
