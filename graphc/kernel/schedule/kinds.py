"""Schedules: how the loops, loads and stores of a kernel are carried out, never what they compute.

A schedule is data beside the statements (``Kernel.schedule``). Kernel passes choose it
(``passes/kernels/``), ``graphc.kernel.schedule.legality`` says what is right, code generation
obeys, and the interpreter ignores it: results are those of the statements alone, to the bit.

The text of a schedule follows ``@`` behind its statement: ``vector %2 < 64 @ vector(32) {``.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one statement is carried out. Attributes are numbers; they stand in its text."""

    name: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, astuple(self)))})"


@dataclass(frozen=True, slots=True)
class Vector(Schedule):
    """A vector loop in vectors; its tail is one masked vector, or runs element by element.

    Attributes:
        lanes: elements of a vector, a power of two.
    """

    name: ClassVar[str] = "vector"
    lanes: int


@dataclass(frozen=True, slots=True)
class ColumnBlocked(Schedule):
    """A vector loop around reductions, block by block of its columns: some rows at a time over all
    columns of a block, whose partial results lie on the stack.

    Attributes:
        lanes: elements of a vector, a power of two.
        columns: of a block, a multiple of ``lanes``.
    """

    name: ClassVar[str] = "column_blocked"
    lanes: int
    columns: int


@dataclass(frozen=True, slots=True)
class Tiled(Schedule):
    """A loop across the vector loop inside it, by tiles that are transposed in registers.

    Attributes:
        rows, columns: of a tile, powers of two.
        block: bytes of a row that are written together where stores are non-temporal.
    """

    name: ClassVar[str] = "tiled"
    rows: int
    columns: int
    block: int


@dataclass(frozen=True, slots=True)
class Pipelined(Schedule):
    """Software-pipelined rows: while a row is in stage s, the next one is in stage s - 1.

    Attributes:
        stages: how many; they follow from the loop (``graphc.kernel.schedule.row_stages``).
    """

    name: ClassVar[str] = "pipelined"
    stages: int


@dataclass(frozen=True, slots=True)
class RowBlocked(Schedule):
    """A loop over rows that read the same vectors: some rows at a time, a few columns of each.

    Attributes:
        rows: at a time.
        columns: of a block.
    """

    name: ClassVar[str] = "row_blocked"
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Collapsed(Schedule):
    """A loop over rows that follow each other in memory, as one vector loop over all elements.

    Attributes:
        lanes: elements of a vector, a power of two.
    """

    name: ClassVar[str] = "collapsed"
    lanes: int


@dataclass(frozen=True, slots=True)
class Streaming(Schedule):
    """A store that is non-temporal where the array is large and whole lines are written.

    Attributes:
        array: bytes that the array has at least.
        row: bytes that a vector loop writes at least, unless each row begins with a line.
    """

    name: ClassVar[str] = "streaming"
    array: int
    row: int


@dataclass(frozen=True, slots=True)
class Prefetched(Schedule):
    """A load with a prefetch of the elements that later iterations read.

    Attributes:
        distance: bytes further along the row.
        level: the cache it is fetched into.
    """

    name: ClassVar[str] = "prefetched"
    distance: int
    level: int


@dataclass(frozen=True, slots=True)
class Gathered(Schedule):
    """A load from gathered rows, with a prefetch of a later iteration's row.

    Attributes:
        iterations: of the loop around, how much later.
        lines: of the row.
    """

    name: ClassVar[str] = "gathered"
    iterations: int
    lines: int


_KINDS: Final = (
    Vector, ColumnBlocked, Tiled, Pipelined, RowBlocked, Collapsed, Streaming, Prefetched, Gathered,
)  # fmt: skip

SCHEDULES: Final[dict[str, type[Schedule]]] = {kind.name: kind for kind in _KINDS}
"""The kinds of schedules by the names in their texts."""


def arity(kind: type[Schedule]) -> int:
    """How many numbers the text of a schedule has."""
    return len(fields(kind))


__all__ = [
    "SCHEDULES",
    "Collapsed",
    "ColumnBlocked",
    "Gathered",
    "Pipelined",
    "Prefetched",
    "RowBlocked",
    "Schedule",
    "Streaming",
    "Tiled",
    "Vector",
    "arity",
]
