"""Figures that runs add up in variables of the graph: totals, means, accuracies.

The variables are of float64 and start at zero. Like all others they are saved and restored, and a
run that fails adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.frontend.state import Variable, group, variable
from graphc.ir.dtypes import float64
from graphc.ir.effect import Effect
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted
from graphc.ops.guards import show
from graphc.ops.move.shape import broadcast_to
from graphc.ops.reduce.axes import argmax, sum_


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A figure that runs add to.

    Attributes:
        update: the figure with what this run adds, float64[]; whoever fetches it adds that.
        result: the figure at the start of the run.
        reset: an effect that begins anew.
    """

    update: Value
    result: Value
    reset: Effect


def total(values: Any, name: str = "total") -> Metric:
    """The sum of all elements that values have had.

    Args:
        values: numbers or bools.
        name: of the variable.

    Raises:
        DTypeError: for complex numbers.
        GraphError: inside a branch or a loop body.
    """
    kept = _kept(name)
    update = kept.assign_add(sum_(_real(values)))
    return Metric(update, kept + 0.0, group(kept.assign(0.0)))


def mean(values: Any, weights: Any = None, name: str = "mean") -> Metric:
    """The mean of all elements that values have had; NaN where there were none.

    Args:
        values: numbers or bools.
        weights: how much each element counts; they broadcast to the values.
        name: what the names of the two variables begin with.

    Raises:
        DTypeError: for complex numbers.
        ShapeError: for weights that don't broadcast.
        GraphError: inside a branch or a loop body.
    """
    given = _real(values)
    counts = broadcast_to(_real(1.0 if weights is None else weights, given), given.shape)
    over, under = _kept(f"{name}/total"), _kept(f"{name}/count")
    update = over.assign_add(sum_(given * counts)) / under.assign_add(sum_(counts))
    return Metric(update, over / under, group(over.assign(0.0), under.assign(0.0)))


def accuracy(scores: Any, labels: Any, weights: Any = None, name: str = "accuracy") -> Metric:
    """The share of labels that were met; NaN where there were none.

    Args:
        scores: [..., classes], whose largest one along the last axis is the class that is meant;
            or the classes themselves, of the labels' shape.
        labels: integers or bools, [...].
        weights: how much each label counts; they broadcast to the labels.
        name: what the names of the two variables begin with.

    Raises:
        ShapeError: for scores of another number of axes.
        GraphError: inside a branch or a loop body.
    """
    given = as_value(scores)
    wanted = as_value(labels, given)
    if given.ndim == wanted.ndim + 1:
        given = argmax(given, -1)
    if given.ndim != wanted.ndim:
        raise ShapeError(
            f"scores have shape {show(given.shape)}, labels {show(wanted.shape)}",
            where=caller(),
            hint="scores have one axis more than the labels, that of the classes, or their shape",
        )
    return mean(given == wanted, weights, name)


def _kept(name: str) -> Variable:
    return variable(np.float64(0), name, trainable=False)


def _real(given: Any, beside: Value | None = None) -> Value:
    value = as_value(given, beside)
    if value.dtype.is_complex:
        raise DTypeError(
            f"complex numbers are added up: {value.type.brief()}",
            where=caller(),
            hint="add up gx.abs(z), or z.real and z.imag",
        )
    return converted(value, float64)


__all__ = ["Metric", "accuracy", "mean", "total"]
