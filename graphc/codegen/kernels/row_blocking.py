"""Row blocking: some rows at a time, a few columns of each, where all rows read the same vectors.

Invariant: rows and their elements are independent. Each is computed once, by the code of the plain
loop, so the bits are those of the plain loop.
"""

from __future__ import annotations

from graphc.codegen.kernels.loops import emit_vector_loop
from graphc.codegen.kernels.nontemporal_stores import start_of_lines
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.kernel.ir import Block
from graphc.kernel.schedule.row_blocked import RowBlocked


@emits(RowBlocked)
def emit_shared_rows(k: KernelScope, rows: Block, schedule: RowBlocked) -> None:
    """Emits a loop over rows."""
    *before, last_of_row = rows.body
    row = last_of_row.block
    e, zero, block = k.e, k.e.const(0), schedule.columns
    assert row is not None and isinstance(row.extent, int), "so legality says"
    count = row.extent // block
    lower, upper = k.bounds(rows)
    with e.loop(lower, upper, schedule.rows) as some:
        last = e.least(some.index + schedule.rows, upper)
        k.bind(rows.index, some.index)
        k.statements(before)
        # the first block begins with the row and the last ends with it; others are whole lines
        found = start_of_lines(k, row.body, row.index, row.extent, zero)
        line = zero if found is None else found
        k.streaming.clear()
        with e.loop(zero, count) as part:
            first = line + part.index * block
            past = first + block
            is_first = part.index.equals(zero)
            is_last = part.index.equals(count - 1)
            begin = e.select(is_first, zero, first)
            end = e.select(is_last, row.extent, past)
            with e.loop(some.index, last) as one:
                k.bind(rows.index, one.index)
                k.statements(before)
                emit_vector_loop(k, row, k.kernel.schedule.get(row), (begin, end))
