"""Loop kernels: a loop whose trips do little runs inside one kernel.

    2: launch 0 (%4, %5)      the condition     2: launch 0 (%4, %5)
    3: branch %5 else 7                         3: branch %5 else 6
    4: launch 1 (%1, %4, %6)             ->     4: launch 3 (%1, %4, %5)    at most so many trips
    5: launch 2 (%6, %1)                        5: jump 3
    6: jump 2

A launch takes some 20 ns, and what a trip does with small arrays often no more. The kernel has the
statements of all kernels of the loop, those of the condition last; its buffers are the loop's
slots, and slots that no trip leaves anything in for another one are its scratch. It ends when the
condition says so, or after so many trips that it still can be interrupted. Of a loop of few trips,
whose number is known, nothing else is left.

Invariant: each trip computes what the launches did, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from graphc.base.tuning.fusion import FUSION
from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import Dim, at_hint, compare
from graphc.ir.dtypes import bool_, int64
from graphc.kernel.analysis.cost import kernel_work
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel, Role
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan, Require, Slot, Step
from passes.plan.copy_elision import Moved, renamed

LOOP_KERNELS = "loop_kernels"
"""What the decisions are called."""

TOLD = "the loop is one kernel, which copies it"


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that becomes a kernel.

    Attributes:
        start, end: its steps; the first ones, up to ``branch``, are the condition.
        branch: the step that leaves the loop.
        most: how many trips one launch runs at most.
        is_whole: whether these are all, so that nothing of the loop is left.
    """

    start: int
    end: int
    branch: int
    most: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A plan some of whose loops are kernels.

    Attributes:
        moved: the plan.
        parts: for each of its kernels those of the plan before that it runs.
    """

    moved: Moved
    parts: tuple[tuple[int, ...], ...]


def loop_kernels(
    plan: Plan, trips: Sequence[int | None], may: Callable[[int, int], bool]
) -> Enclosed:
    """The plan with small loops as kernels.

    Args:
        plan: without groups, a layout and a commit step.
        trips: of each loop the number of trips, if it is known.
        may: is asked before each, with its steps.
    """
    itself = Moved(plan, tuple(range(len(plan.steps))), tuple(range(len(plan.slots))))
    unchanged = Enclosed(itself, tuple((k,) for k in range(len(plan.kernels))))
    if not plan.loops:
        return unchanged
    works: dict[int, Dim] = {}
    targets = [step.target for step in plan.steps if isinstance(step, (Branch, Jump))]
    found = [
        loop
        for (start, end), count in zip(plan.loops, trips, strict=True)
        if (loop := _small(plan, start, end, count, targets, works)) is not None
        and may(start, end)
    ]
    return _rewritten(plan, found) if found else unchanged


def _small(
    plan: Plan,
    start: int,
    end: int,
    trips: int | None,
    targets: Sequence[int],
    works: dict[int, Dim],
) -> _Loop | None:
    """A loop that is worth a kernel; None if it is not, or can't be one."""
    steps = plan.steps[start:end]
    leaving = [n for n, step in enumerate(steps, start) if isinstance(step, Branch)]
    if len(leaving) != 1 or steps[-1] != Jump(start):
        return None
    (branch,) = leaving
    left = plan.steps[branch]
    if not isinstance(left, Branch) or left.target != end:
        return None
    if any(start < target < end for target in targets) or targets.count(start) != 1:
        return None
    work: Dim = 0
    for position, step in enumerate(steps[:-1], start):
        if position == branch:
            continue
        if isinstance(step, Copy):
            work = work + plan.slots[step.source].bytes * TASKS.copied_byte
        elif isinstance(step, Launch):
            kernel = plan.kernels[step.kernel]
            if not _is_plain(plan, step, kernel):
                return None
            if step.kernel not in works:
                works[step.kernel] = kernel_work(kernel)
            work = work + works[step.kernel]
        elif not isinstance(step, Require) or position < branch:
            return None
    if compare("le", work, FUSION.trip_work) is not True:
        return None
    most = max(1, FUSION.loop_time // max(1, at_hint(work)))
    is_whole = trips is not None and 0 < trips <= most
    return _Loop(start, end, branch, trips if is_whole and trips else most, is_whole)


def _is_plain(plan: Plan, step: Launch, kernel: Kernel) -> bool:
    """Whether a kernel sees each slot as it is, and each of them once, or reads it in place."""
    for buffer, slot in zip(kernel.buffers, step.arguments, strict=True):
        kind = plan.slots[slot].type
        if kind.dtype is not buffer.type.dtype or kind.size != buffer.type.size:
            return False
    return not kernel.schedule


# --- the kernel ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Made:
    """The kernel of a loop.

    Attributes:
        kernel: it.
        arguments: its slots.
        rooms: those of them that become scratch.
    """

    kernel: Kernel
    arguments: tuple[int, ...]
    rooms: frozenset[int]


def _kernel(plan: Plan, loop: _Loop, touches: Counter[int]) -> _Made:
    """The kernel that runs a loop: all of it, or while the condition, which has been seen to hold,
    does. ``touches`` counts how often the plan's steps touch each slot."""
    body = plan.steps[loop.branch + 1 : loop.end - 1]
    condition = plan.steps[loop.start : loop.branch]
    leave = plan.steps[loop.branch]
    assert isinstance(leave, Branch), "so it was found"
    steps = body if loop.is_whole else (*body, *condition)
    rooms = _rooms(plan, loop, steps, touches)
    name = next((plan.kernels[s.kernel].name for s in body if isinstance(s, Launch)), "")
    b = KernelBuilder(f"loop_{name}")
    buffers = _buffers(plan, b, steps, rooms)
    first = [] if loop.is_whole else [b.constant(True, bool_)]
    with b.loop(loop.most, "serial", first) as trips:
        for step in steps:
            if isinstance(step, Launch):
                kernel = plan.kernels[step.kernel]
                given = [buffers[slot] for slot in step.arguments]
                b.include(kernel, dict(zip(kernel.buffers, given, strict=True)))
            elif isinstance(step, Copy):
                source, target = buffers[step.source], buffers[step.target]
                with b.loop(source.type.size, "vector") as elements:
                    b.store(target, elements.index, b.load(source, elements.index))
        if not loop.is_whole:
            (trips.lasts,) = trips.arguments
            trips.following = [b.load(buffers[leave.predicate], b.constant(0, int64))]
    return _Made(b.finish(), tuple(buffers), rooms)


def _rooms(
    plan: Plan, loop: _Loop, steps: Sequence[Step], touches: Counter[int]
) -> frozenset[int]:
    """The slots that each trip fills before it reads them, and that no step left touches."""
    filled: set[int] = set()
    touched: set[int] = set()
    for step in steps:
        for slot, is_written in plan.accesses(step):
            if slot not in touched:
                touched.add(slot)
                if is_written and _writes_whole(plan, step, slot):
                    filled.add(slot)
    first = loop.start if loop.is_whole else loop.branch + 1
    gone = _touches(plan, plan.steps[first : loop.end])
    return frozenset(
        slot
        for slot in filled
        if plan.slots[slot].kind == "scratch"
        or (plan.slots[slot].kind == "temporary" and gone[slot] == touches[slot])
    )


def _touches(plan: Plan, steps: Sequence[Step]) -> Counter[int]:
    """How often steps touch each slot."""
    return Counter(slot for step in steps for slot, _ in plan.accesses(step))


def _writes_whole(plan: Plan, step: Step, slot: int) -> bool:
    if not isinstance(step, Launch):
        return True
    buffers = plan.kernels[step.kernel].buffers
    roles = [b.role for b, s in zip(buffers, step.arguments, strict=True) if s == slot]
    return all(role in ("out", "scratch") for role in roles)


def _buffers(
    plan: Plan, b: KernelBuilder, steps: Sequence[Step], rooms: frozenset[int]
) -> dict[int, Buffer]:
    """A buffer for each slot that is touched: those that are read first, scratch last."""
    written: dict[int, bool] = {}
    for step in steps:
        for slot, is_written in plan.accesses(step):
            written[slot] = written.get(slot, False) or is_written
    roles: dict[int, Role] = {
        slot: "scratch" if slot in rooms else "update" if is_written else "in"
        for slot, is_written in written.items()
    }
    order = ("in", "update", "scratch")
    ordered = sorted(roles, key=lambda slot: order.index(roles[slot]))
    return {slot: b.buffer(f"s{slot}", roles[slot], plan.slots[slot].type) for slot in ordered}


# --- the plan ------------------------------------------------------------------------------------


def _rewritten(plan: Plan, found: Sequence[_Loop]) -> Enclosed:
    """The plan in which these loops are kernels."""
    kernels, slots = list(plan.kernels), list(plan.slots)
    parts: list[tuple[int, ...]] = [(k,) for k in range(len(kernels))]
    touches = _touches(plan, plan.steps)
    starts = {loop.start if loop.is_whole else loop.branch + 1: loop for loop in found}
    steps: list[Step] = []
    origins: list[int] = []
    place: dict[int, int] = {}
    told: dict[int, str] = {}
    within: dict[int, int] = {}
    position = 0
    while position < len(plan.steps):
        loop = starts.get(position)
        place[position] = len(steps)
        if loop is None:
            origins.append(position)
            steps.append(plan.steps[position])
            position += 1
            continue
        enclosed = range(position, loop.end - (not loop.is_whole))
        # whether a guard holds is a matter of sizes, alike in all trips
        required = [n for n in enclosed if isinstance(plan.steps[n], Require)]
        origins += [*required, position]
        made = _kernel(plan, loop, touches)
        for slot in made.rooms:
            old = slots[slot]
            slots[slot] = Slot("scratch", old.type, old.name, old.where)
        launches = [s for s in plan.steps[loop.start : loop.end] if isinstance(s, Launch)]
        parts.append(tuple([launch.kernel for launch in launches]))
        steps += [plan.steps[n] for n in required]
        steps.append(Launch(len(kernels), made.arguments, launches[-1].where))
        kernels.append(made.kernel)
        within |= dict.fromkeys(enclosed, len(steps) - 1)
        told |= {n: TOLD for n in enclosed if isinstance(plan.steps[n], Copy)}
        position = enclosed.stop
    place[len(plan.steps)] = len(steps)
    # each loop of kernels goes back to its branch: the kernel has seen to the condition
    left = [loop for loop in found if not loop.is_whole]
    back = {place[loop.end - 1]: place[loop.branch] for loop in left}
    identity = [*range(len(slots))].__getitem__
    steps = [
        Jump(back[n]) if n in back else renamed(step, identity, place)
        for n, step in enumerate(steps)
    ]
    first = {(loop.start, loop.end): loop.branch for loop in left}
    gone = {(loop.start, loop.end) for loop in found if loop.is_whole}
    loops = [
        (place[first.get(loop, loop[0])], place[loop[1]]) for loop in plan.loops if loop not in gone
    ]
    kept = _launched(steps)
    result = replace(
        plan,
        slots=tuple(slots),
        steps=tuple(_with_kernels(steps, kept)),
        kernels=tuple([kernels[k] for k in kept]),
        loops=tuple(loops),
    )
    moved = Moved(result, tuple(origins), tuple(range(len(slots))), told, within)
    return Enclosed(moved, tuple([parts[k] for k in kept]))


def _launched(steps: Sequence[Step]) -> list[int]:
    """The kernels that are launched, in order."""
    return sorted({step.kernel for step in steps if isinstance(step, Launch)})


def _with_kernels(steps: Sequence[Step], kept: Sequence[int]) -> list[Step]:
    """Steps that launch kernels by their places among those that are kept."""
    place = {kernel: n for n, kernel in enumerate(kept)}
    return [
        Launch(place[step.kernel], step.arguments, step.where) if isinstance(step, Launch) else step
        for step in steps
    ]


__all__ = ["LOOP_KERNELS", "Enclosed", "loop_kernels"]
