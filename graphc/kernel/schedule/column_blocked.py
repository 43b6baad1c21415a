"""Column blocking: reductions down columns, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.dtypes import bool_
from graphc.kernel.ir import Statement, walk
from graphc.kernel.schedule.kind import POWERS, ScheduleKind, is_power
from graphc.kernel.schedule.nest import Nest
from graphc.kernel.statements.bodies import blocks_in, reductions_in, stores_in


@dataclass(frozen=True, slots=True)
class ColumnBlocked(ScheduleKind):
    """A vector loop around reductions, block by block of its columns: some rows at a time over all
    columns of a block, whose partial results lie on the stack.

    Attributes:
        lanes: elements of a vector, a power of two.
        columns: of a block, a multiple of ``lanes``.
    """

    name: ClassVar[str] = "column_blocked"
    lanes: int
    columns: int

    @classmethod
    def obstacle(cls, nest: Nest, loop: Statement) -> str | None:
        """Why a vector loop around reductions can't go block by block of its columns."""
        if loop.loop("vector") is None:
            return "it is no vector loop"
        reductions = reductions_in(loop.body)
        if not reductions:
            return "nothing is reduced in it"
        for inner in blocks_in(walk(loop.body)):
            if inner not in reductions:
                return "a loop stands in it"
            if any(r.combine.startswith("arg") or r.term.dtype is bool_ for r in inner.reducers):
                return "positions or truth values are reduced"
            if stores_in(inner.body):
                return "a reduction writes"
        inside = [*walk(loop.body)]
        written = {buffer for s in inside for buffer in s.writes}
        read = {buffer for s in inside for buffer in s.reads}
        return "what is written is read" if written & read else None

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        fits = self.columns > 0 and is_power(self.lanes) and self.columns % self.lanes == 0
        return None if fits else f"{POWERS} and divide the columns"


__all__ = ["ColumnBlocked"]
