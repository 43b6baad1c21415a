"""Rows that are computed in stages, staggered: a row is in one stage, the next in that before.

The stages of one row wait for each other: nothing can be normalised before the sum is known. Those
of neighbouring rows do not, so one loop over the columns runs all stages, each on a row of its own.
Loads, divisions and multiply-adds of different stages then keep the processor busy at the same
time, and the end of a sum is waited for while other rows go on.

Invariant: rows are independent, and each goes through its stages in order, with the terms of its
reductions in the order of ``graphc.kernel.ir``. So the bits are those of the plain loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

from graphc.codegen.binding import Binding, Linear
from graphc.codegen.elementary import NAMES
from graphc.codegen.emitter import I8, I64, Reg, element_of, ltype
from graphc.codegen.reduction import (
    State,
    bind_results,
    cascade,
    combined,
    flat,
    folded,
    grouped,
    terms,
)
from graphc.codegen.streaming import mark_whole_rows
from graphc.kernel.ir import (
    Apply,
    Buffer,
    Cast,
    Const,
    Contract,
    DimValue,
    Kernel,
    Load,
    Loop,
    Reduce,
    Statement,
    Store,
    Var,
    lanes,
    operands_of,
    walk,
)

if TYPE_CHECKING:
    from graphc.codegen.kernel import KernelEmitter

MAX_STAGES = 3
"""More stages have more constants and accumulators than there are registers."""

PAGE = 4096
"""Addresses that are alike modulo this are taken for the same by processors that look at loads
before they know where all stores before them go."""

MIN_STEPS = 8
"""Shorter rows spend most of their time between loops over their columns."""

ROOM = 0.5
COSTLY_ROOM = 1.5
"""How much of the nearest cache the rows at work may take, and how much where functions of elements
take most of the time. Softmax of rows of 2048 floats (40 of 32 KB) took 22 % less time than row by
row, of 4096 8 % more; layer norm of 1024 floats (24 KB) in memory 15 % more."""

FAR_BYTES = 24 << 20
"""More than this is read from memory. Where that takes most of the time, one stream without work in
between is read faster: mean and variance of 64 MB took 4 to 16 % longer staggered. Asking for lines
ahead made that worse."""

_SCALARS = (Apply, Cast, Const, DimValue, Load)

Stage: TypeAlias = Reduce | Loop
Scalars: TypeAlias = tuple[Statement, ...]


def emit_staggered(k: KernelEmitter, rows: Loop) -> bool:
    """Emits a loop over rows, or nothing and False where its stages cannot be staggered."""
    stages, once = _cut(rows.body)
    if not _fits(rows, stages, once) or not _is_private(_passed_on(stages), k.kernel, rows):
        return False
    is_costly = any(isinstance(s, Apply) and s.primitive in NAMES for s in walk(rows.body))
    room = COSTLY_ROOM if is_costly else ROOM
    if _bytes_at_work(stages) > room * k.target.l1_bytes or (not is_costly and _is_far(stages)):
        return False
    _Staggered(k, rows, stages, once).emit()
    return True


# --- what can be staggered -----------------------------------------------------------------------


def _cut(body: Sequence[Statement]) -> tuple[tuple[Stage, ...], tuple[Scalars, ...]]:
    """The stages of a row, and what is done once a row before each of them and after the last.

    All stores of the latter come last: by then rows further on have read what they overwrite.
    """
    stages: list[Stage] = []
    once: list[list[Statement]] = [[]]
    for statement in body:
        if isinstance(statement, (Reduce, Loop)):
            stages.append(statement)
            once.append([])
        elif not isinstance(statement, Store):
            once[-1].append(statement)
    once[-1] += [statement for statement in body if isinstance(statement, Store)]
    return tuple(stages), tuple(map(tuple, once))


def _fits(rows: Loop, stages: Sequence[Stage], once: Sequence[Scalars]) -> bool:
    if rows.kind != "parallel" or not 2 <= len(stages) <= MAX_STAGES:
        return False
    extent, width = stages[0].extent, _width(stages)
    if width is None or not isinstance(extent, int) or extent % width:
        return False
    if extent < MIN_STEPS * width or any(stage.extent != extent for stage in stages):
        return False
    if not all(map(_is_plain, stages)):
        return False
    if not all(isinstance(s, (*_SCALARS, Store)) for group in once for s in group):
        return False
    if not _keeps_order(rows, stages):
        return False
    follows = _following_the_row(rows, stages)
    if any(s.index not in follows for s in walk(rows.body) if isinstance(s, (Load, Store))):
        return False
    handed = {var for need in _handed(stages, once, follows) for var in need}
    return all(var.dtype.is_float or var.dtype.kind == "bool" for var in handed)


def _is_plain(stage: Stage) -> bool:
    """Whether a stage is a loop over independent columns, or sums in lanes, of mere scalars."""
    if isinstance(stage, Loop):
        if stage.kind != "vector" or stage.carries:
            return False
    elif stage.order != "lanes" or any(r.combine.startswith("arg") for r in stage.reducers):
        return False
    return all(isinstance(statement, (*_SCALARS, Store)) for statement in stage.body)


def _width(stages: Sequence[Stage]) -> int | None:
    """The columns of one step: the lanes of the reductions; None if these differ."""
    reducers = [r for stage in stages if isinstance(stage, Reduce) for r in stage.reducers]
    widths = {lanes(reducer.term.dtype) for reducer in reducers}
    return widths.pop() if len(widths) == 1 else None


def _passed_on(stages: Sequence[Stage]) -> list[Buffer]:
    """The scratch in which a stage leaves a row for the next, in order."""
    stores = [s for stage in stages for s in stage.body if isinstance(s, Store)]
    return list(dict.fromkeys(s.buffer for s in stores if s.buffer.role == "scratch"))


def _is_private(buffers: Sequence[Buffer], kernel: Kernel, rows: Loop) -> bool:
    """Whether nothing but the loop over rows uses the buffers."""
    inside = set(walk(rows.body))
    used: set[Buffer | None] = set()
    for s in walk(kernel.body):
        if isinstance(s, (Load, Store)) and s not in inside:
            used.add(s.buffer)
        elif isinstance(s, Contract):
            used |= {s.a.buffer, s.b.buffer, s.c.buffer, s.workspace}
    return used.isdisjoint(buffers)


def _bytes_at_work(stages: Sequence[Stage]) -> int:
    """What all stages together read and write of their rows."""
    extent = stages[0].extent
    assert isinstance(extent, int), "so has it been found to be"
    rows = {
        (s.buffer, number)
        for number, stage in enumerate(stages)
        for s in stage.body
        if isinstance(s, (Load, Store))
    }
    return sum(buffer.type.dtype.bytes for buffer, _ in rows) * extent


def _is_far(stages: Sequence[Stage]) -> bool:
    """Whether what the stages read is known not to fit any cache."""
    read = {s.buffer for stage in stages for s in stage.body if isinstance(s, Load)}
    sizes = [buffer.type.bytes for buffer in read]
    return sum(size for size in sizes if isinstance(size, int)) > FAR_BYTES


def _keeps_order(rows: Loop, stages: Sequence[Stage]) -> bool:
    """Whether no element is overwritten before a row that is further on has read it.

    A row in scratch may be read by the stage behind the one that writes it; there are two of them.
    Results, which may lie where an operand does, are written by the last stage alone.
    """
    writer: dict[Buffer, int] = {}
    for number, stage in enumerate(stages):
        for s in stage.body:
            if isinstance(s, Store) and writer.setdefault(s.buffer, number) != number:
                return False
    for number, stage in enumerate(stages):
        for s in stage.body:
            is_last = number == len(stages) - 1
            if isinstance(s, Store) and s.buffer.role != "scratch" and not is_last:
                return False
            if not isinstance(s, (Load, Store)) or s.buffer not in writer:
                continue
            if isinstance(s, Load) and writer[s.buffer] != number - 1:
                return False
            if s.buffer.role == "scratch" and s.index is not stage.index:
                return False
    once = [s for s in rows.body if isinstance(s, (Load, Store))]
    read = {s.buffer for s in walk(rows.body) if isinstance(s, Load)}
    return not any(s.buffer in (writer if isinstance(s, Load) else read) for s in once)


def _following_the_row(rows: Loop, stages: Sequence[Stage]) -> set[Var]:
    """Integers that follow from where the loops stand: places that are right for any row."""
    inside = {result for statement in walk(rows.body) for result in _results(statement)}
    follows = {rows.index, *(stage.index for stage in stages)}
    for s in walk(rows.body):
        operands = set(operands_of(s))
        if isinstance(s, (Apply, Const, DimValue)) and not s.result.dtype.is_float:
            if not (operands & inside) - follows and not any(v.dtype.is_float for v in operands):
                follows.add(s.result)
        elif isinstance(s, (Load, Store)) and s.index not in inside:
            follows.add(s.index)
    return follows


def _results(statement: Statement) -> tuple[Var, ...]:
    if isinstance(statement, Reduce):
        return tuple(reducer.result for reducer in statement.reducers)
    return (statement.result,) if isinstance(statement, _SCALARS) else ()


def _makers(
    stages: Sequence[Stage], once: Sequence[Scalars], follows: set[Var]
) -> dict[Var, int]:
    """The stage at which a row gets each of its scalars."""
    made: dict[Var, int] = {}
    for number, stage in enumerate(stages):
        for statement in (*once[number], stage):
            made |= dict.fromkeys(_results(statement), number)
    for var in follows:
        made.pop(var, None)
    return made


def _handed(
    stages: Sequence[Stage], once: Sequence[Scalars], follows: set[Var]
) -> list[dict[Var, int]]:
    """For each stage the scalars of earlier ones that it needs, and how many rows ago they were."""
    made = _makers(stages, once, follows)
    result = []
    for number, stage in enumerate(stages):
        groups = [*once[number], stage, *stage.body]
        if number == len(stages) - 1:
            groups += once[-1]
        read = {var for statement in groups for var in operands_of(statement)}
        result.append(
            {var: number - made[var] for var in made if var in read and made[var] < number}
        )
    return result


# --- code ----------------------------------------------------------------------------------------


class _Staggered:
    """The code of one loop."""

    def __init__(
        self, k: KernelEmitter, rows: Loop, stages: Sequence[Stage], once: Sequence[Scalars]
    ) -> None:
        self.k = k
        self.rows, self.stages = rows, stages
        follows = _following_the_row(rows, stages)
        self.indices = [s for group in once for s in group if follows.intersection(_results(s))]
        self.once = [[s for s in group if s not in self.indices] for group in once]
        self.made = _makers(stages, once, follows)
        self.handed = _handed(stages, once, follows)
        self.passed_on = [self._room(n, b) for n, b in enumerate(_passed_on(stages))]

    def _room(self, number: int, buffer: Buffer) -> tuple[Buffer, Reg]:
        """Space for two rows that a stage passes on, at places in a page where no rows begin."""
        e = self.k.e
        places = 2 * self._bytes(buffer) + PAGE
        base = e.alloca(I8, places, PAGE)
        return buffer, e.element_pointer(base, e.const(PAGE // 4 + number * PAGE // 8, I64), "i8")

    def _bytes(self, buffer: Buffer) -> int:
        extent = self.stages[0].extent
        assert isinstance(extent, int), "so has it been found to be"
        return extent * buffer.type.dtype.bytes

    def emit(self) -> None:
        """The loop over rows, which goes on until the last row has been in all stages."""
        k, e = self.k, self.k.e
        lower, upper = k.bounds(self.rows)
        past = e.binary("add", upper, e.const(len(self.stages) - 1, I64))
        past = e.select(e.icmp("slt", lower, upper), past, lower)
        slots = sorted(
            {(var, n) for need in self.handed for var, most in need.items() for n in range(most)},
            key=lambda slot: (self.made[slot[0]], slot[1]),
        )
        initial = [e.const(0, ltype(element_of(var.dtype))) for var, _ in slots]
        k.streaming.clear()
        with e.loop(lower, past, 1, initial) as loop:
            earlier = dict(zip(slots, loop.carries, strict=True))
            known: list[dict[Var, Binding]] = []
            active: list[Reg] = []
            last = e.binary("sub", upper, e.const(1, I64))
            for number, need in enumerate(self.handed):
                row = e.binary("sub", loop.index, e.const(number, I64))
                started, ended = e.icmp("sge", row, lower), e.icmp("slt", row, upper)
                active.append(e.binary("and", started, ended))
                row = e.intrinsic("smin", I64, e.intrinsic("smax", I64, row, lower), last)
                handed = {var: earlier[var, count - 1] for var, count in need.items()}
                known.append(self._begin(number, row, handed))
            for number, state in enumerate(self._columns(loop.index, known, active)):
                stage = self.stages[number]
                if isinstance(stage, Reduce):
                    bind_results(k, stage, state, k.size(stage.extent))
                    known[number] |= {var: k.binding(var) for var in _results(stage)}
            self._recall(known[-1])
            with e.when(active[-1]):
                k.statements(self.once[-1])
            loop.yields = [
                earlier[var, n - 1] if n else _scalar(known[self.made[var]][var])
                for var, n in slots
            ]
        k.streaming.clear()

    def _begin(self, number: int, row: Reg, handed: dict[Var, Reg]) -> dict[Var, Binding]:
        """What a stage knows of the row that is in it."""
        k, stage = self.k, self.stages[number]
        k.bind(self.rows.index, row)
        self._recall(handed)
        k.statements(self.indices)
        k.statements(self.once[number])
        if isinstance(stage, Loop):
            mark_whole_rows(k, stage)
        visible = [self.rows.index, *handed]
        for statement in (*self.indices, *self.once[number]):
            visible += _results(statement)
        return {var: k.binding(var) for var in visible}

    def _recall(self, known: Mapping[Var, Binding]) -> None:
        for var, binding in known.items():
            self.k.bind(var, binding)

    def _columns(
        self, time: Reg, known: Sequence[Mapping[Var, Binding]], active: Sequence[Reg]
    ) -> list[State]:
        """One pass over the columns of all rows at work; gives each stage's sums."""
        k, e = self.k, self.k.e
        extent, width = self.stages[0].extent, _width(self.stages)
        assert isinstance(extent, int) and width is not None, "so has it been found to be"
        counts = [len(s.reducers) if isinstance(s, Reduce) else 0 for s in self.stages]
        bounds = list(pairwise(accumulate(counts, initial=0)))
        reducers = [r for stage in self.stages if isinstance(stage, Reduce) for r in stage.reducers]

        steps = extent // width
        odd = e.binary("and", time, e.const(1, I64))
        halves = [odd, e.binary("xor", odd, e.const(1, I64))]

        def step(number: Reg, state: State) -> State:
            parts = [state[start:end] for start, end in bounds]
            for position, stage in enumerate(self.stages):
                self._recall(known[position])
                self._point(position, halves)
                turned = number
                if isinstance(stage, Loop):
                    turned = self._turned(number, steps, width)
                column = e.binary("shl", turned, e.const(width.bit_length() - 1, I64))
                parts[position] = self._one(position, column, parts[position], active[position])
            return [accumulator for part in parts for accumulator in part]

        k.lanes = width
        vectors = cascade(k, reducers, e.const(steps, I64), steps, step)
        k.lanes = 1
        sums = [folded(e, r, acc) for r, acc in zip(reducers, vectors, strict=True)]
        return [sums[start:end] for start, end in bounds]

    def _point(self, number: int, halves: Sequence[Reg]) -> None:
        """Says which of the two rows in each scratch is that of a stage."""
        k, e = self.k, self.k.e
        for buffer, base in self.passed_on:
            stores = (s for s in self.stages[number].body if isinstance(s, Store))
            half = halves[0 if any(s.buffer is buffer for s in stores) else 1]
            offset = e.binary("mul", half, e.const(self._bytes(buffer), I64))
            k.place(buffer, e.element_pointer(base, offset, "i8"))

    def _turned(self, number: Reg, steps: int, width: int) -> Reg:
        """The step of what is written, half a page or row away from what is read meanwhile."""
        e = self.k.e
        stores = [s for s in self.stages[-1].body if isinstance(s, Store)]
        step_bytes = width * max(s.buffer.type.dtype.bytes for s in stores)
        ahead = min(PAGE // 2 // step_bytes, steps // 2)
        later = e.binary("add", number, e.const(ahead, I64))
        wrapped = e.binary("sub", later, e.const(steps, I64))
        return e.select(e.icmp("slt", later, e.const(steps, I64)), later, wrapped)

    def _one(self, number: int, column: Reg, state: State, active: Reg) -> State:
        """One step of a stage, if a row is in it."""
        k, e, stage = self.k, self.k.e, self.stages[number]
        before, then, done = e.block, e.label("stage"), e.label("done")
        e.branch(active, then, done)
        e.start(then)
        k.bind(stage.index, Linear(column, e.const(1, I64)))
        k.statements(stage.body)
        if isinstance(stage, Loop):
            e.jump(done)
            e.start(done)
            return state
        following = combined(k, stage.reducers, state, terms(k, stage.reducers, column))
        end = e.block
        e.jump(done)
        e.start(done)
        merged = [
            e.assign(new.type, f"phi {new.type} [ {old.text}, %{before} ], [ {new.text}, %{end} ]")
            for old, new in zip(flat(state), flat(following), strict=True)
        ]
        return grouped(stage.reducers, merged)


def _scalar(binding: Binding) -> Reg:
    assert isinstance(binding, Reg), "what is handed on is one value a row"
    return binding
