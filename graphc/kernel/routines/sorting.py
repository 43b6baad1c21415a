"""Sorting: the order of numbers, and the routines that put rows into it.

The order is total on what can be told apart: by value, NaN behind everything. Zeros of both signs
are equal, so that their places are ties; sorted as values, the negative one comes first.
Descending is the reverse of that order, ties still in the order of their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter

RADIX = 256
"""Values of a digit, by which long rows are sorted."""



def ordered(values: Any, zeros_differ: bool) -> Any:
    """Unsigned integers in the order of numbers; NaN is the greatest, of whatever sign."""
    array = np.asarray(values)
    if array.dtype.kind == "c":
        # numbers of two parts, as audits have them: their ranks
        return np.unique(array, return_inverse=True)[1].reshape(array.shape).astype(np.uint64)
    if array.dtype.kind in "bu":
        return array.view(f"u{array.itemsize}")
    unsigned = np.dtype(f"u{array.itemsize}")
    top = unsigned.type(1 << (8 * array.itemsize - 1))
    if array.dtype.kind == "i":
        return array.view(unsigned) ^ top
    if not zeros_differ:
        array = array + array.dtype.type(0)
    bits = array.view(unsigned)
    keys = np.where(bits & top, ~bits, bits | top)
    return np.where(np.isnan(array), unsigned.type(~unsigned.type(0)), keys)


def _permutation(row: Any, descending: int, zeros_differ: bool) -> Any:
    keys = ordered(row, zeros_differ)
    return np.argsort(~keys if descending else keys, axis=-1, kind="stable")


def _sorted(row: Any, length: int, descending: int) -> tuple[Any]:
    return (np.take_along_axis(row, _permutation(row, descending, True), -1),)


def _argsorted(row: Any, length: int, descending: int) -> tuple[Any]:
    return (_permutation(row, descending, False).astype(np.int64),)


def _largest(row: Any, length: int, count: int) -> tuple[Any]:
    # where a file asks for more than there are, the rest are zeros
    places = np.zeros((*row.shape[:-1], count), np.int64)
    places[..., :length] = _permutation(row, 1, False)[..., :count]
    return (places,)


def _row(numbers: Numbers) -> Sequence[Dim]:
    return numbers[0], numbers[0]


def _entry(dtypes: DTypes, places: bool) -> int:
    """Bytes of what is sorted: a key, a key with its place in one word, or both in a word each."""
    size = dtypes[0].bytes
    return size if not places else 8 if size <= 4 else 16


def _room(dtypes: DTypes, numbers: Numbers, places: bool = False) -> Dim:
    """Two copies of a row, so that each pass goes from one to the other, and a table of counts for
    each digit; or one copy in whole blocks of vectors."""
    tables = dtypes[0].bytes * RADIX * 8
    return tables + (2 * numbers[0] + RADIX) * _entry(dtypes, places)


def _places_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return _room(dtypes, numbers, True)


def _work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return ROUTINES.sort_row + ROUTINES.sort_element * numbers[0]


def _largest_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    """That of sorting, and the places of all."""
    return _places_room(dtypes, numbers) + 8 * numbers[0]


SORT = enter(
    Routine("sort", 1, 1, ("length", "descending"), _row, _sorted, _room, _work)
)
ARGSORT = enter(
    Routine("argsort", 1, 1, ("length", "descending"), _row, _argsorted, _places_room, _work)
)
TOP_K = enter(
    Routine(
        "top_k", 1, 1, ("length", "count"), tuple, _largest, _largest_room, _work
    )
)

__all__ = ["ARGSORT", "RADIX", "SORT", "TOP_K", "ordered"]
