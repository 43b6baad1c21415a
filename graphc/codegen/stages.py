"""The stages of rows, and whether rows can be in different stages at the same time.

Invariant: what is found to fit is right for any rows and any order of their work in which each row
goes through its stages in order: no row reads what another one writes, but for what lies where an
operand of its own does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from graphc.base.target import Target
from graphc.codegen.caches import FAR_BYTES, LINE
from graphc.codegen.elementary import NAMES
from graphc.codegen.pages import PAGE
from graphc.codegen.streaming import REDUCING_STREAM_BYTES
from graphc.ir.dims import Dim
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

MAX_STAGES, MAX_STAGES_WIDE = 3, 4
"""More stages have more constants and accumulators than there are registers, of which there are
twice as many where they are widest. The gradient of softmax, of four stages, takes 24 cycles for 16
floats with AVX-512 in place of 27 row by row, but with AVX2 41 in place of 38."""

MIN_STEPS = 8
"""Shorter rows spend most of their time between loops over their columns."""

ASIDE = 8
"""Reductions of one of so many columns are done before a stage, as of what leads a row."""

ROOM = 0.5
"""How much of the second-level cache the rows at work may take."""

MAX_STACK_BYTES = 128 << 10
"""How much of the stack the rows may take that stages pass on."""

NEAR_BYTES = 4 << 20
"""If all that rows are read from is smaller, so are their results, and caches have the lines that
are written. Elsewhere a line is waited for, with other stages in between longer than without: layer
norm took 14.4 cycles for 16 floats of 8 MB row by row, staggered 25. What goes past the caches, in
whole lines, is not waited for: then it took 12.4."""

_SCALARS = (Apply, Cast, Const, DimValue, Load)

Stage: TypeAlias = Reduce | Loop
Scalars: TypeAlias = tuple[Statement, ...]


def stages_of(
    rows: Loop, kernel: Kernel, target: Target
) -> tuple[tuple[Stage, ...], tuple[Scalars, ...]] | None:
    """The stages of rows, and what is done once a row before each and after the last one.

    None if rows cannot be in different stages at the same time, or it would not pay.
    """
    stages, once = _cut(rows.body)
    if not _fits(rows, stages, once, target) or not _is_private(passed_on(stages), kernel, rows):
        return None
    if _bytes_at_work(stages) > ROOM * target.l2_bytes or not _pays(rows, stages):
        return None
    if sum(count * size for _, count, size in rooms(stages)) > MAX_STACK_BYTES:
        return None
    return stages, once


def _cut(body: Sequence[Statement]) -> tuple[tuple[Stage, ...], tuple[Scalars, ...]]:
    """The stages of a row, and what is done once a row before each of them and after the last.

    All stores of the latter come last: by then rows further on have read what they overwrite.
    """
    stages: list[Stage] = []
    once: list[list[Statement]] = [[]]
    extents = [s.extent for s in body if isinstance(s, (Reduce, Loop))]
    columns = max((extent for extent in extents if isinstance(extent, int)), default=0)
    for statement in body:
        if _is_aside(statement, columns):
            once[-1].append(statement)
        elif isinstance(statement, (Reduce, Loop)):
            stages.append(statement)
            once.append([])
        elif not isinstance(statement, Store):
            once[-1].append(statement)
    once[-1] += [statement for statement in body if isinstance(statement, Store)]
    return tuple(stages), tuple(map(tuple, once))


def _is_aside(statement: Statement, columns: int) -> bool:
    """Whether a statement reduces so few of that many columns, or few rows need it, that it is no
    stage."""
    if not isinstance(statement, Reduce):
        return False
    extent = statement.extent
    is_short = isinstance(extent, int) and extent * ASIDE <= columns
    return is_short or statement.condition is not None


def _fits(rows: Loop, stages: Sequence[Stage], once: Sequence[Scalars], target: Target) -> bool:
    most = MAX_STAGES_WIDE if target.vector_bits == 512 else MAX_STAGES
    if rows.kind != "parallel" or not 2 <= len(stages) <= most:
        return False
    extent, width = stages[0].extent, width_of(stages)
    if width is None or not isinstance(extent, int):
        return False
    if any(stage.extent != extent for stage in stages):
        return False
    if extent < MIN_STEPS * width and not (is_one_step(stages) and target.masks):
        return False
    if not all(map(_is_plain, stages)):
        return False
    if not all(_is_done_once(s) for group in once for s in group):
        return False
    if not _keeps_order(rows, stages):
        return False
    follows = following_the_row(rows, stages)
    if any(s.index not in follows for s in walk(rows.body) if isinstance(s, (Load, Store))):
        return False
    handed = {var for need in handed_on(stages, once, follows) for var in need}
    return all(var.dtype.is_float or var.dtype.kind == "bool" for var in handed)


def _is_done_once(statement: Statement) -> bool:
    """Whether a statement is a scalar or its store, or a reduction of few columns."""
    if isinstance(statement, Reduce):
        return _is_plain(statement) and not any(isinstance(s, Store) for s in statement.body)
    return isinstance(statement, (*_SCALARS, Store))


def _is_plain(stage: Stage) -> bool:
    """Whether a stage is a loop over independent columns, or sums in lanes, of mere scalars."""
    if isinstance(stage, Loop):
        if stage.kind != "vector" or stage.carries:
            return False
    elif stage.order != "lanes" or any(r.combine.startswith("arg") for r in stage.reducers):
        return False
    return all(isinstance(statement, (*_SCALARS, Store)) for statement in stage.body)


def width_of(stages: Sequence[Stage]) -> int | None:
    """The columns of one step: the lanes of the reductions; None if these differ."""
    reducers = [r for stage in stages if isinstance(stage, Reduce) for r in stage.reducers]
    widths = {lanes(reducer.term.dtype) for reducer in reducers}
    return widths.pop() if len(widths) == 1 else None


def is_one_step(stages: Sequence[Stage]) -> bool:
    """Whether rows have fewer columns than a step."""
    width = width_of(stages)
    return width is not None and columns_of(stages) < width


def columns_of(stages: Sequence[Stage]) -> int:
    """How many columns rows have."""
    extent = stages[0].extent
    assert isinstance(extent, int), "so has it been found to be"
    return extent


def passed_on(stages: Sequence[Stage]) -> list[Buffer]:
    """The scratch in which a stage leaves a row for the next, in order."""
    stores = [s for stage in stages for s in stage.body if isinstance(s, Store)]
    return list(dict.fromkeys(s.buffer for s in stores if s.buffer.role == "scratch"))


def rooms(stages: Sequence[Stage]) -> list[tuple[Buffer, int, int]]:
    """What stages pass on: how many rows of it are in use together, a power of two, and the bytes
    of one, wherever in a page it begins."""
    result = []
    for buffer in passed_on(stages):
        touching = [
            number
            for number, stage in enumerate(stages)
            if any(isinstance(s, (Load, Store)) and s.buffer is buffer for s in stage.body)
        ]
        rows = 1 << (touching[-1] - touching[0]).bit_length()
        row = -(-columns_of(stages) * buffer.type.dtype.bytes // PAGE) * PAGE + PAGE
        result.append((buffer, rows, row))
    return result


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
    rows = {
        (s.buffer, number)
        for number, stage in enumerate(stages)
        for s in stage.body
        if isinstance(s, (Load, Store))
    }
    return sum(buffer.type.dtype.bytes for buffer, _ in rows) * columns_of(stages)


def _pays(rows: Loop, stages: Sequence[Stage]) -> bool:
    """Whether rows are done sooner in several stages than one by one, by what was measured."""
    if is_one_step(stages) or is_near(stages, NEAR_BYTES):
        return True
    results = {s.buffer for s in stages[-1].body if isinstance(s, Store)}
    if any(columns_of(stages) * buffer.type.dtype.bytes % LINE for buffer in results):
        return False
    if any(isinstance(s, Apply) and s.primitive in NAMES for s in walk(rows.body)):
        return True
    sizes = [buffer.type.bytes for buffer in results]
    if any(isinstance(size, int) and size < REDUCING_STREAM_BYTES for size in sizes):
        return False
    # Where reading from memory takes most of the time, one stream without work in between is read
    # faster: mean and variance of 64 MB took 4 to 16 % longer staggered, with asking ahead as well.
    return sum(size for size in _sizes_read(stages) if isinstance(size, int)) <= FAR_BYTES


def is_near(stages: Sequence[Stage], size: int) -> bool:
    """Whether what the stages read is known to be no larger than that."""
    sizes = _sizes_read(stages)
    known = [bytes_ for bytes_ in sizes if isinstance(bytes_, int)]
    return known == sizes and sum(known) <= size


def _sizes_read(stages: Sequence[Stage]) -> list[Dim]:
    """Bytes of the arrays that the stages read."""
    read = {s.buffer for stage in stages for s in stage.body if isinstance(s, Load)}
    return [buffer.type.bytes for buffer in read]


def fresh_loads(rows: Loop, stages: Sequence[Stage]) -> list[list[Load]]:
    """For each stage the loads of rows that no stage before it reads."""
    of_the_row = {rows.index}
    for s in walk(rows.body):
        if isinstance(s, Apply) and of_the_row.intersection(s.operands):
            of_the_row.add(s.result)
    seen: set[Buffer] = {s.buffer for stage in stages for s in stage.body if isinstance(s, Store)}
    result: list[list[Load]] = []
    for stage in stages:
        loads = [s for s in stage.body if isinstance(s, Load) and s.index in of_the_row]
        result.append([load for load in loads if load.buffer not in seen])
        seen |= {load.buffer for load in loads}
    return result


def _keeps_order(rows: Loop, stages: Sequence[Stage]) -> bool:
    """Whether no element is overwritten before a row that is further on has read it.

    A row in scratch may be read by the stages behind the one that writes it. Results, which may lie
    where an operand does, are written by the last stage alone.
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
            if isinstance(s, Load) and writer[s.buffer] >= number:
                return False
            if s.buffer.role == "scratch" and s.index is not stage.index:
                return False
    aside = [s for s in rows.body if isinstance(s, Reduce) and s not in stages]
    once = [s for s in (*rows.body, *walk(aside)) if isinstance(s, (Load, Store))]
    read = {s.buffer for s in walk(rows.body) if isinstance(s, Load)}
    return not any(s.buffer in (writer if isinstance(s, Load) else read) for s in once)


def following_the_row(rows: Loop, stages: Sequence[Stage]) -> set[Var]:
    """Integers that follow from where the loops stand: places that are right for any row."""
    inside = {result for statement in walk(rows.body) for result in results_of(statement)}
    follows = {rows.index, *(s.index for s in rows.body if isinstance(s, (Reduce, Loop)))}
    for s in walk(rows.body):
        operands = set(operands_of(s))
        if isinstance(s, (Apply, Const, DimValue)) and not s.result.dtype.is_float:
            if not (operands & inside) - follows and not any(v.dtype.is_float for v in operands):
                follows.add(s.result)
        elif isinstance(s, (Load, Store)) and s.index not in inside:
            follows.add(s.index)
    return follows


def results_of(statement: Statement) -> tuple[Var, ...]:
    """The scalars of a row that a statement gives."""
    if isinstance(statement, Reduce):
        return tuple(reducer.result for reducer in statement.reducers)
    return (statement.result,) if isinstance(statement, _SCALARS) else ()


def makers(stages: Sequence[Stage], once: Sequence[Scalars], follows: set[Var]) -> dict[Var, int]:
    """The stage at which a row gets each of its scalars."""
    made: dict[Var, int] = {}
    for number, stage in enumerate(stages):
        for statement in (*once[number], stage):
            made |= dict.fromkeys(results_of(statement), number)
    for var in follows:
        made.pop(var, None)
    return made


def handed_on(
    stages: Sequence[Stage], once: Sequence[Scalars], follows: set[Var]
) -> list[dict[Var, int]]:
    """For each stage the scalars of earlier ones that it needs, and how many rows ago they were."""
    made = makers(stages, once, follows)
    result = []
    for number, stage in enumerate(stages):
        groups = [*once[number], stage]
        if number == len(stages) - 1:
            groups += once[-1]
        read = {var for statement in walk(groups) for var in operands_of(statement)}
        result.append(
            {var: number - made[var] for var in made if var in read and made[var] < number}
        )
    return result
