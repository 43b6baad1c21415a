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

MAX_TILE = 16
"""Rows and columns of a tile; elements of eight bytes fill a line with half as many. Of shorter
elements tiles past the caches have as many as fill a line: parts of lines there take memory ten
times as long."""

BLOCK_BYTES = 384
"""What is written together past the caches. With 256 bytes one thread took 4 % longer for 4096 x
4096 float32 on a Zen 4 and 6 % for 4096 x 2048 float64; with 512 two threads took 4 % longer for
float32, since sources that lie 16 KB apart share 64 lines of its second-level cache. Rows no longer
than that are near each other in any order: 16 x 96 x 112 x 112 float32 to channels last took a
third longer by blocks."""


def tile(outer: Statement, context: KernelContext) -> Choice:
    """Tiles of a loop and the vector loop inside it."""
    obstacle = tile_obstacle(context.nest, outer)
    inner = outer.body[-1] if isinstance(outer, Loop) and outer.body else None
    if obstacle is not None or not isinstance(outer, Loop) or not isinstance(inner, Loop):
        return obstacle
    loads = loads_across(context.nest.forms, inner.body, outer.index, inner.index)
    size = max(load.result.dtype.bytes for load in loads)
    most = min(MAX_TILE, CACHE_LINE // size)
    assert not isinstance(outer.extent, Var) and not isinstance(inner.extent, Var)
    rows, columns = tile_extent(outer.extent, most), tile_extent(inner.extent, most)
    if min(rows, columns) < 2:
        return "there is one row or one column"
    return Tiled(rows, columns, BLOCK_BYTES)
