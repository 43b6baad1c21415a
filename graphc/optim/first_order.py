"""Optimisers that follow the gradient itself, a running mean of it, or its sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import sign
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
class SGD(RuleOptimizer):
    """Stochastic gradient descent, with momentum (Polyak, 1964; Nesterov, 1983) or not.

        g = g + λ p
        b ← μ b + (1 − dampening) g      (b ← g in the first step)
        p ← p − η b                      (Nesterov: p ← p − η (g + μ b))

    Without momentum p ← p − η g, and nothing is kept.

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        momentum: μ.
        nesterov: look ahead; needs momentum, and no dampening.
        weight_decay: λ.
        dampening: how much less of the gradient enters the momentum.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    dampening: float = 0.0
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(0, momentum=self.momentum, weight_decay=self.weight_decay)
        number(self.dampening, "the dampening")
        check_mask(self.mask)
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise GraphError(
                "Nesterov's step needs momentum above 0 and no dampening", where=caller()
            )

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)
        momentum, taken = float(self.momentum), 1 - float(self.dampening)
        share: Number = taken
        if momentum and taken != 1:
            share = where(step.count() == 1, np.float64(1), np.float64(taken))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay, self.mask)
            if momentum:
                part = slope if share is taken else parameter.scalar(share) * slope
                average = parameter.slot("momentum", lambda old: momentum * old + part)
                slope = slope + momentum * average if self.nesterov else average
            return parameter.value - parameter.scalar(rate) * slope

        return update


@dataclass(frozen=True, slots=True, eq=False)
class SignSGD(RuleOptimizer):
    """Steps of one length along the signs of the gradient (Bernstein and others, 2018).

        p ← (1 − η λ) p − η sign(g)

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        weight_decay: λ.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate
    weight_decay: float = 0.0
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(0, weight_decay=self.weight_decay)
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)

        def update(parameter: Parameter, gradient: Value) -> Value:
            move = parameter.decayed(sign(gradient), self.weight_decay, self.mask)
            return parameter.value - parameter.scalar(rate) * move

        return update


@dataclass(frozen=True, slots=True, eq=False)
class Lion(RuleOptimizer):
    """The signs of momentum, which follows more slowly (Chen and others, 2023).

        u = sign(β₁ m + (1 − β₁) g)
        m ← β₂ m + (1 − β₂) g
        p ← p − η (u + λ p)

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        betas: β₁ and β₂, each in [0, 1).
        weight_decay: λ.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_betas(self.betas, "(0.9, 0.99)")
        check_least(0, weight_decay=self.weight_decay)
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        rate = step.rate(self.learning_rate)
        first, second = (float(beta) for beta in self.betas)

        def update(parameter: Parameter, gradient: Value) -> Value:
            momentum = parameter.kept("momentum")
            parameter.keep(momentum, second * momentum + (1 - second) * gradient)
            direction = sign(first * momentum + (1 - first) * gradient)
            move = parameter.decayed(direction, self.weight_decay, self.mask)
            return parameter.value - parameter.scalar(rate) * move

        return update


__all__ = ["SGD", "Lion", "SignSGD"]
