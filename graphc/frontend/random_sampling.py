"""Samples of what is given: shuffled, or picked with and without putting back.

A random order is made without sorting, by unshuffling: each round gives every place a random bit
and moves the places with 0 before those with 1, keeping the order within both. After r rounds each
order is as likely as any other but for those of elements that had the same r bits, two of n in one
case of 2**r / n**2. There are 64 rounds. Source: Bayer and Diaconis, "Trailing the dovetail shuffle
to its lair", 1992, for the shuffle that this is the inverse of.
"""

from __future__ import annotations

from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.frontend.control_flow import while_loop
from graphc.ir.dims.expressions import Dim, DimExpr, compare, dim_max, product
from graphc.ir.dtypes import float64, int64, uint64
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole, switch
from graphc.ops.convert import as_value, axis_of, converted, in_dtype, size_beside
from graphc.ops.creation import iota_beside, zeros
from graphc.ops.declare import float_operand
from graphc.ops.guards import show, unproved
from graphc.ops.indexing.core import taken, taken_along
from graphc.ops.move.shape import broadcast_to, reshape, with_shape
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import minimum
from graphc.ops.random.keys import drawn, fold_in, key_of, shape_of
from graphc.ops.random.laws import randint
from graphc.ops.reduce.axes import sum_
from graphc.ops.reduce.scans import cumsum
from graphc.ops.sorting.searching import searchsorted

ROUNDS = 64


def _order(key: Value, shape: tuple[Dim, ...], axis: int) -> Value:
    """Random orders of the places along an axis, each row its own."""
    words = drawn(key, "bits", shape, uint64)
    place = iota_beside(shape, axis, int64, key)

    def body(number: Value, order: Value) -> tuple[Value, Value]:
        bit = converted((words >> converted(number, uint64)) & 1, int64)
        ones = cumsum(bit, axis)
        first = size_beside(shape[axis], int64, key) - sum_(bit, axis=axis, keepdims=True)
        moved = where(bit == 1, first + ones - 1, place - ones)
        return number + 1, taken_along(moved, order, axis)

    found: Value = while_loop(lambda number, order: number < ROUNDS, body, [0, place])[1]
    return found


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Value:
    """The elements along an axis in random order.

    Args:
        key: a key.
        x: an array, or an int or dim n for the numbers (int64) from 0 to n - 1.
        axis: along which elements, with all that is beside them, are moved.
        independent: whether each row along the axis has an order of its own.
    """
    source, apart = key_of(key, "permutation"), switch(independent, "independent")
    size = _count(x, "permutation")
    if size is not None:
        return _order(source, (size,), 0)
    given = as_value(x, source)
    place = axis_of(axis, len(given.shape))
    if apart:
        return taken_along(given, _order(source, given.shape, place), place)
    return taken(given, _order(source, (given.shape[place],), 0), place)


def _count(x: Any, name: str) -> Dim | None:
    """The size that an int or a dim says; None for arrays."""
    if isinstance(x, DimExpr):
        return x
    return shape_of(x, name)[0] if is_whole(x) else None


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Value:
    """Elements along an axis, picked at random.

    Args:
        key: a key.
        a: an array, or an int or dim n for the numbers (int64) from 0 to n - 1.
        shape: how many are picked; stands where the axis was.
        replace: whether an element may be picked more than once.
        p: how likely each element is, divided by the sum; equally likely by default. With
            ``replace=False`` elements are picked one after the other, those of probability 0 last.
        axis: along which elements are picked.

    Raises:
        ShapeError: for more elements than there are without ``replace``, and for a ``p`` of another
            size.
    """
    source, puts_back = key_of(key, "choice"), switch(replace, "replace")
    dims, size = shape_of(shape, "choice"), _count(a, "choice")
    given, place = None, 0
    if size is None:
        given = as_value(a, source)
        if not given.shape:
            raise ShapeError(
                f"choice of {given.type}", where=caller(), hint="give an int or an array of axes"
            )
        place = axis_of(axis, len(given.shape))
        size = given.shape[place]
    chances = None if p is None else _chances(p, size, source)
    if not puts_back:
        picked = _apart(source, size, dims, chances)
    elif chances is None:
        picked = randint(source, dims, 0, size_beside(size, int64, source))
    else:
        sums = cumsum(chances, 0)
        # above 0 and up to the sum, so that what has probability 0 is never picked
        level = sums[-1] * (1.0 - drawn(source, "uniform", dims, float64))
        last = size_beside(size, int64, level) - 1
        picked = minimum(searchsorted(sums, level), last)
    return picked if given is None else taken(given, picked, place)


def _chances(p: Any, size: Dim, beside: Value) -> Value:
    """Probabilities in float64, one for each element.

    Raises:
        DTypeError: for what is no number.
        ShapeError: for another number of them.
    """
    value = float_operand(p if isinstance(p, Value) else in_dtype(p, float64, beside))
    if len(value.shape) != 1:
        raise ShapeError(
            f"choice: p has shape {show(value.shape)}", where=caller(), hint="it is a vector"
        )
    message = "choice: p has {} elements, of {} to pick from"
    guards = unproved([(value.shape[0], size)], message, value.shape[0], size)
    return with_shape(converted(value, float64), (size,), guards)


def _apart(key: Value, size: Dim, shape: tuple[Dim, ...], chances: Value | None) -> Value:
    """Places that all differ, in random order."""
    count = product(shape)
    if compare("lt", size, count):
        raise ShapeError(
            f"choice of {count} elements out of {size} without replacement",
            where=caller(),
            hint="pick fewer, or with replace=True",
        )
    message = "choice of {} elements out of {} without replacement"
    guards = unproved([(dim_max(size, count), size)], message, count, size)
    if chances is None:
        return reshape(with_shape(_order(key, (size,), 0)[:count], (count,), guards), shape)
    place = iota_beside((size,), 0, int64, key)
    turn = iota_beside((count,), 0, int64, key)

    def body(number: Value, left: Value, picked: Value) -> tuple[Value, ...]:
        weights = where(left, chances, 0.0)
        weights = where(sum_(weights) > 0, weights, converted(left, float64))
        sums = cumsum(weights, 0)
        level = sums[-1] * (1.0 - drawn(fold_in(key, number), "uniform", (), float64))
        found = sum_(converted(sums < level, int64))
        return number + 1, left & (place != found), where(turn == number, found, picked)

    began = [0, broadcast_to(as_value(True, key), (size,)), zeros((count,), int64)]
    most = size_beside(count, int64, key)
    found: Value = while_loop(lambda number, left, picked: number < most, body, began)[2]
    return reshape(with_shape(found, (count,), guards), shape)


__all__ = ["choice", "permutation"]
