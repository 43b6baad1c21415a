"""Values between points: linear interpolation of a function that is given at some."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import dim_max, dim_min
from graphc.ir.dtypes import float64, int64
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.complex.parts import joined
from graphc.ops.convert import as_value, converted, in_dtype, promoted, size_beside
from graphc.ops.declare import refuse
from graphc.ops.guards import nonempty_pair, show, unproved
from graphc.ops.indexing.core import taken
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import with_shape
from graphc.ops.move.slicing import part
from graphc.ops.pointwise.arithmetic import mod
from graphc.ops.pointwise.logic import equal, isnan, where
from graphc.ops.pointwise.rounding import maximum, minimum


@surface
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Value:
    """A function at x, that is straight between points.

    Args:
        x: where it is wanted, of any shape.
        xp: where the points are: a vector that ascends.
        fp: the function there: a vector, whose numbers may be complex.
        left: what it is below the first point; ``fp[0]`` unless given.
        right: what it is above the last one; ``fp[-1]`` unless given.
        period: after how much it begins again; points then need no order, and there are no ends.

    Integers and bools give float64, and NaN gives NaN. Where points are in no order, so is the
    result. Nothing of a gradient goes to the choice of the points between which x lies.

    Raises:
        ShapeError: for points that are no vectors, not as many as values, or none; at run time
            where sizes are unknown.
        DTypeError: for a period of 0, or one that is no number, and for points that are complex.
    """
    values, points, heights = promoted(x, xp, fp)
    if heights.dtype.is_complex:
        return _of_both_parts(x, xp, heights, left, right, period)
    if not values.dtype.is_float:
        values, points, heights = (converted(v, float64) for v in (values, points, heights))
    if points.ndim != 1 or heights.ndim != 1:
        raise ShapeError(
            f"interp with points {show(points.shape)} and values {show(heights.shape)}",
            where=caller(),
            hint="both are vectors",
        )
    guards = unproved(
        [(heights.shape[0], points.shape[0]), nonempty_pair(points.shape[0])],
        "interp with points {} and values {}",
        points.shape,
        heights.shape,
    )
    heights = with_shape(heights, points.shape, guards)
    if period is not None:
        values, points, heights = _around(values, points, heights, period)
        left = right = None
    size = points.shape[0]
    found = surface_function("searchsorted")(points, values, side="right")
    last = size_beside(dim_max(size - 2, 0), int64, values)
    low = minimum(maximum(found - 1, 0), last)
    high = low + size_beside(dim_min(size - 1, 1), int64, values)
    start, end = taken(points, low, 0), taken(points, high, 0)
    below, above = taken(heights, low, 0), taken(heights, high, 0)
    slope = (above - below) / (end - start)
    inner = slope * (values - start) + below
    # from an infinite point the other one is the better origin, and a level needs none
    inner = where(isnan(inner), slope * (values - end) + above, inner)
    inner = where(isnan(inner) & equal(below, above) & equal(values, values), below, inner)
    # at a point itself nothing infinite counts
    inner = where(equal(values, start), below, inner)
    first_point, last_point = (with_shape(part(points, 0, at, 1), (), ()) for at in (0, size - 1))
    first, final = (with_shape(part(heights, 0, at, 1), (), ()) for at in (0, size - 1))
    inner = where(equal(values, last_point), final, inner)
    under = first if left is None else in_dtype(left, values.dtype, values)
    over = final if right is None else in_dtype(right, values.dtype, values)
    inner = where(values > last_point, over, inner)
    return where(values < first_point, under, inner)


def _of_both_parts(x: Any, xp: Any, heights: Value, left: Any, right: Any, period: Any) -> Value:
    """A complex function, whose parts are straight by themselves."""
    values, points = promoted(x, xp)
    if values.dtype.is_complex:
        raise refuse("interp at complex places", "x and xp are real, and only fp may be complex")
    parts = []
    for name in ("real", "imag"):
        half = surface_function(name)
        ends = [end if end is None else half(as_value(end, heights)) for end in (left, right)]
        parts.append(interp(values, points, half(heights), ends[0], ends[1], period))
    return joined(*parts)


def _around(
    values: Value, points: Value, heights: Value, period: Any
) -> tuple[Value, Value, Value]:
    """All within one period, the points in order, and one more of them at either end."""
    length = abs(number(period, "period"))
    if length == 0:
        raise DTypeError("interp with a period of 0", where=caller())
    points = mod(points, length)
    order = surface_function("argsort")(points)
    points, heights = taken(points, order, 0), taken(heights, order, 0)
    size = points.shape[0]
    ends = [(part(v, 0, size - 1, 1), part(v, 0, 0, 1)) for v in (points, heights)]
    wide = concatenate([ends[0][0] - length, points, ends[0][1] + length])
    tall = concatenate([ends[1][0], heights, ends[1][1]])
    return mod(values, length), wide, tall
