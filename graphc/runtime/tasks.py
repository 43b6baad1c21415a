"""Which launches of a plan are cut into tasks, and which run concurrently, at one binding.

Neither changes a bit of a result (``graphc.kernel.analysis.split``), so these decisions are free;
they are made in advance, and nothing is left to decide when a launch comes. The run time of
libraries decides the same (``graphc.aot.native.binding``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.base.tuning.tasks import TASKS
from graphc.ir.attributes import Array
from graphc.kernel.analysis.task_size import grain_of, saved_beside
from graphc.plan.abi import CUT_FIELDS, GROUP, GROUP_FIELDS, LAUNCH, PARALLEL
from graphc.plan.tables import PlanTables


def write_tasks(
    steps: Array, tables: PlanTables, values: Sequence[int], threads: int, pool: int, bounds: int
) -> None:
    """Fills in the rows of launches in tasks and of the first steps of groups that pay.

    A group does if it saves more than sharing its large launches one after the other, of which
    each is handed out, too.

    Args:
        steps: rows of ``graphc.plan.abi``; those of launches that are split are written.
        tables: of the plan.
        values: of its dims, by their numbers.
        threads: how many may run a launch.
        pool: the address of the thread pool.
        bounds: the address of ``tables.bounds`` as int64s.
    """
    saved = _write_cuts(steps, tables, values, threads, pool) if tables.cuts else []
    if threads < 2:
        return
    for step, place, tasks, first, cut, cuts in tables.rows(tables.groups, GROUP_FIELDS):
        works = [values[work] for work in tables.works[first : first + tasks]]
        seats = min(threads, tasks)
        if saved_beside(works, seats) > sum(saved[cut : cut + cuts]):
            steps[step, 0] = GROUP
            steps[step, 5] = bounds + 8 * place
            steps[step, 6:8] = -seats if sum(works) < TASKS.wake_work else seats, pool


def _write_cuts(
    steps: Array, tables: PlanTables, values: Sequence[int], threads: int, pool: int
) -> list[int]:
    """Gives for each cut what it saves to share that launch, 0 where it is not shared."""
    positions, *columns = (tables.cuts[place::CUT_FIELDS] for place in range(CUT_FIELDS))
    # launches of one kernel are alike
    known: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
    rows: list[tuple[int, ...]] = []
    saved: list[int] = []
    for cut in zip(*columns, strict=True):
        found = known.get(cut)
        if found is None:
            extent, work, most, least = cut
            seats, cost, count = min(most, threads), values[work], values[extent]
            grain = grain_of(cost, count, seats, least)
            words = (PARALLEL, count, grain, -seats if cost < TASKS.wake_work else seats, pool)
            if grain:
                found = words, cost * (seats - 1) // seats - TASKS.group_work // 2
            else:
                found = (LAUNCH, *words[1:]), 0
            known[cut] = found
        rows.append(found[0])
        saved.append(found[1])
    written = np.array(rows, np.int64)
    steps[positions, 0] = written[:, 0]
    steps[positions, 4:8] = written[:, 1:]
    return saved


__all__ = ["write_tasks"]
