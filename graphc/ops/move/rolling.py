"""Tensors turned: rolled along axes, rotated, mirrored.

Invariant: elements are only moved, so every dtype is taken and every value arrives with its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, DimExpr, dim_max
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import one_or_more, whole
from graphc.ops.convert import as_value, axis_of
from graphc.ops.move.joining import concatenate
from graphc.ops.move.parts import flip
from graphc.ops.move.shape import ravel, swapaxes, transpose, with_shape
from graphc.ops.move.slicing import part


@surface
def roll(x: Any, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Value:
    """Elements moved on along axes; those that leave at the end come in at the front.

    Args:
        x: any tensor.
        shift: by how many places: an int or a dim, or one for each axis; negative to the front.
        axis: an axis, or several, of which one may be named twice; None rolls all elements in
            row-major order.

    Raises:
        ShapeError: if there are not as many shifts as axes; one of either goes with any number.
        DTypeError: for a shift that only a run tells.
    """
    value = as_value(x)
    given = shift if isinstance(shift, (list, tuple)) else (shift,)
    shifts = [_shift(item) for item in given]
    if axis is None:
        total: Dim = 0
        for one in shifts:
            total = total + one
        return with_shape(_rolled(ravel(value), total, 0), value.shape, ())
    axes = [axis_of(item, value.ndim) for item in one_or_more(axis, "axis")]
    count = max(len(shifts), len(axes))
    if {len(shifts), len(axes)} - {1, count}:
        raise ShapeError(
            f"{len(shifts)} shifts for {len(axes)} axes",
            where=caller(),
            hint="give one of either, or as many of both",
        )
    repeated = zip(shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True)
    for distance, place in repeated:
        value = _rolled(value, distance, place)
    return value


def _shift(given: Any) -> Dim:
    return given if isinstance(given, DimExpr) else whole(given, "shift")


def _rolled(value: Value, shift: Dim, axis: int) -> Value:
    size = value.shape[axis]
    if size == 0:
        return value
    # a length that turns out to be 0 is not divided by
    front = shift % dim_max(size, 1)
    if front == 0:
        return value
    pieces = part(value, axis, size - front, front), part(value, axis, 0, size - front)
    return with_shape(concatenate(pieces, axis), value.shape, ())


@surface
def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Value:
    """Turned ``k`` times by a quarter, from the first of two axes towards the second.

    Raises:
        ShapeError: unless the axes are two different ones.
    """
    value = as_value(x)
    given = [axis_of(axis, value.ndim) for axis in one_or_more(axes, "axes")]
    if len(given) != 2 or given[0] == given[1]:
        raise ShapeError(
            f"axes {tuple(axes)} are no plane", where=caller(), hint="give two different axes"
        )
    first, second = given
    match whole(k, "k") % 4:
        case 0:
            return value
        case 1:
            return swapaxes(flip(value, second), first, second)
        case 2:
            return flip(value, given)
        case _:
            return flip(swapaxes(value, first, second), second)


@surface
def fliplr(x: Any) -> Value:
    """Columns in reverse order: ``flip`` of axis 1."""
    return flip(x, 1)


@surface
def flipud(x: Any) -> Value:
    """Rows in reverse order: ``flip`` of axis 0."""
    return flip(x, 0)


@surface
def matrix_transpose(x: Any) -> Value:
    """Each matrix of a stack transposed: the last two axes exchanged.

    Raises:
        ShapeError: for vectors and scalars.
    """
    return swapaxes(x, -1, -2)


@surface
def rollaxis(x: Any, axis: int, start: int = 0) -> Value:
    """An axis moved until it lies before the axis that is ``start`` now; see ``moveaxis``."""
    value = as_value(x)
    place = axis_of(axis, value.ndim)
    before = value.ndim if start == value.ndim else axis_of(start, value.ndim)
    order = [other for other in range(value.ndim) if other != place]
    order.insert(before - (place < before), place)
    return transpose(value, order)
