"""Memory planning as plain data: what has to be placed, and where it was placed.

Invariant: nothing here knows about graphs, kernels or the planner. A problem lists buffers with
their live intervals; a solution gives each an offset in one arena, and a precedence order from
which offsets for any other sizes follow without planning again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def align_up(position: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `position`."""
    return -(-position // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Buffer:
    """A block of memory that is live during the plan steps `start` to `end`, `end` exclusive.

    `size` is in bytes; with symbolic sizes it is the size at the hint. `alignment` is in bytes,
    a power of two. Raises ValueError for values that make no sense.
    """

    name: str
    size: int
    start: int
    end: int
    alignment: int = 1

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"buffer {self.name!r} has the negative size {self.size}")
        if self.end <= self.start:
            raise ValueError(
                f"buffer {self.name!r} is live for no step: start {self.start}, end {self.end}"
            )
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise ValueError(
                f"buffer {self.name!r} has the alignment {self.alignment}, not a power of two"
            )


@dataclass(frozen=True, slots=True)
class MemoryProblem:
    """Buffers to place in one arena.

    `must_alias` lists groups of buffer indices that have to share one offset, such as the operand
    and the result of an in-place step; groups with a common member are one group. The members
    may overlap each other. Storage of a group is reserved from its first start to its last end.
    """

    buffers: tuple[Buffer, ...]
    must_alias: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        for group in self.must_alias:
            for index in group:
                if not 0 <= index < len(self.buffers):
                    raise ValueError(
                        f"must_alias names buffer {index}, there are {len(self.buffers)}"
                    )


@dataclass(frozen=True, slots=True)
class MemorySolution:
    """Offsets for a `MemoryProblem`, and the order that gives offsets for other sizes.

    * `offsets[b]`: the byte offset of buffer b at the problem's sizes.
    * `peak`: bytes of the arena.
    * `lower_bound`: the largest sum of simultaneously live bytes; no plan can be smaller.
    * `roots[b]`: the buffer that stands for b's alias group (its smallest index; b when alone).
    * `alignments[b]`: the largest alignment in b's alias group.
    * `order`: all roots, so that each comes after its predecessors.
    * `predecessors[b]`: for a root, the roots that lie directly below it; empty for other buffers.
      Following predecessors reaches every root below b that is live together with it.
    * `steps`: how much work the planner did, for tests and reports.
    """

    offsets: tuple[int, ...]
    peak: int
    lower_bound: int
    roots: tuple[int, ...]
    alignments: tuple[int, ...]
    order: tuple[int, ...]
    predecessors: tuple[tuple[int, ...], ...]
    steps: int = 0


def offsets_for_sizes(
    solution: MemorySolution, sizes: Sequence[int]
) -> tuple[tuple[int, ...], int]:
    """Offsets of all buffers, and the peak, when they have other sizes than at planning.

    A root lies at the maximum over its predecessors p of align(offset(p) + size(p)), where the size
    of a root is that of the largest member of its group; at 0 when it has none.
    Raises ValueError when the number of sizes is wrong or one is negative.
    """
    if len(sizes) != len(solution.roots):
        raise ValueError(f"{len(sizes)} sizes for {len(solution.roots)} buffers")
    if sizes and min(sizes) < 0:
        index = next(index for index, size in enumerate(sizes) if size < 0)
        raise ValueError(f"buffer {index} has the negative size {sizes[index]}")
    extents = [0] * len(sizes)
    for root, size in zip(solution.roots, sizes, strict=True):
        if size > extents[root]:
            extents[root] = size
    offsets = [0] * len(sizes)
    peak = 0
    predecessors, alignments = solution.predecessors, solution.alignments
    for root in solution.order:
        end = 0
        for below in predecessors[root]:
            end = max(end, offsets[below] + extents[below])
        # the next multiple of the alignment grows with its operand, so one is enough
        offsets[root] = offset = align_up(end, alignments[root])
        peak = max(peak, offset + extents[root])
    return tuple([offsets[root] for root in solution.roots]), peak
