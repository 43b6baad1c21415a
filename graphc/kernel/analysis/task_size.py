"""How finely the iterations of a split kernel are handed out (``analysis.split``), and when steps
side by side pay.

Decided for each binding of the dims, from the estimate of work that the kernel carries.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

SERIAL_WORK = 12_000_000
"""Picoseconds of work below which threads are left out. Handing out tasks takes 1 µs while threads
are awake: one row by 512 x 512 takes 11.5 µs alone and 6.2 by two. Those that sleep are not woken
at once for so little."""

WAKE_WORK = 300_000_000
"""Picoseconds of work below which threads that sleep are not woken at once: a sum took 65 µs
alone, 75 to 80 with a thread that had to be woken, and half as long with one that was awake."""

TASK_WORK = 5_000_000
"""Picoseconds that a task lasts at least, so that claiming it (0.1 µs) does not count."""

TASKS_PER_THREAD = 4
"""Tasks for each thread where there is enough work, so that a thread that is late costs little."""

GROUP_WORK = 4_000_000
"""Picoseconds that steps side by side have to save: handing out tasks takes 1 µs while threads are
awake, and the end of the last one is waited for."""


def span_beside(works: Sequence[int], threads: int) -> int:
    """What tasks take that so many threads share, the longest first."""
    loads = [0] * min(threads, len(works))
    for work in sorted(works, reverse=True):
        heapq.heapreplace(loads, loads[0] + work)
    return max(loads)


def saved_beside(works: Sequence[int], threads: int) -> int:
    """How much sooner tasks that take so long are over if so many threads share them, handing them
    out included; less than nothing where it doesn't pay."""
    return sum(works) - span_beside(works, threads) - GROUP_WORK


def task_count(work: int, extent: int, threads: int, least: int = 1) -> int:
    """Into how many tasks to cut so many iterations of so much work in all.

    A task has at least so many iterations.
    """
    if work < SERIAL_WORK or threads < 2:
        return 1
    return max(1, min(work // TASK_WORK, TASKS_PER_THREAD * threads, extent // least))


def grain_of(work: int, extent: int, threads: int, least: int = 1) -> int:
    """Iterations a task; 0 where one thread is to run them all.

    Of the two nearest to the wished number of tasks, that which has all threads done sooner, if
    all tasks take alike: ten iterations for two threads are ten tasks, not five.
    """
    tasks = task_count(work, extent, threads, least)
    if tasks < 2:
        return 0

    def longest(grain: int) -> int:
        rounds = -(-extent // grain)
        return -(-rounds // threads) * grain

    return min(-(-extent // tasks), max(extent // tasks, least), key=longest)
