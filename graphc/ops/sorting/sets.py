"""Vectors as sets: distinct elements in order, and what several vectors have in common.

Invariant: how many results there are is an argument, ``size``, as in ``jax.numpy``, since shapes
depend on no element that a run tells; what is left over is filled. Constants need no size: as many
as there are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from graphc.base.errors import ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import DimExpr
from graphc.ir.dtypes import DType, int64
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import switch, whole
from graphc.ops.convert import as_value, in_dtype, promoted, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.indexing.core import taken
from graphc.ops.indexing.scatter import scattered
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import ravel
from graphc.ops.pointwise.logic import equal
from graphc.ops.sorting.order import places_of, sort_op
from graphc.ops.sorting.searching import found, isin
from graphc.ops.source import known_array


def _size(given: Any, name: str, element: DType, find: Callable[..., Any], *operands: Any) -> Any:
    """How many results there are: what is given, or as many as NumPy finds in constants.

    Raises:
        UnsupportedError: for None where an operand is no constant.
    """
    if isinstance(given, DimExpr):
        return given
    if given is None:
        arrays = [known_array(x) if isinstance(x, Value) else x for x in operands]
        if all(array is not None for array in arrays):
            return len(find(*(np.asarray(array).astype(element.numpy) for array in arrays)))
        raise UnsupportedError(
            f"{name}: how many results there are would depend on elements",
            where=caller(),
            hint="say how many there may be, as size=10; fill_value= stands for what is left",
        )
    size = whole(given, "size")
    if size < 0:
        raise ShapeError(f"{name} of size {size}", where=caller())
    return size


def _equal(one: Value, other: Value) -> Value:
    """Elementwise, NaN being equal to NaN."""
    same = one == other
    if not one.dtype.is_inexact:
        return same
    both = surface_function("logical_and")(one != one, other != other)
    result: Value = surface_function("logical_or")(same, both)
    return result


def _groups(ordered: Value, equal_nan: bool = True) -> Value:
    """Of each element of a sorted vector how many distinct ones come before it."""
    same = _equal if equal_nan else equal
    begins = surface_function("logical_not")(same(ordered[1:], ordered[:-1]))
    first = surface_function("zeros_like")(ordered[:1], "int64")
    changes = surface_function("cumsum")(begins.astype("int64"), 0)
    return concatenate([first, changes])


def _kept(row: Value, keep: Value, size: Any, fill: Value) -> Value:
    """The elements of a vector to keep, in order; as many as the size, filled up."""
    total = surface_function("cumsum")(keep.astype("int64"), 0)
    number = iota_beside((size,), 0, int64, row)
    places = found(total, number + 1, False)
    inside = places < size_beside(row.shape[0], int64, row)
    padded = surface_function("pad")(row, ((0, 1),))
    result: Value = surface_function("where")(inside, taken(padded, places, 0), fill)
    return result


@surface
def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: None = None,
    *,
    equal_nan: bool = True,
    size: int | DimExpr | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements in order, as ``jax.numpy.unique``.

    Args:
        x: any shape.
        return_index: also gives the place of the first of each in row-major order.
        return_inverse: also gives of each element of ``x`` the place of its like in the result.
        return_counts: also gives how often each comes.
        axis: None; all elements count.
        equal_nan: whether all NaN are one element; else each is one.
        size: how many results there are: the smallest distinct elements, filled up. A constant
            needs none, and has as many as are distinct.
        fill_value: what fills, the smallest element unless it is given, 0 where there is none.
            Places of what fills are that of the smallest element, counts are 0.

    Without further results it gives the elements alone, else a tuple.

    Raises:
        UnsupportedError: without a size for what is no constant, and for an axis.
    """
    if axis is not None:
        raise UnsupportedError("unique along an axis", where=caller(), hint="axis=None")
    wants = [
        switch(given, name)
        for given, name in (
            (return_index, "return_index"),
            (return_inverse, "return_inverse"),
            (return_counts, "return_counts"),
        )
    ]
    value, keeps_nan = as_value(x), not switch(equal_nan, "equal_nan")
    find = partial(np.unique, equal_nan=not keeps_nan)
    count = _size(size, "unique", value.dtype, find, value)
    row = ravel(value)
    if any(wants):
        places = places_of(row)
        ordered = taken(row, places, 0)
    else:
        ordered = apply(sort_op, row, descending=False)
    groups = _groups(ordered, not keeps_nan)
    total = size_beside(row.shape[0], int64, row)
    number = iota_beside((count,), 0, int64, row)
    first = found(groups, number, False)
    inside = first < total
    where = surface_function("where")
    begin = where(inside, first, 0)
    # drop: there is nothing to take of an empty vector
    if fill_value is None:
        fill = taken(ordered, size_beside(0, int64, row), 0, drop=True)
    else:
        fill = in_dtype(fill_value, row.dtype, row)
    results = [where(inside, taken(ordered, begin, 0, drop=True), fill)]
    if wants[0]:
        results.append(taken(places, begin, 0, drop=True))
    if wants[1]:
        zeros = surface_function("zeros_like")(places)
        back = scattered("set", zeros, places, groups, 0)
        results.append(surface_function("reshape")(back, value.shape))
    if wants[2]:
        behind = found(groups, number, True)
        results.append(where(inside, behind - first, 0))
    return tuple(results) if any(wants) else results[0]


class UniqueAll(NamedTuple):
    """Distinct elements, the places of the first of each, of every element the place of its like
    among them, and how often each comes."""

    values: Value
    indices: Value
    inverse_indices: Value
    counts: Value


class UniqueCounts(NamedTuple):
    """Distinct elements, and how often each comes."""

    values: Value
    counts: Value


class UniqueInverse(NamedTuple):
    """Distinct elements, and of every element the place of its like among them."""

    values: Value
    inverse_indices: Value


@surface
def unique_all(
    x: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> UniqueAll:
    """``unique`` with all results, every NaN being an element of its own."""
    options: dict[str, Any] = {"size": size, "fill_value": fill_value, "equal_nan": False}
    return UniqueAll(*unique(x, True, True, True, **options))


@surface
def unique_counts(
    x: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> UniqueCounts:
    """``unique`` with counts, every NaN being an element of its own."""
    options: dict[str, Any] = {"size": size, "fill_value": fill_value, "equal_nan": False}
    return UniqueCounts(*unique(x, return_counts=True, **options))


@surface
def unique_inverse(
    x: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> UniqueInverse:
    """``unique`` with the way back, every NaN being an element of its own."""
    options: dict[str, Any] = {"size": size, "fill_value": fill_value, "equal_nan": False}
    return UniqueInverse(*unique(x, return_inverse=True, **options))


@surface
def unique_values(x: Any, *, size: int | DimExpr | None = None, fill_value: Any = None) -> Value:
    """``unique``, every NaN being an element of its own."""
    values: Value = unique(x, equal_nan=False, size=size, fill_value=fill_value)
    return values


def _distinct(row: Value) -> tuple[Value, Value]:
    """A vector in order, and which of its elements come first of their like."""
    ordered = apply(sort_op, row, descending=False)
    groups = _groups(ordered)
    begins = groups[1:] != groups[:-1]
    first = surface_function("ones_like")(ordered[:1], "bool")
    return ordered, concatenate([first, begins])


def _selected(name: str, x: Any, y: Any, size: Any, fill_value: Any, common: bool) -> Value:
    one, other = (ravel(value) for value in promoted(x, y))
    count = _size(size, name, one.dtype, getattr(np, name), x, y)
    ordered, first = _distinct(one)
    keep = surface_function("logical_and")(first, isin(ordered, other, invert=not common))
    fill = in_dtype(0 if fill_value is None else fill_value, one.dtype, one)
    return _kept(ordered, keep, count, fill)


@surface
def intersect1d(
    x: Any, y: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> Value:
    """The distinct elements that both have, in order; ``size`` of them, filled up (with 0)."""
    return _selected("intersect1d", x, y, size, fill_value, True)


@surface
def setdiff1d(
    x: Any, y: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> Value:
    """The distinct elements of the first that the second does not have, in order; ``size`` of
    them, filled up (with 0)."""
    return _selected("setdiff1d", x, y, size, fill_value, False)


def _in_one_alone(x: Any, y: Any) -> Any:
    return np.setdiff1d(np.union1d(x, y), np.intersect1d(x, y))


@surface
def setxor1d(
    x: Any, y: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> Value:
    """The distinct elements that one of both has alone, in order; ``size`` of them, filled up."""
    one, other = (ravel(value) for value in promoted(x, y))
    count = _size(size, "setxor1d", one.dtype, _in_one_alone, x, y)
    ordered, first = _distinct(concatenate([one, other]))
    of_one = surface_function("logical_xor")(isin(ordered, one), isin(ordered, other))
    # NaN is in no vector, and there is one of it here
    alone = surface_function("logical_or")(of_one, surface_function("isnan")(ordered))
    keep = surface_function("logical_and")(first, alone)
    fill = in_dtype(0 if fill_value is None else fill_value, one.dtype, one)
    return _kept(ordered, keep, count, fill)


@surface
def union1d(
    x: Any, y: Any, *, size: int | DimExpr | None = None, fill_value: Any = None
) -> Any:
    """The distinct elements of both, in order; ``size`` of them, filled up as in ``unique``."""
    both = concatenate([ravel(value) for value in promoted(x, y)])
    count = _size(size, "union1d", both.dtype, np.union1d, x, y)
    return unique(both, size=count, fill_value=fill_value)


__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "intersect1d",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
