"""Schedules: learning rates that follow the step, ``gx.optim.cosine_decay`` and others.

A schedule is a function from the number n of steps before this one, 0 in the first, to the rate: a
float64 scalar of the graph. Any function that does so is one. What follows a loss as well is
``ReduceOnPlateau``, whose state the step keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.parameters import no_loss
from graphc.ir.dtypes import float64
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, number, switch
from graphc.ops.convert import as_value, converted
from graphc.ops.pointwise.arithmetic import power, sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.math import cos
from graphc.ops.pointwise.rounding import abs_, clip, floor
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.ops.pointwise.rounding import minimum as smaller
from graphc.optim.steps import (
    KeptRate,
    Number,
    Rate,
    Schedule,
    Step,
    check_count,
    check_least,
    check_positive,
    check_rate,
)


def constant_schedule(value: float) -> Schedule:
    """The same rate in all steps, for ``join_schedules``.

    Args:
        value: the rate.
    """
    check_least(0, rate=value)
    return lambda count: as_value(np.float64(value), _number(count))


def piecewise_constant(initial: float, factors: Mapping[int, float]) -> Schedule:
    """A rate that is multiplied in some steps, as of PyTorch's ``MultiStepLR``.

    Args:
        initial: the first rate.
        factors: by the number of steps before it, what the rate is multiplied with from then on.

    Raises:
        GraphError: for steps or numbers below 0.
        DTypeError: for what is no number.
    """
    check_least(0, initial=initial)
    if not isinstance(factors, Mapping):
        raise GraphError(
            f"factors are {shown(factors)}", where=caller(), hint="give a dict: {1000: 0.1}"
        )
    changes = {check_count(at, "a step of factors", 0): factor for at, factor in factors.items()}
    for factor in changes.values():
        check_least(0, factor=factor)

    def rate(count: Value) -> Value:
        done = _number(count)
        result = as_value(np.float64(initial), done)
        for at, factor in changes.items():
            result = result * where(done < at, np.float64(1), np.float64(factor))
        return result

    return rate


def polynomial_decay(
    initial: float, end: float, steps: int, exponent: float = 1.0, begin: int = 0
) -> Schedule:
    """From one rate to another by a power of the steps that are left.

        end + (initial − end) (1 − x)^exponent, x = (n − begin) / steps within [0, 1]

    Args:
        initial, end: the rate before and after.
        steps: how many steps lie between.
        exponent: 1 for a straight line.
        begin: how many steps come before.

    Raises:
        GraphError: for numbers below 0, and for less than one step.
        DTypeError: for what is no number, and steps that are no ints.
    """
    check_least(0, initial=initial, end=end, exponent=exponent)
    part = _progress(steps, begin)
    return lambda count: end + (initial - end) * _raised(1 - part(count), exponent)


def linear_schedule(initial: float, end: float, steps: int, begin: int = 0) -> Schedule:
    """From one rate to another in a straight line; arguments as of ``polynomial_decay``."""
    return polynomial_decay(initial, end, steps, 1.0, begin)


def exponential_decay(
    initial: float,
    steps: int,
    factor: float,
    begin: int = 0,
    staircase: bool = False,
    end: float | None = None,
) -> Schedule:
    """A rate that is multiplied by a factor every so many steps, and evenly between.

        initial · factor^x, x = max(n − begin, 0) / steps (staircase: its floor)

    Args:
        initial: the first rate.
        steps: how many steps the factor takes.
        factor: above 0.
        begin: how many steps come before.
        staircase: whether the rate stays until the factor is whole.
        end: what the rate does not pass, if given.

    Raises:
        GraphError: for numbers below 0, and for less than one step.
        DTypeError: for what is no number, and steps that are no ints.
    """
    check_least(0, initial=initial, factor=factor)
    if end is not None:
        check_least(0, end=end)
    size, first = check_count(steps, "steps"), check_count(begin, "begin", 0)
    stays = switch(staircase, "staircase")

    def rate(count: Value) -> Value:
        done = larger(_number(count) - first, 0.0) / size
        result = initial * power(float(factor), floor(done) if stays else done)
        if end is None:
            return result
        return larger(result, float(end)) if factor < 1 else smaller(result, float(end))

    return rate


def cosine_decay(
    initial: float, steps: int, end: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Half a wave of the cosine, from one rate to another (Loshchilov and Hutter, 2017).

        end + (initial − end) ((1 + cos π x) / 2)^exponent, x = n / steps within [0, 1]

    Args:
        initial, end: the rate at first, and from the last step on.
        steps: how many steps lie between.
        exponent: what the wave is raised to.

    Raises:
        GraphError: for numbers below 0, and for less than one step.
        DTypeError: for what is no number, and steps that are no ints.
    """
    check_least(0, initial=initial, end=end, exponent=exponent)
    part = _progress(steps)
    return lambda count: end + (initial - end) * _raised(_falling(part(count)), exponent)


def warmup(schedule: Schedule, steps: int, initial: float = 0.0) -> Schedule:
    """A straight line from ``initial`` to where a schedule begins, which then follows.

    Args:
        schedule: what follows; its steps count from the end of the line.
        steps: how many steps the line takes.
        initial: the first rate.

    Raises:
        GraphError: for what is no schedule, a number below 0, and less than one step.
        DTypeError: for what is no number, and steps that are no ints.
    """
    _check_schedule(schedule)
    check_least(0, initial=initial)
    size = check_count(steps, "steps")

    def rate(count: Value) -> Value:
        done = _number(count)
        peak = _given(schedule, done * 0)
        line = initial + (peak - initial) * (done / size)
        return where(done < size, line, _given(schedule, larger(done - size, 0.0)))

    return rate


def warmup_cosine_decay(
    initial: float,
    peak: float,
    warmup_steps: int,
    steps: int,
    end: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """A straight line up, then half a wave of the cosine down.

    Args:
        initial, peak, end: the rate at first, after the line, and from the last step on.
        warmup_steps: how many steps the line takes.
        steps: how many steps there are, those of the line among them.
        exponent: as of ``cosine_decay``.

    Raises:
        GraphError: for numbers below 0, and unless 0 < warmup_steps < steps.
        DTypeError: for what is no number, and steps that are no ints.
    """
    first, last = check_count(warmup_steps, "warmup_steps"), check_count(steps, "steps")
    if first >= last:
        raise GraphError(
            f"{first} steps of warm-up of {last} leave none to decay",
            where=caller(),
            hint="steps counts all of them: give more, or a shorter warm-up",
        )
    return warmup(cosine_decay(peak, last - first, end, exponent), first, initial)


def one_cycle(
    peak: float,
    steps: int,
    share: float = 0.3,
    start_divisor: float = 25.0,
    end_divisor: float = 1e4,
) -> Schedule:
    """Up to a peak and far down again, each in half a wave of the cosine (Smith and Topin, 2018).

    The rate is peak / start_divisor at first, peak after ``share`` of all steps, and at the end the
    first rate / end_divisor.

    Args:
        peak: the largest rate.
        steps: how many steps there are.
        share: the share of them that leads up, in (0, 1).
        start_divisor, end_divisor: above 0.

    Raises:
        GraphError: for numbers out of range, and for less than two steps.
        DTypeError: for what is no number, and steps that are no int.
    """
    check_least(0, peak=peak)
    size = check_count(steps, "steps", 2)
    if not 0 < number(share, "the share") < 1:
        raise GraphError(
            f"share must be in (0, 1), not {share}", where=caller(), hint="a usual one is 0.3"
        )
    for name, divisor in (("start_divisor", start_divisor), ("end_divisor", end_divisor)):
        check_positive(divisor, name)
    start = peak / start_divisor
    end = start / end_divisor
    top = min(max(int(share * size), 1), size - 1)
    up, down = _progress(top), _progress(size - top, top)

    def rate(count: Value) -> Value:
        rising = peak + (start - peak) * _falling(up(count))
        sinking = end + (peak - end) * _falling(down(count))
        return where(_number(count) < top, rising, sinking)

    return rate


def inverse_sqrt_decay(peak: float, warmup_steps: int) -> Schedule:
    """A straight line up, then down by the root of the step (Vaswani and others, 2017).

        peak · min((n + 1) / warmup_steps, √(warmup_steps / (n + 1)))

    Args:
        peak: the largest rate.
        warmup_steps: how many steps lead to it.

    Raises:
        GraphError: for a number below 0, and for less than one step.
        DTypeError: for what is no number, and steps that are no int.
    """
    check_least(0, peak=peak)
    size = check_count(warmup_steps, "warmup_steps")

    def rate(count: Value) -> Value:
        step = _number(count) + 1
        return peak * smaller(step / size, sqrt(size / step))

    return rate


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after the other.

    Args:
        schedules: each counts its own steps from 0.
        boundaries: in how many steps each but the first begins, in growing order.

    Raises:
        GraphError: for what is no schedule, and for other numbers of boundaries or another order.
        DTypeError: for boundaries that are no ints.
    """
    parts = items_of(schedules, "schedules")
    for part in parts:
        _check_schedule(part)
    steps = [check_count(at, "a boundary", 0) for at in items_of(boundaries, "boundaries")]
    if len(parts) != len(steps) + 1 or steps != sorted(steps):
        raise GraphError(
            f"{len(parts)} schedules and boundaries {steps}",
            where=caller(),
            hint="give one boundary less than schedules, in growing order",
        )

    def rate(count: Value) -> Value:
        done = _number(count)
        result = _given(parts[0], done)
        for at, part in zip(steps, parts[1:], strict=True):
            result = where(done < at, result, _given(part, larger(done - at, 0.0)))
        return result

    return rate


@dataclass(frozen=True, slots=True, eq=False)
class ReduceOnPlateau(KeptRate):
    """A rate that becomes smaller where a loss does so no longer, as in PyTorch.

    A loss is better if it is below the best so far by ``relative`` of that and ``absolute``. After
    more than ``patience`` looks without a better one the rate is multiplied by ``factor``, and
    ``cooldown`` looks follow that count for nothing. A loss that is NaN is not better. What is
    counted stands in variables of the step, as ``adam/plateau_scale``.

    Args:
        learning_rate: a number, a scalar value or a schedule, which is multiplied.
        loss: a float scalar: that of the step, or a variable that holds one of other data.
        factor: in [0, 1).
        patience: how many looks in a row without a better loss do no harm.
        relative, absolute: how much better a loss must be.
        cooldown: how many looks after a change count for nothing.
        every: the loss is looked at, its mean over them, every so many steps.
        least: the rate does not go below.
    """

    learning_rate: Rate
    loss: Value
    factor: float = 0.1
    patience: int = 10
    relative: float = 1e-4
    absolute: float = 0.0
    cooldown: int = 0
    every: int = 1
    least: float = 0.0

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        if not isinstance(self.loss, Value):
            raise no_loss(self.loss)
        if self.loss.ndim or not self.loss.dtype.is_float:
            raise ShapeError(
                f"a loss is a float scalar, not {self.loss.type}",
                where=caller(),
                hint="reduce it with .mean() or .sum()",
            )
        check_least(
            0, factor=self.factor, relative=self.relative, absolute=self.absolute, least=self.least
        )
        if not self.factor < 1:
            raise GraphError(
                f"factor must be below 1, not {self.factor}", where=caller(), hint="such as 0.1"
            )
        check_count(self.patience, "patience", 0)
        check_count(self.cooldown, "cooldown", 0)
        check_count(self.every, "every")

    def _follow(self, step: Step) -> Value:
        whole, none = np.int64(0), np.float64(0)
        total = step.kept("plateau_sum", none)
        best = step.kept("plateau_best", np.finfo(np.float64).max)
        waited = step.kept("plateau_waited", whole)
        resting = step.kept("plateau_resting", whole)
        scale = step.kept("plateau_scale", np.float64(1))

        due = step.count() % self.every == 0
        summed = total + converted(self.loss, float64)
        step.keep(total, where(due, none, summed))
        mean = summed / self.every
        better = due & (mean < best - self.relative * abs_(best) - self.absolute)
        step.keep(best, where(better, mean, best))
        rests = resting > 0
        count = where(better | rests, whole, waited + 1)
        reduced = due & (count > self.patience)
        step.keep(waited, where(due, where(reduced, whole, count), waited))
        rest = where(rests, resting - 1, whole)
        step.keep(resting, where(due, where(reduced, np.int64(self.cooldown), rest), resting))
        now = step.keep(scale, where(reduced, scale * float(self.factor), scale))
        return larger(step.rate(self.learning_rate, float64) * now, float(self.least))


# --- what schedules are made of ------------------------------------------------------------------


def _number(count: Any) -> Value:
    """The number of steps as a float64 scalar."""
    value = as_value(count)
    if value.ndim or not (value.dtype.is_float or value.dtype.is_integer):
        raise DTypeError(
            f"a schedule is asked for step {shown(count)}",
            where=caller(),
            hint="give the number of steps before, an int or a scalar",
        )
    return converted(value, float64)


def _progress(steps: int, begin: int = 0) -> Callable[[Any], Value]:
    """What part of some steps is done, within [0, 1]."""
    size, first = check_count(steps, "steps"), check_count(begin, "begin", 0)
    return lambda count: clip((_number(count) - first) / size, 0.0, 1.0)


def _falling(part: Value) -> Value:
    """Half a wave of the cosine, from 1 to 0."""
    return 0.5 + 0.5 * cos(math.pi * part)


def _raised(base: Value, exponent: float) -> Value:
    return base if exponent == 1 else power(base, float(exponent))


def _given(schedule: Schedule, done: Value) -> Value:
    """What a schedule gives, as a float64 scalar."""
    given: Number = schedule(done)
    if isinstance(given, Value):
        check_rate(given)
        return converted(given, float64)
    return as_value(np.float64(number(given, "what a schedule gives")), done)


def _check_schedule(given: Any) -> None:
    if isinstance(given, (Value, KeptRate)) or not callable(given):
        raise GraphError(
            f"{shown(given)} is no schedule",
            where=caller(),
            hint="give what gx.optim.constant_schedule and others make, or a function of the step",
        )


__all__ = [
    "ReduceOnPlateau",
    "constant_schedule",
    "cosine_decay",
    "exponential_decay",
    "inverse_sqrt_decay",
    "join_schedules",
    "linear_schedule",
    "one_cycle",
    "piecewise_constant",
    "polynomial_decay",
    "warmup",
    "warmup_cosine_decay",
]
