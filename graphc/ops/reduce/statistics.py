"""Means, variances and logsumexp: reductions that are more than one combination.

Invariant: variances are of deviations from the mean or a number near it, and logsumexp is shifted
by the largest element, so that neither cancels nor overflows; integers and bools count as float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.dims.expressions import Dim, dim_max, product
from graphc.ir.dtypes import FLOATS, DType, float64
from graphc.ir.op import ThroughDecomposition
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.complex.parts import each_part
from graphc.ops.complex.reductions import complex_deviation, complex_variance
from graphc.ops.convert import as_float, size_beside
from graphc.ops.declare import like
from graphc.ops.derive import of_one_input
from graphc.ops.pointwise.arithmetic import guarded_multiply
from graphc.ops.reduce.axes import (
    Axis,
    are_neighbours,
    coarse,
    example_of_axes,
    reduce_axes,
    reduced,
    sum_,
)
from graphc.ops.reduce.core import mean_reference, reduce_deviations_op, reduce_max_op, spread
from graphc.ops.reduce.scaled_norms import root_of_squares, scales, square_of


def _count(value: Value, axes: Sequence[int]) -> Dim:
    return product(value.shape[axis] for axis in axes)


def _mean_rule(value: Value, attrs: Attributes) -> Value:
    total = sum_(value, attrs["axes"], attrs["keepdims"])
    return total / size_beside(_count(value, attrs["axes"]), value.dtype, value)


def _mean_reference(array: Any, axis: Any, keepdims: bool) -> Any:
    with np.errstate(all="ignore"):
        total = array.sum(axis=axis, keepdims=keepdims, dtype=np.float64)
        count = math.prod(array.shape[place] for place in axis)
        return np.asarray(np.divide(total, count)).astype(array.dtype)


mean_op = coarse(
    "mean", "The sum over attrs axes divided by the number of elements; NaN if empty.",
    FLOATS, _mean_rule, _mean_reference, ThroughDecomposition(), of_complex=each_part,
)  # fmt: skip


@surface
def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The mean over an axis, several, or all (None); NaN if empty.

    Integers and bools give float64.
    """
    return reduced(mean_op, as_float(x), axis, keepdims)


def _freedom(value: Value, attrs: Attributes) -> Value:
    """The divisor of the variance, never below 0."""
    count, ddof = _count(value, attrs["axes"]), attrs["ddof"]
    if isinstance(ddof, int):
        return size_beside(dim_max(count - ddof, 0), value.dtype, value)
    left = size_beside(count, value.dtype, value) - ddof
    result: Value = surface_function("maximum")(left, 0)
    return result


def _taken(ddof: Any) -> int | float:
    """How many degrees of freedom are not there: a whole number mostly."""
    taken = number(ddof, "ddof")
    return int(taken) if taken.is_integer() else taken


def _var_rule(value: Value, attrs: Attributes) -> Value:
    """One pass where the axes are neighbours."""
    if not are_neighbours(attrs["axes"]):
        return two_pass_variance(value, attrs)
    return reduce_axes(reduce_deviations_op, value, attrs) / _freedom(value, attrs)


def two_pass_variance(value: Value, attrs: Attributes) -> Value:
    """The mean, then that of squared deviations, with attrs ``axes``, ``keepdims`` and ``ddof``.

    Where deviations are computed with in any case, these two passes cost no more than one.
    """
    deviation = value - mean(value, attrs["axes"], True)
    total = sum_(deviation * deviation, attrs["axes"], attrs["keepdims"])
    return total / _freedom(value, attrs)


def _std_rule(value: Value, attrs: Attributes) -> Value:
    """The root of the variance, of scaled deviations where squares would leave the range."""
    neighbours = are_neighbours(attrs["axes"])
    deviation = None if neighbours else value - mean(value, attrs["axes"], True)

    def scaled(factor: float, shift: float) -> Value:
        if deviation is None:
            total = reduce_axes(reduce_deviations_op, value, attrs, scale=factor, shift=shift)
        else:
            squares = square_of(deviation, factor, shift)
            total = sum_(squares, attrs["axes"], attrs["keepdims"])
        return total / _freedom(value, attrs)

    variance = var(value, attrs["axes"], attrs["keepdims"], attrs["ddof"])
    return root_of_squares(variance, scaled, together=False)


def _std_slope(value: Value, output: Value, attrs: Attributes) -> Value:
    """d std / d x, from the finished result: squares of deviations may leave the range."""
    deviation = value - mean(value, attrs["axes"], True)
    spreaded = spread(output, value.shape, attrs["axes"], attrs["keepdims"])
    return deviation / spreaded / _freedom(value, attrs)


def _std_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    share = spread(cotangent, value.shape, attrs["axes"], attrs["keepdims"])
    return guarded_multiply(share, _std_slope(value, output, attrs))


def _std_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    terms = guarded_multiply(tangent, _std_slope(value, output, attrs))
    return sum_(terms, attrs["axes"], attrs["keepdims"])


def _var_slope(value: Value, attrs: Attributes) -> Value:
    """d var / d x."""
    deviation = value - mean(value, attrs["axes"], True)
    return deviation * (like(2, value) / _freedom(value, attrs))


def _var_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    share = spread(cotangent, value.shape, attrs["axes"], attrs["keepdims"])
    return guarded_multiply(share, _var_slope(value, attrs))


def _var_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    terms = guarded_multiply(tangent, _var_slope(value, attrs))
    return sum_(terms, attrs["axes"], attrs["keepdims"])


def _var_reference(array: Any, axis: Any, keepdims: bool, ddof: float) -> Any:
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        count = math.prod(array.shape[place] for place in axis)
        center = mean_reference(wide, axis)
        total = np.square(wide - center).sum(axis=axis, keepdims=keepdims)
        return np.asarray(np.divide(total, max(count - ddof, 0))).astype(array.dtype)


def _std_reference(array: Any, **options: Any) -> Any:
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        variance, bounds = _var_reference(wide, **options), scales(float64)
        root = np.sqrt(variance)
        for far, factor in ((np.isinf(variance), bounds.down), (variance < bounds.low, bounds.up)):
            if far.any():
                scaled = _var_reference(wide * factor, **options)
                root = np.where(far, np.sqrt(scaled) / factor, root)
        return np.asarray(root).astype(array.dtype)


def _ddof_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    arrays, attrs = example_of_axes(rng, element)
    # without axes every deviation is 0, where std has no derivative
    ddof = (0, 1, 0.5)[int(rng.integers(3))]
    return arrays, {**attrs, "axes": attrs["axes"] or (1,), "ddof": ddof}


var_op = coarse(
    "var", "The sum of squared deviations from the mean over attrs axes, divided by the count less "
    "attrs ddof.", FLOATS, _var_rule, _var_reference, of_one_input(_var_jvp, _var_vjp),
    example=_ddof_example,
    of_complex=complex_variance,
)  # fmt: skip
std_op = coarse(
    "std", "The square root of var, right where that leaves the range.", FLOATS,
    _std_rule, _std_reference, of_one_input(_std_jvp, _std_vjp), example=_ddof_example,
    of_complex=complex_deviation,
)  # fmt: skip


@surface
def var(x: Any, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Value:
    """The variance over an axis, several, or all (None), divided by n - ddof.

    Integers and bools give float64. Where n <= ddof the result is inf or NaN, as in NumPy.
    """
    return reduced(var_op, as_float(x), axis, keepdims, ddof=_taken(ddof))


@surface
def std(x: Any, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Value:
    """The square root of ``var``."""
    return reduced(std_op, as_float(x), axis, keepdims, ddof=_taken(ddof))


# --- logsumexp -----------------------------------------------------------------------------------


def finite_shift(largest: Value) -> Value:
    """What a row with this largest element is shifted by before it is exponentiated.

    Beside an infinite element the largest number makes nothing of all others, as it should; a row
    that is -inf throughout stays.
    """
    where, equal = surface_function("where"), surface_function("equal")
    top = largest.dtype.format.largest
    bounded = where(surface_function("isfinite")(largest), largest, like(0, largest))
    result: Value = where(equal(largest, math.inf), like(top, largest), bounded)
    return result


def finite_shift_reference(largest: Any) -> Any:
    """``finite_shift`` in NumPy."""
    top = np.where(np.isposinf(largest), np.finfo(largest.dtype).max, 0)
    return np.where(np.isfinite(largest), largest, top)


def _logsumexp_rule(value: Value, attrs: Attributes) -> Value:
    """Shifted by the largest element, so that nothing overflows.

    A row that turns out to have no elements has none, which is no error here.
    """
    axes = attrs["axes"]
    if any(value.shape[axis] == 0 for axis in axes):
        nothing: Value = surface_function("log")(sum_(value, axes, attrs["keepdims"]))
        return nothing
    largest = reduce_axes(reduce_max_op, value, {"axes": axes, "keepdims": True})
    shift = finite_shift(largest)
    total = sum_(surface_function("exp")(value - shift), axes, attrs["keepdims"])
    if not attrs["keepdims"]:
        shift = surface_function("reshape")(shift, total.shape)
    result: Value = surface_function("log")(total) + shift
    return result


def shares_of_infinite(value: Value, axes: Sequence[int], shares: Value) -> Value:
    """The shares of a row in its logsumexp, evenly among infinite elements where there are such.

    That is what ``max`` gives at ties, and of a single infinite element the limit, where a
    quotient of infinities would be NaN.
    """
    where = surface_function("where")
    infinite = surface_function("equal")(value, math.inf)
    one = where(infinite, like(1, value), like(0, value))
    result: Value = where(infinite, like(1, value) / sum_(one, axes, True), shares)
    return result


def _shares(value: Value, output: Value, attrs: Attributes) -> Value:
    """softmax(x), from the finished result; 0 for a row of -inf."""
    where = surface_function("where")
    base = where(surface_function("equal")(output, -math.inf), 0, output)
    spreaded = spread(base, value.shape, attrs["axes"], attrs["keepdims"])
    shares = surface_function("exp")(value - spreaded)
    return shares_of_infinite(value, attrs["axes"], shares)


def _logsumexp_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    share = spread(cotangent, value.shape, attrs["axes"], attrs["keepdims"])
    return guarded_multiply(share, _shares(value, output, attrs))


def _logsumexp_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    terms = guarded_multiply(tangent, _shares(value, output, attrs))
    return sum_(terms, attrs["axes"], attrs["keepdims"])


def _logsumexp_reference(array: Any, axis: Any, keepdims: bool) -> Any:
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        largest = np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
        shift = finite_shift_reference(largest)
        total = np.log(np.sum(np.exp(wide - shift), axis=axis, keepdims=True)) + shift
        return np.asarray(total if keepdims else np.squeeze(total, axis)).astype(array.dtype)


logsumexp_op = coarse(
    "logsumexp", "log(sum(exp(x))) over attrs axes without overflow; a row of -inf, or without "
    "elements, gives -inf, with derivative 0.", FLOATS, _logsumexp_rule, _logsumexp_reference,
    of_one_input(_logsumexp_jvp, _logsumexp_vjp),
)  # fmt: skip


@surface
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """log(sum(exp(x))) without overflow, -inf of no elements; integers and bools give float64."""
    return reduced(logsumexp_op, as_float(x), axis, keepdims)
