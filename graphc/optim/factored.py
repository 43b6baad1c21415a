"""Adafactor, whose second moments of a matrix are a row and a column."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dtypes import float64
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, number, switch
from graphc.ops.convert import as_value, converted
from graphc.ops.move.shape import expand_dims
from graphc.ops.pointwise.arithmetic import power, rsqrt, sqrt
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.ops.pointwise.rounding import minimum as smaller
from graphc.ops.reduce.axes import sum_
from graphc.optim.optimizer import RuleOptimizer
from graphc.optim.steps import (
    Mask,
    Parameter,
    Rate,
    Rule,
    Step,
    check_least,
    check_mask,
    check_positive,
    check_rate,
)


@dataclass(frozen=True, slots=True, eq=False)
class Adafactor(RuleOptimizer):
    """Adaptive steps with little memory (Shazeer and Stern, 2018), without momentum.

        β = 1 − t^(−κ)
        R ← β R + (1 − β) mean over columns of (g² + ε₁), C the same over rows
        v = R C / mean(R)                  (of vectors and scalars v ← β v + (1 − β) (g² + ε₁))
        u = g / √v,  u = u / max(1, rms(u) / d)
        α = max(ε₂, rms(p)) min(η, 1/√t)   (not relative: η)
        p ← (1 − η λ) p − α u

    The last two axes of a parameter are its rows and columns; axes before them count matrices.

    Args:
        learning_rate: η, a number, a scalar value or a schedule.
        exponent: κ, how fast the running means forget less.
        epsilons: ε₁, above 0, and ε₂.
        clip: d, above 0, the largest root mean square of u.
        weight_decay: λ.
        relative: whether steps are as large as the parameter, times a rate.
        mask: the parameters that decay, as a list or a test; None for all.
    """

    learning_rate: Rate = 0.01
    exponent: float = 0.8
    epsilons: tuple[float, float] = (1e-30, 1e-3)
    clip: float = 1.0
    weight_decay: float = 0.0
    relative: bool = True
    mask: Mask = None

    def __post_init__(self) -> None:
        check_rate(self.learning_rate)
        check_least(0, exponent=self.exponent, weight_decay=self.weight_decay)
        given = items_of(self.epsilons, "epsilons")
        if (
            len(given) != 2
            or not number(given[0], "an epsilon") > 0
            or not number(given[1], "an epsilon") >= 0
        ):
            raise GraphError(
                f"epsilons are a number above 0 and one of at least 0, not {shown(self.epsilons)}",
                where=caller(),
                hint="the usual ones are (1e-30, 1e-3)",
            )
        check_positive(self.clip, "clip")
        switch(self.relative, "relative")
        check_mask(self.mask)

    def _rule(self, step: Step) -> Rule:
        tiny, least = (float(epsilon) for epsilon in self.epsilons)
        count = converted(step.count(), float64)
        rate = step.rate(self.learning_rate, float64)
        new = power(count, -float(self.exponent))
        old = 1 - new
        size = smaller(1 / sqrt(count), rate) if self.relative else rate
        kept = 1 - rate * float(self.weight_decay)

        def running(parameter: Parameter, name: str, value: Value) -> Value:
            forgets, takes = parameter.scalar(old), parameter.scalar(new)
            shape = tuple(int(dim) for dim in value.shape)
            return parameter.slot(name, lambda before: forgets * before + takes * value, 0.0, shape)

        def update(parameter: Parameter, gradient: Value) -> Value:
            squares = gradient * gradient + tiny
            if gradient.ndim > 1:
                rows = running(parameter, "row_squares", _mean(squares, -1))
                columns = running(parameter, "column_squares", _mean(squares, -2))
                # each by itself: their product may be smaller than any float32
                shares = rows / expand_dims(_mean(rows, -1), -1)
                move = gradient * expand_dims(rsqrt(shares), -1) * expand_dims(rsqrt(columns), -2)
            else:
                move = gradient * rsqrt(running(parameter, "mean_square", squares))
            step_size = as_value(parameter.scalar(size), parameter.value)
            if self.relative:
                step_size = step_size * larger(_rms(parameter.value), least)
            factor = step_size / larger(_rms(move) / float(self.clip), 1.0)
            start = parameter.value
            if parameter.masked(self.weight_decay, self.mask):
                start = start * parameter.scalar(kept)
            return start - factor * move

        return update


def _mean(value: Value, axis: int) -> Value:
    """A mean over a known axis; of nothing 0, since what is kept would stay NaN."""
    return sum_(value, axis) / max(int(value.shape[axis]), 1)


def _rms(value: Value) -> Value:
    """The root mean square of all elements; of none 0."""
    return sqrt(sum_(value * value) / max(int(value.size), 1))


__all__ = ["Adafactor"]
