"""Non-temporal stores for results so large that they leave the caches before they are used.

``graphc.codegen.kernels.nontemporal_stores`` says what that gains and needs.
"""

from __future__ import annotations

from graphc.kernel.ir import Statement
from graphc.kernel.schedule.streaming import Streaming
from passes.kernels.base import Choice, KernelContext, kernel_pass


@kernel_pass("stores")
def stream_stores(statement: Statement, context: KernelContext) -> Choice:
    """A non-temporal store of a large result."""
    store = statement.access
    if store is None or Streaming.obstacle(context.nest, store) is not None:
        return None
    if not context.target.streams:
        return "the target has no non-temporal stores of vectors"
    size, tuning = store.buffer.type.bytes, context.tuning
    bound = tuning.reducing_stream_bytes if context.nest.reduces else tuning.stream_bytes
    if isinstance(size, int) and size < bound:
        return "what it writes finds room in the caches"
    return Streaming(bound, tuning.stream_row_bytes)
