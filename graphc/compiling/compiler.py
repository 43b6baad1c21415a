"""The compiler, from an extraction to a program: ``prepared``, ``lowered``, ``finished``.

``compile_graph`` is these three in a row. They are cut where somebody needs a part alone: all
levels of ``optimize`` share what is prepared, and an exported library has no use for machine code
in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from graphc.base.options import Options
from graphc.base.target import Target, require_here, stand_in
from graphc.codegen.math.calls import calls_of
from graphc.codegen.native.plan_walker import emit_program
from graphc.compiling.compiled import Compiled, Levels, uncollected
from graphc.compiling.extraction import Extraction
from graphc.compiling.loading import load_code
from graphc.compiling.memory_limit import Placed, within_limit
from graphc.compiling.tiers import MOST_BASELINE_BYTES
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph
from graphc.lower.estimate import Groups
from graphc.lower.program import plan_program
from graphc.runtime.program import Program
from passes.infra.base import PassContext
from passes.infra.manager import PassRecord, print_times, run_pipeline, stage
from passes.pipeline import BELOW, PIPELINE, PLACED, SHARED
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
    flat into a plan; plan passes choose what runs concurrently, places in the arena and schedules
    of kernels; LLVM compiles the kernels. Whoever gives a ``context`` can read the decisions there
    even if this fails half-way.

    Raises:
        UnsupportedError: for a target that this machine cannot run.
    """
    require_here(target)
    return finished(prepared(extraction, options, target, context))


@uncollected
def levels_of(extraction: Extraction, options: Options, target: Target) -> Levels:
    """All that ``compile_graph`` does before there is machine code."""
    return lowered(prepared(extraction, options, target))


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A graph behind the passes that every level of ``optimize`` runs, which settles all bits.

    Attributes:
        extraction: what it was made of.
        graph: the graph.
        records: of the passes.
        context: what they were told, and decided.
        options, target: as for ``compile_graph``.
        most_bytes: what temporaries may take; see ``Program``.
    """

    extraction: Extraction
    graph: Graph
    records: tuple[PassRecord, ...]
    context: PassContext
    options: Options
    target: Target
    most_bytes: int | None = None

    def at_baseline(self) -> Prepared:
        """The same at ``optimize=0``, to answer until the program that was asked for is finished.

        Its program refuses to run where temporaries would take more than ``MOST_BASELINE_BYTES``.
        """
        options = replace(self.options, optimize=0)
        context = replace(self.context, options=options)
        return replace(self, options=options, context=context, most_bytes=MOST_BASELINE_BYTES)

    def in_background(self, poll: Callable[[], None]) -> Prepared:
        """The same to be finished beside the user's own work; ``poll`` may end that by raising.

        What this was made of stays as it is, so it can be finished anew.
        """
        context = replace(self.context, decisions=[*self.context.decisions], poll=poll)
        return replace(self, context=context)


def prepared(
    extraction: Extraction,
    options: Options,
    target: Target,
    context: PassContext | None = None,
) -> Prepared:
    """The graph passes that all levels of ``optimize`` share."""
    if context is None:
        context = PassContext(options=options, target=target, renewed=extraction.renewed)
    context.execute = lambda graph: _execute(graph, options, target)
    graph, records = run_pipeline(extraction.graph, PIPELINE, context, BELOW, end=SHARED)
    return Prepared(extraction, graph, tuple(records), context, options, target)


def lowered(given: Prepared) -> Levels:
    """The other graph passes, the plan, the plan passes, and the LLVM text of the kernels.

    Raises:
        GraphError: if temporaries take more than the memory limit whatever is computed again.
    """
    options, target, context = given.options, given.target, given.context
    groups = Groups(target, options.thread_count)
    context.estimate = groups.estimate
    graph, more = run_pipeline(given.graph, PIPELINE, context, BELOW, first=SHARED, end=PLACED)
    records = [*given.records, *more]
    placed = within_limit(context, partial(_placed, given, graph, records, groups))
    records = placed.records
    with stage("codegen", placed.state.graph, context, records):
        text = emit_program(placed.state.plan, target, placed.calls)
    state = placed.state
    return Levels(
        state.graph, tuple(records), state.plan, state.slots, state.launches, text, state.carried,
        context.recomputed,
    )  # fmt: skip


def _placed(
    given: Prepared, graph: Graph, records: Sequence[PassRecord], groups: Groups
) -> Placed:
    """A scheduled graph lowered to a plan whose temporaries have places, under the present aim."""
    options, target, context = given.options, given.target, given.context
    graph, more = run_pipeline(graph, PIPELINE, context, BELOW, first=PLACED)
    records = [*records, *more]
    with stage("lower", graph, context, records):
        states = len(given.extraction.states)
        made = plan_program(graph, states, target, options.thread_count, context.renewed, groups)
    calls = calls_of(made.plan.kernels, quick=options.optimize < 2)
    state = PlanState(graph, *made, calls.glue, target, {})
    state = run_plan_pipeline(state, context, records)
    return Placed(state, records, replace(calls, glue=tuple(state.glue)))


def finished(given: Prepared) -> Compiled:
    """What is lowered, with machine code: the program of the level that the options ask for.

    Python's collector of cycles is not paused: in the background it is the user's business.
    """
    levels, target, context = lowered(given), given.target, given.context
    records = [*levels.records]
    with stage("llvm", levels.graph, context, records):
        code = load_code(levels.text, target)
    program = Program(levels.plan, code, given.options.thread_count, given.most_bytes)
    if given.options.check:
        from graphc.checking.levels.comparison import check_levels

        with stage("check", levels.graph, context, records):
            check_levels(levels.graph, program, context, target)
    if given.options.time:
        print_times(records)
    levels = replace(levels, records=tuple(records))
    return Compiled(given.extraction.graph, program, target, lambda: levels)


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
