"""The range of iterations that one call of a kernel runs, level by level.

The iterations of all levels are numbered in one row, and a call gets ``[begin, end)`` of them
(``graphc.kernel.analysis.split``). Each level but the last runs the iterations that the range
touches and hands each its part, so the innermost level needs no division for an iteration. A part
of a vector loop, or of an across loop around it, starts and ends at multiples of ``ALIGNED``. So
vectors and tiles hold the same elements however the loop is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.ir.dims.expressions import Dim, product
from graphc.kernel.analysis.split import level_cut, split_levels
from graphc.kernel.ir import Block, Kernel, Statement

ALIGNED = 64
"""A multiple of every vector's lanes, and for bytes a cache line."""


class Ranges:
    """What of each level is to be run while a kernel is emitted."""

    def __init__(self, e: FunctionEmitter, kernel: Kernel, dim: Callable[[Dim], Reg]) -> None:
        """``dim`` gives the register of a dim."""
        self._e = e
        self._dim = dim
        self._range = e.given("begin", "end")
        levels = split_levels(kernel)
        extents = [level_cut(level).extent for level in levels]
        self._inside: dict[Statement, Dim] = {
            level: product(extents[number + 1 :]) for number, level in enumerate(levels)
        }
        self._last = levels[-1] if levels else None

    def cuts(self, level: Statement) -> bool:
        """Whether a statement is a level of the range; others run as a whole."""
        return level in self._inside

    def bounds(self, level: Statement) -> tuple[Reg, Reg]:
        """The first iteration of a level and the one past the last, of those it is to run."""
        e, (begin, end) = self._e, self._range
        if level is not self._last:
            inside = self._count(self._inside[level])
            past = end + (inside - 1)
            return begin.udiv(inside), past.udiv(inside)
        cut = level_cut(level)
        if cut.is_parallel:
            return begin, end
        mask = e.const(-ALIGNED)
        is_end = end.equals(self._dim(cut.extent))
        return begin & mask, e.select(is_end, end, end & mask)

    @contextmanager
    def iteration(self, level: Block, index: Reg) -> Iterator[None]:
        """Inside, ranges are those of one iteration of the level."""
        if level is self._last or not self.cuts(level):
            yield
            return
        e, outer = self._e, self._range
        inside = self._count(self._inside[level])
        before = index * inside
        begin, end = (bound - before for bound in outer)
        self._range = (
            e.most(begin, 0),
            e.least(end, inside),
        )
        yield
        self._range = outer

    def _count(self, inside: Dim) -> Reg:
        """Iterations inside of one of a level, taken as 1 where there are none: it divides."""
        count = self._dim(inside)
        if isinstance(inside, int):
            return count
        return self._e.most(count, 1)


__all__ = ["ALIGNED", "Ranges"]
