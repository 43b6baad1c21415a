"""Task sizes: how finely the iterations of a split kernel are handed out (``analysis.split``), and
when a concurrent group pays.

Decided for each binding of the dims, from the estimate of work that stands with the kernel.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from graphc.base.tuning.tasks import TASKS


def span_beside(works: Sequence[int], threads: int) -> int:
    """The makespan of tasks on ``threads`` threads, the longest first, in picoseconds."""
    loads = [0] * min(threads, len(works))
    for work in sorted(works, reverse=True):
        heapq.heapreplace(loads, loads[0] + work)
    return max(loads)


def saved_beside(works: Sequence[int], threads: int) -> int:
    """Picoseconds that ``threads`` threads save if they share tasks of these ``works``, less
    ``GROUP_WORK`` for handing them out; negative where that doesn't pay."""
    return sum(works) - span_beside(works, threads) - TASKS.group_work


def task_count(work: int, extent: int, threads: int, least: int = 1) -> int:
    """Into how many tasks to cut ``extent`` iterations of ``work`` picoseconds in all.

    A task has at least ``least`` iterations.
    """
    if work < TASKS.serial_work or threads < 2:
        return 1
    return max(1, min(work // TASKS.task_work, TASKS.tasks_per_thread * threads, extent // least))


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
