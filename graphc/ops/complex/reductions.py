"""Reductions, running products and matrix products of complex numbers, by their parts.

Products of many elements are taken in pairs, level by level, since no kernel multiplies complex
elements one after the other; so the length of the axis must be known.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.errors import UnsupportedError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply_to
from graphc.ir.dims.expressions import Dim
from graphc.ir.op import OpDef
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, joined


def complex_contraction(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """Four real matrix products."""
    (a, b), (c, d) = map(halves, operands)

    def times(left: Value, right: Value) -> Value:
        return apply_to(op, (left, right), attrs)

    return joined(times(a, c) - times(b, d), times(a, d) + times(b, c))


def complex_variance(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The mean square of distances from the mean: the sum of both parts' variances; real."""
    re, im = (apply_to(op, (part,), attrs) for part in halves(operands[0]))
    return re + im


def complex_deviation(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The root of the variance, without overflow of squares."""
    result: Value = surface_function("hypot")(
        *(apply_to(op, (part,), attrs) for part in halves(operands[0]))
    )
    return result


def _length(size: Dim, name: str) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(
            f"{name} of complex numbers over an axis of unknown size",
            where=caller(),
            hint="give the placeholder a size, or take gx.exp of a sum of logarithms",
        )
    return size


def _between(value: Value, start: int, stop: int) -> Value:
    result: Value = value[..., start:stop]
    return result


def product_in_pairs(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """Halves of the axis times each other until one element is left; 1 if there is none."""
    (value,), axes = operands, attrs["axes"]
    reshape, join = surface_function("reshape"), surface_function("concatenate")
    kept = [axis for axis in range(value.ndim) if axis not in axes]
    count = 1
    for axis in axes:
        count *= _length(value.shape[axis], op.name)
    shape = tuple(value.shape[axis] for axis in kept)
    moved = surface_function("transpose")(value, [*kept, *axes])
    row: Value = reshape(moved, (*shape, count))
    if not count:
        row, count = surface_function("ones")((*shape, 1), value.dtype), 1
    while count > 1:
        half = count // 2
        pairs = _between(row, 0, half) * _between(row, half, 2 * half)
        row = join([pairs, _between(row, 2 * half, count)], -1) if count % 2 else pairs
        count = half + count % 2
    if attrs["keepdims"]:
        shape = tuple(1 if n in axes else dim for n, dim in enumerate(value.shape))
    result: Value = reshape(row, shape)
    return result


def running_product(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """Each element times the one 1, 2, 4 … places before it (Hillis and Steele, 1986)."""
    (value,), axis = operands, attrs["axis"]
    count = _length(value.shape[axis], op.name)
    result: Value = surface_function("moveaxis")(value, axis, -1)
    step = 1
    while step < count:
        later = _between(result, 0, count - step) * _between(result, step, count)
        result = surface_function("concatenate")([_between(result, 0, step), later], -1)
        step *= 2
    back: Value = surface_function("moveaxis")(result, -1, axis)
    return back


__all__ = [
    "complex_contraction",
    "complex_deviation",
    "complex_variance",
    "product_in_pairs",
    "running_product",
]
