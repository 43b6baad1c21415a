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
from graphc.ops.arguments import whole
from graphc.ops.convert import (
    as_value,
    axis_of,
    common_shape,
    converted,
    promoted,
    size_beside,
)
from graphc.ops.creation import iota_beside
from graphc.ops.guards import show
from graphc.ops.indexing.core import (
    checked,
    scattered,
    taken,
    taken_along,
    taken_shape,
)
from graphc.ops.move.shape import broadcast_to, expand_dims, ravel, stretched

_ROUND = "convert them with .astype('int64'), which rounds to zero"


def known_index(array: Any, bound: Dim, axis: int) -> Any:
    """An index array given by the user: checked and made non-negative where the bound is known.

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
    if not isinstance(bound, int):
        return given
    try:
        return checked(given, bound, axis)
    except IndexRangeError as error:
        error.where = caller()
        raise


def index_value(indices: Any, data: Value, axis: int) -> Value:
    """Indices into an axis of a value, as a value."""
    if isinstance(indices, Value):
        if not indices.dtype.is_integer:
            raise DTypeError(
                f"indices must be integers, not {indices.dtype}", where=caller(), hint=_ROUND
            )
        return indices
    if isinstance(indices, DimExpr):
        return size_beside(indices, int64, data)
    return as_value(np.asarray(known_index(indices, data.shape[axis], axis)), data)


@surface
def take(x: Any, indices: Any, axis: int | None = None) -> Value:
    """The elements at these places along an axis, or of the vector of all elements.

    Indices are integers of any rank; negative ones count from the end.

    Raises:
        IndexRangeError: for a known index out of range of a known axis; at run time for others.
    """
    value = as_value(x, indices if isinstance(indices, Value) else None)
    if axis is None:
        value, axis = ravel(value), 0
    place = axis_of(axis, value.ndim)
    if isinstance(indices, (int, np.integer)) and not isinstance(indices, bool):
        picked: Value = value[(*(slice(None),) * place, int(indices))]
        return picked
    return taken(value, index_value(indices, value, place), place)


@surface
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Value:
    """``out[i, j] = x[i, indices[i, j]]`` for axis 1, likewise for others; other dims broadcast.

    Raises:
        ShapeError: for ranks that differ or shapes that do not broadcast beside the axis.
        IndexRangeError: for a known index out of range of a known axis; at run time for others.
    """
    value = as_value(x, indices if isinstance(indices, Value) else None)
    if axis is None:
        value, axis = ravel(value), 0
    place = axis_of(axis, value.ndim)
    places = index_value(indices, value, place)
    if places.ndim != value.ndim:
        raise ShapeError(
            f"take_along_axis of {show(value.shape)} by indices {show(places.shape)}: "
            "the ranks differ",
            where=caller(),
        )
    common, guards = common_shape(
        [_with(operand.shape, place, 1) for operand in (value, places)],
        f"take_along_axis of {{}} by indices {{}}: they do not broadcast beside axis {place}",
        value.shape,
        places.shape,
        hint="sizes beside the axis must be equal or 1",
    )
    data, at = (
        stretched(operand, _with(common, place, operand.shape[place]), guards)
        for operand in (value, places)
    )
    return taken_along(data, at, place)


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
    return scattered(value, places, broadcast_to(added, shape), place)


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
