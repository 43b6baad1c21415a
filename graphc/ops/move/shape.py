"""Shapes of the same elements: reshape, transpose, broadcasting, and what is made of them.

Core ops: ``reshape``, ``transpose``, ``broadcast_to``. ``sum_to``, the inverse of broadcasting that
gradients need, decomposes. Invariant: elements are only moved or repeated, so every dtype is taken
and every value arrives with its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, compare, equal, product, select
from graphc.ir.dtypes import ALL, FLOATS, DType, int64
from graphc.ir.guard import ATTRIBUTE
from graphc.ir.lowering import Decompose, ElementBuilder, Reshape, Scalar, View
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, one_or_more
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import as_value, axes_of, axis_of, dims_of
from graphc.ops.guards import (
    Guards,
    broadcast_guards,
    broadcast_pair,
    check_size,
    guarded,
    nonempty_pair,
    show,
    unproved,
)


def sample(random: Any, dtype: DType, *shape: int) -> Any:
    """Small numbers of a dtype: inputs for examples of ops that move elements."""
    if dtype.kind == "float":
        return random.standard_normal(shape).astype(dtype.numpy)
    low = -5 if dtype.kind == "int" else 0
    return random.integers(low, 2 if dtype.kind == "bool" else 9, shape).astype(dtype.numpy)


# --- reshape -------------------------------------------------------------------------------------


def _reshape_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    shape: tuple[Dim, ...] = attrs["shape"]
    if equal(given.size, product(shape)) is False:
        raise ShapeError(
            f"cannot reshape {show(given.shape)} to {show(shape)}: "
            f"{given.size} elements do not make {product(shape)}"
        )
    return [given.with_shape(shape)]


def _reshape_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    # what makes the sizes agree one way does so the other way
    return [with_shape(cotangent, inputs[0].shape, attrs.get(ATTRIBUTE, ()))]


reshape_op = register(
    OpDef(
        name="reshape",
        doc="The elements in row-major order, in the shape ``shape`` of as many elements.",
        infer=_reshape_type,
        reference=lambda x, *, shape, guards=(): np.reshape(x, shape),
        derivative=Linear(_reshape_transpose),
        lowering=Reshape(),
        of_complex=each_part,
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: ([sample(random, dtype, 4, 3)], {"shape": (2, 6)}),
        ),
    )
)


def with_shape(value: Value, shape: tuple[Dim, ...], guards: Guards | None = None) -> Value:
    """The value reshaped; itself if it has the shape.

    What is not proved is guarded: that the sizes agree, unless the caller's guards imply that.
    """
    if value.shape == shape and not guards:
        return value
    if guards is None:
        message = "cannot reshape {} to {}: the sizes differ"
        guards = unproved([(value.size, product(shape))], message, value.shape, shape)
    return apply(reshape_op, value, shape=shape, **guarded(guards))


@surface
def reshape(x: Any, shape: Any) -> Value:
    """The elements of ``x``, in row-major order, in another shape; one dim may be -1.

    Sizes that cannot be compared now are compared when the graph runs.

    Raises:
        ShapeError: if the sizes are proved to differ, or -1 cannot be worked out.
    """
    value = as_value(x)
    wanted = dims_of(shape)
    unknown = [axis for axis, dim in enumerate(wanted) if isinstance(dim, int) and dim < 0]
    if not unknown:
        return with_shape(value, wanted)
    attempt = f"cannot reshape {show(value.shape)} to {show(wanted)}"
    if len(unknown) > 1 or wanted[unknown[0]] != -1:
        raise ShapeError(f"{attempt}: only one dim may be -1, none less", where=caller())
    known = product(dim for axis, dim in enumerate(wanted) if axis != unknown[0])
    if known == 0:
        raise ShapeError(f"{attempt}: -1 could be any size beside a dim of 0", where=caller())
    guards: Guards = ()
    quotient = value.size // known
    if compare("le", 1, known) is not True:
        # The quotient is evaluated at run time, where the known dims may be 0.
        quotient = value.size // select("eq", known, 0, 1, known)
        message = "cannot reshape {} to {}: -1 could be any size beside a dim of 0"
        guards = unproved([nonempty_pair(known)], message, value.shape, wanted)
    guards += unproved(
        [(value.size, quotient * known)],
        "cannot reshape {} to {}: {} elements are not divisible by {} for -1",
        value.shape, wanted, value.size, known,
    )  # fmt: skip
    resolved = tuple(quotient if axis == unknown[0] else dim for axis, dim in enumerate(wanted))
    return with_shape(value, resolved, guards)


@surface
def ravel(x: Any) -> Value:
    """All elements in row-major order, as a vector."""
    value = as_value(x)
    return with_shape(value, (value.size,), ())


@surface
def expand_dims(x: Any, axis: int | Sequence[int]) -> Value:
    """New axes of size 1 at these positions of the result."""
    value = as_value(x)
    given = one_or_more(axis, "axis")
    rank = value.ndim + len(given)
    places = axes_of(given, rank)
    old = iter(value.shape)
    return with_shape(value, tuple(1 if a in places else next(old) for a in range(rank)), ())


@surface
def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> Value:
    """Without axes of size 1: those given, else all that are known to be 1.

    Raises:
        ShapeError: if a given axis is proved to have another size; at run time if it has one.
    """
    value = as_value(x)
    if axis is None:
        return with_shape(value, tuple(dim for dim in value.shape if dim != 1), ())
    places = axes_of(axis, value.ndim)
    guards = unproved(
        [(value.shape[place], 1) for place in places],
        f"cannot squeeze axis {', '.join(map(str, places))} of {{}}: not of size 1",
        value.shape,
    )
    kept = tuple(dim for place, dim in enumerate(value.shape) if place not in places)
    return with_shape(value, kept, guards)


# --- transpose -----------------------------------------------------------------------------------


def _transpose_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    axes: tuple[int, ...] = attrs["axes"]
    if sorted(axes) != list(range(given.rank)):
        raise ShapeError(f"axes {axes} are not a permutation for {show(given.shape)}")
    return [given.with_shape(tuple(given.shape[axis] for axis in axes))]


def _transpose_index(
    b: ElementBuilder,
    given: TensorType,
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> list[Scalar]:
    places = {axis: place for place, axis in enumerate(attrs["axes"])}
    return [index[places[axis]] for axis in range(given.rank)]


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    result = [0] * len(axes)
    for place, axis in enumerate(axes):
        result[axis] = place
    return tuple(result)


transpose_op = register(
    OpDef(
        name="transpose",
        doc="Axis ``i`` of the result is axis ``axes[i]`` of the input.",
        infer=_transpose_type,
        reference=lambda x, *, axes: np.transpose(x, axes),
        derivative=Linear(
            lambda cotangent, inputs, output, attrs: [
                permuted(cotangent, inverse_permutation(attrs["axes"]))
            ]
        ),
        lowering=View(_transpose_index),
        of_complex=each_part,
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: ([sample(random, dtype, 2, 3, 4)], {"axes": (1, 2, 0)}),
        ),
    )
)


def permuted(value: Value, axes: Sequence[int]) -> Value:
    """The value with its axes permuted; itself if the permutation changes nothing."""
    if list(axes) == list(range(value.ndim)):
        return value
    return apply(transpose_op, value, axes=tuple(axes))


def renames(shape: Sequence[Dim], axes: Sequence[int]) -> bool:
    """Whether permuting the axes only moves axes of one element, and so no element."""
    long = [axis for axis in axes if shape[axis] != 1]
    return long == sorted(long)


def rearranged(value: Value, axes: Sequence[int]) -> Value:
    """The value with its axes permuted: reshaped where that moves no element."""
    if renames(value.shape, axes):
        return with_shape(value, tuple(value.shape[axis] for axis in axes), ())
    return permuted(value, axes)


@surface
def transpose(x: Any, axes: Sequence[int] | None = None) -> Value:
    """Axis ``i`` of the result is axis ``axes[i]`` of ``x``; without axes all are reversed.

    Raises:
        ShapeError: if the axes are not a permutation.
    """
    value = as_value(x)
    if axes is None:
        return permuted(value, range(value.ndim)[::-1])
    order = [axis_of(axis, value.ndim) for axis in items_of(axes, "axes")]
    if sorted(order) != list(range(value.ndim)):
        raise ShapeError(
            f"axes {tuple(axes)} are not a permutation of the axes of {show(value.shape)}",
            where=caller(),
        )
    return permuted(value, order)


@surface
def swapaxes(x: Any, axis1: int, axis2: int) -> Value:
    """Exchanges two axes."""
    value = as_value(x)
    order = list(range(value.ndim))
    first, second = axis_of(axis1, value.ndim), axis_of(axis2, value.ndim)
    order[first], order[second] = second, first
    return permuted(value, order)


@surface
def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """Moves axes to new positions; the others keep their order."""
    value = as_value(x)

    def places(axes: int | Sequence[int]) -> list[int]:
        return [axis_of(axis, value.ndim) for axis in one_or_more(axes, "axis")]

    sources, targets = places(source), places(destination)
    if not len(sources) == len(targets) == len(set(sources)) == len(set(targets)):
        raise ShapeError(
            f"cannot move axes {source} to {destination}: equally many distinct ones are needed",
            where=caller(),
        )
    order = [axis for axis in range(value.ndim) if axis not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return permuted(value, order)


# --- broadcasting --------------------------------------------------------------------------------


def _broadcast_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    shape: tuple[Dim, ...] = attrs["shape"]
    lead = len(shape) - given.rank
    if lead < 0 or any(
        equal(*broadcast_pair(dim, target)) is False
        for dim, target in zip(given.shape, shape[lead:], strict=True)
    ):
        raise ShapeError(f"cannot broadcast {show(given.shape)} to {show(shape)}")
    check_size(shape, [given.shape])
    return [given.with_shape(shape)]


def _broadcast_index(
    b: ElementBuilder,
    given: TensorType,
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> list[Scalar]:
    lead = result.rank - given.rank
    places = []
    for dim, target, place in zip(given.shape, result.shape[lead:], index[lead:], strict=True):
        stride = 1 if equal(dim, target) else select("eq", dim, 1, 0, 1)
        if stride == 1:
            places.append(place)
        elif stride == 0:
            places.append(b.constant(0, int64))
        else:
            places.append(b.apply("multiply", place, b.dim(stride)))
    return places


broadcast_to_op = register(
    OpDef(
        name="broadcast_to",
        doc="Repeats along leading axes and axes of size 1 up to ``shape``.",
        infer=_broadcast_type,
        reference=lambda x, *, shape, guards=(): np.broadcast_to(x, shape).copy(),
        derivative=Linear(
            lambda cotangent, inputs, output, attrs: [summed_to(cotangent, inputs[0].shape)]
        ),
        lowering=View(_broadcast_index),
        of_complex=each_part,
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: ([sample(random, dtype, 3, 1)], {"shape": (2, 3, 4)}),
        ),
    )
)


@surface
def broadcast_to(x: Any, shape: Any) -> Value:
    """``x`` repeated along new leading axes and axes of size 1, to this shape.

    Raises:
        ShapeError: if a dim is proved to be neither 1 nor the one wanted; else checked at run time.
    """
    value = as_value(x)
    wanted = dims_of(shape)
    if value.shape == wanted:
        return value
    message = "cannot broadcast {} to {}"
    if len(wanted) < value.ndim or any(isinstance(dim, int) and dim < 0 for dim in wanted):
        raise ShapeError(message.format(show(value.shape), show(wanted)), where=caller())
    axes = zip(value.shape, wanted[len(wanted) - value.ndim :], strict=True)
    pairs = (broadcast_pair(dim, target) for dim, target in axes)
    return stretched(value, wanted, unproved(pairs, message, value.shape, wanted))


def stretched(value: Value, shape: tuple[Dim, ...], guards: Guards) -> Value:
    """The value broadcast to a shape that it fits where the caller's guards hold.

    The node has these guards, so that what does not fit is told in the caller's words, and after
    what the caller has checked before.
    """
    if value.shape == shape:
        return value
    return apply(broadcast_to_op, value, shape=shape, **guarded(guards))


def _sum_to_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    if not given.dtype.is_float:
        raise DTypeError(f"sum_to takes floats, not {given.dtype}")
    _broadcast_type([given.with_shape(attrs["shape"])], {"shape": given.shape})
    return [given.with_shape(attrs["shape"])]


def _sum_to_reference(x: Any, *, shape: tuple[int, ...], guards: Any = ()) -> Any:
    lead = x.ndim - len(shape)
    kept = [lead + axis for axis, dim in enumerate(shape) if dim == x.shape[lead + axis]]
    reduced = tuple(axis for axis in range(x.ndim) if axis not in kept)
    return np.sum(x, axis=reduced, dtype=x.dtype).reshape(shape)


def _sum_to_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    """An axis of n is split into (n / d, d), where d, its dim in the result, is 1 or n at run time.

    Summing the first of the two axes is the whole sum in one case and nothing in the other.
    """
    (value,) = inputs
    shape: tuple[Dim, ...] = attrs["shape"]
    lead = value.ndim - len(shape)
    split: list[Dim] = []
    reduced: list[int] = []
    pairs: list[tuple[Dim, Dim]] = []
    for axis, size in enumerate(value.shape):
        dim = shape[axis - lead] if axis >= lead else 1
        if axis >= lead and equal(dim, size):
            split.append(dim)
            continue
        reduced.append(len(split))
        if dim == 1:
            split.append(size)
            continue
        parts = select("eq", dim, 1, size, 1)
        pairs.append((parts * dim, size))
        split += [parts, dim]
    guards = unproved(pairs, "cannot sum {} to {}", value.shape, shape)
    value = with_shape(value, tuple(split), guards)
    if reduced:
        value = surface_function("sum")(value, axis=tuple(reduced))
    return with_shape(value, shape, ())


sum_to_op = register(
    OpDef(
        name="sum_to",
        doc="Sums the axes that broadcasting ``shape`` to the input's shape would repeat.",
        infer=_sum_to_type,
        reference=_sum_to_reference,
        derivative=Linear(
            lambda cotangent, inputs, output, attrs: [broadcast_to(cotangent, inputs[0].shape)]
        ),
        lowering=Decompose(_sum_to_rule),
        of_complex=each_part,
        numerics="R",
        domain=Domain(
            dtypes=FLOATS,
            example=lambda random, dtype: ([sample(random, dtype, 2, 3, 4)], {"shape": (3, 1)}),
        ),
    )
)


def summed_to(value: Value, shape: tuple[Dim, ...]) -> Value:
    """The sum over all axes that were broadcast from ``shape``; the value itself if none was."""
    if value.shape == shape:
        return value
    guards = broadcast_guards(
        [shape], value.shape, "cannot sum {} to {}", value.shape, shape
    )
    return apply(sum_to_op, value, shape=shape, **guarded(guards))


@surface
def sum_to(x: Any, shape: Any) -> Value:
    """The sum of a float tensor over the axes that broadcasting from ``shape`` repeats.

    Raises:
        ShapeError: if ``shape`` is proved not to broadcast to the shape of ``x``.
    """
    return summed_to(as_value(x), dims_of(shape))
