"""Prefetches along a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kind import ScheduleKind
from graphc.kernel.schedule.nest import Nest


@dataclass(frozen=True, slots=True)
class Prefetched(ScheduleKind):
    """A load with a prefetch of the elements that later iterations read.

    Attributes:
        distance: bytes further along the row.
        level: the cache it is fetched into.
    """

    name: ClassVar[str] = "prefetched"
    distance: int
    level: int

    @classmethod
    def obstacle(cls, nest: Nest, load: Statement) -> str | None:
        """Why a load can't be prefetched. A condition is no reason: a prefetch never faults."""
        return None if load.access is not None and load.reads else "it is no load"

    def fault(self, nest: Nest, statement: Statement) -> str | None:
        """Why its numbers are wrong."""
        return None if self.level in (1, 2) else "the levels are 1 and 2"


__all__ = ["Prefetched"]
