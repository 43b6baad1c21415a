"""Optimisers that scale each element of a gradient by the size of those before it."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.value import Value
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.optim.optimizer import RuleOptimizer
from graphc.optim.steps import (
    Mask,
    Parameter,
    Rate,
    Rule,
    Step,
    check_least,
    check_mask,
    check_rate,
    check_share,
)


@dataclass(frozen=True, slots=True, eq=False)
class Adagrad(RuleOptimizer):
    """Gradient descent scaled by the root of all squares so far (Duchi, Hazan and Singer, 2011).

        g = g + λ p
        s ← s + g²
        p ← p − η g / (√s + ε)

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        epsilon: ε.
        weight_decay: λ.
        initial: what the sum s starts at.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 0.01
    epsilon: float = 1e-10
    weight_decay: float = 0.0
    initial: float = 0.0
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(
            0, epsilon=self.epsilon, weight_decay=self.weight_decay, initial=self.initial
        )
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)
        epsilon = float(self.epsilon)

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            total = parameter.slot(
                "sum_of_squares", lambda old: old + slope * slope, float(self.initial)
            )
            return parameter.value - parameter.scalar(rate) * (slope / (sqrt(total) + epsilon))

        return update


@dataclass(frozen=True, slots=True, eq=False)
class Adadelta(RuleOptimizer):
    """Steps as large as those before, by the running sizes of gradients and steps (Zeiler, 2012).

        g = g + λ p
        v ← ρ v + (1 − ρ) g²
        d = √(u + ε) / √(v + ε) · g
        u ← ρ u + (1 − ρ) d²
        p ← p − η d

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        rho: ρ, how much of the running means is kept, in [0, 1).
        epsilon: ε.
        weight_decay: λ.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 1.0
    rho: float = 0.9
    epsilon: float = 1e-6
    weight_decay: float = 0.0
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_share(rho=self.rho)
        check_least(0, epsilon=self.epsilon, weight_decay=self.weight_decay)
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)
        rho, epsilon = float(self.rho), float(self.epsilon)

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            spread = parameter.running_mean("mean_square", rho, slope * slope)
            steps = parameter.kept("mean_square_step")
            move = sqrt(steps + epsilon) / sqrt(spread + epsilon) * slope
            parameter.keep(steps, rho * steps + (1 - rho) * (move * move))
            return parameter.value - parameter.scalar(rate) * move

        return update


@dataclass(frozen=True, slots=True, eq=False)
class RMSProp(RuleOptimizer):
    """Gradient descent scaled by a running root mean square of the gradient (Hinton, 2012).

        g = g + λ p
        v ← α v + (1 − α) g²
        a ← α a + (1 − α) g, s = max(v − a², 0)      (centred; else s = v)
        b ← μ b + g / (√s + ε)
        p ← p − η b

    Without momentum b is just the quotient, and it is not kept. The maximum matters only where
    rounding would make the root NaN.

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        alpha: α, how much of the running means is kept.
        epsilon: ε.
        momentum: μ.
        centered: divide by the deviation from the mean gradient instead.
        weight_decay: λ.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 0.01
    alpha: float = 0.99
    epsilon: float = 1e-8
    momentum: float = 0.0
    centered: bool = False
    weight_decay: float = 0.0
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(
            0,
            alpha=self.alpha,
            epsilon=self.epsilon,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)
        alpha, epsilon, momentum = float(self.alpha), float(self.epsilon), float(self.momentum)

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            spread = parameter.running_mean("mean_square", alpha, slope * slope)
            if self.centered:
                mean = parameter.running_mean("mean", alpha, slope)
                spread = larger(spread - mean * mean, 0.0)
            move = slope / (sqrt(spread) + epsilon)
            if momentum:
                quotient = move
                move = parameter.slot("momentum", lambda old: momentum * old + quotient)
            return parameter.value - parameter.scalar(rate) * move

        return update


__all__ = ["Adadelta", "Adagrad", "RMSProp"]
