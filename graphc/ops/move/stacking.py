"""NumPy's further ways of joining and cutting: stacks by name, unequal parts, common shapes.

All of them are ``concatenate``, ``split`` and reshapes of their operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ConcreteValueError, ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import dim_min, select
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.convert import as_value, axis_of, common_shape, promoted
from graphc.ops.guards import show
from graphc.ops.move.joining import concatenate
from graphc.ops.move.parts import MOST_PARTS, split
from graphc.ops.move.shape import moveaxis, ravel, stretched, transpose, with_shape
from graphc.ops.move.slicing import part

# --- more axes -----------------------------------------------------------------------------------


def _front(value: Value, rank: int) -> Value:
    """With axes of 1 in front, up to a rank."""
    return with_shape(value, (1,) * (rank - value.ndim) + value.shape, ())


def _cube(value: Value) -> Value:
    """A vector in the middle of three axes, a matrix in the first two."""
    if value.ndim < 2:
        return with_shape(value, (1, *(value.shape or (1,)), 1), ())
    return with_shape(value, (*value.shape, 1), ()) if value.ndim == 2 else value


def _each(results: list[Value]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


@surface
def atleast_1d(*values: Any) -> Any:
    """Scalars as vectors, others as they are; a value of one, a tuple of several."""
    return _each([_front(as_value(value), 1) for value in values])


@surface
def atleast_2d(*values: Any) -> Any:
    """With axes of 1 in front up to two; a value of one, a tuple of several."""
    return _each([_front(as_value(value), 2) for value in values])


@surface
def atleast_3d(*values: Any) -> Any:
    """Vectors as 1 by n by 1, matrices as m by n by 1; a value of one, a tuple of several."""
    return _each([_cube(as_value(value)) for value in values])


# --- joining -------------------------------------------------------------------------------------


def _values(given: Any) -> list[Value]:
    items = items_of(given, "what is stacked")
    if not items:
        raise ShapeError("nothing to stack", where=caller(), hint="give at least one tensor")
    return list(promoted(*items))


@surface
def hstack(values: Sequence[Any]) -> Value:
    """Joined along the second axis; vectors along their only one."""
    pieces = [_front(value, 1) for value in _values(values)]
    return concatenate(pieces, 0 if pieces[0].ndim == 1 else 1)


@surface
def vstack(values: Sequence[Any]) -> Value:
    """Joined along the first axis; vectors are rows."""
    return concatenate([_front(value, 2) for value in _values(values)], 0)


@surface
def dstack(values: Sequence[Any]) -> Value:
    """Joined along the third axis; see ``atleast_3d``."""
    return concatenate([_cube(value) for value in _values(values)], 2)


@surface
def column_stack(values: Sequence[Any]) -> Value:
    """Joined along the second axis; vectors are columns."""
    columns = [transpose(_front(v, 2)) if v.ndim < 2 else v for v in _values(values)]
    return concatenate(columns, 1)


@surface
def append(x: Any, values: Any, axis: int | None = None) -> Value:
    """``values`` behind x along an axis; all elements of both as a vector without one."""
    return concatenate([x, values], axis)


@surface
def block(arrays: Any) -> Value:
    """Nested lists of tensors put together: the innermost along the last axis, and so on outwards.

    Raises:
        ShapeError: for lists of unequal depth and for empty ones, and where sizes don't fit.
    """
    depth = _depth(arrays)
    leaves: list[Any] = []
    stack = [arrays]
    while stack:
        item = stack.pop()
        stack.extend(item) if isinstance(item, list) else leaves.append(item)
    rank = max(depth, *(as_value(leaf).ndim for leaf in leaves))
    return _joined(arrays, depth, rank)


def _depth(arrays: Any) -> int:
    """How deep lists are nested; the same everywhere."""
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(item) for item in arrays}
    if len(depths) != 1:
        what = "lists of unequal depth" if arrays else "an empty list"
        raise ShapeError(f"a block of {what}", where=caller(), hint="nest all lists alike")
    return 1 + depths.pop()


def _joined(arrays: Any, depth: int, rank: int) -> Value:
    """Recursion is as deep as the lists."""
    if not depth:
        return _front(as_value(arrays), rank)
    return concatenate([_joined(item, depth - 1, rank) for item in arrays], rank - depth)


# --- cutting -------------------------------------------------------------------------------------


@surface
def array_split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Value]:
    """As ``split``, but into any number of parts: the first ones have one element more."""
    if not isinstance(indices_or_sections, (int, np.integer)):
        return split(x, indices_or_sections, axis)
    value = as_value(x)
    place, count = axis_of(axis, value.ndim), int(indices_or_sections)
    if not 1 <= count <= MOST_PARTS:
        raise ShapeError(
            f"axis {place} of {show(value.shape)} does not split into {count} parts",
            where=caller(),
            hint=f"there may be 1 to {MOST_PARTS}, each a value",
        )
    length = value.shape[place]
    least = length // count
    longer = length - least * count
    return [
        part(
            value, place, least * n + dim_min(n, longer), least + select("lt", n, longer, 1, 0)
        )
        for n in range(count)
    ]


@surface
def hsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Value]:
    """``split`` along the second axis, of a vector along its only one."""
    value = as_value(x)
    return split(value, indices_or_sections, 0 if value.ndim == 1 else 1)


@surface
def vsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Value]:
    """``split`` along the first axis of a matrix or more."""
    return split(_of_rank(x, 2, "vsplit"), indices_or_sections, 0)


@surface
def dsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Value]:
    """``split`` along the third axis."""
    return split(_of_rank(x, 3, "dsplit"), indices_or_sections, 2)


def _of_rank(x: Any, least: int, name: str) -> Value:
    value = as_value(x)
    if value.ndim < least:
        text = f"{name} of {show(value.shape)}: it has fewer than {least} axes"
        raise ShapeError(text, where=caller())
    return value


@surface
def unstack(x: Any, axis: int = 0) -> tuple[Value, ...]:
    """The slices along an axis, each without it.

    Raises:
        ConcreteValueError: for an axis whose size only a run tells.
    """
    value = as_value(x)
    moved = moveaxis(value, axis_of(axis, value.ndim), 0)
    count = moved.shape[0]
    if not isinstance(count, int):
        raise ConcreteValueError(
            f"unstack of an axis of {count} elements: how many values there are must be known",
            where=caller(),
            hint="give the placeholder a number there, or take slices with gx.take",
        )
    rest = moved.shape[1:]
    return tuple(with_shape(part(moved, 0, n, 1), rest, ()) for n in range(count))


# --- common shapes -------------------------------------------------------------------------------


@surface
def broadcast_arrays(*values: Any) -> tuple[Value, ...]:
    """All values broadcast to their common shape, each in its own dtype.

    Raises:
        ShapeError: if the shapes are proved not to broadcast; else checked at run time.
    """
    beside = next((value for value in values if isinstance(value, Value)), None)
    given = [as_value(value, beside) for value in values]
    shapes = [value.shape for value in given]
    names = " and ".join("{}" for _ in shapes)
    message = f"shapes {names} do not broadcast"
    common, guards = common_shape(shapes, message, hint="sizes must be equal or 1")
    return tuple(stretched(value, common, guards) for value in given)


@surface
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Value, ...]:
    """The coordinates of a grid: one tensor for each vector, which varies along an axis of its own.

    Args:
        xi: vectors, or scalars, which count as one element.
        copy: of no meaning, since values never change in place.
        sparse: leave the other axes at 1 and let users broadcast.
        indexing: "xy" has the second vector along the first axis, "ij" the first one.

    Raises:
        ShapeError: for another ``indexing``, and for matrices.
    """
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"indexing={indexing!r}", where=caller(), hint="it is 'xy' or 'ij'")
    vectors = [as_value(axis) for axis in xi]
    for vector in vectors:
        if vector.ndim > 1:
            raise ShapeError(f"meshgrid of {show(vector.shape)}: axes are vectors", where=caller())
    vectors = [ravel(vector) for vector in vectors]
    rank = len(vectors)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[:2] = 1, 0
    lines = [
        with_shape(vector, (1,) * place + vector.shape + (1,) * (rank - place - 1), ())
        for vector, place in zip(vectors, places, strict=True)
    ]
    return tuple(lines) if sparse or rank < 2 else broadcast_arrays(*lines)
