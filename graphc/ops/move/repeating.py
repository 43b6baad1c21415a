"""Elements and whole tensors repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import one_or_more
from graphc.ops.convert import as_value, axis_of
from graphc.ops.guards import unproved
from graphc.ops.move.shape import broadcast_to, ravel, with_shape


@surface
def tile(x: Any, reps: int | Sequence[int]) -> Value:
    """Copies of the whole tensor side by side: ``reps[i]`` of them along axis i."""
    value = as_value(x)
    counts: list[Any] = [*one_or_more(reps, "reps")]
    rank = max(value.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + [_count(count) for count in counts]
    shape = (1,) * (rank - value.ndim) + value.shape
    wide = tuple(dim for pair in zip(counts, shape, strict=True) for dim in pair)
    thin = tuple(dim for size in shape for dim in (1, size))
    result = tuple(count * size for count, size in zip(counts, shape, strict=True))
    return with_shape(broadcast_to(with_shape(value, thin, ()), wide), result, ())


@surface
def repeat(x: Any, repeats: int | Sequence[int], axis: int | None = None) -> Value:
    """Each element (of the vector of all, or along an axis) ``repeats`` times in a row.

    A sequence says for each element how often; an array of integers is one.

    Raises:
        ShapeError: for what are no numbers of repetitions, or not as many as elements.
    """
    value = as_value(x)
    if axis is None:
        value, axis = ravel(value), 0
    place = axis_of(axis, value.ndim)
    if isinstance(repeats, (list, tuple, np.ndarray)) and np.size(repeats) != 1:
        return _repeated(value, [_count(count) for count in repeats], place)
    if isinstance(repeats, (list, tuple, np.ndarray)):
        repeats = np.ravel(repeats).tolist()[0]
    before, size, after = value.shape[:place], value.shape[place], value.shape[place + 1 :]
    count = _count(repeats)
    thin = with_shape(value, (*before, size, 1, *after), ())
    wide = broadcast_to(thin, (*before, size, count, *after))
    return with_shape(wide, (*before, size * count, *after), ())


def _repeated(value: Value, counts: Sequence[int], axis: int) -> Value:
    """Picked by an index for each element of the result."""
    guards = unproved(
        [(value.shape[axis], len(counts))],
        f"{len(counts)} numbers of repetitions for axis {axis} of {{}}",
        value.shape,
    )
    shape = (*value.shape[:axis], len(counts), *value.shape[axis + 1 :])
    places = np.repeat(np.arange(len(counts)), counts)
    result: Value = surface_function("take")(with_shape(value, shape, guards), places, axis)
    return result


def _count(count: Any) -> int:
    if isinstance(count, (int, np.integer)) and not isinstance(count, bool) and count >= 0:
        return int(count)
    raise ShapeError(f"{count!r} is not a number of repetitions", where=caller())
