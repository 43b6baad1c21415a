"""Loop turns: slots of a loop swap roles from trip to trip, so that its end copies nothing.

    2: launch 0 (%4, %5)                   2: launch 0 (%4, %5)
    3: branch %5 else 7                    3: branch %5 else 10
    4: launch 1 (%1, %6)           ->      4: launch 1 (%1, %6)      from one to the other
    5: copy %6 to %1                       5: launch 0 (%4, %5)
    6: jump 2                              6: branch %5 else 9
                                           7: launch 1 (%6, %1)      and back
                                           8: jump 2
                                           9: copy %6 to %1          behind an odd number

A stencil reads neighbours, so its result can't lie where its operand does. Two slots then take
turns: the loop is unrolled until each slot is where it was, and the trips share their kernels. So
are values that move from one carried variable to the next, as the last two states of a wave. Behind
the loop a copy brings home the slots that are needed there.

Invariant: only memory changes, as in ``passes.plan.copy_elision``, whose checker proves this too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import lcm

from graphc.base.tuning.fusion import MEMORY
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Step
from passes.plan.moved import Moved
from passes.plan.slot_flow import Flow


@dataclass(frozen=True, slots=True)
class Rotation:
    """How a loop goes round.

    Attributes:
        start, end: the loop.
        tail: the first of the copies at its end.
        follows: for each slot in turn the one that holds its content in the next trip.
        trips: the number of trips after which each slot is where it was.
        copied: the other copies at the end.
        home: the slots whose content is needed behind the loop.
    """

    start: int
    end: int
    tail: int
    follows: dict[int, int]
    trips: int
    copied: tuple[Copy, ...]
    home: tuple[int, ...]


def in_turns(plan: Plan, may: Callable[[int, int], bool]) -> Moved:
    """The plan with loops in which slots take turns in place of copies.

    ``may`` is asked before each, with the two slots of one of its copies.
    """
    found: dict[int, list[Rotation]] = {}
    told: dict[int, str] = {}
    targets = {step.target for step in plan.steps if isinstance(step, (Branch, Jump))}
    flow: Flow | None = None
    for start, end in plan.loops:
        copies = _copies_at_end(plan, start, end, targets)
        if copies:
            flow = flow or Flow(plan)
            rotation = _rotation(plan, flow, start, end, copies)
            if rotation is not None:
                new = next(iter(rotation.follows))
                if may(rotation.follows[new], new):
                    found.setdefault(start, []).append(rotation)
                    text = f"{rotation.trips} blocks take turns"
                    told |= dict.fromkeys(range(rotation.tail, end - 1), text)
    if not found:
        return Moved(plan, tuple(range(len(plan.steps))), tuple(range(len(plan.slots))))
    return replace(_Writer(plan, found).run(), told=told)


def _copies_at_end(plan: Plan, start: int, end: int, targets: set[int]) -> list[Copy]:
    """The copies that all trips end with."""
    found: list[Copy] = []
    for position in range(end - 2, start - 1, -1):
        step = plan.steps[position]
        if not isinstance(step, Copy) or position + 1 in targets:
            break
        found.append(step)
    return found[::-1]


def _rotation(
    plan: Plan, flow: Flow, start: int, end: int, copies: Sequence[Copy]
) -> Rotation | None:
    """How a loop that ends with these copies can go round; None if it can't, or takes too much."""

    def is_live(slot: int, position: int) -> bool:
        return flow.is_live(slot, position, flow.slots[slot])

    content: dict[int, int] = {}
    for copy in copies:
        content[copy.target] = content.get(copy.source, copy.source)
    wanted = {new: old for new, old in content.items() if new != old and is_live(new, start)}
    follows: dict[int, int] = {}
    # in a cycle each slot comes to stand for all others
    same_shapes = not flow.shown.isdisjoint({*wanted, *wanted.values()})
    for new, old in wanted.items():
        slots = plan.slots[new], plan.slots[old]
        alike = slots[0].type.dtype is slots[1].type.dtype and slots[0].bytes == slots[1].bytes
        alike = alike and (not same_shapes or slots[0].type == slots[1].type)
        moves = all(slot.kind in ("temporary", "output") for slot in slots)
        is_own = old in wanted or not is_live(old, start)
        if alike and moves and is_own and old not in follows.values():
            follows[new] = old
    copied = tuple(Copy(old, new) for new, old in wanted.items() if new not in follows)
    overwritten = {copy.target for copy in copied}
    read = {*follows.values(), *(copy.source for copy in copied)}
    if not follows or overwritten & (read | follows.keys()):
        return None
    # what is carried last in a chain comes next where its first was
    first_of = {old: new for new, old in follows.items()}
    for old in [old for old in first_of if old not in follows]:
        slot = old
        while slot in first_of:
            slot = first_of[slot]
        follows[old] = slot
    trips = lcm(*_cycles(follows))
    tail = end - 1 - len(copies)
    if trips > MEMORY.turned_trips or (tail - start) * trips > MEMORY.turned_steps:
        return None
    home = tuple(slot for slot in follows if is_live(slot, end))
    return Rotation(start, end, tail, follows, trips, copied, home)


def _cycles(follows: dict[int, int]) -> Iterator[int]:
    """The lengths of a permutation's cycles."""
    seen: set[int] = set()
    for first in follows:
        length, slot = 0, first
        while slot not in seen:
            seen.add(slot)
            slot = follows[slot]
            length += 1
        if length:
            yield length


# --- writing -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Label:
    """A place in the new table, known when it is reached."""

    position: int = -1


@dataclass(slots=True)
class _Span:
    """Steps of the old plan that are written once, among them perhaps loops that go round.

    Attributes:
        start, end: the steps.
        slots: what slots are called there, those that are called otherwise.
        around: the span that this one stands in.
        leave: where what goes to the end of the loop around leads, if this is a trip of one.
        loop: that loop's end.
        labels: the places of old steps.
    """

    start: int
    end: int
    slots: dict[int, int]
    around: _Span | None = None
    leave: _Label | None = None
    loop: int = -1
    labels: dict[int, _Label] = field(default_factory=dict)

    def label(self, position: int) -> _Label:
        """The place of an old step."""
        if self.leave is not None and position == self.loop:
            return self.leave
        if self.start <= position <= self.end:
            return self.labels.setdefault(position, _Label())
        assert self.around is not None, "every step is in the plan"
        return self.around.label(position)


class _Writer:
    def __init__(self, plan: Plan, found: dict[int, list[Rotation]]) -> None:
        self.plan = plan
        self.found = found
        self.steps: list[tuple[Step, _Label | None]] = []
        self.origins: list[int] = []
        self.loops: list[tuple[_Label, _Label]] = []
        self._loops: dict[int, list[int]] = {}
        for start, end in plan.loops:
            self._loops.setdefault(start, []).append(end)

    def run(self) -> Moved:
        count = len(self.plan.slots)
        self._span(_Span(0, len(self.plan.steps), {}), set())
        steps: list[Step] = []
        for step, label in self.steps:
            if label is None:
                steps.append(step)
            elif isinstance(step, Branch):
                steps.append(Branch(step.predicate, label.position))
            else:
                steps.append(Jump(label.position))
        loops = [(start.position, end.position) for start, end in self.loops]
        loops.sort(key=lambda loop: (loop[1], -loop[0]))
        moved = replace(self.plan, steps=tuple(steps), loops=tuple(loops))
        return Moved(moved, tuple(self.origins), tuple(range(count)))

    def _span(self, span: _Span, opened: set[tuple[int, int]]) -> None:
        """Writes a span; ``opened`` are the loops around that start where it does."""
        position = span.start
        while position <= span.end:
            span.label(position).position = len(self.steps)
            if position == span.end:
                break
            for end in self._loops.get(position, ()):
                if end <= span.end and not any((r.end == end) for r in self._rotations(position)):
                    self.loops.append((span.label(position), span.label(end)))
            outer = [
                rotation
                for rotation in self._rotations(position)
                if rotation.end <= span.end and (position, rotation.end) not in opened
            ]
            if outer:
                rotation = max(outer, key=lambda rotation: rotation.end)
                self._rounds(rotation, span, opened | {(position, rotation.end)})
                position = rotation.end
                continue
            self._step(position, span)
            position += 1

    def _rotations(self, position: int) -> Sequence[Rotation]:
        return self.found.get(position, ())

    def _step(self, position: int, span: _Span) -> None:
        step = self.plan.steps[position]
        names = span.slots
        label: _Label | None = None
        if isinstance(step, Launch):
            if names:
                given = tuple([names.get(slot, slot) for slot in step.arguments])
                step = Launch(step.kernel, given, step.where)
        elif isinstance(step, Copy):
            step = Copy(names.get(step.source, step.source), names.get(step.target, step.target))
        elif isinstance(step, HostCall):
            step = step.renamed(lambda slot: names.get(slot, slot))
        elif isinstance(step, (Branch, Jump)):
            label = span.label(step.target)
            if isinstance(step, Branch):
                step = Branch(names.get(step.predicate, step.predicate), 0)
        self._add(step, position, label)

    def _add(self, step: Step, origin: int, label: _Label | None = None) -> None:
        self.steps.append((step, label))
        self.origins.append(origin)

    def _rounds(self, rotation: Rotation, around: _Span, opened: set[tuple[int, int]]) -> None:
        """A loop that goes round: its trips, and what brings home the slots."""
        follows, names = rotation.follows, around.slots
        behind = around.label(rotation.end)
        begin = _Label(len(self.steps))
        turn = {slot: slot for slot in follows}
        returns: list[tuple[_Label, list[Copy]]] = []
        for _ in range(rotation.trips):
            moves = [Copy(turn[slot], slot) for slot in rotation.home if turn[slot] != slot]
            leave = _Label() if moves else behind
            if moves:
                returns.append((leave, moves))
            slots = names | {slot: names.get(now, now) for slot, now in turn.items()}
            span = _Span(rotation.start, rotation.tail, slots, around, leave, rotation.end)
            self._span(span, opened)
            for copy in rotation.copied:
                source = slots.get(copy.source, copy.source)
                self._add(Copy(source, names.get(copy.target, copy.target)), -1)
            turn = {slot: turn[follows[slot]] for slot in follows}
        self._add(Jump(0), rotation.end - 1, begin)
        self.loops.append((begin, _Label(len(self.steps))))
        for number, (leave, moves) in enumerate(returns):
            leave.position = len(self.steps)
            for copy in _one_by_one(moves, self._spare):
                source = names.get(copy.source, copy.source)
                self._add(Copy(source, names.get(copy.target, copy.target)), -1)
            if number < len(returns) - 1:
                self._add(Jump(0), -1, behind)

    def _spare(self, slot: int) -> int:
        """A new slot like another one."""
        slots = self.plan.slots
        spare = replace(slots[slot], kind="temporary", name="")
        self.plan = replace(self.plan, slots=(*slots, spare))
        return len(slots)


def _one_by_one(moves: Sequence[Copy], spare: Callable[[int], int]) -> Iterator[Copy]:
    """Copies that are made at once, in an order in which none overwrites what another one reads."""
    left = {copy.target: copy.source for copy in moves}
    while left:
        read = [*left.values()]
        free = [target for target in left if target not in read]
        if not free:
            # a circle: one is put aside
            target = next(iter(left))
            held = spare(target)
            yield Copy(target, held)
            left = {new: held if old == target else old for new, old in left.items()}
            continue
        for target in free:
            yield Copy(left.pop(target), target)


__all__ = ["in_turns"]
