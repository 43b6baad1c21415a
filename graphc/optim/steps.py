"""What all optimisers share: steps, and the variables that they keep.

Invariant: a step reads only what variables hold at the start of the run, so a loss fetched beside
the step is the loss before it, and the order of fetches does not matter. An optimiser itself holds
no state: each call of ``minimize`` or ``apply_gradients`` makes the variables that its step keeps
between runs (slots, named after their parameter, as in ``w/first_moment``, and a counter of steps),
none trainable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.frontend.differentiate import gradients as gradients_of
from graphc.frontend.parameters import (
    checked_pairs,
    no_loss,
    refuse_regions,
    trainable_variables,
    warn_of_wide,
)
from graphc.frontend.state import Variable, group, variable
from graphc.ir.dtypes import DType
from graphc.ir.effect import Effect
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, number
from graphc.ops.convert import converted

Number: TypeAlias = float | Value
Rule: TypeAlias = "Callable[[Parameter, Value], Value]"


class Optimizer(ABC):
    """What all optimisers share. A subclass is a formula: how a parameter follows its gradient."""

    __slots__ = ()

    def minimize(self, loss: Value, variables: Sequence[Variable] | None = None) -> Effect:
        """One step that makes the loss smaller.

        Warns (``GraphcWarning``) if parameters are float64 only because NumPy's arrays are, beside
        inputs of float32.

        Two steps that change the same variable do not add up if they are fetched in one run: the
        one built last wins. To descend on two losses at once, minimise their sum.

        Args:
            loss: a float scalar.
            variables: what to change; by default all trainable variables the loss depends on, in
                the order they were made.

        Returns:
            An effect: fetching it runs the step and gives None.

        Raises:
            GraphError: if there is nothing to train, or in a branch or loop body.
            GradientError: if the loss does not depend on one of ``variables``.
            ShapeError: if the loss is not a scalar.
        """
        if not isinstance(loss, Value):
            raise no_loss(loss)
        if loss.ndim:
            raise ShapeError(
                f"a loss is a scalar, not {loss.type}",
                where=caller(),
                hint="reduce it with .mean() or .sum()",
            )
        refuse_regions()
        chosen: Sequence[Variable] = (
            trainable_variables(loss) if variables is None else items_of(variables, "variables")
        )
        if not chosen:
            raise GraphError(
                "there is nothing to train: the loss depends on no trainable variable"
                if variables is None
                else "there is nothing to train: the list of variables is empty",
                where=caller(),
                hint="make parameters with gx.variable and compute the loss from them",
            )
        effect = self.apply_gradients(zip(gradients_of(loss, chosen), chosen, strict=True))
        warn_of_wide(loss, chosen)
        return effect

    def apply_gradients(self, pairs: Iterable[tuple[Any, Variable]]) -> Effect:
        """One step along given gradients, such as clipped ones.

        Args:
            pairs: (gradient, variable); a gradient has the shape and dtype of its variable.

        Returns:
            An effect: fetching it runs the step and gives None.

        Raises:
            GraphError: if there are no pairs, or a variable comes twice.
            ShapeError, DTypeError: if a gradient does not fit its variable, or that is complex.
        """
        checked = checked_pairs(pairs)
        for _, parameter in checked:
            if parameter.dtype.is_complex:
                raise DTypeError(
                    f"parameter {parameter.name!r} is {parameter.dtype}: a step along its "
                    "gradient, which is not conjugated, would lead away",
                    where=caller(),
                    hint="train its two parts, which gx.complex(x, y) joins",
                )
        graph = checked[0][1].graph
        assert graph is not None
        with graph:
            step = Step(type(self).__name__.lower())
            self._update([(Parameter(step, variable), slope) for slope, variable in checked])
            assigned = [target.assign(value) for target, value in step.writes]
        return group(assigned, name=step.name)

    def _update(self, pairs: Sequence[tuple[Parameter, Value]]) -> None:
        """Computes what parameters with these gradients become, and what is kept for them."""
        step = pairs[0][0].step
        rule = self._rule(step)
        for parameter, gradient in pairs:
            step.writes.append((parameter.variable, rule(parameter, gradient)))

    @abstractmethod
    def _rule(self, step: Step) -> Rule:
        """A function from a parameter and its gradient to the parameter's new value."""


@dataclass(slots=True, eq=False)
class Step:
    """What one step writes.

    Attributes:
        name: the optimiser's name, that of the step's counter.
        writes: variables and their new values, assigned when all have been computed.
    """

    name: str
    writes: list[tuple[Variable, Value]] = field(default_factory=list)
    _converted: dict[tuple[Value, str], Value] = field(default_factory=dict)

    def count(self) -> Value:
        """The number of this step, an int64 scalar, 1 in the first run."""
        counter = variable(np.int64(0), f"{self.name}/step", trainable=False)
        number = counter + 1
        self.writes.append((counter, number))
        return number

    def scalar(self, number: Number, dtype: DType) -> Number:
        """A hyperparameter in a dtype, converted once for all parameters of it."""
        if not isinstance(number, Value):
            return number
        key = (number, dtype.name)
        if key not in self._converted:
            self._converted[key] = converted(number, dtype)
        return self._converted[key]


@dataclass(slots=True, eq=False)
class Parameter:
    """A parameter as the formula of a step sees it.

    Attributes:
        step: the step that it is part of.
        variable: what is written.
        value: what it holds before the step.
    """

    step: Step
    variable: Variable
    value: Value = field(init=False)

    def __post_init__(self) -> None:
        self.value = self.variable

    def slot(self, name: str, rule: Callable[[Value], Value]) -> Value:
        """The new value, by ``rule`` from the old one, of what is kept for this parameter."""
        parameter = self.variable
        label = f"{parameter.name}/{name}" if parameter.name is not None else None
        start = np.zeros(cast("tuple[int, ...]", parameter.shape), parameter.dtype.numpy)
        # as it is, not copied: pages of zeros that nobody writes take no memory
        start.flags.writeable = False
        slot = variable(start, label, trainable=False)
        new = rule(slot)
        self.step.writes.append((slot, new))
        return new

    def scalar(self, number: Number) -> Number:
        """A hyperparameter in this parameter's dtype."""
        return self.step.scalar(number, self.value.dtype)

    def decayed(self, gradient: Value, decay: float) -> Value:
        """g + λ p, or g itself where λ is 0."""
        return gradient + float(decay) * self.value if decay else gradient


# --- hyperparameters -----------------------------------------------------------------------------


def rate_of(given: Number, dtype: DType | None = None) -> Number:
    """The learning rate; a scheduled one in a dtype, if one is asked for."""
    if not isinstance(given, Value):
        return float(given)
    return given if dtype is None else converted(given, dtype)


def check_rate(given: Any) -> None:
    """Refuses what can be no learning rate."""
    if isinstance(given, Value):
        if given.shape != ():
            raise ShapeError(
                f"a learning rate is a scalar, not a value of type {given.type}", where=caller()
            )
        return
    number(given, "the learning rate", hint="give a number, or a scalar value of the graph")
    check_least(0, learning_rate=given)


def check_least(least: float, **numbers: Any) -> None:
    """Refuses hyperparameters that are less than they may be."""
    for name, given in numbers.items():
        label = name.replace("_", " ")
        if not number(given, f"the {label}") >= least:
            raise GraphError(
                f"{label} must be at least {least}, not {given}",
                where=caller(),
                hint=f"give a number of at least {least}",
            )


__all__ = [
    "Number",
    "Optimizer",
    "Parameter",
    "Rule",
    "Step",
    "check_least",
    "check_rate",
    "rate_of",
]
