"""Collapsing: rows that follow each other in memory as one vector loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.analysis.index_range import runs_as_one, used_otherwise
from graphc.kernel.ir import Statement, Var, walk
from graphc.kernel.schedule.kind import POWERS, ScheduleKind, is_power
from graphc.kernel.schedule.nest import Nest, row_of
from graphc.kernel.statements.bodies import accesses_in


@dataclass(frozen=True, slots=True)
class Collapsed(ScheduleKind):
    """A loop over rows that follow each other in memory, as one vector loop over all elements.

    Attributes:
        lanes: elements of a vector, a power of two.
    """

    name: ClassVar[str] = "collapsed"
    lanes: int

    @classmethod
    def obstacle(cls, nest: Nest, rows: Statement) -> str | None:
        """Why rows can't run as one loop over all of their elements."""
        around, row = rows.block, row_of(rows)
        if around is None or row is None:
            return "it is no loop over rows"
        if not isinstance(row.extent, int) or isinstance(around.extent, Var):
            return "an extent is known at run time only"
        if rows in nest.cut:
            return "rows are handed out in ranges"
        if not all(s.is_arithmetic for s in rows.body[:-1]):
            return "what is done once a row is more than indices"
        if not all(s.is_plain for s in row.body):
            return "a row is more than scalars"
        accesses = [access.index for access in accesses_in(row.body)]
        if any(index not in nest.forms for index in accesses):
            return "a place is not affine"
        if {around.index, row.index} & used_otherwise(walk(rows.body), nest.forms):
            return "an index is computed with"
        places = [nest.forms[index] for index in accesses]
        if not runs_as_one(places, around.index, row.index, row.extent):
            return "rows do not follow each other in memory"
        return None

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        return None if is_power(self.lanes) else POWERS


__all__ = ["Collapsed"]
