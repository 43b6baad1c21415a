"""Copies that need not be made: two slots of a plan that may be one.

    2: launch 0 (%4, %5)                   2: launch 0 (%4, %5)
    3: branch %5 else 9                    3: branch %5 else 6
    4: launch 1 (%4, %6)           ->      4: launch 1 (%4, %4)
    5: launch 2 (%1, %7)                   5: launch 2 (%1, %1)
    6: copy %6 to %4                       6: jump 2
    7: copy %7 to %1
    8: jump 2

What a loop carries, what branches give and what a scatter adds to are copied by lowering; this is
coalescing of copies, as compilers do it for registers. Two slots become one if neither is written
while the other one holds something that is read later, but for what a copy between them makes
equal. A kernel that reads one and writes the other must read each element before it writes that
place (``graphc.kernel.in_place``). What this leaves of a loop's copies ``passes.turns`` removes.

Invariant: memory only. ``passes.copies_check``, which shares no code with this, proves that the
plan still computes what it did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.ir.dims import at_hint
from graphc.kernel.in_place import safe_pairs
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan, Step
from passes.inplace import May

MOST_VISITS = 1 << 14
"""Straight pieces that are looked at for one copy; where control flow is so involved it stays."""

_READ, _WRITE, _PART = 1, 2, 4
"""How a step touches a slot: a part that is written leaves the rest of it as it was."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A plan whose steps have moved.

    Attributes:
        plan: the plan.
        origins: of each step that which it was; -1 for a new one.
        slots: of each slot that which it has become.
    """

    plan: Plan
    origins: tuple[int, ...]
    slots: tuple[int, ...]


def without_copies(plan: Plan, kept: Collection[int], may: May) -> Moved:
    """The plan without the copies whose slots can be one.

    Args:
        plan: without groups, a layout and a commit step.
        kept: slots that stay alone.
        may: is asked before a slot is taken for another one, with the two of a copy.
    """
    copies = _copies_in_order(plan)
    unchanged = Moved(plan, tuple(range(len(plan.steps))), tuple(range(len(plan.slots))))
    if not copies:
        return unchanged
    flow = Flow(plan)
    classes = _Classes(plan, flow, kept)
    for position in copies:
        classes.join(position, may)
    if not classes.joined:
        return unchanged
    return _rewritten(plan, classes)


def _copies_in_order(plan: Plan) -> list[int]:
    """The copies, those of inner loops first, of which the large ones."""
    found = [n for n, step in enumerate(plan.steps) if isinstance(step, Copy)]
    if not found:
        return []
    changes = [0] * (len(plan.steps) + 1)
    for start, end in plan.loops:
        changes[start] += 1
        changes[end] -= 1
    depths, depth = [], 0
    for change in changes[:-1]:
        depth += change
        depths.append(depth)
    targets = [step.target for step in map(plan.steps.__getitem__, found) if isinstance(step, Copy)]
    sizes = map(at_hint, plan.bytes_of(targets))
    ranks = {n: (-depths[n], -size, n) for n, size in zip(found, sizes, strict=True)}
    return sorted(found, key=ranks.__getitem__)


# --- flow ----------------------------------------------------------------------------------------


class Flow:
    """Straight pieces of a plan, what follows each, and which steps touch a slot.

    Attributes:
        touches: for each slot by step how that touches it.
        steps_of: for each slot these steps in order.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        count = len(plan.steps)
        starts = {0, count}
        for position, step in enumerate(plan.steps):
            if isinstance(step, (Branch, Jump)):
                starts.update((position + 1, step.target))
        self._starts = sorted(starts)
        self.touches: dict[int, dict[int, int]] = {}
        begun: set[int] = set()
        for position, step in enumerate(plan.steps):
            for slot, how in self._touched(step):
                found = self.touches.setdefault(slot, {})
                if how == _PART and slot not in begun:
                    # of the parts of a whole the first ends what was there before
                    begun.add(slot)
                    how = _PART | _WRITE
                found[position] = found.get(position, 0) | how
        self.steps_of = {slot: [*found] for slot, found in self.touches.items()}

    def _touched(self, step: Step) -> Iterator[tuple[int, int]]:
        if not isinstance(step, Launch):
            for slot, written in self.plan.accesses(step):
                yield slot, _WRITE if written else _READ
            return
        buffers = self.plan.kernels[step.kernel].buffers
        for slot, buffer in zip(step.arguments, buffers, strict=True):
            if buffer.role == "update":
                yield slot, _READ | _WRITE
            elif buffer.role == "part":
                yield slot, _PART
            else:
                yield slot, _READ if buffer.role == "in" else _WRITE

    def is_live(
        self, slot: int, position: int, outputs: Collection[int], visits: list[int]
    ) -> bool:
        """Whether what a slot holds before a step is read from there on.

        ``outputs`` are read at the end. Where ``visits`` is used up it may be.
        """
        steps, touches = self.steps_of.get(slot, []), self.touches.get(slot, {})
        pending, seen = [position], {position}
        while pending:
            start = pending.pop()
            visits[0] -= 1
            if visits[0] < 0 or start == len(self.plan.steps):
                if visits[0] < 0 or slot in outputs:
                    return True
                continue
            stop = self._starts[bisect_right(self._starts, start)]
            how, at = 0, bisect_left(steps, start)
            while not how & (_READ | _WRITE) and at < len(steps) and steps[at] < stop:
                how, at = touches[steps[at]], at + 1
            if how & _READ:
                return True
            if how & _WRITE:
                continue
            for target in self._next(stop):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return False

    def _next(self, stop: int) -> tuple[int, ...]:
        last = self.plan.steps[stop - 1]
        if isinstance(last, Jump):
            return (last.target,)
        return (stop, last.target) if isinstance(last, Branch) else (stop,)


# --- slots that are one --------------------------------------------------------------------------


class _Classes:
    """Slots that are one, by the one that stands for them; its touches are those of all."""

    def __init__(self, plan: Plan, flow: Flow, kept: Collection[int]) -> None:
        self.plan = plan
        self.flow = flow
        self.joined: set[int] = set()
        self._root = list(range(len(plan.slots)))
        self._fixed = {*plan.outputs}
        self._safe: dict[int, set[tuple[int, int]]] = {}
        self._can = [
            slot.kind == "output" or (slot.kind == "temporary" and slot.copies == 1)
            for slot in plan.slots
        ]
        for slot in kept:
            self._can[slot] = False

    def root(self, slot: int) -> int:
        """The slot that stands for this one."""
        root = self._root
        while root[slot] != slot:
            root[slot] = root[root[slot]]
            slot = root[slot]
        return slot

    def join(self, position: int, may: May) -> None:
        """Makes the slots of a copy one, if they can be; other copies between them go too."""
        copy = self.plan.steps[position]
        assert isinstance(copy, Copy), "it is among the copies"
        one, two = self.root(copy.source), self.root(copy.target)
        if one == two or not (self._can[one] and self._can[two]):
            return
        if one in self._fixed and two in self._fixed:
            return
        first, second = self.plan.slots[one], self.plan.slots[two]
        if first.type.dtype is not second.type.dtype or first.bytes != second.bytes:
            return
        visits = [MOST_VISITS]
        if self._meet(one, two, visits) or self._meet(two, one, visits):
            return
        if not may(copy.source, copy.target):
            return
        keep, gone = (one, two) if one in self._fixed else (two, one)
        self._merge(keep, gone)

    def _meet(self, written: int, held: int, visits: list[int]) -> bool:
        """Whether a slot is written where the other one holds what is read later."""
        flow, pair = self.flow, {written, held}
        touches, others = flow.touches[written], flow.touches[held]
        for position, how in touches.items():
            if not how & (_WRITE | _PART):
                continue
            step = self.plan.steps[position]
            if isinstance(step, Copy) and self.root(step.source) in pair:
                continue
            also = others.get(position, 0)
            if also & (_WRITE | _PART) or (also and not self._reads_first(step, pair)):
                return True
            if flow.is_live(held, position + 1, self._fixed, visits):
                return True
        return False

    def _reads_first(self, step: Step, pair: set[int]) -> bool:
        """Whether a kernel reads each element of the pair before it writes that place."""
        if not isinstance(step, Launch):
            return False
        safe = self._safe.get(step.kernel)
        kernel = self.plan.kernels[step.kernel]
        if safe is None:
            safe = self._safe[step.kernel] = set(safe_pairs(kernel))
        places = [n for n, slot in enumerate(step.arguments) if self.root(slot) in pair]
        read = [n for n in places if kernel.buffers[n].role == "in"]
        return all((a, b) in safe for a in read for b in places if b not in read)

    def _merge(self, keep: int, gone: int) -> None:
        flow = self.flow
        touches, steps = flow.touches[keep], flow.steps_of[keep]
        self._root[gone] = keep
        for position, how in flow.touches.pop(gone).items():
            if position in touches:
                touches[position] |= how
            else:
                touches[position] = how
                insort(steps, position)
        del flow.steps_of[gone]
        for position in [*touches]:
            step = self.plan.steps[position]
            if isinstance(step, Copy) and self.root(step.source) == self.root(step.target):
                self.joined.add(position)
                del touches[position]
                steps.pop(bisect_left(steps, position))


# --- the plan without them -----------------------------------------------------------------------


def _rewritten(plan: Plan, classes: _Classes) -> Moved:
    """The plan over the slots that are left."""
    count = len(plan.steps)
    kept = [position not in classes.joined for position in range(count)]
    behind = [0] * (count + 1)
    for position in range(count - 1, -1, -1):
        step = plan.steps[position]
        if isinstance(step, (Branch, Jump)) and step.target > position:
            # it leads to where it goes on anyway
            kept[position] = behind[position + 1] != behind[step.target]
        behind[position] = behind[position + 1] + kept[position]
    place = [behind[0] - left for left in behind]
    roots = [classes.root(slot) for slot in range(len(plan.slots))]
    number = {slot: n for n, slot in enumerate(sorted(set(roots)))}
    slot_of = [number[root] for root in roots]
    named = {root: slot for slot, root in enumerate(roots) if plan.slots[slot].name}
    origins = [position for position in range(count) if kept[position]]
    steps = [renamed(plan.steps[position], slot_of.__getitem__, place) for position in origins]
    slots = tuple(
        replace(plan.slots[root], name=plan.slots[named.get(root, root)].name) for root in number
    )
    moved = replace(
        plan,
        slots=slots,
        steps=tuple(steps),
        feeds=tuple(slot_of[slot] for slot in plan.feeds),
        outputs=tuple(slot_of[slot] for slot in plan.outputs),
        constants={slot_of[slot]: array for slot, array in plan.constants.items()},
        loops=tuple((place[start], place[end]) for start, end in plan.loops),
        renewed=tuple(
            (None if old is None else slot_of[old], slot_of[new]) for old, new in plan.renewed
        ),
    )
    return Moved(moved, tuple(origins), tuple(slot_of))


def renamed(
    step: Step, slot_of: Callable[[int], int], place: Sequence[int] | Mapping[int, int]
) -> Step:
    """A step over other slots, with targets at other places."""
    if isinstance(step, Launch):
        return Launch(step.kernel, tuple(map(slot_of, step.arguments)), step.where)
    if isinstance(step, Copy):
        return Copy(slot_of(step.source), slot_of(step.target))
    if isinstance(step, Branch):
        return Branch(slot_of(step.predicate), place[step.target])
    return Jump(place[step.target])


__all__ = ["Flow", "Moved", "renamed", "without_copies"]
