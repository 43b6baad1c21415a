"""The whole pipeline as one function, readable from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from graphc.base.llvm import uninterrupted
from graphc.base.options import Options
from graphc.base.source import Location
from graphc.base.target import Target, host, require_here, stand_in
from graphc.codegen.elementary import Calls, calls_of
from graphc.codegen.walker import ProgramText, emit_program, emit_walker
from graphc.compiled import Compiled, Levels, uncollected
from graphc.extract import Extraction
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.kernel.ir import Statement
from graphc.kernel.schedule import Schedule
from graphc.kernel.verify import verify_kernel
from graphc.lower.program import plan_program
from graphc.plan.ir import Group, Launch, Plan
from graphc.plan.table import WALKER, WORKER
from graphc.plan.verify import verify_plan
from graphc.plan.verify_bounds import verify_bounds
from graphc.runtime.code import Code
from graphc.runtime.jit import Library, compile_object, key_of, shared_library
from graphc.runtime.program import Program
from graphc.tiers import MOST_BASELINE_BYTES
from passes.arena import check_layout, place, place_quickly
from passes.base import Decision, PassContext
from passes.beside import BESIDE, side_by_side, task_rooms
from passes.copies import without_copies
from passes.copies_check import check_copies
from passes.inplace import INPLACE, May, commit_step, inplace_groups
from passes.kernels.pipeline import scheduled
from passes.manager import PassRecord, print_times, run_pipeline, stage
from passes.pipeline import BELOW, PIPELINE, SHARED
from passes.turns import in_turns


@uncollected
def compile_graph(
    extraction: Extraction,
    options: Options,
    target: Target,
    context: PassContext | None = None,
) -> Compiled:
    """From an extracted graph to a program.

    Graph passes rewrite and fuse; lowering makes kernels of the fused nodes and lays control flow
    flat into a plan; temporaries get their place in the arena; LLVM compiles the kernels.
    Whoever gives a ``context`` can read the decisions there even if this fails half-way.

    Raises:
        UnsupportedError: for a target that this machine cannot run.
    """
    require_here(target)
    return finished(prepared(extraction, options, target, context))


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A graph behind the passes that every level of ``optimize`` runs, which settles all bits.

    Attributes:
        extraction: what it was made of.
        graph: the graph.
        records: of the passes.
        context: what they were told, and decided.
        options, target: as for ``compile_graph``.
    """

    extraction: Extraction
    graph: Graph
    records: tuple[PassRecord, ...]
    context: PassContext
    options: Options
    target: Target


def prepared(
    extraction: Extraction,
    options: Options,
    target: Target,
    context: PassContext | None = None,
) -> Prepared:
    """The first part of compiling, which programs of all levels share."""
    if context is None:
        context = PassContext(options=options, target=target, renewed=extraction.renewed)
    context.execute = lambda graph: _execute(graph, options, target)
    graph, records = run_pipeline(extraction.graph, PIPELINE, context, BELOW, end=SHARED)
    return Prepared(extraction, graph, tuple(records), context, options, target)


def finished(given: Prepared, most_bytes: int | None = None) -> Compiled:
    """The program of the level that the options ask for; see ``Program`` for ``most_bytes``."""
    context, options, target = given.context, given.options, given.target
    levels = _lowered(given)
    records = [*levels.records]
    with stage("llvm", levels.graph, context, records):
        code = load_code(levels.text, target)
    program = Program(levels.plan, code, options.thread_count, most_bytes)
    if options.check:
        from graphc.debug.levels import check_levels

        with stage("check", levels.graph, context, records):
            check_levels(levels.graph, program, context, target)
    if options.time:
        print_times(records)
    levels = replace(levels, records=tuple(records))
    return Compiled(given.extraction.graph, program, target, lambda: levels)


def baseline(given: Prepared) -> Compiled:
    """The program of ``optimize=0``, to answer until the one that was asked for is finished.

    It refuses to run where its temporaries would take more than ``MOST_BASELINE_BYTES``.
    """
    options = replace(given.options, optimize=0)
    context = replace(given.context, options=options)
    return finished(replace(given, options=options, context=context), MOST_BASELINE_BYTES)


def finished_in_background(given: Prepared, poll: Callable[[], None]) -> Compiled:
    """``finished`` beside the user's own work; ``poll`` may end it by raising.

    What was ``prepared`` stays as it is, so it can be finished anew. The collector of cycles is the
    user's business here, and is not paused.
    """
    context = replace(given.context, decisions=[*given.context.decisions], poll=poll)
    return finished(replace(given, context=context))


@uncollected
def levels_of(extraction: Extraction, options: Options, target: Target) -> Levels:
    """All that ``compile_graph`` does before there is machine code."""
    return _lowered(prepared(extraction, options, target))


def _lowered(given: Prepared) -> Levels:
    extraction, options, target = given.extraction, given.options, given.target
    context = given.context
    graph, more = run_pipeline(given.graph, PIPELINE, context, BELOW, first=SHARED)
    records = [*given.records, *more]
    with stage("lower", graph, context, records):
        states = len(extraction.states)
        plan, slots, launches, carries = plan_program(
            graph, states, target, options.thread_count, context.renewed
        )
    carried: dict[Value, str] = {}
    if options.optimize:
        with stage("copies", graph, context, records):
            plan, slots, launches, told = _without_copies(
                plan, slots, launches, options, context
            )
            carried = {value: told[copy] for value, copy in carries.items() if copy in told}
        with stage(BESIDE, graph, context, records):
            threads, judge = options.thread_count, _Groups(slots, context)
            plan, launches = side_by_side(plan, launches, threads, judge)
        with stage(INPLACE, graph, context, records):
            shared = inplace_groups(plan, _inplace_decision(plan, slots, context))
            shared += task_rooms(plan, {slot for group in shared for slot in group})
            commit = commit_step(plan, partial(_commit_decision, graph, context))
            plan = replace(plan, commit=commit)
        with stage("memory_plan", graph, context, records):
            plan = place(plan, shared)
    else:
        with stage("memory_plan", graph, context, records):
            plan = place_quickly(plan)
    calls = calls_of(plan.kernels, quick=options.optimize < 2)
    with stage("schedules", graph, context, records):
        plan = _with_schedules(plan, calls, launches, context, target)
    if options.verify:
        _verify(plan)
    with stage("codegen", graph, context, records):
        text = emit_program(plan, target, calls)
    return Levels(graph, tuple(records), plan, slots, launches, text, carried)


def _with_schedules(
    plan: Plan,
    calls: Calls,
    launches: Mapping[Node, range],
    context: PassContext,
    target: Target,
) -> Plan:
    """The plan whose kernels have schedules, each chosen as a decision about the first node that a
    kernel is launched for."""
    nodes: dict[int, Node] = {}
    for node, steps in launches.items():
        if len(nodes) == len(plan.kernels):
            break
        for step in plan.steps[steps.start : steps.stop]:
            if isinstance(step, Launch):
                nodes.setdefault(step.kernel, node)
    kernels = [
        scheduled(kernel, target, is_glue=glue, decide=partial(_decide, context, nodes.get(number)))
        for number, (kernel, glue) in enumerate(zip(plan.kernels, calls.glue, strict=True))
    ]
    return replace(plan, kernels=tuple(kernels))


def _decide(
    context: PassContext, node: Node | None, name: str, chosen: Mapping[Statement, Schedule]
) -> bool:
    return node is None or context.decide(name, node)


def _without_copies(
    plan: Plan,
    slots: Mapping[Value, int],
    launches: Mapping[Node, range],
    options: Options,
    context: PassContext,
) -> tuple[Plan, dict[Value, int], dict[Node, range], dict[int, str]]:
    """The plan without the copies it can do without, the slot of each value, the launches, and what
    has become of each copy."""
    kept = [new for _, new in plan.renewed] if commit_step(plan, lambda: True) is not None else ()
    first = without_copies(plan, kept, _inplace_decision(plan, slots, context))
    slots = {value: first.slots[slot] for value, slot in slots.items()}
    second = in_turns(first.plan, _inplace_decision(first.plan, slots, context))
    told = dict(first.told)
    for position in first.told.keys() & set(first.origins):
        told[position] = f"it is copied, since {first.told[position]}"
    told |= {first.origins[position]: text for position, text in second.told.items()}
    if second.plan is plan:
        return plan, slots, dict(launches), told
    origins = [first.origins[n] if n >= 0 else n for n in second.origins]
    if options.verify:
        check_copies(plan, second.plan, origins)
    place: dict[int, int] = {}
    for number, origin in enumerate(origins):
        place.setdefault(origin, number)
    moved = {
        node: range(place[steps.start], place[steps.start] + len(steps)) if steps else steps
        for node, steps in launches.items()
    }
    return second.plan, slots, moved, told


def _execute(graph: Graph, options: Options, target: Target) -> list[Array]:
    """Runs a graph of constants with the same numerics, showing nothing.

    It runs here, whatever the target is: results are those that the target would compute.
    """
    here = stand_in(target)
    quiet = Options(
        optimize=options.optimize,
        numerics=options.numerics,
        fast_math=options.fast_math,
        off=options.off | {"precompute"},
        threads=options.threads,
    )
    return compile_graph(Extraction(graph, (), (), ()), quiet, here).program.run([])


def _inplace_decision(plan: Plan, slots: Mapping[Value, int], context: PassContext) -> May:
    """Whether a slot may be taken over: a decision about the value that is made there."""
    made = {slot: value for value, slot in slots.items()}

    def may(old: int, new: int) -> bool:
        slot = new if new in made else old
        return slot in made and context.spend(INPLACE, made[slot], plan.slots[slot].where)

    return may


class _Groups:
    """Decides whether launches run side by side, as a decision about what the first one makes."""

    def __init__(self, slots: Mapping[Value, int], context: PassContext) -> None:
        self._made = {slot: value for value, slot in slots.items()}
        self._context = context

    def _first(self, plan: Plan, group: Group) -> tuple[Value, Location | None]:
        """What is made there first, and where."""
        made, end = self._made, group.bounds[-1]
        steps = [step for step in plan.steps[group.bounds[0] : end] if isinstance(step, Launch)]
        written = [slot for step in steps for slot, writes in plan.accesses(step) if writes]
        return next(made[slot] for slot in written if slot in made), steps[0].where

    def may(self, plan: Plan, group: Group) -> bool:
        return self._context.spend(BESIDE, *self._first(plan, group))

    def refused(self, plan: Plan, group: Group, reason: str) -> None:
        decision = Decision(BESIDE, *self._first(plan, group), 0, reason)
        self._context.decisions.append(decision)


def _commit_decision(graph: Graph, context: PassContext) -> bool:
    """Whether variables may be written in place: one decision, told of the first."""
    value = graph.outputs[context.renewed[0][1]]
    node = graph.producers.get(value)
    return context.spend(INPLACE, value, node.provenance.where if node is not None else None)


def _verify(plan: Plan) -> None:
    """Checks the invariants of the levels below the graph."""
    for kernel in plan.kernels:
        verify_kernel(kernel)
    verify_plan(plan)
    verify_bounds(plan)
    check_layout(plan)


def load_code(text: ProgramText, target: Target) -> Code:
    """Compiles the kernels' text and loads it beside what it calls and the loop over steps."""
    return uninterrupted(partial(_load_code, text, target))


def _load_code(text: ProgramText, target: Target) -> Code:
    libraries = [_walker()]
    imports: dict[str, int] = {}
    for symbol, library in text.libraries.items():
        found = shared_library(
            (symbol,), key_of(library), target, partial(compile_object, library, target)
        )
        assert found is not None, "what is compiled is there"
        libraries.append(found)
        imports |= found.addresses
    for module in text.modules:
        image = compile_object(module.text, target, module.glue)
        libraries.append(Library(image, module.symbols, imports))
    return Code.of(libraries, text.symbols)


@cache
def walker_text() -> str:
    """The LLVM text of the native loop, which serves every program."""
    return emit_walker(host())


def _walker() -> Library:
    text = walker_text()
    found = shared_library((WALKER, WORKER), key_of(text), host(), partial(compile_object, text))
    assert found is not None, "what is compiled is there"
    return found
