"""Rows that are picked by number from a large table, prefetched some iterations before their turn.

Where such a row lies is known only when its number has been read, and no processor guesses it: each
row would be waited for. Of the numbers only those are read that a later iteration reads anyway.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE
from graphc.kernel.ir import Loop, Statement
from graphc.kernel.schedule.kinds import Gathered, Schedule
from graphc.kernel.schedule.picked_rows import Picked, picked_from
from passes.kernels.base import Choice, KernelContext

AHEAD = 4
"""Iterations. Taking 8192 of 50,000 rows of 256 floats took 0.47 ms on a Zen 4; fetched one row
ahead 0.34, 4 rows 0.31, 16 rows 0.34."""

MIN_ROW_BYTES = 2 * CACHE_LINE
"""Of shorter rows so many are under way at once that none is waited for long."""

MAX_LINES = 16
"""Lines of a row that are prefetched, beyond which the processor reads ahead by itself."""

UNKNOWN_LINES = 4
"""The same for rows of unknown length."""


def gather_ahead(loop: Statement, context: KernelContext) -> Choice:
    """Prefetches of rows that iterations pick from tables which the near caches may not hold."""
    if not isinstance(loop, Loop) or loop in context.chosen:
        return None
    if not context.nest.kernel.sites:
        return None
    found: dict[Statement, Schedule] = {}
    for picked in picked_from(loop):
        lines, size = _lines(picked), picked.load.buffer.type.bytes
        if lines and not (isinstance(size, int) and size <= context.target.l2_bytes):
            found[picked.load] = Gathered(AHEAD, lines)
    return found or "it picks no long rows of a large table"


def _lines(picked: Picked) -> int:
    """How many lines of a row to fetch."""
    extent = picked.inner.extent
    if not isinstance(extent, int):
        return UNKNOWN_LINES
    row = extent * picked.load.buffer.type.dtype.bytes
    return 0 if row < MIN_ROW_BYTES else min(-(-row // CACHE_LINE), MAX_LINES)
