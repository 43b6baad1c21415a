"""Slices put into an axis and taken out of it, at places that are known; tensors of another size.

Which places these are decides shapes, so that they are numbers, and axes have known sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ConcreteValueError, IndexRangeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import ceil_div, dim_max, product
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value, axis_of, converted, dims_of
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import broadcast_to, moveaxis, ravel, with_shape
from graphc.ops.move.slicing import part
from graphc.ops.source import constant_beside


def _axis(x: Any, axis: int | None, name: str) -> tuple[Value, int, int]:
    """The value, as a vector without an axis; the axis, and how long it is."""
    value = as_value(x)
    if axis is None:
        value, axis = ravel(value), 0
    place = axis_of(axis, value.ndim)
    size = value.shape[place]
    if not isinstance(size, int):
        raise ConcreteValueError(
            f"{name} along an axis of {size} elements: how many there are must be known",
            where=caller(),
            hint="give the placeholder a number there, or join slices with gx.concatenate",
        )
    return value, place, size


def _places(given: Any, size: int, most: int, name: str) -> list[int]:
    """Places of an axis, counted from the front.

    Raises:
        IndexRangeError: for one that is out of range.
        ShapeError: for what are no places.
    """
    if isinstance(given, slice):
        return list(range(*given.indices(size)))
    if isinstance(given, Value):
        raise ConcreteValueError(
            f"{name} at places that only a run tells: the size of the result would be unknown",
            where=caller(),
            hint="give numbers, or use gx.where",
        )
    array = np.asarray(given)
    if array.dtype == np.bool_ and array.shape == (size,):
        return [int(place) for place in np.flatnonzero(array)]
    if array.ndim > 1 or (array.dtype.kind not in "iu" and array.size):
        raise ShapeError(
            f"{name}: {shown(given)} are no places", where=caller(), hint="give ints, or a slice"
        )
    places = [int(place) for place in array.reshape(-1)]
    for place in places:
        if not -size <= place < most:
            raise IndexRangeError(
                f"{name}: index {place} is out of range for an axis of size {size}", where=caller()
            )
    return [place + size if place < 0 else place for place in places]


def _runs(keep: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending places as runs of neighbours: the first one, and how many."""
    runs: list[tuple[int, int]] = []
    for place in keep:
        if runs and sum(runs[-1]) == place:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    return runs


@surface
def delete(x: Any, obj: Any, axis: int | None = None) -> Value:
    """x without some slices of an axis.

    Args:
        x: any tensor.
        obj: which: an int, several, a slice, or a bool for each.
        axis: along which; all elements are a vector without one.

    Raises:
        IndexRangeError: for one that is out of range.
        ConcreteValueError: for an axis whose size, or places that only a run tells.
    """
    value, place, size = _axis(x, axis, "delete")
    gone = set(_places(obj, size, size, "delete"))
    runs = _runs([n for n in range(size) if n not in gone])
    pieces = [part(value, place, start, count) for start, count in runs]
    return concatenate(pieces, place) if pieces else part(value, place, 0, 0)


@surface
def insert(x: Any, obj: Any, values: Any, axis: int | None = None) -> Value:
    """x with further slices of an axis.

    Args:
        x: any tensor.
        obj: before which slices they come: an int, several, or a slice.
        values: what comes there, in the dtype of x: it broadcasts to a slice for each place, and
            a single place takes as many slices as there are.
        axis: along which; all elements are a vector without one.

    Raises:
        IndexRangeError: for a place that is out of range.
        ConcreteValueError: for an axis whose size, or places that only a run tells.
    """
    value, place, size = _axis(x, axis, "insert")
    places = _places(obj, size, size + 1, "insert")
    new = converted(as_value(values, value), value.dtype)
    new = with_shape(new, (1,) * (value.ndim - new.ndim) + new.shape, ())
    if np.ndim([] if isinstance(obj, slice) else obj) == 0:
        # of what a single place gets, NumPy takes the first axis for the axis
        new = moveaxis(new, 0, place)
    count = new.shape[place] if len(places) == 1 else len(places)
    new = broadcast_to(new, (*value.shape[:place], count, *value.shape[place + 1 :]))
    if len(places) == 1:
        start = places[0]
        before = part(value, place, 0, start)
        return concatenate([before, new, part(value, place, start, size - start)], place)
    order = sorted(range(len(places)), key=places.__getitem__)
    pieces, done = [], 0
    for number in order:
        pieces.append(part(value, place, done, places[number] - done))
        pieces.append(part(new, place, number, 1))
        done = places[number]
    return concatenate([*pieces, part(value, place, done, size - done)], place)


@surface
def resize(x: Any, new_shape: Any) -> Value:
    """The elements in row-major order in another shape, repeated from the first one as needed.

    Where there are none it has zeros, as NumPy's.
    """
    value, shape = ravel(as_value(x)), dims_of(new_shape)
    size, wanted = value.shape[0], product(shape)
    if wanted == 0:
        return with_shape(part(value, 0, 0, 0), shape, ())
    least = dim_max(size, 1)
    if least != size:
        zero = constant_beside(0, value.dtype, value)
        value = concatenate([value, broadcast_to(zero, (least - size,))], 0)
        value = with_shape(value, (least,), ())
    size = least
    copies: Value = surface_function("broadcast_to")(value, (ceil_div(wanted, size), size))
    return with_shape(part(ravel(copies), 0, 0, wanted), shape, ())
