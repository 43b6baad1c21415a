"""The interface of passes over kernels: their answer, and their context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from graphc.base.target import Target
from graphc.base.tuning.machine import Tuning
from graphc.kernel.ir import Statement
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.nest import Nest

Choice: TypeAlias = Schedule | Mapping[Statement, Schedule] | str | None
"""A schedule of the statement, or schedules of statements in it, or the reason for none; None where
the pass does not apply."""


@dataclass(frozen=True, slots=True)
class KernelContext:
    """The context of passes over one kernel.

    Attributes:
        nest: its loops, loads and stores.
        target: the machine the code is for.
        is_glue: its elementary functions are calls, and it does little else.
        chosen: the schedules that passes before have chosen.
    """

    nest: Nest
    target: Target
    is_glue: bool
    chosen: Mapping[Statement, Schedule]

    @property
    def tuning(self) -> Tuning:
        """What pays on the target."""
        return Tuning.of(self.target)


Asked = Literal["stores", "loops", "parallel", "across", "vector"]


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A pass and its place in the order.

    Attributes:
        run: the pass.
        of: the statements it gets: stores, or loops of a kind that have no schedule yet.
        after: the names of passes that come before it.
        again: it gets loops that have a schedule too, because it adds to it.
    """

    run: KernelPass
    of: Asked
    after: tuple[str, ...] = ()
    again: bool = False

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.run.__name__


PASSES: list[KernelStep] = []
"""Those that are loaded, in no order."""


def kernel_pass(of: Asked, *after: str, again: bool = False) -> Callable[[KernelPass], KernelPass]:
    """Decorator: enters a pass that comes after others; see ``KernelStep``."""

    def enter(run: KernelPass) -> KernelPass:
        PASSES.append(KernelStep(run, of, after, again))
        return run

    return enter


class KernelPass(Protocol):
    """Chooses how a statement is carried out; its name is the name of the pass."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, statement: Statement, context: KernelContext, /) -> Choice: ...


__all__ = [
    "PASSES",
    "Asked",
    "Choice",
    "KernelContext",
    "KernelPass",
    "KernelStep",
    "kernel_pass",
]
