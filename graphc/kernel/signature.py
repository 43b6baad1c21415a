"""The signature of a kernel: its buffers, the lines of its checks, how it may be split.

Invariant: nothing here needs statements, so that a program that only runs does not load them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from graphc.base.errors import GraphcError, IndexRangeError, LinAlgError
from graphc.base.source import Location
from graphc.ir.dims.expressions import Dim
from graphc.ir.types import TensorType

Role = Literal["in", "out", "part", "update", "scratch"]


RESULTS: Final = frozenset({"out", "part", "update"})
"""The roles of buffers to which a kernel writes what outlives it."""


@dataclass(slots=True, eq=False)
class Buffer:
    """A packed array that a kernel is called with.

    An ``out`` is written as a whole, of a ``part`` each kernel that gets it writes a slice. An
    ``update`` has a content, some of whose elements are read and written; the others stay.
    ``scratch`` is room for the kernel's own use, of undefined content; each thread has its own.
    """

    # ``Final`` and not frozen: plans have thousands, and it takes a third of the time to make one
    name: Final[str]
    role: Final[Role]
    type: Final[TensorType]

    @property
    def is_result(self) -> bool:
        """Whether what the kernel writes there outlives it."""
        return self.role in RESULTS

    @property
    def is_room(self) -> bool:
        """Whether it is for the kernel's own use."""
        return self.role == "scratch"


@dataclass(frozen=True, slots=True)
class Site:
    """What a check guards, for the error: which axis of what, and the user's line.

    With a ``problem`` it is not an index that fails: a matrix has this problem, and the number of
    it in a stack of matrices takes the place of the index.
    """

    axis: int
    what: str
    where: Location | None = None
    problem: str = ""

    def message(self, index: object, bound: object) -> str:
        """What is wrong with an index, or a matrix of this number, where there are ``bound``."""
        if self.problem:
            return f"{self.what}: matrix {index} of {bound} {self.problem}"
        return f"{self.what}: index {index} is out of range for axis {self.axis} of size {bound}"

    def failure(self, index: int, bound: int, launch: Location | None) -> GraphcError:
        """The error to raise; ``launch`` is the kernel's line, for a site that knows none."""
        error = LinAlgError if self.problem else IndexRangeError
        return error(
            self.message(index, bound), where=launch if self.where is None else self.where
        )


@dataclass(frozen=True, slots=True)
class Split:
    """How a kernel's outermost iterations may be handed out (``graphc.kernel.analysis.split``).

    Attributes:
        levels: over how many of the outermost levels a range goes.
        extent: how many iterations these have together.
        work: an estimate of what all of them take on one thread, in picoseconds.
        least: how many iterations a task has at least.
    """

    levels: int
    extent: Dim
    work: Dim
    least: int = 1
