"""Picking and scattering by index tensors, as users write it.

Invariant: indices that are known when the graph is built are checked there where the size is known
too; all others are checked when the graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, IndexRangeError, ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.dtypes import DTypeLike, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, whole
from graphc.ops.convert import (
    as_value,
    axis_of,
    common_shape,
    converted,
    in_dtype,
    promoted,
    size_beside,
)
from graphc.ops.creation import iota_beside
from graphc.ops.guards import show
from graphc.ops.indexing.core import taken, taken_along
from graphc.ops.indexing.modes import brought_in, default_fill, mode_of, wide
from graphc.ops.indexing.places import checked, taken_shape
from graphc.ops.indexing.scatter import scattered
from graphc.ops.indexing.written import as_update
from graphc.ops.move.shape import (
    broadcast_to,
    expand_dims,
    ravel,
    squeeze,
    stretched,
    with_shape,
)

_ROUND = "convert them with .astype('int64'), which rounds to zero"


def known_index(array: Any, bound: Dim, axis: int, mode: str = "error") -> Any:
    """An index array given by the user: checked and made non-negative where the bound is known,
    unless a mode says what becomes of those out of range.

    Raises:
        DTypeError: if it is not of integers.
        IndexRangeError: for an index proved to be out of range.
    """
    given = np.asarray(array)
    if given.size == 0 and not isinstance(array, np.ndarray):
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu":
        sizes = any(isinstance(item, DimExpr) for item in given.flat)
        raise DTypeError(
            "a list of indices holds a symbolic size"
            if sizes
            else f"indices must be integers, not {given.dtype}",
            where=caller(),
            hint="make a tensor of them, as gx.stack([0, x.shape[0] - 1])" if sizes else _ROUND,
        )
    if not isinstance(bound, int) or mode != "error":
        return given
    try:
        return checked(given, bound, axis)
    except IndexRangeError as error:
        error.where = caller()
        raise


def index_value(indices: Any, data: Value, axis: int, mode: str = "error") -> Value:
    """Indices into an axis of a value, as a value."""
    if isinstance(indices, Value):
        if not indices.dtype.is_integer:
            raise DTypeError(
                f"indices must be integers, not {indices.dtype}", where=caller(), hint=_ROUND
            )
        return indices
    if isinstance(indices, DimExpr):
        return size_beside(indices, int64, data)
    return as_value(np.asarray(known_index(indices, data.shape[axis], axis, mode)), data)


@surface
def take(
    x: Any,
    indices: Any,
    axis: int | None = None,
    mode: str | None = "error",
    fill_value: Any = None,
) -> Value:
    """The elements at these places along an axis, or of the vector of all elements.

    Args:
        x: any tensor.
        indices: integers of any rank; negative ones count from the end, except where mode is
            "clip".
        axis: the axis, or None for all elements in row-major order.
        mode: for what is out of range: "error" (or NumPy's "raise"), "clip" to the nearest place,
            "wrap" around, or "fill".
        fill_value: what mode "fill" gives, NaN, the least of signed integers, the greatest of
            unsigned ones or True if None.

    Raises:
        IndexRangeError: for a known index out of range of a known axis; at run time for others.
    """
    value = as_value(x, indices if isinstance(indices, Value) else None)
    if axis is None:
        value, axis = ravel(value), 0
    place, chosen = axis_of(axis, value.ndim), mode_of(mode)
    is_int = isinstance(indices, (int, np.integer)) and not isinstance(indices, bool)
    if is_int and chosen == "error":
        picked: Value = value[(*(slice(None),) * place, int(indices))]
        return picked
    places = index_value(indices, value, place, chosen)
    places = brought_in(places, value.shape[place], chosen, wraps=False)
    if chosen != "drop":
        return taken(value, places, place)
    there = _inside(places, value.shape[place])
    behind = (1,) * (value.ndim - place - 1)
    there = with_shape(there, (*(1,) * place, *places.shape, *behind), ())
    return filled(there, taken(value, places, place, drop=True), fill_value)


@surface
def take_along_axis(
    x: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = "error",
    fill_value: Any = None,
) -> Value:
    """``out[i, j] = x[i, indices[i, j]]`` for axis 1, likewise for others; other dims broadcast.

    ``mode`` and ``fill_value`` are those of ``take``; negative indices count from the end.

    Raises:
        ShapeError: for ranks that differ or shapes that do not broadcast beside the axis.
        IndexRangeError: for a known index out of range of a known axis; at run time for others.
    """
    value = as_value(x, indices if isinstance(indices, Value) else None)
    if axis is None:
        value, axis = ravel(value), 0
    place, chosen = axis_of(axis, value.ndim), mode_of(mode)
    data, at = _beside("take_along_axis", value, indices, place, chosen)
    if chosen != "drop":
        return taken_along(data, at, place)
    there = _inside(at, value.shape[place])
    return filled(there, taken_along(data, at, place, drop=True), fill_value)


def _beside(
    name: str, value: Value, indices: Any, axis: int, mode: str
) -> tuple[Value, Value]:
    """A tensor and indices of its axis, broadcast to each other beside it."""
    places = index_value(indices, value, axis, mode)
    if places.ndim != value.ndim:
        raise ShapeError(
            f"{name} of {show(value.shape)} by indices {show(places.shape)}: the ranks differ",
            where=caller(),
        )
    places = brought_in(places, value.shape[axis], mode)
    common, guards = common_shape(
        [_with(operand.shape, axis, 1) for operand in (value, places)],
        f"{name} of {{}} by indices {{}}: they do not broadcast beside axis {axis}",
        value.shape,
        places.shape,
        hint="sizes beside the axis must be equal or 1",
    )
    data, at = (
        stretched(operand, _with(common, axis, operand.shape[axis]), guards)
        for operand in (value, places)
    )
    return data, at


def _inside(places: Value, size: Dim) -> Value:
    """Which indices name a place of an axis."""
    number = wide(places)
    length = size_beside(size, int64, places)
    return (number >= -length) & (number < length)


def filled(there: Value, picked: Value, fill: Any) -> Value:
    """What was picked, and a number in its dtype where nothing was there."""
    fill = default_fill(picked.dtype) if fill is None else fill
    number = in_dtype(fill, picked.dtype, picked)
    result: Value = surface_function("where")(there, picked, number)
    return result


@surface
def put_along_axis(
    x: Any, indices: Any, values: Any, axis: int | None, mode: str | None = "error"
) -> Value:
    """A new value: ``x`` with ``out[i, indices[i, j]] = values[i, j]`` for axis 1, likewise for
    others; the last of several at one place stays.

    ``values`` broadcasts to the indices, and these to ``x`` beside the axis. With axis None all are
    vectors, and the result has the shape of ``x``. ``mode`` is "error", "clip", "wrap" or "drop".

    Raises:
        ShapeError: for ranks that differ or shapes that do not broadcast.
        IndexRangeError: for a known index out of range of a known axis; at run time for others.
    """
    whole_value = as_value(x, indices if isinstance(indices, Value) else None)
    value = ravel(whole_value) if axis is None else whole_value
    place, chosen = axis_of(axis or 0, value.ndim), mode_of(mode)
    data, at = _beside("put_along_axis", value, indices, place, chosen)
    updates = broadcast_to(as_update(values, value), at.shape)
    drops: dict[str, Any] = {"drop": True} if chosen == "drop" else {}
    result = scattered("set", data, at, updates, place, along=True, **drops)
    return with_shape(result, whole_value.shape, ()) if axis is None else result


def _with(shape: Sequence[Dim], axis: int, size: Dim) -> tuple[Dim, ...]:
    """The shape with another size of an axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


@surface
def scatter_add(base: Any, indices: Any, updates: Any, axis: int = 0) -> Value:
    """``base`` with ``updates`` added at these places along an axis, duplicates one by one.

    ``updates`` has the shape of ``take(base, indices, axis)`` or broadcasts to it.

    Raises:
        IndexRangeError: for a known index out of range of a known axis; at run time for others.
    """
    value, added = promoted(base, updates)
    place = axis_of(axis, value.ndim)
    places = index_value(indices, value, place)
    shape = taken_shape(value.shape, places.shape, place)
    return scattered("add", value, places, broadcast_to(added, shape), place)


@surface
def one_hot(indices: Any, depth: int | DimExpr, dtype: DTypeLike = "float32") -> Value:
    """1 where the new last axis, of length ``depth``, has the index, else 0.

    An index out of range gives a row of zeros.
    """
    places = as_value(indices)
    if not places.dtype.is_integer:
        raise DTypeError(f"one_hot takes integer indices, not {places.dtype}", where=caller())
    count = depth if isinstance(depth, DimExpr) else whole(depth, "depth")
    if isinstance(count, int) and count < 0:
        raise ShapeError(f"one_hot of depth {count}", where=caller())
    classes = iota_beside((count,), 0, int64, places)
    same = surface_function("equal")(expand_dims(converted(places, int64), -1), classes)
    return converted(same, as_dtype(dtype))


@surface
def choose(a: Any, choices: Any, mode: str | None = "raise") -> Value:
    """For each element of ``a`` that of the choice with this number, all broadcast together.

    ``mode`` for numbers that are negative or too large is "raise" (or "error"), "wrap" or "clip".

    Raises:
        IndexRangeError: for such numbers; at run time where they are not known.
    """
    beside = a if isinstance(a, Value) else None
    given = list(choices) if isinstance(choices, Value) else list(items_of(choices, "choices"))
    if not given:
        raise ShapeError("choose of no choices", where=caller())
    number = as_value(a, next((item for item in given if isinstance(item, Value)), beside))
    if not number.dtype.is_integer:
        raise DTypeError(f"choose by numbers of {number.dtype}", where=caller())
    values = promoted(*given, beside=number)
    shapes = [number.shape, *(value.shape for value in values)]
    message = f"choose: shapes {' and '.join('{}' for _ in shapes)} do not broadcast"
    common, guards = common_shape(shapes, message)
    stacked = surface_function("stack")([stretched(value, common, guards) for value in values])
    number = brought_in(number, len(values), mode_of(mode), wraps=False)
    place = expand_dims(stretched(number, common, guards), 0)
    return squeeze(taken_along(stacked, place, 0, wraps=False), 0)
