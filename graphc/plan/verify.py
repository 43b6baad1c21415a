"""The invariants of plans, checked.

A plan that passes can run: slots and steps name what is there, kernels get buffers of their dtypes
and write only what may be written, whatever is read was written before on every path, every result
is written, all dims follow from the feeds, and what lies in one memory (``verify_memory``) doesn't
get in each other's way. That places in the arena don't overlap is proved where they are chosen, by
the memory planner's checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, get_args

from graphc.ir.dims import expressions as dims
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import bool_
from graphc.kernel.ir import stored_parts
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Require, SlotKind, Step
from graphc.plan.verify_memory import MemoryChecker, PlanChecker

_KINDS = get_args(SlotKind)
_GIVEN = ("feed", "state", "constant")


def verify_plan(plan: Plan) -> None:
    """Checks a plan.

    Raises:
        VerifyError: names the slot or step and what is wrong with it.
    """
    checker = _Checker(plan)
    checker.slots()
    for position, step in enumerate(plan.steps):
        checker.step(position, step)
    checker.loops()
    checker.commit()
    checker.groups()
    checker.dims()
    checker.flow()
    MemoryChecker(plan).run()


class _Checker(PlanChecker):
    """Checks one plan; later checks rely on earlier ones."""

    # --- slots -----------------------------------------------------------------------------------

    def slots(self) -> None:
        plan = self.plan
        for number, slot in enumerate(plan.slots):
            if slot.kind not in _KINDS:
                self.fail(f"slot %{number} is of the unknown kind {slot.kind!r}")
            if slot.copies < 1 or (slot.copies > 1 and slot.kind != "scratch"):
                self.fail(f"the {self.label(number)} has {slot.copies} copies")
            for dim in slot.type.shape:
                upper = dims.bounds(dim)[1]
                if upper is not None and upper < 0:
                    self.fail(f"{self.label(number)} has the extent {dim}")
        self._listed("feeds", plan.feeds, ("feed", "state"))
        self._listed("outputs", plan.outputs, ("output",))
        kinds = [plan.slots[slot].kind for slot in plan.feeds]
        if kinds != sorted(kinds):
            self.fail("a feed comes after state")
        expected = {n for n, slot in enumerate(plan.slots) if slot.kind == "constant"}
        for number in expected.symmetric_difference(plan.constants):
            self.fail(f"slot %{number} is a constant without an array, or the other way round")
        for number, array in plan.constants.items():
            type_ = plan.slots[number].type
            if array.dtype != type_.dtype.numpy or array.shape != type_.shape:
                given = f"{array.dtype}{list(array.shape)}"
                self.fail(f"{self.label(number)} of type {type_} holds an array {given}")

    def _listed(self, what: str, listed: Sequence[int], kinds: tuple[str, ...]) -> None:
        slots = self.plan.slots
        for number in listed:
            if not 0 <= number < len(slots):
                self.fail(f"{what} name slot %{number}, there are {len(slots)}")
            if slots[number].kind not in kinds:
                self.fail(f"{what} name the {self.label(number)}")
        if len(set(listed)) != len(listed):
            self.fail(f"{what} name a slot twice")
        missing = {n for n, slot in enumerate(slots) if slot.kind in kinds}.difference(listed)
        for number in sorted(missing):
            self.fail(f"{what} lack the {self.label(number)}")

    # --- steps -----------------------------------------------------------------------------------

    def step(self, position: int, step: Step) -> None:
        if isinstance(step, Launch):
            self._launch(position, step)
        elif isinstance(step, Copy):
            self._known(position, step.source)
            self._known(position, step.target)
            self._writable(position, step.target)
            source, target = self.plan.slots[step.source], self.plan.slots[step.target]
            if step.source == step.target:
                self.fail("copies a slot to itself", position)
            given, wanted = source.type.stored, target.type.stored
            if given.dtype is wanted.dtype:
                self._sizes(position, given.size, wanted.size)
            elif not self.sizes_agree(given.bytes, wanted.bytes):
                self.fail(f"copies {source.type} to {target.type}", position)
        elif isinstance(step, HostCall):
            for slot in (*step.arguments, *step.results):
                self._known(position, slot)
            for slot in step.results:
                self._writable(position, slot)
            if len({*step.results}) < len(step.results):
                self.fail("writes a slot twice", position)
            if step.ordered and not (step.arguments and step.results):
                self.fail("has no place in the order of effects", position)
        elif not isinstance(step, Require):
            if isinstance(step, Branch):
                self._known(position, step.predicate)
                type_ = self.plan.slots[step.predicate].type
                if type_.dtype is not bool_ or type_.size != 1:
                    self.fail(f"branches on a {type_}, not on one bool", position)
            if not 0 <= step.target <= self.count:
                self.fail(f"goes to step {step.target}, there are {self.count}", position)

    def _known(self, position: int, slot: int) -> None:
        if not 0 <= slot < len(self.plan.slots):
            self.fail(f"names slot %{slot}, there are {len(self.plan.slots)}", position)

    def _writable(self, position: int, slot: int) -> None:
        if self.plan.slots[slot].kind in _GIVEN:
            self.fail(f"writes the {self.label(slot)}", position)

    def _sizes(self, position: int, left: Dim, right: Dim) -> None:
        if not self.sizes_agree(left, right):
            self.fail(f"sizes {left} and {right} differ", position)

    def _launch(self, position: int, step: Launch) -> None:
        kernels = self.plan.kernels
        if not 0 <= step.kernel < len(kernels):
            self.fail(f"launches kernel {step.kernel}, there are {len(kernels)}", position)
        kernel = kernels[step.kernel]
        if len(step.arguments) != len(kernel.buffers):
            self.fail(
                f"gives {len(step.arguments)} arguments to kernel {kernel.name!r} "
                f"of {len(kernel.buffers)} buffers",
                position,
            )
        written: set[int] = set()
        parts: set[int] = set()
        for slot, buffer in zip(step.arguments, kernel.buffers, strict=True):
            self._known(position, slot)
            found = self.plan.slots[slot]
            what = f"buffer {buffer.name!r} of kernel {kernel.name!r}"
            seen = found.type.stored
            if seen.dtype is not buffer.type.dtype:
                self.fail(
                    f"{what} is {buffer.type.dtype}, slot %{slot} is {seen.dtype}", position
                )
            if buffer.is_room != (found.kind == "scratch"):
                self.fail(f"{what} is {buffer.role}, given the {self.label(slot)}", position)
            if buffer.role != "in":
                self._writable(position, slot)
                if slot in written and not (slot in parts and buffer.role == "part"):
                    self.fail(f"writes the {self.label(slot)} twice", position)
                written.add(slot)
                if buffer.role == "part":
                    parts.add(slot)
            self._sizes(position, seen.size, buffer.type.size)
    def loops(self) -> None:
        """Loops nest, and every way back is inside one, which liveness relies on."""
        ends: list[int] = []
        opened: dict[int, list[int]] = {}
        for start, end in self.plan.loops:
            if not 0 <= start < end <= self.count:
                self.fail(f"the loop {start}..{end} is not a range of the {self.count} steps")
            opened.setdefault(start, []).append(end)
        starts: dict[int, int] = {}
        for position, step in enumerate(self.plan.steps):
            while ends and ends[-1] <= position:
                ends.pop()
            for end in sorted(opened.get(position, ()), reverse=True):
                if ends and end > ends[-1]:
                    self.fail(f"the loop {position}..{end} overlaps another one")
                ends.append(end)
                starts[position] = max(end, starts.get(position, 0))
            if not isinstance(step, (Branch, Jump)) or step.target > position:
                continue
            if starts.get(step.target, 0) <= position:
                self.fail(f"goes back to step {step.target}, where no loop starts", position)

    def commit(self) -> None:
        """From where variables are written on, no step fails or jumps, and none jumps there."""
        commit = self.plan.commit
        if commit is None:
            return
        if not 0 <= commit <= self.count:
            self.fail(f"commits at step {commit}, there are {self.count}")
        for position, step in enumerate(self.plan.steps):
            if position >= commit and self.plan.may_fail(step):
                self.fail(f"may fail after the commit at step {commit}", position)
            if isinstance(step, (Branch, Jump)) and max(position, step.target - 1) >= commit:
                self.fail(f"jumps past the commit at step {commit}", position)

    def groups(self) -> None:
        """What runs side by side is launches in order; ``verify_memory`` knows what they touch."""
        plan, past = self.plan, 0
        inside: set[int] = set()
        for group in plan.groups:
            bounds = group.bounds
            first, end = (bounds[0], bounds[-1]) if bounds else (0, 0)
            label = f"the group {', '.join(map(str, bounds))}"
            if len(bounds) < 3 or any(a >= b for a, b in pairwise(bounds)):
                self.fail(f"{label} is not of two tasks or more")
            if len(group.works) != len(bounds) - 1:
                self.fail(f"{label} has {len(group.works)} works")
            if first < past or end > self.count:
                self.fail(f"{label} is not behind the one before, or not of these steps")
            past = end
            inside.update(range(first + 1, end))
            for position in range(first, end):
                if not isinstance(plan.steps[position], Launch):
                    self.fail(f"is in {label}, but no launch", position)
        entered = {step.target for step in plan.steps if isinstance(step, (Branch, Jump))}
        entered.update(start for start, _ in plan.loops)
        if plan.commit is not None:
            entered.add(plan.commit)
        for position in sorted(entered & inside):
            self.fail("is entered from elsewhere, but inside of a group", position)

    # --- dims ------------------------------------------------------------------------------------

    def dims(self) -> None:
        """Symbols are read off feeds, where they stand alone."""
        plan = self.plan
        known = {
            dims.symbol_name(dim)
            for slot in plan.feeds
            for dim in plan.slots[slot].type.shape
            if dims.is_symbol(dim)
        }
        seen: dict[Any, None] = {}

        def check(dim: Dim, what: str) -> None:
            if isinstance(dim, int):
                return
            for symbol in dims.symbols_of(dim, seen=seen):
                if dims.symbol_name(symbol) not in known:
                    self.fail(f"{what} needs the dim {symbol}, which no feed tells")

        for number, slot in enumerate(plan.slots):
            for dim in slot.type.shape:
                check(dim, f"slot %{number}")
        for guard in (*plan.guards, *(guard for _, guard in plan.required)):
            for dim in guard.dims:
                check(dim, "a guard")
        for group in plan.groups:
            for work in group.works:
                check(work, "the work of a group")
        for kernel in plan.kernels:
            for name in kernel.dims:
                if name not in known:
                    self.fail(f"kernel {kernel.name!r} needs the dim {name}, which no feed tells")

    # --- flow ------------------------------------------------------------------------------------

    def flow(self) -> None:
        """What is read was written before, on every path; so are the outputs at the end.

        Sets of what is written are bits of integers, kept for the beginnings of straight pieces:
        one bit a slot, and one for each part of a slot that a step writes. A slot of which parts
        are written is written when they have as many elements as it has.
        """
        plan = self.plan
        self._number_parts()
        starts = {0, self.count}
        for position, step in enumerate(plan.steps):
            if isinstance(step, (Branch, Jump)):
                starts.update((position + 1, step.target))
        ordered = sorted(starts)
        following = dict(pairwise(ordered))
        given = {n for n, slot in enumerate(plan.slots) if slot.kind in _GIVEN}
        written = {start: self._written(start, stop) for start, stop in following.items()}
        partly = {
            start: self._partly(start, stop) for start, stop in following.items() if self._parts
        }
        before: dict[int, int] = {0: _bits(given, self._facts)}
        pending = [0]
        while pending:
            start = pending.pop()
            if start == self.count:
                continue
            after = before[start] | written[start]
            for slot in partly.get(start, ()):
                if self._is_whole(slot, partial(_has, after)):
                    after |= 1 << slot
            for target in self._next(following[start]):
                old = before.get(target)
                new = after if old is None else old & after
                if new != old:
                    before[target] = new
                    pending.append(target)
        for start, stop in following.items():
            if start in before:
                self._check_reads(start, stop, before[start])
        final = before.get(self.count)
        if final is None:
            self.fail("never comes to its end")
        for slot in plan.outputs:
            if not final >> slot & 1:
                self.fail(f"the {self.label(slot)} is not written on every path")

    def _next(self, stop: int) -> tuple[int, ...]:
        """Where it goes on after the straight piece that ends before ``stop``."""
        last = self.plan.steps[stop - 1]
        if isinstance(last, Jump):
            return (last.target,)
        return (stop, last.target) if isinstance(last, Branch) else (stop,)

    def _number_parts(self) -> None:
        """Numbers the parts of slots that launches write, behind the slots."""
        plan = self.plan
        stored = [stored_parts(kernel) for kernel in plan.kernels]
        self._facts = len(plan.slots)
        self._parts: dict[int, list[tuple[int, Dim, Dim]]] = {}
        self._part: dict[int, dict[int, int]] = {}
        for position, step in enumerate(plan.steps):
            if not isinstance(step, Launch) or not stored[step.kernel]:
                continue
            numbers = self._part.setdefault(position, {})
            for place, elements in stored[step.kernel].items():
                whole = plan.kernels[step.kernel].buffers[place].type.size
                found = self._parts.setdefault(step.arguments[place], [])
                found.append((self._facts, elements, whole))
                numbers[place] = self._facts
                self._facts += 1

    def _is_whole(self, slot: int, known: Callable[[int], bool]) -> bool:
        """Whether the parts of a slot that are known to be written make all of it."""
        found = [part for part in self._parts.get(slot, ()) if known(part[0])]
        return bool(found) and _sum(elements for _, elements, _ in found) == found[0][2]

    def _writes(self, position: int) -> list[int]:
        """What a step writes: slots, or the parts of slots."""
        step, slots = self.plan.steps[position], self.plan.slots
        if not isinstance(step, Launch):
            return [slot for slot, written in self.plan.accesses(step) if written]
        parts = self._part.get(position, {})
        buffers = self.plan.kernels[step.kernel].buffers
        return [
            parts.get(place, slot)
            for place, (slot, buffer) in enumerate(zip(step.arguments, buffers, strict=True))
            if buffer.role != "in" and slots[slot].kind != "scratch"
        ]

    def _written(self, start: int, stop: int) -> int:
        found = {fact for position in range(start, stop) for fact in self._writes(position)}
        return _bits(found, self._facts)

    def _partly(self, start: int, stop: int) -> list[int]:
        """The slots of which a straight piece writes parts."""
        found: dict[int, None] = {}
        for position in range(start, stop):
            step = self.plan.steps[position]
            if isinstance(step, Launch):
                parts = self._part.get(position, {})
                found.update(dict.fromkeys(step.arguments[place] for place in parts))
        return list(found)

    def _check_reads(self, start: int, stop: int, before: int) -> None:
        table = before.to_bytes(self._facts // 8 + 1, "little")
        written: set[int] = set()

        def known(fact: int) -> bool:
            return fact in written or bool(table[fact >> 3] >> (fact & 7) & 1)

        for position in range(start, stop):
            for slot, writes in self.plan.accesses(self.plan.steps[position]):
                if not writes and not known(slot) and not self._is_whole(slot, known):
                    self.fail(f"reads the {self.label(slot)} before it is written", position)
            written.update(self._writes(position))


def _has(bits: int, member: int) -> bool:
    return bool(bits >> member & 1)


def _sum(sizes: Iterable[Dim]) -> Dim:
    """The sum of dims."""
    total: Dim = 0
    for size in sizes:
        total = total + size
    return total


def _bits(members: set[int], count: int) -> int:
    """A set of numbers below ``count`` as the bits of an integer."""
    table = bytearray(count // 8 + 1)
    for member in members:
        table[member >> 3] |= 1 << (member & 7)
    return int.from_bytes(table, "little")


__all__ = ["verify_plan"]
