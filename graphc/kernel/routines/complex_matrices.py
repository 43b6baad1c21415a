"""Gaussian elimination of complex matrices, given as their real and imaginary parts.

As ``matrices`` has it for real ones: every element is one chain of operations, each rounded by
itself, in an order that depends on its place alone. The pivot is the first whose parts are largest
in sum of their sizes, as in LAPACK; quotients by it are those of R. L. Smith, Algorithm 116 (1962).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter
from graphc.kernel.routines.matrices import STACK

TOGETHER = 8
"""Matrices of a call."""


def eliminated(re: Any, im: Any) -> tuple[Any, Any]:
    """Elimination in place, with the factors L below the diagonal and U on and above it; a column
    without a pivot is skipped. Gives the order of the rows, and the sign of it."""
    rows, columns = re.shape[-2:]
    batch = re.shape[:-2]
    order = np.broadcast_to(np.arange(rows), (*batch, rows)).copy()
    sign = np.ones(batch, re.dtype)
    for k in range(min(rows, columns)):
        sizes = np.abs(re[..., k:, k]) + np.abs(im[..., k:, k])
        # what is no number is the pivot only if it stands there already
        largest = np.argmax(np.where(np.isnan(sizes), -1, sizes), -1)
        place = np.where(np.isnan(sizes[..., 0]), 0, largest) + k
        best = np.take_along_axis(sizes, (place - k)[..., None], -1)[..., 0]
        sign = np.where(place != k, -sign, sign)
        for array in (re, im, order[..., None]):
            here = array[..., k, :].copy()
            index = place[..., None, None]
            there = np.take_along_axis(array, index, -2)[..., 0, :]
            np.put_along_axis(array, index, here[..., None, :], -2)
            array[..., k, :] = there
        c = np.where(best == 0, re.dtype.type(1), re[..., k, k])[..., None]
        d = np.where(best == 0, re.dtype.type(0), im[..., k, k])[..., None]
        is_wide = np.abs(c) >= np.abs(d)
        long, short = np.where(is_wide, c, d), np.where(is_wide, d, c)
        ratio = short / long
        scale = 1 / (long + short * ratio)
        a, b = re[..., k + 1 :, k].copy(), im[..., k + 1 :, k].copy()
        x = np.where(is_wide, a + b * ratio, a * ratio + b) * scale
        y = np.where(is_wide, b - a * ratio, b * ratio - a) * scale
        re[..., k + 1 :, k], im[..., k + 1 :, k] = x, y
        x, y = x[..., None], y[..., None]
        u, v = re[..., None, k, k + 1 :], im[..., None, k, k + 1 :]
        re[..., k + 1 :, k + 1 :] -= x * u - y * v
        im[..., k + 1 :, k + 1 :] -= x * v + y * u
    return order, sign


def _lu(
    re: Any, im: Any, rows: int, columns: int, first: int, count: int, total: int
) -> tuple[Any, ...]:
    whole = re.shape[:-1]
    packed = [part.reshape(*whole, count, rows, columns).copy() for part in (re, im)]
    order, sign = eliminated(*packed)
    return tuple(array.reshape(*whole, -1) for array in (*packed, order, sign))


def _extents(numbers: Numbers) -> Sequence[Dim]:
    rows, columns = numbers[:2]
    return (*[rows * columns] * 4, rows, 1)


def _no_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return 0


def _work(dtypes: DTypes, numbers: Numbers) -> Dim:
    rows, columns, *_, count, _ = numbers
    each = 4 * ROUTINES.multiply_subtract * rows * columns * (rows + columns)
    return count * (ROUTINES.matrix + each)


def _together(dtypes: DTypes, numbers: Numbers) -> Dim:
    return TOGETHER


COMPLEX_LU = enter(
    Routine(
        "complex_lu", 2, 4, ("rows", "columns", *STACK), _extents, _lu, _no_room, _work,
        together=_together,
    )
)  # fmt: skip

__all__ = ["COMPLEX_LU", "eliminated"]
