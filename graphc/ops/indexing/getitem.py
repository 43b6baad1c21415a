"""``x[key]``: NumPy's basic and advanced indexing, taken apart into the core ops.

Ints, slices, None and Ellipsis become one ``slice`` and one ``reshape``. Index arrays, masks that
are known (as the indices of their true elements) and integer tensors become one ``take``; several
of them are first combined to places in the merged axes.

Invariant: the result has NumPy's shape for every length of the axes.
"""

from __future__ import annotations

from typing import Any

from graphc.ir.dims.expressions import product
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value, common_shape
from graphc.ops.guards import Guards
from graphc.ops.indexing.core import raveled, taken
from graphc.ops.indexing.keys import Key, key_of, refuse_mask, without_truths
from graphc.ops.indexing.modes import brought_in
from graphc.ops.indexing.picking import filled, index_value
from graphc.ops.move.shape import permuted, stretched, with_shape
from graphc.ops.move.slicing import sliced


@surface
def getitem(x: Any, key: Any) -> Value:
    """``x[key]`` by NumPy's rules.

    Args:
        x: any tensor.
        key: ints, slices with any step, None, Ellipsis, lists, integer arrays and tensors, boolean
            arrays and truth values, or a tuple of them. A slice may begin at an integer value
            ``i`` if its length is known, as in ``i : i + 3``; it must not leave the axis.

    Raises:
        IndexRangeError: for too many indices, and those proved to be out of range; what cannot be
            proved is checked when the graph runs.
        UnsupportedError: for a symbolic mask, or a slice bound that is a value otherwise, whose
            result has no known size.
        DTypeError: for anything else in the key.
    """
    return read(as_value(x), key)


def read(value: Value, given: Any, mode: str = "error", fill: Any = None) -> Value:
    """What a key asks for; ``mode`` is as ``mode_of`` gives it."""
    value, plain = without_truths(value, given)
    key = key_of(value.shape, plain, ints_are_arrays=mode != "error")
    if key.mask is not None:
        refuse_mask(key.mask[0])
    for axis, places in key.windows.items():
        value = taken(value, places, axis)
    part = sliced(value, key.start, key.step, key.size, tuple(key.sliced_guards))
    part = with_shape(part, tuple(key.shape), ())
    if not key.arrays:
        return part
    indices = looked_up(key, value, mode)
    if mode != "drop":
        return _gathered(part, key, indices, {})
    picked = _gathered(part, key, indices, {"drop": True})
    # true for what there is
    every = surface_function("ones_like")(part, dtype="bool")
    return filled(_gathered(every, key, indices, {"drop": True}), picked, fill)


def looked_up(key: Key, value: Value, mode: str) -> list[Value]:
    """The index arrays of a key as values, brought into their axes if the mode does so."""
    pairs = zip(key.arrays, key.axes, strict=True)
    return [
        brought_in(index_value(array, value, axis, mode), value.shape[axis], mode)
        for array, axis in pairs
    ]


def _gathered(part: Value, key: Key, indices: list[Value], attrs: dict[str, Any]) -> Value:
    """Takes by all index tensors at once; their axes go first unless they were adjacent."""
    guards: Guards = tuple(dict.fromkeys(key.taken_guards))
    places = key.places
    target = places[0] if key.adjacent else 0
    if len(indices) == 1:
        result = taken(part, indices[0], places[0], guards, **attrs)
        moved = range(places[0], places[0] + indices[0].ndim)
        others = [axis for axis in range(result.ndim) if axis not in moved]
        return permuted(result, (*others[:target], *moved, *others[target:]))
    common, fit = common_indices(indices)
    guards = (*guards, *fit)
    others = [axis for axis in range(part.ndim) if axis not in places]
    joined = permuted(part, (*others[:target], *places, *others[target:]))
    dims = tuple(part.shape[place] for place in places)
    end = target + len(places)
    merged = (*joined.shape[:target], product(dims), *joined.shape[end:])
    every = [stretched(index, common, guards) for index in indices]
    flat = raveled(every, dims, tuple(key.axes), **attrs)
    return taken(with_shape(joined, merged, ()), flat, target, guards, **attrs)


def common_indices(indices: list[Value]) -> tuple[tuple[Any, ...], Guards]:
    """The shape that index arrays have together, and what is left to check of that."""
    message = f"index arrays of shapes {' and '.join('{}' for _ in indices)} do not broadcast"
    return common_shape([index.shape for index in indices], message, index=True)
