"""Loops and choices by JAX's names, made of ``while_loop`` and ``cond``: ``fori_loop``, ``scan``,
``map``, ``switch``, ``case``; and ``associative_scan``, which is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.frontend.control_flow import cond, traced_types, while_loop
from graphc.frontend.regions import called
from graphc.frontend.structure import filled, leaves, rebuild
from graphc.ir.builder import builder_for, building
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import bool_
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.arguments import switch as checked_switch
from graphc.ops.convert import as_value, axis_of
from graphc.ops.guards import show, unproved
from graphc.ops.move.joining import concatenate, stack
from graphc.ops.move.shape import reshape, with_shape


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """``val = body_fun(i, val)`` for i from ``lower`` to before ``upper``; gives the last val.

    Args:
        lower, upper: ints, or scalars of integers.
        body_fun: takes i and what it gave before, and gives the same structure of the same types.
        init_val: what it takes first: a value or a nested structure. A Python number takes the
            dtype of its successor.

    Raises:
        DTypeError, ShapeError, GraphError: as ``while_loop``.
    """

    def turn(i: Value, val: Any) -> Any:
        return i + 1, body_fun(i, val)

    return while_loop(lambda i, val: i < upper, turn, (lower, init_val))[1]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | Dim | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` for each x along the first axes of ``xs``, in order.

    Args:
        f: gives the next carry, of the structure and types of the one before, and what is stacked.
        init: the first carry: a value or a nested structure. A Python number takes the dtype of its
            successor.
        xs: a tensor [n, *S], or a nested structure of such; None if only ``length`` counts.
        length: how many turns; it may be left out if there are ``xs``.
        reverse: whether to go from the last x to the first; y of each stays at its place.

    Gives the last carry, and the structure of what f gives as y with leading axes of n.

    Raises:
        ShapeError: for xs of other lengths, and for none; at run time where sizes are unknown.
        DTypeError, GraphError: as ``while_loop``.
    """
    backwards = checked_switch(reverse, "reverse")
    values = rebuild(xs, lambda leaf: leaf if leaf is None else as_value(leaf))
    rows, size = _rows([leaf for leaf in leaves(values) if leaf is not None], length)
    kept = iter(rows)
    values = rebuild(values, lambda leaf: leaf if leaf is None else next(kept))

    def at(place: Any) -> Any:
        take = surface_function("take")
        return rebuild(values, lambda leaf: leaf if leaf is None else take(leaf, place, 0))

    def once(carry: Any, row: Sequence[Value]) -> tuple[Any, Any]:
        own = iter(row)
        given = f(carry, rebuild(values, lambda leaf: leaf if leaf is None else next(own)))
        if not isinstance(given, tuple) or len(given) != 2:
            raise GraphError(
                f"the function of scan gives {shown(given)}",
                where=caller(),
                hint="give a pair: the next carry, and what is stacked or None",
            )
        return given

    start, made = traced_types(once, init, rows)
    zeros = surface_function("zeros")
    types = [type_ for type_ in leaves(made) if type_ is not None]
    with building(builder_for([*rows, *leaves(start)])):
        room = [zeros((size, *type_.shape), type_.dtype) for type_ in types]
        count = surface_function("dim")(size)

    def turn(i: Value, carry: Any, room: list[Value]) -> Any:
        place = size - 1 - i if backwards else i
        carry, y = f(carry, at(place))
        given = [leaf for leaf in leaves(y) if leaf is not None]
        written = [whole.at[place].set(row) for whole, row in zip(room, given, strict=True)]
        return i + 1, carry, written

    carry = start
    # without a turn there is no row that one could take
    if size != 0:
        _, carry, room = while_loop(lambda i, carry, room: i < count, turn, (0, start, room))
    stacked = iter(room)
    return carry, rebuild(made, lambda type_: None if type_ is None else next(stacked))


def map_(f: Callable[[Any], Any], xs: Any) -> Any:
    """What f gives for each x along the first axes of ``xs``, stacked; one after the other.

    ``f`` of the whole batch is faster where it can be written. Arguments are those of ``scan``,
    without a carry.
    """
    return scan(lambda carry, x: (carry, f(x)), 0, xs)[1]


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """What the branch of a number gives for the operands; only the one taken runs.

    Args:
        index: an int or a scalar of integers; one out of range is the nearest that there is.
        branches: functions of the operands, that give one structure of equal types.
        operands: passed to the branch.

    Raises:
        GraphError: for no branches.
        DTypeError: for an index that is no integer.
        ShapeError: for an index that is no scalar.
    """
    if not branches:
        raise GraphError("switch of no branches", where=caller(), hint="give functions")
    number = as_value(index)
    if not number.dtype.is_integer:
        raise DTypeError(f"switch by a {number.dtype}", where=caller(), hint="an integer chooses")

    return _chosen(number, branches, operands, "switch")


def case(
    conditions: Sequence[Any],
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    default: Callable[..., Any],
) -> Any:
    """What the branch of the first true condition gives for the operands; only the one taken runs.

    Args:
        conditions: bools or scalars of bools; all of them are computed.
        branches: functions of the operands, one for each condition, that give one structure of
            equal types.
        operands: passed to the branch.
        default: the branch where no condition is true.

    Raises:
        GraphError: for other numbers of conditions and branches.
        DTypeError: for a condition that is no bool.
        ShapeError: for a condition that is no scalar.
    """
    tests = list(map(as_value, items_of(conditions, "conditions of case")))
    functions = items_of(branches, "branches of case")
    if len(tests) != len(functions):
        raise GraphError(
            f"case of {plural(len(tests), 'condition')} and {plural(len(functions), 'function')}",
            where=caller(),
            hint="give a branch for each condition; that for the rest is default=",
        )
    for place, test in enumerate(tests):
        if test.dtype is not bool_:
            raise DTypeError(
                f"condition {place} of case is {test.dtype}, not bool",
                where=caller(),
                hint="compare it, for example with x > 0",
            )
        if test.ndim:
            raise ShapeError(
                f"condition {place} of case has shape {show(test.shape)}, not []",
                where=caller(),
                hint="reduce it with gx.all or gx.any",
            )
    number: Any = len(tests)
    for place, test in reversed(list(enumerate(tests))):
        number = surface_function("where")(test, place, number)
    return _chosen(as_value(number), [*functions, default], operands, "case")


def _chosen(
    number: Value, branches: Sequence[Callable[..., Any]], operands: Sequence[Any], what: str
) -> Any:
    """What one of several branches gives, found by halves; a number out of range is the nearest."""

    def among(low: int, high: int) -> Any:
        if high - low == 1:
            return called(branches[low], operands, f"a branch of {what}")
        middle = (low + high) // 2
        return cond(number < middle, lambda: among(low, middle), lambda: among(middle, high))

    if len(branches) > 1:
        return among(0, len(branches))
    # without a choice what it gives is as it is
    return rebuild(among(0, 1), lambda leaf: leaf if leaf is None else as_value(leaf))


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Running combinations along an axis by an associative function, in log₂ n rounds of halves.

    Args:
        fn: combines two structures of tensors, element by element along the axis.
        elems: a tensor, or a nested structure of such, of one known size n along the axis.
        reverse: whether to begin at the end.
        axis: along which.

    Element i of the result combines elements 0 to i; where fn rounds, in another order than one
    after the other. It is differentiated as what it is made of.

    Raises:
        ShapeError: for other sizes, and for unknown ones.
    """
    backwards = checked_switch(reverse, "reverse")
    flip = surface_function("flip")
    values = [as_value(leaf) for leaf in leaves(elems)]
    axes = [axis_of(axis, value.ndim) for value in values]
    sizes = {value.shape[place] for value, place in zip(values, axes, strict=True)}
    if len(sizes) != 1 or not isinstance(next(iter(sizes)), int):
        raise ShapeError(
            f"associative_scan along {', '.join(map(str, sizes)) or 'no axis'}",
            where=caller(),
            hint="all tensors have one known size there; gx.scan takes unknown ones",
        )
    if backwards:
        values = [flip(value, place) for value, place in zip(values, axes, strict=True)]

    def part(values: Sequence[Value], start: int, stop: int | None, step: int = 1) -> list[Value]:
        return [
            value[(*(slice(None),) * place, slice(start, stop, step))]
            for value, place in zip(values, axes, strict=True)
        ]

    def combined(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
        return [as_value(leaf) for leaf in leaves(fn(filled(elems, first), filled(elems, second)))]

    def running(values: Sequence[Value]) -> list[Value]:
        size = int(values[0].shape[axes[0]])
        if size < 2:
            return list(values)
        odd = running(combined(part(values, 0, size - 1, 2), part(values, 1, None, 2)))
        before = odd if size % 2 else part(odd, 0, -1)
        even = part(values, 0, 1)
        if size > 2:
            even = [
                concatenate([one, more], place)
                for one, more, place in zip(
                    even, combined(before, part(values, 2, None, 2)), axes, strict=True
                )
            ]
        return [_in_turn(*both) for both in zip(even, odd, axes, strict=True)]

    found = running(values)
    if len(found) > 1 and next(iter(sizes)) > 1:
        # one of them alone, too, is of a scan that there is
        for value in found:
            owner: Recorder | None = value.graph
            if owner is not None:
                owner.rely(value, found)
    if backwards:
        found = [flip(value, place) for value, place in zip(found, axes, strict=True)]
    return filled(elems, found)


def _in_turn(even: Value, odd: Value, axis: int) -> Value:
    """Elements of two tensors in turn along an axis, of which the first may have one more."""
    count = int(odd.shape[axis])
    begin = (slice(None),) * axis
    pairs = stack([even[(*begin, slice(0, count))], odd], axis + 1)
    shape = (*odd.shape[:axis], 2 * count, *odd.shape[axis + 1 :])
    whole = reshape(pairs, shape)
    if int(even.shape[axis]) == count:
        return whole
    return concatenate([whole, even[(*begin, slice(count, None))]], axis)


def _rows(values: list[Value], length: Any) -> tuple[list[Value], Dim]:
    """Tensors of one length along their first axes, and the length."""
    if any(not value.ndim for value in values) or not (values or length is not None):
        raise ShapeError(
            "scan over " + (" and ".join(show(v.shape) for v in values) or "nothing"),
            where=caller(),
            hint="xs have a first axis, or length= says how many turns there are",
        )
    size: Dim = values[0].shape[0] if length is None else length
    message = "scan over {} of length {}"
    result = []
    for value in values:
        guards = unproved([(value.shape[0], size)], message, value.shape, size)
        result.append(with_shape(value, (size, *value.shape[1:]), guards) if guards else value)
    return result, size


__all__ = ["associative_scan", "case", "fori_loop", "map_", "scan", "switch"]
