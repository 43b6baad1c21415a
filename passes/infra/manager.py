"""Runs a table of passes over a graph and keeps a record of each.

Invariant: passes know nothing of the table, of each other or of the instruments; whatever is done
around every pass (regions, timing, verifying, dumping, shuffling) is done here. Passes leave alone
what they have made, so a pass that gets the very graph that it gave before is not run.
"""

from __future__ import annotations

import difflib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.base.errors import GraphcError, GraphError, VerifyError
from graphc.base.options import Options
from graphc.base.source import caller
from graphc.base.words import plural
from graphc.ir.graph import Graph, Node
from passes.infra.base import Decision, Pass, PassContext, on_regions, open_nodes
from passes.infra.instruments import Instrument, instruments_of


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the pipeline's table.

    Attributes:
        run: the pass.
        required: the pass brings the graph into a form that later steps rely on, so that it cannot
            be switched off.
        leaves: holds of every node from this step on.
        parts: names inside the pass (of rules) that can be switched off one by one.
        inexact: the names of its decisions that may change bits.
        regions: also run on the regions of control flow.
        level: it runs where ``optimize`` is at least this.
    """

    run: Pass
    required: bool = False
    leaves: Callable[[Node], bool] | None = None
    parts: frozenset[str] = frozenset()
    inexact: frozenset[str] = frozenset()
    regions: bool = True
    level: int = 0

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.run.__name__


@dataclass(frozen=True, slots=True)
class PassNames:
    """What passes and their decisions are called in options.

    Attributes:
        required: passes that cannot be switched off.
        optional: those that can be.
        parts: rules and other decisions inside of passes, and below the graph.
    """

    required: frozenset[str]
    optional: frozenset[str]
    parts: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """All that decisions are known by."""
        return self.required | self.optional | self.parts

    def check(self, options: Options) -> None:
        """Checks the names in options.

        Raises:
            GraphError: for a name that is not there, with close ones, or that of a required pass.
        """
        passes = self.required | self.optional
        for name in sorted(options.off):
            if name in self.required:
                raise GraphError(
                    f"the pass {name!r} is required and cannot be switched off",
                    where=caller(),
                    hint=f"passes that can be are {', '.join(sorted(self.optional))}",
                )
            if name not in self.optional and name not in self.parts:
                raise GraphError(
                    f"there is no pass or rule {name!r} to switch off",
                    where=caller(),
                    hint=self._close(name),
                )
        for name in options.dump:
            if name != "all" and name.partition("#")[0] not in passes:
                raise GraphError(
                    f"there is no pass {name!r} to dump after",
                    where=caller(),
                    hint=f"passes are {', '.join(sorted(passes))}, or all",
                )

    def _close(self, name: str) -> str:
        """Names close to one that is not known, else all passes: rules would fill a screen."""
        close = difflib.get_close_matches(name, sorted(self.optional | self.parts), cutoff=0.7)
        if close:
            return f"did you mean {' or '.join(close)}?"
        return f"passes are {', '.join(sorted(self.optional))}; docs/rules.md lists the rules"


def names_of(steps: Sequence[Step], below: frozenset[str] = frozenset()) -> PassNames:
    """The names of a table; ``below`` are decisions that are taken after it."""
    required = frozenset(step.name for step in steps if step.required)
    optional = frozenset(step.name for step in steps if not step.required)
    return PassNames(required, optional, below.union(*(step.parts for step in steps)))


@dataclass(frozen=True, slots=True)
class Before:
    """No run of ``step`` comes after a run of ``later``."""

    step: str
    later: str
    reason: str


@dataclass(frozen=True, slots=True)
class Needs:
    """Every run of ``step`` has a run of ``earlier`` before it."""

    step: str
    earlier: str
    reason: str


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did.

    Attributes:
        name: the pass and how often it has run, as in "cse#2".
        seconds: what it took.
        nodes_before, nodes_after: how many nodes there were, bodies of control flow included.
        decisions: what it decided, in order.
        graph: what it gave.
    """

    name: str
    seconds: float
    nodes_before: int
    nodes_after: int
    decisions: tuple[Decision, ...]
    graph: Graph

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.nodes_before} -> {self.nodes_after} nodes, "
            f"{plural(self.made, 'decision')}, {self.seconds * 1e3:.2f} ms"
        )

    def __repr__(self) -> str:
        return f"<PassRecord {self}>"

    @property
    def made(self) -> int:
        """How many decisions changed something; the others say what was left, and why."""
        return sum(1 for decision in self.decisions if decision.number)


def check_order(steps: Sequence[Step], constraints: Sequence[Before | Needs]) -> None:
    """Checks a table against its constraints.

    Raises:
        VerifyError: naming the constraint that does not hold, and its reason.
    """
    names = [step.name for step in steps]
    for rule in constraints:
        places = [place for place, name in enumerate(names) if name == rule.step]
        other = rule.later if isinstance(rule, Before) else rule.earlier
        if not places or other not in names:
            missing = rule.step if not places else other
            raise VerifyError(f"the pipeline has no step {missing!r}, though {rule.reason}")
        first = names.index(other)
        holds = places[-1] < first if isinstance(rule, Before) else places[0] > first
        if not holds:
            order = "before" if isinstance(rule, Before) else "after"
            raise VerifyError(f"{rule.step} must run {order} {other}: {rule.reason}")


def check_levels(steps: Sequence[Step]) -> None:
    """Checks the steps that not every level of ``optimize`` runs: they must keep all bits.

    Raises:
        VerifyError: naming a step that runs at every level, or one that may change bits.
    """
    for step in steps:
        if step.level == 0 or step.inexact:
            raise VerifyError(
                f"{step.name} stands behind steps that some levels of optimize leave out, so it "
                "must have a level and keep all bits"
            )


def run_pipeline(
    graph: Graph,
    steps: Sequence[Step],
    context: PassContext,
    below: frozenset[str] = frozenset(),
    first: int = 0,
    end: int | None = None,
) -> tuple[Graph, list[PassRecord]]:
    """The graph after all steps but those switched off, and a record of each that ran.

    ``below`` are names of decisions that are taken after the pipeline and can be switched off too.
    Of the steps those from ``first`` to before ``end`` run: the graph has the others behind or
    before it.

    Raises:
        GraphError: for options that name a pass or rule that is not there or is required.
        GraphcError: whatever a pass raises, with the name of the pass.
    """
    options = context.options
    if options.off or options.dump:
        names_of(steps, below).check(options)
    instruments = instruments_of(context)
    records: list[PassRecord] = []
    settled: dict[str, Graph] = {}
    done = steps[:first]
    runs = Counter(step.name for step in done)
    established = [step.leaves for step in done if step.leaves is not None]
    count = _count(graph)
    for step in steps[first:end]:
        runs[step.name] += 1
        if step.name in options.off or step.level > options.optimize:
            continue
        name = f"{step.name}#{runs[step.name]}"
        if step.leaves is not None:
            established.append(step.leaves)
        last = settled.get(step.name)
        graph, record = _run_step(graph, step, name, context, instruments, established, count, last)
        settled[step.name] = graph
        count = record.nodes_after
        records.append(record)
    return graph, records


@contextmanager
def stage(
    name: str, graph: Graph, context: PassContext, records: list[PassRecord]
) -> Iterator[None]:
    """Records the work of the block, below the level of graphs, beside that of the passes."""
    if context.poll is not None:
        context.poll()
    decided = len(context.decisions)
    started = time.perf_counter()
    yield
    seconds = time.perf_counter() - started
    count = records[-1].nodes_after if records else _count(graph)
    decisions = tuple(context.decisions[decided:])
    records.append(PassRecord(name, seconds, count, count, decisions, graph))


def pass_table(records: Sequence[PassRecord]) -> str:
    """What each pass did and took, a row a pass, and all of them together."""
    if not records:
        return "no pass ran"
    rows = [(r.name, r.nodes_before, r.nodes_after, r.made, r.seconds) for r in records]
    made, seconds = sum(row[3] for row in rows), sum(row[4] for row in rows)
    rows.append(("all passes", rows[0][1], rows[-1][2], made, seconds))
    w = max(len(row[0]) for row in rows)
    lines = [f"{'pass':<{w}} {'nodes before':>12} {'after':>7} {'decisions':>10} {'ms':>8}"]
    lines += [f"{n:<{w}} {b:>12} {a:>7} {d:>10} {s * 1e3:>8.2f}" for n, b, a, d, s in rows]
    return "\n".join(lines)


def print_times(records: Sequence[PassRecord]) -> None:
    """Writes the table of the passes to the standard error."""
    sys.stderr.write(f"{pass_table(records)}\n")


def _run_step(
    graph: Graph,
    step: Step,
    name: str,
    context: PassContext,
    instruments: Sequence[Instrument],
    established: Sequence[Callable[[Node], bool]],
    count: int,
    settled: Graph | None,
) -> tuple[Graph, PassRecord]:
    """``settled`` is what an earlier run of the pass gave: of that, it has nothing left to do."""
    if context.poll is not None:
        context.poll()
    decided = len(context.decisions)
    function = on_regions(step.run) if step.regions else step.run
    try:
        for instrument in instruments:
            graph = instrument.before(name, graph, function, step.inexact)
        started = time.perf_counter()
        result = graph if graph is settled else function(graph, context)
        seconds = time.perf_counter() - started
        for instrument in instruments:
            instrument.after(name, result, established)
    except GraphcError as error:
        error.cause = error.cause or name
        raise
    after = count if result is graph else _count(result)
    decisions = tuple(context.decisions[decided:])
    return result, PassRecord(name, seconds, count, after, decisions, result)


def _count(graph: Graph) -> int:
    return sum(1 for _ in open_nodes(graph)) if graph.has_regions else len(graph.nodes)
