"""Optimisers that follow the gradient itself, or a running mean of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.ir.value import Value
from graphc.ops.pointwise.logic import where
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
        check_rate(self.learning_rate)
        check_least(0, momentum=self.momentum, weight_decay=self.weight_decay)
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise GraphError(
                "Nesterov's step needs momentum above 0 and no dampening", where=caller()
            )

    def _rule(self, step: Step) -> Rule:
        rate = rate_of(self.learning_rate)
        momentum, taken = float(self.momentum), 1 - float(self.dampening)
        share: Number = taken
        if momentum and taken != 1:
            share = where(step.count() == 1, np.float64(1), np.float64(taken))

        def update(parameter: Parameter, gradient: Value) -> Value:
            slope = parameter.decayed(gradient, self.weight_decay)
            if momentum:
                part = slope if share is taken else parameter.scalar(share) * slope
                average = parameter.slot("momentum", lambda old: momentum * old + part)
                slope = slope + momentum * average if self.nesterov else average
            return parameter.value - parameter.scalar(rate) * slope

        return update


__all__ = ["SGD"]
