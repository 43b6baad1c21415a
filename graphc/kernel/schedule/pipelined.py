"""Software pipelining of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kind import ScheduleKind
from graphc.kernel.schedule.nest import Nest
from graphc.kernel.schedule.row_stages import obstacle, stages_of


@dataclass(frozen=True, slots=True)
class Pipelined(ScheduleKind):
    """Software-pipelined rows: while a row is in stage s, the next one is in stage s - 1.

    Attributes:
        stages: how many; they follow from the loop (``graphc.kernel.schedule.row_stages``).
    """

    name: ClassVar[str] = "pipelined"
    stages: int

    @classmethod
    def obstacle(cls, nest: Nest, rows: Statement) -> str | None:
        """Why rows can't be in different stages at the same time."""
        loop = rows.loop()
        return "it is no loop" if loop is None else obstacle(loop, nest.kernel)

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        loop = statement.loop()
        assert loop is not None, "so there is no obstacle"
        count = len(stages_of(loop)[0])
        return None if self.stages == count else f"there are {count} stages"


__all__ = ["Pipelined"]
