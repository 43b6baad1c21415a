"""What the parts of a key ask for: the key of ``x[key]`` and of ``x.at[key]``, axis by axis.

Invariant: a ``Key`` is valid for every length of the axes for which its guards hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from graphc.base.errors import DTypeError, IndexRangeError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.dims.expressions import (
    Dim,
    DimExpr,
    dim_max,
    dim_min,
    equal,
    less,
    less_equal,
    select,
)
from graphc.ir.dtypes import bool_, floating
from graphc.ir.guard import Data
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.guards import index_guard, show, unproved
from graphc.ops.indexing.windows import window_of
from graphc.ops.move.parts import bounds_of_slice
from graphc.ops.move.shape import with_shape
from graphc.ops.source import known_array


@dataclass(slots=True, eq=False)
class Key:
    """What the parts of a key ask for, in their order.

    Attributes:
        start, step, size: the slice of every axis of the tensor.
        shape: the dims after it, with those of ints dropped and new ones put in.
        sources: the axis of the tensor that each of them is; None for new ones.
        places: where in ``shape`` an axis is indexed by an array.
        axes: the axes of the tensor that these are.
        arrays: the index of each.
        windows: places along axes whose slices begin at a value, by axis; ``size`` has how many.
        mask: a mask that is a value, and the first axis that it covers.
        advanced: the positions in the key of ints, arrays and masks.
        sliced_guards: what the slice needs at run time.
        taken_guards: what the arrays and masks need at run time.
    """

    start: list[Dim] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    size: list[Dim] = field(default_factory=list)
    shape: list[Dim] = field(default_factory=list)
    sources: list[int | None] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)
    windows: dict[int, Value] = field(default_factory=dict)
    mask: tuple[Value, int] | None = None
    advanced: list[int] = field(default_factory=list)
    sliced_guards: list[Data] = field(default_factory=list)
    taken_guards: list[Data] = field(default_factory=list)

    @property
    def adjacent(self) -> bool:
        """Whether ints, arrays and masks follow each other, so that their axes stay in place."""
        return self.advanced[-1] - self.advanced[0] + 1 == len(self.advanced)

    def slice(self, start: Dim, step: int, size: Dim) -> None:
        """An axis of which a slice stays."""
        self.shape.append(size)
        self.sources.append(len(self.size))
        self.start.append(start)
        self.step.append(step)
        self.size.append(size)

    def is_whole(self, axis: int, length: Dim) -> bool:
        """Whether the key asks for all of an axis, in its order."""
        if axis in self.axes or axis in self.windows:
            return False
        return self.step[axis] == 1 and equal(self.size[axis], length) is True


def _parts_of(key: Any) -> list[Any]:
    """The parts of a key; sequences become arrays, masks that are known stand for themselves."""
    parts: list[Any] = []
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, (list, range)):
            item = _array_of(list(item))
        elif isinstance(item, Value) and item.dtype is bool_:
            item = _known_mask(item)
        elif isinstance(item, np.generic):
            item = np.asarray(item)
        if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
            item = int(item)
        parts.append(np.asarray(item) if isinstance(item, bool) else item)
    return parts


def _array_of(items: list[Any]) -> Any:
    """A list in a key as an array of indices or a mask; a tensor where it contains tensors."""
    if any(isinstance(item, Value) for item in items):
        return surface_function("stack")(items)
    array = np.asarray(items)
    return array.astype(np.int64) if array.size == 0 and floating(array.dtype) else array


def _known_mask(mask: Value) -> Any:
    array = known_array(mask)
    return mask if array is None else array


def refuse_mask(mask: Value) -> NoReturn:
    """Says what to write in place of reading by a mask that a run tells.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        f"indexing with the symbolic mask {mask!r}: the size of the result is unknown",
        where=caller(),
        hint="gx.where(mask, x, other) keeps the shape; gx.compress(mask, x, size=most, axis=0) "
        "has room for so many and fills the rest with fill_value=; x.at[mask].set(v) writes",
    )


def _is_mask(item: Any) -> bool:
    if isinstance(item, Value):
        return item.dtype is bool_
    return isinstance(item, np.ndarray) and item.dtype == bool


def _consumed(item: Any) -> int:
    """How many axes a part of a key stands for."""
    if item is None or item is Ellipsis:
        return 0
    return int(item.ndim) if _is_mask(item) else 1


def without_truths(value: Value, given: Any) -> tuple[Value, Any]:
    """A tensor and a key, of whose known truth values each is an index along an axis of its own.

    ``x[True]`` is ``x[None][[0]]``, and ``x[False]`` is ``x[None]`` with no index, as in NumPy: a
    mask without axes has as many places as there are truths in it.
    """
    if not any(map(_is_truth, given if isinstance(given, tuple) else (given,))):
        return value, given
    parts = _parts_of(given)
    consumed = sum(map(_consumed, parts))
    shape: list[Dim] = []
    places: list[Any] = []
    rest = list(value.shape)
    for item in parts:
        if _is_truth(item):
            shape.append(1)
            places.append(np.zeros(int(item), np.int64))
            continue
        missing = len(value.shape) - consumed if item is Ellipsis else _consumed(item)
        shape += rest[:missing]
        del rest[:missing]
        places.append(item)
    return with_shape(value, (*shape, *rest), ()), tuple(places)


def _is_truth(item: Any) -> bool:
    """Whether a part of a key is a truth value that is known."""
    if isinstance(item, Value):
        return item.ndim == 0 and item.dtype is bool_ and known_array(item) is not None
    return isinstance(item, bool) or (
        isinstance(item, (np.ndarray, np.generic)) and item.ndim == 0 and item.dtype == bool
    )


def key_of(shape: Sequence[Dim], given: Any, ints_are_arrays: bool = False) -> Key:
    """What a key means for a tensor of this shape.

    Args:
        shape: of the tensor.
        given: the key.
        ints_are_arrays: whether ints are looked up as indices are, so that a mode serves them.

    Raises:
        IndexRangeError: for too many indices, and those proved to be out of range.
        UnsupportedError: for a slice whose length is unknown.
        DTypeError: for anything else that is no index.
    """
    parts = _parts_of(given)
    if sum(item is Ellipsis for item in parts) > 1:
        raise IndexRangeError("an index has one Ellipsis at most", where=caller())
    missing = len(shape) - sum(map(_consumed, parts))
    if missing < 0:
        raise IndexRangeError(
            f"{len(shape) - missing} indices for a tensor of shape {show(shape)}", where=caller()
        )
    if not any(item is Ellipsis for item in parts):
        parts.append(Ellipsis)
    key = Key()
    for position, item in enumerate(parts):
        axis = len(key.size)
        if item is Ellipsis:
            for length in shape[axis : axis + missing]:
                key.slice(0, 1, length)
        elif item is None:
            key.shape.append(1)
            key.sources.append(None)
        elif isinstance(item, slice):
            _add_slice(key, item, axis, shape[axis])
        elif isinstance(item, (int, np.integer, DimExpr)) and not (
            ints_are_arrays and not isinstance(item, DimExpr)
        ):
            key.advanced.append(position)
            _add_int(key, item if isinstance(item, DimExpr) else int(item), axis, shape[axis])
        elif _is_mask(item):
            key.advanced.append(position)
            _add_mask(key, item, shape)
        elif isinstance(item, (int, np.ndarray, Value)):
            key.advanced.append(position)
            _add_array(key, item, axis, shape[axis])
        else:
            raise DTypeError(
                f"an index cannot be {item!r}",
                where=caller(),
                hint="indices are ints, slices, None, Ellipsis, integer arrays and masks",
            )
    return key


def _add_slice(key: Key, item: slice, axis: int, length: Dim) -> None:
    window = window_of(item, axis, length)
    if window is not None:
        key.windows[axis] = window
        key.slice(0, 1, window.shape[0])
    else:
        key.slice(*bounds_of_slice(item, length))


def _add_int(key: Key, index: Dim, axis: int, length: Dim) -> None:
    """One element of an axis, as a slice whose axis is dropped."""
    start = select("lt", index, 0, length + index, index)
    above, below = less_equal(0, start), less(start, length)
    if above is False or below is False:
        raise IndexRangeError(
            f"index {index} is out of range for axis {axis} of size {length}", where=caller()
        )
    if above is None:
        within = dim_max(start, 0)
        key.sliced_guards.append(index_guard(within, start, index, axis, length))
    if below is None:
        within = dim_min(length - 1, start)
        key.sliced_guards.append(index_guard(within, start, index, axis, length))
    key.start.append(start)
    key.step.append(1)
    key.size.append(1)


def _add_array(key: Key, array: Any, axis: int, length: Dim) -> None:
    key.places.append(len(key.shape))
    key.axes.append(axis)
    key.arrays.append(array)
    key.slice(0, 1, length)


def _add_mask(key: Key, mask: Any, shape: Sequence[Dim]) -> None:
    first = len(key.size)
    covered = shape[first : first + mask.ndim]
    message = "a mask of shape {} for axes of shape {}"
    # a known mask of all axes that has no elements chooses none, whatever their sizes; as in NumPy
    is_empty = isinstance(mask, np.ndarray) and not mask.size and mask.ndim == len(shape)
    pairs = [] if is_empty else list(zip(covered, mask.shape, strict=True))
    key.taken_guards += unproved(pairs, message, mask.shape, covered, index=True)
    if isinstance(mask, Value):
        if key.mask is not None:
            raise UnsupportedError(
                "two symbolic masks in one key",
                where=caller(),
                hint="combine them: x[mask[:, None] & other] covers two axes",
            )
        key.mask = mask, first
        for length in covered:
            key.slice(0, 1, length)
        return
    for offset, indices in enumerate(mask.nonzero()):
        _add_array(key, indices, first + offset, covered[offset])


__all__ = ["Key", "key_of", "refuse_mask", "without_truths"]
