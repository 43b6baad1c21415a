"""One step of an optimiser as it is built: learning rates, slots, and all that it writes.

Invariant: a step reads only what variables hold at the start of the run, so a loss fetched beside
the step is the loss before it, and the order of fetches does not matter. An optimiser itself holds
no state: each call of ``minimize`` or ``apply_gradients`` makes the variables that its step keeps
between runs (slots, named after their parameter, as in ``w/first_moment``, and a counter of steps),
none trainable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.state import Variable, variable
from graphc.ir.dtypes import DType
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, number, switch, whole
from graphc.ops.convert import converted

Number: TypeAlias = float | Value
Schedule: TypeAlias = Callable[[Value], Number]
"""The learning rate of a step, from the number of steps before it: an int64 scalar."""
Rate: TypeAlias = "Number | Schedule | KeptRate"
Mask: TypeAlias = Callable[[Variable], bool] | Sequence[Variable] | None
"""Which parameters something is done to: a test, a list of them, or None for all."""
Pair: TypeAlias = "tuple[Parameter, Value]"
"""A parameter and its gradient."""
Rule: TypeAlias = "Callable[[Parameter, Value], Value]"


class KeptRate(ABC):
    """A learning rate with a state, which the step that it belongs to reads and writes."""

    __slots__ = ()

    @abstractmethod
    def _follow(self, step: Step) -> Number:
        """The rate of this step."""


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """What one variable becomes.

    Attributes:
        target: the variable.
        new: its new value.
        owner: the parameter that it is or is kept for; None for what the whole step keeps.
    """

    target: Variable
    new: Value
    owner: Variable | None = None


@dataclass(slots=True, eq=False)
class Step:
    """What one step writes.

    Attributes:
        name: the optimiser's name, that of the step's counter.
        writes: what variables become, assigned when all has been computed.
        scales: by optimiser, what it multiplied the loss by.
    """

    name: str
    writes: list[Write] = field(default_factory=list)
    scales: dict[Any, Variable] = field(default_factory=dict)
    _count: Value | None = None
    _converted: dict[tuple[Value, str], Value] = field(default_factory=dict)

    def count(self) -> Value:
        """The number of this step, an int64 scalar, 1 in the first run."""
        if self._count is None:
            counter = self.kept("step", np.int64(0))
            self._count = self.keep(counter, counter + 1)
        return self._count

    def kept(self, name: str, start: np.generic) -> Variable:
        """A scalar that the step keeps, with its value before the step."""
        return variable(start, f"{self.name}/{name}", trainable=False)

    def keep(self, scalar: Variable, new: Value) -> Value:
        """Has the step give what it keeps a new value, and gives that."""
        self.writes.append(Write(scalar, new))
        return new

    def rate(self, given: Rate, dtype: DType | None = None) -> Number:
        """The learning rate of this step; a computed one in a dtype, if one is asked for."""
        if isinstance(given, KeptRate):
            given = given._follow(self)
        elif callable(given) and not isinstance(given, Value):
            given = given(self.count() - 1)
        if not isinstance(given, Value):
            return number(given, "what a schedule gives", "a schedule gives a number or a scalar")
        check_rate(given)
        return given if dtype is None else converted(given, dtype)

    def scalar(self, number: Number, dtype: DType) -> Number:
        """A hyperparameter in a dtype, converted once for all parameters of it."""
        if not isinstance(number, Value):
            return number
        key = (number, dtype.name)
        if key not in self._converted:
            self._converted[key] = converted(number, dtype)
        return self._converted[key]


@dataclass(slots=True, eq=False)
class Parameter:
    """A parameter as the formula of a step sees it.

    What is narrower than float32 is stepped in float32, its slots too: moments of float16 would
    vanish, and so would an ε beside them.

    Attributes:
        step: the step that it is part of.
        variable: what is written.
        value: what it holds before the step, in the dtype that the step is computed in.
    """

    step: Step
    variable: Variable
    value: Value = field(init=False)

    def __post_init__(self) -> None:
        self.value = converted(self.variable, self.variable.dtype.computed)

    @property
    def dtype(self) -> DType:
        """What the step is computed in."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the variable, which is known."""
        return cast("tuple[int, ...]", self.variable.shape)

    def kept(
        self, name: str, start: float = 0.0, shape: tuple[int, ...] | None = None
    ) -> Variable:
        """A slot: what is kept for this parameter, with its value before the step.

        Args:
            name: what stands behind the parameter's name.
            start: what all elements are before the first step.
            shape: that of the parameter, unless given.
        """
        parameter = self.variable
        label = f"{parameter.name}/{name}" if parameter.name is not None else None
        size = self.shape if shape is None else shape
        kind = self.dtype.numpy
        filled = np.full(size, start, kind) if start else np.zeros(size, kind)
        # as it is, not copied: pages of zeros that nobody writes take no memory
        filled.flags.writeable = False
        return variable(filled, label, trainable=False)

    def keep(self, slot: Variable, new: Value) -> Value:
        """Has the step give a slot a new value, and gives that."""
        self.step.writes.append(Write(slot, new, self.variable))
        return new

    def slot(
        self,
        name: str,
        rule: Callable[[Value], Value],
        start: float = 0.0,
        shape: tuple[int, ...] | None = None,
    ) -> Value:
        """The new value, by ``rule`` from the old one, of a slot."""
        slot = self.kept(name, start, shape)
        return self.keep(slot, rule(slot))

    def running_mean(self, name: str, share: float, value: Value) -> Value:
        """The new value of a slot that keeps a mean, of which this share stays in each step."""
        return self.slot(name, lambda old: share * old + (1 - share) * value)

    def write(self, new: Value) -> None:
        """Has the step give the variable a new value."""
        own = converted(new, self.variable.dtype)
        self.step.writes.append(Write(self.variable, own, self.variable))

    def scalar(self, number: Number) -> Number:
        """A hyperparameter in the dtype that the step is computed in."""
        return self.step.scalar(number, self.dtype)

    def masked(self, number: float, mask: Mask) -> float:
        """A hyperparameter of the parameters of a mask, 0 for others."""
        return float(number) if number and is_chosen(self.variable, mask) else 0.0

    def decayed(self, gradient: Value, decay: float, mask: Mask) -> Value:
        """g + λ p, or g itself where λ is 0."""
        own = self.masked(decay, mask)
        return gradient + own * self.value if own else gradient


def is_chosen(parameter: Variable, mask: Mask) -> bool:
    """Whether a mask has a parameter."""
    if mask is None:
        return True
    if callable(mask):
        return switch(mask(parameter), "what a mask gives for a parameter")
    return any(parameter is other for other in mask)


# --- hyperparameters -----------------------------------------------------------------------------


def check_rate(given: Any) -> None:
    """Refuses what can be no learning rate."""
    if isinstance(given, Value):
        if given.shape != ():
            raise ShapeError(
                f"a learning rate is a scalar, not a value of type {given.type}",
                where=caller(),
                hint="give a number, a scalar, or a schedule",
            )
        if not given.dtype.is_float:
            raise DTypeError(
                f"a learning rate is a float, not {given.dtype}",
                where=caller(),
                hint="convert it with gx.astype",
            )
        return
    if isinstance(given, KeptRate) or callable(given):
        return
    number(given, "the learning rate", hint="give a number, a scalar of the graph, or a schedule")
    check_least(0, learning_rate=given)


def check_least(least: float, /, **numbers: Any) -> None:
    """Refuses hyperparameters that are less than they may be."""
    for name, given in numbers.items():
        label = name.replace("_", " ")
        if not number(given, f"the {label}") >= least:
            raise GraphError(
                f"{label} must be at least {least}, not {given}",
                where=caller(),
                hint=f"give a number of at least {least}",
            )


def check_positive(given: Any, what: str) -> float:
    """A number above 0.

    Raises:
        DTypeError: for what is no number.
        GraphError: for one that is not above 0.
    """
    found = number(given, what)
    if not found > 0:
        raise GraphError(
            f"{what} must be above 0, not {given}",
            where=caller(),
            hint="give a number above 0, such as 1.0",
        )
    return found


MOST_STEPS = 2**53
"""Above it float64, in which rates are computed, has not all ints."""


def check_count(given: Any, what: str, least: int = 1) -> int:
    """An int of steps.

    Raises:
        DTypeError: for what is no int.
        GraphError: for one that is too small or too large.
    """
    count = whole(given, what)
    if not least <= count <= MOST_STEPS:
        raise GraphError(
            f"{what} must be from {least} to {MOST_STEPS:,}, not {count:,}",
            where=caller(),
            hint=f"give an int of at least {least}",
        )
    return count


def check_share(**numbers: Any) -> None:
    """Refuses what is no share of a running mean that can be kept."""
    for name, given in numbers.items():
        label = name.replace("_", " ")
        if not 0 <= number(given, f"the {label}") < 1:
            raise GraphError(
                f"{label} must be in [0, 1), not {given}",
                where=caller(),
                hint="it is how much of a running mean is kept, such as 0.9",
            )


def check_betas(given: Any, usual: str) -> None:
    """Refuses what is not two shares of running means that can be kept."""
    betas = items_of(given, "betas")
    if len(betas) != 2 or not all(0 <= number(beta, "a beta") < 1 for beta in betas):
        raise GraphError(
            f"betas are two numbers in [0, 1), not {shown(given)}",
            where=caller(),
            hint=f"the usual ones are {usual}",
        )


def check_mask(given: Any) -> None:
    """Refuses what can be no mask."""
    if given is None or (callable(given) and not isinstance(given, Value)):
        return
    if isinstance(given, (list, tuple)) and all(isinstance(item, Variable) for item in given):
        return
    raise GraphError(
        f"a mask is {shown(given)}",
        where=caller(),
        hint="give a list of variables, or a function of a variable: lambda v: v.ndim > 1",
    )


__all__ = [
    "KeptRate",
    "Mask",
    "Number",
    "Pair",
    "Parameter",
    "Rate",
    "Rule",
    "Schedule",
    "Step",
    "Write",
    "check_betas",
    "check_count",
    "check_least",
    "check_mask",
    "check_positive",
    "check_rate",
    "check_share",
    "is_chosen",
]
