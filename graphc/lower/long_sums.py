"""Reductions of one long row, in groups that threads can share.

The order of terms that ``graphc.kernel.ir`` defines for ``lanes`` is a cascade: complete groups of
``CHUNK`` to some power of steps give one value a lane, from the neutral element on, and these are
combined in order. So groups may be reduced by anybody at any time, and bits are those of one loop.
Invariant: what is combined with what follows from the length alone, not from the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from graphc.ir.dtypes import DType
from graphc.ir.op import Combine
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.combine import neutral_element
from graphc.kernel.ir import CHUNK, LEVELS, Buffer, Role, Var, lanes
from graphc.lower.evaluate import Evaluator
from graphc.lower.region import open_loop

MIN_STEPS = 1 << 13
"""Shorter rows are read in less time than it takes to hand out parts of them."""

MANY_GROUPS = 16
"""Groups are the longest of which there are so many."""


@dataclass(frozen=True, slots=True)
class Term:
    """What is reduced: ``at`` gives the term of a position in the row."""

    combine: Combine
    dtype: DType
    at: Callable[[Var], Var]


def is_long(extent: int, dtype: DType) -> bool:
    """Whether a row of so many terms is reduced in groups."""
    return extent // lanes(dtype) >= MIN_STEPS


def reduce_in_groups(
    b: KernelBuilder, evaluator: Evaluator, extent: int, terms: Sequence[Term]
) -> list[Var]:
    """The results of a long row's reductions, none of which asks for positions."""
    row = _Row(b, evaluator, extent, terms)
    row.groups()
    row.totals()
    return row.results()


class _Row:
    def __init__(
        self, b: KernelBuilder, evaluator: Evaluator, extent: int, terms: Sequence[Term]
    ) -> None:
        self.b, self.evaluator, self.terms = b, evaluator, terms
        self.width = lanes(terms[0].dtype)
        self.steps, self.left = divmod(extent, self.width)
        level = LEVELS - 2
        while level > 1 and self.steps // CHUNK**level < MANY_GROUPS:
            level -= 1
        self.size = CHUNK**level
        self.whole, self.last = divmod(self.steps, self.size)
        self.count = self.whole + (self.last > 0)
        # what lies between groups and the last level, which takes all the rest
        self.block = CHUNK ** (LEVELS - 1 - level)
        self.parts = self._rooms("part", "shared", self.count)
        self.sums = self._rooms("sum", "scratch", 1)

    def _rooms(self, name: str, role: Role, count: int) -> list[Buffer]:
        """For each term room for so many values of every lane."""
        return [
            self.b.buffer(f"{name}{n}", role, TensorType(term.dtype, (count * self.width,)))
            for n, term in enumerate(self.terms)
        ]

    def groups(self) -> None:
        """Each lane of each group."""
        with ExitStack() as loops:
            group = open_loop(self.b, self.evaluator, loops, self.whole, "parallel")
            self._group(loops, group, self.size)
        if self.last:
            with ExitStack() as loops:
                self._group(loops, self.b.dim(self.whole), self.last)

    def _group(self, loops: ExitStack, group: Var, length: int) -> None:
        b, width = self.b, self.b.dim(self.width)
        lane = open_loop(b, self.evaluator, loops, self.width, "vector")
        first = b.apply("multiply", group, b.dim(self.size))
        with b.reduce(length, "chain") as scope:
            self.evaluator.push()
            step = b.apply("add", first, scope.index)
            position = b.apply("add", b.apply("multiply", step, width), lane)
            scope.terms += [(term.combine, term.at(position)) for term in self.terms]
            self.evaluator.pop()
        place = b.apply("add", b.apply("multiply", group, width), lane)
        for part, result in zip(self.parts, scope.results, strict=True):
            b.store(part, place, result)

    def totals(self) -> None:
        """Each lane of the whole row, but for the step that is not complete."""
        b = self.b
        totals = [b.constant(neutral_element(t.combine, t.dtype), t.dtype) for t in self.terms]
        blocks, left = divmod(self.count, self.block)
        with ExitStack() as loops:
            lane = open_loop(b, self.evaluator, loops, self.width, "vector")
            if blocks:
                with b.loop(blocks, "serial", totals) as serial:
                    first = b.apply("multiply", serial.index, b.dim(self.block))
                    serial.following = self._block(lane, first, self.block, serial.arguments)
                totals = list(serial.results)
            if left:
                totals = self._block(lane, b.dim(blocks * self.block), left, totals)
            for room, total in zip(self.sums, totals, strict=True):
                b.store(room, lane, total)

    def _block(self, lane: Var, first: Var, length: int, totals: Sequence[Var]) -> list[Var]:
        """Totals with so many groups more, from ``first`` on."""
        b, width = self.b, self.b.dim(self.width)
        with b.reduce(length, "chain") as scope:
            group = b.apply("add", first, scope.index)
            place = b.apply("add", b.apply("multiply", group, width), lane)
            for term, part in zip(self.terms, self.parts, strict=True):
                scope.terms.append((term.combine, b.load(part, place)))
        return [
            b.apply(term.combine, total, result)
            for term, total, result in zip(self.terms, totals, scope.results, strict=True)
        ]

    def results(self) -> list[Var]:
        """Lanes together, and the last terms: a row of one step, and of what is left."""
        b, width = self.b, self.b.dim(self.width)
        with b.reduce(self.width + self.left, "lanes") as scope:
            self.evaluator.push()
            place = scope.index
            is_lane = b.apply("less", place, width)
            inside = b.apply("minimum", place, b.dim(self.width - 1)) if self.left else place
            beyond = b.dim((self.steps - 1) * self.width)
            for term, room in zip(self.terms, self.sums, strict=True):
                value = b.load(room, inside)
                if self.left:
                    further = term.at(b.apply("add", beyond, place))
                    value = b.apply("select", is_lane, value, further)
                scope.terms.append((term.combine, value))
            self.evaluator.pop()
        return list(scope.results)


__all__ = ["Term", "is_long", "reduce_in_groups"]
