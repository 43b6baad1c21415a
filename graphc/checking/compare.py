"""Where two arrays that should be equal differ.

Invariant: any NaN equals any other; apart from that, equal means every bit unless a tolerance is
given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.dtypes import floating

SLACK = 1000
"""How many units in the last place of an array's largest element class R and T may differ by."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first of the elements that differ.

    Attributes:
        index: its place.
        expected, given: its values; for arrays of unlike types these are the types, as text.
        count: how many elements differ.
        size: how many there are.
    """

    index: tuple[int, ...]
    expected: Any
    given: Any
    count: int
    size: int

    def __str__(self) -> str:
        others = f" ({self.count} of {self.size} elements differ)" if self.size > 1 else ""
        place = f"element {list(self.index)}" if self.index else "it"
        return f"{place} is {self.given!s} instead of {self.expected!s}{others}"


def same_bits(left: Array, right: Array) -> Array:
    """Where two arrays of one dtype and shape agree: every bit, or both NaN."""
    if left.dtype.kind == "c":
        return same_bits(left.real, right.real) & same_bits(left.imag, right.imag)
    bits = f"u{left.dtype.itemsize}"
    same: Array = np.ascontiguousarray(left).view(bits) == np.ascontiguousarray(right).view(bits)
    same = same.reshape(left.shape)
    if not floating(left.dtype):
        return same
    with np.errstate(invalid="ignore"):
        same |= np.isnan(left) & np.isnan(right)
    return same


def tolerance_of(dtype: np.dtype[Any]) -> float:
    """The relative tolerance for results that class R or T leaves open; 0 for what is no float."""
    return SLACK * as_dtype(dtype).format.spacing if floating(dtype) else 0.0


def difference(
    expected: Array,
    given: Array,
    tolerance: float = 0.0,
    *,
    allowance: Array | float = 0.0,
    finite: bool = False,
    accepted: Array | bool = False,
) -> Difference | None:
    """The first difference between two arrays, None if there is none.

    Args:
        expected: what is right.
        given: what is to be judged.
        tolerance: relative to the element and to the largest finite element of ``expected``.
        allowance: what is allowed beyond that, absolutely; not for integers and bools.
        finite: judge only where ``expected`` is finite.
        accepted: where ``given`` is right whatever it is.
    """
    if expected.dtype.kind == "c" == given.dtype.kind and expected.shape == given.shape:
        # part by part, which the last number of the index tells
        expected, given = (np.stack((array.real, array.imag), -1) for array in (expected, given))
        allowance, accepted = (np.asarray(each)[..., None] for each in (allowance, accepted))
        return difference(
            expected, given, tolerance, allowance=allowance, finite=finite, accepted=accepted
        )
    if expected.dtype != given.dtype or expected.shape != given.shape:
        types = [f"{array.dtype}{list(array.shape)}" for array in (expected, given)]
        return Difference((), types[0], types[1], 1, 1)
    same = same_bits(expected, given)
    if same.all():
        return None
    if floating(expected.dtype):
        with np.errstate(all="ignore"):
            regular = np.isfinite(expected)
            if tolerance or np.any(allowance):
                # the sum of two magnitudes may be beyond the range
                magnitude = tolerance * np.abs(np.where(regular, expected, 0))
                allowed = magnitude + magnitude.max() + allowance
                near = np.abs(given - expected) <= allowed
                same |= near & regular & np.isfinite(given)
            if finite:
                same |= ~regular
    same = same | accepted
    if same.all():
        return None
    index = tuple(int(n) for n in np.argwhere(~same)[0]) if same.ndim else ()
    return Difference(index, expected[index], given[index], int((~same).sum()), int(same.size))


def is_as_true(expected: Array, given: Array, true: Array) -> Array:
    """Where floats that may change bits are as good as they were, or good by themselves.

    What was finite stays finite, and comes no further from the true value unless it is near that.
    What was infinite or NaN may become the true value, or another of these: sums that overflow on
    the way have no sign to keep. Where the true value is NaN nothing is known, and all is well
    that stays finite.

    Args:
        expected: before the change.
        given: after it.
        true: the true values, as long doubles.
    """
    tolerance = tolerance_of(expected.dtype)
    numbers = as_dtype(expected.dtype).format
    least, largest = numbers.smallest, numbers.largest
    with np.errstate(all="ignore"):
        error = np.abs(given - true)
        near = error <= tolerance * np.abs(true) + least
        overflows = np.isinf(given) & (np.abs(true) >= largest * (1 - tolerance))
        near |= overflows & (np.signbit(given) == np.signbit(true))
        better = np.isfinite(given) & np.isfinite(expected) & (error <= np.abs(expected - true))
        lost = ~np.isfinite(expected) & ~(np.isfinite(given) & np.isfinite(true))
        unknown = np.isnan(true) & np.isfinite(given)
    result: Array = near | better | lost | unknown
    return result


__all__ = ["SLACK", "Difference", "difference", "is_as_true", "same_bits", "tolerance_of"]
