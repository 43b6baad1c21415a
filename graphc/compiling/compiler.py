"""The compiler: from an extraction to a program, in two parts.

``prepared`` runs the graph passes that settle all bits. ``finished`` does the rest: later graph
passes, lowering, plan passes, LLVM. ``compile_graph`` is both, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from graphc.base.llvm import uninterrupted
from graphc.base.options import Options
from graphc.base.target import Target, host, require_here, stand_in
from graphc.codegen.math.calls import calls_of
from graphc.compiling.compiled import Compiled, Levels, uncollected
from graphc.compiling.tiers import MOST_BASELINE_BYTES
from graphc.extract import Extraction
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph
from graphc.kernel.verify import verify_kernel
from graphc.lower.program import plan_program
from graphc.native.plan_walker import ProgramText, emit_program, emit_walker
from graphc.plan.abi import WALKER, WORKER
from graphc.plan.ir import Plan
from graphc.plan.verify import verify_plan
from graphc.plan.verify_bounds import verify_bounds
from graphc.runtime.code import Code
from graphc.runtime.jit import Library, compile_object, key_of, shared_library
from graphc.runtime.program import Program
from passes.infra.base import PassContext
from passes.infra.manager import PassRecord, print_times, run_pipeline, stage
from passes.memory.arena import check_layout
from passes.pipeline import BELOW, PIPELINE, SHARED
from passes.plan.pipeline import PlanState, run_plan_pipeline


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
        from graphc.checking.levels.comparison import check_levels

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
    calls = calls_of(plan.kernels, quick=options.optimize < 2)
    state = PlanState(graph, plan, slots, launches, carries, calls.glue, target, {})
    state = run_plan_pipeline(state, context, records)
    if options.verify:
        _verify(state.plan)
    with stage("codegen", graph, context, records):
        text = emit_program(state.plan, target, calls)
    return Levels(
        graph, tuple(records), state.plan, state.slots, state.launches, text, state.carried
    )


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
