"""That no step of a plan touches what is not its own: bounds, proved for all sizes guards allow.

A kernel's accesses are proved to be within its buffers (``graphc.kernel.analysis.bounds``), or a
guard asks for it, and the slots it is given have as many elements as those. What is known at a step
are the guards of the plan, and those that every way to the step has required. Plans of known sizes
need no proof: their kernels are looked at for indices outside of their buffers when they are
verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.ir.dims.expressions import Dim
from graphc.ir.guard import Guard
from graphc.ir.proof.facts import Assumed
from graphc.ir.proof.prover import Prover
from graphc.kernel.analysis.bounds import overruns
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan, Require
from graphc.plan.verify_memory import PlanChecker


def verify_bounds(plan: Plan) -> None:
    """Proves that a plan stays within its slots at any sizes.

    Raises:
        VerifyError: naming the step and the access that may leave its slot.
    """
    if all(slot.type.is_static for slot in plan.slots):
        return
    _Checker(plan).run()


class _Checker(PlanChecker):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._proved: set[tuple[int, frozenset[Guard]]] = set()
        self._provers: dict[frozenset[Guard], Prover] = {}
        self._same: set[tuple[Dim, Dim, frozenset[Guard]]] = set()

    def run(self) -> None:
        plan = self.plan
        for position, required in self._required():
            step = plan.steps[position]
            if isinstance(step, Launch):
                self._launch(position, step, required)
            elif isinstance(step, Copy):
                source, target = (
                    plan.slots[slot].type.bytes for slot in (step.source, step.target)
                )
                self._agree(position, source, target, required)

    def _launch(self, position: int, step: Launch, known: frozenset[Guard]) -> None:
        kernel = self.plan.kernels[step.kernel]
        for slot, buffer in zip(step.arguments, kernel.buffers, strict=True):
            found = self.plan.slots[slot].type.stored
            if found.shape != buffer.type.shape:
                self._agree(position, found.size, buffer.type.size, known)
        if not kernel.symbols or (step.kernel, known) in self._proved:
            return
        self._proved.add((step.kernel, known))
        guards = (*self.plan.guards, *known)
        conditions = {guard.condition for guard in guards}
        for overrun in overruns(kernel, guards):
            guard = overrun.guard(kernel.name, step.where)
            if guard is not None and guard.condition not in conditions:
                self.fail(f"kernel {kernel.name!r} may touch {overrun}", position)

    def _agree(self, position: int, left: Dim, right: Dim, required: frozenset[Guard]) -> None:
        """Two counts of elements of one slot are the same."""
        if left == right or (left, right, required) in self._same:
            return
        self._same.add((left, right, required))
        prover = self._provers.get(required)
        if prover is None:
            prover = self._provers[required] = Prover(Assumed((*self.plan.guards, *required)), ())
        if not (prover.holds(left - right) and prover.holds(right - left)):
            self.fail(f"takes {left} elements for {right}", position)

    # --- what was required -----------------------------------------------------------------------

    def _required(self) -> Iterator[tuple[int, frozenset[Guard]]]:
        """Each step that can be reached, with what every way to it has required."""
        steps = self.plan.steps
        nothing: frozenset[Guard] = frozenset()
        if not self.plan.required:
            yield from ((position, nothing) for position in range(self.count))
            return
        before: dict[int, frozenset[Guard]] = {0: nothing}
        pending = [0]
        while pending:
            position = pending.pop()
            if position == self.count:
                continue
            step, known = steps[position], before[position]
            if isinstance(step, Require):
                known |= {step.guard}
            for target in self._next(position):
                old = before.get(target)
                new = known if old is None else known & old
                if new != old:
                    before[target] = new
                    pending.append(target)
        yield from ((p, known) for p, known in sorted(before.items()) if p < self.count)

    def _next(self, position: int) -> Sequence[int]:
        step = self.plan.steps[position]
        if isinstance(step, Jump):
            return (step.target,)
        return (position + 1, step.target) if isinstance(step, Branch) else (position + 1,)


__all__ = ["verify_bounds"]
