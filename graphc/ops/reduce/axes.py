"""Reductions over any axes as users call them: sum, prod, max, min, any, all, argmax.

Invariant: these are coarse ops with attrs ``axes`` (ascending) and ``keepdims``; they decompose to
core reductions of one axis each, adjacent axes merged first and the innermost reduced first, so
that the order of summation depends on the reduced extents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, product
from graphc.ir.dtypes import ALL, DType, DTypeLike, bool_, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import Decompose
from graphc.ir.op import (
    ComplexRule,
    Derivative,
    Domain,
    Flat,
    Numerics,
    OpDef,
    ThroughDecomposition,
    register,
)
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.complex.parts import each_part
from graphc.ops.complex.reductions import product_in_pairs
from graphc.ops.convert import as_value, axes_of, axis_of, converted
from graphc.ops.guards import guarded
from graphc.ops.reduce.core import (
    EXTREME_DERIVATIVE,
    NUMBERS,
    SUM_DERIVATIVE,
    element_guards,
    extreme_reference,
    order_of,
    product_reference,
    reduce_all_op,
    reduce_any_op,
    reduce_argmax_op,
    reduce_argmin_op,
    reduce_max_op,
    reduce_min_op,
    reduce_prod_op,
    reduce_sum_op,
    reduced_shape,
    require_dtype,
    require_elements,
    sum_reference,
    widened,
)

Axis = int | Sequence[int] | None


def _groups(axes: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of adjacent axes as (first, one past the last)."""
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs and runs[-1][1] == axis:
            runs[-1] = (runs[-1][0], axis + 1)
        else:
            runs.append((axis, axis + 1))
    return runs


def are_neighbours(axes: Sequence[int]) -> bool:
    """Whether axes make up one that a single core op reduces."""
    return len(_groups(axes)) == 1


def reduce_axes(core: OpDef, value: Value, attrs: Attributes, **further: float) -> Value:
    """The reduction in core ops of one axis each, with these ``further`` attributes."""
    original, axes = value.shape, attrs["axes"]
    reshape = surface_function("reshape")
    merged: list[Dim] = []
    places: list[int] = []
    done = 0
    for start, stop in _groups(axes):
        merged.extend(original[done:start])
        places.append(len(merged))
        merged.append(product(original[start:stop]))
        done = stop
    merged.extend(original[done:])
    if len(merged) < len(original):
        value = reshape(value, tuple(merged))
    more: dict[str, Any] = {**guarded(attrs.get("guards", ())), **further}
    for axis in reversed(places):
        value = apply(core, value, axis=axis, order=order_of(value.ndim, axis), **more)
    if attrs["keepdims"] and axes:
        value = reshape(value, reduced_shape(original, axes, True))
    return value


def example_of_axes(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    """Some axes of three, kept or not."""
    chosen = tuple(axis for axis in range(3) if rng.integers(2))
    shape = (3, 4, 5)
    values = rng.uniform(-4, 4, shape) if element.is_float else rng.integers(0, 5, shape)
    return (values.astype(element.numpy),), {"axes": chosen, "keepdims": bool(rng.integers(2))}


def coarse(
    name: str,
    doc: str,
    dtypes: tuple[DType, ...],
    rule: Callable[[Value, Attributes], Value],
    reference: Callable[..., Any],
    derivative: Derivative,
    *,
    numerics: Numerics = "R",
    nonempty: bool = False,
    example: Callable[[Any, DType], tuple[Sequence[Any], dict[str, Any]]] = example_of_axes,
    of_complex: ComplexRule | None = None,
) -> OpDef:
    """Declares a reduction over attrs axes that ``rule`` decomposes; see the module's invariant."""

    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        (operand,) = inputs
        require_dtype(name, operand, dtypes)
        if nonempty:
            require_elements(name, operand, attrs["axes"])
        return [operand.with_shape(reduced_shape(operand.shape, attrs["axes"], attrs["keepdims"]))]

    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=infer,
            reference=lambda array, axes, **attrs: reference(np.asarray(array), axis=axes, **attrs),
            derivative=derivative,
            lowering=Decompose(lambda inputs, attrs: rule(inputs[0], attrs)),
            numerics=numerics,
            domain=Domain(dtypes, example=example),
            of_complex=of_complex,
        )
    )


def _over(core: OpDef) -> Callable[[Value, Attributes], Value]:
    return lambda value, attrs: reduce_axes(core, value, attrs)


def reduced(
    op: OpDef, value: Value, axis: Axis, keepdims: bool, *, nonempty: bool = False, **attrs: Any
) -> Value:
    """Applies a coarse reduction over the axes that the user names."""
    axes = axes_of(axis, value.ndim)
    if nonempty:
        attrs.update(element_guards(op.name, value, axes))
    return apply(op, value, axes=axes, keepdims=switch(keepdims, "keepdims"), **attrs)


# --- sums, products, extremes, truth -------------------------------------------------------------

sum_op = coarse(
    "sum", "The sum over attrs axes, in the operand's dtype; 0 if empty.",
    NUMBERS, _over(reduce_sum_op), sum_reference, SUM_DERIVATIVE, of_complex=each_part,
)  # fmt: skip
prod_op = coarse(
    "prod", "The product over attrs axes, in the operand's dtype; 1 if empty.",
    NUMBERS, _over(reduce_prod_op), product_reference, ThroughDecomposition(),
    of_complex=product_in_pairs,
)  # fmt: skip
max_op = coarse(
    "max", "The largest element over attrs axes; NaN wins, +0 above -0. Ties share the derivative "
    "evenly.",
    ALL, _over(reduce_max_op), extreme_reference("maximum"), EXTREME_DERIVATIVE,
    numerics="E", nonempty=True,
)  # fmt: skip
min_op = coarse(
    "min", "The smallest element over attrs axes; NaN wins, -0 below +0. Ties share the derivative "
    "evenly.",
    ALL, _over(reduce_min_op), extreme_reference("minimum"), EXTREME_DERIVATIVE,
    numerics="E", nonempty=True,
)  # fmt: skip
any_op = coarse(
    "any", "Whether one bool over attrs axes is true; false if empty.",
    (bool_,), _over(reduce_any_op), np.any, Flat(), numerics="E",
)  # fmt: skip
all_op = coarse(
    "all", "Whether all bools over attrs axes are true; true if empty.",
    (bool_,), _over(reduce_all_op), np.all, Flat(), numerics="E",
)  # fmt: skip


def _accumulated(x: Any, dtype: DTypeLike | None) -> Value:
    value = as_value(x)
    return widened(value) if dtype is None else converted(value, as_dtype(dtype))


@surface
def sum_(
    x: Any, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Value:
    """The sum over an axis, several, or all (None); of an empty axis 0.

    Bools and small integers are summed in 64 bits and wrap; ``dtype`` converts first.
    """
    return reduced(sum_op, _accumulated(x, dtype), axis, keepdims)


@surface
def prod(
    x: Any, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Value:
    """The product over an axis, several, or all (None); of an empty axis 1.

    Bools and small integers are multiplied in 64 bits and wrap; ``dtype`` converts first.
    """
    return reduced(prod_op, _accumulated(x, dtype), axis, keepdims)


@surface
def max_(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The largest element over an axis, several, or all (None); NaN wins.

    Raises:
        ShapeError: if an axis is empty: here where it is known, else when the graph runs.
    """
    return reduced(max_op, as_value(x), axis, keepdims, nonempty=True)


@surface
def min_(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The smallest element over an axis, several, or all (None); NaN wins.

    Raises:
        ShapeError: if an axis is empty: here where it is known, else when the graph runs.
    """
    return reduced(min_op, as_value(x), axis, keepdims, nonempty=True)


@surface
def any_(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """Whether one element is true (not 0) over an axis, several, or all (None), as bool."""
    return reduced(any_op, converted(as_value(x), bool_), axis, keepdims)


@surface
def all_(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """Whether all elements are true (not 0) over an axis, several, or all (None), as bool."""
    return reduced(all_op, converted(as_value(x), bool_), axis, keepdims)


# --- positions -----------------------------------------------------------------------------------


def _position_op(name: str, core: OpDef, function: Any) -> OpDef:
    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        (operand,) = inputs
        require_elements(name, operand, attrs["axes"])
        shape = reduced_shape(operand.shape, attrs["axes"], attrs["keepdims"])
        return [TensorType(int64, shape)]

    def example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
        arrays, attrs = example_of_axes(rng, element)
        return arrays, {**attrs, "axes": (int(rng.integers(3)),)}

    return register(
        OpDef(
            name=name,
            doc="The first position of the extreme along the one axis in attrs axes; NaN wins.",
            infer=infer,
            reference=lambda array, axes, keepdims, **attrs: function(
                np.asarray(array), axis=axes[0], keepdims=keepdims
            ),
            derivative=Flat(),
            lowering=Decompose(lambda inputs, attrs: reduce_axes(core, inputs[0], attrs)),
            domain=Domain(ALL, example=example),
        )
    )


argmax_op = _position_op("argmax", reduce_argmax_op, np.argmax)
argmin_op = _position_op("argmin", reduce_argmin_op, np.argmin)


def _position(op: OpDef, x: Any, axis: int | None, keepdims: bool) -> Value:
    value = as_value(x)
    keeps = switch(keepdims, "keepdims")
    if axis is not None:
        axes = (axis_of(axis, value.ndim),)
        guards = element_guards(op.name, value, axes)
        return apply(op, value, axes=axes, keepdims=keeps, **guards)
    reshape = surface_function("reshape")
    flat = reshape(value, (-1,))
    guards = element_guards(op.name, flat, (0,))
    found = apply(op, flat, axes=(0,), keepdims=False, **guards)
    if keeps:
        result: Value = reshape(found, (1,) * value.ndim)
        return result
    return found


@surface
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
    """The position (int64) of the largest element along an axis, or in row-major order (None).

    The first NaN wins, else the first of ties. The derivative is zero.

    Raises:
        ShapeError: if the axis is empty: here where it is known, else when the graph runs.
    """
    return _position(argmax_op, x, axis, keepdims)


@surface
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
    """The position (int64) of the smallest element along an axis, or in row-major order (None).

    The first NaN wins, else the first of ties. The derivative is zero.

    Raises:
        ShapeError: if the axis is empty: here where it is known, else when the graph runs.
    """
    return _position(argmin_op, x, axis, keepdims)
