"""What kinds of schedules say: which statements they are right for, and with which numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, Final

from graphc.base.modules import load_all
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.nest import Nest
from graphc.kernel.statements.base import Statement

POWERS: Final = "lanes are a power of two"


@dataclass(frozen=True, slots=True)
class ScheduleKind(Schedule):
    """The base of all kinds.

    Kernel passes ask for obstacles before they choose and ``verify_kernel`` checks what was chosen,
    so code generation may rely on it.
    """

    name: ClassVar[str]

    @classmethod
    def obstacle(cls, nest: Nest, statement: Statement) -> str | None:
        """Why a statement of a kernel can't be carried out so, worth it or not; None if it can."""
        raise NotImplementedError

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong for a statement without obstacles; None if they aren't."""
        return None


def refusal(schedule: Schedule, nest: Nest, statement: Statement) -> str | None:
    """Why a statement can't have a schedule; None if it can."""
    assert isinstance(schedule, ScheduleKind), "each schedule is of a kind"
    if statement.loop() is not None and statement not in nest.loops:
        return "a loop inside a vector loop or a reduction in lanes has no schedule"
    return schedule.obstacle(nest, statement) or schedule.fault(nest, statement)


@cache
def schedules() -> Mapping[str, type[ScheduleKind]]:
    """The kinds of schedules by the names in their texts."""
    load_all("graphc.kernel.schedule")
    # the later of two: a dataclass with slots is made a second time
    found = {kind.name: kind for kind in ScheduleKind.__subclasses__()}
    return dict(sorted(found.items()))


def arity(kind: type[Schedule]) -> int:
    """How many numbers the text of a schedule has."""
    return len(fields(kind))


def is_power(number: int) -> bool:
    """Whether a number is a power of two."""
    return number > 0 and number & (number - 1) == 0


__all__ = ["POWERS", "ScheduleKind", "arity", "is_power", "refusal", "schedules"]
