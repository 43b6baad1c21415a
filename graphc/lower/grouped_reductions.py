"""Grouped reductions: long reductions cut into groups of terms that threads can share.

The order of terms that ``graphc.kernel.ir`` defines is a cascade: complete groups of
``CHUNK ** level`` steps give one value, from the neutral element on, and these are combined in
order. So any thread may reduce a group at any time, and bits are those of one loop. Invariant: the
length alone determines the groups, not the number of threads.

Reductions down columns gain as well: groups of rows are read from end to end, while parts of the
columns of all rows are many short pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from graphc.base.tuning.sharing import SHARING
from graphc.ir.dims.expressions import Dim, at_hint, ceil_div, product, select
from graphc.ir.dtypes import DType, int64
from graphc.ir.lowering import Combine
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import CHUNK, LEVELS, Buffer, Role, Var, joining, lanes
from graphc.kernel.reference_reductions import neutral_element
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import Index, flat_index
from graphc.lower.region import open_loop, open_loops


@dataclass(frozen=True, slots=True, eq=False)
class ReductionTerm:
    """A term of a reduction: ``at(step, place)`` gives it for a step of the chain at a place."""

    combine: Combine
    dtype: DType
    at: Callable[[Var, Index], Var]


def is_long(steps: Dim, side_by_side: Dim) -> bool:
    """Whether ``side_by_side`` chains of ``steps`` terms each are reduced in groups.

    A batch of a size known only at run time is not likely to be long by itself.
    """
    least = SHARING.least_groups * CHUNK**SHARING.group_levels
    if at_hint(steps, SHARING.large_size) < least:
        return False
    return at_hint(steps * side_by_side, SHARING.large_size) >= SHARING.grouped_terms


class Groups:
    """Chains of ``steps`` steps, one for each element of ``shape``, cut into groups of steps."""

    def __init__(
        self,
        b: KernelBuilder,
        evaluator: Evaluator,
        steps: Dim,
        shape: tuple[Dim, ...],
        terms: Sequence[ReductionTerm],
        label: str = "",
    ) -> None:
        self.b, self.evaluator, self.shape, self.terms = b, evaluator, shape, terms
        level = LEVELS - 2 if isinstance(steps, int) else SHARING.group_levels
        while level > SHARING.group_levels and at_hint(steps) // CHUNK**level < SHARING.many_groups:
            level -= 1
        self.size = CHUNK**level
        self.whole, self.last = steps // self.size, steps % self.size
        self.count = ceil_div(steps, self.size)
        # what lies between groups and the last level, which takes all the rest
        self.block = CHUNK ** (LEVELS - 1 - level)
        self.parts = rooms(b, f"part{label}", "scratch", self.count * product(shape), terms)

    def reduce(self) -> None:
        """Each group by itself."""
        with ExitStack() as loops:
            (group,) = open_loops(self.b, self.evaluator, loops, (self.whole,), "parallel")
            self._group(loops, group, self.size)
        if self.last == 0:
            return
        with ExitStack() as loops:
            # none or one
            open_loop(self.b, self.evaluator, loops, self.count - self.whole, "serial")
            self._group(loops, self.b.dim(self.whole), self.last)

    def _group(self, loops: ExitStack, group: Var, length: Dim) -> None:
        b = self.b
        place = open_loops(b, self.evaluator, loops, self.shape)
        first = b.apply("multiply", group, b.dim(self.size))
        with b.reduce(length, "chain") as scope:
            self.evaluator.push()
            step = b.apply("add", first, scope.index)
            scope.terms += [(term.combine, term.at(step, place)) for term in self.terms]
            self.evaluator.pop()
        at = flat_index(b, (group, *place), (self.count, *self.shape))
        for part, result in zip(self.parts, scope.results, strict=True):
            b.store(part, at, result)

    @contextmanager
    def totals(self) -> Iterator[tuple[Index, list[Var]]]:
        """Inside, the results at each place."""
        b = self.b
        totals = [b.constant(neutral_element(t.combine, t.dtype), t.dtype) for t in self.terms]
        blocks, left = self.count // self.block, self.count % self.block
        with ExitStack() as loops:
            place = open_loops(b, self.evaluator, loops, self.shape)
            if blocks != 0:
                with b.loop(blocks, "serial", totals) as serial:
                    first = b.apply("multiply", serial.index, b.dim(self.block))
                    serial.following = self._block(place, first, self.block, serial.arguments)
                totals = list(serial.results)
            if isinstance(left, int):
                if left:
                    totals = self._block(place, b.dim(blocks * self.block), left, totals)
            else:
                # none or one: the sum of nothing would be +0
                with b.loop(select("eq", left, 0, 0, 1), "serial", totals) as serial:
                    first = b.dim(blocks * self.block)
                    serial.following = self._block(place, first, left, serial.arguments)
                totals = list(serial.results)
            yield place, totals

    def _block(self, place: Index, first: Var, length: Dim, totals: Sequence[Var]) -> list[Var]:
        """The totals after ``length`` more groups, from ``first`` on."""
        b = self.b
        with b.reduce(length, "chain") as scope:
            group = b.apply("add", first, scope.index)
            at = flat_index(b, (group, *place), (self.count, *self.shape))
            for term, part in zip(self.terms, self.parts, strict=True):
                scope.terms.append((joining(term.combine), b.load(part, at)))
        return [
            b.apply(joining(term.combine), total, result)
            for term, total, result in zip(self.terms, totals, scope.results, strict=True)
        ]


def rooms(
    b: KernelBuilder, name: str, role: Role, size: Dim, terms: Sequence[ReductionTerm]
) -> list[Buffer]:
    """Buffers for ``size`` values of each term."""
    return [
        b.buffer(f"{name}{n}", role, TensorType(term.dtype, (size,)))
        for n, term in enumerate(terms)
    ]


def reduce_long_row(
    b: KernelBuilder,
    evaluator: Evaluator,
    length: Dim,
    row: Index,
    terms: Sequence[ReductionTerm],
    label: str,
) -> list[Var]:
    """The results of the reductions, in the order "lanes", of a row: terms of all its positions."""
    width = lanes(terms[0].dtype)
    steps, left = length // width, length % width

    def laned(term: ReductionTerm) -> ReductionTerm:
        def at(step: Var, place: Index) -> Var:
            return term.at(flat_index(b, (step, *place), (steps, width)), row)

        return ReductionTerm(term.combine, term.dtype, at)

    chains = [laned(term) for term in terms]
    groups = Groups(b, evaluator, steps, (width,), chains, label)
    sums = rooms(b, f"sum{label}", "scratch", width, chains)
    groups.reduce()
    with groups.totals() as ((lane,), totals):
        for room, total in zip(sums, totals, strict=True):
            b.store(room, lane, total)
    squares = [term for term in terms if term.combine == "squares"]
    # a row of one step has its lanes combined, and then with what is left
    terms_left = select("eq", length, 0, 0, width + left)
    with b.reduce(terms_left, "lanes") as scope:
        evaluator.push()
        place = scope.index
        is_lane = b.apply("less", place, b.dim(width))
        inside = place if left == 0 else b.apply("minimum", place, b.dim(width - 1))
        beyond = b.apply("add", b.dim((steps - 1) * width), place)
        if not isinstance(length, int):
            # a row may be shorter than a step
            beyond = b.apply("maximum", beyond, b.dim(0))
        for term, room in zip(terms, sums, strict=True):
            value = b.load(room, inside)
            if left != 0:
                last = b.constant(0, term.dtype) if term in squares else term.at(beyond, row)
                value = b.apply("select", is_lane, value, last)
            scope.terms.append((joining(term.combine), value))
        evaluator.pop()
    results = dict(zip(terms, scope.results, strict=True))
    if left != 0 and squares:
        # lanes are added, what is left is squared
        with b.reduce(left, "lanes") as scope:
            evaluator.push()
            beyond = b.apply("add", b.dim(steps * width), scope.index)
            scope.terms += [("squares", term.at(beyond, row)) for term in squares]
            evaluator.pop()
        for term, rest in zip(squares, scope.results, strict=True):
            results[term] = b.apply("add", results[term], rest)
    return [results[term] for term in terms]


def find_in_long_row(
    b: KernelBuilder,
    evaluator: Evaluator,
    length: Dim,
    row: Index,
    terms: Sequence[ReductionTerm],
    label: str,
) -> list[Var]:
    """The first positions of extremes in a row: first in each part of it, then among the parts."""
    count = ceil_div(length, SHARING.extremes_together)
    whole, last = length // SHARING.extremes_together, length % SHARING.extremes_together
    kind = TensorType(int64, (count,))
    places = [b.buffer(f"place{label}{n}", "scratch", kind) for n in range(len(terms))]

    def find(part: Var, size: Dim) -> None:
        first = b.apply("multiply", part, b.dim(SHARING.extremes_together))
        with b.reduce(size, "lanes") as scope:
            evaluator.push()
            position = b.apply("add", first, scope.index)
            scope.terms += [(term.combine, term.at(position, row)) for term in terms]
            evaluator.pop()
        for place, result in zip(places, scope.results, strict=True):
            b.store(place, part, b.apply("add", first, result))

    with ExitStack() as loops:
        find(open_loop(b, evaluator, loops, whole, "parallel"), SHARING.extremes_together)
    if last != 0:
        with ExitStack() as loops:
            # none or one
            open_loop(b, evaluator, loops, count - whole, "serial")
            find(b.dim(whole), last)
    with b.reduce(count, "lanes") as scope:
        evaluator.push()
        for term, place in zip(terms, places, strict=True):
            # a number from memory is in the row only if the code says so
            found = b.apply("minimum", b.load(place, scope.index), b.dim(length - 1))
            found = b.apply("maximum", found, b.constant(0, int64))
            scope.terms.append((term.combine, term.at(found, row)))
        evaluator.pop()
    return [b.load(place, found) for place, found in zip(places, scope.results, strict=True)]


def or_nothing(
    b: KernelBuilder, length: Dim, terms: Sequence[ReductionTerm], results: Sequence[Var]
) -> list[Var]:
    """The results, with +0 for empty sums, which would be -0."""
    if isinstance(length, int):
        return list(results)
    is_empty = b.apply("equal", b.dim(length), b.dim(0))
    return [
        b.apply("select", is_empty, b.constant(0, term.dtype), result)
        if term.combine == "add"
        else result
        for term, result in zip(terms, results, strict=True)
    ]


__all__ = [
    "Groups",
    "ReductionTerm",
    "find_in_long_row",
    "is_long",
    "or_nothing",
    "reduce_long_row",
]
