"""Copy elision: a copy goes where its two slots can be one.

    2: launch 0 (%4, %5)                   2: launch 0 (%4, %5)
    3: branch %5 else 9                    3: branch %5 else 6
    4: launch 1 (%4, %6)           ->      4: launch 1 (%4, %4)
    5: launch 2 (%1, %7)                   5: launch 2 (%1, %1)
    6: copy %6 to %4                       6: jump 2
    7: copy %7 to %1
    8: jump 2

Lowering copies carried values of loops, results of branches and bases of scatters. This pass
coalesces copies, as register allocators do. Two slots become one if neither is written while the
other is live, unless a copy has made their contents equal. A kernel that reads one and writes the
other must read each element before it writes that place (``graphc.kernel.analysis.aliasing``).
``passes.plan.loop_turns`` removes copies of loops that are left.

Invariant: only memory changes. ``passes.checks.copies``, which shares no code with this, proves
that the plan computes the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import replace

from graphc.ir.dims.expressions import at_hint
from graphc.kernel.analysis.aliasing import safe_pairs
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Step
from passes.plan.in_place import May
from passes.plan.moved import Moved, renamed
from passes.plan.slot_flow import PART, WRITE, Flow


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
    told = classes.told | dict.fromkeys(classes.joined, "it is written in place")
    if not classes.joined:
        return replace(unchanged, told=told)
    return replace(_rewritten(plan, classes), told=told)


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


# --- slots that are one --------------------------------------------------------------------------


class _Classes:
    """Classes of slots that are one, each by its representative, which has the touches of all.

    The slot with fewer touches joins the other one. Only steps within both live ranges are looked
    at. So each copy of a long chain takes logarithmic time.

    Attributes:
        joined: the copies that go.
        told: why others stay.
        named: for representatives, the output that is in the class.
    """

    def __init__(self, plan: Plan, flow: Flow, kept: Collection[int]) -> None:
        self.plan = plan
        self.flow = flow
        self.joined: set[int] = set()
        self.told: dict[int, str] = {}
        self.named: dict[int, int] = {}
        self._bits = dict(flow.slots)
        self._root = list(range(len(plan.slots)))
        self._fixed = {*plan.outputs}
        self._safe: dict[int, set[tuple[int, int]]] = {}
        self._can = [
            slot.kind == "output" or (slot.kind == "temporary" and slot.copies == 1)
            for slot in plan.slots
        ]
        for slot in kept:
            self._can[slot] = False
        self._shown = {*flow.shown}

    def root(self, slot: int) -> int:
        """The representative of a slot."""
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
        if one == two:
            return
        reason = self._unlike(one, two) or self._meet(one, two) or self._meet(two, one)
        if reason is None and not may(copy.source, copy.target):
            reason = "inplace is switched off, or no fuel was left"
        if reason is not None:
            self.told[position] = reason
            return
        few, many = sorted((one, two), key=lambda slot: len(self.flow.touches[slot]))
        self._merge(many, few)

    def _unlike(self, one: int, two: int) -> str | None:
        """Why two slots can't be one whatever the steps are."""
        first, second = self.plan.slots[one], self.plan.slots[two]
        if not (self._can[one] and self._can[two]):
            return "it comes from outside, or a variable is to get it"
        if one in self._fixed and two in self._fixed:
            return "both are results of the program"
        if first.type.dtype is not second.type.dtype or first.bytes != second.bytes:
            return "their sizes may differ"
        if {one, two} & self._shown:
            left, right = (self.plan.slots[self.named.get(slot, slot)] for slot in (one, two))
            if left.type != right.type:
                return "a Python function sees their shapes, which differ"
        return None

    def _meet(self, written: int, held: int) -> str | None:
        """Why two slots can't be one: ``written`` is written while ``held`` is live; else None."""
        flow, pair = self.flow, {written, held}
        touches, others = flow.touches[written], flow.touches[held]
        bits = self._bits[held]
        steps, (first, end) = flow.steps_of[written], flow.span(held, bits)
        for position in steps[bisect_left(steps, first) : bisect_left(steps, end)]:
            how = touches[position]
            if not how & (WRITE | PART):
                continue
            step = self.plan.steps[position]
            if isinstance(step, Copy) and self.root(step.source) in pair:
                continue
            also = others.get(position, 0)
            if also & (WRITE | PART) or (also and not self._reads_first(step, pair)):
                return f"{self._named(step)} reads elements where it would have written already"
            if flow.is_live(held, position + 1, bits):
                return f"the old value is read after {self._named(step)} has made the new one"
        return None

    def _named(self, step: Step) -> str:
        if isinstance(step, Launch):
            return f"kernel {self.plan.kernels[step.kernel].name!r}"
        return f"{step.function}" if isinstance(step, HostCall) else "a copy"

    def _reads_first(self, step: Step, pair: set[int]) -> bool:
        """Whether a kernel reads each element of the pair before it writes that place."""
        if not isinstance(step, Launch):
            return isinstance(step, HostCall)
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
        self._bits[keep] |= self._bits.pop(gone)
        if gone in self._fixed:
            self._fixed.add(keep)
            self.named[keep] = self.named.get(gone, gone)
        if gone in self._shown:
            self._shown.add(keep)
        del flow.steps_of[gone]
        for position, how in flow.touches.pop(gone).items():
            if position not in touches:
                touches[position] = how
                insort(steps, position)
                continue
            touches[position] |= how
            step = self.plan.steps[position]
            if isinstance(step, Copy):
                # from one to the other
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
    roots = [classes.named.get(root, root) for root in roots]
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


__all__ = ["without_copies"]
