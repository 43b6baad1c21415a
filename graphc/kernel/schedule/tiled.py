"""Tiles: a loop across a vector loop, transposed in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.analysis.index_range import loads_across
from graphc.kernel.ir import Statement, Var
from graphc.kernel.schedule.kind import ScheduleKind, is_power
from graphc.kernel.schedule.nest import Nest
from graphc.kernel.statements.bodies import blocks_in


@dataclass(frozen=True, slots=True)
class Tiled(ScheduleKind):
    """A loop across the vector loop inside it, by tiles that are transposed in registers.

    Attributes:
        rows, columns: of a tile, powers of two.
        block: bytes of a row that are written together where stores are non-temporal.
    """

    name: ClassVar[str] = "tiled"
    rows: int
    columns: int
    block: int

    @classmethod
    def obstacle(cls, nest: Nest, outer: Statement) -> str | None:
        """Why a loop can't go by tiles of it and the vector loop inside."""
        across = outer.loop("across")
        if across is None or not across.body:
            return "it is no loop across another"
        *before, last = across.body
        inner = last.loop("vector")
        if inner is None:
            return "no vector loop ends it"
        if isinstance(across.extent, Var) or isinstance(inner.extent, Var):
            return "an extent is a scalar"
        if blocks_in((*before, *inner.body)):
            return "further loops stand in it"
        if not loads_across(nest.forms, inner.body, across.index, inner.index):
            return "nothing is read across the vector loop"
        return None

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        fits = min(self.rows, self.columns) > 1 and is_power(self.rows) and is_power(self.columns)
        return None if fits else "rows and columns of a tile are powers of two"


__all__ = ["Tiled"]
