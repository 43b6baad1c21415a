"""The stages of rows, and whether rows can be in different stages at the same time.

Invariant: rows that are found to fit may interleave in any order in which each row goes through its
stages in order. No row reads what another one writes, unless a result lies in the place of an
operand of the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from graphc.base.target import PAGE
from graphc.kernel.ir import Block, Buffer, Kernel, Statement, Var, lanes, walk
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import (
    accesses_in,
    blocks_in,
    loads_in,
    reductions_in,
    stores_in,
)

ASIDE = 8
"""Reductions over at most 1 / ASIDE of the columns are done before a stage, as those of leading
terms of a row."""

MAX_STACK_BYTES = 128 << 10
"""Bytes of the stack that rows passed on between stages may take."""

Scalars: TypeAlias = tuple[Statement, ...]


def stages_of(rows: Block) -> tuple[tuple[Block, ...], tuple[Scalars, ...]]:
    """The stages of a row, and the statements that run once a row before each and after the last.

    All stores of the latter come last: by then rows further on have read what they overwrite.
    """
    stages: list[Block] = []
    once: list[list[Statement]] = [[]]
    extents = [block.extent for block in blocks_in(rows.body)]
    columns = max((extent for extent in extents if isinstance(extent, int)), default=0)
    for statement in rows.body:
        block = statement.block
        if block is None:
            if not _is_store(statement):
                once[-1].append(statement)
        elif _is_aside(block, columns):
            once[-1].append(block)
        else:
            stages.append(block)
            once.append([])
    once[-1] += stores_in(rows.body)
    return tuple(stages), tuple(map(tuple, once))


def _is_store(statement: Statement) -> bool:
    """Whether a statement stores an element."""
    return statement.access is not None and bool(statement.writes)


def obstacle(rows: Block, kernel: Kernel) -> str | None:
    """Why rows cannot be in different stages at the same time; None if they can."""
    if rows.kind != "parallel" or rows.carries:
        return "rows are not independent"
    stages, once = stages_of(rows)
    if len(stages) < 2:
        return "a row has one stage"
    extent = stages[0].extent
    if not isinstance(extent, int) or any(stage.extent != extent for stage in stages):
        return "the stages have not one known number of columns"
    if width_of(stages) is None:
        return "the reductions have no lanes, or different ones"
    if not all(map(_is_plain, stages)):
        return "a stage is no plain loop over columns"
    if not all(_is_done_once(s) for group in once for s in group):
        return "what is done once a row is more than scalars"
    if not _keeps_order(rows, stages):
        return "a row could overwrite what a later one reads"
    follows = following_the_row(rows, stages)
    if any(access.index not in follows for access in accesses_in(walk(rows.body))):
        return "a place depends on what is read"
    handed = {var for need in handed_on(stages, once, follows) for var in need}
    if not all(var.dtype.is_float or var.dtype.kind == "bool" for var in handed):
        return "an integer is handed from stage to stage"
    if not _is_private(passed_on(stages), kernel, rows):
        return "more than the rows use what the stages pass on"
    if sum(count * size for _, count, size in rooms(stages)) > MAX_STACK_BYTES:
        return "what the stages pass on finds no room on the stack"
    return None


def _is_aside(block: Block, columns: int) -> bool:
    """True for a reduction over at most 1 / ASIDE of the columns, which is too short to be a stage
    of its own, and for one that few rows need."""
    extent = block.extent
    is_short = isinstance(extent, int) and extent * ASIDE <= columns
    return bool(block.reducers) and (is_short or block.condition is not None)


def _is_done_once(statement: Statement) -> bool:
    """Whether a statement is a scalar or its store, or a reduction of few columns."""
    block = statement.block
    if block is not None and block.reducers:
        return _is_plain(block) and not stores_in(block.body)
    return statement.is_plain


def _is_plain(stage: Block) -> bool:
    """Whether a stage is a loop over independent columns, or sums in lanes, of mere scalars."""
    if not stage.lanes_inside or stage.carries:
        return False
    if any(r.combine.startswith("arg") for r in stage.reducers):
        return False
    return all(statement.is_plain for statement in stage.body)


def width_of(stages: Sequence[Block]) -> int | None:
    """The columns of one step: the lanes of the reductions; None if these differ."""
    reducers = [r for stage in stages for r in stage.reducers]
    widths = {lanes(reducer.term.dtype) for reducer in reducers}
    return widths.pop() if len(widths) == 1 else None


def is_one_step(stages: Sequence[Block]) -> bool:
    """Whether rows have fewer columns than a step."""
    width = width_of(stages)
    return width is not None and columns_of(stages) < width


def columns_of(stages: Sequence[Block]) -> int:
    """How many columns rows have."""
    extent = stages[0].extent
    assert isinstance(extent, int), "so has it been found to be"
    return extent


def passed_on(stages: Sequence[Block]) -> list[Buffer]:
    """The scratch in which a stage leaves a row for the next, in order."""
    written = [buffer for stage in stages for s in stage.body for buffer in s.writes]
    return list(dict.fromkeys(buffer for buffer in written if buffer.role == "scratch"))


def rooms(stages: Sequence[Block]) -> list[tuple[Buffer, int, int]]:
    """The scratch that stages pass on, each buffer with the number of its rows in use together, a
    power of two, and the bytes of one row, wherever in a page it begins."""
    result = []
    for buffer in passed_on(stages):
        touching = [
            number
            for number, stage in enumerate(stages)
            if any(access.buffer is buffer for access in accesses_in(stage.body))
        ]
        rows = 1 << (touching[-1] - touching[0]).bit_length()
        row = -(-columns_of(stages) * buffer.type.dtype.bytes // PAGE) * PAGE + PAGE
        result.append((buffer, rows, row))
    return result


def _is_private(buffers: Sequence[Buffer], kernel: Kernel, rows: Block) -> bool:
    """Whether nothing but the loop over rows uses the buffers."""
    inside = set(walk(rows.body))
    used: set[Buffer] = set()
    for s in walk(kernel.body):
        if s not in inside or s.access is None:
            used.update(s.reads, s.writes, s.scratch)
    return used.isdisjoint(buffers)


def buffers_read(stages: Sequence[Block]) -> set[Buffer]:
    """The arrays that the stages read."""
    return {load.buffer for stage in stages for load in loads_in(stage.body)}


def fresh_loads(rows: Block, stages: Sequence[Block]) -> list[list[Access]]:
    """For each stage the loads of rows that no stage before it reads."""
    of_the_row = {rows.index}
    for s in walk(rows.body):
        if s.primitive is not None and of_the_row.intersection(s.operands):
            of_the_row.update(s.results)
    seen: set[Buffer] = {s.buffer for stage in stages for s in stores_in(stage.body)}
    result: list[list[Access]] = []
    for stage in stages:
        loads = [load for load in loads_in(stage.body) if load.index in of_the_row]
        result.append([load for load in loads if load.buffer not in seen])
        seen |= {load.buffer for load in loads}
    return result


def _keeps_order(rows: Block, stages: Sequence[Block]) -> bool:
    """Whether no element is overwritten before a row that is further on has read it.

    A row in scratch may be read by the stages behind the one that writes it. Results, which may lie
    where an operand does, are written by the last stage alone.
    """
    writer: dict[Buffer, int] = {}
    for number, stage in enumerate(stages):
        for s in stores_in(stage.body):
            if writer.setdefault(s.buffer, number) != number:
                return False
    for number, stage in enumerate(stages):
        for s in accesses_in(stage.body):
            is_last = number == len(stages) - 1
            if s.writes and s.buffer.role != "scratch" and not is_last:
                return False
            if s.buffer not in writer:
                continue
            if s.reads and writer[s.buffer] >= number:
                return False
            if s.buffer.role == "scratch" and s.index is not stage.index:
                return False
    aside = [s for s in reductions_in(rows.body) if s not in stages]
    once = accesses_in((*rows.body, *walk(aside)))
    read = {load.buffer for load in loads_in(walk(rows.body))}
    return not any(s.buffer in (writer if s.reads else read) for s in once)


def following_the_row(rows: Block, stages: Sequence[Block]) -> set[Var]:
    """Integers that follow from where the loops stand: places that are right for any row."""
    inside = {result for statement in walk(rows.body) for result in statement.results}
    follows = {rows.index, *(block.index for block in blocks_in(rows.body))}
    for s in walk(rows.body):
        operands, access = set(s.operands), s.access
        if s.is_arithmetic and not s.results[0].dtype.is_float:
            if not (operands & inside) - follows and not any(v.dtype.is_float for v in operands):
                follows.update(s.results)
        elif access is not None and access.index not in inside:
            follows.add(access.index)
    return follows


def makers(stages: Sequence[Block], once: Sequence[Scalars], follows: set[Var]) -> dict[Var, int]:
    """The stage at which a row gets each of its scalars."""
    made: dict[Var, int] = {}
    for number, stage in enumerate(stages):
        for statement in (*once[number], stage):
            made |= dict.fromkeys(statement.results, number)
    for var in follows:
        made.pop(var, None)
    return made


def handed_on(
    stages: Sequence[Block], once: Sequence[Scalars], follows: set[Var]
) -> list[dict[Var, int]]:
    """For each stage the scalars of earlier ones that it needs, and how many rows ago they were."""
    made = makers(stages, once, follows)
    result = []
    for number, stage in enumerate(stages):
        groups = [*once[number], stage]
        if number == len(stages) - 1:
            groups += once[-1]
        read = {var for statement in walk(groups) for var in statement.operands}
        result.append(
            {var: number - made[var] for var in made if var in read and made[var] < number}
        )
    return result
