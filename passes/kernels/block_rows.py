"""Row blocking for rows that read the same vectors, as x + bias does.

Vectors as long as a row don't stay in the nearest cache while rows stream through it. Each row
would read them from the second-level cache, which takes as long as the rows from memory. With
blocks of some rows and a few lines of each, rows share lines that are in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.target import CACHE_LINE
from graphc.ir.dims.expressions import Dim
from graphc.kernel.ir import Block, Statement
from graphc.kernel.schedule.nest import row_of
from graphc.kernel.schedule.row_blocked import RowBlocked
from graphc.kernel.schedule.streaming import Streaming
from graphc.kernel.schedule.vector import Vector
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import loads_in, stores_in
from passes.kernels.base import Choice, KernelContext, kernel_pass


@kernel_pass("parallel", "vectorize")
def block_rows(statement: Statement, context: KernelContext) -> Choice:
    """Several rows at a time, where all of them read lines that the cache would evict."""
    rows, row = statement.block, row_of(statement)
    if rows is None or row is None:
        return None
    obstacle = RowBlocked.obstacle(context.nest, rows)
    if obstacle is not None:
        return obstacle
    if not isinstance(context.chosen.get(row), Vector):
        return "a row runs element by element"
    stores = stores_in(row.body)
    if not all(_always_streams(store, context) for store in stores):
        return "what is written may stay in the caches"
    size = max((store.buffer.type.dtype.bytes for store in stores), default=CACHE_LINE)
    columns = context.tuning.row_block_bytes // size
    assert isinstance(row.extent, int), "so it was found to be"
    if row.extent < 2 * columns:
        return "rows are short"
    count = context.tuning.row_block_rows
    return _loss(rows, row, stores, context) or RowBlocked(count, columns)


def _always_streams(store: Access, context: KernelContext) -> bool:
    found, size = context.chosen.get(store), store.buffer.type.bytes
    return isinstance(found, Streaming) and isinstance(size, int) and size >= found.array


def _loss(rows: Block, row: Block, stores: Sequence[Access], context: KernelContext) -> str | None:
    """Why it doesn't pay: rows share no lines that a cache would evict, or begin within a line."""
    forms = context.nest.forms

    def steps(access: Access) -> tuple[Dim | None, Dim | None]:
        """How far a place moves from row to row, and along a row."""
        form = forms.get(access.index)
        if form is None:
            return None, None
        return form.coefficient(rows.index), form.coefficient(row.index)

    for store in stores:
        down, along = steps(store)
        size = store.buffer.type.dtype.bytes
        if along != 1 or not isinstance(down, int) or down * size % CACHE_LINE:
            return "rows do not all begin with a line"
    loads = loads_in(row.body)
    read = [(load, *steps(load)) for load in loads]
    if any(along is None or load.condition is not None for load, _, along in read):
        return "a row reads what depends on what is read"
    if not any(down == 0 and along == 1 for _, down, along in read):
        return "rows read no vector in common"
    assert isinstance(row.extent, int), "so it was found to be"
    taken = sum(row.extent * load.buffer.type.dtype.bytes for load, _, along in read if along == 1)
    if taken <= context.tuning.row_block_shared_bytes:
        return "what rows read in common stays in the nearest cache"
    return None
