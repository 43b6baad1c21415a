"""Choosing: the places of what is true."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter


def _chosen(mask: Any, length: int, count: int) -> tuple[Any]:
    result = np.full((*mask.shape[:-1], count), length, np.int64)
    rows = math.prod(mask.shape[:-1])
    for places, row in zip(result.reshape(rows, count), mask.reshape(rows, length), strict=True):
        found = np.flatnonzero(row)[:count]
        places[: found.size] = found
    return (result,)


def _no_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return 0


def _work(dtypes: DTypes, numbers: Numbers) -> Dim:
    length, count = numbers
    return ROUTINES.choose_element * (length + count)


TRUE_PLACES = enter(
    Routine("true_places", 1, 1, ("length", "count"), tuple, _chosen, _no_room, _work)
)

__all__ = ["TRUE_PLACES"]
