"""Prefetches of what loops read in streams: processors read ahead up to the end of a page only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from graphc.base.target import FAR_BYTES
from graphc.ir.dims.expressions import may_be, product
from graphc.ir.types import Shape
from graphc.kernel.ir import Load, Loop, Reduce, Statement, Store
from graphc.kernel.schedule.kinds import (
    Collapsed,
    ColumnBlocked,
    Pipelined,
    Prefetched,
    RowBlocked,
    Streaming,
    Vector,
)
from graphc.kernel.schedule.nest import row_of
from graphc.kernel.schedule.row_stages import columns_of, fresh_loads, stages_of, width_of
from passes.kernels.base import Choice, KernelContext
from passes.kernels.block_rows import BLOCK_BYTES
from passes.kernels.pipeline_rows import is_near

STREAM = Prefetched(2048, 1)
"""Of a vector loop with non-temporal stores. On a Zen 4 relu(a·x + b)·c of 64 MB took 3.3 ms
without, 3.1 with 512 bytes, and 2.8 with 1 to 4 KB."""

BLOCK = Prefetched(BLOCK_BYTES, 1)
"""Of rows that are gone through some at a time."""

COLUMNS = Prefetched(1024, 2)
"""Of reductions down blocks of columns: column sums of 4096 x 4096 floats took 2.6 ms without, 2.3
so, and 3.3 when fetched into the first-level cache, where partial results lie. What lies in the
third-level cache is read faster without: 1024 x 1024 floats took a fifth longer so."""

ROWS = Prefetched(16 << 10, 2)
"""Of rows in stages. While functions are computed, what comes next is so on its way: softmax of
4096 x 1024 floats with other work on the machine takes 1.1 ms in place of 1.4, and layer norm,
alone, 0.76 in place of 0.83. Into the first-level cache layer norm took 10 % longer."""


def prefetch(loop: Statement, context: KernelContext) -> Choice:
    """Prefetches of what a loop that has a schedule reads in streams."""
    schedule = context.chosen.get(loop)
    loads: Iterable[Load] = ()
    distance, reason = STREAM, "what it writes stays in the caches"
    if not isinstance(loop, Loop) or schedule is None:
        return None
    if isinstance(schedule, (Vector, Collapsed)):
        row = row_of(loop) if isinstance(schedule, Collapsed) else loop
        around = context.nest.around.get(loop)
        if around is not None and isinstance(context.chosen.get(around), RowBlocked):
            distance = BLOCK
        loads = _streamed(row or loop, context)
    elif isinstance(schedule, ColumnBlocked):
        distance, reason = COLUMNS, "no array that it reads is known to come from memory"
        inner = [s for s in loop.body if isinstance(s, Reduce)]
        loads = (s for one in inner for s in one.body if isinstance(s, Load) and _is_far(s))
    elif isinstance(schedule, Pipelined):
        stages, _ = stages_of(loop)
        distance, reason = ROWS, "what it reads finds room in the second-level cache"
        if columns_of(stages) >= (width_of(stages) or 1):
            near = is_near(stages, context.target.l2_bytes)
            loads = () if near else chain.from_iterable(fresh_loads(loop, stages))
    return {load: distance for load in loads if load not in context.chosen} or reason


def _streamed(loop: Loop, context: KernelContext) -> Iterator[Load]:
    """The loads of a loop with non-temporal stores, of arrays as long as those written.

    Or of what may well be as long where sizes are unknown: a row that every row of the result reads
    lies in a cache already, as does what the kernel has read before.
    """
    stores = [s for s in loop.body if isinstance(s, Store)]
    written = {s.buffer.type.shape for s in stores if isinstance(context.chosen.get(s), Streaming)}
    if not written:
        return
    count = Counter(load.buffer for load in context.nest.loads)
    for load in loop.body:
        if not isinstance(load, Load) or load.condition is not None or count[load.buffer] != 1:
            continue
        if any(_may_be_as_long(load.buffer.type.shape, shape) for shape in written):
            yield load


def _may_be_as_long(shape: Shape, other: Shape) -> bool:
    if product(shape) == product(other):
        return True
    return len(shape) == len(other) and all(map(may_be, shape, other))


def _is_far(load: Load) -> bool:
    """Whether a load reads an array that is known to come from memory."""
    size = load.buffer.type.bytes
    return isinstance(size, int) and size > FAR_BYTES and load.condition is None
