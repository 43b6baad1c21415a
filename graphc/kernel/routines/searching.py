"""Searching sorted vectors, and counting what falls on each place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim, dim_min
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter
from graphc.kernel.routines.sorting import ordered

TABLES = 4
"""Tables of counts that take turns."""
TABLE_MARGIN = 23
"""Counts between tables at most, which begin with whole vectors."""


def _searched(vector: Any, rows: Any, length: int, count: int, right: int) -> tuple[Any]:
    keys = ordered(vector, zeros_differ=False)
    wanted = ordered(rows, zeros_differ=False)
    # kernels may read a vector beside an axis for each loop; it is the same in all
    keys = keys[(0,) * (keys.ndim - 1)]
    # by halving, so that it is said what a vector in no order gives
    places, left = np.zeros(wanted.shape, np.int64), length

    def goes_before(index: Any) -> Any:
        return keys[index] <= wanted if right else keys[index] < wanted

    while left > 1:
        half = left // 2
        places = np.where(goes_before(places + half - 1), places + half, places)
        left -= half
    return (places + goes_before(places) if length else places,)


def _search_work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return ROUTINES.search_element * numbers[1]


def _no_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return 0


def _rows(places: Any) -> Any:
    return places.reshape(math.prod(places.shape[:-1]), places.shape[-1])


def _counted(places: Any, length: int, bins: int) -> tuple[Any]:
    result = np.zeros((*places.shape[:-1], bins), np.int64)
    for counts, row in zip(_rows(result), _rows(places), strict=True):
        inside = row[(row >= 0) & (row < bins)].astype(np.int64)
        counts += np.bincount(inside, minlength=bins)[:bins]
    return (result,)


def _weighed(places: Any, weights: Any, length: int, bins: int) -> tuple[Any]:
    result = np.zeros((*places.shape[:-1], bins), weights.dtype)
    rows = zip(_rows(result), _rows(places), _rows(weights), strict=True)
    for sums, row, of_row in rows:
        keeps = (row >= 0) & (row < bins)
        np.add.at(sums, row[keeps].astype(np.int64), of_row[keeps])
    return (result,)


def _first_negative(places: Any, *others: Any) -> Any:
    """The first negative place of each row, 0 where there is none."""
    negative = places < 0
    if places.shape[-1] == 0:
        return np.zeros(places.shape[:-1], np.int64)
    first = np.argmax(negative, axis=-1)
    value = np.take_along_axis(places, first[..., None], -1)[..., 0].astype(np.int64)
    return np.where(negative.any(axis=-1), value, 0)


def _stride(bins: Dim) -> Dim:
    """At least from one table of counts to the next: whole vectors, and seldom whole pages."""
    return bins + TABLE_MARGIN


def _tables(dtypes: DTypes, numbers: Numbers) -> Dim:
    """Tables of counts in 32 bits, where there are few bins."""
    return TABLES * 4 * _stride(dim_min(numbers[1], ROUTINES.most_bins))


def _count_work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return ROUTINES.count_element * (numbers[0] + numbers[1])


def _binned(rows: Any, edges: Any, length: int, bins: int) -> tuple[Any]:
    """By a product, which rounds; so elements are compared with the edges next to them."""
    result = np.zeros((*rows.shape[:-1], bins), np.int64)
    ends = edges[(0,) * (edges.ndim - 1)]
    low, high = ends[0], ends[-1]
    for counts, row in zip(_rows(result), _rows(rows), strict=True):
        row = row[(row >= low) & (row <= high)]
        ratio = (row - low) / (high - low) * row.dtype.type(bins)
        # of edges that are no numbers apart there is no ratio
        ratio = np.clip(np.where(np.isnan(ratio), 0, ratio), 0, bins - 1)
        place = ratio.astype(np.int64)
        place -= (row < ends[place]) & (place > 0)
        place += (row >= ends[place + 1]) & (place < bins - 1)
        counts += np.bincount(place, minlength=bins)
    return (result,)


SEARCHSORTED = enter(
    Routine(
        "searchsorted", 2, 1, ("length", "count", "right"),
        lambda numbers: (numbers[0], numbers[1], numbers[1]), _searched, _no_room, _search_work,
    )
)  # fmt: skip
BINCOUNT = enter(
    Routine(
        "bincount", 1, 1, ("length", "bins"), tuple,
        _counted, _tables, _count_work, _first_negative,
    )
)  # fmt: skip
BINSUM = enter(
    Routine(
        "binsum", 2, 1, ("length", "bins"), lambda numbers: (numbers[0], *numbers),
        _weighed, _no_room, _count_work, _first_negative,
    )
)  # fmt: skip
HISTOGRAM = enter(
    Routine(
        "histogram", 2, 1, ("length", "bins"),
        lambda numbers: (numbers[0], numbers[1] + 1, numbers[1]), _binned, _tables, _count_work,
    )
)  # fmt: skip

__all__ = ["BINCOUNT", "BINSUM", "HISTOGRAM", "SEARCHSORTED", "TABLES", "TABLE_MARGIN"]
