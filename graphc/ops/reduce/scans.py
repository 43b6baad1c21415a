"""Running reductions along one axis: sums, products, extremes and logarithms of sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS, DType, DTypeLike, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import Combine, Running, Scan
from graphc.ir.op import ComplexRule, Derivative, Domain, Linear, Numerics, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.arguments import switch
from graphc.ops.complex.parts import each_part
from graphc.ops.complex.reductions import running_product
from graphc.ops.convert import as_float, as_value, axis_of, converted
from graphc.ops.creation import iota_beside
from graphc.ops.declare import like
from graphc.ops.derive import of_one_input
from graphc.ops.guards import show
from graphc.ops.indexing.scatter import scatter_along_op
from graphc.ops.reduce.core import (
    NUMBERS,
    exclusive_product,
    previous,
    require_dtype,
    sample,
    widened,
)


def _scan_reference(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(array: Any, axis: int) -> Any:
        values = np.asarray(array)
        with np.errstate(all="ignore"):
            return function(values, axis=axis, dtype=values.dtype)

    return reference


def _cumsum_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    flip, axis = surface_function("flip"), attrs["axis"]
    return (flip(cumsum(flip(cotangent, axis), axis), axis),)


def _jacobian(value: Value, axis: int) -> Value:
    """d cumprod(x)[i] / d x[j] as [..., j, ..., i] over the scanned axis, moved to the end.

    Column j is the product of the elements before j, times the running product of those after
    j: no division, so zeros are right. Its size is the square of the axis: there is no linear
    scan of products that stays right at zeros.
    """
    expand = surface_function("expand_dims")
    rank, size = value.ndim, value.shape[axis]
    last = surface_function("swapaxes")(value, axis, rank - 1)
    rows = iota_beside((size, size), 0, int64, value)
    columns = iota_beside((size, size), 1, int64, value)
    later = columns > rows
    factors = surface_function("where")(later, expand(last, rank - 1), like(1, value))
    before = expand(exclusive_product(last, rank - 1), rank)
    running = before * cumprod(factors, rank)
    result: Value = surface_function("where")(columns >= rows, running, 0)
    return result


def _cumprod_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    swap, rank, axis = surface_function("swapaxes"), value.ndim, attrs["axis"]
    row = surface_function("expand_dims")(swap(cotangent, axis, rank - 1), rank - 1)
    terms = row * _jacobian(value, axis)
    result: Value = swap(surface_function("sum")(terms, axis=rank), axis, rank - 1)
    return result


def _cumprod_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    swap, rank, axis = surface_function("swapaxes"), value.ndim, attrs["axis"]
    column = surface_function("expand_dims")(swap(tangent, axis, rank - 1), rank)
    terms = column * _jacobian(value, axis)
    result: Value = swap(surface_function("sum")(terms, axis=rank - 1), axis, rank - 1)
    return result


def _scan_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    arrays, attrs = sample(rng, element)
    return arrays, {"axis": attrs["axis"]}


def _scan(
    name: str,
    doc: str,
    combine: Running,
    reference: Callable[..., Any],
    derivative: Derivative,
    numerics: Numerics = "R",
    dtypes: tuple[DType, ...] = NUMBERS,
    of_complex: ComplexRule | None = None,
) -> OpDef:
    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        require_dtype(name, inputs[0], dtypes)
        return [inputs[0]]

    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=infer,
            reference=reference,
            derivative=derivative,
            lowering=Scan(combine),
            numerics=numerics,
            domain=Domain(dtypes, example=_scan_example),
            of_complex=of_complex,
        )
    )


cumsum_op = _scan("cumsum", "Running sums along attrs axis, one after the other.", "add",
                  _scan_reference(np.cumsum), Linear(_cumsum_transpose),
                  of_complex=each_part)  # fmt: skip
cumprod_op = _scan("cumprod", "Running products along attrs axis, one after the other.", "multiply",
                   _scan_reference(np.cumprod),
                   of_one_input(_cumprod_jvp, _cumprod_vjp),
                   of_complex=running_product)  # fmt: skip


def _extreme_reference(combine: Combine) -> Callable[..., Any]:
    """NumPy's accumulate leaves open which of two zeros is the greater one; the primitive says."""

    def reference(array: Any, axis: int) -> Any:
        rows = np.moveaxis(np.array(array), axis, 0)
        for n in range(1, len(rows)):
            rows[n] = PRIMITIVES[combine].reference(rows[n - 1], rows[n])
        return np.moveaxis(rows, 0, axis)

    return reference


def _holders(output: Value, axis: int) -> Value:
    """Of each running extreme the place of the element that it is: the first of equal ones.

    A record is where the extreme changes; the place of the last record is a running maximum.
    """
    places = iota_beside(output.shape, axis, int64, output)
    before = previous(output, axis)
    # NaN stays the extreme, and is no new one
    stays = (output == before) | ((output != output) & (before != before))
    return cummax(surface_function("where")(stays, 0, places), axis)


def _extreme_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    axis = attrs["axis"]
    zeros = surface_function("zeros_like")(value)
    holders = _holders(output, axis)
    return apply(scatter_along_op, zeros, holders, cotangent, axis=axis)


def _extreme_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    axis = attrs["axis"]
    result: Value = surface_function("take_along_axis")(tangent, _holders(output, axis), axis)
    return result


cummax_op = _scan("cummax", "The greatest element so far along attrs axis; NaN from the first on.",
                  "maximum", _extreme_reference("maximum"),
                  of_one_input(_extreme_jvp, _extreme_vjp), "E")  # fmt: skip
cummin_op = _scan("cummin", "The least element so far along attrs axis; NaN from the first on.",
                  "minimum", _extreme_reference("minimum"),
                  of_one_input(_extreme_jvp, _extreme_vjp), "E")  # fmt: skip


# --- logarithms of sums --------------------------------------------------------------------------


def _logcumsumexp_reference(array: Any, axis: int) -> Any:
    values = np.asarray(array)
    wide = values.astype(np.promote_types(values.dtype, np.float64))
    with np.errstate(all="ignore"):
        return np.logaddexp.accumulate(wide, axis=axis).astype(values.dtype)


def _shares(terms: Value, value: Value, axis: int, backwards: bool) -> Value:
    """The sums of e^(terms), one side of each place, times e^(value), without overflow."""
    flip = surface_function("flip")
    if backwards:
        terms = flip(terms, axis)
    sums = logcumsumexp(terms, axis)
    if backwards:
        sums = flip(sums, axis)
    result: Value = surface_function("exp")(sums + value)
    return result


def _weighted(weights: Value, others: Value, value: Value, axis: int, backwards: bool) -> Value:
    """Sums of weights of either sign times e^(others), times e^(value).

    Signs apart, weights are logarithms too, so that nothing overflows before it cancels.
    """
    log, maximum = surface_function("log"), surface_function("maximum")
    parts = [
        _shares(log(maximum(side, 0)) + others, value, axis, backwards)
        for side in (weights, -weights)
    ]
    return parts[0] - parts[1]


def _finite(output: Value) -> Value:
    """-x, but for a row of -inf so far 0, as its shares are 0 whatever they are multiplied by."""
    empty = surface_function("equal")(output, -math.inf)
    result: Value = surface_function("where")(empty, 0, -output)
    return result


def _logcumsumexp_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    return _weighted(cotangent, _finite(output), value, attrs["axis"], True)


def _logcumsumexp_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    return _weighted(tangent, value, _finite(output), attrs["axis"], False)


logcumsumexp_op = _scan(
    "logcumsumexp", "Running log(sum(exp(x))) along attrs axis, one after the other, without "
    "overflow.", "logaddexp", _logcumsumexp_reference,
    of_one_input(_logcumsumexp_jvp, _logcumsumexp_vjp), dtypes=FLOATS,
)  # fmt: skip


def _scanned(op: OpDef, value: Value, axis: int | None) -> Value:
    if axis is None:
        value, axis = surface_function("reshape")(value, (-1,)), 0
    return apply(op, value, axis=axis_of(axis, value.ndim))


@surface
def cumsum(x: Any, axis: int | None = None) -> Value:
    """Running sums along an axis, of all elements in row-major order where it is None.

    Small integers widen to 64 bits and wrap.
    """
    return _scanned(cumsum_op, widened(as_value(x)), axis)


@surface
def cumprod(x: Any, axis: int | None = None) -> Value:
    """Running products along an axis, of all elements in row-major order where it is None.

    Small integers widen to 64 bits and wrap. The derivative is right where elements are 0 and
    needs memory for the square of the axis.
    """
    return _scanned(cumprod_op, widened(as_value(x)), axis)


@surface
def cumulative_sum(
    x: Any,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Value:
    """Running sums along an axis, which a vector need not name.

    Args:
        x: numbers; small integers widen to 64 bits and wrap.
        axis: along which.
        dtype: converts first.
        include_initial: whether a 0 comes first.

    Raises:
        ShapeError: for a tensor of several axes, or of none, without an axis.
    """
    return _cumulative("cumulative_sum", cumsum_op, x, axis, dtype, include_initial, 0)


@surface
def cumulative_prod(
    x: Any,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Value:
    """Running products along an axis, which a vector need not name; see ``cumulative_sum``.

    With ``include_initial`` a 1 comes first.
    """
    return _cumulative("cumulative_prod", cumprod_op, x, axis, dtype, include_initial, 1)


def _cumulative(
    name: str,
    op: OpDef,
    x: Any,
    axis: int | None,
    dtype: DTypeLike | None,
    include_initial: bool,
    first: int,
) -> Value:
    value = as_value(x)
    if axis is None and value.ndim != 1:
        raise ShapeError(f"{name} of {show(value.shape)}", where=caller(), hint="give an axis")
    place = axis_of(0 if axis is None else axis, value.ndim)
    value = widened(value) if dtype is None else converted(value, as_dtype(dtype))
    result = _scanned(op, value, place)
    if not switch(include_initial, "include_initial"):
        return result
    widths = [(int(other == place), 0) for other in range(value.ndim)]
    padded: Value = surface_function("pad")(result, widths, constant_values=first)
    return padded


@surface
def cummax(x: Any, axis: int | None = None) -> Value:
    """The greatest element so far, as ``np.maximum.accumulate``; keeps the dtype.

    Args:
        x: numbers.
        axis: along which it runs; None for all elements in row-major order.

    NaN stays from the first one on. The gradient goes to the element that is the greatest, to the
    first of equal ones.
    """
    return _scanned(cummax_op, as_value(x), axis)


@surface
def cummin(x: Any, axis: int | None = None) -> Value:
    """The least element so far, as ``np.minimum.accumulate``; see ``cummax``."""
    return _scanned(cummin_op, as_value(x), axis)


@surface
def logcumsumexp(x: Any, axis: int | None = None) -> Value:
    """log(sum(exp(x))) of the elements so far, without overflow; integers and bools give float64.

    Args:
        x: numbers.
        axis: along which it runs; None for all elements in row-major order.

    The derivative is NaN where an element so far is inf.
    """
    return _scanned(logcumsumexp_op, as_float(x), axis)
