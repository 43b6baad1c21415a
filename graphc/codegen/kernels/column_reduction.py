"""Column reductions: a few rows at a time over a block of columns (a stripe).

One vector of columns at a time would touch a new page with each row. The rows of a stripe are read
in streams instead. Meanwhile the levels of every column's cascade lie on the stack, in the nearest
caches. The first level is filled in two halves: it is written after the first half and read before
the second, whose end goes straight into the next level. The order of terms is that of
``graphc.kernel.ir``, so bits are the same. A reduction that few columns need takes one vector of
columns at a time, and leaves one level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.kernels.conditional_reduction import emit_reduce
from graphc.codegen.kernels.lane_values import LinearLanes
from graphc.codegen.kernels.loads_stores import prefetch_loads
from graphc.codegen.kernels.reduction import (
    State,
    bind_results,
    combined,
    flat,
    grouped,
    neutral_state,
    results_of_nothing,
    terms,
)
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.types import ltype
from graphc.kernel.cascade import levels_of
from graphc.kernel.ir import CHUNK, Block, Statement
from graphc.kernel.schedule.column_blocked import ColumnBlocked
from graphc.kernel.statements.bodies import loads_in, reductions_in

Room = Sequence[tuple[Reg, str]]
"""Per register of a state the first level of a stripe, and its element type."""


@emits(ColumnBlocked)
def emit_stripes(k: KernelScope, statement: Block, schedule: ColumnBlocked) -> None:
    """Emits a vector loop around reductions by blocks of columns."""
    _Stripes(k, statement, schedule).emit()


class _Stripes:
    """The code of one vector loop."""

    def __init__(self, k: KernelScope, statement: Block, schedule: ColumnBlocked) -> None:
        self.k = k
        self.statement = statement
        self.width, self.columns = schedule.lanes, schedule.columns
        self.lower = self.upper = k.e.const(0)
        self._results: dict[Statement, Sequence[Reg]] = {}

    def emit(self) -> None:
        """Stripe by stripe: each reduction over all rows, then what follows."""
        k, e, body = self.k, self.k.e, self.statement.body
        lower, upper = k.bounds(self.statement)
        rooms = {reduction: self._room(reduction) for reduction in reductions_in(body)}
        with e.loop(lower, upper, self.columns) as stripe:
            self.lower, self.upper = stripe.index, self._end(stripe.index, self.columns, upper)
            for reduction, room in rooms.items():
                ahead = [s for s in body[: body.index(reduction)] if not s.writes]
                if reduction.condition is None:
                    self._reduction(reduction, room, ahead)
                else:
                    self._where_needed(reduction, room, ahead)
                self._results[reduction] = self._level(room, self._top(reduction))
            self._over(lambda place: self._run(body, place))

    def _where_needed(self, reduction: Block, room: Room, ahead: Sequence[Statement]) -> None:
        """Leaves the results of a reduction that few columns need in its only level."""

        def each(place: Reg) -> None:
            self._run(ahead, place)
            emit_reduce(self.k, reduction)
            results: State = [(self.k.spread(reducer.result),) for reducer in reduction.reducers]
            self._write(self._level(room, self._top(reduction)), place, results)

        self._over(each)

    def _room(self, reduction: Block) -> Room:
        """Space for the levels of each reducer, and its type."""
        parts = flat(self._kept(reduction))
        count = self.columns * levels_of(reduction)
        return [(self.k.e.alloca(part.type, count), part.type.element) for part in parts]

    def _kept(self, reduction: Block) -> State:
        """What lies in a room of each column: a state, or results where few columns need them."""
        if reduction.condition is None:
            return neutral_state(self.k.e, reduction.reducers, 1)
        return [(result,) for result in results_of_nothing(self.k.e, reduction.reducers, 1)]

    def _over(self, body: Callable[[Reg], None]) -> None:
        """Runs ``body(place in the stripe)`` for vectors of columns, then for single ones."""
        k, e, lower, upper = self.k, self.k.e, self.lower, self.upper
        count = (upper - lower) & -self.width
        whole = lower + count
        k.lanes = self.width
        with e.loop(lower, whole, self.width) as loop:
            k.bind(self.statement.index, LinearLanes(loop.index, e.const(1)))
            body(loop.index - lower)
        k.lanes = 1
        extent = self.statement.extent
        if isinstance(extent, int) and extent % self.width == 0:
            return
        with e.loop(whole, upper) as loop:
            k.bind(self.statement.index, loop.index)
            body(loop.index - lower)

    def _run(self, body: Sequence[Statement], place: Reg) -> None:
        """Statements of the loop's body; of reductions the results, which lie in their room."""
        k = self.k
        for statement in body:
            reduction = statement.block
            if reduction is None:
                k.statements((statement,))
                continue
            state = self._read(reduction, self._results[reduction], place)
            if reduction.condition is None:
                bind_results(k, reduction, state, k.size(reduction.extent))
            else:
                for reducer, (result,) in zip(reduction.reducers, state, strict=True):
                    k.bind(reducer.result, result)

    def _read(self, reduction: Block, level: Sequence[Reg], place: Reg) -> State:
        e, lanes = self.k.e, self.k.lanes
        kept = self._kept(reduction)
        regs = iter(
            e.load(
                e.at(room, part.type.element, place),
                ltype(part.type.element, lanes),
                max(1, part.type.bits // 8),
            )
            for room, part in zip(level, flat(kept), strict=True)
        )
        return [tuple(next(regs) for _ in accumulator) for accumulator in kept]

    def _write(self, level: Sequence[Reg], place: Reg, state: State) -> None:
        e = self.k.e
        for room, reg in zip(level, flat(state), strict=True):
            pointer = e.at(room, reg.type.element, place)
            e.store(reg, pointer, max(1, reg.type.bits // 8))

    def _level(self, room: Room, number: Reg) -> list[Reg]:
        """Where a level lies: levels of a stripe follow each other."""
        e = self.k.e
        start = number * self.columns
        return [e.at(first, element, start) for first, element in room]

    def _top(self, reduction: Block) -> Reg:
        """The number of the last level, from 0, that rows reach."""
        k, e = self.k, self.k.e
        count = levels_of(reduction)
        if count == 1 or isinstance(reduction.extent, int):
            return e.const(count - 1)
        top = e.const(1)
        for depth in range(2, count):
            more = k.size(reduction.extent) > CHUNK**depth
            top = top + e.convert("zext", more, "i64")
        return top

    def _reduction(self, reduction: Block, room: Room, ahead: Sequence[Statement]) -> None:
        """Leaves a reduction's results in its last level."""
        k, e, reducers = self.k, self.k.e, reduction.reducers
        side = k.tuning.column_block_streams
        rows, top = k.size(reduction.extent), self._top(reduction)
        first, second = (self._level(room, e.const(number)) for number in (0, 1))
        cascades = levels_of(reduction) > 1
        with e.loop(int(cascades), top + 1) as level:
            place = self._level(room, level.index)
            self._over(lambda at: self._write(place, at, neutral_state(e, reducers, k.lanes)))
        with e.loop(0, rows, CHUNK if cascades else side) as block:
            middle = self._end(block.index, side, rows)
            end = self._end(block.index, CHUNK, rows)

            def each(place: Reg) -> None:
                if cascades:
                    state = neutral_state(e, reducers, k.lanes)
                else:
                    state = self._read(reduction, first, place)
                self._run(ahead, place)
                state = self._rows(reduction, block.index, middle, state)
                self._write(first, place, state)

            def rest(place: Reg) -> None:
                self._run(ahead, place)
                state = self._read(reduction, first, place)
                state = self._rows(reduction, middle, end, state)
                above = self._read(reduction, second, place)
                self._write(second, place, combined(k, reducers, above, state))

            self._over(each)
            if cascades:
                self._over(rest)
                self._carry(reduction, room, block.index, end, top)

    def _rows(self, reduction: Block, start: Reg, end: Reg, state: State) -> State:
        """The columns that are bound at present: their state after some rows."""
        k, e, reducers = self.k, self.k.e, reduction.reducers
        far = loads_in(reduction.body)
        with e.loop(start, end, 1, flat(state)) as loop:
            k.bind(reduction.index, loop.index)
            k.statements(reduction.body)
            if k.lanes > 1:
                prefetch_loads(k, far, k.lanes)
            position = e.splat(loop.index, k.lanes)
            state = grouped(reducers, loop.carries)
            loop.yields = flat(combined(k, reducers, state, terms(k, reducers, position)))
        return grouped(reducers, loop.results)

    def _end(self, start: Reg, size: int, upper: Reg) -> Reg:
        e = self.k.e
        return e.least(start + size, upper)

    def _carry(self, reduction: Block, room: Room, start: Reg, end: Reg, top: Reg) -> None:
        """Levels from the second on that are full go into the next and start anew; after the last
        row all do.

        A level that is empty then adds its neutral element, which changes no bits.
        """
        k, e, reducers = self.k, self.k.e, reduction.reducers
        done = start + CHUNK
        is_last = end.equals(k.size(reduction.extent))
        with e.loop(1, top) as loop:
            after = loop.index + 1
            bits = after * (CHUNK.bit_length() - 1)
            size = e.const(1) << bits
            rest = done & (size - 1)
            full = rest.equals(0)
            with e.when(is_last | full):
                lower, upper = self._level(room, loop.index), self._level(room, after)

                def each(place: Reg) -> None:
                    states = [self._read(reduction, level, place) for level in (upper, lower)]
                    self._write(upper, place, combined(k, reducers, *states))
                    self._write(lower, place, neutral_state(e, reducers, k.lanes))

                self._over(each)
