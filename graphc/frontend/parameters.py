"""What an optimiser trains: the variables a loss depends on, and gradients that fit them.

Invariant: what a training step is built from has been looked at here, so that an error names the
gradient or the variable that is wrong, not an operation inside of the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphc.base.errors import DTypeError, GradientError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.warn import warn
from graphc.base.words import shown
from graphc.frontend.state import Variable
from graphc.ir.builder import current
from graphc.ir.dtypes import float32, float64
from graphc.ir.recorder import Recorder
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.convert import as_value
from graphc.ops.source import placeholder_op
from graphc.ops.state import assign_op, variable_op


def trainable_variables(loss: Value) -> list[Variable]:
    """The trainable float variables a value depends on, in the order they were made.

    Raises:
        GraphError: for what is no value.
    """
    if not isinstance(loss, Value):
        raise no_loss(loss)
    return [
        value
        for value in _sources(loss)
        if isinstance(value, Variable) and value.trainable and value.dtype.is_differentiable
    ]


def warn_of_wide(loss: Value, chosen: Iterable[Variable]) -> None:
    """Warns where float64 parameters that nobody asked for make a model of float32 inputs float64.

    NumPy's arrays are float64 unless told otherwise, and whatever they meet becomes so too.
    """
    wide = [value for value in chosen if value.dtype is float64 and not value.is_asked_for]
    if not wide:
        return
    inputs = {
        value.dtype
        for value in _sources(loss)
        if not isinstance(value, Variable) and value.dtype.is_float
    }
    if inputs != {float32}:
        return
    names = ", ".join(shown(value.name) for value in wide[:4]) + ", …" * (len(wide) > 4)
    warn(
        f"this trains in float64 although the inputs are float32: NumPy made {names} float64, "
        "and all that they meet is computed so, at half the speed",
        hint="gx.variable(initial, dtype='float32'); or dtype='float64' if it is meant",
    )


def _sources(loss: Value) -> list[Value]:
    """The variables and placeholders that a value depends on, in the order they were made."""
    found: dict[int, Value] = {}
    seen: set[Value] = set()
    stack = [loss]
    while stack:
        value = stack.pop()
        graph: Recorder | None = value.graph
        if value in seen or graph is None:
            continue
        seen.add(value)
        node = graph.producer(value)
        if node is None:
            continue
        if node.op is variable_op or node.op is placeholder_op:
            found[graph.positions[value]] = value
        # An assignment's value is the one assigned; what the variable held before is no part of it.
        stack.extend(node.inputs[1:] if node.op is assign_op else node.inputs)
    return [found[position] for position in sorted(found)]


def checked_pairs(pairs: Iterable[tuple[Any, Variable]]) -> list[tuple[Value, Variable]]:
    """The pairs, each gradient a value of its variable's type.

    Raises:
        GraphError, GradientError, ShapeError, DTypeError: as ``apply_gradients`` says.
    """
    refuse_regions()
    result: list[tuple[Value, Variable]] = []
    for pair in items_of(pairs, "gradients with their variables"):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise GraphError(
                f"{shown(pair)} is no pair of a gradient and a variable",
                where=caller(),
                hint="give a list of (gradient, variable)",
            )
        given, parameter = pair
        if not isinstance(parameter, Variable):
            raise GraphError(
                f"{shown(parameter)} is not a variable",
                where=caller(),
                hint="pairs are (gradient, variable), in this order",
            )
        if any(parameter is other for _, other in result):
            raise GraphError(f"{parameter!r} is given twice", where=caller())
        if given is None:
            raise GradientError(f"{parameter!r} is given no gradient", where=caller())
        gradient = as_value(given, parameter)
        if gradient.shape != parameter.shape:
            raise ShapeError(
                f"a gradient of type {gradient.type} does not fit {parameter!r}", where=caller()
            )
        if gradient.dtype is not parameter.dtype or not parameter.dtype.is_differentiable:
            raise DTypeError(
                f"a gradient of type {gradient.type} does not fit {parameter!r}",
                where=caller(),
                hint="parameters are floats, and gradients have their dtype",
            )
        result.append((gradient, parameter))
    if not result:
        raise GraphError("there are no gradients to apply", where=caller())
    return result


def no_loss(given: Any) -> GraphError:
    """The error for a loss that is no value."""
    return GraphError(
        f"a loss is a value of a graph, not {shown(given)}",
        where=caller(),
        hint="compute it from variables with gx's operations",
    )


def refuse_regions() -> None:
    """Slots are made once in a graph, which a branch or a loop body cannot do."""
    builder = current()
    if isinstance(builder, Recorder) and builder.parent is not None:
        raise GraphError(
            "a training step cannot be built inside a branch or a loop body",
            where=caller(),
            hint="build it outside; inside, assign to variables from gx.gradients",
        )


__all__ = ["checked_pairs", "no_loss", "refuse_regions", "trainable_variables", "warn_of_wide"]
