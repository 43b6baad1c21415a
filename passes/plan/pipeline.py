"""The table of passes over plans, and the function that applies it.

Planners below know nothing of fuel, of values or of the user's lines: ``PlanDecisions`` asks for
them, each choice as a decision about what is made there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from graphc.base.source import Location
from graphc.base.target import Target
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.kernel.ir import Statement
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.verify import verify_kernel
from graphc.plan.ir import ConcurrentGroup, Launch, Plan
from graphc.plan.verify import verify_plan
from graphc.plan.verify_bounds import verify_bounds
from passes.checks.copies import check_copies
from passes.infra.base import Decision, PassContext
from passes.infra.manager import PassRecord, stage
from passes.kernels.pipeline import scheduled
from passes.memory.arena import check_layout, place, place_quickly
from passes.plan.concurrent_steps import CONCURRENT_STEPS, side_by_side, task_rooms
from passes.plan.copy_elision import without_copies
from passes.plan.in_place import INPLACE, commit_step, inplace_groups
from passes.plan.loop_kernels import LOOP_KERNELS, loop_kernels
from passes.plan.loop_turns import in_turns
from passes.plan.moved import Moved


@dataclass(frozen=True, slots=True)
class PlanState:
    """A plan on its way through the table, and what is known of it.

    Attributes:
        graph: the graph that it was lowered from.
        plan: the plan.
        slots: the slot of each value.
        launches: the steps of each node.
        carries: for results of loops, the copy that hands each to the next trip.
        trips: of each loop the number of its trips, if it is known; for ``loop_kernels`` alone.
        carried: for results whose copies have gone, how each is handed on instead.
        together: slots that share memory.
        glue: for each kernel whether it calls functions and does little else.
        target: the machine the code is for.
    """

    graph: Graph
    plan: Plan
    slots: Mapping[Value, int]
    launches: Mapping[Node, range]
    carries: Mapping[Value, int]
    trips: Sequence[int | None]
    glue: Sequence[bool]
    target: Target
    carried: Mapping[Value, str]
    together: tuple[tuple[int, ...], ...] = ()


class PlanDecisions:
    """Decides for planners, as decisions about values."""

    def __init__(self, state: PlanState, context: PassContext) -> None:
        self._state = state
        self._context = context
        self._made = {slot: value for value, slot in state.slots.items()}

    def take_over(self, old: int, new: int) -> bool:
        """Whether a slot may have the memory of another, or be it."""
        slot = new if new in self._made else old
        value = self._made.get(slot)
        if value is None:
            return False
        return self._context.spend(INPLACE, value, self._state.plan.slots[slot].where)

    def commit(self) -> bool:
        """Whether variables may be written in place: one decision, told of the first."""
        graph = self._state.graph
        value = graph.outputs[self._context.renewed[0][1]]
        node = graph.producers.get(value)
        where = None if node is None else node.provenance.where
        return self._context.spend(INPLACE, value, where)

    def run_within(self, start: int, end: int) -> bool:
        """Whether a loop of these steps may run inside a kernel: one decision, told of the first
        value that it makes."""
        plan = self._state.plan
        for step in plan.steps[start:end]:
            for slot, writes in plan.accesses(step):
                if writes and slot in self._made:
                    where = step.where if isinstance(step, Launch) else None
                    return self._context.spend(LOOP_KERNELS, self._made[slot], where)
        return False

    def may(self, plan: Plan, group: ConcurrentGroup) -> bool:
        """Whether launches may run side by side."""
        return self._context.spend(CONCURRENT_STEPS, *self._first(plan, group))

    def refused(self, plan: Plan, group: ConcurrentGroup, reason: str) -> None:
        """They would have paid, but do not run so."""
        decision = Decision(CONCURRENT_STEPS, *self._first(plan, group), 0, reason)
        self._context.decisions.append(decision)

    def _first(self, plan: Plan, group: ConcurrentGroup) -> tuple[Value, Location | None]:
        """What a group makes first, and where."""
        made, end = self._made, group.bounds[-1]
        steps = [step for step in plan.steps[group.bounds[0] : end] if isinstance(step, Launch)]
        written = [slot for step in steps for slot, writes in plan.accesses(step) if writes]
        return next(made[slot] for slot in written if slot in made), steps[0].where


# --- the passes ----------------------------------------------------------------------------------


def drop_copies(state: PlanState, context: PassContext) -> PlanState:
    """The plan without copies whose slots can be one."""
    plan = state.plan
    kept = [new for _, new in plan.renewed] if commit_step(plan, lambda: True) is not None else ()
    found = without_copies(plan, kept, PlanDecisions(state, context).take_over)
    left = set(found.origins)
    told = {n: f"it is copied, since {t}" if n in left else t for n, t in found.told.items()}
    slots = {value: found.slots[slot] for value, slot in state.slots.items()}
    _check_copies(state, found, context)
    return replace(_after(state, replace(found, told=told)), slots=slots)


def put_loops_in_kernels(state: PlanState, context: PassContext) -> PlanState:
    """The plan with loops that do little in a trip as kernels."""
    made = loop_kernels(state.plan, state.trips, PlanDecisions(state, context).run_within)
    glue = [all(state.glue[k] for k in parts) for parts in made.parts]
    return replace(_after(state, made.moved), glue=glue)


def take_turns(state: PlanState, context: PassContext) -> PlanState:
    """The plan with slots of loops that take turns in place of copies."""
    found = in_turns(state.plan, PlanDecisions(state, context).take_over)
    _check_copies(state, found, context)
    return _after(state, found)


def _check_copies(state: PlanState, moved: Moved, context: PassContext) -> None:
    """Proves on request that a plan without copies computes the same."""
    if moved.plan is not state.plan and context.options.verify:
        check_copies(state.plan, moved.plan, moved.origins)


def _after(state: PlanState, moved: Moved) -> PlanState:
    """What is known of a plan whose steps have moved."""
    carried = {**state.carried, **_told(state, moved)}
    if moved.plan is state.plan:
        return replace(state, carried=carried)
    places: dict[int, int] = {}
    for number, origin in enumerate(moved.origins):
        places.setdefault(origin, number)
    return replace(
        state,
        plan=moved.plan,
        launches=_moved(state.launches, places, moved.within),
        carries={value: places[n] for value, n in state.carries.items() if n in places},
        carried=carried,
    )


def _told(state: PlanState, moved: Moved) -> dict[Value, str]:
    """How results of loops are handed on whose copies a pass has dealt with."""
    return {value: moved.told[n] for value, n in state.carries.items() if n in moved.told}


def _moved(
    launches: Mapping[Node, range], places: Mapping[int, int], within: Mapping[int, int]
) -> dict[Node, range]:
    """The steps of each node, where steps have moved, or have become part of others."""
    result = {}
    for node, steps in launches.items():
        if steps.start in within:
            steps = range(within[steps.start], within[steps.start] + 1)
        elif steps:
            steps = range(places[steps.start], places[steps.start] + len(steps))
        result[node] = steps
    return result


def run_concurrently(state: PlanState, context: PassContext) -> PlanState:
    """The plan with groups of launches that threads may run at once."""
    threads, judge = context.options.thread_count, PlanDecisions(state, context)
    plan, launches = side_by_side(state.plan, state.launches, threads, judge)
    return replace(state, plan=plan, launches=launches)


def share_memory(state: PlanState, context: PassContext) -> PlanState:
    """Results take over the memory of operands, and variables that of their old values."""
    decisions = PlanDecisions(state, context)
    together = inplace_groups(state.plan, decisions.take_over)
    together += task_rooms(state.plan, {slot for group in together for slot in group})
    plan = replace(state.plan, commit=commit_step(state.plan, decisions.commit))
    return replace(state, plan=plan, together=together)


def lay_out(state: PlanState, context: PassContext) -> PlanState:
    """Temporaries have their places in the arena."""
    if not context.options.optimize:
        return replace(state, plan=place_quickly(state.plan))
    return replace(state, plan=place(state.plan, state.together))


def schedule_kernels(state: PlanState, context: PassContext) -> PlanState:
    """Kernels have schedules, each a decision about the first node that is launched so."""
    plan = state.plan
    nodes: dict[int, Node] = {}
    for node, steps in state.launches.items():
        if len(nodes) == len(plan.kernels):
            break
        for step in plan.steps[steps.start : steps.stop]:
            if isinstance(step, Launch):
                nodes.setdefault(step.kernel, node)

    def decide(node: Node | None, name: str, chosen: Mapping[Statement, Schedule]) -> bool:
        return node is None or context.decide(name, node)

    kernels = [
        scheduled(kernel, state.target, is_glue=glue, decide=partial(decide, nodes.get(number)))
        for number, (kernel, glue) in enumerate(zip(plan.kernels, state.glue, strict=True))
    ]
    return replace(state, plan=replace(plan, kernels=tuple(kernels)))


# --- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One row of the table.

    Attributes:
        name: what its record is called, and its decisions if they have one name.
        run: the pass.
        level: it runs where ``optimize`` is at least this.
    """

    name: str
    run: Callable[[PlanState, PassContext], PlanState]
    level: int = 0


PLAN_PIPELINE: tuple[PlanStep, ...] = (
    PlanStep("copies", drop_copies, 1),
    PlanStep(LOOP_KERNELS, put_loops_in_kernels, 1),
    PlanStep("turns", take_turns, 1),
    PlanStep(CONCURRENT_STEPS, run_concurrently, 1),
    PlanStep(INPLACE, share_memory, 1),
    PlanStep("memory_plan", lay_out),
    PlanStep("schedules", schedule_kernels),
)
"""Copies go first, since what stands between two launches keeps them apart. Loops that become
kernels need no turns. Memory is shared once it is known what runs at the same time, and laid out
once it is known what is shared."""


def run_plan_pipeline(
    state: PlanState, context: PassContext, records: list[PassRecord]
) -> PlanState:
    """The plan after all passes of the table, each of which is recorded; verified on request.

    Raises:
        VerifyError: if kernels or the plan don't keep their invariants.
    """
    for step in PLAN_PIPELINE:
        if step.level <= context.options.optimize:
            with stage(step.name, state.graph, context, records):
                state = step.run(state, context)
    if context.options.verify:
        for kernel in state.plan.kernels:
            verify_kernel(kernel)
        verify_plan(state.plan)
        verify_bounds(state.plan)
        check_layout(state.plan)
    return state


__all__ = ["PLAN_PIPELINE", "PlanDecisions", "PlanState", "PlanStep", "run_plan_pipeline"]
