"""The interface of passes over kernels: their answer, and their context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from graphc.base.target import Target
from graphc.base.tuning.machine import Tuning
from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kinds import Schedule
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


class KernelPass(Protocol):
    """Chooses how a statement is carried out; its name is the name of the pass."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, statement: Statement, context: KernelContext, /) -> Choice: ...


__all__ = ["Choice", "KernelContext", "KernelPass"]
