"""Parts and margins of tensors as users ask for them: flip, split, pad, and Python's slices.

Invariant: what is passed on to the core ops is normalised for every length of the axes, lengths
that are known only when the graph runs included.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, DimExpr, ceil_div, dim_max, dim_min, less, select
from graphc.ir.guard import Data
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import beside_all, is_whole, items_of
from graphc.ops.convert import PYTHON_SCALARS, as_value, axes_of, axis_of
from graphc.ops.guards import show, unproved
from graphc.ops.move.slicing import flipped, padded, part, sliced


def bounds_of_slice(key: slice, length: Dim) -> tuple[Dim, int, Dim]:
    """Start, step and size of a Python slice of an axis, for every length of the axis.

    Raises:
        UnsupportedError: for bounds that are known only when the graph runs.
        ShapeError: for bounds that are not ints and for step 0.
    """
    step = 1 if key.step is None else _slice_part(key.step)
    if not isinstance(step, int):
        raise UnsupportedError(
            "a slice step that is a symbolic dim",
            where=caller(),
            hint="take the places: gx.take(x, gx.arange(count) * step, axis=0)",
        )
    if step == 0:
        raise ShapeError("slice step cannot be zero", where=caller())
    low, high = (0, length) if step > 0 else (-1, length - 1)
    start: Dim = low if step > 0 else high
    stop: Dim = high if step > 0 else low
    if key.start is not None:
        start = _clamped(_slice_part(key.start), length, low, high)
    if key.stop is not None:
        stop = _clamped(_slice_part(key.stop), length, low, high)
    distance = stop - start if step > 0 else start - stop
    return start, step, dim_max(ceil_div(distance, abs(step)), 0)


def _slice_part(bound: Any) -> Dim:
    if isinstance(bound, Value):
        raise UnsupportedError(
            "a slice bound that is a symbolic value: the size of the result would be unknown",
            where=caller(),
            hint="use a mask with where, or take with indices of a known number",
        )
    if isinstance(bound, DimExpr):
        return bound
    if is_whole(bound):
        return beside_all(int(bound))
    raise ShapeError(f"slice bound {bound!r} is not an int", where=caller())


def _clamped(bound: Dim, length: Dim, low: Dim, high: Dim) -> Dim:
    from_end = dim_max(bound + length, low)
    from_start = dim_min(bound, high)
    return select("lt", bound, 0, from_end, from_start)


MOST_PARTS = 100_000
"""So many values a split may have."""


@surface
def flip(x: Any, axis: int | Sequence[int] | None = None) -> Value:
    """The order of the elements reversed along the given axes, or all."""
    value = as_value(x)
    return flipped(value, axes_of(axis, value.ndim))


@surface
def split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Value]:
    """``x`` cut along an axis: into equally many parts, or before the given indices.

    Raises:
        ShapeError: if the number of parts does not divide the axis; at run time if that is unknown.
    """
    value = as_value(x)
    place = axis_of(axis, value.ndim)
    length = value.shape[place]
    if isinstance(indices_or_sections, (int, np.integer)):
        count = int(indices_or_sections)
        message = f"axis {place} of {{}} does not split into {count} equal parts"
        if not 1 <= count <= MOST_PARTS:
            raise ShapeError(
                message.format(show(value.shape)),
                where=caller(),
                hint=f"there may be 1 to {MOST_PARTS}, each a value",
            )
        size = length // count
        guards = unproved([(length, size * count)], message, value.shape)
        return [part(value, place, size * number, size, guards) for number in range(count)]
    cuts = [None, *items_of(indices_or_sections, "indices_or_sections"), None]
    ranges = (slice(*pair) for pair in itertools.pairwise(cuts))
    parts = (bounds_of_slice(key, length) for key in ranges)
    return [part(value, place, start, size) for start, _, size in parts]


@surface
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Value:
    """``x`` with margins, as ``np.pad``; negative widths crop.

    Args:
        x: any tensor.
        pad_width: one width, (before, after), or a pair per axis; ints or dims.
        mode: constant, edge or reflect.
        constant_values: the number that mode constant fills with.

    Raises:
        ShapeError: for widths that don't fit, and for edge and reflect of an empty axis.
    """
    value = as_value(x)
    if mode not in ("constant", "edge", "reflect"):
        raise UnsupportedError(
            f"pad mode {mode!r}", where=caller(), hint="modes are constant, edge and reflect"
        )
    if not isinstance(constant_values, (*PYTHON_SCALARS, np.generic)) and (
        not isinstance(constant_values, np.ndarray) or constant_values.ndim
    ):
        raise UnsupportedError(
            "padding with anything but one number",
            where=caller(),
            hint="pad the axes one after the other, or use where",
        )
    if not isinstance(constant_values, PYTHON_SCALARS):
        constant_values = np.asarray(constant_values).item()
    widths = _widths(pad_width, value.ndim)
    if mode == "constant":
        before, after = (tuple(pair[side] for pair in widths) for side in (0, 1))
        return padded(_cropped(value, widths), _grown(before), _grown(after), fill=constant_values)
    value = _cropped(value, widths)
    before, after = (_grown(tuple(pair[side] for pair in widths)) for side in (0, 1))
    guards = unproved(
        [
            (select("eq", size, 0, first + last, 0), 0)
            for size, first, last in zip(value.shape, before, after, strict=True)
        ],
        f"cannot pad {{}} by mode {mode!r}: an axis has no element to repeat",
        value.shape,
    )
    return padded(value, before, after, mode=mode, guards=guards)


def _grown(widths: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(0 if less(width, 0) else width for width in widths)


def _cropped(value: Value, widths: Sequence[tuple[Dim, Dim]]) -> Value:
    """What is left where widths are proved negative."""
    start: list[Dim] = []
    size: list[Dim] = []
    guards: list[Data] = []
    for length, (before, after) in zip(value.shape, widths, strict=True):
        low = -before if less(before, 0) else 0
        high = length + after if less(after, 0) else length
        left = high - low
        message = "cannot crop an axis of {} by {} and {}"
        guards += unproved([(dim_max(left, 0), left)], message, length, -before, -after)
        start.append(low)
        size.append(left)
    return sliced(value, start, [1] * value.ndim, size, tuple(guards))


def _widths(pad_width: Any, rank: int) -> list[tuple[Dim, Dim]]:
    """A pair per axis from what ``np.pad`` takes."""

    def width(item: Any) -> Dim:
        if isinstance(item, DimExpr):
            return item
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            return int(item)
        raise ShapeError(f"{item!r} is not a width of padding", where=caller())

    def is_sequence(item: Any) -> bool:
        return isinstance(item, (list, tuple, np.ndarray))

    given = list(pad_width) if is_sequence(pad_width) else [pad_width]
    if not any(is_sequence(item) for item in given):
        given = [given]
    pairs = [[width(i) for i in (item if is_sequence(item) else [item])] for item in given]
    if any(len(pair) not in (1, 2) for pair in pairs) or len(pairs) not in (1, rank):
        raise ShapeError(
            f"pad width {pad_width!r} for a tensor of rank {rank}",
            where=caller(),
            hint="give one width, a pair, or a pair per axis",
        )
    full = [(pair[0], pair[-1]) for pair in pairs]
    return full * rank if len(full) == 1 else full
