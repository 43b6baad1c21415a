"""Vectors: a vector loop by some elements at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kind import POWERS, ScheduleKind, is_power
from graphc.kernel.schedule.nest import Nest


@dataclass(frozen=True, slots=True)
class Vector(ScheduleKind):
    """A vector loop in vectors; its tail is one masked vector, or runs element by element.

    Attributes:
        lanes: elements of a vector, a power of two.
    """

    name: ClassVar[str] = "vector"
    lanes: int

    @classmethod
    def obstacle(cls, nest: Nest, loop: Statement) -> str | None:
        """Why a loop can't run in vectors."""
        return None if loop.loop("vector") is not None else "it is no vector loop"

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        return None if is_power(self.lanes) else POWERS


__all__ = ["Vector"]
