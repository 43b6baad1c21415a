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

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.base.tuning.fusion import FUSION
from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import Dim, at_hint, compare
from graphc.ir.dtypes import bool_, int64
from graphc.kernel.analysis.cost import kernel_work
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Kernel, Role
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan, Require, Step
from passes.plan.moved import Moved, renamed

LOOP_KERNELS = "loop_kernels"
"""What the decisions are called."""

_TOLD = "the loop is one kernel, which copies it"


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

    @property
    def first(self) -> int:
        """The first step that the kernel takes the place of."""
        return self.start if self.is_whole else self.branch + 1

    @property
    def past(self) -> int:
        """The step behind the last of these: the jump, if that is left."""
        return self.end if self.is_whole else self.end - 1


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A plan some of whose loops are kernels.

    Attributes:
        moved: the plan.
        parts: for each of its kernels those of the plan before that it stands for.
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
    search = _Search(plan)
    found = [
        loop
        for (start, end), count in zip(plan.loops, trips, strict=True)
        if (loop := search.loop(start, end, count)) is not None and may(start, end)
    ]
    if found:
        return _rewritten(plan, found)
    itself = Moved(plan, tuple(range(len(plan.steps))), tuple(range(len(plan.slots))))
    return Enclosed(itself, tuple((k,) for k in range(len(plan.kernels))))


# --- loops ---------------------------------------------------------------------------------------


class _Search:
    """Looks for loops that are worth a kernel."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._targets = sorted(s.target for s in plan.steps if isinstance(s, (Branch, Jump)))
        self._works: dict[int, Dim] = {}

    def loop(self, start: int, end: int, trips: int | None) -> _Loop | None:
        """A loop of these steps; None if it isn't worth a kernel, or can't be one."""
        branch = self._branch(start, end)
        work = None if branch is None else self._work(start, branch, end)
        if branch is None or work is None or compare("le", work, FUSION.trip_work) is not True:
            return None
        most = max(1, FUSION.loop_time // max(1, at_hint(work)))
        if trips is not None and 0 < trips <= most:
            return _Loop(start, end, branch, trips, True)
        return _Loop(start, end, branch, most, False)

    def _branch(self, start: int, end: int) -> int | None:
        """The step that leaves a loop, if that is the only way out, and its start the way in."""
        steps, targets = self._plan.steps, self._targets
        leaving = [n for n in range(start, end) if isinstance(steps[n], Branch)]
        if len(leaving) != 1 or steps[end - 1] != Jump(start):
            return None
        (branch,) = leaving
        left = steps[branch]
        assert isinstance(left, Branch), "so it was found"
        past = bisect_right(targets, start)
        to_start, inside = past - bisect_left(targets, start), bisect_left(targets, end) - past
        return branch if left.target == end and to_start == 1 and not inside else None

    def _work(self, start: int, branch: int, end: int) -> Dim | None:
        """Picoseconds of a trip; None where it launches nothing, or does what no kernel can."""
        plan, launches = self._plan, False
        total: Dim = 0
        for position in (*range(start, branch), *range(branch + 1, end - 1)):
            step = plan.steps[position]
            if isinstance(step, Copy):
                total = total + plan.slots[step.source].bytes * TASKS.copied_byte
            elif isinstance(step, Launch) and _is_plain(plan, step):
                total, launches = total + self._work_of(step.kernel), True
            elif not isinstance(step, Require) or position < branch:
                return None
        return total if launches else None

    def _work_of(self, kernel: int) -> Dim:
        found = self._works.get(kernel)
        if found is None:
            found = self._works[kernel] = kernel_work(self._plan.kernels[kernel])
        return found


def _is_plain(plan: Plan, step: Launch) -> bool:
    """Whether a kernel has no schedule yet, and sees each slot with its own dtype and size."""
    kernel = plan.kernels[step.kernel]
    types = [plan.slots[slot].type.stored for slot in step.arguments]
    return not kernel.schedule and all(
        type_.dtype is buffer.type.dtype and type_.size == buffer.type.size
        for buffer, type_ in zip(kernel.buffers, types, strict=True)
    )


# --- the kernel ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """What the kernel of a loop is made of; loops of equal keys have one kernel.

    Attributes:
        loop: the loop.
        steps: what a trip runs, in order.
        roles: of each slot that they touch: those that are only read come first, scratch last.
        key: all that the kernel depends on.
    """

    loop: _Loop
    steps: tuple[Step, ...]
    roles: Mapping[int, Role]
    key: Hashable

    @property
    def rooms(self) -> list[int]:
        """The slots that become scratch."""
        return [slot for slot, role in self.roles.items() if role == "scratch"]


def _form(plan: Plan, loop: _Loop, touches: Counter[int]) -> _Form:
    """The form of a loop; ``touches`` counts how often the plan's steps touch each slot."""
    body = plan.steps[loop.branch + 1 : loop.end - 1]
    condition = () if loop.is_whole else plan.steps[loop.start : loop.branch]
    steps = tuple([s for s in (*body, *condition) if isinstance(s, (Launch, Copy))])
    roles = _roles(plan, steps, _rooms(plan, loop, steps, touches))
    number = {slot: n for n, slot in enumerate(roles)}
    run = [
        (s.kernel, *map(number.__getitem__, s.arguments))
        if isinstance(s, Launch)
        else (-1, number[s.source], number[s.target])
        for s in steps
    ]
    kinds = [(role, plan.slots[slot].type.stored) for slot, role in roles.items()]
    told = None if loop.is_whole else number[_predicate(plan, loop)]
    return _Form(loop, steps, roles, (loop.most, told, tuple(run), tuple(kinds)))


def _predicate(plan: Plan, loop: _Loop) -> int:
    """The slot that says whether there is another trip."""
    leave = plan.steps[loop.branch]
    assert isinstance(leave, Branch), "so it was found"
    return leave.predicate


def _kernel(plan: Plan, form: _Form) -> Kernel:
    """The kernel that runs a loop: all of it, or while the condition, which has been seen to hold,
    does."""
    loop, steps = form.loop, form.steps
    name = next(plan.kernels[s.kernel].name for s in steps if isinstance(s, Launch))
    b = KernelBuilder(f"loop_{name}")
    buffers = {
        slot: b.buffer(f"b{number}", role, plan.slots[slot].type.stored)
        for number, (slot, role) in enumerate(form.roles.items())
    }
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
            trips.following = [b.load(buffers[_predicate(plan, loop)], b.constant(0, int64))]
    return b.finish()


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
                if is_written and _begins(plan, step, slot):
                    filled.add(slot)
    gone = _touches(plan, plan.steps[loop.first : loop.past])
    return frozenset(
        slot
        for slot in filled
        if plan.slots[slot].kind == "scratch"
        or (plan.slots[slot].kind == "temporary" and gone[slot] == touches[slot])
    )


def _touches(plan: Plan, steps: Sequence[Step]) -> Counter[int]:
    """How often steps touch each slot."""
    return Counter(slot for step in steps for slot, _ in plan.accesses(step))


def _begins(plan: Plan, step: Step, slot: int) -> bool:
    """Whether a step begins to fill a slot: with all of it, or with the first of the parts that
    make a whole."""
    if not isinstance(step, Launch):
        return True
    buffers = plan.kernels[step.kernel].buffers
    roles = [b.role for b, s in zip(buffers, step.arguments, strict=True) if s == slot]
    return all(role in ("out", "part", "scratch") for role in roles)


def _roles(plan: Plan, steps: Sequence[Step], rooms: frozenset[int]) -> dict[int, Role]:
    """The role of each slot that is touched, in the order of roles."""
    written: dict[int, bool] = {}
    for step in steps:
        for slot, is_written in plan.accesses(step):
            written[slot] = written.get(slot, False) or is_written
    roles: dict[int, Role] = {
        slot: "scratch" if slot in rooms else "update" if is_written else "in"
        for slot, is_written in written.items()
    }
    order = ("in", "update", "scratch")
    return {slot: roles[slot] for slot in sorted(roles, key=lambda s: order.index(roles[s]))}


# --- the plan ------------------------------------------------------------------------------------


def _rewritten(plan: Plan, found: Sequence[_Loop]) -> Enclosed:
    """The plan in which these loops are kernels."""
    rewriting = _Rewriting(plan)
    starts = {loop.first: loop for loop in found}
    position = 0
    while position < len(plan.steps):
        loop = starts.get(position)
        if loop is None:
            rewriting.keep(position)
            position += 1
        else:
            rewriting.enclose(loop)
            position = loop.past
    return rewriting.finished(found)


class _Rewriting:
    """A plan while some of its loops become kernels; targets are still the old ones."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._touches = _touches(plan, plan.steps)
        self._kernels, self._slots = list(plan.kernels), list(plan.slots)
        self._parts: list[tuple[int, ...]] = [(k,) for k in range(len(plan.kernels))]
        self._made: dict[Hashable, int] = {}
        self._steps: list[Step] = []
        self._origins: list[int] = []
        self._place: dict[int, int] = {}
        self._told: dict[int, str] = {}
        self._within: dict[int, int] = {}

    def keep(self, position: int) -> None:
        """Adds a step as it is."""
        self._place[position] = len(self._steps)
        self._add(position, self._plan.steps[position])

    def enclose(self, loop: _Loop) -> None:
        """Adds the launch of a loop's kernel in place of the steps that it runs."""
        plan = self._plan
        self._place[loop.first] = len(self._steps)
        enclosed = range(loop.first, loop.past)
        # whether a guard holds is a matter of sizes, alike in all trips
        for position in enclosed:
            if isinstance(plan.steps[position], Require):
                self._add(position, plan.steps[position])
        form = _form(plan, loop, self._touches)
        for slot in form.rooms:
            self._slots[slot] = replace(self._slots[slot], kind="scratch")
        launches = [s for s in plan.steps[loop.start : loop.end] if isinstance(s, Launch)]
        self._within |= dict.fromkeys(enclosed, len(self._steps))
        self._told |= {n: _TOLD for n in enclosed if isinstance(plan.steps[n], Copy)}
        kernel = self._made.setdefault(form.key, len(self._kernels))
        if kernel == len(self._kernels):
            self._kernels.append(_kernel(plan, form))
            self._parts.append(tuple([launch.kernel for launch in launches]))
        self._add(loop.first, Launch(kernel, tuple(form.roles), launches[-1].where))

    def _add(self, origin: int, step: Step) -> None:
        self._origins.append(origin)
        self._steps.append(step)

    def finished(self, found: Sequence[_Loop]) -> Enclosed:
        """The plan with its targets, without kernels that nothing launches any more."""
        plan, place = self._plan, self._place
        place[len(plan.steps)] = len(self._steps)
        # each loop of kernels goes back to its branch: the kernel has seen to the condition
        left = [loop for loop in found if not loop.is_whole]
        back = {place[loop.end - 1]: place[loop.branch] for loop in left}
        first = {(loop.start, loop.end): loop.branch for loop in left}
        gone = {(loop.start, loop.end) for loop in found if loop.is_whole}
        itself = range(len(self._slots))
        steps = [
            Jump(back[n]) if n in back else renamed(step, itself.__getitem__, place)
            for n, step in enumerate(self._steps)
        ]
        kept = _launched(steps)
        result = replace(
            plan,
            slots=tuple(self._slots),
            steps=tuple(_with_kernels(steps, kept)),
            kernels=tuple([self._kernels[k] for k in kept]),
            loops=tuple([
                (place[first.get(loop, loop[0])], place[loop[1]])
                for loop in plan.loops
                if loop not in gone
            ]),
        )
        moved = Moved(result, tuple(self._origins), tuple(itself), self._told, self._within)
        return Enclosed(moved, tuple([self._parts[k] for k in kept]))


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
