"""Data flow of a plan's slots, over all paths: which steps touch a slot, and where it is live.

Liveness is worked out for all slots at once, with one bit for each, at the beginnings of straight
pieces. Slots that become one are looked at together, by a mask of their bits: copies between them
aside, the class is live where any of them is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Step

READ, WRITE, PART = 1, 2, 4
"""How a step touches a slot: a part that is written leaves the rest of it as it was."""


class Flow:
    """The flow of a plan, as far as copies matter to it.

    Attributes:
        slots: those that copies read or write, each with its bit.
        touches: for each of these slots, how each step touches it.
        steps_of: for each of these slots, the steps that touch it, in order.
        shown: the slots whose shapes Python functions see; to all else a slot is so many elements.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        copies = [step for step in plan.steps if isinstance(step, Copy)]
        moved = dict.fromkeys(slot for copy in copies for slot in (copy.source, copy.target))
        self.slots = {slot: 1 << n for n, slot in enumerate(moved)}
        self.touches: dict[int, dict[int, int]] = {slot: {} for slot in moved}
        begun: set[int] = set()
        for position, step in enumerate(plan.steps):
            for slot, how in self._touched(step):
                if slot not in moved:
                    continue
                if how == PART and slot not in begun:
                    # of the parts of a whole the first ends what was there before
                    begun.add(slot)
                    how = PART | WRITE
                found = self.touches[slot]
                found[position] = found.get(position, 0) | how
        self.steps_of = {slot: [*found] for slot, found in self.touches.items()}
        self.shown = {
            slot for step in plan.steps if isinstance(step, HostCall)
            for slot in (*step.given, *step.made)
        }  # fmt: skip
        starts = {0, len(plan.steps)}
        for position, step in enumerate(plan.steps):
            if isinstance(step, (Branch, Jump)):
                starts.update((position + 1, step.target))
        self._starts = sorted(starts)
        self._live = self._live_at_starts()
        self._loops = _loops_around(plan.loops, self._starts)

    def _touched(self, step: Step) -> Iterator[tuple[int, int]]:
        if not isinstance(step, Launch):
            for slot, written in self.plan.accesses(step):
                yield slot, WRITE if written else READ
            return
        buffers = self.plan.kernels[step.kernel].buffers
        for slot, buffer in zip(step.arguments, buffers, strict=True):
            if buffer.role == "update":
                yield slot, READ | WRITE
            elif buffer.role == "part":
                yield slot, PART
            else:
                yield slot, READ if buffer.role == "in" else WRITE

    def _live_at_starts(self) -> dict[int, int]:
        """The bits of live slots, by the first steps of straight pieces."""
        read = dict.fromkeys(self._starts, 0)
        written = dict.fromkeys(self._starts, 0)
        for slot, found in self.touches.items():
            bit, last = self.slots[slot], -1
            for position, how in found.items():
                start = self._starts[bisect_right(self._starts, position) - 1]
                if start == last or not how & (READ | WRITE):
                    continue
                # the first such touch of a piece decides
                last = start
                (read if how & READ else written)[start] |= bit
        count = len(self.plan.steps)
        live = dict.fromkeys(self._starts, 0)
        live[count] = sum(self.slots.get(slot, 0) for slot in {*self.plan.outputs})
        pieces = [*pairwise(self._starts)][::-1]
        changed = True
        while changed:
            # backwards, so once more for each level of loops
            changed = False
            for start, stop in pieces:
                behind = 0
                for target in self._next(stop):
                    behind |= live[target]
                now = read[start] | (behind & ~written[start])
                changed |= now != live[start]
                live[start] = now
        return live

    def _next(self, stop: int) -> tuple[int, ...]:
        last = self.plan.steps[stop - 1]
        if isinstance(last, Jump):
            return (last.target,)
        return (stop, last.target) if isinstance(last, Branch) else (stop,)

    def is_live(self, slot: int, position: int, bits: int) -> bool:
        """Whether a slot is live before a step; ``bits`` has the bits of all slots of its class."""
        if position == len(self.plan.steps):
            return bool(self._live[position] & bits)
        stop = self._starts[bisect_right(self._starts, position)]
        steps, touches = self.steps_of[slot], self.touches[slot]
        for step in steps[bisect_left(steps, position) : bisect_left(steps, stop)]:
            if touches[step] & (READ | WRITE):
                return bool(touches[step] & READ)
        return any(self._live[target] & bits for target in self._next(stop))

    def span(self, slot: int, bits: int) -> tuple[int, int]:
        """The steps outside of which a slot is not live."""
        steps = self.steps_of[slot]
        if not steps:
            return 0, 0
        start, end = steps[0], steps[-1] + 1
        for first, last in self._loops[bisect_right(self._starts, steps[0]) - 1]:
            if self._live[first] & bits:
                start, end = min(start, first), max(end, last)
        for first, last in self._loops[bisect_right(self._starts, steps[-1]) - 1]:
            if self._live[first] & bits:
                start, end = min(start, first), max(end, last)
        return start, len(self.plan.steps) if self._live[len(self.plan.steps)] & bits else end


def _loops_around(
    loops: Collection[tuple[int, int]], starts: Sequence[int]
) -> list[tuple[tuple[int, int], ...]]:
    """The loops around each straight piece."""
    waiting = sorted(loops, key=lambda loop: (-loop[0], loop[1]))
    inside: tuple[tuple[int, int], ...] = ()
    result = []
    for start in starts:
        while inside and inside[-1][1] <= start:
            inside = inside[:-1]
        while waiting and waiting[-1][0] <= start:
            inside = (*inside, waiting.pop())
        result.append(inside)
    return result


__all__ = ["PART", "READ", "WRITE", "Flow"]
