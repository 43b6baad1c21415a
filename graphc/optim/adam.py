"""Adam and what was made of it: running means of gradients and of their squares.

Factors that depend on the number of the step are computed in float64, whatever dtype parameters
have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphc.ir.dtypes import float64
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.pointwise.arithmetic import power, sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import abs_
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.optim.optimizer import RuleOptimizer
from graphc.optim.steps import (
    Mask,
    Number,
    Parameter,
    Rate,
    Rule,
    Step,
    check_betas,
    check_least,
    check_mask,
    check_rate,
)


@dataclass(frozen=True, slots=True, eq=False)
class Adam(RuleOptimizer):
    """Adam (Kingma and Ba, 2015): momentum over a running scale of the gradient.

        g = g + λ p
        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        p ← p − η / (1 − β₁ᵗ) · m / (√v · 1/√(1 − β₂ᵗ) + ε)

    The factors that depend on t are computed in float64 whatever the parameters' dtype.

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ, added to the gradient.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    mask: Mask = None
    _decoupled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(0, epsilon=self.epsilon, weight_decay=self.weight_decay)
        check_betas(self.betas, "(0.9, 0.999)")
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        rate = step.rate(self.learning_rate, float64)
        kept: Number = 1 - rate * float(self.weight_decay) if self._decoupled else 1.0
        coupled = 0.0 if self._decoupled else self.weight_decay
        size = rate / (1 - power(first, count))
        # a reciprocal, taken once a step: dividing by the root would be a division an element
        scale = 1 / sqrt(1 - power(second, count))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, coupled, self.mask)
            mean, spread = self._moments(parameter, slope)
            divisor = sqrt(spread) * parameter.scalar(scale) + epsilon
            start = parameter.value
            if self._decoupled and parameter.masked(self.weight_decay, self.mask):
                start = start * parameter.scalar(kept)
            return start - parameter.scalar(size) * (mean / divisor)

        return update

    def _moments(self, parameter: Parameter, slope: Value) -> tuple[Value, Value]:
        """The running means of the gradient and of its square."""
        first, second = (float(beta) for beta in self.betas)
        mean = parameter.running_mean("first_moment", first, slope)
        return mean, parameter.running_mean("second_moment", second, slope * slope)


@dataclass(frozen=True, slots=True, eq=False)
class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2019).

    As ``Adam`` with λ = 0 in its first line, but starting from (1 − η λ) p instead of p.

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    weight_decay: float = 0.01
    _decoupled: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, eq=False)
class AMSGrad(Adam):
    """Adam over the largest second moment so far (Reddi, Kale and Kumar, 2018).

    As ``Adam``, but s ← max(s, v) stands in the place of v in its last line.

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ, added to the gradient.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    def _moments(self, parameter: Parameter, slope: Value) -> tuple[Value, Value]:
        mean, spread = Adam._moments(self, parameter, slope)
        return mean, parameter.slot("largest_moment", lambda old: larger(old, spread))


@dataclass(frozen=True, slots=True, eq=False)
class Adamax(Adam):
    """Adam with the largest gradient, which fades, as its scale (Kingma and Ba, 2015).

        g = g + λ p
        m ← β₁ m + (1 − β₁) g
        u ← max(β₂ u, |g| + ε)
        p ← p − η / (1 − β₁ᵗ) · m / u

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ, added to the gradient.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 2e-3

    def _rule(self, step: Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        size = step.rate(self.learning_rate, float64) / (1 - power(first, count))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            mean = parameter.running_mean("first_moment", first, slope)
            largest = parameter.slot(
                "largest_gradient", lambda old: larger(second * old, abs_(slope) + epsilon)
            )
            return parameter.value - parameter.scalar(size) * (mean / largest)

        return update


@dataclass(frozen=True, slots=True, eq=False)
class NAdam(Adam):
    """Adam with Nesterov's look ahead, its momentum growing (Dozat, 2016).

        g = g + λ p,  μₜ = β₁ (1 − 0.96^(t ψ) / 2)
        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        c ← c μₜ                          (c = 1 at first)
        n = (1 − μₜ) / (1 − c) · g + μₜ₊₁ / (1 − c μₜ₊₁) · m
        p ← p − η n / (√(v / (1 − β₂ᵗ)) + ε)

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ, added to the gradient.
        mask: the parameters that decay, as a list or a test; None for all.
        momentum_decay: ψ; with 0 the momentum is β₁ / 2 all the time.
    """

    learning_rate: Rate = 2e-3
    momentum_decay: float = 4e-3

    def __post_init__(self) -> None:
        Adam.__post_init__(self)
        check_least(0, momentum_decay=self.momentum_decay)

    def _rule(self, step: Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        rate = step.rate(self.learning_rate, float64)

        def momentum(count: Value) -> Value:
            return first * (1 - 0.5 * power(0.96, count * float(self.momentum_decay)))

        now, later = momentum(count), momentum(count + 1)
        before = step.kept("momentum_product", np.float64(1))
        product = step.keep(before, before * now)
        of_slope = rate * (1 - now) / (1 - product)
        of_mean = rate * later / (1 - product * later)
        scale = 1 / sqrt(1 - power(second, count))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            mean, spread = self._moments(parameter, slope)
            divisor = sqrt(spread) * parameter.scalar(scale) + epsilon
            move = parameter.scalar(of_slope) * slope + parameter.scalar(of_mean) * mean
            return parameter.value - move / divisor

        return update


@dataclass(frozen=True, slots=True, eq=False)
class RAdam(Adam):
    """Adam that scales only when the scale is known well enough (Liu and others, 2020).

        g = g + λ p
        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        ρ = 2 / (1 − β₂) − 1,  ρₜ = ρ − 2 t β₂ᵗ / (1 − β₂ᵗ)
        r = √((ρₜ − 4) (ρₜ − 2) ρ / ((ρ − 4) (ρ − 2) ρₜ))
        p ← p − η / (1 − β₁ᵗ) · m · r √(1 − β₂ᵗ) / (√v + ε)      (ρₜ ≤ 5: p ← p − η / (1 − β₁ᵗ) · m)

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ, added to the gradient.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    def _rule(self, step: Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        size = step.rate(self.learning_rate, float64) / (1 - power(first, count))
        fading = power(second, count)
        limit = 2 / (1 - second) - 1
        length = limit - 2 * count * fading / (1 - fading)
        known = length > 5
        ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        # what stands below a root that is not taken may be negative
        scale = sqrt(where(known, ratio, 1.0) * (1 - fading))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            mean, spread = self._moments(parameter, slope)
            factor = where(known, parameter.scalar(scale) / (sqrt(spread) + epsilon), 1.0)
            return parameter.value - parameter.scalar(size) * (mean * factor)

        return update


__all__ = ["AMSGrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"]
