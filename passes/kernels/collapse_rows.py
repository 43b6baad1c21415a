"""Collapsed rows: rows that follow each other in memory, as one loop if they are no whole vectors.

Maps are lowered so already. Work behind a matrix product is a loop over the rows of a block. Rows
that are written in place would wait for each other: a masked load waits for the masked store before
it, whichever lanes they have, because it can't be store-forwarded.
"""

from __future__ import annotations

from graphc.ir.dims.expressions import product
from graphc.kernel.ir import Statement, Var
from graphc.kernel.schedule.collapsed import Collapsed
from graphc.kernel.schedule.nest import row_of
from passes.kernels.base import Choice, KernelContext, kernel_pass
from passes.kernels.vectorize import lanes_of


@kernel_pass("parallel", "pipeline_rows")
def collapse_rows(statement: Statement, context: KernelContext) -> Choice:
    """A loop over rows as one over their elements."""
    rows, row = statement.block, row_of(statement)
    if rows is None or row is None:
        return None
    if isinstance(row.extent, int) and row.extent % context.tuning.whole_row == 0:
        return "rows have no loop tail"
    obstacle = Collapsed.obstacle(context.nest, rows)
    if obstacle is not None or isinstance(rows.extent, Var) or isinstance(row.extent, Var):
        return obstacle
    return Collapsed(lanes_of(row.body, product((rows.extent, row.extent)), context))
