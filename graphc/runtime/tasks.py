"""Which launches of a plan are cut into tasks, and which run side by side, for each binding.

Neither changes a bit of a result (``graphc.kernel.analysis.split``), so these decisions are free;
they are made in advance, and nothing is left to decide when a launch comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from graphc.base.tuning.tasks import TASKS
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.task_size import grain_of, saved_beside
from graphc.plan.abi import GROUP, LAUNCH, PARALLEL
from graphc.plan.ir import ConcurrentGroup, Launch, Plan


class Cut(NamedTuple):
    """A launch whose iterations can be handed out.

    Attributes:
        position: the step.
        extent: how many iterations there are.
        work: what they take in all, in picoseconds.
        seats: how many threads may take part.
        least: iterations that a task has at least.
    """

    position: int
    extent: Dim
    work: Dim
    seats: int
    least: int

    @property
    def is_symbolic(self) -> bool:
        """Whether it depends on the binding of the dims."""
        return not (isinstance(self.extent, int) and isinstance(self.work, int))


def cuts_of(plan: Plan, threads: int) -> tuple[Cut, ...]:
    """The launches of kernels that are split."""
    slots, result = plan.slots, []
    for position, step in enumerate(plan.steps):
        kernel = plan.kernels[step.kernel] if isinstance(step, Launch) else None
        split = kernel.split if kernel is not None else None
        if isinstance(step, Launch) and kernel is not None and split is not None:
            arguments = zip(kernel.buffers, step.arguments, strict=True)
            rooms = (slots[slot] for buffer, slot in arguments if buffer.role == "scratch")
            seats = min(threads, *(room.copies for room in rooms), threads)
            sizes = split.extent, split.work
            result.append(Cut(position, *sizes, seats, split.least))
    return tuple(result)


def write_cuts(steps: Array, cuts: Iterable[Cut], number: Callable[[Dim], int], pool: int) -> None:
    """Fills in the rows of these launches for the sizes that ``number`` gives."""
    for cut in cuts:
        extent = number(cut.extent)
        work = number(cut.work)
        grain = grain_of(work, extent, cut.seats, cut.least)
        seats = -cut.seats if work < TASKS.wake_work else cut.seats
        steps[cut.position, 0] = PARALLEL if grain else LAUNCH
        steps[cut.position, 4:8] = (extent, grain, seats, pool)


class Beside(NamedTuple):
    """A group of steps whose tasks can be handed out.

    Attributes:
        group: the group.
        bounds: the address of its bounds as ``graphc.plan.abi`` says.
        cuts: those of its launches, which may be cut into tasks instead.
        seats: how many threads may take part.
    """

    group: ConcurrentGroup
    bounds: int
    cuts: tuple[Cut, ...]
    seats: int

    @property
    def is_symbolic(self) -> bool:
        """Whether it depends on the binding of the dims."""
        is_known = all(isinstance(work, int) for work in self.group.works)
        return not is_known or any(cut.is_symbolic for cut in self.cuts)


def bounds_of(plan: Plan) -> list[int]:
    """The bounds of all groups, one behind the other."""
    return [
        word
        for group in plan.groups
        for word in (len(group.works), *(bound - group.bounds[0] for bound in group.bounds))
    ]


def besides_of(plan: Plan, cuts: Sequence[Cut], threads: int, bounds: int) -> tuple[Beside, ...]:
    """The groups of a plan with those of its cuts that they hold; ``bounds`` is the address of
    ``bounds_of``."""
    result: list[Beside] = []
    later = list(reversed(cuts))
    for group in plan.groups if threads > 1 else ():
        inside: list[Cut] = []
        while later and later[-1].position < group.bounds[-1]:
            cut = later.pop()
            if cut.position >= group.bounds[0]:
                inside.append(cut)
        seats = min(threads, len(group.works))
        result.append(Beside(group, bounds, tuple(inside), seats))
        bounds += 8 * (len(group.bounds) + 1)
    return tuple(result)


def write_shares(
    steps: Array,
    cuts: Iterable[Cut],
    besides: Iterable[Beside],
    number: Callable[[Dim], int],
    pool: int,
) -> None:
    """Fills in the rows of launches in tasks and of the first steps of groups that pay.

    A group does if it saves more than sharing its large launches one after the other, of which
    each is handed out, too. ``number`` gives the size of a dim.
    """
    write_cuts(steps, cuts, number, pool)
    for beside in besides:
        works = [number(work) for work in beside.group.works]
        shared = sum(
            number(cut.work) * (cut.seats - 1) // cut.seats - TASKS.group_work // 2
            for cut in beside.cuts
            if steps[cut.position, 0] == PARALLEL
        )
        if saved_beside(works, beside.seats) > shared:
            seats = -beside.seats if sum(works) < TASKS.wake_work else beside.seats
            first = beside.group.bounds[0]
            steps[first, 0] = GROUP
            steps[first, 5:8] = (beside.bounds, seats, pool)


__all__ = [
    "Beside",
    "Cut",
    "besides_of",
    "bounds_of",
    "cuts_of",
    "write_cuts",
    "write_shares",
]
