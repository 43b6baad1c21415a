"""Minimising a function of the graph as one loop of it: L-BFGS.

Role: what evaluates a function at points of its own choosing can be no step of a loss that stands
in the graph already, so this takes a function that builds the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.control_flow import while_loop
from graphc.frontend.differentiate import gradients
from graphc.frontend.loops import fori_loop
from graphc.frontend.regions import called
from graphc.frontend.structure import filled, leaves
from graphc.ir.dtypes import float32, float64
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.convert import as_value, converted
from graphc.ops.move.joining import concatenate
from graphc.ops.move.shape import reshape
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import abs_
from graphc.ops.pointwise.rounding import minimum as smaller
from graphc.ops.reduce.axes import max_, sum_
from graphc.optim.steps import check_count

DESCENT, CURVATURE = 1e-4, 0.9
"""Wolfe's conditions: what share of the slope a step must descend, and may leave (the usual ones
of quasi-Newton methods: Nocedal and Wright, 2006, section 3.1)."""

Function = Callable[[Value], tuple[Value, Value]]
"""From a point, as a vector, to a function's value and gradient there."""


class Minimum(NamedTuple):
    """What a search for a minimum found; values of the graph, but that x may be a structure.

    Attributes:
        x: where, in the structure of ``start``.
        value: the function there.
        gradient: its gradient there, in the structure of ``start``.
        iterations: how many steps were taken, an int64.
        converged: whether the gradient is as small as was asked for.
    """

    x: Any
    value: Value
    gradient: Any
    iterations: Value
    converged: Value


def lbfgs(
    function: Callable[[Any], Value],
    start: Any,
    history: int = 10,
    iterations: int = 100,
    tolerance: float = 1e-5,
    search: int = 30,
) -> Minimum:
    """A minimum of a smooth function, by L-BFGS (Liu and Nocedal, 1989), as a loop of the graph.

    The direction is that of the two-loop recursion over the last ``history`` steps. Its length is
    found by bisection (Lewis and Overton, 2013), so that Wolfe's weak conditions hold. A length
    where the function is not finite is too long. The loop ends where no element of the gradient is
    larger than ``tolerance``, after ``iterations``, or where no length makes the function smaller.

        result = gx.optim.lbfgs(lambda w: gx.nn.mse(x @ w, y), w)
        train = w.assign(result.x)

    Args:
        function: takes a structure as ``start``, builds a float scalar. What it reads around it
            stays as it is while the loop runs.
        start: where the search begins: a value or variable, or a nested structure of them, all
            float32 or all float64, of known shapes.
        history: how many steps the direction is made of.
        iterations: the most steps.
        tolerance: the largest element of the gradient where the search ends.
        search: the most lengths that are tried in a step.

    Returns:
        A ``Minimum``.

    Raises:
        GraphError: for a start without elements, and numbers out of range.
        DTypeError: for values of another dtype, or of several.
        ShapeError: for unknown sizes, and a function that gives no scalar.
        GradientError: if the function does not depend on a part of ``start``.
    """
    if not callable(function):
        raise GraphError(
            f"what is minimised is {shown(function)}, not a function",
            where=caller(),
            hint="give a function that builds the loss: lambda w: gx.sum(w * w)",
        )
    memory = check_count(history, "history")
    most = check_count(iterations, "iterations", 0)
    tries = check_count(search, "search")
    if not number(tolerance, "the tolerance") >= 0:
        raise GraphError(
            f"tolerance must be at least 0, not {tolerance}", where=caller(), hint="such as 1e-5"
        )
    parts = _checked([as_value(leaf) for leaf in leaves(start)])
    kind = parts[0].dtype.numpy.type
    size = sum(int(part.size) for part in parts)

    def structured(vector: Value) -> Any:
        return filled(start, _split(vector, parts))

    def measured(vector: Value) -> tuple[Value, Value]:
        pieces = _split(vector, parts)
        loss = called(function, [filled(start, pieces)], "the function that lbfgs minimises")
        _check_loss(loss)
        return converted(loss, parts[0].dtype), _joined(gradients(loss, pieces))

    def is_large(slope: Value) -> Value:
        # a NaN is not small
        return ~(max_(abs_(slope)) <= kind(tolerance))

    x = _joined(parts)
    value, slope = measured(x)
    zeros = surface_function("zeros")
    past = _Past(
        zeros((memory, size), parts[0].dtype),
        zeros((memory, size), parts[0].dtype),
        zeros((memory,), parts[0].dtype),
        as_value(np.int64(0), x),
        as_value(kind(1), x),
    )

    def turn(
        count: Value, x: Value, value: Value, slope: Value, past: Any, goes: Value
    ) -> tuple[Any, ...]:
        direction, along = _direction(slope, past, memory)
        first = smaller(1 / sum_(abs_(slope)), kind(1))
        length = where(past.noted == 0, first, kind(1))
        step, new_value, new_slope, found = _searched(
            measured, x, value, slope, direction, along, length, tries
        )
        taken = found | (new_value < value)
        past = _remembered(past, step * direction, new_slope - slope, taken, memory)
        x = where(taken, x + step * direction, x)
        value, slope = where(taken, new_value, value), where(taken, new_slope, slope)
        return count + taken, x, value, slope, past, taken & is_large(slope)

    first = (as_value(np.int64(0), x), x, value, slope, past, is_large(slope))
    count, x, value, slope, _, _ = while_loop(
        lambda count, x, value, slope, past, goes: goes & (count < most), turn, first
    )
    return Minimum(structured(x), value, structured(slope), count, ~is_large(slope))


class _Past(NamedTuple):
    """The last steps, and what the gradient changed by in each, in a ring.

    Attributes:
        steps: a row for each step.
        changes: a row for each change of the gradient.
        weights: 1 / (step · change); 0 where there is none yet.
        noted: how many there have been so far.
        scale: of the matrix that the recursion begins with: step · change / change².
    """

    steps: Value
    changes: Value
    weights: Value
    noted: Value
    scale: Value


def _direction(slope: Value, past: _Past, memory: int) -> tuple[Value, Value]:
    """A direction that leads down, by the two-loop recursion, and the slope along it."""
    take = surface_function("take")
    kept = smaller(past.noted, memory)
    shares = surface_function("zeros_like")(past.weights)

    def back(i: Value, state: Any) -> Any:
        rest, shares = state
        place = (past.noted - 1 - i) % memory
        share = take(past.weights, place) * sum_(take(past.steps, place, 0) * rest)
        return rest - share * take(past.changes, place, 0), shares.at[place].set(share)

    rest, shares = fori_loop(0, kept, back, (slope, shares))

    def forth(i: Value, result: Value) -> Value:
        place = (past.noted - kept + i) % memory
        share = take(past.weights, place) * sum_(take(past.changes, place, 0) * result)
        grown: Value = result + (take(shares, place) - share) * take(past.steps, place, 0)
        return grown

    direction: Value = -fori_loop(0, kept, forth, past.scale * rest)
    along = sum_(direction * slope)
    # rounding may turn it around
    leads_down = along < 0
    steepest = -slope
    return where(leads_down, direction, steepest), where(leads_down, along, sum_(steepest * slope))


def _searched(
    measured: Function,
    x: Value,
    value: Value,
    slope: Value,
    direction: Value,
    along: Value,
    length: Value,
    tries: int,
) -> tuple[Value, Value, Value, Value]:
    """A length along a direction, with the function's value and gradient there, and whether Wolfe's
    weak conditions hold."""
    kind = x.dtype.numpy.type

    def turn(
        count: Value,
        length: Value,
        bounds: Sequence[Value],
        tried: Value,
        value_there: Value,
        slope_there: Value,
        found: Value,
    ) -> tuple[Any, ...]:
        low, high = bounds
        new_value, new_slope = measured(x + length * direction)
        # false for a NaN, so that it is too long
        descends = new_value <= value + kind(DESCENT) * length * along
        is_flat = sum_(new_slope * direction) >= kind(CURVATURE) * along
        low = where(descends & ~is_flat, length, low)
        high = where(descends, high, length)
        following = where(high < kind(np.inf), (low + high) / 2, 2 * length)
        return (
            count + 1,
            following,
            (low, high),
            length,
            new_value,
            new_slope,
            descends & is_flat,
        )

    none = as_value(kind(0), x)
    first = (
        as_value(np.int64(0), x),
        length,
        (none, as_value(kind(np.inf), x)),
        none,
        value,
        slope,
        as_value(np.bool_(False), x),
    )
    _, _, _, tried, value_there, slope_there, found = while_loop(
        lambda count, length, bounds, tried, value, slope, found: ~found & (count < tries),
        turn,
        first,
    )
    return tried, value_there, slope_there, found


def _remembered(past: _Past, step: Value, change: Value, taken: Value, memory: int) -> _Past:
    """The past with a step, where it was taken and the function curves upwards along it."""
    take = surface_function("take")
    product, size = sum_(step * change), sum_(change * change)
    # below it the curvature is rounding
    useful = taken & (product > step.dtype.epsilon * size)
    place = past.noted % memory

    def with_row(whole: Value, new: Value) -> Value:
        # the row alone is chosen: choosing the whole would copy it
        result: Value = whole.at[place].set(where(useful, new, take(whole, place, 0)))
        return result

    return _Past(
        with_row(past.steps, step),
        with_row(past.changes, change),
        with_row(past.weights, 1 / product),
        past.noted + useful,
        where(useful, product / size, past.scale),
    )


# --- structures and vectors ----------------------------------------------------------------------


def _checked(parts: list[Value]) -> list[Value]:
    for part in parts:
        if part.dtype not in (float32, float64) or part.dtype is not parts[0].dtype:
            raise DTypeError(
                f"a search for a minimum starts at {shown(part.name)}, which is {part.dtype}",
                where=caller(),
                hint="all values are float32, or all are float64: use gx.astype",
            )
        if not all(isinstance(dim, int) for dim in part.shape):
            raise ShapeError(
                f"a search for a minimum starts at {shown(part.name)} of type {part.type}",
                where=caller(),
                hint="its sizes must be known when the graph is built",
            )
    if not sum(int(part.size) for part in parts):
        raise GraphError(
            "a search for a minimum starts at no element",
            where=caller(),
            hint="give a value, a variable or a structure of them",
        )
    return parts


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, Value) or loss.ndim or not loss.dtype.is_float:
        raise ShapeError(
            f"the function to minimise gives {shown(loss)}",
            where=caller(),
            hint="it gives a float scalar of the graph; reduce it with .mean() or .sum()",
        )


def _joined(values: Sequence[Value]) -> Value:
    return concatenate([reshape(value, (-1,)) for value in values], 0)


def _split(vector: Value, like: Sequence[Value]) -> list[Value]:
    """A vector as values of these shapes."""
    result, place = [], 0
    for part in like:
        result.append(reshape(vector[place : place + int(part.size)], part.shape))
        place += int(part.size)
    return result


__all__ = ["Minimum", "lbfgs"]
