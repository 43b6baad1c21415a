"""``x[key]``: NumPy's basic and advanced indexing, taken apart into the core ops.

Ints, slices, None and Ellipsis become one ``slice`` and one ``reshape``. Index arrays, masks that
are known (as the indices of their true elements) and integer tensors become one ``take``; several
of them are first combined to places in the merged axes.

Invariant: the result has NumPy's shape for every length of the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    product,
    select,
)
from graphc.ir.dtypes import bool_, floating
from graphc.ir.guard import Data
from graphc.ir.recorder import producer_of
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value, common_shape
from graphc.ops.guards import Guards, index_guard, show, unproved
from graphc.ops.indexing.core import raveled, taken
from graphc.ops.indexing.picking import index_value
from graphc.ops.move.parts import bounds_of_slice
from graphc.ops.move.shape import permuted, stretched, with_shape
from graphc.ops.move.slicing import sliced
from graphc.ops.source import constant_op


@dataclass(slots=True)
class _Plan:
    """What the parts of a key ask for, in their order.

    Attributes:
        start, step, size: the slice of every axis of the tensor.
        shape: the dims after it, with those of ints dropped and new ones put in.
        places: where in ``shape`` an axis is indexed by an array.
        axes: the axes of the tensor that these are.
        arrays: the index of each.
        advanced: the positions in the key of ints and arrays.
        sliced_guards: what the slice needs at run time.
        taken_guards: what the arrays need at run time.
    """

    start: list[Dim] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    size: list[Dim] = field(default_factory=list)
    shape: list[Dim] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)
    advanced: list[int] = field(default_factory=list)
    sliced_guards: list[Data] = field(default_factory=list)
    taken_guards: list[Data] = field(default_factory=list)

    def whole(self, length: Dim) -> None:
        """An axis that stays as it is for now."""
        self.start.append(0)
        self.step.append(1)
        self.size.append(length)
        self.shape.append(length)


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
        if isinstance(item, bool) or (_is_mask(item) and item.ndim == 0):
            raise UnsupportedError(
                f"indexing with the truth value {item}", where=caller(), hint="index with None"
            )
        parts.append(item)
    return parts


def _array_of(items: list[Any]) -> Any:
    """A list in a key as an array of indices or a mask; a tensor where it contains tensors."""
    if any(isinstance(item, Value) for item in items):
        return surface_function("stack")(items)
    array = np.asarray(items)
    return array.astype(np.int64) if array.size == 0 and floating(array.dtype) else array


def _known_mask(mask: Value) -> Any:
    producer = producer_of(mask)
    if producer is not None and producer.op is constant_op:
        return producer.attrs["value"].array
    raise UnsupportedError(
        "indexing with a symbolic mask: the size of the result is unknown",
        where=caller(),
        hint="use where(mask, x, other), which keeps the shape",
    )


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def _consumed(item: Any) -> int:
    """How many axes a part of a key stands for."""
    if item is None or item is Ellipsis:
        return 0
    return int(item.ndim) if _is_mask(item) else 1


def _plan(shape: Sequence[Dim], key: Any) -> _Plan:
    parts = _parts_of(key)
    if sum(item is Ellipsis for item in parts) > 1:
        raise IndexRangeError("an index has one Ellipsis at most", where=caller())
    missing = len(shape) - sum(map(_consumed, parts))
    if missing < 0:
        raise IndexRangeError(
            f"{len(shape) - missing} indices for a tensor of shape {show(shape)}", where=caller()
        )
    if not any(item is Ellipsis for item in parts):
        parts.append(Ellipsis)
    plan = _Plan()
    for position, item in enumerate(parts):
        axis = len(plan.size)
        if item is Ellipsis:
            for length in shape[axis : axis + missing]:
                plan.whole(length)
        elif item is None:
            plan.shape.append(1)
        elif isinstance(item, slice):
            start, step, size = bounds_of_slice(item, shape[axis])
            plan.start.append(start)
            plan.step.append(step)
            plan.size.append(size)
            plan.shape.append(size)
        elif isinstance(item, (int, np.integer, DimExpr)):
            plan.advanced.append(position)
            _plan_int(plan, item if isinstance(item, DimExpr) else int(item), axis, shape[axis])
        elif _is_mask(item):
            plan.advanced.append(position)
            _plan_mask(plan, item, shape)
        elif isinstance(item, (np.ndarray, Value)):
            plan.advanced.append(position)
            _plan_array(plan, item, axis, shape[axis])
        else:
            raise DTypeError(
                f"an index cannot be {item!r}",
                where=caller(),
                hint="indices are ints, slices, None, Ellipsis, integer arrays and known masks",
            )
    return plan


def _plan_int(plan: _Plan, index: Dim, axis: int, length: Dim) -> None:
    """One element of an axis, as a slice whose axis is dropped."""
    start = select("lt", index, 0, length + index, index)
    above, below = less_equal(0, start), less(start, length)
    if above is False or below is False:
        raise IndexRangeError(
            f"index {index} is out of range for axis {axis} of size {length}", where=caller()
        )
    if above is None:
        within = dim_max(start, 0)
        plan.sliced_guards.append(index_guard(within, start, index, axis, length))
    if below is None:
        within = dim_min(length - 1, start)
        plan.sliced_guards.append(index_guard(within, start, index, axis, length))
    plan.start.append(start)
    plan.step.append(1)
    plan.size.append(1)


def _plan_array(plan: _Plan, array: Any, axis: int, length: Dim) -> None:
    plan.places.append(len(plan.shape))
    plan.axes.append(axis)
    plan.arrays.append(array)
    plan.whole(length)


def _plan_mask(plan: _Plan, mask: Any, shape: Sequence[Dim]) -> None:
    first = len(plan.size)
    for offset, (size, indices) in enumerate(zip(mask.shape, mask.nonzero(), strict=True)):
        length = shape[first + offset]
        same = equal(length, size)
        if same is False:
            covered = shape[first : first + mask.ndim]
            raise IndexRangeError(
                f"a mask of shape {list(mask.shape)} for axes of shape {show(covered)}",
                where=caller(),
            )
        if same is None:
            message = f"a mask of shape {list(mask.shape)} for axes of shape {{}}"
            covered = shape[first : first + mask.ndim]
            plan.taken_guards += unproved([(length, size)], message, covered, index=True)
        _plan_array(plan, indices, first + offset, length)


@surface
def getitem(x: Any, key: Any) -> Value:
    """``x[key]`` by NumPy's rules.

    Args:
        x: any tensor.
        key: ints, slices with any step, None, Ellipsis, lists, integer arrays and tensors, boolean
            arrays, or a tuple of them.

    Raises:
        IndexRangeError: for too many indices, and those proved to be out of range; what cannot be
            proved is checked when the graph runs.
        UnsupportedError: for a symbolic mask or slice bound, whose result has no known size.
        DTypeError: for anything else in the key.
    """
    value = as_value(x)
    plan = _plan(value.shape, key)
    part = sliced(value, plan.start, plan.step, plan.size, tuple(plan.sliced_guards))
    part = with_shape(part, tuple(plan.shape), ())
    if not plan.arrays:
        return part
    indices = [
        index_value(array, value, axis) for array, axis in zip(plan.arrays, plan.axes, strict=True)
    ]
    first, last = plan.advanced[0], plan.advanced[-1]
    adjacent = last - first + 1 == len(plan.advanced)
    return _gathered(part, plan, indices, adjacent)


def _gathered(part: Value, plan: _Plan, indices: list[Value], adjacent: bool) -> Value:
    """Takes by all index tensors at once; their axes go first unless they were adjacent."""
    guards: Guards = tuple(dict.fromkeys(plan.taken_guards))
    places = plan.places
    target = places[0] if adjacent else 0
    if len(indices) == 1:
        result = taken(part, indices[0], places[0], guards)
        moved = range(places[0], places[0] + indices[0].ndim)
        others = [axis for axis in range(result.ndim) if axis not in moved]
        return permuted(result, (*others[:target], *moved, *others[target:]))
    message = f"index arrays of shapes {' and '.join('{}' for _ in indices)} do not broadcast"
    common, fit = common_shape([index.shape for index in indices], message, index=True)
    guards = (*guards, *fit)
    others = [axis for axis in range(part.ndim) if axis not in places]
    joined = permuted(part, (*others[:target], *places, *others[target:]))
    dims = tuple(part.shape[place] for place in places)
    end = target + len(places)
    merged = (*joined.shape[:target], product(dims), *joined.shape[end:])
    flat = raveled([stretched(index, common, guards) for index in indices], dims, tuple(plan.axes))
    return taken(with_shape(joined, merged, ()), flat, target, guards)
