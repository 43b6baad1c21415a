"""Software-pipelined rows: while row r is in stage s, row r + 1 is in stage s - 1.

The stages of one row wait for each other: nothing can be normalised before the sum is known. Stages
of neighbouring rows don't. So one loop over the columns runs all stages, each on a row of its own.
Loads, divisions and multiply-adds of different stages then run at the same time, and other rows
hide the latency of the end of a sum.

Invariant: rows are independent, and each goes through its stages in order, with the terms of its
reductions in the order of ``graphc.kernel.ir``. So the bits are those of the plain loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

from graphc.base.target import PAGE
from graphc.codegen.kernels.aliasing_4k import beginning, turn
from graphc.codegen.kernels.lane_values import Binding, LinearLanes
from graphc.codegen.kernels.loop_tail import emit_leftover
from graphc.codegen.kernels.nontemporal_stores import (
    address_at,
    element_at,
    first_line,
    mark_whole_rows,
)
from graphc.codegen.kernels.reduction import (
    State,
    bind_results,
    cascade,
    combined,
    flat,
    folded,
    grouped,
    last_terms,
    neutral_state,
    terms,
)
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.codegen.llvm.prefetch import LINE, prefetch
from graphc.codegen.llvm.storage import element_of, storage
from graphc.codegen.llvm.types import I8, PTR, ltype
from graphc.kernel.ir import (
    Block,
    Buffer,
    Var,
)
from graphc.kernel.schedule.pipelined import Pipelined
from graphc.kernel.schedule.prefetched import Prefetched
from graphc.kernel.schedule.row_stages import (
    Scalars,
    columns_of,
    following_the_row,
    fresh_loads,
    handed_on,
    makers,
    rooms,
    stages_of,
    width_of,
)
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import accesses_in, stores_in


@emits(Pipelined)
def emit_staggered(k: KernelScope, rows: Block, schedule: Pipelined) -> None:
    """Emits a loop over rows whose stages run at the same time."""
    _Staggered(k, rows, *stages_of(rows)).emit()


class _Staggered:
    """The code of one loop."""

    def __init__(
        self, k: KernelScope, rows: Block, stages: Sequence[Block], once: Sequence[Scalars]
    ) -> None:
        self.k = k
        self.rows, self.stages = rows, stages
        follows = following_the_row(rows, stages)
        self.indices = [s for group in once for s in group if follows.intersection(s.results)]
        self.once = [[s for s in group if s not in self.indices] for group in once]
        self.made = makers(stages, once, follows)
        self.handed = handed_on(stages, once, follows)
        self.passed_on = [
            (buffer, k.e.alloca(I8, count * row, PAGE), count, row)
            for buffer, count, row in rooms(stages)
        ]
        self.pointers: list[list[tuple[Buffer, Reg]]] = []
        self.fresh = fresh_loads(rows, stages)
        width = width_of(stages)
        assert width is not None, "so has it been found to be"
        self.width = width
        self.steps, self.rest = divmod(columns_of(stages), width)
        self.start = k.e.const(0)

    def emit(self) -> None:
        """The loop over rows, which goes on until the last row has been in all stages."""
        k, e = self.k, self.k.e
        lower, upper = k.bounds(self.rows)
        past = upper + (len(self.stages) - 1)
        past = e.select(lower < upper, past, lower)
        slots = sorted(
            # in an order that is the same in every process
            dict.fromkeys(
                (var, n) for need in self.handed for var, most in need.items() for n in range(most)
            ),
            key=lambda slot: (self.made[slot[0]], slot[1]),
        )
        initial = [e.const(0, ltype(element_of(var.dtype))) for var, _ in slots]
        k.streaming.clear()
        self._lay_out(lower)
        with e.loop(lower, past, 1, initial) as loop:
            earlier = dict(zip(slots, loop.carries, strict=True))
            known: list[dict[Var, Binding]] = []
            active: list[Reg] = []
            last = upper - 1
            for number, need in enumerate(self.handed):
                row = loop.index - number
                started, ended = row >= lower, row < upper
                active.append(started & ended)
                row = e.least(e.most(row, lower), last)
                handed = {var: earlier[var, count - 1] for var, count in need.items()}
                known.append(self._begin(number, row, handed))
            for number, state in enumerate(self._columns(known, active)):
                stage = self.stages[number]
                if stage.reducers:
                    bind_results(k, stage, state, k.size(stage.extent))
                    known[number] |= {var: k.binding(var) for var in stage.results}
            self._recall(known[-1])
            with e.when(active[-1]):
                k.statements(self.once[-1])
            loop.yields = [
                earlier[var, n - 1] if n else _scalar(known[self.made[var]][var])
                for var, n in slots
            ]
        k.streaming.clear()

    def _lay_out(self, row: Reg) -> None:
        """Chooses where rows in scratch begin, and from which column on results are written."""
        k, e = self.k, self.k.e
        k.bind(self.rows.index, row)
        k.statements(self.indices)
        stores = stores_in(self.stages[-1].body)
        read, written = self._address(0, self.fresh[0]), self._address(-1, stores)
        gap = None if read is None or written is None else read - written
        touched = [*self.fresh[0], *stores]
        sizes = [s.buffer.type.dtype.bytes for s in touched] or [1]
        row_bytes = columns_of(self.stages) * sizes[0]
        step_bytes, rows = self.width * max(sizes), len(self.stages) - 1
        self.before = beginning(e, row_bytes, gap)
        self.ahead = turn(e, row_bytes, step_bytes, self.steps, rows, gap)

    def _address(self, number: int, accesses: Sequence[Access]) -> Reg | None:
        """Where a stage first touches the present row."""
        k, stage = self.k, self.stages[number]
        if not accesses:
            return None
        return address_at(k, stage.body, stage.index, k.e.const(0), accesses[0])

    def _settle(self, number: int, row: Reg) -> None:
        """Says where a stage finds its rows in scratch: some by turns, as it lies in a page."""
        e = self.k.e
        touched = {access.buffer for access in accesses_in(self.stages[number].body)}
        used = [room for room in self.passed_on if room[0] in touched]
        read = self._address(0, self.fresh[0]) if used else None
        place = (e.const(0) if read is None else read) - self.before
        place = place & (PAGE - LINE)
        self.pointers.append([])
        for buffer, base, count, size in used:
            turn_of_row = row & (count - 1)
            offset = turn_of_row * size + place
            self.pointers[-1].append((buffer, e.at(base, "i8", offset)))

    def _begin(self, number: int, row: Reg, handed: dict[Var, Reg]) -> dict[Var, Binding]:
        """What a stage knows of the row that is in it."""
        k, stage = self.k, self.stages[number]
        k.bind(self.rows.index, row)
        self._recall(handed)
        k.statements(self.indices)
        k.statements(self.once[number])
        if not stage.reducers:
            self.start = first_line(k, stage, self.rest)
            mark_whole_rows(k, stage, self.start)
        self._settle(number, row)
        visible = [self.rows.index, *handed]
        for statement in (*self.indices, *self.once[number]):
            visible += statement.results
        return {var: k.binding(var) for var in visible}

    def _recall(self, known: Mapping[Var, Binding]) -> None:
        for var, binding in known.items():
            self.k.bind(var, binding)

    def _columns(
        self, known: Sequence[Mapping[Var, Binding]], active: Sequence[Reg]
    ) -> list[State]:
        """One pass over the columns of all rows at work; gives each stage's sums."""
        k, e = self.k, self.k.e
        counts = [len(stage.reducers) for stage in self.stages]
        bounds = list(pairwise(accumulate(counts, initial=0)))
        reducers = [reducer for stage in self.stages for reducer in stage.reducers]

        def all_stages(parts: list[State], one: Callable[[int, State], State]) -> list[State]:
            for position, part in enumerate(parts):
                self._recall(known[position])
                for buffer, pointer in self.pointers[position]:
                    k.place(buffer, pointer)
                parts[position] = self._if(active[position], part, position, one)
            return parts

        def step(number: Reg, state: State) -> State:
            parts = [state[start:end] for start, end in bounds]
            parts = all_stages(parts, lambda position, part: self._one(position, number, part))
            return [accumulator for part in parts for accumulator in part]

        if not self.steps:
            sums = neutral_state(e, reducers, 1)
        else:
            k.lanes = self.width
            vectors = cascade(k, reducers, e.const(self.steps), self.steps, step)
            k.lanes = 1
            sums = [folded(e, r, acc) for r, acc in zip(reducers, vectors, strict=True)]
        parts = [sums[start:end] for start, end in bounds]
        return all_stages(parts, self._last_columns) if self.rest else parts

    def _column(self, number: int, step: Reg) -> Reg:
        """Where a step of a stage begins; what is written is some steps away from what is read."""
        e, steps = self.k.e, self.k.e.const(self.steps)
        shift = e.const(self.width.bit_length() - 1)
        if self.stages[number].reducers:
            return step << shift
        later = step + self.ahead
        later = e.select(later < steps, later, later - steps)
        column = later << shift
        return column + self.start if self.rest else column

    def _prefetch(self, load: Access, first: Reg | None, columns: int) -> None:
        """Fetches what will be read some rows further on, with an element and those behind it."""
        k, dtype = self.k, load.buffer.type.dtype
        schedule = k.kernel.schedule.get(load)
        if first is None or not isinstance(schedule, Prefetched):
            return
        place = first + schedule.distance // dtype.bytes
        start = f"getelementptr {storage(dtype)}, {k.pointer(load.buffer)}, {place}"
        near = schedule.level == 1
        prefetch(k.e, k.e.assign(PTR, start), columns * dtype.bytes, near=near)

    def _if(
        self, active: Reg, state: State, number: int, one: Callable[[int, State], State]
    ) -> State:
        """What becomes of a stage's state, if a row is in it."""
        stage = self.stages[number]
        regs = self.k.e.merged(active, flat(state), lambda: flat(one(number, state)), "stage")
        return grouped(stage.reducers, regs) if stage.reducers else state

    def _one(self, number: int, step: Reg, state: State) -> State:
        """One step of a stage."""
        k, stage = self.k, self.stages[number]
        column = self._column(number, step)
        k.bind(stage.index, LinearLanes(column, k.e.const(1)))
        k.statements(stage.body)
        for load in self.fresh[number]:
            index = k.binding(load.index)
            if isinstance(index, LinearLanes) and is_literal(index.stride, 1):
                self._prefetch(load, index.base, self.width)
        if not stage.reducers:
            return state
        return combined(k, stage.reducers, state, terms(k, stage.reducers, column))

    def _last_columns(self, number: int, state: State) -> State:
        """The columns of a stage that are no whole step."""
        k, e, stage = self.k, self.k.e, self.stages[number]
        none, whole = e.const(0), e.const(self.steps * self.width)
        past = e.const(columns_of(self.stages))
        for load in self.fresh[number]:
            first = element_at(k, stage.body, stage.index, whole, load.index)
            self._prefetch(load, first, self.rest)
        k.held = {}
        if stage.reducers:
            last = last_terms(k, stage, whole, past, self.width, self.rest)
            state = combined(k, stage.reducers, state, last)
        elif is_literal(self.start, 0):
            emit_leftover(k, stage, whole, past, self.width, self.rest)
        else:
            with e.loop(none, 2) as part:
                before = part.index.equals(none)
                lower = e.select(before, none, whole + self.start)
                upper = e.select(before, self.start, past)
                emit_leftover(k, stage, lower, upper, self.width, None)
        k.held = {}
        return state


def _scalar(binding: Binding) -> Reg:
    assert isinstance(binding, Reg), "what is handed on is one value a row"
    return binding
