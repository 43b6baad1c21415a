"""Prefetches of gathered rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kind import ScheduleKind
from graphc.kernel.schedule.nest import Nest
from graphc.kernel.schedule.picked_rows import picked_from


@dataclass(frozen=True, slots=True)
class Gathered(ScheduleKind):
    """A load from gathered rows, with a prefetch of a later iteration's row.

    Attributes:
        iterations: of the loop around, how much later.
        lines: of the row.
    """

    name: ClassVar[str] = "gathered"
    iterations: int
    lines: int

    @classmethod
    def obstacle(cls, nest: Nest, load: Statement) -> str | None:
        """Why the row of a later iteration can't be prefetched."""
        if load.access is None or not load.reads:
            return "it is no load"
        for loop in nest.loops:
            if any(picked.load is load for picked in picked_from(loop)):
                return None
        return "no number that the loop around reads picks its rows"

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        return None if self.lines > 0 else "no line is fetched"


__all__ = ["Gathered"]
