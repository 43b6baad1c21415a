"""Spreads, weighted means and covariances."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import equal, product
from graphc.ir.dtypes import DTypeLike, bool_, float64, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import switch, whole
from graphc.ops.complex.parts import halves, joined
from graphc.ops.convert import as_value, axes_of, converted, promoted, size_beside
from graphc.ops.declare import refuse
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matmul import matmul
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import broadcast_to, transpose, with_shape
from graphc.ops.pointwise.logic import not_equal
from graphc.ops.pointwise.rounding import clip, maximum
from graphc.ops.reduce.axes import Axis, max_, min_, sum_
from graphc.ops.reduce.statistics import mean


@surface
def ptp(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """From the smallest to the largest element over an axis, several, or all; integers wrap.

    Raises:
        ShapeError: if an axis is empty: here where it is known, else when the graph runs.
        DTypeError: for bools.
    """
    value = as_value(x)
    if value.dtype is bool_:
        raise refuse("ptp does not take bool", "convert with astype")
    return max_(value, axis, keepdims) - min_(value, axis, keepdims)


@surface
def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """How many elements are not 0, as int64; NaN is not 0."""
    return sum_(converted(not_equal(x, 0), int64), axis, keepdims)


@surface
def average(
    x: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean, in which elements count as much as their weights say.

    Args:
        x: numbers; integers and bools give float64.
        axis: an axis, several, or all (None).
        weights: of the shape of x, or of the axes alone.
        returned: whether to give the sum of the weights as a second result.
        keepdims: whether the axes stay, with 1 element.

    Where the weights add up to 0 the result is NaN or infinite; NumPy raises.

    Raises:
        ShapeError: for weights of another shape; at run time where sizes are unknown.
    """
    if weights is None:
        value = as_value(x)
        center = mean(value, axis, keepdims)
        if not switch(returned, "returned"):
            return center
        count = product(value.shape[place] for place in axes_of(axis, value.ndim))
        size = size_beside(count, center.dtype, center)
        return center, broadcast_to(size, center.shape)
    value, scale = promoted(x, weights)
    if not value.dtype.is_inexact:
        value, scale = converted(value, float64), converted(scale, float64)
    axes = axes_of(axis, value.ndim)
    if scale.ndim != value.ndim:
        scale = _along(scale, value, axes)
    pairs = list(zip(scale.shape, value.shape, strict=True))
    along = [pair for place, pair in enumerate(pairs) if scale.shape[place] != 1 or place in axes]
    guards = unproved(along, "weights {} of {}", scale.shape, value.shape)
    scale = broadcast_to(with_shape(scale, scale.shape, guards), value.shape)
    total = sum_(scale, axes, keepdims)
    center = sum_(value * scale, axes, keepdims) / total
    return (center, total) if switch(returned, "returned") else center


def _along(scale: Value, value: Value, axes: tuple[int, ...]) -> Value:
    """Weights of some axes alone, with 1 for the others."""
    if scale.ndim != len(axes):
        raise ShapeError(
            f"weights {show(scale.shape)} of {show(value.shape)}",
            where=caller(),
            hint="they have the shape of the tensor, or of the axes that are averaged",
        )
    sizes = iter(scale.shape)
    return with_shape(scale, tuple(next(sizes) if a in axes else 1 for a in range(value.ndim)), ())


# --- covariances ---------------------------------------------------------------------------------


def _rows(x: Any, y: Any, rowvar: bool) -> Value:
    """Variables as rows, observations as columns."""
    values = promoted(x) if y is None else promoted(x, y)
    for value in values:
        if value.ndim > 2:
            text = f"covariances of {show(value.shape)}"
            raise ShapeError(text, where=caller(), hint="give a matrix or a vector")
    rows = []
    for value in values:
        wide = value if value.dtype.is_inexact else converted(value, float64)
        if wide.ndim < 2:
            wide = with_shape(wide, (1, *(wide.shape or (1,))), ())
        elif not rowvar and (value is values[0] or wide.shape[0] != 1):
            # NumPy takes further variables in a single row as they are
            wide = transpose(wide)
        rows.append(wide)
    return concatenate(rows, 0)


@surface
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """The covariances of variables: a matrix, of a single variable a number.

    Those of complex numbers are of the first variable and of the conjugate of the second.

    Args:
        m: a matrix with a variable in each row, or a single one as a vector.
        y: further variables.
        rowvar: whether rows are variables; columns are if not.
        bias: divide by the number of observations n, not by n - 1.
        ddof: divide by n less this.
        fweights: how often each observation counts.
        aweights: how much each observation counts.
        dtype: that is computed in; integers and bools give float64 unless it is given.

    Raises:
        ShapeError: for tensors of more than two axes.
    """
    rows = _rows(m, y, switch(rowvar, "rowvar"))
    if dtype is not None:
        rows = converted(rows, as_dtype(dtype))
    less = whole(ddof, "ddof") if ddof is not None else 0 if switch(bias, "bias") else 1
    scale: Value | None = None
    for weights in (fweights, aweights):
        if weights is not None:
            one = converted(as_value(weights, rows), rows.dtype.part)
            scale = one if scale is None else scale * one
    if scale is None:
        total = size_beside(rows.shape[1], rows.dtype.part, rows)
        centred = rows - mean(rows, 1, True)
        freedom = total - less
        weighted = centred
    else:
        total = sum_(scale)
        center, _ = average(rows, 1, scale, returned=True, keepdims=True)
        centred = rows - center
        weighted = centred * scale
        # with weights of importance the observations are not independent (NumPy's formula)
        spent: Any = less
        if aweights is not None and less:
            importance = converted(as_value(aweights, rows), rows.dtype.part)
            spent = sum_(scale * importance) * less / total
        freedom = total - spent
    across = surface_function("conj")(transpose(centred))
    result = matmul(weighted, across) / maximum(freedom, 0)
    single = equal(result.shape[0], 1)
    return with_shape(result, (), ()) if single else result


@surface
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Value:
    """The correlations of variables, between -1 and 1; arguments are those of ``cov``.

    Of complex numbers both parts are between -1 and 1.
    """
    covariances = cov(x, y, rowvar, dtype=dtype)
    if not covariances.ndim:
        one: Value = covariances / covariances
        return one
    size = covariances.shape[0]
    variances = surface_function("real")(surface_function("diagonal")(covariances))
    deviations = surface_function("sqrt")(variances)
    scaled = covariances / with_shape(deviations, (size, 1), ())
    scaled = scaled / with_shape(deviations, (1, size), ())
    if scaled.dtype.is_complex:
        return joined(*(clip(part, -1.0, 1.0) for part in halves(scaled)))
    return clip(scaled, -1.0, 1.0)
