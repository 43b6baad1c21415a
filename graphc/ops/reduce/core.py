"""Reductions of one axis: the core ops.

Invariant: a core reduction drops attrs ``axis``; attrs ``order`` ("lanes" for the last axis, else
"chain") fixes the order in which floats are combined and survives every lowering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.dims.expressions import Dim, compare
from graphc.ir.dtypes import ALL, FLOATS, INTEGERS, DType, bool_, floating, int64, uint64
from graphc.ir.guard import Data
from graphc.ir.lowering import Combine, Reduction
from graphc.ir.op import Derivative, Domain, Flat, Linear, Numerics, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.reference_reductions import extreme
from graphc.ops.convert import converted
from graphc.ops.creation import iota_beside
from graphc.ops.declare import like
from graphc.ops.derive import of_one_input
from graphc.ops.guards import guarded, nonempty_pair, unproved

NUMBERS = (*INTEGERS, *FLOATS)


def reduced_shape(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """The shape without the axes, or with 1 in their places."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def require_elements(name: str, operand: TensorType, axes: Sequence[int]) -> None:
    """Extremes need an element.

    Raises:
        ShapeError: if a reduced axis is proved empty.
    """
    for axis in axes:
        if compare("eq", operand.shape[axis], 0):
            raise ShapeError(
                f"{name} of an empty axis {axis} has no value",
                where=caller(),
                hint="pad the axis, or reduce another one",
            )


def element_guards(name: str, value: Value, axes: Sequence[int]) -> Attributes:
    """The attribute that has axes of unknown size checked when the graph runs.

    Raises:
        ShapeError: if a reduced axis is proved empty.
    """
    require_elements(name, value.type, axes)
    guards: list[Data] = []
    for axis in axes:
        message = f"{name} of an empty axis {axis} of {{}} has no value"
        guards += unproved([nonempty_pair(value.shape[axis])], message, value.shape)
    return guarded(tuple(guards))


def require_dtype(name: str, operand: TensorType, dtypes: Sequence[DType]) -> None:
    """Raises DTypeError unless the dtype is one of those."""
    if operand.dtype not in dtypes:
        raise DTypeError(f"{name} does not take {operand.dtype}", hint="convert with astype")


def sum_reference(array: Any, **options: Any) -> Any:
    """np.sum in the array's dtype; float32 is summed in float64 and rounded once."""
    with np.errstate(all="ignore"):
        wide = np.float64 if floating(array.dtype) else array.dtype
        return np.asarray(np.sum(array, dtype=wide, **options)).astype(array.dtype)


def product_reference(array: Any, axis: Any, keepdims: Any = False) -> Any:
    """The product in the array's dtype, over axes of any number; integers wrap.

    Floats are multiplied in float64, with exponents of their own so that no partial product leaves
    the range, and rounded once.
    """
    with np.errstate(all="ignore"):
        if not floating(array.dtype):
            return np.asarray(np.prod(array, axis=axis, dtype=array.dtype, keepdims=keepdims))
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        last = np.moveaxis(array.astype(np.float64), axes, range(-len(axes), 0))
        kept = last.shape[: array.ndim - len(axes)]
        count = math.prod(last.shape[len(kept) :])
        terms, exponents = np.frexp(last.reshape((*kept, count)))
        while count != 1:
            one = np.full((*kept, 2 if count == 0 else count % 2), 0.5)
            terms = np.concatenate([terms, one], axis=-1)
            exponents = np.concatenate([exponents, (one * 2).astype(exponents.dtype)], axis=-1)
            terms, more = np.frexp(terms[..., ::2] * terms[..., 1::2])
            exponents = exponents[..., ::2] + exponents[..., 1::2] + more
            count = terms.shape[-1]
        result = np.ldexp(terms[..., 0], exponents[..., 0]).astype(array.dtype)
        return np.expand_dims(result, axes) if keepdims else np.asarray(result)


def extreme_reference(combine: Literal["minimum", "maximum"]) -> Callable[..., Any]:
    """np.min or np.max; NaN wins, +0 is above -0."""

    def reference(array: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return extreme(combine, np.asarray(array), **options)

    return reference


# --- derivatives, shared with the coarse ops of several axes -------------------------------------


def spread(value: Value, shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> Value:
    """A reduced value broadcast back over the axes it lost."""
    if not keepdims and axes:
        value = surface_function("reshape")(value, reduced_shape(shape, axes, True))
    result: Value = surface_function("broadcast_to")(value, tuple(shape))
    return result


def _axes(attrs: Attributes) -> tuple[tuple[int, ...], bool]:
    return ((attrs["axis"],), False) if "axis" in attrs else (attrs["axes"], attrs["keepdims"])


def _sum_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    return (spread(cotangent, inputs[0].shape, *_axes(attrs)),)


SUM_DERIVATIVE = Linear(_sum_transpose)


def _tied(value: Value, output: Value, attrs: Attributes) -> tuple[Value, Value]:
    """Which elements equal the extreme, and how many of them there are, spread."""
    axes, keepdims = _axes(attrs)
    mask = surface_function("equal")(value, spread(output, value.shape, axes, keepdims))
    count = surface_function("sum")(converted(mask, output.dtype), axis=axes, keepdims=keepdims)
    return mask, count


def _extreme_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """Ties share evenly; a NaN result passes nothing."""
    mask, count = _tied(value, output, attrs)
    share = spread(cotangent / count, value.shape, *_axes(attrs))
    result: Value = surface_function("where")(mask, share, 0)
    return result


def _extreme_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    mask, count = _tied(value, output, attrs)
    axes, keepdims = _axes(attrs)
    kept = surface_function("where")(mask, tangent, 0)
    result: Value = surface_function("sum")(kept, axis=axes, keepdims=keepdims) / count
    return result


EXTREME_DERIVATIVE = of_one_input(_extreme_jvp, _extreme_vjp)


def previous(value: Value, axis: int) -> Value:
    """Per element the one before it along the axis; the first one itself at the first."""
    # gathered, not sliced and joined: the size stays the same expression where it is symbolic
    number = iota_beside((value.shape[axis],), 0, int64, value)
    before = surface_function("maximum")(number - 1, 0)
    result: Value = surface_function("take")(value, before, axis)
    return result


def exclusive_product(value: Value, axis: int) -> Value:
    """Per element the product of all elements before it along the axis; 1 at the first."""
    shifted = previous(value, axis)
    along = tuple(value.shape[axis] if place == axis else 1 for place in range(value.ndim))
    first = surface_function("equal")(iota_beside(along, axis, int64, value), 0)
    shares = surface_function("where")(first, 1, shifted)
    result: Value = surface_function("cumprod")(shares, axis)
    return result


def _others(value: Value, axis: int) -> Value:
    """Per element the product of all others along the axis, right where elements are 0."""
    flip = surface_function("flip")
    after = flip(exclusive_product(flip(value, axis), axis), axis)
    result: Value = exclusive_product(value, axis) * after
    return result


def _product_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    axis = attrs["axis"]
    share = spread(cotangent, value.shape, (axis,), False)
    result: Value = surface_function("guarded_multiply")(share, _others(value, axis))
    return result


def _product_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    axis = attrs["axis"]
    terms = surface_function("guarded_multiply")(tangent, _others(value, axis))
    result: Value = surface_function("sum")(terms, axis=axis)
    return result


# --- the core reductions -------------------------------------------------------------------------


def sample(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    axis = int(rng.integers(3))
    shape = (3, 4, 5)
    values = rng.integers(0, 5, shape) if not element.is_float else rng.uniform(-4, 4, shape)
    return (values.astype(element.numpy),), {"axis": axis, "order": order_of(3, axis)}


def order_of(rank: int, axis: int) -> str:
    """How floats are combined: in lanes along the last axis, else one after the other."""
    return "lanes" if axis == rank - 1 else "chain"


def _core(
    name: str,
    doc: str,
    combine: Combine | Literal["deviations"],
    dtypes: tuple[DType, ...],
    reference: Callable[..., Any],
    derivative: Derivative,
    numerics: Numerics = "E",
) -> OpDef:
    result = int64 if combine in ("argmin", "argmax") else None

    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        (operand,) = inputs
        require_dtype(name, operand, dtypes)
        if combine in ("minimum", "maximum", "argmin", "argmax"):
            require_elements(name, operand, (attrs["axis"],))
        shape = reduced_shape(operand.shape, (attrs["axis"],), False)
        return [TensorType(result or operand.dtype, shape)]

    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=infer,
            reference=lambda array, axis, order, guards=(), **attrs: reference(
                np.asarray(array), axis=axis, **attrs
            ),
            derivative=derivative,
            lowering=Reduction(combine),
            numerics=numerics,
            domain=Domain(dtypes, example=sample),
        )
    )


reduce_sum_op = _core(
    "reduce_sum", "The sum along one axis, in the operand's dtype; 0 if it is empty.", "add",
    NUMBERS, sum_reference, SUM_DERIVATIVE, "R",
)  # fmt: skip
reduce_prod_op = _core(
    "reduce_prod", "The product along one axis, in the operand's dtype; 1 if it is empty.",
    "multiply", NUMBERS, product_reference, of_one_input(_product_jvp, _product_vjp), "R",
)  # fmt: skip
reduce_max_op = _core(
    "reduce_max", "The largest element along one axis; NaN wins, +0 above -0.", "maximum",
    ALL, extreme_reference("maximum"), EXTREME_DERIVATIVE,
)  # fmt: skip
reduce_min_op = _core(
    "reduce_min", "The smallest element along one axis; NaN wins, -0 below +0.", "minimum",
    ALL, extreme_reference("minimum"), EXTREME_DERIVATIVE,
)  # fmt: skip
reduce_any_op = _core(
    "reduce_any", "Whether one bool along the axis is true; false if it is empty.", "or",
    (bool_,), np.any, Flat(),
)  # fmt: skip
reduce_all_op = _core(
    "reduce_all", "Whether all bools along the axis are true; true if it is empty.", "and",
    (bool_,), np.all, Flat(),
)  # fmt: skip
reduce_and_op = _core(
    "reduce_and", "The bits that all integers along one axis have; all of them if it is empty.",
    "and", INTEGERS, np.bitwise_and.reduce, Flat(),
)  # fmt: skip
reduce_or_op = _core(
    "reduce_or", "The bits that one integer along one axis has; none if it is empty.", "or",
    INTEGERS, np.bitwise_or.reduce, Flat(),
)  # fmt: skip
reduce_xor_op = _core(
    "reduce_xor", "The bits that an odd number of elements along an axis has; none if it is empty.",
    "xor", (bool_, *INTEGERS), np.bitwise_xor.reduce, Flat(),
)  # fmt: skip
reduce_argmax_op = _core(
    "reduce_argmax", "The first position of the largest element along one axis; NaN wins.",
    "argmax", ALL, np.argmax, Flat(),
)  # fmt: skip
reduce_argmin_op = _core(
    "reduce_argmin", "The first position of the smallest element along one axis; NaN wins.",
    "argmin", ALL, np.argmin, Flat(),
)  # fmt: skip


# --- deviations ----------------------------------------------------------------------------------


def mean_reference(array: Any, axes: Sequence[int]) -> Any:
    """The mean over axes that are kept, also where the sum is beyond the range; NaN if empty."""
    count = math.prod(array.shape[axis] for axis in axes)
    total = np.divide(np.sum(array, axis=tuple(axes), keepdims=True), count)
    shares = np.sum(np.divide(array, count), axis=tuple(axes), keepdims=True)
    return np.where(np.isfinite(total), total, shares)


def _deviations_reference(array: Any, axis: int, scale: float = 1.0, shift: float = 0.0) -> Any:
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        center = mean_reference(wide, (axis,))
        squares = np.square((wide - center) * scale + shift)
        return np.asarray(np.sum(squares, axis=axis)).astype(array.dtype)


def _deviations_slope(value: Value, attrs: Attributes) -> Value:
    """Half the derivative by each element: what it differs from the mean."""
    result: Value = value - surface_function("mean")(value, attrs["axis"], True)
    scale = attrs.get("scale", 1.0)
    return result if scale == 1.0 else result * scale * scale


def _deviations_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    share = spread(cotangent, value.shape, (attrs["axis"],), False)
    slope = like(2, value) * _deviations_slope(value, attrs)
    result: Value = surface_function("guarded_multiply")(share, slope)
    return result


def _deviations_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    slope = like(2, value) * _deviations_slope(value, attrs)
    terms = surface_function("guarded_multiply")(tangent, slope)
    result: Value = surface_function("sum")(terms, axis=attrs["axis"])
    return result


reduce_deviations_op = _core(
    "reduce_deviations", "What elements along one axis differ from their mean, times attr scale "
    "and plus attr shift, squared and added up; 0 if it is empty.",
    "deviations",
    FLOATS, _deviations_reference, of_one_input(_deviations_jvp, _deviations_vjp), "R",
)  # fmt: skip


def widened(value: Value) -> Value:
    """Bools and small integers in 64 bits, as sums, products and running ones of NumPy."""
    if value.dtype.is_inexact:
        return value
    wide = uint64 if value.dtype.kind == "uint" else int64
    return converted(value, wide)
