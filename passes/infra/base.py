"""What a pass is: a function from a frozen graph to a frozen graph, and what it is told.

Invariant: a pass sees one level of a graph at a time. ``on_regions`` applies it to the regions of
control flow too, so that no pass forgets them; bodies of fused nodes are kernels already and are
left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from graphc.base.options import Options
from graphc.base.source import Location
from graphc.base.target import Target
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from passes.infra import decision_file

if TYPE_CHECKING:
    from passes.rewriting.constants import Producer
    from passes.rewriting.pattern import Rule


@dataclass(slots=True, eq=False)
class Decision:
    """One choice that a pass made, or decided not to make.

    Attributes:
        rule: the rule, or the pass if it has no rules.
        value: what it is about: the first output of the node concerned.
        where: the user's line.
        number: how much fuel was spent with it, counted from 1; 0 where nothing was changed.
        reason: for a choice not made, why.
    """

    rule: Final[str]
    value: Final[Value]
    where: Final[Location | None]
    number: Final[int]
    reason: Final[str] = ""

    def __str__(self) -> str:
        label = f" {self.value.name!r}" if self.value.name is not None else ""
        text = f"{self.rule}:{label} {self.value.type} at {self.where or '?'}"
        return f"{text}, not done: {self.reason}" if self.reason else f"{text}, #{self.number}"


class Observer(Protocol):
    """Who wants to know which rules fire."""

    def fired(
        self, rule: Rule, node: Node, made: Sequence[Node], new: Value, producer: Producer
    ) -> None:
        """A rule replaces the node's output by ``new``, which the nodes of ``made`` compute.

        The graph still is as it was; ``producer`` knows its nodes.
        """


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one run of a fused node takes.

    Attributes:
        work: picoseconds of one thread.
        scratch: bytes beside its operands and results.
    """

    work: int
    scratch: int


@dataclass(frozen=True, slots=True, eq=False)
class Recomputed:
    """What a program computes again.

    Attributes:
        natural: the most bytes alive at once if nothing is, by exact liveness.
        peak: the same as it was planned.
        work: the estimated time of all kernels if nothing is, in picoseconds.
        again: the time that is added.
        copies: for each value that is made again those that are equal to it.
    """

    natural: int
    peak: int
    work: int
    again: int
    copies: Mapping[Value, Sequence[Value]]


@dataclass(slots=True, eq=False)
class PassContext:
    """What passes are told, and where they record what they decide.

    Attributes:
        options: numerics, switched-off rules and so on.
        target: the machine the code is for; None where that does not matter.
        execute: runs a graph without inputs natively; None where there is no native code.
        estimate: what a fused node takes; None where nothing is lowered.
        aim: the bytes that the arena is to fit in, by exact liveness; None where nothing is aimed
            at.
        recomputed: what was planned to be computed again, and what it comes to.
        spent: how many optional decisions were made so far.
        decisions: all of them, in order; the manager hands them out pass by pass.
        observer: is told of each rule that fires; None if nobody wants to know.
        poll: is called between passes; raises where compiling should not go on.
        renewed: the variables that get new values: which input of the whole graph is the old one,
            None if nothing reads it, and which output is the new one.
    """

    options: Options = field(default_factory=Options)
    target: Target | None = None
    execute: Callable[[Graph], Sequence[Array]] | None = None
    estimate: Callable[[Node], Estimate] | None = None
    aim: int | None = None
    recomputed: Recomputed | None = None
    spent: int = 0
    decisions: list[Decision] = field(default_factory=list)
    observer: Observer | None = None
    renewed: tuple[tuple[int | None, int], ...] = ()
    poll: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        """Counts on where the programs before have left the file of decisions."""
        if self.options.decisions is not None:
            self.spent += decision_file.count(self.options.decisions)

    def decide(self, rule: str, node: Node) -> bool:
        """Spends one unit of fuel on an optional change of the node.

        False if no fuel is left or the options switch the rule off. A pass asks before it changes
        anything, so a wrong result can be bisected to one decision.
        """
        return self.spend(rule, node.outputs[0], node.provenance.where)

    def spend(self, rule: str, value: Value, where: Location | None) -> bool:
        """``decide`` where a value is all there is of the node."""
        fuel = self.options.fuel
        if rule in self.options.off or (fuel is not None and self.spent >= fuel):
            return False
        self.spent += 1
        decision = Decision(rule, value, where, self.spent)
        self.decisions.append(decision)
        if self.options.decisions is not None:
            decision_file.append(self.options.decisions, str(decision))
        return True

    def observe(
        self, rule: Rule, node: Node, made: Sequence[Node], new: Value, producer: Producer
    ) -> None:
        """Tells the observer, if there is one, that a rule fires; see ``Observer.fired``."""
        if self.observer is not None:
            self.observer.fired(rule, node, made, new, producer)

    def decline(self, rule: str, node: Node, reason: str) -> None:
        """Records a change that was considered and not made."""
        where = node.provenance.where
        self.decisions.append(Decision(rule, node.outputs[0], where, 0, reason))


class Pass(Protocol):
    """A graph pass: a function; its name is the name of the pass.

    It gives back the identical graph if it changes nothing.
    """

    @property
    def __name__(self) -> str: ...

    def __call__(self, graph: Graph, context: PassContext, /) -> Graph: ...


PassFunction = Callable[[Graph, PassContext], Graph]


def has_open_regions(node: Node) -> bool:
    """True for control flow, whose regions passes work on; a fused body is closed."""
    return bool(node.regions) and node.op is not fused_op


def on_regions(function: PassFunction) -> PassFunction:
    """The pass on a graph and the regions of its control flow, innermost first."""

    def run(graph: Graph, context: PassContext) -> Graph:
        if not graph.has_regions:
            return function(graph, context)
        # Regions are nested at most MAXIMUM_NESTING deep, so this recursion is bounded.
        nodes = [
            node.with_regions([run(region, context) for region in node.regions])
            if has_open_regions(node)
            else node
            for node in graph.nodes
        ]
        return function(graph.rebuilt(nodes), context)

    return run


def open_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes that passes work on: those of the graph and of regions of control flow."""
    stack = [iter(graph.nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        if has_open_regions(node):
            stack.extend(iter(region.nodes) for region in reversed(node.regions))
