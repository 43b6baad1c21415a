"""Row blocking: some rows at a time, a few columns of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kind import ScheduleKind
from graphc.kernel.schedule.nest import Nest, row_of
from graphc.kernel.schedule.vector import Vector


@dataclass(frozen=True, slots=True)
class RowBlocked(ScheduleKind):
    """A loop over rows that read the same vectors: some rows at a time, a few columns of each.

    Attributes:
        rows: at a time.
        columns: of a block.
    """

    name: ClassVar[str] = "row_blocked"
    rows: int
    columns: int

    @classmethod
    def obstacle(cls, nest: Nest, rows: Statement) -> str | None:
        """Why several rows can't be gone through at a time."""
        row = row_of(rows)
        if row is None:
            return "it is no loop over rows"
        if not isinstance(row.extent, int) or row in nest.cut:
            return "how many columns run is known at run time only"
        if not all(s.is_scalar and s.is_plain for s in rows.body[:-1]):
            return "what is done once a row is more than scalars"
        if not all(s.is_plain for s in row.body):
            return "a row is more than scalars"
        return None

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        row = row_of(statement)
        assert row is not None and isinstance(row.extent, int), "so there is no obstacle"
        if not isinstance(nest.kernel.schedule.get(row), Vector):
            return "a row has no vectors"
        fits = self.rows > 0 and 0 < self.columns <= row.extent
        return None if fits else f"rows have {row.extent} columns"


__all__ = ["RowBlocked"]
