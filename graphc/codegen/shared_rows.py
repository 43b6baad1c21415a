"""Rows that read the same vectors, as x + bias does: some rows at a time, a few lines of each.

Vectors as long as a row don't stay in the nearest cache while rows stream through it, so each row
would read them from the second, which takes as long as what comes from memory. Here a few lines of
them are read by several rows while they are near.

Invariant: rows are independent and so are their elements; each is computed once, by the code of the
plain loop, so the bits are those of the plain loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphc.codegen.caches import LINE
from graphc.codegen.emitter import I64
from graphc.codegen.streaming import ALWAYS, start_of_lines
from graphc.ir.dims import Dim
from graphc.kernel.ir import Apply, Cast, Const, DimValue, Load, Loop, Statement, Store

if TYPE_CHECKING:
    from graphc.codegen.kernel import KernelEmitter

ROWS = 8
"""Rows at a time. (x + bias) · row · column of 2048 x 4096 floats took 2.4 ms row by row, 1.95 with
4 or 8 at a time, and 2.06 with 16."""

BLOCK_BYTES = 512
"""What is written of a row at a time, and how far ahead is asked for what a row reads: with 2 KB it
took 2.3 ms, since that much of eight rows has no room."""

NEAR = 0.75
"""Rows that fill more than this part of the nearest cache lose what they read in common."""

_SCALARS = (Apply, Cast, Const, DimValue, Load)


def emit_shared_rows(k: KernelEmitter, rows: Loop) -> bool:
    """Emits a loop over rows, or nothing and False where they have nothing to share."""
    *before, row = rows.body
    if rows.kind != "parallel" or rows.carries or not isinstance(row, Loop):
        return False
    if row.kind != "vector" or not isinstance(row.extent, int) or k.ranges.cuts(row):
        return False
    if not all(isinstance(s, _SCALARS) for s in before):
        return False
    stores = [s for s in row.body if isinstance(s, Store)]
    if not all(isinstance(s, (*_SCALARS, Store)) for s in row.body):
        return False
    if any(k.streamed.get(store.buffer) is not ALWAYS for store in stores):
        return False
    size = max((store.buffer.type.dtype.bytes for store in stores), default=LINE)
    block = BLOCK_BYTES // size
    if row.extent < 2 * block or not _pays(k, rows, row, stores):
        return False
    _emit(k, rows, before, row, block)
    return True


def _pays(k: KernelEmitter, rows: Loop, row: Loop, stores: Sequence[Store]) -> bool:
    """Whether rows read vectors in common that a cache would lose, and all begin with a line."""

    def steps(statement: Load | Store) -> tuple[Dim | None, Dim | None]:
        """How far a place moves from row to row, and along a row."""
        form = k.forms.get(statement.index)
        if form is None:
            return None, None
        return form.coefficient(rows.index), form.coefficient(row.index)

    for store in stores:
        down, along = steps(store)
        if along != 1 or not isinstance(down, int) or down * store.buffer.type.dtype.bytes % LINE:
            return False
    loads = [s for s in row.body if isinstance(s, Load)]
    read = [(load, *steps(load)) for load in loads]
    if any(along is None or load.condition is not None for load, _, along in read):
        return False
    if not any(down == 0 and along == 1 for _, down, along in read):
        return False
    assert isinstance(row.extent, int), "so it was asked"
    taken = sum(row.extent * load.buffer.type.dtype.bytes for load, _, along in read if along == 1)
    return taken > NEAR * k.target.l1_bytes


def _emit(k: KernelEmitter, rows: Loop, before: Sequence[Statement], row: Loop, block: int) -> None:
    """Some rows, block by block of their columns."""
    e, zero = k.e, k.e.const(0, I64)
    assert isinstance(row.extent, int), "so it was asked"
    count = row.extent // block
    lower, upper = k.bounds(rows)
    with e.loop(lower, upper, ROWS) as some:
        last = e.intrinsic("smin", I64, e.binary("add", some.index, ROWS), upper)
        k.bind(rows.index, some.index)
        k.statements(before)
        # the first block begins with the row and the last ends with it; others are whole lines
        line = start_of_lines(k, row.body, row.index, row.extent, zero) or zero
        k.streaming.clear()
        with e.loop(zero, e.const(count, I64), 1) as part:
            first = e.binary("add", line, e.binary("mul", part.index, e.const(block, I64)))
            past = e.binary("add", first, e.const(block, I64))
            is_first = e.icmp("eq", part.index, zero)
            is_last = e.icmp("eq", part.index, e.const(count - 1, I64))
            begin = e.select(is_first, zero, first)
            end = e.select(is_last, e.const(row.extent, I64), past)
            with e.loop(some.index, last, 1) as one:
                k.bind(rows.index, one.index)
                k.statements(before)
                k.vector_loop(row, (begin, end), BLOCK_BYTES)
