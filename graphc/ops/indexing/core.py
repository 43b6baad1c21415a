"""Picking elements by index tensors.

Core ops: ``take``, ``take_along_axis``, ``ravel_index``. Invariant: an index counts from the end if
negative, unless attrs ``wraps`` is False, and is checked before it is used: out of range raises
IndexRangeError. Where attrs has ``drop`` it names no place instead, and gives 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, product
from graphc.ir.dtypes import ALL, DType, int64
from graphc.ir.lowering import Element, ElementBuilder, Scalar
from graphc.ir.op import Domain, Flat, Linear, OpDef, lookup, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import size_beside
from graphc.ops.guards import Guards, check_size, guarded, show, some_guard
from graphc.ops.indexing.places import (
    checked,
    differ,
    located,
    places_in,
    require_indices,
    taken_shape,
)
from graphc.ops.move.shape import broadcast_to, sample
from graphc.ops.source import constant_beside


def picking(attrs: Attributes) -> dict[str, Any]:
    """The attributes that say which place an index names, for the op that goes the other way."""
    return {name: attrs[name] for name in ("axis", "wraps", "drop") if name in attrs}


def outside(
    attrs: Attributes, axis: int, size: Dim, count: Dim, name: str, guards: Guards = ()
) -> dict[str, Any]:
    """The guards of a node that looks up ``count`` indices: where they aren't dropped, the axis
    has an element."""
    if "drop" in attrs:
        return guarded(guards)
    return guarded((*guards, *some_guard(name, axis, size, count)))


def _picked(
    b: ElementBuilder, attrs: Attributes, data: TensorType, number: Scalar, axis: int,
    before: Sequence[Scalar], behind: Sequence[Scalar],
) -> Scalar:  # fmt: skip
    """The element of the first input where a number is the index of an axis."""
    bound, wraps = data.shape[axis], attrs.get("wraps", True)
    if "drop" not in attrs:
        place = b.checked_index(number, bound, axis, wraps)
        return b.load(0, [*before, place, *behind])
    place, inside = located(b, number, bound, wraps)
    return b.load_if(inside, 0, [*before, place, *behind], b.constant(0, data.dtype))


def _padded(x: Any, axis: int) -> Any:
    """An array whose axis has an element that an index which names none may read."""
    if x.shape[axis]:
        return x
    return np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)


def _sample_indices(random: Any, *shape: int) -> Any:
    return random.integers(-4, 4, shape)


# --- take ----------------------------------------------------------------------------------------


def _take_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    data, indices = inputs
    require_indices("take", indices)
    shape = taken_shape(data.shape, indices.shape, attrs["axis"])
    check_size(shape, [data.shape, indices.shape])
    return [data.with_shape(shape)]


def _take_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    data, indices = inputs
    axis: int = attrs["axis"]
    end = axis + indices.rank
    number = b.load(1, index[axis:end])
    return _picked(b, attrs, data, number, axis, index[:axis], index[end:])


def _take_reference(
    x: Any, indices: Any, *, axis: int, wraps: bool = True, drop: bool = False, guards: Any = ()
) -> Any:
    if not drop:
        return np.take(x, checked(indices, x.shape[axis], axis, wraps), axis)
    places, inside = places_in(indices, x.shape[axis], wraps)
    taken = np.take(_padded(x, axis), places, axis)
    there = inside.reshape((*(1,) * axis, *inside.shape, *(1,) * (x.ndim - axis - 1)))
    return np.where(there, taken, np.zeros((), x.dtype))


def _zeros(like: Value, beside: Value) -> Value:
    return broadcast_to(constant_beside(0, beside.dtype, beside), like.shape)


def _take_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    data, indices = inputs
    base = _zeros(data, cotangent)
    return [apply(lookup("scatter_add"), base, indices, cotangent, **picking(attrs)), None]


def _take_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return [sample(random, dtype, 3, 4, 2), _sample_indices(random, 2, 5)], {"axis": 1}


take_op = register(
    OpDef(
        name="take",
        doc=(
            "The elements of the first input at the places along ``axis`` that the second, an "
            "integer tensor of any rank, names; its axes stand where the axis was."
        ),
        infer=_take_type,
        reference=_take_reference,
        derivative=Linear(_take_transpose, fixed=(1,)),
        lowering=Element(_take_rule),
        of_complex=each_part,
        may_fail=True,
        domain=Domain(dtypes=ALL, example=_take_example),
    )
)


def taken(data: Value, indices: Value, axis: int, guards: Guards = (), **attrs: Any) -> Value:
    """``take`` of ready operands; ``attrs`` are ``wraps`` and ``drop``."""
    held = outside(attrs, axis, data.shape[axis], product(indices.shape), "take", guards)
    return apply(take_op, data, indices, axis=axis, **attrs, **held)


# --- take_along_axis -----------------------------------------------------------------------------


def along_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    """The type of ``take_along_axis``."""
    data, indices = inputs
    axis: int = attrs["axis"]
    require_indices("take_along_axis", indices)
    expected = taken_shape(data.shape, indices.shape[axis : axis + 1], axis)
    if differ(expected, indices.shape):
        raise ShapeError(
            f"take_along_axis: data {show(data.shape)} and indices {show(indices.shape)} differ "
            f"beside axis {axis}"
        )
    return [data.with_shape(indices.shape)]


def _along_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    axis: int = attrs["axis"]
    number = b.load(1, index)
    return _picked(b, attrs, inputs[0], number, axis, index[:axis], index[axis + 1 :])


def _along_reference(
    x: Any, indices: Any, *, axis: int, wraps: bool = True, drop: bool = False, guards: Any = ()
) -> Any:
    if not drop:
        return np.take_along_axis(x, checked(indices, x.shape[axis], axis, wraps), axis)
    places, inside = places_in(indices, x.shape[axis], wraps)
    taken = np.take_along_axis(_padded(x, axis), places, axis)
    return np.where(inside, taken, np.zeros((), x.dtype))


def _along_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    data, indices = inputs
    base, scatter = _zeros(data, cotangent), lookup("scatter_add_along_axis")
    return [apply(scatter, base, indices, cotangent, **picking(attrs)), None]


def _along_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return [sample(random, dtype, 3, 4), _sample_indices(random, 3, 5)], {"axis": 1}


take_along_axis_op = register(
    OpDef(
        name="take_along_axis",
        doc=(
            "``out[i, j, k] = x[i, indices[i, j, k], k]`` for axis 1, likewise for others; the "
            "shapes agree beside the axis. Negative indices count from the end unless ``wraps`` is "
            "False."
        ),
        infer=along_type,
        reference=_along_reference,
        derivative=Linear(_along_transpose, fixed=(1,)),
        lowering=Element(_along_rule),
        of_complex=each_part,
        may_fail=True,
        domain=Domain(dtypes=ALL, example=_along_example),
    )
)


def taken_along(data: Value, indices: Value, axis: int, **attrs: Any) -> Value:
    """``take_along_axis`` of ready operands; ``attrs`` are ``wraps`` and ``drop``."""
    count = product(indices.shape)
    held = outside(attrs, axis, data.shape[axis], count, "take_along_axis")
    return apply(take_along_axis_op, data, indices, axis=axis, **attrs, **held)


# --- ravel_index ---------------------------------------------------------------------------------


def _ravel_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    first = inputs[0]
    for other in inputs:
        require_indices("ravel_index", other)
        if differ(first.shape, other.shape):
            raise ShapeError(f"index tensors {show(first.shape)} and {show(other.shape)} differ")
    if not len(inputs) == len(attrs["dims"]) == len(attrs["axes"]):
        raise ShapeError(f"{len(inputs)} index tensors for dims {show(attrs['dims'])}")
    check_size(attrs["dims"], [attrs["dims"]])
    return [first.with_dtype(int64)]


def _ravel_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    wraps = attrs.get("wraps", True)
    flat: Scalar | None = None
    there: Scalar | None = None
    for number, (bound, axis) in enumerate(zip(attrs["dims"], attrs["axes"], strict=True)):
        if "drop" in attrs:
            place, inside = located(b, b.load(number, index), bound, wraps)
            there = inside if there is None else b.apply("and", there, inside)
        else:
            place = b.checked_index(b.load(number, index), bound, axis, wraps)
        if flat is None:
            flat = place
        else:
            flat = b.apply("add", b.apply("multiply", flat, b.dim(bound)), place)
    assert flat is not None
    return flat if there is None else b.apply("select", there, flat, b.dim(product(attrs["dims"])))


def _ravel_reference(
    *indices: Any, dims: Any, axes: Any, wraps: bool = True, drop: bool = False, of: str = "",
    guards: Any = (),
) -> Any:  # fmt: skip
    """With ``drop`` the number of elements, which is no place, where an index is out of range."""
    flat = np.zeros(indices[0].shape, np.int64)
    there = np.ones(indices[0].shape, bool)
    for numbers, bound, axis in zip(indices, dims, axes, strict=True):
        if drop:
            places, inside = places_in(numbers, bound, wraps)
            there &= inside
        else:
            places = checked(numbers, bound, axis, wraps)
        flat = flat * bound + places
    return np.where(there, flat, np.prod(dims, dtype=np.int64))


def _ravel_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    indices = [
        random.integers(0 if dtype.kind == "uint" else -bound, bound, (2, 3)).astype(dtype.numpy)
        for bound in (3, 4)
    ]
    return indices, {"dims": (3, 4), "axes": (0, 1)}


ravel_index_op = register(
    OpDef(
        name="ravel_index",
        doc=(
            "The row-major place in a tensor of shape ``dims`` that one index per dim names; each "
            "is checked, and reported as an index of the axis in ``axes``."
        ),
        infer=_ravel_type,
        reference=_ravel_reference,
        derivative=Flat(),
        lowering=Element(_ravel_rule),
        may_fail=True,
        domain=Domain(dtypes=tuple(d for d in ALL if d.is_integer), example=_ravel_example),
    )
)


def raveled(
    indices: Sequence[Value], dims: tuple[Dim, ...], axes: tuple[int, ...], **attrs: Any
) -> Value:
    """The flat place that index tensors of one shape name together."""
    count = product(indices[0].shape)
    guards: dict[str, Any] = {}
    if "drop" not in attrs:
        sizes = zip(axes, dims, strict=True)
        guards = guarded(
            tuple([held for axis, size in sizes for held in some_guard("take", axis, size, count)])
        )
    return apply(ravel_index_op, *indices, dims=dims, axes=axes, **attrs, **guards)


def split_place(flat: Value, dims: Sequence[Dim]) -> list[Value]:
    """The index along each axis of a shape that a flat place stands for."""
    parts: list[Value] = []
    for number, size in enumerate(reversed(dims)):
        if number == len(dims) - 1:
            parts.append(flat)
            break
        length = size_beside(size, int64, flat)
        parts.append(surface_function("mod")(flat, length))
        flat = surface_function("floor_divide")(flat, length)
    return parts[::-1]
