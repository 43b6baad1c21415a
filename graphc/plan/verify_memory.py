"""What lies in one memory, checked: temporaries of one place, and variables renewed in place.

Invariant: of a plan that passes no step reads what another one has written over. Slots are one
memory if the layout gives them one place, or if one is the old value of a variable, the other one
its new value, and there is a commit step. A step may then touch two of them only if its kernel
reads each element before it writes that place; steps side by side may not at all, if one of them
writes; and old values of variables are read before new ones are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

from graphc.base.errors import VerifyError
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.aliasing import safe_pairs
from graphc.plan.ir import ConcurrentGroup, Copy, Launch, Layout, Plan
from graphc.plan.memory import MemorySolution, offsets_for_sizes

_PLACED = ("temporary", "scratch")


class PlanChecker:
    """Checks one plan; what is wrong is told with the plan, the step and its line."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = len(plan.steps)

    def fail(self, reason: str, position: int | None = None) -> NoReturn:
        label = f"plan {self.plan.name!r}"
        if position is None:
            raise VerifyError(f"{label}: {reason}")
        step = self.plan.steps[position]
        where = step.where if isinstance(step, Launch) else None
        raise VerifyError(f"{label}, step {position}: {reason}", where=where)

    def label(self, slot: int) -> str:
        found = self.plan.slots[slot]
        return f"{found.kind} slot %{slot} {found.name!r}"

    def sizes_agree(self, left: Dim, right: Dim) -> bool:
        """Guards may promise what cannot be proved, so only what is refuted is wrong."""
        return left == right or expressions.compare("eq", left, right) is not False


class MemoryChecker(PlanChecker):
    """Checks a plan whose slots and steps name what is there."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._place: dict[int, int] = {}
        self._safe: dict[int, set[tuple[int, int]]] = {}

    def run(self) -> None:
        """All of it; later checks rely on earlier ones."""
        plan = self.plan
        if plan.layout is not None:
            self._layout(plan.layout)
        self._renewed()
        if plan.commit is not None:
            self._written_in_place(plan.commit)
        for group in plan.groups:
            self._apart(group)
        for position in range(self.count):
            self._in_itself(position)

    def _where(self, slot: int) -> int:
        """The slot whose memory it is: that of the place in the arena, or of a variable."""
        return self._place.get(slot, slot)

    # --- variables -------------------------------------------------------------------------------

    def _renewed(self) -> None:
        """Whatever is renewed is a variable of the type of its new value, which is a result."""
        slots = self.plan.slots
        pairs = self.plan.renewed
        olds, news = [old for old, _ in pairs if old is not None], [new for _, new in pairs]
        for kind, named in (("state", olds), ("output", news)):
            for slot in named:
                if not 0 <= slot < len(slots):
                    self.fail(f"renewed names slot %{slot}, there are {len(slots)}")
                if slots[slot].kind != kind:
                    self.fail(f"renewed names the {self.label(slot)} for a slot of kind {kind}")
            if len(set(named)) != len(named):
                self.fail("renewed names a slot twice")
        for old, new in pairs:
            if old is None:
                continue
            before, after = slots[old].type, slots[new].type
            if before.dtype is not after.dtype or not self.sizes_agree(before.size, after.size):
                self.fail(f"renews the {self.label(old)} of type {before} with {after}")

    def _written_in_place(self, commit: int) -> None:
        """No new value is written before the commit, and no old one read when it is gone."""
        old_of = {new: old for old, new in self.plan.renewed}
        if not old_of:
            self.fail(f"commits at step {commit}, but renews no variable")
        self._place |= {new: old for new, old in old_of.items() if old is not None}
        gone: dict[int, int] = {}
        for position, step in enumerate(self.plan.steps):
            touched = list(self.plan.accesses(step))
            for slot, writes in touched:
                if not writes and slot in gone:
                    self.fail(
                        f"reads the {self.label(slot)}, where step {gone[slot]} has written the "
                        "new value",
                        position,
                    )
            for slot, writes in touched:
                if not writes or slot not in old_of:
                    continue
                old = old_of[slot]
                if position < commit:
                    named = self.label(slot if old is None else old)
                    self.fail(
                        f"writes the new value of the {named} before the commit at step {commit}",
                        position,
                    )
                if old is not None:
                    gone.setdefault(old, position)

    # --- steps -----------------------------------------------------------------------------------

    def _also(self, slot: int) -> str:
        """The other slot whose memory it is, for a message."""
        place = self._where(slot)
        return "" if place == slot else f", in the memory of the {self.label(place)},"

    def _apart(self, group: ConcurrentGroup) -> None:
        """Whatever a task writes, no other one touches; parts of a slot may be written at once."""
        task_of: dict[int, tuple[int, str]] = {}
        shared: dict[int, str] = {}
        for task, (start, stop) in enumerate(pairwise(group.bounds)):
            for position in range(start, stop):
                step = self.plan.steps[position]
                assert isinstance(step, Launch), "checked before"
                buffers = self.plan.kernels[step.kernel].buffers
                for buffer, slot in zip(buffers, step.arguments, strict=True):
                    role = buffer.role if buffer.role in ("in", "part") else "out"
                    key = self._where(slot)
                    other, known = task_of.setdefault(key, (task, role))
                    if known != role:
                        task_of[key] = other, known = other, "out"
                    if other != task or key in shared:
                        shared[key] = known
                    if shared.get(key) == "out":
                        named = f"{self.label(slot)}{self._also(slot)}"
                        self.fail(f"touches the {named} beside another task", position)

    def _in_itself(self, position: int) -> None:
        """A step that touches two slots of one memory reads each element before it is written."""
        step = self.plan.steps[position]
        if isinstance(step, Copy):
            own = (step.source, step.target) in self.plan.renewed
            if self._where(step.source) == self._where(step.target) and not own:
                self.fail(f"copies the {self.label(step.source)} to where it lies", position)
            return
        if not isinstance(step, Launch):
            return
        arguments = step.arguments
        places: dict[int, list[int]] = {}
        for number, slot in enumerate(arguments):
            places.setdefault(self._where(slot), []).append(number)
        if len(places) == len(arguments):
            return
        kernel = self.plan.kernels[step.kernel]
        for numbers in places.values():
            if len(numbers) == 1:
                continue
            read = [number for number in numbers if kernel.buffers[number].role == "in"]
            written = [number for number in numbers if kernel.buffers[number].role != "in"]
            if not written:
                continue
            safe = self._safe.get(step.kernel)
            if safe is None:
                safe = self._safe[step.kernel] = set(safe_pairs(kernel))
            for source in read:
                if any((source, target) not in safe for target in written):
                    self.fail(
                        f"reads the {self.label(arguments[source])} where kernel {kernel.name!r} "
                        "has written over it",
                        position,
                    )
            is_part = all(kernel.buffers[number].role == "part" for number in written)
            if is_part and len({arguments[number] for number in written}) == 1:
                continue  # several parts of one whole
            if len(written) > 1:
                labels = (self.label(arguments[number]) for number in written[:2])
                self.fail(f"writes the {' and the '.join(labels)} to one memory", position)

    # --- layout ----------------------------------------------------------------------------------

    def _layout(self, layout: Layout) -> None:
        slots = self.plan.slots
        for slot in layout.slots:
            if not 0 <= slot < len(slots) or slots[slot].kind not in _PLACED:
                self.fail(f"the layout places slot %{slot}, which is no temporary")
        if len(set(layout.slots)) != len(layout.slots):
            self.fail("the layout places a slot twice")
        touched = {slot for step in self.plan.steps for slot, _ in self.plan.accesses(step)}
        placed = set(layout.slots)
        for slot in sorted(touched):
            if slots[slot].kind in _PLACED and slot not in placed:
                self.fail(f"the layout has no place for the {self.label(slot)}")
        self._tables(layout.solution, layout.sizes, len(layout.slots))
        for slot, size in zip(layout.slots, layout.sizes, strict=True):
            exact = slots[slot].bytes
            if not isinstance(exact, int) or size == exact:
                continue
            # a library has room for more threads than may take part in a run
            if size < exact or slots[slot].kind != "scratch":
                self.fail(f"the layout gives {size} bytes to the {self.label(slot)} of {exact}")
        if offsets_for_sizes(layout.solution, layout.sizes) != (
            layout.solution.offsets, layout.solution.peak,
        ):  # fmt: skip
            self.fail("the layout's offsets are not those that its order gives")
        self._place |= {
            slot: layout.slots[number]
            for slot, number in zip(layout.slots, layout.solution.roots, strict=True)
        }

    def _tables(self, solution: MemorySolution, sizes: Sequence[int], count: int) -> None:
        tables = (
            solution.offsets, solution.roots, solution.alignments, solution.predecessors, sizes,
        )  # fmt: skip
        if any(len(table) != count for table in tables):
            self.fail(f"the layout's tables are not of its {count} slots")
        below = [index for group in solution.predecessors for index in group]
        if any(not 0 <= index < count for index in (*solution.roots, *solution.order, *below)):
            self.fail("the layout names a slot that it does not place")
        if any(solution.roots[root] != root for root in solution.roots):
            self.fail("the layout's alias groups are no groups")
        for alignment in solution.alignments:
            if alignment < 1 or alignment & (alignment - 1):
                self.fail(f"the layout has the alignment {alignment}, not a power of two")
        if any(size < 0 for size in sizes):
            self.fail("the layout has a negative size")
        place = {root: position for position, root in enumerate(solution.order)}
        if len(place) != len(solution.order) or place.keys() != set(solution.roots):
            self.fail("the layout's order does not list every root once")
        for index, group in enumerate(solution.predecessors):
            if group and index not in place:
                self.fail("the layout gives predecessors to a slot that is no root")
            for lower in group:
                if place.get(lower, count) >= place[index]:
                    self.fail("the layout's order does not list predecessors first")


__all__ = ["MemoryChecker", "PlanChecker"]
