"""Reductions of segments, and places as one number or as one for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import product
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.kernel.reference_reductions import neutral_element
from graphc.ops.arguments import items_of
from graphc.ops.convert import as_value, dim_of, dims_of
from graphc.ops.guards import unproved
from graphc.ops.indexing.core import raveled, split_place
from graphc.ops.indexing.getitem import common_indices
from graphc.ops.indexing.modes import brought_in, mode_of
from graphc.ops.indexing.scatter import How, scattered
from graphc.ops.move.shape import broadcast_to, stretched
from graphc.ops.source import constant_beside, known_array


def _segments(how: How, data: Any, ids: Any, count: Any, mode: str | None) -> Value:
    value = as_value(data, ids if isinstance(ids, Value) else None)
    numbers = as_value(ids, value)
    if not numbers.dtype.is_integer:
        raise DTypeError(f"segment ids are integers, not {numbers.dtype}", where=caller())
    if numbers.ndim > value.ndim:
        raise ShapeError(
            f"segment ids of rank {numbers.ndim} for data of rank {value.ndim}", where=caller()
        )
    guards = unproved(
        zip(value.shape[: numbers.ndim], numbers.shape, strict=True),
        "data of shape {} and segment ids of shape {} differ",
        value.shape,
        numbers.shape,
    )
    rest = value.shape[numbers.ndim :]
    shape = (dim_of(_count(ids) if count is None else count), *rest)
    single = constant_beside(0 if how == "add" else _nothing(how, value), value.dtype, value)
    base = broadcast_to(single, shape)
    chosen = "drop" if mode is None else mode_of(mode)
    numbers = brought_in(numbers, shape[0], chosen, wraps=False)
    attrs: dict[str, Any] = {"wraps": False} | ({"drop": True} if chosen == "drop" else {})
    value = stretched(value, (*numbers.shape, *rest), guards)
    return scattered(how, base, numbers, value, 0, guards=guards, **attrs)


def _nothing(how: How, value: Value) -> bool | int | float:
    assert how != "set"
    return neutral_element(how, value.dtype)


def _count(ids: Any) -> int:
    """How many segments known ids name.

    Raises:
        UnsupportedError: for those that only a run knows.
    """
    array = known_array(ids) if isinstance(ids, Value) else ids
    if array is None:
        raise UnsupportedError(
            "segments of ids that only a run knows: their number is unknown",
            where=caller(),
            hint="give num_segments, an int or a dim",
        )
    return int(np.max(array, initial=-1)) + 1


@surface
def segment_sum(
    data: Any, segment_ids: Any, num_segments: Any = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: str | None = None,
) -> Value:  # fmt: skip
    """The sums of the elements or rows of ``data`` that have the same id, as in ``jax.ops``.

    Args:
        data: numbers or bools; leading axes are those of the ids.
        segment_ids: integers, in any order.
        num_segments: how many there are, an int or a dim; one more than the greatest id where the
            ids are known.
        indices_are_sorted: a promise, which changes no result.
        unique_indices: a promise, which changes no result.
        mode: for ids that are negative or too large: left out unless it is "error" or "clip".

    Terms are added one by one in their order, in the dtype of the data; the sum of none is 0.

    Raises:
        ShapeError: for ids and data that do not fit.
        UnsupportedError: without ``num_segments`` for ids that only a run knows.
    """
    return _segments("add", data, segment_ids, num_segments, mode)


@surface
def segment_prod(
    data: Any, segment_ids: Any, num_segments: Any = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: str | None = None,
) -> Value:  # fmt: skip
    """The products of what has the same id, 1 of none; see ``segment_sum``."""
    return _segments("multiply", data, segment_ids, num_segments, mode)


@surface
def segment_max(
    data: Any, segment_ids: Any, num_segments: Any = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: str | None = None,
) -> Value:  # fmt: skip
    """The greatest of what has the same id; of none the least number of the dtype, −∞ of floats.

    See ``segment_sum``. NaN wins.
    """
    return _segments("maximum", data, segment_ids, num_segments, mode)


@surface
def segment_min(
    data: Any, segment_ids: Any, num_segments: Any = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: str | None = None,
) -> Value:  # fmt: skip
    """The least of what has the same id; of none the greatest number of the dtype, ∞ of floats.

    See ``segment_sum``. NaN wins.
    """
    return _segments("minimum", data, segment_ids, num_segments, mode)


# --- places --------------------------------------------------------------------------------------


def _backwards(order: str) -> bool:
    if order not in ("C", "F"):
        raise UnsupportedError(
            f"order {shown(order)}", where=caller(), hint="orders are 'C' and 'F'"
        )
    return order == "F"


@surface
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Value, ...]:
    """The index along each axis of a shape that flat places stand for.

    Raises:
        IndexRangeError: at run time for a place that is negative or too large.
    """
    dims = dims_of(shape)
    numbers = as_value(indices)
    if not numbers.dtype.is_integer:
        raise DTypeError(f"places are integers, not {numbers.dtype}", where=caller())
    flat = raveled([numbers], (product(dims),), (0,), wraps=False, of="unravel_index")
    if _backwards(order):
        return tuple(reversed(split_place(flat, dims[::-1])))
    return tuple(split_place(flat, dims))


@surface
def ravel_multi_index(
    multi_index: Sequence[Any], dims: Any, mode: Any = "raise", order: str = "C"
) -> Value:
    """The flat places that indices along each axis name together; the inverse of ``unravel_index``.

    ``mode`` is "raise" (or "error"), "wrap" or "clip", for all axes or one for each.

    Raises:
        ShapeError: for another number of indices than of dims.
        IndexRangeError: for an index that is negative or too large, at run time where unknown.
    """
    sizes, given = dims_of(dims), list(items_of(multi_index, "multi_index"))
    modes = list(mode) if isinstance(mode, (tuple, list)) else [mode] * len(sizes)
    if not len(sizes) == len(given) == len(modes):
        raise ShapeError(
            f"{len(given)} indices and {len(modes)} modes for {len(sizes)} dims", where=caller()
        )
    beside = next((item for item in given if isinstance(item, Value)), None)
    numbers = []
    for axis, (item, size, each) in enumerate(zip(given, sizes, modes, strict=True)):
        number = as_value(item, beside)
        if not number.dtype.is_integer:
            raise DTypeError(f"index {axis} is of {number.dtype}, not of integers", where=caller())
        numbers.append(brought_in(number, size, mode_of(each), wraps=False))
    common, guards = common_indices(numbers)
    every = [stretched(number, common, guards) for number in numbers]
    axes = tuple(range(len(sizes)))
    if _backwards(order):
        every, sizes, axes = every[::-1], sizes[::-1], axes[::-1]
    return raveled(every, sizes, axes, wraps=False, of="ravel_multi_index")
