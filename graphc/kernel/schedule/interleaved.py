"""Interleaving: some rows at a time in step, where each is a chain of operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Block, Statement, Var
from graphc.kernel.schedule.kind import ScheduleKind, is_power
from graphc.kernel.schedule.nest import Nest


def chain_of(rows: Statement) -> Block | None:
    """The one loop of a loop over rows, a serial one that carries scalars."""
    around = rows.loop("parallel")
    if around is None or around.carries:
        return None
    inside = [s for s in around.body if s.block is not None]
    found = inside[0].loop("serial") if len(inside) == 1 else None
    return found if found is not None and found.carries else None


@dataclass(frozen=True, slots=True)
class Interleaved(ScheduleKind):
    """A loop over rows that are chains of operations: some rows at a time, in step.

    Attributes:
        rows: at a time.
    """

    name: ClassVar[str] = "interleaved"
    rows: int

    @classmethod
    def obstacle(cls, nest: Nest, rows: Statement) -> str | None:
        """Why several rows can't be gone through in step."""
        around, chain = rows.loop("parallel"), chain_of(rows)
        if around is None or chain is None:
            return "no chain of operations is a row"
        if isinstance(chain.extent, Var):
            return "rows may differ in length"
        if not all(s.is_plain for s in (*around.body, *chain.body) if s is not chain):
            return "a row is more than scalars and a chain of them"
        return None

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        return None if is_power(self.rows) else "rows are a power of two"


__all__ = ["Interleaved", "chain_of"]
