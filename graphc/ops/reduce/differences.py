"""Differences and integrals along axes: of neighbours, of functions on a grid, of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, dim_max, dim_min
from graphc.ir.dtypes import bool_, float64
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole, number, repetitions
from graphc.ops.convert import as_float, as_value, axes_of, axis_of, converted
from graphc.ops.declare import like
from graphc.ops.guards import Guards, show, unproved
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import broadcast_to, ravel, with_shape
from graphc.ops.move.slicing import part
from graphc.ops.pointwise.arithmetic import mod
from graphc.ops.pointwise.logic import equal, not_equal, where
from graphc.ops.pointwise.rounding import abs_
from graphc.ops.reduce.axes import sum_
from graphc.ops.reduce.scans import cumsum

# --- neighbours ----------------------------------------------------------------------------------


def _edge(edge: Any, value: Value, axis: int) -> Value:
    """What is put before or behind: a scalar counts as one slice."""
    given = as_value(edge, value)
    if given.ndim:
        return given
    shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
    return broadcast_to(given, shape)


@surface
def diff(
    x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Value:
    """What each element differs from the one before it along an axis.

    Args:
        x: numbers; integers wrap, and bools say whether neighbours are unlike.
        n: how many times it is done.
        axis: along which.
        prepend: what stands before the axis: a scalar, or a tensor of the other axes' sizes.
        append: what stands behind it.

    Raises:
        ShapeError: for scalars, for a negative ``n``, and for one above 1,000.
    """
    value = as_value(x)
    if not value.ndim:
        raise ShapeError("diff of a scalar", where=caller(), hint="it needs an axis")
    place, count = axis_of(axis, value.ndim), repetitions(n, "n of diff")
    pieces = [value]
    if prepend is not None:
        pieces = [_edge(prepend, value, place), *pieces]
    if append is not None:
        pieces = [*pieces, _edge(append, value, place)]
    value = concatenate(pieces, place)
    for _ in range(count):
        left = dim_max(value.shape[place] - 1, 0)
        before, after = _ahead(value, place, left), _behind(value, place, left)
        value = not_equal(after, before) if value.dtype is bool_ else after - before
    return value


def _ahead(value: Value, axis: int, count: Dim) -> Value:
    return part(value, axis, 0, count)


def _behind(value: Value, axis: int, count: Dim) -> Value:
    return part(value, axis, value.shape[axis] - count, count)


@surface
def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Value:
    """What all elements differ from those before them, as a vector, between two others."""
    value = ravel(as_value(x))
    pieces = [diff(value)]
    for edge, is_front in ((to_begin, True), (to_end, False)):
        if edge is not None:
            more = converted(ravel(as_value(edge, value)), value.dtype)
            pieces = [more, *pieces] if is_front else [*pieces, more]
    return concatenate(pieces)


# --- on a grid -----------------------------------------------------------------------------------


@surface
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Value:
    """The integral of a function by the trapezoidal rule.

    Args:
        y: its values along an axis; integers and bools give float64.
        x: where these are: a vector, or a tensor that broadcasts with y.
        dx: how far they lie apart unless x says.
        axis: along which.
    """
    value = as_float(y)
    place = axis_of(axis, value.ndim)
    left = dim_max(value.shape[place] - 1, 0)
    steps: Any = dx
    if x is not None:
        points = as_float(x)
        if points.ndim == 1:
            shape = (1,) * place + points.shape + (1,) * (value.ndim - place - 1)
            points = with_shape(points, shape, ())
        steps = diff(points, axis=place - value.ndim)
    means = (_behind(value, place, left) + _ahead(value, place, left)) * 0.5
    return sum_(means * steps, place)


@surface
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The slopes of a function on a grid: central differences, one-sided ones at the ends.

    Args:
        f: its values; integers and bools give float64.
        varargs: nothing, for distances of 1; one distance for all axes; or for each axis a
            distance, or a vector of where the values are.
        axis: along which, or several; all (None) give a tuple, if there are several.
        edge_order: of how many further elements slopes at the ends are made: 1 or 2.

    Raises:
        ShapeError: for as many distances as there are no axes, and for axes that are proved too
            short: ``edge_order + 1`` elements are needed. At run time where sizes are unknown.
    """
    value = as_float(f)
    axes = axes_of(axis, value.ndim) if axis is None else None
    places = list(axes) if axes is not None else [
        axis_of(a, value.ndim)
        for a in (axis if isinstance(axis, (tuple, list)) else (axis,))
    ]  # fmt: skip
    if len(varargs) not in (0, 1, len(places)):
        raise ShapeError(
            f"{len(varargs)} distances for {len(places)} axes", where=caller(), hint="one for each"
        )
    if edge_order not in (1, 2):
        raise ShapeError(f"edge_order={edge_order!r}", where=caller(), hint="it is 1 or 2")
    # one slope alone needs what all of them need
    short = [
        guard
        for place in places
        for guard in unproved(
            [(dim_max(edge_order + 1 - value.shape[place], 0), 0)],
            f"gradient along axis {place} of {{}}: it takes {edge_order + 1} elements",
            value.shape,
        )
    ]
    given = [as_value(step, value) for step in varargs or (1.0,)]
    steps = given * (len(places) if len(given) < 2 else 1)
    for place, step in zip(places, steps, strict=True):
        short += _as_many(value, place, step)
    value = with_shape(value, value.shape, tuple(short))
    slopes = [
        _slopes(value, place, step, edge_order)
        for place, step in zip(places, steps, strict=True)
    ]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _as_many(value: Value, axis: int, distances: Value) -> Guards:
    """What is left to check of where values are along an axis: a place for each.

    Raises:
        ShapeError: for more axes than one, and where the number is known to be another one.
    """
    if distances.ndim > 1:
        raise ShapeError(
            f"gradient of {show(value.shape)} at {show(distances.shape)}",
            where=caller(),
            hint="distances along an axis are one number, or a vector",
        )
    pairs = [(count, value.shape[axis]) for count in distances.shape]
    return unproved(pairs, "gradient of {} at {}", value.shape, distances.shape)


def _slopes(value: Value, axis: int, distances: Value, order: int) -> Value:
    size = value.shape[axis]
    middle = dim_max(size - 2, 0)
    low, center, high = (part(value, axis, start, middle) for start in (0, 1, 2))
    if distances.ndim == 0:
        gap = converted(distances, value.dtype)
        inner = (high - low) / (gap * 2)
        before = after = gap
        ends = [(gap, gap), (gap, gap)]
    else:
        shape = (1,) * axis + (size - 1,) + (1,) * (value.ndim - axis - 1)
        guards = _as_many(value, axis, distances)
        gaps = with_shape(diff(converted(distances, value.dtype)), shape, guards)
        before, after = part(gaps, axis, 0, middle), part(gaps, axis, 1, middle)
        below = -after / (before * (before + after))
        above = before / (after * (before + after))
        inner = below * low + (after - before) / (before * after) * center + above * high
        ends = [
            (part(gaps, axis, 0, 1), part(gaps, axis, 1, 1) if order == 2 else gaps),
            (part(gaps, axis, size - 2, 1), part(gaps, axis, size - 3, 1) if order == 2 else gaps),
        ]
    first = _end(value, axis, (0, 1, 2), *ends[0], order)
    last = -_end(value, axis, (size - 1, size - 2, size - 3), *ends[1], order)
    return with_shape(concatenate([first, inner, last], axis), value.shape, ())


def _end(
    value: Value, axis: int, places: Sequence[Dim], near: Value, far: Value, order: int
) -> Value:
    """The slope at one end, from the elements that follow it inwards."""
    first, second = (part(value, axis, place, 1) for place in places[:2])
    if order == 1:
        return (second - first) / near
    third = part(value, axis, places[2], 1)
    both = near + far
    return (
        -(near + both) / (near * both) * first
        + both / (near * far) * second
        - near / (far * both) * third
    )


# --- angles --------------------------------------------------------------------------------------


@surface
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Value:
    """Angles along an axis, moved by whole periods so that neighbours differ by half a one at most.

    Args:
        p: angles; integers give float64, unless the period is an int too. They are converted
            before anything is subtracted, so unsigned ones don't wrap around as NumPy's do.
        discont: neighbours that differ by less stay as they are; half of a period unless given.
        axis: along which.
        period: after how much angles begin again.
    """
    value = as_value(p)
    if not isinstance(period, Value) and not is_whole(period):
        period = number(period, "period")
    is_whole_period = isinstance(period, int) and value.dtype.is_integer
    if not value.dtype.is_inexact and not is_whole_period:
        value = converted(value, float64)
    place = axis_of(axis, value.ndim)
    steps = diff(value, axis=place)
    half = period // 2 if is_whole_period else period / 2
    low = -half
    moved = mod(steps - low, period) + low
    if not is_whole_period or period % 2 == 0:
        ends = equal(moved, low) & (steps > 0)
        moved = where(ends, like(half, value) if isinstance(half, (int, float)) else half, moved)
    shift = moved - steps
    stays = abs_(steps) < (half if discont is None else discont)
    shift = where(stays, like(0, value), shift)
    size = value.shape[place]
    first = part(value, place, 0, dim_min(size, 1))
    rest = _behind(value, place, dim_max(size - 1, 0)) + converted(
        cumsum(shift, place), value.dtype
    )
    return with_shape(concatenate([first, rest], place), value.shape, ())
