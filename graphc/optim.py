"""Optimisers: ``gx.optim``. Steps of gradient descent as ordinary graph.

Role: the formulas and defaults are those of PyTorch's ``torch.optim``. Invariant: a step reads
only what variables hold at the start of the run, so a loss fetched beside the step is the loss
before it, and the order of fetches does not matter. An optimiser itself holds no state: each call
of ``minimize`` or ``apply_gradients`` makes the variables that its step keeps between runs (slots,
named after their parameter, as in ``w/first_moment``, and a counter of steps), none trainable.

In the formulas p is a parameter, g its gradient (the loss differentiated by
it), η the learning rate, λ the weight decay, t the number of the step, counted from 1; what has an
arrow is kept. Slots start at zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.differentiate import gradients as gradients_of
from graphc.frontend.parameters import (
    checked_pairs,
    no_loss,
    refuse_regions,
    trainable_variables,
    warn_of_wide,
)
from graphc.frontend.state import Variable, group, variable
from graphc.frontend.structure import leaves, rebuild
from graphc.ir.dtypes import DType, float64
from graphc.ir.effect import Effect
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, number
from graphc.ops.complex.parts import squared_size
from graphc.ops.convert import converted
from graphc.ops.pointwise.arithmetic import power, sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.ops.reduce.axes import sum_

Number: TypeAlias = float | Value
Rule: TypeAlias = Callable[[Variable, Value], Value]


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
            step = _Step(type(self).__name__.lower())
            update = self._rule(step)
            for gradient, parameter in checked:
                step.writes.append((parameter, update(parameter, gradient)))
            assigned = [target.assign(value) for target, value in step.writes]
        return group(assigned, name=step.name)

    @abstractmethod
    def _rule(self, step: _Step) -> Rule:
        """A function from a parameter and its gradient to the parameter's new value."""


@dataclass(slots=True, eq=False)
class _Step:
    """What one step writes beside its parameters.

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

    def slot(self, parameter: Variable, name: str, rule: Callable[[Value], Value]) -> Value:
        """The new value, by ``rule`` from the old one, of what is kept for a parameter."""
        label = f"{parameter.name}/{name}" if parameter.name is not None else None
        start = np.zeros(cast("tuple[int, ...]", parameter.shape), parameter.dtype.numpy)
        # as it is, not copied: pages of zeros that nobody writes take no memory
        start.flags.writeable = False
        slot = variable(start, label, trainable=False)
        new = rule(slot)
        self.writes.append((slot, new))
        return new

    def scalar(self, number: Number, parameter: Variable) -> Number:
        """A hyperparameter in the dtype of a parameter, converted once for all of that dtype."""
        if not isinstance(number, Value):
            return number
        key = (number, parameter.dtype.name)
        if key not in self._converted:
            self._converted[key] = converted(number, parameter.dtype)
        return self._converted[key]


# --- the optimisers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum or not.

        g = g + λ p
        b ← μ b + (1 − dampening) g      (b ← g in the first step)
        p ← p − η b                      (Nesterov: p ← p − η (g + μ b))

    Without momentum p ← p − η g, and nothing is kept.

    Args:
        learning_rate: η, a number or a scalar value (a schedule).
        momentum: μ.
        nesterov: look ahead; needs momentum, and no dampening.
        weight_decay: λ.
        dampening: how much less of the gradient enters the momentum.
    """

    learning_rate: Number
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    dampening: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self.learning_rate)
        _check_least(0, momentum=self.momentum, weight_decay=self.weight_decay)
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise GraphError(
                "Nesterov's step needs momentum above 0 and no dampening", where=caller()
            )

    def _rule(self, step: _Step) -> Rule:
        rate = _rate(self.learning_rate)
        momentum, taken = float(self.momentum), 1 - float(self.dampening)
        share: Number = taken
        if momentum and taken != 1:
            share = where(step.count() == 1, np.float64(1), np.float64(taken))

        def update(parameter: Variable, gradient: Value) -> Value:
            slope = _decayed(gradient, parameter, self.weight_decay)
            if momentum:
                part = slope if share is taken else step.scalar(share, parameter) * slope
                average = step.slot(parameter, "momentum", lambda old: momentum * old + part)
                slope = slope + momentum * average if self.nesterov else average
            return parameter - step.scalar(rate, parameter) * slope

        return update


@dataclass(frozen=True, slots=True, eq=False)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): momentum over a running scale of the gradient.

        g = g + λ p
        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        p ← p − η / (1 − β₁ᵗ) · m / (√v · 1/√(1 − β₂ᵗ) + ε)

    The factors that depend on t are computed in float64 whatever the parameters' dtype.

    Args:
        learning_rate: η, a number or a scalar value (a schedule).
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ, added to the gradient.
    """

    learning_rate: Number = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    _decoupled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_rate(self.learning_rate)
        _check_least(0, epsilon=self.epsilon, weight_decay=self.weight_decay)
        given = items_of(self.betas, "betas")
        if len(given) != 2 or not all(0 <= number(beta, "a beta") < 1 for beta in given):
            raise GraphError(
                f"betas are two numbers in [0, 1), not {shown(self.betas)}",
                where=caller(),
                hint="the usual ones are (0.9, 0.999)",
            )

    def _rule(self, step: _Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        rate = _rate(self.learning_rate, float64)
        kept: Number = 1 - rate * float(self.weight_decay) if self._decoupled else 1.0
        coupled = 0.0 if self._decoupled else self.weight_decay
        size = rate / (1 - power(first, count))
        # a reciprocal, taken once a step: dividing by the root would be a division an element
        scale = 1 / sqrt(1 - power(second, count))

        def update(parameter: Variable, gradient: Value) -> Value:
            slope = _decayed(gradient, parameter, coupled)
            mean = step.slot(
                parameter, "first_moment", lambda old: first * old + (1 - first) * slope
            )
            spread = step.slot(
                parameter,
                "second_moment",
                lambda old: second * old + (1 - second) * (slope * slope),
            )
            divisor = sqrt(spread) * step.scalar(scale, parameter) + epsilon
            start: Value = parameter
            if self._decoupled and self.weight_decay:
                start = start * step.scalar(kept, parameter)
            return start - step.scalar(size, parameter) * (mean / divisor)

        return update


@dataclass(frozen=True, slots=True, eq=False)
class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2019).

    As ``Adam`` with λ = 0 in its first line, but starting from (1 − η λ) p instead of p.

    Args:
        learning_rate: η, a number or a scalar value (a schedule).
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ.
    """

    weight_decay: float = 0.01
    _decoupled: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False)
class RMSProp(Optimizer):
    """Gradient descent scaled by a running root mean square of the gradient (Hinton, 2012).

        g = g + λ p
        v ← α v + (1 − α) g²
        a ← α a + (1 − α) g, s = max(v − a², 0)      (centred; else s = v)
        b ← μ b + g / (√s + ε)
        p ← p − η b

    Without momentum b is just the quotient, and it is not kept. The maximum matters only where
    rounding would make the root NaN.

    Args:
        learning_rate: η, a number or a scalar value (a schedule).
        alpha: α, how much of the running means is kept.
        epsilon: ε.
        momentum: μ.
        centered: divide by the deviation from the mean gradient instead.
        weight_decay: λ.
    """

    learning_rate: Number = 0.01
    alpha: float = 0.99
    epsilon: float = 1e-8
    momentum: float = 0.0
    centered: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self.learning_rate)
        _check_least(
            0,
            alpha=self.alpha,
            epsilon=self.epsilon,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def _rule(self, step: _Step) -> Rule:
        rate = _rate(self.learning_rate)
        alpha, epsilon, momentum = float(self.alpha), float(self.epsilon), float(self.momentum)

        def update(parameter: Variable, gradient: Value) -> Value:
            slope = _decayed(gradient, parameter, self.weight_decay)
            spread = step.slot(
                parameter, "mean_square", lambda old: alpha * old + (1 - alpha) * (slope * slope)
            )
            if self.centered:
                mean = step.slot(parameter, "mean", lambda old: alpha * old + (1 - alpha) * slope)
                spread = larger(spread - mean * mean, 0.0)
            move = slope / (sqrt(spread) + epsilon)
            if momentum:
                quotient = move
                move = step.slot(parameter, "momentum", lambda old: momentum * old + quotient)
            return parameter - step.scalar(rate, parameter) * move

        return update


# --- gradients and variables ---------------------------------------------------------------------


def clip_by_global_norm(gradients: Any, maximum: Number) -> tuple[Any, Value]:
    """Gradients scaled together so that their common norm is at most ``maximum``.

        n = √Σ |g|², g · maximum / max(n, maximum)

    Gradients within the bound keep their bits. If a gradient is infinite or NaN, so is the norm,
    and all results are of no use.

    Args:
        gradients: float or complex values, a list, tuple or dict of them, or nested ones.
        maximum: a number, or a scalar value, above 0.

    Returns:
        The clipped gradients in the same structure, and the norm before clipping, a scalar.

    Raises:
        GraphError: if there are no gradients, or ``maximum`` is a number that is not above 0.
        DTypeError: for values that are neither floats nor complex.
    """
    values = list(leaves(gradients))
    if not values:
        raise GraphError("there are no gradients to clip", where=caller())
    for value in values:
        if not isinstance(value, Value) or not value.dtype.is_differentiable:
            raise DTypeError(f"{value!r} is not a gradient, a float value", where=caller())
    if not isinstance(maximum, Value):
        maximum = number(maximum, "the largest norm")
        if not maximum > 0:
            raise GraphError(
                f"the largest norm must be above 0, not {maximum}",
                where=caller(),
                hint="give a number above 0, such as 1.0",
            )
    total = sum_(squared_size(values[0]))
    for value in values[1:]:
        total = total + sum_(squared_size(value))
    norm = sqrt(total)
    factor = maximum / larger(norm, maximum)
    return rebuild(gradients, lambda value: value * converted(factor, value.dtype)), norm


def _decayed(gradient: Value, parameter: Variable, decay: float) -> Value:
    """g + λ p, or g itself where λ is 0."""
    return gradient + float(decay) * parameter if decay else gradient


def _rate(given: Number, dtype: DType | None = None) -> Number:
    """The learning rate; a scheduled one in a dtype, if one is asked for."""
    if not isinstance(given, Value):
        return float(given)
    return given if dtype is None else converted(given, dtype)


def _check_rate(given: Any) -> None:
    if isinstance(given, Value):
        if given.shape != ():
            raise ShapeError(
                f"a learning rate is a scalar, not a value of type {given.type}", where=caller()
            )
        return
    number(given, "the learning rate", hint="give a number, or a scalar value of the graph")
    _check_least(0, learning_rate=given)


def _check_least(least: float, **numbers: Any) -> None:
    for name, given in numbers.items():
        label = name.replace("_", " ")
        if not number(given, f"the {label}") >= least:
            raise GraphError(
                f"{label} must be at least {least}, not {given}",
                where=caller(),
                hint=f"give a number of at least {least}",
            )
