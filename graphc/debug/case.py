"""A graph with what to run it on: what is bisected, reduced, captured and replayed.

Invariant: a case is plain data, and what it gives depends on it and the compiler alone. State is an
input like any other here, since a case runs once and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from graphc.base.errors import FeedError, GraphcError, GraphError
from graphc.base.options import Options
from graphc.base.source import caller
from graphc.base.target import Target, host
from graphc.checking.compare import Difference, difference, tolerance_of
from graphc.checking.interpreter import OutOfBudget, bind_dims, evaluate
from graphc.checking.samples import cost
from graphc.checking.samples import feeds as sampled
from graphc.checking.sizes import fitting_sizes
from graphc.checking.unexplained import unexplained
from graphc.compiling.compiled import Compiled
from graphc.compiling.compiler import compile_graph
from graphc.compiling.extraction import Extraction, extract, missing_feed
from graphc.frontend.structure import leaves
from graphc.ir.attributes import Array
from graphc.ir.effect import Effect
from graphc.ir.graph import Graph
from graphc.ir.recorder import Recorder
from graphc.ir.text.printer import symbols_in
from graphc.ir.value import Value
from graphc.ops.source import placeholder_op
from graphc.session.feeds import converted_feed
from passes.infra.base import Decision, PassContext

Outcome: TypeAlias = list[Array] | Exception
"""What a run gives: arrays, or the error it ends with."""

COST = 50_000_000
"""Graphs that touch more elements are not interpreted on sizes made up."""

KEPT = ("numerics", "fast_math", "off", "fuel", "shuffle_seed", "threads", "memory_limit")
"""The options that what a program gives may depend on."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A graph and its inputs.

    Attributes:
        graph: extracted, not compiled.
        arrays: one for each input of the graph.
        states: how many of the last inputs are variables.
        options: how to compile.
        target: what to compile for.
    """

    graph: Graph
    arrays: tuple[Array, ...]
    states: int = 0
    options: Options = field(default_factory=Options)
    target: Target = field(default_factory=host)

    def context(self, fuel: int | None = None) -> PassContext:
        """What the passes are told: so much fuel, or what the options say."""
        kept = {name: getattr(self.options, name) for name in KEPT}
        if fuel is not None:
            kept["fuel"] = fuel
        return PassContext(Options(**kept), self.target)

    @property
    def extraction(self) -> Extraction:
        """The graph as the compiler takes it."""
        inputs, feeds = self.graph.inputs, len(self.graph.inputs) - self.states
        return Extraction(self.graph, inputs[:feeds], inputs[feeds:], ())

    def compiled(self, context: PassContext) -> Compiled:
        """The program."""
        return compile_graph(self.extraction, context.options, self.target, context)

    def native(self, fuel: int | None = None) -> tuple[Outcome, list[Decision]]:
        """What compiled code gives, and the numbered decisions made on the way.

        A compiler that breaks down is an outcome too, since a wrong decision may do that.
        """
        context = self.context(fuel)
        outcome: Outcome
        try:
            outcome = self.compiled(context).program.run(self.arrays)
        except Exception as error:
            outcome = error
        return outcome, [decision for decision in context.decisions if decision.number]

    def interpreted(self) -> Outcome:
        """What the interpreter gives for the graph as it is."""
        try:
            with np.errstate(all="ignore"):
                return list(evaluate(self.graph, self.arrays))
        except GraphcError as error:
            return error


def is_inexact(case: Case) -> bool:
    """Whether the bits of results are open: functions, sums of floats, fast math."""
    flags = bool(case.options.fast_math)
    return flags or any(node.op.numerics != "E" for node in case.graph.walk())


def differs(
    case: Case, expected: Outcome, given: Outcome, tolerance: float | None = None
) -> str | None:
    """How two outcomes differ, None if they agree.

    Args:
        case: what was run.
        expected: what is right.
        given: what is judged.
        tolerance: relative; by default every bit counts where all operations are exact, and
            elsewhere finite results may differ a little (``compare.SLACK``), and by as much as
            rounding on the way can explain.
    """
    if isinstance(expected, Exception) or isinstance(given, Exception):
        if type(expected) is type(given):
            return None
        return f"the run ends with {_outcome(given)} instead of {_outcome(expected)}"
    loose = is_inexact(case) if tolerance is None else tolerance > 0
    for number, (wanted, array) in enumerate(zip(expected, given, strict=True)):
        allowed = tolerance
        if allowed is None:
            allowed = tolerance_of(wanted.dtype) if loose else 0.0
        found = difference(wanted, array, allowed, finite=loose)
        if found is not None and loose and tolerance is None:
            found = _unexplained(case, number, wanted, array)
        if found is not None:
            return f"result {number}: {found}"
    return None


def _unexplained(case: Case, number: int, wanted: Array, array: Array) -> Difference | None:
    """What is left of a difference that may come from rounding on the way."""
    output = case.graph.outputs[number]
    given = dict(zip(case.graph.inputs, case.arrays, strict=True))
    sizes = bind_dims([value.type for value in case.graph.inputs], case.arrays)
    try:
        return unexplained(case.graph.nodes, given, sizes, output, wanted, array, finite=True)
    except OutOfBudget:
        return difference(wanted, array, tolerance_of(wanted.dtype), finite=True)


def _outcome(outcome: Outcome) -> str:
    if not isinstance(outcome, Exception):
        return "results"
    message = outcome.message if isinstance(outcome, GraphcError) else str(outcome)
    return f"{type(outcome).__name__} ({message})"


# --- making cases --------------------------------------------------------------------------------


def case_of(
    fetches: Any, feeds: Mapping[Any, Any] | None = None, options: Options | None = None
) -> Case:
    """The case of fetches and feeds as ``Session.run`` takes them; variables at initial values.

    Raises:
        FeedError: for feeds that lack or don't fit.
        GraphError: for fetches that are none.
    """
    extraction, recorder = extraction_of(fetches, feeds or {})
    given = {}
    for key, array in (feeds or {}).items():
        value = recorder.find(key) if isinstance(key, str) else key
        given[value] = array
    arrays = []
    for value in extraction.feeds:
        if value not in given:
            raise missing_feed(value, recorder)
        arrays.append(converted_feed(value, given[value]))
    arrays += initial_states(extraction, recorder)
    resolved = Options.resolved(options)
    return Case(extraction.graph, tuple(arrays), len(extraction.states), resolved)


def extraction_of(fetches: Any, feeds: Mapping[Any, Any]) -> tuple[Extraction, Recorder]:
    """What the fetches need, and the graph they were built in."""
    flat = list(leaves(fetches))
    values = [leaf for leaf in flat if isinstance(leaf, Value)]
    effects = [value for leaf in flat if isinstance(leaf, Effect) for value in leaf.values]
    if any(not isinstance(leaf, (Value, Effect)) for leaf in flat):
        raise GraphError("fetches are values, effects or structures of them", where=caller())
    recorder = next((value.graph for value in (*values, *effects)), None) or Recorder("graph")
    fed = []
    for key in feeds:
        value = recorder.find(key) if isinstance(key, str) else key
        if not isinstance(value, Value) or value.graph is not recorder:
            raise FeedError(f"{key!r} is no value of the graph to feed", where=caller())
        node = recorder.producer(value)
        if node is None or node.op is not placeholder_op:
            fed.append(value)
    return extract(recorder, values, effects, dict.fromkeys(fed)), recorder


def initial_states(extraction: Extraction, recorder: Recorder) -> list[Array]:
    """The values that the variables begin with."""
    nodes = [recorder.producer(variable) for variable in extraction.states]
    return [node.attrs["initial"].array for node in nodes if node is not None]


def sampled_cases(extraction: Extraction, recorder: Recorder, options: Options) -> list[Case]:
    """Cases of a graph without inputs of its own: random ones, special values among them.

    Raises:
        GraphError: if the graph is too large to be interpreted.
    """
    graph, states = extraction.graph, initial_states(extraction, recorder)
    cases = []
    for sizes in fitting_sizes(symbols_in(graph), graph.guards):
        if cost(graph, sizes) > COST:
            raise GraphError(
                f"graph {graph.name!r} makes more than {COST} elements, too many to interpret",
                hint="capture a run of smaller sizes with executable.capture",
            )
        for _, arrays in sampled(graph, sizes, 5):
            given = arrays[: len(extraction.feeds)]
            cases.append(Case(graph, (*given, *states), len(states), options))
    if not cases:
        raise GraphError(
            f"no sizes of the dims of graph {graph.name!r} were found that fit",
            hint="capture a run with executable.capture",
        )
    return cases


def options_data(options: Options) -> dict[str, Any]:
    """The options that matter as plain data, those at their default left out."""
    default = Options()
    result = {}
    for item in fields(Options):
        value = getattr(options, item.name)
        if item.name in KEPT and value != getattr(default, item.name):
            result[item.name] = sorted(value) if isinstance(value, frozenset) else value
    return result


__all__ = [
    "Case",
    "Outcome",
    "case_of",
    "differs",
    "extraction_of",
    "initial_states",
    "options_data",
    "sampled_cases",
]
