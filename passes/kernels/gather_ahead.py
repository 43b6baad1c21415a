"""Prefetches of gathered rows from a large table, some iterations before their turn.

The address of such a row is known only when its number has been read, and the hardware prefetcher
can't predict it, so each row would take a full memory latency. Only numbers that a later iteration
reads anyway are read in advance.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE
from graphc.base.tuning.machine import Tuning
from graphc.kernel.ir import Statement
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.gathered import Gathered
from graphc.kernel.schedule.picked_rows import Picked, picked_from
from passes.kernels.base import Choice, KernelContext, kernel_pass


@kernel_pass("parallel", "block_rows")
def gather_ahead(statement: Statement, context: KernelContext) -> Choice:
    """Prefetches of rows that iterations pick from tables which the near caches may not hold."""
    loop = statement.loop()
    if loop is None or loop in context.chosen:
        return None
    if not context.nest.kernel.sites:
        return None
    found: dict[Statement, Schedule] = {}
    tuning = context.tuning
    for picked in picked_from(loop):
        lines, size = _lines(picked, tuning), picked.load.buffer.type.bytes
        if lines and not (isinstance(size, int) and size <= tuning.near_bytes):
            found[picked.load] = Gathered(tuning.gather_iterations, lines)
    return found or "it picks no long rows of a large table"


def _lines(picked: Picked, tuning: Tuning) -> int:
    """How many lines of a row to fetch."""
    extent = picked.inner.extent
    if not isinstance(extent, int):
        return tuning.gather_unknown_lines
    row = extent * picked.load.buffer.type.dtype.bytes
    if row < tuning.gather_row_bytes:
        return 0
    return min(-(-row // CACHE_LINE), tuning.gather_lines)
