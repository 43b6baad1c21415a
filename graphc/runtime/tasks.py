"""Which launches of a plan are cut into tasks, and how: decided for each binding of the dims.

Cutting never changes a bit of a result (``graphc.kernel.split``), so these decisions are free; they
are made in advance, and nothing is left to decide when a launch comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from graphc.ir.attributes import Array
from graphc.ir.dims import Dim
from graphc.kernel.grains import WAKE_WORK, grain_of
from graphc.plan.ir import Launch, Plan
from graphc.plan.table import LAUNCH, PARALLEL


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


def write_cuts(
    steps: Array, cuts: Iterable[Cut], number: Callable[[Dim], int], pool: int
) -> None:
    """Fills in the rows of these launches for the sizes that ``number`` gives."""
    for cut in cuts:
        extent = number(cut.extent)
        work = number(cut.work)
        grain = grain_of(work, extent, cut.seats, cut.least)
        seats = -cut.seats if work < WAKE_WORK else cut.seats
        steps[cut.position, 0] = PARALLEL if grain else LAUNCH
        steps[cut.position, 4:8] = (extent, grain, seats, pool)


__all__ = ["Cut", "cuts_of", "write_cuts"]
