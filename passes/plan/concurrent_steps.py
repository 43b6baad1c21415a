"""Concurrent steps: launches of a plan that run at the same time, each thread taking some.

    0: launch a (%0, %2)                     0: launch a (%0, %2)   \\  one thread
    1: launch b (%2, %4)           ->        1: launch b (%2, %4)   /
    2: launch c (%1, %3)                     2: launch c (%1, %3)      another one
    3: launch d (%3, %4, %5)                 3: launch d (%3, %4, %5)

Threads share the iterations of a large kernel. Small kernels that don't depend on each other are
shared here, as whole launches. Straight pieces of the plan get a new order
(``passes.plan.fork_join``). Estimates at likely sizes decide. Where a group does not pay at the
sizes of a run, its steps run one after the other.

Invariant: every order that respects reads and writes computes the same bits, with any number of
threads. Slots that a group touches are live from its beginning to its end, so groups take memory;
a plan that would take much more is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

from graphc.base.tuning.sharing import CONCURRENCY
from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import HINT, Dim, at_hint
from graphc.ir.graph import Node
from graphc.kernel.analysis.cost import kernel_work
from graphc.plan.abi import POOL_THREADS
from graphc.plan.ir import Branch, ConcurrentGroup, Jump, Launch, Plan, Step
from passes.memory.arena import SCALES
from passes.plan.fork_join import Task, Work, fork_join
from passes.plan.in_place import commit_step
from passes.plan.liveness import live_intervals

CONCURRENT_STEPS = "concurrent_steps"
"""The name under which these decisions are recorded and can be switched off."""



class Judge(Protocol):
    """Who decides about groups, and is told of those that are not made."""

    def may(self, plan: Plan, group: ConcurrentGroup) -> bool:
        """Whether a group may be made."""

    def refused(self, plan: Plan, group: ConcurrentGroup, reason: str) -> None:
        """A group would have paid, but is not made."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """The launches of one node, which stay together."""

    start: int
    stop: int


def side_by_side(
    plan: Plan,
    launches: Mapping[Node, range],
    threads: int,
    judge: Judge,
) -> tuple[Plan, dict[Node, range]]:
    """The plan with groups, and the launches of each node in it.

    Args:
        plan: without a layout and a commit step; whoever reads the old value of a variable comes
            before the new one.
        launches: the steps of each node.
        threads: how many there are; ``POOL_THREADS`` where only a run tells.
        judge: decides about each group.
    """
    unchanged = plan, dict(launches)
    if threads < 2:
        return unchanged
    starts = {steps.start: steps.stop for steps in launches.values() if steps}
    commit = commit_step(plan, lambda: True)
    pieces = [units for units in _pieces(plan, starts, commit) if len(units) > 1]
    if not pieces:
        return unchanged
    is_known = threads < POOL_THREADS
    most = CONCURRENCY.most_threads if is_known else CONCURRENCY.unknown_threads
    costs = _Costs(plan, min(threads, most))
    same = {new: old for old, new in plan.renewed if old is not None}
    memory: _Memory | None = None
    best: _Attempt | None = None
    for in_order in (False, True):
        made = _Order(plan, costs, in_order)
        window = CONCURRENCY.window_units if in_order else len(plan.steps)
        for units in pieces:
            for first in range(0, len(units), window):
                part = units[first : first + window]
                made.piece(part, _dependencies(plan, part, same))
        if not made.groups:
            break
        if memory is None:
            memory = _Memory(plan)
        attempt = memory.checked(made)
        if best is None or attempt.work > best.work:
            best = attempt
        if not attempt.refused:
            break
    if best is None:
        return unchanged
    for group, reason in best.refused:
        judge.refused(best.plan, group, reason)
    found = best.plan
    kept = tuple(group for group in found.groups if judge.may(found, group))
    if not kept:
        return unchanged
    moved = {
        node: range(best.place[steps.start], best.place[steps.start] + len(steps))
        if steps
        else steps
        for node, steps in launches.items()
    }
    return replace(found, groups=kept), moved


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """A plan with groups.

    Attributes:
        plan: the plan.
        place: where each step has gone.
        work: what its groups take on one thread.
        refused: what was not made, and why.
    """

    plan: Plan
    place: Sequence[int]
    work: int
    refused: Sequence[tuple[ConcurrentGroup, str]]


# --- straight pieces -----------------------------------------------------------------------------


def _pieces(plan: Plan, starts: Mapping[int, int], commit: int | None) -> Iterator[list[_Unit]]:
    """Runs of launches that are neither left nor entered in between, as units."""
    cuts = {step.target for step in plan.steps if isinstance(step, (Branch, Jump))}
    cuts.update(start for start, _ in plan.loops)
    if commit is not None:
        # what may fail stays before it; the node that it is in the middle of, too
        around = [(start, stop) for start, stop in starts.items() if start <= commit < stop]
        cuts.update(*around, (commit,))
    units: list[_Unit] = []
    position = 0
    while position < len(plan.steps):
        if position in cuts or not isinstance(plan.steps[position], Launch):
            yield units
            units = []
        stop = starts.get(position, position + 1)
        if isinstance(plan.steps[position], Launch):
            units.append(_Unit(position, stop))
        position = stop
    yield units


def _dependencies(
    plan: Plan, units: Sequence[_Unit], same: Mapping[int, int]
) -> tuple[list[list[int]], list[list[int]]]:
    """The units that each one comes after, and before; ``same`` slots may be one memory.

    What may fail stays in order, so that the same error is told whatever the number of threads.
    """
    before: list[list[int]] = []
    after: list[list[int]] = [[] for _ in units]
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    # by slots that are written in parts, what every one of these comes after
    behind: dict[int, list[int]] = {}
    failing: list[int] = []
    for number, unit in enumerate(units):
        earlier: dict[int, None] = {}
        for step in plan.steps[unit.start : unit.stop]:
            assert isinstance(step, Launch), "units are of launches"
            kernel = plan.kernels[step.kernel]
            if kernel.sites:
                earlier |= dict.fromkeys(failing)
                failing = [number]
            for buffer, argument in zip(kernel.buffers, step.arguments, strict=True):
                slot = same.get(argument, argument)
                wrote = writers.setdefault(slot, [])
                if buffer.role == "in":
                    earlier |= dict.fromkeys(wrote)
                    readers.setdefault(slot, []).append(number)
                    continue
                further = buffer.role == "part" and slot in behind and slot not in readers
                if further and len(wrote) < CONCURRENCY.unordered_parts:
                    wrote.append(number)
                    earlier |= dict.fromkeys(behind[slot])
                    continue
                ended = [*wrote, *readers.pop(slot, ())]
                earlier |= dict.fromkeys(ended)
                writers[slot] = [number]
                if buffer.role == "part":
                    behind[slot] = ended
                else:
                    behind.pop(slot, None)
        earlier.pop(number, None)
        before.append(list(earlier))
        for other in earlier:
            after[other].append(number)
    return before, after


# --- costs ---------------------------------------------------------------------------------------


class _Costs:
    """What launches take, each kernel looked at once."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self.threads = threads
        self._plan = plan
        self._works: dict[int, tuple[Dim, int, bool]] = {}
        slots = [n for n, slot in enumerate(plan.slots) if slot.kind in ("temporary", "scratch")]
        self._sizes = _sizes(plan, slots, CONCURRENCY.memory_size)

    def of(self, step: Step) -> tuple[Dim, int, bool]:
        """The work of a launch, the same at likely sizes, and whether threads can share it."""
        assert isinstance(step, Launch), "units are of launches"
        known = self._works.get(step.kernel)
        if known is None:
            kernel = self._plan.kernels[step.kernel]
            split = kernel.split
            work = kernel_work(kernel) if split is None else split.work
            is_split = split is not None and at_hint(split.extent, CONCURRENCY.moderate_size) > 1
            known = work, at_hint(work, CONCURRENCY.moderate_size), is_split
            self._works[step.kernel] = known
        return known

    def work(self, units: Sequence[_Unit], dependencies: tuple[list[list[int]], ...]) -> Work:
        """Units as numbers."""
        costs: list[int] = []
        alone: list[int] = []
        shared: list[bool] = []
        sizes: list[int] = []
        for unit in units:
            works = [self.of(step) for step in self._plan.steps[unit.start : unit.stop]]
            costs.append(sum(work for _, work, _ in works))
            alone.append(sum(self._alone(work, can) for _, work, can in works))
            is_large = any(can and work >= CONCURRENCY.shared_work for _, work, can in works)
            sizes.append(self._bytes(unit))
            shared.append(is_large or sizes[-1] > CONCURRENCY.more_bytes)
        return Work(costs, alone, shared, sizes, *dependencies)

    def _bytes(self, unit: _Unit) -> int:
        """The room in the arena that a unit writes to."""
        plan = self._plan
        written = {
            slot
            for step in plan.steps[unit.start : unit.stop]
            for slot, writes in plan.accesses(step)
            if writes and slot in self._sizes
        }
        return sum(self._sizes[slot] for slot in written)

    def _alone(self, work: int, can_be_shared: bool) -> int:
        """What a launch takes by itself: halfway between no gain and all that there could be."""
        if not can_be_shared or work < TASKS.serial_work:
            return work
        return min(work, (work + work // self.threads + TASKS.group_work) // 2)


@dataclass(slots=True, eq=False)
class _Order:
    """The steps in their new order.

    Attributes:
        steps: of the plan; pieces are put in order one after the other.
        place: where each step has gone.
        groups: what runs side by side.
    """

    plan: Plan
    costs: _Costs
    in_order: bool
    steps: list[Step] = field(init=False)
    place: list[int] = field(init=False)
    groups: list[ConcurrentGroup] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.steps = list(self.plan.steps)
        self.place = list(range(len(self.steps)))

    def piece(
        self, units: Sequence[_Unit], dependencies: tuple[list[list[int]], list[list[int]]]
    ) -> None:
        """Puts a straight piece in order; it stays as it is if nothing runs side by side."""
        work = self.costs.work(units, dependencies)
        if sum(work.costs) < 2 * TASKS.group_work:
            return
        groups = fork_join(work, self.costs.threads, CONCURRENCY.more_bytes, self.in_order)
        if all(len(tasks) == 1 for tasks in groups):
            return
        at = units[0].start
        for tasks in groups:
            bounds = [at]
            for task in tasks:
                for number in task:
                    unit = units[number]
                    for position in range(unit.start, unit.stop):
                        self.steps[at] = self.plan.steps[position]
                        self.place[position] = at
                        at += 1
                bounds.append(at)
            if len(tasks) > 1:
                works = tuple(self._work(units, task) for task in tasks)
                self.groups.append(ConcurrentGroup(tuple(bounds), works))

    def _work(self, units: Sequence[_Unit], task: Task) -> Dim:
        total: Dim = 0
        for number in task:
            for step in self.plan.steps[units[number].start : units[number].stop]:
                total = total + self.costs.of(step)[0]
        return total


# --- memory --------------------------------------------------------------------------------------


def task_rooms(plan: Plan, taken: Collection[int] = ()) -> tuple[tuple[int, ...], ...]:
    """Groups of slots that share memory, for the memory planner, besides those that are ``taken``.

    A task of a group is in order, so what only it touches can lie where something lay that it is
    done with. Of a kind are equal symbolic sizes, and numbers between the same powers of two.
    """
    if not plan.groups:
        return ()
    result: list[tuple[int, ...]] = []
    starting: dict[int, list[int]] = {}
    intervals = live_intervals(replace(plan, groups=()))
    for slot, (start, _) in intervals.items():
        if slot not in taken:
            starting.setdefault(start, []).append(slot)
    sizes = dict(zip(intervals, plan.bytes_of(intervals), strict=True))
    for group in plan.groups:
        for start, stop in pairwise(group.bounds):
            rooms: dict[Dim, list[list[int]]] = {}
            for position in range(start, stop):
                for slot in starting.get(position, ()):
                    if intervals[slot][1] > stop:
                        continue
                    alike = rooms.setdefault(_kind(sizes[slot]), [])
                    idle = (room for room in alike if intervals[room[-1]][1] <= position)
                    found = next(idle, None)
                    if found is None:
                        alike.append([slot])
                    else:
                        found.append(slot)
            result += (tuple(room) for rooms_ in rooms.values() for room in rooms_ if room[1:])
    return tuple(result)


def _kind(size: Dim) -> Dim:
    return size.bit_length() if isinstance(size, int) else size


class _Memory:
    """How much the arena of a plan may grow."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        is_known = all(isinstance(size, int) for size in plan.bytes_of(live_intervals(plan)))
        self._hints = (HINT,) if is_known else (HINT, *SCALES)
        self._most: list[int] = []
        for hint in self._hints:
            usual = max(_live(plan, hint), default=0)
            more = CONCURRENCY.more_bytes * max(1, hint // CONCURRENCY.memory_size)
            self._most.append(max(usual + more, int(usual * (1 + CONCURRENCY.more_share))))

    def checked(self, made: _Order) -> _Attempt:
        """The plan in an order, without the groups that take too much; without any if the order
        takes too much by itself."""
        plan = replace(self._plan, steps=tuple(made.steps), groups=tuple(made.groups))
        lives = [_live(plan, hint) for hint in self._hints]
        kept: list[ConcurrentGroup] = []
        refused: list[tuple[ConcurrentGroup, str]] = []
        for group in plan.groups:
            taken = [live[group.bounds[0]] for live in lives]
            if all(bytes_ <= most for bytes_, most in zip(taken, self._most, strict=True)):
                kept.append(group)
            else:
                reason = f"side by side they would take up to {max(taken)} bytes at once"
                refused.append((group, reason))
        if refused:
            plan = replace(plan, groups=tuple(kept))
            lives = [_live(plan, hint) for hint in self._hints]
        highest = (max(live, default=0) for live in lives)
        if any(bytes_ > most for bytes_, most in zip(highest, self._most, strict=True)):
            reason = "the order of the steps that they need takes too much memory"
            refused += ((group, reason) for group in kept)
            plan = replace(plan, groups=())
        works = (work for group in plan.groups for work in group.works)
        work = sum(at_hint(work, CONCURRENCY.moderate_size) for work in works)
        return _Attempt(plan, made.place, work, refused)


def _live(plan: Plan, hint: int) -> list[int]:
    """The bytes of temporaries alive at each step."""
    intervals = live_intervals(plan)
    changes = [0] * (len(plan.steps) + 1)
    sizes = _sizes(plan, intervals, hint)
    for room in task_rooms(plan):
        largest = max(sizes[slot] for slot in room)
        sizes |= dict.fromkeys(room, 0)
        sizes[room[0]] = largest
    for slot, (start, end) in intervals.items():
        changes[start] += sizes[slot]
        changes[end] -= sizes[slot]
    result: list[int] = []
    live = 0
    for change in changes[:-1]:
        live += change
        result.append(live)
    return result


def _sizes(plan: Plan, slots: Collection[int], hint: int) -> dict[int, int]:
    """The bytes of slots."""
    found = plan.bytes_of(slots)
    known = {size: at_hint(size, hint) for size in dict.fromkeys(found)}
    return {slot: known[size] for slot, size in zip(slots, found, strict=True)}


__all__ = ["CONCURRENT_STEPS", "Judge", "side_by_side", "task_rooms"]
