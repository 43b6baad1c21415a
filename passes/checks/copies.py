"""Translation validation of copy elision: the plan without copies computes the same.

Both plans are walked together, over all paths. For each slot of the new plan the walk knows which
slots of the old one have its content. A launch or a branch must find the content that it reads. So
a slot that is overwritten too early is found where its content is missing.

Invariant: shares no code with copy elision. It only trusts that kernels read each element before
they write that place where the verifier of plans allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from graphc.base.errors import VerifyError
from graphc.ir.dims.expressions import Dim
from graphc.kernel.ir import stored_parts
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Require, Step

_Content: TypeAlias = tuple[int, frozenset[int]]
"""A slot of the old plan; and the steps that have written parts of it, as long as some lack."""

_Point: TypeAlias = tuple[int, int]
"""A step of the old plan and one of the new plan, that come next."""

_WHOLE: frozenset[int] = frozenset()


def check_copies(before: Plan, after: Plan, origins: Sequence[int]) -> None:
    """Proves that a plan computes the results of another one.

    Args:
        before: the plan with copies.
        after: the plan without.
        origins: for each of its steps which it was, -1 for a new one.

    Raises:
        VerifyError: naming the step that reads something else.
    """
    _Walk(before, after, origins).run()


class _State:
    """What slots of the new plan hold, and where contents of the old one are."""

    def __init__(self, held: dict[int, frozenset[_Content]]) -> None:
        self.held = dict(held)
        self.places: dict[_Content, set[int]] = {}
        self.parts: dict[int, set[_Content]] = {}
        for slot, contents in held.items():
            for content in contents:
                self.put(slot, content)

    def holds(self, slot: int, content: _Content) -> bool:
        return content in self.held.get(slot, ())

    def clear(self, slot: int) -> None:
        """A slot of the new plan is written over."""
        for content in self.held.pop(slot, ()):
            self.places[content].discard(slot)

    def forget(self, old: int) -> None:
        """A slot of the old plan is written over."""
        for content in ((old, _WHOLE), *self.parts.pop(old, ())):
            for slot in self.places.pop(content, ()):
                self.held[slot] -= {content}

    def put(self, slot: int, content: _Content) -> None:
        """A slot holds this, too."""
        self.held[slot] = self.held.get(slot, frozenset()) | {content}
        self.places.setdefault(content, set()).add(slot)
        if content[1]:
            self.parts.setdefault(content[0], set()).add(content)


class _Walk:
    def __init__(self, before: Plan, after: Plan, origins: Sequence[int]) -> None:
        self.before, self.after, self.origins = before, after, origins
        self._parts = [stored_parts(kernel) for kernel in before.kernels]

    def run(self) -> None:
        before, after = self.before, self.after
        given = [*zip(before.feeds, after.feeds, strict=True)]
        for slot, array in before.constants.items():
            given += [(slot, other) for other, own in after.constants.items() if own is array]
        held: dict[int, frozenset[_Content]] = {}
        for slot, other in given:
            held[other] = held.get(other, frozenset()) | {(slot, _WHOLE)}
        known: dict[_Point, dict[int, frozenset[_Content]]] = {(0, 0): held}
        pending: list[_Point] = [(0, 0)]
        while pending:
            point = pending.pop()
            state = _State(known[point])
            for target in self._piece(point, state):
                old = known.get(target)
                new = state.held
                if old is not None:
                    new = {slot: old[slot] & new.get(slot, frozenset()) for slot in old}
                    new = {slot: contents for slot, contents in new.items() if contents}
                if new != old:
                    known[target] = new if old is not None else dict(new)
                    if target not in pending:
                        pending.append(target)

    def _fail(self, at: int, reason: str) -> NoReturn:
        step = self.after.steps[at] if at < len(self.after.steps) else None
        where = step.where if isinstance(step, Launch) else None
        text = f"plan {self.after.name!r} without copies, step {at}: {reason}"
        raise VerifyError(text, where=where)

    def _piece(self, point: _Point, state: _State) -> list[_Point]:
        """Walks on until ways part or the old plan jumps; gives the points to go on from."""
        old, new = point
        steps, others = self.before.steps, self.after.steps
        left = len(steps) + len(others)
        while True:
            mine = steps[old] if old < len(steps) else None
            # copies and jumps of either plan are its own business
            while new < len(others) and isinstance(others[new], (Copy, Jump)):
                new, left = self._own(others[new], new, state), left - 1
                if left < 0:
                    self._fail(new, "goes round and round")
            if isinstance(mine, Jump):
                return [(mine.target, new)]
            if isinstance(mine, Copy):
                self._renamed(mine, state)
                old += 1
                continue
            if mine is None:
                return self._end(new, state)
            theirs = others[new] if new < len(others) else None
            matches = new < len(others) and self.origins[new] == old
            if isinstance(mine, Branch):
                if not matches:
                    # both ways lead to where it goes on
                    return [(old + 1, new), (mine.target, new)]
                if not isinstance(theirs, Branch):
                    self._fail(new, f"stands for the branch {old}")
                if not state.holds(theirs.predicate, (mine.predicate, _WHOLE)):
                    self._fail(new, f"branches on other than slot %{mine.predicate} of before")
                return [(old + 1, new + 1), (mine.target, theirs.target)]
            if isinstance(mine, Require):
                if not matches or theirs != mine:
                    self._fail(new, f"stands for the guard {old}")
                old, new = old + 1, new + 1
                continue
            if isinstance(mine, HostCall):
                if not matches or not isinstance(theirs, HostCall):
                    self._fail(new, f"stands where step {old} should")
                self._call(new, mine, theirs, state)
                old, new = old + 1, new + 1
                continue
            if not matches or not isinstance(theirs, Launch) or theirs.kernel != mine.kernel:
                self._fail(new, f"stands where step {old} should")
            self._launch(old, new, mine, theirs, state)
            old, new = old + 1, new + 1

    def _own(self, step: Step, position: int, state: _State) -> int:
        """A copy or a jump of the new plan; gives the next step."""
        if isinstance(step, Jump):
            return step.target
        assert isinstance(step, Copy), "nothing else is asked for"
        contents = state.held.get(step.source, frozenset())
        state.clear(step.target)
        for content in contents:
            state.put(step.target, content)
        return position + 1

    def _renamed(self, copy: Copy, state: _State) -> None:
        """A copy of the old plan: where its source is, its target is too."""
        state.forget(copy.target)
        for slot in [*state.places.get((copy.source, _WHOLE), ())]:
            state.put(slot, (copy.target, _WHOLE))

    def _launch(self, old: int, new: int, mine: Launch, theirs: Launch, state: _State) -> None:
        buffers = self.before.kernels[mine.kernel].buffers
        pairs = [*zip(buffers, mine.arguments, theirs.arguments, strict=True)]
        for buffer, wanted, slot in pairs:
            if buffer.role in ("in", "update") and not state.holds(slot, (wanted, _WHOLE)):
                self._fail(new, f"reads slot %{slot}, which does not hold %{wanted} of before")
        for place, (buffer, wanted, slot) in enumerate(pairs):
            if buffer.role == "part":
                self._part(old, new, place, wanted, slot, state)
            elif buffer.role != "in":
                state.forget(wanted)
                state.clear(slot)
                if buffer.role != "scratch":
                    state.put(slot, (wanted, _WHOLE))

    def _call(self, new: int, mine: HostCall, theirs: HostCall, state: _State) -> None:
        if theirs.function is not mine.function or theirs.ordered != mine.ordered:
            self._fail(new, f"calls {theirs.function}, not {mine.function}")
        for wanted, slot in zip(mine.arguments, theirs.arguments, strict=True):
            if not state.holds(slot, (wanted, _WHOLE)):
                self._fail(new, f"reads slot %{slot}, which does not hold %{wanted} of before")
        for wanted, slot in zip(mine.results, theirs.results, strict=True):
            state.forget(wanted)
            state.clear(slot)
            state.put(slot, (wanted, _WHOLE))

    def _part(self, old: int, new: int, place: int, wanted: int, slot: int, state: _State) -> None:
        """Parts of a slot are written to one slot, which holds nothing else meanwhile."""
        parts = [c for c in state.parts.get(wanted, ()) if state.places.get(c)]
        written = next((c[1] for c in parts if state.holds(slot, c)), _WHOLE)
        if parts and not written and old not in parts[0][1]:
            self._fail(new, f"writes a part of %{wanted} of before beside the others")
        if old in written:
            written = _WHOLE
        written |= {old}
        state.forget(wanted)
        state.clear(slot)
        step = self.before.steps[old]
        assert isinstance(step, Launch), "it writes a part"
        whole = self.before.kernels[step.kernel].buffers[place].type.size
        state.put(slot, (wanted, _WHOLE if self._elements(written, wanted) == whole else written))

    def _elements(self, steps: frozenset[int], slot: int) -> Dim:
        """How many elements of a slot of the old plan these steps write."""
        total: Dim = 0
        for position in sorted(steps):
            step = self.before.steps[position]
            assert isinstance(step, Launch), "it writes a part"
            for place, elements in self._parts[step.kernel].items():
                if step.arguments[place] == slot:
                    total = total + elements
        return total

    def _end(self, new: int, state: _State) -> list[_Point]:
        if new < len(self.after.steps):
            self._fail(new, "goes on behind the end")
        for wanted, slot in zip(self.before.outputs, self.after.outputs, strict=True):
            if not state.holds(slot, (wanted, _WHOLE)):
                self._fail(new, f"the result %{slot} is not %{wanted} of before")
        return []


__all__ = ["check_copies"]
