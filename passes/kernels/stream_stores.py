"""Non-temporal stores for results so large that they leave the caches before they are used.

An ordinary store first reads the line it writes to; a non-temporal one does not, which saves a
third of the traffic of a kernel that reads one array and writes another. It needs whole aligned
lines, so vector loops start at the first element of a line. Values are the same either way.
"""

from __future__ import annotations

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.kinds import Streaming
from graphc.kernel.schedule.legality import stream_obstacle
from passes.kernels.base import Choice, KernelContext


def stream_stores(statement: Statement, context: KernelContext) -> Choice:
    """A non-temporal store of a large result."""
    store = statement.access
    if store is None or stream_obstacle(context.nest, store) is not None:
        return None
    if not context.target.streams:
        return "the target has no non-temporal stores of vectors"
    size, tuning = store.buffer.type.bytes, context.tuning
    bound = tuning.reducing_stream_bytes if context.nest.reduces else tuning.stream_bytes
    if isinstance(size, int) and size < bound:
        return "what it writes finds room in the caches"
    return Streaming(bound, tuning.stream_row_bytes)
