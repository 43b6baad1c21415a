"""Tiles for loops "across" the vector loop inside them: transposes and what is fused with them.

Along the vector loop such a kernel would read single elements of lines that lie far apart. A tile
is read along the outer loop instead, where they are neighbours, and transposed in registers.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE
from graphc.kernel.analysis.index_range import loads_across
from graphc.kernel.ir import Loop, Statement, Var
from graphc.kernel.schedule.kinds import Tiled
from graphc.kernel.schedule.legality import tile_obstacle
from graphc.kernel.schedule.nest import tile_extent
from passes.kernels.base import Choice, KernelContext


def tile(outer: Statement, context: KernelContext) -> Choice:
    """Tiles of a loop and the vector loop inside it."""
    obstacle = tile_obstacle(context.nest, outer)
    inner = outer.body[-1] if isinstance(outer, Loop) and outer.body else None
    if obstacle is not None or not isinstance(outer, Loop) or not isinstance(inner, Loop):
        return obstacle
    loads = loads_across(context.nest.forms, inner.body, outer.index, inner.index)
    size = max(load.result.dtype.bytes for load in loads)
    most = min(context.tuning.tile_side, CACHE_LINE // size)
    assert not isinstance(outer.extent, Var) and not isinstance(inner.extent, Var)
    rows, columns = tile_extent(outer.extent, most), tile_extent(inner.extent, most)
    if min(rows, columns) < 2:
        return "there is one row or one column"
    return Tiled(rows, columns, context.tuning.tile_block_bytes)
