"""Optimisers whose steps are scaled for each parameter by its norm, for large batches."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.dtypes import float64
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.pointwise.arithmetic import power, sqrt
from graphc.ops.pointwise.logic import where
from graphc.optim.clipping import norm_of
from graphc.optim.optimizer import RuleOptimizer
from graphc.optim.steps import (
    Mask,
    Parameter,
    Rate,
    Rule,
    Step,
    check_betas,
    check_least,
    check_mask,
    check_rate,
    is_chosen,
)


@dataclass(frozen=True, slots=True, eq=False)
class LARS(RuleOptimizer):
    """Momentum with a rate for each parameter (You, Gitman and Ginsburg, 2017).

        r = κ ‖p‖ / (‖g‖ + λ ‖p‖ + ε)      (1 if ‖p‖ or ‖g‖ is 0, and for what is not adapted)
        b ← μ b + η r (g + λ p)
        p ← p − b                          (Nesterov: p ← p − (μ b + η r (g + λ p)))

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        momentum: μ.
        weight_decay: λ.
        trust: κ.
        epsilon: ε.
        nesterov: look ahead.
        mask: the parameters that decay, as a list or a test; None for all.
        adapted: the parameters whose rate follows their norm, in the same way. Biases and factors
            of normalisations are often left out of both.
    """

    learning_rate: Rate
    momentum: float = 0.9
    weight_decay: float = 0.0
    trust: float = 1e-3
    epsilon: float = 0.0
    nesterov: bool = False
    mask: Mask = None
    adapted: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(
            0,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            trust=self.trust,
            epsilon=self.epsilon,
        )
        check_mask(self.mask)
        check_mask(self.adapted)

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)
        momentum = float(self.momentum)

        def update(parameter: Parameter, gradient: Value) -> Value:
            size = parameter.scalar(rate)
            if is_chosen(parameter.variable, self.adapted):
                own, slope = norm_of([parameter.value]), norm_of([gradient])
                decay = parameter.masked(self.weight_decay, self.mask)
                ratio = float(self.trust) * own / (slope + decay * own + float(self.epsilon))
                size = size * where((own > 0) & (slope > 0), ratio, 1.0)
            move = size * parameter.decayed(gradient, self.weight_decay, self.mask)
            moved = parameter.slot("momentum", lambda old: momentum * old + move)
            return parameter.value - (momentum * moved + move if self.nesterov else moved)

        return update


@dataclass(frozen=True, slots=True, eq=False)
class LAMB(RuleOptimizer):
    """AdamW with steps as long as the parameter, times the rate (You and others, 2020).

        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        u = m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε) + λ p
        r = ‖p‖ / ‖u‖                      (1 if one of them is 0, and for what is not adapted)
        p ← p − η r u

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        epsilon: ε.
        weight_decay: λ.
        mask: the parameters that decay, as a list or a test; None for all.
        adapted: the parameters whose step follows their norm, in the same way.
    """

    learning_rate: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    weight_decay: float = 0.0
    mask: Mask = None
    adapted: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_betas(self.betas, "(0.9, 0.999)")
        check_least(0, epsilon=self.epsilon, weight_decay=self.weight_decay)
        check_mask(self.mask)
        check_mask(self.adapted)

    def _rule(self, step: Step) -> Rule:
        first, second = (float(beta) for beta in self.betas)
        epsilon = float(self.epsilon)
        count = converted(step.count(), float64)
        rate = step.rate(self.learning_rate)
        of_mean = 1 / (1 - power(first, count))
        scale = 1 / sqrt(1 - power(second, count))

        def update(parameter: Parameter, gradient: Value) -> Value:
            mean = parameter.running_mean("first_moment", first, gradient)
            spread = parameter.running_mean("second_moment", second, gradient * gradient)
            divisor = sqrt(spread) * parameter.scalar(scale) + epsilon
            move = parameter.decayed(
                parameter.scalar(of_mean) * mean / divisor, self.weight_decay, self.mask
            )
            size = parameter.scalar(rate)
            if is_chosen(parameter.variable, self.adapted):
                own, length = norm_of([parameter.value]), norm_of([move])
                size = size * where((own > 0) & (length > 0), own / length, 1.0)
            return parameter.value - size * move

        return update


__all__ = ["LAMB", "LARS"]
