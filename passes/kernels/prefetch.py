"""Prefetches of streams: the hardware prefetcher reads ahead to the end of a page only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from graphc.ir.dims.expressions import may_be, product
from graphc.ir.types import Shape
from graphc.kernel.ir import Block, Statement
from graphc.kernel.schedule.collapsed import Collapsed
from graphc.kernel.schedule.column_blocked import ColumnBlocked
from graphc.kernel.schedule.nest import row_of
from graphc.kernel.schedule.pipelined import Pipelined
from graphc.kernel.schedule.prefetched import Prefetched
from graphc.kernel.schedule.row_blocked import RowBlocked
from graphc.kernel.schedule.row_stages import columns_of, fresh_loads, stages_of, width_of
from graphc.kernel.schedule.streaming import Streaming
from graphc.kernel.schedule.vector import Vector
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import loads_in, reductions_in, stores_in
from passes.kernels.base import Choice, KernelContext, kernel_pass
from passes.kernels.pipeline_rows import is_near


@kernel_pass("loops", "gather_ahead", again=True)
def prefetch(statement: Statement, context: KernelContext) -> Choice:
    """Prefetches of the streams that a loop with a schedule reads."""
    loop, schedule = statement.loop(), context.chosen.get(statement)
    loads: Iterable[Access] = ()
    tuning = context.tuning
    distance, reason = Prefetched(*tuning.stream_prefetch), "what it writes stays in the caches"
    if loop is None or schedule is None:
        return None
    if isinstance(schedule, (Vector, Collapsed)):
        row = row_of(loop) if isinstance(schedule, Collapsed) else loop
        around = context.nest.around.get(loop)
        if around is not None and isinstance(context.chosen.get(around), RowBlocked):
            distance = Prefetched(tuning.row_block_bytes, 1)
        loads = _streamed(row or loop, context)
    elif isinstance(schedule, ColumnBlocked):
        distance = Prefetched(*tuning.column_prefetch)
        reason = "no array that it reads is known to come from memory"
        read = (load for one in reductions_in(loop.body) for load in loads_in(one.body))
        loads = (load for load in read if _is_far(load, tuning.far_bytes))
    elif isinstance(schedule, Pipelined):
        stages, _ = stages_of(loop)
        distance = Prefetched(*tuning.pipeline_prefetch)
        reason = "what it reads finds room in the second-level cache"
        if columns_of(stages) >= (width_of(stages) or 1):
            near = is_near(stages, tuning.near_bytes)
            loads = () if near else chain.from_iterable(fresh_loads(loop, stages))
    return {load: distance for load in loads if load not in context.chosen} or reason


def _streamed(loop: Block, context: KernelContext) -> Iterator[Access]:
    """The loads of a loop with non-temporal stores, of arrays as long as those written.

    With unknown sizes, also loads of arrays that may be as long. A row that every row of the result
    reads is cached already, and so are arrays that the kernel has read before.
    """
    stores = stores_in(loop.body)
    written = {s.buffer.type.shape for s in stores if isinstance(context.chosen.get(s), Streaming)}
    if not written:
        return
    count = Counter(load.buffer for load in context.nest.loads)
    for load in loads_in(loop.body):
        _, period = context.nest.periods.along(load, loop.index)
        beside = (load,) if period is None else period.members
        if load.condition is not None or count[load.buffer] != len(beside) or load is not beside[0]:
            continue
        if any(_may_be_as_long(load.buffer.type.shape, shape) for shape in written):
            yield load


def _may_be_as_long(shape: Shape, other: Shape) -> bool:
    if product(shape) == product(other):
        return True
    return len(shape) == len(other) and all(map(may_be, shape, other))


def _is_far(load: Access, far_bytes: int) -> bool:
    """Whether a load reads an array that is known to be larger, and so to come from memory."""
    size = load.buffer.type.bytes
    return isinstance(size, int) and size > far_bytes and load.condition is None
