"""Factorings of matrices, and what is solved with them: the meaning of these routines.

Every element of a result is one chain of operations in an order that depends on its place alone,
each rounded by itself. So matrices have the same bits alone as beside others in the lanes of
vectors, on every machine. The algorithms are the textbook's (Golub and Van Loan, Matrix
Computations, 4.2 and 3.4): right-looking eliminations, with the pivot that is largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim, dim_min
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter

LANE_BYTES = 64
"""Matrices that are worked on together fill vectors of this size, one in each lane."""

STACK = ("first", "count", "total")
"""Numbers of every routine that takes matrices together."""

SINGULAR = "is singular"
NOT_POSITIVE = "is not positive definite"


# --- meanings, over arrays [..., n, n] -----------------------------------------------------------


def turned(a: Any) -> Any:
    """The last two axes exchanged."""
    return np.swapaxes(a, -1, -2)


def cholesky(a: Any) -> tuple[Any, Any]:
    """The lower factor of what stands on and below the diagonal, and which have none.

    NaN is no fault, as in LAPACK: it spreads.
    """
    upper = turned(a).copy()
    n = a.shape[-1]
    bad = np.zeros(a.shape[:-2], bool)
    for k in range(n):
        pivot = upper[..., k, k]
        bad |= pivot <= 0
        root = np.sqrt(pivot)
        upper[..., k, k] = root
        upper[..., k, k + 1 :] *= (1 / root)[..., None]
        row = upper[..., k, k + 1 :]
        upper[..., k + 1 :, k + 1 :] -= row[..., :, None] * row[..., None, :]
    return np.tril(turned(upper)), bad


def eliminated(a: Any, *others: Any) -> tuple[Any, Any, Any]:
    """Gaussian elimination in place, with the row exchanges carried out on ``others`` too.

    ``a`` then has the factors L below the diagonal and U on and above it; a column without a pivot
    is skipped. Gives the order of the rows, the sign of it, and which matrices have no inverse.
    """
    rows, columns = a.shape[-2:]
    batch = a.shape[:-2]
    order = np.broadcast_to(np.arange(rows), (*batch, rows)).copy()
    sign = np.ones(batch, a.dtype)
    bad = np.zeros(batch, bool)
    for k in range(min(rows, columns)):
        sizes = np.abs(a[..., k:, k])
        # what is no number is the pivot only if it stands there already
        largest = np.argmax(np.where(np.isnan(sizes), -1, sizes), -1)
        place = np.where(np.isnan(sizes[..., 0]), 0, largest) + k
        best = np.take_along_axis(sizes, (place - k)[..., None], -1)[..., 0]
        sign = np.where(place != k, -sign, sign)
        bad |= best == 0
        for array in (a, order[..., None], *others):
            here = array[..., k, :].copy()
            index = place[..., None, None]
            there = np.take_along_axis(array, index, -2)[..., 0, :]
            np.put_along_axis(array, index, here[..., None, :], -2)
            array[..., k, :] = there
        pivot = np.where(best == 0, a.dtype.type(1), a[..., k, k])
        a[..., k + 1 :, k] /= pivot[..., None]
        factors = a[..., k + 1 :, k, None]
        a[..., k + 1 :, k + 1 :] -= factors * a[..., None, k, k + 1 :]
        for other in others:
            other[..., k + 1 :, :] -= factors * other[..., None, k, :]
    return order, sign, bad


def substituted(a: Any, x: Any, lower: bool = False, unit: bool = False) -> Any:
    """Solves with a triangle, in place; which matrices have a zero on the diagonal."""
    n = a.shape[-1]
    bad = np.zeros(a.shape[:-2], bool)
    for step in range(n):
        k = step if lower else n - 1 - step
        if not unit:
            pivot = a[..., k, k]
            bad |= pivot == 0
            x[..., k, :] /= pivot[..., None]
        rest = slice(k + 1, n) if lower else slice(0, k)
        x[..., rest, :] -= a[..., rest, k, None] * x[..., None, k, :]
    return bad


def solved(a: Any, b: Any) -> tuple[Any, Any]:
    """``a`` [..., n, n] \\ ``b`` [..., n, m], and which matrices have no inverse."""
    left, x = a.copy(), b.copy()
    _, _, bad = eliminated(left, x)
    substituted(left, x)
    return x, bad


# --- as routines over rows -----------------------------------------------------------------------


def _stack(array: Any, rows: int, columns: int) -> Any:
    count = array.shape[-1] // max(rows * columns, 1)
    return array.reshape(*array.shape[:-1], count, rows, columns)


def _flat(array: Any, axes: int, count: int) -> Any:
    """Rows [..., count, *row] one behind the other."""
    whole = array.shape[: array.ndim - axes - 1]
    return array.reshape(*whole, -1)


def _faults(bad: Any, first: int) -> Any:
    """1 more than the number of the first one that is bad; 0 where there is none."""
    if bad.shape[-1] == 0:
        return np.zeros(bad.shape[:-1], np.int64)
    return np.where(bad.any(-1), first + 1 + np.argmax(bad, -1), 0)


def _cholesky(a: Any, n: int, first: int, count: int, total: int) -> tuple[Any]:
    return (_flat(cholesky(_stack(a, n, n))[0], 2, count),)


def _cholesky_fault(a: Any, n: int, first: int, count: int, total: int) -> Any:
    return _faults(cholesky(_stack(a, n, n))[1], first)


def _solve(a: Any, b: Any, n: int, m: int, first: int, count: int, total: int) -> tuple[Any]:
    return (_flat(solved(_stack(a, n, n), _stack(b, n, m))[0], 2, count),)


def _solve_fault(a: Any, b: Any, n: int, m: int, first: int, count: int, total: int) -> Any:
    return _faults(eliminated(_stack(a, n, n).copy())[2], first)


def _inverse(a: Any, n: int, first: int, count: int, total: int) -> tuple[Any]:
    matrices = _stack(a, n, n)
    ones = np.broadcast_to(np.eye(n, dtype=a.dtype), matrices.shape)
    return (_flat(solved(matrices, ones)[0], 2, count),)


def _inverse_fault(a: Any, n: int, first: int, count: int, total: int) -> Any:
    return _faults(eliminated(_stack(a, n, n).copy())[2], first)


def _triangle(
    a: Any, n: int, lower: int, transposed: int
) -> tuple[Any, bool]:
    matrices = _stack(a, n, n)
    return (turned(matrices) if transposed else matrices), bool(lower) != bool(transposed)


def _triangular(
    a: Any, b: Any, n: int, m: int, lower: int, transposed: int, unit: int,
    first: int, count: int, total: int,
) -> tuple[Any]:  # fmt: skip
    matrices, below = _triangle(a, n, lower, transposed)
    x = _stack(b, n, m).copy()
    substituted(matrices, x, below, bool(unit))
    return (_flat(x, 2, count),)


def _triangular_fault(
    a: Any, b: Any, n: int, m: int, lower: int, transposed: int, unit: int,
    first: int, count: int, total: int,
) -> Any:  # fmt: skip
    matrices, below = _triangle(a, n, lower, transposed)
    return _faults(substituted(matrices, _stack(b, n, m).copy(), below, bool(unit)), first)


def _lu(
    a: Any, rows: int, columns: int, first: int, count: int, total: int
) -> tuple[Any, Any, Any]:
    packed = a.reshape(*a.shape[:-1], count, rows, columns).copy()
    order, sign, _ = eliminated(packed)
    return _flat(packed, 2, count), _flat(order, 1, count), sign


# --- what they need and take ---------------------------------------------------------------------


def lanes_of(dtypes: DTypes, numbers: Numbers = ()) -> int:
    """Matrices that are worked on together."""
    return LANE_BYTES // dtypes[0].bytes


def room_of(dtypes: DTypes, rows: Dim, *columns: Dim) -> Dim:
    """Bytes for matrices of so many rows: those of several that are small, or of one; and room for
    whole vectors behind them."""
    bytes_, lanes = dtypes[0].bytes, lanes_of(dtypes)
    few = ROUTINES.most_small
    side: Dim = 0
    alone: Dim = 0
    for size in columns:
        side += dim_min(size, few)
        alone += size
    small = dim_min(rows, few) * side * lanes
    return bytes_ * (small + rows * alone + lanes * lanes) + LANE_BYTES


def _square(dtypes: DTypes, numbers: Numbers) -> Dim:
    return room_of(dtypes, numbers[0], numbers[0])


def _both(dtypes: DTypes, numbers: Numbers) -> Dim:
    return room_of(dtypes, numbers[0], numbers[0], numbers[1])


def _doubled(dtypes: DTypes, numbers: Numbers) -> Dim:
    return room_of(dtypes, numbers[0], numbers[0], numbers[0])


def _packed(dtypes: DTypes, numbers: Numbers) -> Dim:
    """With the order of the rows in a column of its own."""
    return room_of(dtypes, numbers[0], numbers[1], 1)


def _squares(numbers: Numbers) -> Sequence[Dim]:
    return (numbers[0] * numbers[0],) * 2


def _systems(numbers: Numbers) -> Sequence[Dim]:
    n, m = numbers[:2]
    return n * n, n * m, n * m


def _factors(numbers: Numbers) -> Sequence[Dim]:
    rows, columns = numbers[:2]
    return rows * columns, rows * columns, rows, 1


def _count(dtypes: DTypes, numbers: Numbers) -> Dim:
    return numbers[-2]


def _cubes(dtypes: DTypes, numbers: Numbers) -> Dim:
    n = numbers[0]
    return _count(dtypes, numbers) * (ROUTINES.matrix + ROUTINES.multiply_subtract * n * n * n)


def _with_sides(dtypes: DTypes, numbers: Numbers) -> Dim:
    n, m = numbers[:2]
    each = ROUTINES.matrix + ROUTINES.multiply_subtract * n * n * (n + m)
    return _count(dtypes, numbers) * each


CHOLESKY = enter(
    Routine(
        "cholesky", 1, 1, ("n", *STACK), _squares, _cholesky, _square, _cubes,
        _cholesky_fault, problem=NOT_POSITIVE, together=lanes_of,
    )
)  # fmt: skip
SOLVE = enter(
    Routine(
        "solve", 2, 1, ("n", "m", *STACK), _systems, _solve, _both, _with_sides,
        _solve_fault, problem=SINGULAR, together=lanes_of,
    )
)  # fmt: skip
INVERSE = enter(
    Routine(
        "inv", 1, 1, ("n", *STACK), _squares, _inverse, _doubled, _cubes,
        _inverse_fault, problem=SINGULAR, together=lanes_of,
    )
)  # fmt: skip
SOLVE_TRIANGULAR = enter(
    Routine(
        "solve_triangular", 2, 1, ("n", "m", "lower", "transposed", "unit", *STACK),
        _systems, _triangular, _both, _with_sides, _triangular_fault,
        problem=SINGULAR, together=lanes_of,
    )
)  # fmt: skip
LU = enter(
    Routine(
        "lu", 1, 3, ("rows", "columns", *STACK), _factors, _lu, _packed, _with_sides,
        together=lanes_of,
    )
)  # fmt: skip

__all__ = [
    "CHOLESKY",
    "INVERSE",
    "LANE_BYTES",
    "LU",
    "SOLVE",
    "SOLVE_TRIANGULAR",
    "cholesky",
    "eliminated",
    "lanes_of",
    "solved",
    "substituted",
    "turned",
]
