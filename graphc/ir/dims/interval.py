"""Interval arithmetic on integers with infinite ends.

Role: the bounds of symbolic dimensions.  Invariant: every result contains every value that the
operation can take on integers from its operands; a finite end is always an ``int``.
"""

from __future__ import annotations

import math
from typing import TypeAlias

# (lowest, highest): ints, or an infinity where nothing is known.
Interval: TypeAlias = tuple[float, float]

INFINITY = math.inf


def _sum(a: float, b: float) -> float:
    # Never int + inf: a large int doesn't convert to float.
    if isinstance(a, float):
        return a
    return b if isinstance(b, float) else a + b


def _product(a: float, b: float) -> float:
    if a == 0 or b == 0:
        return 0
    if isinstance(a, float) or isinstance(b, float):
        return INFINITY if (a > 0) == (b > 0) else -INFINITY
    return a * b


def add(a: Interval, b: Interval) -> Interval:
    """Bounds of x + y."""
    return _sum(a[0], b[0]), _sum(a[1], b[1])


def multiply(a: Interval, b: Interval) -> Interval:
    """Bounds of x * y."""
    if a[0] >= 0 and b[0] >= 0:
        return _product(a[0], b[0]), _product(a[1], b[1])
    corners = [_product(x, y) for x in a for y in b]
    return min(corners), max(corners)


def power(a: Interval, exponent: int) -> Interval:
    """Bounds of x ** exponent, exponent >= 1."""
    if exponent == 1:
        return a

    def raised(x: float) -> float:
        if isinstance(x, float):
            return x if exponent % 2 else INFINITY
        return int(x) ** exponent

    ends = raised(a[0]), raised(a[1])
    if exponent % 2:
        return ends
    return (0 if a[0] <= 0 <= a[1] else min(ends)), max(ends)


def _floor(a: float, b: float) -> float:
    """Floor of a / b for b > 0, where an infinite b is a limit."""
    if isinstance(b, float):
        return 0 if a >= 0 else -1
    return a if isinstance(a, float) else a // b


def floor_divide(a: Interval, b: Interval) -> Interval:
    """Bounds of x // y over the y that aren't zero."""
    if b[1] <= 0:
        a, b = (-a[1], -a[0]), (-b[1], -b[0])
    if b[0] >= 0:
        small, large = max(b[0], 1), max(b[1], 1)
        low = _floor(a[0], large if a[0] >= 0 else small)
        high = _floor(a[1], small if a[1] >= 0 else large)
        return low, high
    magnitude = max(-a[0], a[1])
    return -magnitude, magnitude


def modulo(a: Interval, b: Interval) -> Interval:
    """Bounds of x % y over the y that aren't zero; the result has the sign of y."""
    low = min(_sum(b[0], 1), 0)
    high = max(_sum(b[1], -1), 0)
    if b[0] >= 0 and a[0] >= 0:
        high = min(high, a[1])
    return low, high


def minimum(a: Interval, b: Interval) -> Interval:
    """Bounds of min(x, y)."""
    return min(a[0], b[0]), min(a[1], b[1])


def maximum(a: Interval, b: Interval) -> Interval:
    """Bounds of max(x, y)."""
    return max(a[0], b[0]), max(a[1], b[1])


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval that holds both."""
    return min(a[0], b[0]), max(a[1], b[1])


def intersection(a: Interval, b: Interval) -> Interval:
    """The values in both."""
    return max(a[0], b[0]), min(a[1], b[1])
