"""Kernels that hand rows to a native routine: one after the other, or as many as it takes together.

Rows are independent of each other, so threads share them. A single row is one thread's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from graphc.ir.dims.expressions import Dim, ceil_div, product
from graphc.ir.dtypes import int8
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Native
from graphc.ir.types import Shape, TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Site, Size, Var
from graphc.kernel.routines import Routine, routine
from graphc.kernel.statements.routines import Span
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import flat_index
from graphc.lower.launch_fission import Series, series_of
from graphc.lower.region import Result, Slices, open_loop, open_loops, open_region


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of one value: the buffer, the elements of a row, and whether all calls share it."""

    buffer: Buffer
    size: Dim
    is_shared: bool


def lower_native_rows(region: Graph, slices: Slices, ahead: bool) -> Series:
    """The kernel of one such operation; it updates nothing, so nothing is checked ``ahead``."""
    (node,) = region.nodes
    lowering = node.op.lowering
    assert isinstance(lowering, Native)
    b, evaluator, results = open_region(region, slices)
    if all(value.type.size == 0 for value in node.outputs):
        return series_of(b.finish())
    call = _Call(b, evaluator, node, lowering, results)
    if call.most == 1:
        call.one_by_one()
    else:
        call.several_together()
    return series_of(b.finish())


class _Call:
    """The calls of one kernel."""

    def __init__(
        self,
        b: KernelBuilder,
        evaluator: Evaluator,
        node: Node,
        lowering: Native,
        results: Sequence[Result],
    ) -> None:
        self.b, self.evaluator = b, evaluator
        self.routine: Routine = routine(lowering.routine)
        self.numbers = lowering.numbers([value.type for value in node.inputs], node.attrs)
        dtypes = [value.type.dtype for value in (*node.inputs, *node.outputs)]
        together = self.routine.together
        self.most = 1 if together is None else together(dtypes, self.numbers)
        count = len(node.inputs)
        self.sources = [
            _rows(evaluator.buffers[value], value.type, rank)
            for value, rank in zip(node.inputs, lowering.ranks, strict=False)
        ]
        last, rank = node.outputs[0].type, lowering.ranks[count]
        self.batch: Shape = last.shape[: last.rank - rank]
        self.targets = self._targets(node, results, lowering.ranks[count:])
        size = self.routine.room(dtypes, self.numbers)
        self.room = None if size == 0 else b.buffer("room", "scratch", TensorType(int8, (size,)))
        self.site: Site | None = None
        if self.routine.fault is not None:
            where = node.provenance.where
            self.site = Site(last.rank - 1, node.op.name, where, self.routine.problem)

    def _targets(
        self, node: Node, results: Sequence[Result], ranks: Sequence[int]
    ) -> list[_Rows]:
        """Where the results go; one that nobody reads goes to rows that are overwritten."""
        buffers = {result.value: result.buffer for result in results}
        targets = []
        for number, (value, rank) in enumerate(zip(node.outputs, ranks, strict=True)):
            buffer = buffers.get(value)
            if buffer is not None:
                targets.append(_rows(buffer, value.type, rank))
                continue
            size = product(value.type.shape[value.type.rank - rank :])
            unread = TensorType(value.type.dtype, (self.most * size,))
            buffer = self.b.buffer(f"unread{number}", "scratch", unread)
            targets.append(_Rows(buffer, size, True))
        return targets

    def one_by_one(self) -> None:
        """A call for each row."""
        b = self.b
        with ExitStack() as loops:
            index = open_loops(b, self.evaluator, loops, self.batch, "parallel")
            number = flat_index(b, index, self.batch)
            numbers: tuple[Size, ...] = tuple(self.numbers)
            if self.routine.together is not None:
                numbers = (*numbers, number, 1, product(self.batch))
            self._emit(numbers, number, None)

    def several_together(self) -> None:
        """A call for each block of rows; the last one has what is left."""
        b = self.b
        total = product(self.batch)
        with ExitStack() as loops:
            block = open_loop(
                b, self.evaluator, loops, ceil_div(total, self.most), "parallel"
            )
            first = b.apply("multiply", block, b.dim(self.most))
            left = b.apply("subtract", b.dim(total), first)
            count = b.apply("minimum", left, b.dim(self.most))
            self._emit((*self.numbers, first, count, total), first, count)

    def _emit(self, numbers: Sequence[Size], first: Var, count: Var | None) -> None:
        b = self.b
        start, here = b.dim(0), len(self.sources)
        spans: list[Span] = []
        # what the routine takes of a row, which is the row where sizes fit each other
        taken = self.routine.extents(self.numbers)
        for rows, size in zip((*self.sources, *self.targets), taken, strict=True):
            offset = start
            if not rows.is_shared:
                offset = b.apply("multiply", first, b.dim(rows.size))
            extent: Size = size
            # one that all calls share is no row of several
            if count is not None and (not rows.is_shared or len(spans) >= here):
                extent = b.apply("multiply", count, b.dim(size))
            spans.append(Span(rows.buffer, offset, extent))
        b.call(self.routine.name, numbers, spans[here:], spans[:here], self.room, self.site)


def _rows(buffer: Buffer, type_: TensorType, rank: int) -> _Rows:
    """Those of a value whose last ``rank`` axes are a row; without others it is one for all."""
    before, row = type_.shape[: type_.rank - rank], type_.shape[type_.rank - rank :]
    return _Rows(buffer, product(row), not before)
