"""The whole pipeline as one function, readable from top to bottom."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

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
from graphc.runtime.jit import Library, compile_object, load
from graphc.runtime.program import Code, Program
from passes.arena import place
from passes.base import PassContext
from passes.inplace import INPLACE, May, inplace_groups
from passes.manager import PassRecord, print_times, run_pipeline, stage
from passes.pipeline import PIPELINE


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled graph and how it came to be.

    Attributes:
        source: the extracted graph.
        graph: after all graph passes: fused nodes, each one a kernel.
        records: one record a pass.
        program: the plan with its machine code.
        slots: the slot of the plan that holds a value of ``graph`` or of its control flow.
        llvm_ir: the text the kernels were compiled from.
        target: the machine they were compiled for.
    """

    source: Graph
    graph: Graph
    records: tuple[PassRecord, ...]
    program: Program
    slots: Mapping[Value, int]
    llvm_ir: str
    target: Target

    def __repr__(self) -> str:
        return f"<Compiled {self.graph!r}, {plural(len(self.plan.kernels), 'kernel')}>"

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.program.plan


@contextmanager
def _collection_paused() -> Iterator[None]:
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
    context.execute = lambda graph: _execute(graph, options, target)
    with _collection_paused():
        return _compile(extraction, options, target, context)


def _compile(
    extraction: Extraction, options: Options, target: Target, context: PassContext
) -> Compiled:
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
    with stage("llvm", graph, context, records):
        code = load_code(text, target)
    program = Program(plan, code)
    if options.check:
        from graphc.debug.levels import check_levels

        with stage("check", graph, context, records):
            check_levels(graph, program, context, target)
    if options.time:
        print_times(records)
    return Compiled(extraction.graph, graph, tuple(records), program, slots, text.kernels, target)


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
    libraries = [_walker()]
    imports: dict[str, int] = {}
    for symbol, module in text.libraries.items():
        library = _library(symbol, module, target)
        libraries.append(library)
        imports |= library.addresses
    walker = libraries[0].addresses[WALKER]
    if not text.symbols:
        return Code(tuple(libraries), (), walker)
    kernels = Library(compile_object(text.kernels, target), text.symbols, imports)
    entries = tuple(kernels.addresses[symbol] for symbol in text.symbols)
    return Code((*libraries, kernels), entries, walker)


@cache
def _library(symbol: str, text: str, target: Target) -> Library:
    """Code that many programs call, compiled once in a process."""
    return load(text, (symbol,), target)


@cache
def _walker() -> Library:
    """The native loop; one serves every program of the process."""
    return load(emit_walker(), (WALKER,))
