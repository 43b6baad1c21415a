"""Optimisers around others: they change gradients before a step, or what the step writes.

Role: clipping, accumulation, averages and loss scaling go with each optimiser and with one another.
The outermost sees a gradient first: ``Accumulated(Clipped(Adam(), 1.0), 4)`` clips the mean of four
gradients, ``Clipped(Accumulated(Adam(), 4), 1.0)`` each of them. Invariant: what lies within keeps
its state in variables that the same step writes, and where a wrapper leaves out a step, all of them
stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.differentiate import gradients as gradients_of
from graphc.frontend.state import Variable
from graphc.ir.dtypes import float64
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.ops.pointwise.rounding import minimum as smaller
from graphc.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from graphc.optim.optimizer import Optimizer, are_finite, chosen_writes
from graphc.optim.steps import (
    Number,
    Pair,
    Parameter,
    Step,
    Write,
    check_count,
    check_least,
    check_positive,
    check_share,
)


class Wrapper(Optimizer):
    """An optimiser around another one."""

    __slots__ = ()
    optimizer: Optimizer

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise GraphError(
                f"{shown(self.optimizer)} is no optimiser",
                where=caller(),
                hint="give one first, as gx.optim.Adam()",
            )

    def _gradients(self, step: Step, loss: Value, variables: Sequence[Variable]) -> Sequence[Value]:
        return self.optimizer._gradients(step, loss, variables)

    def _writes_within(self, pairs: Sequence[Pair]) -> list[Write]:
        """What the optimiser within writes, given these gradients."""
        step = Step(self.optimizer._name, scales=pairs[0][0].step.scales)
        self.optimizer._update([(Parameter(step, p.variable), slope) for p, slope in pairs])
        return step.writes


@dataclass(frozen=True, slots=True, eq=False)
class Clipped(Wrapper):
    """An optimiser whose gradients are clipped.

    Args:
        optimizer: what takes them.
        maximum: a number, or a scalar value, above 0.
        by: "global_norm", "norm" or "value", as ``clip_by_global_norm`` and its like do.
    """

    optimizer: Optimizer
    maximum: Number
    by: Literal["global_norm", "norm", "value"] = "global_norm"

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        if not isinstance(self.by, str) or self.by not in ("global_norm", "norm", "value"):
            raise GraphError(
                f"clipped by {shown(self.by)}",
                where=caller(),
                hint='give "global_norm", "norm" or "value"',
            )
        if not isinstance(self.maximum, Value):
            check_positive(self.maximum, "the largest norm or value")

    def _update(self, pairs: Sequence[Pair]) -> None:
        slopes = [slope for _, slope in pairs]
        if self.by == "global_norm":
            clipped, _ = clip_by_global_norm(slopes, self.maximum)
        else:
            clip = clip_by_norm if self.by == "norm" else clip_by_value
            clipped = clip(slopes, self.maximum)
        parameters = [parameter for parameter, _ in pairs]
        within = self._writes_within([*zip(parameters, clipped, strict=True)])
        parameters[0].step.writes += within


@dataclass(frozen=True, slots=True, eq=False)
class Accumulated(Wrapper):
    """An optimiser that takes the mean of the gradients of several runs.

    Each run adds its gradients to a slot, as ``w/accumulated``. Every so many runs, and only then,
    the optimiser takes a step along their mean, and its slots and counters change.

    Args:
        optimizer: what takes the means.
        every: how many runs make a step.
    """

    optimizer: Optimizer
    every: int

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        check_count(self.every, "every")

    def _update(self, pairs: Sequence[Pair]) -> None:
        step = pairs[0][0].step
        due = step.count() % self.every == 0
        means = []
        for parameter, slope in pairs:
            slot = parameter.kept("accumulated")
            total = slot + slope
            parameter.keep(slot, where(due, 0.0, total))
            means.append((parameter, total / self.every))
        step.writes += chosen_writes(due, self._writes_within(means))


@dataclass(frozen=True, slots=True, eq=False)
class Averaged(Wrapper):
    """An optimiser that also keeps running means of its parameters, as ``w/average``.

    The mean is exponential (of ``decay``), or that of all steps (Polyak and Juditsky, 1992):

        a ← (1 − s) a + s p, p after step t, s = 1 − decay or 1 / t      (s = 1 in the first step)

    ``graph.find("w/average")`` is a variable as any other: build the model with it to evaluate, or
    set ``w`` to what ``session.get`` gives. It is zeros before the first step.

    Args:
        optimizer: what changes the parameters.
        decay: how much of the mean is kept, in [0, 1); None for the mean of all.
        begin: after how many steps the mean begins; until then it is the parameter.
    """

    optimizer: Optimizer
    decay: float | None = 0.999
    begin: int = 0

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        if self.decay is not None:
            check_share(decay=self.decay)
        check_count(self.begin, "begin", 0)

    def _update(self, pairs: Sequence[Pair]) -> None:
        step = pairs[0][0].step
        within = self._writes_within(pairs)
        step.writes += within
        written = {write.target: write.new for write in within}
        count = larger(converted(step.count(), float64) - self.begin, 1.0)
        share: Value = 1 / count
        if self.decay is not None:
            share = where(count == 1, np.float64(1), np.float64(1 - self.decay))
        for parameter, _ in pairs:
            new = converted(written[parameter.variable], parameter.dtype)
            old = parameter.kept("average")
            kept = parameter.scalar(1 - share) * old
            parameter.keep(old, kept + parameter.scalar(share) * new)


@dataclass(frozen=True, slots=True, eq=False)
class LossScaled(Wrapper):
    """An optimiser whose loss is scaled, so that gradients of float16 do not vanish.

    Gradients are those of loss · scale, divided by the scale in float32 (Micikevicius and others,
    2018). If one of them is not finite, the optimiser takes no step and the scale becomes smaller;
    after ``interval`` steps in a row it becomes larger. A variable of the step keeps it, as
    ``lossscaled/scale``.

    Use ``minimize``: given gradients are of a loss that is not scaled, and ``apply_gradients``
    refuses them.

    Args:
        optimizer: what takes the step.
        initial: the first scale; powers of 2 round nothing.
        growth, backoff: what it is multiplied by, above 1 and in (0, 1).
        interval: how many steps are taken before it grows.
        least, most: what it stays between.
    """

    optimizer: Optimizer
    initial: float = 2.0**15
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    least: float = 1.0
    most: float = 2.0**24

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        check_count(self.interval, "interval")
        check_least(0, growth=self.growth, backoff=self.backoff, least=self.least)
        check_least(self.least, initial=self.initial)
        check_least(self.initial, most=self.most)
        if not self.growth > 1 or not 0 < self.backoff < 1 or self.least == 0:
            raise GraphError(
                f"growth {self.growth}, backoff {self.backoff} and least {self.least}",
                where=caller(),
                hint="growth is above 1, backoff between 0 and 1, and least above 0",
            )

    def _gradients(self, step: Step, loss: Value, variables: Sequence[Variable]) -> Sequence[Value]:
        scale = step.scales[self] = step.kept("scale", np.float32(self.initial))
        found: Sequence[Value] = gradients_of(loss, variables, converted(scale, loss.dtype))
        return found

    def _update(self, pairs: Sequence[Pair]) -> None:
        step = pairs[0][0].step
        scale = step.scales.get(self)
        if scale is None:
            raise GraphError(
                "gradients are given to an optimiser that scales the loss",
                where=caller(),
                hint="use minimize(loss), with gx.optim.Clipped inside for clipped gradients",
            )
        part = 1 / scale
        slopes = [(parameter, parameter.scalar(part) * slope) for parameter, slope in pairs]
        finite = are_finite(Write(p.variable, slope, p.variable) for p, slope in slopes)
        step.writes += chosen_writes(finite, self._writes_within(slopes))

        good = step.kept("good_steps", np.int64(0))
        grows = good + 1 == self.interval
        step.keep(good, where(finite & ~grows, good + 1, np.int64(0)))
        larger_scale = smaller(scale * float(self.growth), float(self.most))
        smaller_scale = larger(scale * float(self.backoff), float(self.least))
        step.keep(scale, where(finite, where(grows, larger_scale, scale), smaller_scale))


__all__ = ["Accumulated", "Averaged", "Clipped", "LossScaled", "Wrapper"]
