"""Picking elements by index tensors, and adding to picked places.

Core ops: ``take``, ``take_along_axis``, ``scatter_add``, ``ravel_index``. Invariant: an index
counts from the end if negative and is checked before it is used; out of range raises
IndexRangeError. Duplicate indices accumulate in the order of the index tensor, so results are
reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, IndexRangeError, ShapeError
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal, product
from graphc.ir.dtypes import ALL, DType, int64
from graphc.ir.lowering import Element, ElementBuilder, Scalar, ScatterAdd
from graphc.ir.op import Domain, Flat, Linear, OpDef, register
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.guards import Guards, check_size, guarded, show, some_guard
from graphc.ops.move.shape import broadcast_to, sample, with_shape
from graphc.ops.source import constant_beside


def checked(indices: Any, bound: int, axis: int, wraps: bool = True) -> Any:
    """Indices made non-negative; the references' form of ``ElementBuilder.checked_index``.

    Raises:
        IndexRangeError: for the first one out of range, naming it and its position.
    """
    places = np.asarray(indices)
    wrong = np.argwhere((places < (-bound if wraps else 0)) | (places >= bound))
    if len(wrong):
        position = tuple(int(place) for place in wrong[0])
        at = f" at position {position}" if position else ""
        raise IndexRangeError(
            f"index {places[position]}{at} is out of range for axis {axis} of size {bound}"
        )
    places = places.astype(np.int64)
    return np.where(places < 0, places + bound, places)


def _check_indices(name: str, indices: TensorType) -> None:
    if not indices.dtype.is_integer:
        raise DTypeError(f"{name} takes integer indices, not {indices.dtype}")


def _differ(one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    """Proved to be different shapes."""
    return len(one) != len(other) or any(
        equal(a, b) is False for a, b in zip(one, other, strict=True)
    )


# --- take ----------------------------------------------------------------------------------------


def taken_shape(shape: Sequence[Dim], indices: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    """The shape with the dims of an index tensor in the place of the axis."""
    return (*shape[:axis], *indices, *shape[axis + 1 :])


def _take_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    data, indices = inputs
    _check_indices("take", indices)
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
    place = b.checked_index(b.load(1, index[axis:end]), data.shape[axis], axis)
    return b.load(0, [*index[:axis], place, *index[end:]])


def _take_reference(x: Any, indices: Any, *, axis: int, guards: Any = ()) -> Any:
    return np.take(x, checked(indices, x.shape[axis], axis), axis)


def _zeros(like: Value, beside: Value) -> Value:
    return broadcast_to(constant_beside(0, beside.dtype, beside), like.shape)


def _take_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    data, indices = inputs
    base = _zeros(data, cotangent)
    return [apply(scatter_add_op, base, indices, cotangent, axis=attrs["axis"]), None]


def _take_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    indices = random.integers(-4, 4, (2, 5))
    return [sample(random, dtype, 3, 4, 2), indices], {"axis": 1}


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
        checks_indices=True,
        domain=Domain(dtypes=ALL, example=_take_example),
    )
)


# --- take_along_axis -----------------------------------------------------------------------------


def _along_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    data, indices = inputs
    axis: int = attrs["axis"]
    _check_indices("take_along_axis", indices)
    expected = taken_shape(data.shape, indices.shape[axis : axis + 1], axis)
    if _differ(expected, indices.shape):
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
    wraps = attrs.get("wraps", True)
    place = b.checked_index(b.load(1, index), inputs[0].shape[axis], axis, wraps)
    return b.load(0, [*index[:axis], place, *index[axis + 1 :]])


def _along_reference(
    x: Any, indices: Any, *, axis: int, wraps: bool = True, guards: Any = ()
) -> Any:
    return np.take_along_axis(x, checked(indices, x.shape[axis], axis, wraps), axis)


def _along_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    data, indices = inputs
    base = _zeros(data, cotangent)
    return [apply(scatter_along_op, base, indices, cotangent, axis=attrs["axis"]), None]


def _along_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return [sample(random, dtype, 3, 4), random.integers(-4, 4, (3, 5))], {"axis": 1}


take_along_axis_op = register(
    OpDef(
        name="take_along_axis",
        doc=(
            "``out[i, j, k] = x[i, indices[i, j, k], k]`` for axis 1, likewise for others; the "
            "shapes agree beside the axis. Negative indices count from the end unless ``wraps`` is "
            "False."
        ),
        infer=_along_type,
        reference=_along_reference,
        derivative=Linear(_along_transpose, fixed=(1,)),
        lowering=Element(_along_rule),
        checks_indices=True,
        domain=Domain(dtypes=ALL, example=_along_example),
    )
)


# --- scatter_add ---------------------------------------------------------------------------------


def _scatter_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    base, indices, updates = inputs
    _check_indices("scatter_add", indices)
    if base.dtype is not updates.dtype:
        raise DTypeError(f"scatter_add to {base.dtype} of {updates.dtype}")
    expected = taken_shape(base.shape, indices.shape, attrs["axis"])
    if _differ(expected, updates.shape):
        raise ShapeError(f"scatter_add of updates {show(updates.shape)}, not {show(expected)}")
    return [base]


def _scatter_reference(
    base: Any, indices: Any, updates: Any, *, axis: int, guards: Any = ()
) -> Any:
    result = base.copy()
    places = checked(indices, base.shape[axis], axis)
    np.add.at(result, (*(slice(None),) * axis, places), updates)
    return result


def _scatter_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    _, indices, updates = inputs
    taken = apply(take_op, cotangent, indices, axis=attrs["axis"])
    return [cotangent, None, with_shape(taken, updates.shape)]


def _scatter_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    indices = random.integers(-4, 4, (2, 3))
    arrays = [sample(random, dtype, 3, 4, 2), indices, sample(random, dtype, 3, 2, 3, 2)]
    return arrays, {"axis": 1}


scatter_add_op = register(
    OpDef(
        name="scatter_add",
        doc=(
            "The first input with the third added at the places along ``axis`` that the second "
            "names; what meets at one place is added one by one in the order of the indices, so "
            "that floats have the bits of np.add.at."
        ),
        infer=_scatter_type,
        reference=_scatter_reference,
        derivative=Linear(_scatter_transpose, fixed=(1,)),
        lowering=ScatterAdd(),
        checks_indices=True,
        domain=Domain(dtypes=ALL, example=_scatter_example),
    )
)


def _scatter_along_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    base, indices, updates = inputs
    (expected,) = _along_type([base, indices], attrs)
    if expected.dtype is not updates.dtype or _differ(expected.shape, updates.shape):
        raise ShapeError(f"scatter_add_along_axis of updates {updates}, not {expected}")
    return [base]


def _scatter_along_reference(
    base: Any, indices: Any, updates: Any, *, axis: int, guards: Any = ()
) -> Any:
    result = base.copy()
    places = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = checked(indices, base.shape[axis], axis)
    np.add.at(result, tuple(places), updates)
    return result


def _scatter_along_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    _, indices, updates = inputs
    taken = apply(take_along_axis_op, cotangent, indices, axis=attrs["axis"])
    return [cotangent, None, with_shape(taken, updates.shape)]


def _scatter_along_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    indices = random.integers(-4, 4, (3, 5))
    return [sample(random, dtype, 3, 4), indices, sample(random, dtype, 3, 5)], {"axis": 1}


scatter_along_op = register(
    OpDef(
        name="scatter_add_along_axis",
        doc="``out[i, indices[i, j]] += updates[i, j]`` for axis 1, in the order of the indices.",
        infer=_scatter_along_type,
        reference=_scatter_along_reference,
        derivative=Linear(_scatter_along_transpose, fixed=(1,)),
        lowering=ScatterAdd(along=True),
        checks_indices=True,
        domain=Domain(dtypes=ALL, example=_scatter_along_example),
    )
)


# --- ravel_index ---------------------------------------------------------------------------------


def _ravel_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    first = inputs[0]
    for other in inputs:
        _check_indices("ravel_index", other)
        if _differ(first.shape, other.shape):
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
    flat: Scalar | None = None
    for number, (bound, axis) in enumerate(zip(attrs["dims"], attrs["axes"], strict=True)):
        place = b.checked_index(b.load(number, index), bound, axis)
        if flat is None:
            flat = place
        else:
            flat = b.apply("add", b.apply("multiply", flat, b.dim(bound)), place)
    assert flat is not None
    return flat


def _ravel_reference(*indices: Any, dims: Any, axes: Any, guards: Any = ()) -> Any:
    flat = np.zeros(indices[0].shape, np.int64)
    for places, bound, axis in zip(indices, dims, axes, strict=True):
        flat = flat * bound + checked(places, bound, axis)
    return flat


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
        checks_indices=True,
        domain=Domain(dtypes=tuple(d for d in ALL if d.is_integer), example=_ravel_example),
    )
)


def raveled(indices: Sequence[Value], dims: tuple[Dim, ...], axes: tuple[int, ...]) -> Value:
    """The flat place that index tensors of one shape name together."""
    count = product(indices[0].shape)
    sizes = zip(axes, dims, strict=True)
    guards = [guard for axis, size in sizes for guard in some_guard("take", axis, size, count)]
    return apply(ravel_index_op, *indices, dims=dims, axes=axes, **guarded(tuple(guards)))


def taken(data: Value, indices: Value, axis: int, guards: Guards = ()) -> Value:
    """``take`` of ready operands."""
    guards = (*guards, *some_guard("take", axis, data.shape[axis], product(indices.shape)))
    return apply(take_op, data, indices, axis=axis, **guarded(guards))


def taken_along(data: Value, indices: Value, axis: int) -> Value:
    """``take_along_axis`` of ready operands."""
    guards = some_guard("take_along_axis", axis, data.shape[axis], product(indices.shape))
    return apply(take_along_axis_op, data, indices, axis=axis, **guarded(guards))


def scattered(base: Value, indices: Value, updates: Value, axis: int) -> Value:
    """``scatter_add`` of ready operands."""
    guards = some_guard("scatter_add", axis, base.shape[axis], product(indices.shape))
    return apply(scatter_add_op, base, indices, updates, axis=axis, **guarded(guards))
