"""Tiles for ``across`` loops around a vector loop: transposes with their fused work.

Along the vector loop such a kernel would gather single elements of lines that lie far apart. A
tile is read along the outer loop instead, where its elements are neighbours, and transposed in
registers.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE
from graphc.kernel.analysis.index_range import loads_across
from graphc.kernel.ir import Statement, Var
from graphc.kernel.schedule.nest import tile_extent
from graphc.kernel.schedule.tiled import Tiled
from passes.kernels.base import Choice, KernelContext, kernel_pass


@kernel_pass("across", "stream_stores")
def tile(statement: Statement, context: KernelContext) -> Choice:
    """Tiles of a loop and the vector loop inside it."""
    obstacle, outer = Tiled.obstacle(context.nest, statement), statement.block
    inner = None if outer is None or not outer.body else outer.body[-1].block
    if obstacle is not None or outer is None or inner is None:
        return obstacle
    loads = loads_across(context.nest.forms, inner.body, outer.index, inner.index)
    size = max(load.value.dtype.bytes for load in loads)
    most = min(context.tuning.tile_side, CACHE_LINE // size)
    assert not isinstance(outer.extent, Var) and not isinstance(inner.extent, Var)
    rows, columns = tile_extent(outer.extent, most), tile_extent(inner.extent, most)
    if min(rows, columns) < 2:
        return "there is one row or one column"
    return Tiled(rows, columns, context.tuning.tile_block_bytes)
