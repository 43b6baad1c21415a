"""Rows that follow each other in memory, run through as one where they are no whole vectors.

Maps are lowered so; what stands behind a matrix product is a loop over the rows of a block. Rows
that are written where they were read would wait for each other otherwise: a load of some lanes
waits for the store of some lanes before it, whichever they are.
"""

from __future__ import annotations

from graphc.ir.dims.expressions import product
from graphc.kernel.ir import Statement, Var
from graphc.kernel.schedule.kinds import Collapsed
from graphc.kernel.schedule.legality import collapse_obstacle
from graphc.kernel.schedule.nest import row_of
from passes.kernels.base import Choice, KernelContext
from passes.kernels.vectorize import lanes_of


def collapse_rows(statement: Statement, context: KernelContext) -> Choice:
    """A loop over rows as one over their elements."""
    rows, row = statement.block, row_of(statement)
    if rows is None or row is None:
        return None
    if isinstance(row.extent, int) and row.extent % context.tuning.whole_row == 0:
        return "rows have no loop tail"
    obstacle = collapse_obstacle(context.nest, rows)
    if obstacle is not None or isinstance(rows.extent, Var) or isinstance(row.extent, Var):
        return obstacle
    return Collapsed(lanes_of(row.body, product((rows.extent, row.extent)), context))
