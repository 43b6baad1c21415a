"""A memory limit: places are looked at, and what is computed again is planned anew until they fit.

Recomputation is planned by exact liveness, before operands and results share memory and before
anything has a place. What an arena takes in the end may be more or less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from graphc.base.errors import GraphError
from graphc.codegen.math.calls import Calls
from graphc.ir.dims.expressions import at_hint
from graphc.plan.ir import Launch, Plan
from passes.infra.base import Decision, PassContext, Recomputed
from passes.infra.manager import PassRecord
from passes.plan.concurrent_steps import CONCURRENT_STEPS
from passes.plan.liveness import live_intervals
from passes.plan.pipeline import PlanState

_ATTEMPTS = 8
"""So many plans are made at most; mostly the first or the second fits."""

_MARGIN = 0.98
"""What of a limit is aimed at first, since places leave holes."""

_ROOM = 0.95
"""Where less of a limit is used, a plan that uses more is looked for."""

_SHOWN = 4
"""So many values are named in the error."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A program whose temporaries have places.

    Attributes:
        state: the plan and what is known of it.
        records: of all passes so far.
        calls: which functions its kernels call.
    """

    state: PlanState
    records: list[PassRecord]
    calls: Calls

    @property
    def peak(self) -> int:
        """The arena, at the hints of symbolic sizes."""
        layout = self.state.plan.layout
        assert layout is not None, "the plan is placed"
        return layout.solution.peak


def within_limit(context: PassContext, place: Callable[[], Placed]) -> Placed:
    """The program that fits in the memory limit at the least extra work.

    The first attempt repeats nothing but what ``gx.checkpoint`` asks for. Where decisions are
    numbered for others to go by, there is one attempt.

    Raises:
        GraphError: if none fits.
    """
    options, limit = context.options, context.options.most_bytes
    if limit is None:
        return place()
    given = (options.fuel, options.decisions, options.shuffle_seed)
    if given != (None, None, None):
        context.aim = int(_MARGIN * limit)
        return place()
    attempts = _Attempts(context, place)
    placed = attempts.made(None)
    aim = _MARGIN * limit
    if placed.peak > limit:
        placed = attempts.made(aim)
        # launches that run at the same time take more
        attempts.one_by_one()
    # below optimize=2, or switched off, nothing is planned
    while placed.peak > limit and attempts.left and context.recomputed is not None:
        placed = attempts.made(aim)
        aim *= min(_MARGIN, limit / placed.peak)
    best = attempts.best(limit)
    if best.peak > limit:
        raise _refusal(best.state.plan, limit, best.peak, options.optimize)
    if context.aim is not None and best.peak < _ROOM * limit and attempts.left:
        # sharing has left room: less may be repeated
        attempts.made(context.aim * _MARGIN * limit / best.peak)
        best = attempts.best(limit)
    attempts.settle(best)
    return best


class _Attempts:
    """Plans of one program for several aims."""

    def __init__(self, context: PassContext, place: Callable[[], Placed]) -> None:
        self._context = context
        self._place = place
        self._given = context.options
        self._decided, self._spent = len(context.decisions), context.spent
        self._made: list[tuple[Placed, list[Decision], int, Recomputed | None]] = []

    @property
    def left(self) -> bool:
        """Whether there may be another one."""
        return len(self._made) < _ATTEMPTS

    def one_by_one(self) -> None:
        """From here on launches don't run at the same time."""
        off = self._given.off | {CONCURRENT_STEPS}
        self._context.options = replace(self._given, off=off)

    def made(self, aim: float | None) -> Placed:
        """One more, which aims at so many bytes."""
        context = self._context
        del context.decisions[self._decided :]
        context.spent = self._spent
        context.aim = None if aim is None else int(aim)
        placed = self._place()
        decisions = context.decisions[self._decided :]
        self._made.append((placed, decisions, context.spent, context.recomputed))
        return placed

    def best(self, limit: int) -> Placed:
        """The one of least extra work that fits, or else of least memory."""

        def rank(number: int) -> tuple[int, int, int]:
            placed, _, _, recomputed = self._made[number]
            again = 0 if recomputed is None else recomputed.again
            fits = placed.peak <= limit
            return (0, again, number) if fits else (1, placed.peak, number)

        return self._made[min(range(len(self._made)), key=rank)][0]

    def settle(self, chosen: Placed) -> None:
        """Leaves the context as the chosen one did."""
        context = self._context
        for placed, decisions, spent, recomputed in self._made:
            if placed is chosen:
                context.decisions[self._decided :] = decisions
                context.spent, context.recomputed = spent, recomputed
        context.options = self._given


def _refusal(plan: Plan, limit: int, least: int, optimize: int) -> GraphError:
    """The error that says what takes the memory of the program that takes least."""
    sizes = [at_hint(size) for size in plan.bytes_of(range(len(plan.slots)))]
    intervals = live_intervals(plan)
    layout = plan.layout
    assert layout is not None, "the plan is placed"
    room = dict(zip(layout.slots, layout.solution.roots, strict=True))

    def taken(slots: Iterable[int]) -> int:
        """The bytes of slots, of which some share their places."""
        rooms: dict[int, int] = {}
        for slot in slots:
            rooms[room[slot]] = max(rooms.get(room[slot], 0), sizes[slot])
        return sum(rooms.values())

    alive: list[list[int]] = [[] for _ in plan.steps]
    for slot, (start, end) in intervals.items():
        for step in range(start, end):
            alive[step].append(slot)
    held = max(alive, key=taken)
    held.sort(key=lambda slot: (-sizes[slot], slot))
    needs = [taken({s for s, _ in plan.accesses(step)} & room.keys()) for step in plan.steps]
    largest = max(range(len(needs)), key=needs.__getitem__)
    launch = plan.steps[largest]
    where = launch.where if isinstance(launch, Launch) else None
    values = ", ".join(f"{_called(plan, slot)} of {sizes[slot]:,}" for slot in held[:_SHOWN])
    if len(held) > _SHOWN:
        values += f" and {len(held) - _SHOWN} more"
    return GraphError(
        f"the memory limit is {limit:,} bytes, and the least that was found is {least:,}, which "
        f"{values} take at once; the largest step needs {needs[largest]:,}",
        where=where,
        hint="raise the limit, or make what is fed smaller"
        if optimize >= 2
        else "values are computed again at optimize=2 and 3",
    )


def _called(plan: Plan, slot: int) -> str:
    """A temporary, by its name or its type and line."""
    found = plan.slots[slot]
    name = repr(found.name) if found.name else str(found.type)
    return f"{name} at {found.where.brief}" if found.where else name
