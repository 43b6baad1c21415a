"""Norms of vectors and matrices, and what is told from singular values."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import compare, dim_max
from graphc.ir.dtypes import int64
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import number, switch
from graphc.ops.complex.parts import squared_size
from graphc.ops.convert import as_value, axes_of, converted, in_dtype, size_beside
from graphc.ops.declare import float_operand
from graphc.ops.linalg.matrices import matrices
from graphc.ops.linalg.singular_values import svdvals
from graphc.ops.linalg.systems import inv
from graphc.ops.move.shape import expand_dims, moveaxis, ravel
from graphc.ops.move.triangles import diagonal as diagonal_of
from graphc.ops.move.triangles import trace as trace_of
from graphc.ops.pointwise.rounding import abs_
from graphc.ops.reduce.axes import max_, min_, sum_

Ord: TypeAlias = int | float | str | None

_MATRIX_ORDS = "'fro', 'nuc', inf, -inf, 1, -1, 2 or -2"


def _vector_norm(value: Value, axis: tuple[int, ...], order: Any, keepdims: bool) -> Value:
    sizes = abs_(value)
    if order is None:
        order = 2
    power = number(order, "ord", "it must be a number for vectors")
    if power == math.inf:
        return _largest(sizes, axis, keepdims)
    if power == -math.inf:
        return min_(sizes, axis, keepdims)
    if power == 0:
        return sum_(converted(value != 0, sizes.dtype), axis, keepdims)
    if power == 1:
        return sum_(sizes, axis, keepdims)
    if power == 2:
        root: Value = surface_function("sqrt")(sum_(squared_size(value), axis, keepdims))
        return root
    whole: Value = sum_(sizes**power, axis, keepdims) ** (1.0 / power)
    return whole


def _largest(sizes: Value, axis: Any, keepdims: bool = False) -> Value:
    """The largest of what is not negative; 0 of nothing."""
    axes = axes_of(axis, sizes.ndim)
    empty = [place in axes and not compare("lt", 0, size) for place, size in enumerate(sizes.shape)]
    if any(empty):
        sizes = surface_function("pad")(sizes, [(0, int(may_be)) for may_be in empty])
    return max_(sizes, axes, keepdims)


def _matrix_norm(value: Value, order: Any, keepdims: bool) -> Value:
    """Of matrices of the last two axes."""
    if order in (None, "fro") and (order is None or isinstance(order, str)):
        return _vector_norm(value, (-2, -1), 2, keepdims)
    if isinstance(order, str) and order == "nuc":
        result = sum_(svdvals(value), -1)
    elif not isinstance(order, str) and order in (2, -2):
        values = svdvals(value)
        result = _largest(values, -1) if order == 2 else min_(values, -1)
    elif not isinstance(order, str) and order in (1, -1, math.inf, -math.inf):
        sums = sum_(abs_(value), -2 if abs(order) == 1 else -1)
        result = _largest(sums, -1) if order > 0 else min_(sums, -1)
    else:
        raise ShapeError(f"ord is {shown(order)} for matrices", where=caller(), hint=_MATRIX_ORDS)
    return expand_dims(result, (-2, -1)) if keepdims else result


def _known(order: Any) -> Any:
    """An ord as a number or a text.

    Raises:
        ShapeError: for another text; DTypeError for anything else.
    """
    if order is None or (isinstance(order, str) and order in ("fro", "nuc")):
        return order
    if isinstance(order, str):
        raise ShapeError(f"ord is {shown(order)}", where=caller(), hint=f"a number, {_MATRIX_ORDS}")
    return number(order, "ord")


def norm(x: Any, ord: Ord = None, axis: Any = None, keepdims: bool = False) -> Value:
    """The norm of a vector or a matrix, as ``np.linalg.norm``.

    Args:
        x: any tensor.
        ord: for vectors any number p, (Σ|x|^p)^(1/p), 0 for how many are not 0, inf and -inf for
            the largest and the smallest; for matrices 'fro', 'nuc' (the sum of the singular
            values), inf, -inf (rows), 1, -1 (columns), 2, -2 (singular values). By default the root
            of the sum of all squares.
        axis: one axis for vectors along it, two for matrices; by default all of ``x``.
        keepdims: whether the axes stay, with size 1.

    Raises:
        ShapeError: for an ord that there is not, and for axes that are neither one nor two.
    """
    value, keeps, order = float_operand(as_value(x)), switch(keepdims, "keepdims"), _known(ord)
    if axis is None:
        if order is None:
            return _vector_norm(value, tuple(range(value.ndim)), 2, keeps)
        axes = tuple(range(value.ndim))
    else:
        axes = axes_of(axis, value.ndim)
    if len(axes) == 1:
        if isinstance(order, str):
            raise ShapeError(f"ord {order!r} of vectors", where=caller(), hint="it is of matrices")
        return _vector_norm(value, axes, order, keeps)
    if len(axes) != 2:
        raise ShapeError(
            f"a norm over {len(axes)} axes", where=caller(), hint="name one axis, or two"
        )
    if order is None or (isinstance(order, str) and order == "fro"):
        return _vector_norm(value, axes, 2, keeps)
    result = _matrix_norm(moveaxis(value, axes, (-2, -1)), order, False)
    return expand_dims(result, tuple(sorted(axes))) if keeps else result


def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Ord = 2) -> Value:
    """The norm of vectors along an axis, or of all elements over several or all axes.

    Args:
        x: any tensor.
        axis: one axis or several; all by default.
        keepdims: whether the axes stay, with size 1.
        ord: any number; see ``norm``.
    """
    value, keeps = float_operand(as_value(x)), switch(keepdims, "keepdims")
    if isinstance(ord, str):
        raise ShapeError(f"ord {ord!r} of vectors", where=caller(), hint="it must be a number")
    return _vector_norm(value, axes_of(axis, value.ndim), ord, keeps)


def matrix_norm(x: Any, *, keepdims: bool = False, ord: Ord = "fro") -> Value:
    """The norm of matrices of the last two axes; see ``norm``.

    Raises:
        ShapeError: for fewer than two axes, and for an ord that there is not.
    """
    value = matrices(x, "matrix_norm")
    return _matrix_norm(value, _known(ord), switch(keepdims, "keepdims"))


def tolerance(value: Value, given: Any) -> Value:
    """How much smaller than the largest a singular value is that counts as 0: what is given, or the
    larger of the sizes times epsilon."""
    element = value.dtype.part
    if given is not None:
        return in_dtype(given, element, value)
    rows, columns = value.shape[-2:]
    sizes = size_beside(dim_max(rows, columns), element, value)
    result: Value = sizes * 2.0 ** (-52 if element.bits == 64 else -23)
    return result


def largest(values: Value) -> Value:
    """The largest singular value, [*B, 1]; 0 where there is none."""
    return _largest(values, -1, True)


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Value:
    """How many singular values (int64) are above a tolerance, of matrices [*B, m, n].

    Args:
        A: the matrices; a vector or a scalar has rank 1 if it is not zero.
        tol: the tolerance; by default the largest singular value times ``rtol``.
        hermitian: makes no difference.
        rtol: by default the larger of m and n times epsilon.
    """
    switch(hermitian, "hermitian")
    value = float_operand(as_value(A))
    if value.ndim < 2:
        return converted(surface_function("any")(ravel(value) != 0), int64)
    values = svdvals(value)
    if tol is None:
        limit = largest(values) * _along(tolerance(value, rtol))
    else:
        limit = _along(tolerance(value, tol))
    return sum_(converted(values > limit, int64), -1)


def _along(limit: Value) -> Value:
    return expand_dims(limit, -1) if limit.ndim else limit


def cond(x: Any, p: Ord = None) -> Value:
    """The condition of matrices [*B, m, n]: the norm times that of the inverse.

    Args:
        x: the matrices, square but for ``p`` None, 2 and -2.
        p: an ord of matrices; by default 2, the quotient of the extreme singular values.

    Raises:
        LinAlgError: for a singular matrix and another ``p`` than None, 2 and -2.
    """
    value, order = matrices(x, "cond"), _known(p)
    if order is None or (not isinstance(order, str) and order in (2, -2)):
        values = svdvals(value)
        ends = max_(values, -1), min_(values, -1)
        result = ends[1] / ends[0] if order == -2 else ends[0] / ends[1]
    else:
        result = _matrix_norm(value, order, False) * _matrix_norm(inv(value), order, False)
    # nothing is farther from an inverse than 0, whose quotient is 0 / 0
    isnan, any_ = surface_function("isnan"), surface_function("any")
    lost = isnan(result) & ~any_(isnan(value), (-2, -1))
    whole: Value = surface_function("where")(lost, math.inf, result)
    return whole


def diagonal(x: Any, *, offset: int = 0) -> Value:
    """A diagonal of the matrices of the last two axes; see ``gx.diagonal``."""
    return diagonal_of(x, offset, -2, -1)


def trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Value:
    """The sum of a diagonal of the matrices of the last two axes; see ``gx.trace``."""
    return trace_of(x, offset, -2, -1, dtype)


__all__ = [
    "cond",
    "diagonal",
    "largest",
    "matrix_norm",
    "matrix_rank",
    "norm",
    "tolerance",
    "trace",
    "vector_norm",
]
