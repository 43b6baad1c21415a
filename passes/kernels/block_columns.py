"""Column blocking: reductions down columns take a few rows at a time over a wide block of columns.

One vector of columns at a time would touch a new page with each row. The rows of a block are read
in streams instead, while the levels of every column's cascade lie on the stack.
"""

from __future__ import annotations

from graphc.kernel.cascade import levels_of, parts_of
from graphc.kernel.ir import Statement, walk
from graphc.kernel.schedule.column_blocked import ColumnBlocked
from graphc.kernel.statements.bodies import reductions_in
from passes.kernels.base import Choice, KernelContext, kernel_pass
from passes.kernels.vectorize import lanes_of


@kernel_pass("vector", "collapse_rows")
def block_columns(statement: Statement, context: KernelContext) -> Choice:
    """Blocks of columns for cheap reductions of many."""
    loop = statement.loop()
    reductions = reductions_in(statement.body)
    if loop is None or not reductions:
        return None
    tuning = context.tuning
    if isinstance(loop.extent, int) and loop.extent < tuning.column_block_columns:
        return "there are few columns"
    obstacle = ColumnBlocked.obstacle(context.nest, loop)
    if obstacle is not None:
        return obstacle
    if not all(s.is_exact for s in walk(loop.body)):
        return "functions take longer than reading"
    if all(isinstance(s.extent, int) and s.extent <= tuning.column_block_rows for s in reductions):
        return "there are few rows"
    lanes = lanes_of(loop.body, loop.extent, context)
    size = max(r.term.dtype.bytes for s in reductions for r in s.reducers)
    arrays = sum(levels_of(s) * parts_of(r) for s in reductions for r in s.reducers)
    columns = tuning.column_block_bytes // size
    while columns * size * arrays > tuning.column_stack_bytes and columns > lanes:
        columns //= 2
    return ColumnBlocked(lanes, columns)
