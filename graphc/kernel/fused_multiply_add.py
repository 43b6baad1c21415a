"""x * y + z rounded once, in NumPy: the meaning of the primitive ``fma``.

Invariant: exactly what IEEE 754 says, at overflow, underflow and signed zeros too. float32 goes
through float64 and float64 through pairs of float64, where a last sum rounded *to odd* cannot be
rounded wrongly a second time (Boldo and Melquiond 2008); numbers so large or small that a pair
would not hold them go through fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

_SPLITTER = 2.0**27 + 1
_LEAST, _LARGEST = 2.0**-400, 2.0**400
"""Of these magnitudes products, and what they lose, are normal numbers."""


def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z with one rounding, for arrays of one dtype that broadcast."""
    x, y, z = np.broadcast_arrays(x, y, z)
    dtype = x.dtype
    if dtype == np.float32:
        wide = [array.astype(np.float64) for array in (x, y, z)]
        return _odd_sum(wide[0] * wide[1], wide[2]).astype(dtype)
    high, low = _product(x, y)
    upper, lower = _sum(z, low)
    total, rest = _sum(high, upper)
    result = np.asarray(total + _odd_sum(rest, lower))
    finite = np.isfinite(x) & np.isfinite(y)
    plain = (x == 0) | (y == 0) | ~finite | ~np.isfinite(z)
    usual = _is_usual(x) & _is_usual(y) & (_is_usual(z) | (z == 0))
    # a finite product is nothing beside an infinite z, even if it overflows when rounded
    result = np.where(plain, np.where(finite & np.isinf(z), z, x * y + z), result)
    rare = ~plain & ~usual
    if rare.any():
        triples = zip(x[rare].tolist(), y[rare].tolist(), z[rare].tolist(), strict=True)
        result[rare] = [_exact(*triple) for triple in triples]
    return result


def _is_usual(array: Any) -> Any:
    size = np.abs(array)
    return (size >= _LEAST) & (size <= _LARGEST)


def _sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b and what its rounding lost (Knuth)."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b and what its rounding lost (Dekker)."""
    product = a * b
    a_high = a * _SPLITTER - (a * _SPLITTER - a)
    b_high = b * _SPLITTER - (b * _SPLITTER - b)
    a_low, b_low = a - a_high, b - b_high
    lost = a_high * b_high - product + a_high * b_low + a_low * b_high
    return product, lost + a_low * b_low


def _odd_sum(a: Any, b: Any) -> Any:
    """a + b in float64 rounded to odd: if inexact, to the neighbour whose last bit is set."""
    total, lost = _sum(a, b)
    words = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (lost != 0)
    # towards zero where what was lost has the other sign, else the even word becomes odd
    step = np.where((lost > 0) == (total > 0), 1, -1)
    words = np.where(inexact & (words & 1 == 0), words + step, words)
    return words.view(np.float64)


def _exact(x: float, y: float, z: float) -> float:
    """By fractions, for finite operands with x and y not 0."""
    product = Fraction(x) * Fraction(y)
    exact = product + Fraction(z)
    if exact == 0:
        return 0.0
    try:
        result = float(exact)
    except OverflowError:
        result = float("inf")
        return -result if exact < 0 else result
    return -abs(result) if exact < 0 else result
