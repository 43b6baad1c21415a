"""Non-temporal stores for results so large that they leave the caches before they are used.

An ordinary store first reads the line it writes to; a non-temporal one does not, which saves a
third of the traffic of a kernel that reads one array and writes another. It needs whole aligned
lines, so vector loops start at the first element of a line. Values are the same either way.
"""

from __future__ import annotations

from graphc.kernel.ir import Statement, Store
from graphc.kernel.schedule.kinds import Streaming
from graphc.kernel.schedule.legality import stream_obstacle
from passes.kernels.base import Choice, KernelContext

STREAM_BYTES = 12 << 20
"""Results from this size on bypass the caches. A pointwise kernel whose 12 MB were read next took
a third less time where they were fresh each time, a fifth more where they were the same."""

REDUCING_STREAM_BYTES = 8 << 20
"""The same for kernels that reduce: with rows in several stages, lines that no cache has are waited
for when they are written. Softmax of 8 MB and reading that took 0.8 ms in place of 1.35 where its
result was fresh each time, and 0.75 in place of 0.65 where it was the same."""

MIN_ROW_BYTES = 2048
"""Loops that write less at a time would lose more at their ends than the stores gain."""


def stream_stores(store: Statement, context: KernelContext) -> Choice:
    """A non-temporal store of a large result."""
    if not isinstance(store, Store) or stream_obstacle(context.nest, store) is not None:
        return None
    if not context.target.streams:
        return "the target has no non-temporal stores of vectors"
    size = store.buffer.type.bytes
    bound = REDUCING_STREAM_BYTES if context.nest.reduces else STREAM_BYTES
    if isinstance(size, int) and size < bound:
        return "what it writes finds room in the caches"
    return Streaming(bound, MIN_ROW_BYTES)
