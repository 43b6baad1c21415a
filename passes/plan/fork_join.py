"""Fork-join scheduling: which units run concurrently, and which one thread runs alone.

    0 ─ 1 ┬ 2 ─ 3 ┬ 6                 alone 0, 1
          └ 4 ─ 5 ┘          ->       side by side (2, 3) and (4, 5)
                                      alone 6

Threads meet at the end of each group, so a group pays if its tasks are about equally long. The
scheduler is greedy list scheduling: units that are ready are taken by the length of the critical
path behind them. Of the groups that could come next it takes the one with the least bound on the
remaining time. A task may be a chain: a unit that depends on one task of the group alone can join
that task.

Invariant: plain data in, plain data out, deterministic; each unit comes after those it depends on,
and units of different tasks of a group do not depend on each other. Linear but for a logarithm.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphc.base.tuning.sharing import CONCURRENCY
from graphc.base.tuning.tasks import TASKS
from graphc.kernel.analysis.task_size import saved_beside, span_beside

Task = list[int]


@dataclass(frozen=True, slots=True)
class Work:
    """Units as numbers, each after those it depends on.

    Attributes:
        costs: what each takes on one thread, in picoseconds.
        alone: what it takes where no other runs beside it.
        shared: whether it is in no group: all threads work on it together, or it takes much room.
        sizes: bytes of memory that each needs for what it makes.
        before, after: the units right before and after each, each once.
    """

    costs: Sequence[int]
    alone: Sequence[int]
    shared: Sequence[bool]
    sizes: Sequence[int]
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A group that could come next.

    Attributes:
        tasks: its tasks.
        left: a bound of what it takes until all is done, this group included.
    """

    tasks: list[Task]
    left: int


def fork_join(
    work: Work, threads: int, most_bytes: int, in_order: bool = False
) -> list[list[Task]]:
    """All units in groups of tasks, in order; a group of one task is run by one thread.

    Groups that need more than ``most_bytes`` have few tasks. What comes first is what has most
    behind it, or what comes first in the order given, which takes less memory.
    """
    return _Scheduler(work, threads, most_bytes, in_order).run()


class _Scheduler:
    def __init__(self, work: Work, threads: int, most_bytes: int, in_order: bool) -> None:
        self.work = work
        self.threads = threads
        self.most_bytes = most_bytes
        self.in_order = in_order
        self.waiting = [len(before) for before in work.before]
        self.done = [False] * len(work.costs)
        self.left = sum(work.alone)
        self.behind = list(work.alone)
        for unit in range(len(work.costs) - 1, -1, -1):
            self.behind[unit] += max((self.behind[u] for u in work.after[unit]), default=0)
        self.ready: list[tuple[int, int]] = []

    def run(self) -> list[list[Task]]:
        for unit, waiting in enumerate(self.waiting):
            if not waiting:
                self._push(unit)
        groups: list[list[Task]] = []
        while self.ready:
            first = self.ready[0][1]
            if self.work.shared[first] or len(self.ready) == 1:
                groups.append([[first]])
                heapq.heappop(self.ready)
                self._finish([first])
                continue
            taken = self._taken()
            best = self._best(taken)
            if best is None:
                ran = taken[: -(-len(taken) // CONCURRENCY.retry_share)]
                groups += [[[unit]] for unit in ran]
            else:
                groups.append(self._ordered(best))
                ran = [unit for task in best for unit in task]
            chosen = set(ran)
            for unit in taken:
                if unit not in chosen:
                    self._push(unit)
            self._finish(ran)
        return groups

    def _taken(self) -> list[int]:
        """What a group may start from, taken from what is ready."""
        taken: list[int] = []
        made = 0
        while self.ready and len(taken) < CONCURRENCY.most_tasks:
            if len(taken) >= self.threads and made > self.most_bytes:
                break
            _, unit = heapq.heappop(self.ready)
            taken.append(unit)
            if not self.work.shared[unit]:
                made += self.work.sizes[unit]
        return taken

    def _push(self, unit: int) -> None:
        heapq.heappush(self.ready, (0 if self.in_order else -self.behind[unit], unit))

    def _finish(self, units: Sequence[int]) -> None:
        """Notes that they are done."""
        for unit in units:
            self.done[unit] = True
            self.left -= self.work.alone[unit]
        for unit in units:
            for later in self.work.after[unit]:
                self.waiting[later] -= 1
                if not self.waiting[later] and not self.done[later]:
                    self._push(later)

    def _best(self, taken: Sequence[int]) -> list[Task] | None:
        """The best group that starts from these units, which are ready, if one pays."""
        ready = [unit for unit in taken if not self.work.shared[unit]]
        others = [unit for unit in taken if self.work.shared[unit]]
        others += (unit for _, unit in self.ready[:1])
        best: _Candidate | None = None
        for branching in (None, 1, 0):
            tasks, next_ones = self._grown(ready, branching)
            works = [self._cost(task) for task in tasks]
            if len(tasks) < 2 or saved_beside(works, self.threads) <= 0:
                continue
            rest = self.left - sum(self.work.alone[unit] for task in tasks for unit in task)
            path = max((self.behind[unit] for unit in (*next_ones, *others)), default=0)
            later = max(path, -(-rest // self.threads))
            left = span_beside(works, self.threads) + later + TASKS.group_work
            if best is None or left < CONCURRENCY.gain * best.left:
                best = _Candidate(tasks, left)
        return best.tasks if best is not None else None

    def _grown(self, ready: Sequence[int], branching: int | None) -> tuple[list[Task], list[int]]:
        """A task of each unit, with what depends on it alone; and what comes next.

        Where more than ``branching`` units follow one, they don't join it.
        """
        after, before, sizes = self.work.after, self.work.before, self.work.sizes
        tasks: list[Task] = [[unit] for unit in ready]
        task_of = dict(zip(ready, range(len(ready)), strict=True))
        found = [*ready]
        met: dict[int, int] = {}
        most = 4 * len(ready) + 64
        room = self.most_bytes - sum(sizes[unit] for unit in ready)
        for unit in found:
            followers = after[unit]
            joins = branching is None or len(followers) <= branching
            for later in followers:
                met[later] = met.get(later, 0) + 1
                if met[later] < self.waiting[later]:
                    continue
                homes = {task_of[u] for u in before[later] if u in task_of}
                fits = sizes[later] <= room and len(found) < most
                if joins and fits and len(homes) == 1 and not self.work.shared[later]:
                    (home,) = homes
                    room -= sizes[later]
                    task_of[later] = home
                    tasks[home].append(later)
                    found.append(later)
        return tasks, [unit for unit in met if unit not in task_of]

    def _cost(self, task: Iterable[int]) -> int:
        return sum(self.work.costs[unit] for unit in task)

    def _ordered(self, tasks: list[Task]) -> list[Task]:
        """Small tasks put together, the longest at both ends, where threads begin."""
        works = [self._cost(task) for task in tasks]
        tasks_at_most = 2 * TASKS.tasks_per_thread * self.threads
        grain = max(CONCURRENCY.least_task_work, sum(works) // tasks_at_most)
        order = sorted(range(len(tasks)), key=lambda n: (-works[n], n))
        packed: list[Task] = []
        filled = grain
        for number in order:
            if filled < grain:
                packed[-1] += tasks[number]
                filled += works[number]
            else:
                packed.append([*tasks[number]])
                filled = works[number]
        return packed[::2] + packed[1::2][::-1]


__all__ = ["Task", "Work", "fork_join"]
