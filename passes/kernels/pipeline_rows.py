"""Software-pipelined rows: while row r is in stage s, row r + 1 is in stage s - 1.

``graphc.codegen.kernels.software_pipelined_rows`` says what that gains.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.target import CACHE_LINE
from graphc.ir.dims.expressions import Dim
from graphc.kernel.ir import Block, Statement, walk
from graphc.kernel.schedule.pipelined import Pipelined
from graphc.kernel.schedule.row_stages import (
    buffers_read,
    columns_of,
    is_one_step,
    stages_of,
    width_of,
)
from graphc.kernel.statements.bodies import accesses_in
from passes.kernels.base import Choice, KernelContext, kernel_pass


@kernel_pass("parallel", "tile")
def pipeline_rows(statement: Statement, context: KernelContext) -> Choice:
    """Rows in several stages at the same time."""
    rows = statement.loop("parallel")
    if rows is None:
        return None
    stages, _ = stages_of(rows)
    if not stages:
        return None
    obstacle = _few(stages, context) or Pipelined.obstacle(context.nest, rows)
    if obstacle is None:
        obstacle = _loss(rows, stages, context)
    return obstacle or Pipelined(len(stages))


def _few(stages: Sequence[Block], context: KernelContext) -> str | None:
    """The reason that comes first, because every loop is asked for it."""
    if len(stages) < 2:
        return "a row has one stage"
    if len(stages) > context.tuning.pipeline_stages:
        return "there are not enough registers for so many stages"
    return None


def _loss(rows: Block, stages: Sequence[Block], context: KernelContext) -> str | None:
    """Why rows are faster one by one, by measurements."""
    tuning, width = context.tuning, width_of(stages)
    assert width is not None, "so it was found to be"
    one_step = is_one_step(stages)
    is_short = columns_of(stages) < tuning.pipeline_steps * width
    if is_short and not (one_step and context.target.masks):
        return "rows are short"
    if _bytes_at_work(stages) > tuning.pipeline_bytes:
        return "rows of all stages find no room in the second-level cache"
    if one_step or is_near(stages, tuning.pipeline_near_bytes):
        return None
    results = {buffer for s in stages[-1].body for buffer in s.writes}
    if any(columns_of(stages) * b.type.dtype.bytes % CACHE_LINE for b in results):
        return "rows of a large result are no whole lines"
    if not all(s.is_exact for s in walk(rows.body)):
        return None
    sizes = [buffer.type.bytes for buffer in results]
    if any(isinstance(size, int) and size < tuning.reducing_stream_bytes for size in sizes):
        return "the result is neither near nor streamed"
    # Where reading from memory takes most of the time, one stream without work in between is read
    # faster: mean and variance of 64 MB took 4 to 16 % longer pipelined, with prefetches as well.
    if sum(size for size in _sizes_read(stages) if isinstance(size, int)) > tuning.far_bytes:
        return "reading from memory takes most of the time"
    return None


def _bytes_at_work(stages: Sequence[Block]) -> int:
    """The bytes of rows that all stages read and write together."""
    rows = {
        (access.buffer, number)
        for number, stage in enumerate(stages)
        for access in accesses_in(stage.body)
    }
    return sum(buffer.type.dtype.bytes for buffer, _ in rows) * columns_of(stages)


def is_near(stages: Sequence[Block], size: int) -> bool:
    """Whether the arrays that the stages read are known to be of at most ``size`` bytes."""
    sizes = _sizes_read(stages)
    known = [bytes_ for bytes_ in sizes if isinstance(bytes_, int)]
    return known == sizes and sum(known) <= size


def _sizes_read(stages: Sequence[Block]) -> list[Dim]:
    """Bytes of the arrays that the stages read."""
    return [buffer.type.bytes for buffer in buffers_read(stages)]
