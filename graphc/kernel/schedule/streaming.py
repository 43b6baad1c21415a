"""Non-temporal stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kind import ScheduleKind
from graphc.kernel.schedule.nest import Nest


@dataclass(frozen=True, slots=True)
class Streaming(ScheduleKind):
    """A store that is non-temporal where the array is large and whole lines are written.

    Attributes:
        array: bytes that the array has at least.
        row: bytes that a vector loop writes at least, unless each row begins with a line.
    """

    name: ClassVar[str] = "streaming"
    array: int
    row: int

    @classmethod
    def obstacle(cls, nest: Nest, store: Statement) -> str | None:
        """Why a store can't be non-temporal."""
        access = store.access
        if access is None or not access.writes:
            return "it is no store"
        if access.buffer.role not in ("out", "part") or not access.buffer.type.shape:
            return "what it writes is no result of several elements"
        return None if store in nest.stores else "it stands in no vector loop"


__all__ = ["Streaming"]
