"""Optimisers that scale each element of a gradient by a running size of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dtypes import float64
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, number
from graphc.ops.convert import converted
from graphc.ops.pointwise.arithmetic import power, sqrt
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.optim.steps import (
    Number,
    Optimizer,
    Parameter,
    Rule,
    Step,
    check_least,
    check_rate,
    rate_of,
)


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
        check_rate(self.learning_rate)
        check_least(
            0,
            alpha=self.alpha,
            epsilon=self.epsilon,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def _rule(self, step: Step) -> Rule:
        rate = rate_of(self.learning_rate)
        alpha, epsilon, momentum = float(self.alpha), float(self.epsilon), float(self.momentum)

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay)
            spread = parameter.slot(
                "mean_square", lambda old: alpha * old + (1 - alpha) * (slope * slope)
            )
            if self.centered:
                mean = parameter.slot("mean", lambda old: alpha * old + (1 - alpha) * slope)
                spread = larger(spread - mean * mean, 0.0)
            move = slope / (sqrt(spread) + epsilon)
            if momentum:
                quotient = move
                move = parameter.slot("momentum", lambda old: momentum * old + quotient)
            return parameter.value - parameter.scalar(rate) * move

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
        check_rate(self.learning_rate)
        check_least(0, epsilon=self.epsilon, weight_decay=self.weight_decay)
        given = items_of(self.betas, "betas")
        if len(given) != 2 or not all(0 <= number(beta, "a beta") < 1 for beta in given):
            raise GraphError(
                f"betas are two numbers in [0, 1), not {shown(self.betas)}",
                where=caller(),
                hint="the usual ones are (0.9, 0.999)",
            )

    def _rule(self, step: Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        rate = rate_of(self.learning_rate, float64)
        kept: Number = 1 - rate * float(self.weight_decay) if self._decoupled else 1.0
        coupled = 0.0 if self._decoupled else self.weight_decay
        size = rate / (1 - power(first, count))
        # a reciprocal, taken once a step: dividing by the root would be a division an element
        scale = 1 / sqrt(1 - power(second, count))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, coupled)
            mean = parameter.slot(
                "first_moment", lambda old: first * old + (1 - first) * slope
            )
            spread = parameter.slot(
                "second_moment",
                lambda old: second * old + (1 - second) * (slope * slope),
            )
            divisor = sqrt(spread) * parameter.scalar(scale) + epsilon
            start = parameter.value
            if self._decoupled and self.weight_decay:
                start = start * parameter.scalar(kept)
            return start - parameter.scalar(size) * (mean / divisor)

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


__all__ = ["Adam", "AdamW", "RMSProp"]
