"""The whole pipeline as one function, readable from top to bottom."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from graphc.base.options import Options
from graphc.base.target import Target
from graphc.base.words import plural
from graphc.codegen.walker import ProgramText, emit_program, emit_walker
from graphc.extract import Extraction
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph
from graphc.ir.value import Value
from graphc.kernel.verify import verify_kernel
from graphc.lower.program import plan_program
from graphc.plan.ir import Plan
from graphc.plan.table import WALKER
from graphc.plan.verify import verify_plan
from graphc.runtime.jit import Library, compile_object, key_of, load
from graphc.runtime.program import Code, Program
from passes.arena import place
from passes.base import PassContext
from passes.inplace import INPLACE, May, inplace_groups
from passes.manager import PassRecord, print_times, run_pipeline, stage
from passes.pipeline import PIPELINE


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """What lies between the extracted graph and the machine code.

    Attributes:
        graph: after all graph passes: fused nodes, each one a kernel.
        records: one record a pass.
        plan: the plan, placed.
        slots: the slot of the plan that holds a value of ``graph`` or of its control flow.
        text: the LLVM text of the kernels.
    """

    graph: Graph
    records: tuple[PassRecord, ...]
    plan: Plan
    slots: Mapping[Value, int]
    text: ProgramText


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled graph and how it came to be.

    Attributes:
        source: the extracted graph.
        program: the plan with its machine code.
        target: the machine it was compiled for.
        made: gives the levels; for a program from the cache the passes run then.
        from_cache: whether the program came from the cache.
    """

    source: Graph
    program: Program
    target: Target
    made: Callable[[], Levels]
    from_cache: bool = False

    def __repr__(self) -> str:
        return f"<Compiled {self.source!r}, {plural(len(self.plan.kernels), 'kernel')}>"

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.program.plan

    @cached_property
    def levels(self) -> Levels:
        """What lies between the source and the machine code."""
        return self.made()

    @property
    def graph(self) -> Graph:
        """The graph after all passes: fused nodes, each one a kernel."""
        return self.levels.graph

    @property
    def records(self) -> tuple[PassRecord, ...]:
        """One record a pass."""
        return self.levels.records

    @property
    def slots(self) -> Mapping[Value, int]:
        """The slot of the plan that holds a value of ``graph`` or of its control flow."""
        return self.levels.slots

    @property
    def llvm_ir(self) -> str:
        """The text the kernels are compiled from."""
        return self.levels.text.kernels


@contextmanager
def collection_paused() -> Iterator[None]:
    """Leaves Python's cycle collector out: a third of the time of large graphs for no garbage.

    Passes make many small objects that live on and no cycles. A thread that finds the collector
    paused leaves it so; the one that paused it switches it on again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def compile_graph(
    extraction: Extraction,
    options: Options,
    target: Target,
    context: PassContext | None = None,
) -> Compiled:
    """From an extracted graph to a program.

    Graph passes rewrite and fuse; lowering makes one kernel of each fused node and lays control
    flow flat into a plan; temporaries get their place in the arena; LLVM compiles the kernels.
    Whoever gives a ``context`` can read the decisions there even if this fails half-way.
    """
    if context is None:
        context = PassContext(options=options, target=target)
    with collection_paused():
        levels = _lowered(extraction, options, target, context)
        records = [*levels.records]
        with stage("llvm", levels.graph, context, records):
            code = load_code(levels.text, target)
        program = Program(levels.plan, code)
        if options.check:
            from graphc.debug.levels import check_levels

            with stage("check", levels.graph, context, records):
                check_levels(levels.graph, program, context, target)
    if options.time:
        print_times(records)
    levels = replace(levels, records=tuple(records))
    return Compiled(extraction.graph, program, target, lambda: levels)


def levels_of(extraction: Extraction, options: Options, target: Target) -> Levels:
    """All that ``compile_graph`` does before there is machine code."""
    with collection_paused():
        return _lowered(extraction, options, target, PassContext(options=options, target=target))


def _lowered(
    extraction: Extraction, options: Options, target: Target, context: PassContext
) -> Levels:
    context.execute = lambda graph: _execute(graph, options, target)
    graph, records = run_pipeline(extraction.graph, PIPELINE, context, frozenset({INPLACE}))
    with stage("lower", graph, context, records):
        plan, slots = plan_program(graph, len(extraction.states), extraction.guards, target)
    with stage(INPLACE, graph, context, records):
        shared = inplace_groups(plan, _inplace_decision(plan, slots, context))
    with stage("memory_plan", graph, context, records):
        plan = place(plan, shared)
    if options.verify:
        _verify(plan)
    with stage("codegen", graph, context, records):
        text = emit_program(plan, target)
    return Levels(graph, tuple(records), plan, slots, text)


def _execute(graph: Graph, options: Options, target: Target) -> list[Array]:
    """Runs a graph of constants with the same numerics, showing nothing."""
    quiet = Options(
        numerics=options.numerics, fast_math=options.fast_math, off=options.off | {"precompute"}
    )
    return compile_graph(Extraction(graph, (), (), (), ()), quiet, target).program.run([])


def _inplace_decision(plan: Plan, slots: Mapping[Value, int], context: PassContext) -> May:
    """Whether a slot may be taken over: a decision about the value that is made there."""
    made = {slot: value for value, slot in slots.items()}

    def may(old: int, new: int) -> bool:
        return context.spend(INPLACE, made[new], plan.slots[new].where)

    return may


def _verify(plan: Plan) -> None:
    """Checks the invariants of the levels below the graph."""
    for kernel in plan.kernels:
        verify_kernel(kernel)
    verify_plan(plan)


def load_code(text: ProgramText, target: Target) -> Code:
    """Compiles the kernels' text and loads it beside what it calls and the loop over steps."""
    libraries = [walker()]
    imports: dict[str, int] = {}
    for symbol, module in text.libraries.items():
        found = library(symbol, key_of(module), target, partial(compile_object, module, target))
        assert found is not None, "what is compiled is there"
        libraries.append(found)
        imports |= found.addresses
    start = libraries[0].addresses[WALKER]
    if not text.symbols:
        return Code(tuple(libraries), (), start)
    kernels = Library(compile_object(text.kernels, target), text.symbols, imports)
    entries = tuple(kernels.addresses[symbol] for symbol in text.symbols)
    return Code((*libraries, kernels), entries, start)


_LIBRARIES: dict[tuple[str, str, Target], Library] = {}


def library(
    symbol: str, key: str, target: Target, image: Callable[[], bytes | None]
) -> Library | None:
    """Code that many programs call, loaded once in a process; None if there is no image of it.

    ``key`` is that of its text, from which ``image`` gives the object.
    """
    known = _LIBRARIES.get((symbol, key, target))
    if known is None:
        found = image()
        if found is None:
            return None
        known = _LIBRARIES.setdefault((symbol, key, target), Library(found, (symbol,)))
    return known


@cache
def walker() -> Library:
    """The native loop; one serves every program of the process."""
    return load(emit_walker(), (WALKER,))
