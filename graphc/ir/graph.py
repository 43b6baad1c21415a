"""Nodes and frozen graphs: what the compiler sees.

A ``Graph`` never changes: ``ir.edit.GraphEditor(graph).finish()`` and ``Graph.rebuilt`` give a new
one, so before/after dumps, rollback, sharing of regions and hashing need no copies.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from typing import Any, Final

from graphc.base.source import Location
from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import DType
from graphc.ir.guard import Guard, merged
from graphc.ir.op import OpDef
from graphc.ir.showing import to_dot, to_html, to_networkx, to_svg, to_text
from graphc.ir.value import Value


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a node comes from.

    Attributes:
        where: the user's line.
        cause: "built", or the rule or pass that made the node, or "gradient of" an op.
        parents: the lines of further nodes that went into it.
        order: how many differentiations it comes from: 0 for what users build.
        checkpoints: the ``gx.checkpoint`` calls that it belongs to, outermost first, each with the
            number of differentiations that have passed through the call since.
        waits: whether it is to be computed where the backward part reads it, and not before.
    """

    where: Location | None = None
    cause: str = "built"
    parents: tuple[Location, ...] = ()
    order: int = 0
    checkpoints: tuple[tuple[int, int], ...] = ()
    waits: bool = False

    def by(self, cause: str) -> Provenance:
        """Of what is made in place of a node of this provenance."""
        return Provenance(
            self.where, cause, self.parents, self.order, self.checkpoints, self.waits
        )

    def later(self, cause: str) -> Provenance:
        """Of a copy of the node that only the backward part reads, and that runs there."""
        order = max(1, self.order)
        return Provenance(self.where, cause, self.parents, order, self.checkpoints, True)

    def derived(self) -> Provenance:
        """Of what belongs to the derivative of a node of this provenance."""
        passed = tuple([(call, times + 1) for call, times in self.checkpoints])
        return Provenance(self.where, self.cause, self.parents, self.order + 1, passed)

    def within(self, calls: Sequence[int]) -> Provenance:
        """Of a node that is built while these calls of ``gx.checkpoint`` run."""
        outer = tuple([(call, 0) for call in calls])
        inner = tuple([pair for pair in self.checkpoints if pair[0] not in calls])
        return Provenance(self.where, self.cause, self.parents, self.order, outer + inner)

    @property
    def is_late(self) -> bool:
        """Whether it belongs to the backward part alone, as the derivative of what
        ``gx.checkpoint`` computes again."""
        return self.waits or any(times for _, times in self.checkpoints)

    def __reduce__(self) -> tuple[object, ...]:
        # what dataclasses do by themselves takes several times as long
        parts = (self.where, self.cause, self.parents, self.order, self.checkpoints, self.waits)
        return (Provenance, parts)


UNKNOWN = Provenance()

_REGIONS = operator.attrgetter("regions")


@dataclass(slots=True, eq=False)
class Node:
    """One application of an op; compares by identity. It has at least one output.

    ``regions`` are isolated graphs: what they capture is passed as explicit operands.
    """

    # ``Final`` and not a frozen dataclass: its fields take four times as long to set, and nodes
    # are what a compilation makes most of.
    op: Final[OpDef]
    inputs: Final[tuple[Value, ...]]
    attrs: Final[Attributes]
    outputs: Final[tuple[Value, ...]]
    regions: Final[tuple[Graph, ...]] = ()
    provenance: Final[Provenance] = UNKNOWN

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def may_fail(self) -> bool:
        """Whether it may raise an error when it runs; regions are not looked at."""
        return self.op.may_fail and "drop" not in self.attrs

    @property
    def may_fail_within(self) -> bool:
        """Whether it may raise an error when it runs, or a node of its regions."""
        if not self.regions:
            return self.may_fail
        inner = (node for region in self.regions for node in region.walk())
        return self.may_fail or any(node.may_fail for node in inner)

    def with_inputs(self, inputs: Sequence[Value]) -> Node:
        """The node over other operands, perhaps of another number; the identical one if they are
        its own."""
        if len(inputs) == len(self.inputs) and all(map(operator.is_, inputs, self.inputs)):
            return self
        return Node(
            self.op, tuple(inputs), self.attrs, self.outputs, self.regions, self.provenance
        )

    def with_attrs(self, attrs: Attributes) -> Node:
        """The node with other attributes."""
        return Node(self.op, self.inputs, attrs, self.outputs, self.regions, self.provenance)

    def with_regions(self, regions: Sequence[Graph]) -> Node:
        """The node with other regions; the identical one if they are its own."""
        if all(starmap(operator.is_, zip(regions, self.regions, strict=True))):
            return self
        return Node(
            self.op, self.inputs, self.attrs, self.outputs, tuple(regions), self.provenance
        )

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.op, self.inputs, self.attrs, self.outputs, self.regions, self.provenance)
        return (Node, parts)

    def __repr__(self) -> str:
        operands = ", ".join(value.name or str(value.type) for value in self.inputs)
        results = ", ".join(str(value.type) for value in self.outputs)
        shown = ", ".join(f"{name}={value!r}" for name, value in self.attrs.items())
        return f"{self.op.name}({operands}){' {' + shown + '}' if shown else ''} : {results}"


def distinct(values: Sequence[Value]) -> Iterable[Value]:
    """Each of the values once, in order."""
    return values if len(values) < 2 else dict.fromkeys(values)


class Graph:
    """A frozen, topologically ordered graph.

    Attributes:
        name: a label.
        inputs: values that come from outside, in order.
        nodes: every producer before its consumers.
        outputs: what the graph gives back, in order; may repeat and may contain inputs.
        guards: what its nodes need of sizes; checked before they run, all of them.
    """

    __slots__ = (
        "_dtypes", "_has_regions", "_hash", "_producers", "_structure",
        "guards", "inputs", "name", "nodes", "outputs",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        inputs: Sequence[Value],
        nodes: Sequence[Node],
        outputs: Sequence[Value],
        guards: Iterable[Guard] = (),
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        self.guards = tuple(guards)
        self._producers: dict[Value, Node] | None = None
        # found, and read, by ``graphc.ir.equal``
        self._hash: str | None = None
        self._structure: Any = None
        self._has_regions: bool | None = None
        self._dtypes: tuple[DType, ...] | None = None

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes of its values, those inside regions left out, in the order they come."""
        if self._dtypes is None:
            # a type is one object for many values
            types = {id(value._type): value._type for value in chain(self.inputs, self.producers)}
            found = {type_.dtype.name: type_.dtype for type_ in types.values()}
            self._dtypes = tuple(found.values())
        return self._dtypes

    @property
    def has_regions(self) -> bool:
        """Whether any of its nodes has regions."""
        if self._has_regions is None:
            self._has_regions = any(map(_REGIONS, self.nodes))
        return self._has_regions

    def rebuilt(self, nodes: Sequence[Node], outputs: Sequence[Value] | None = None) -> Graph:
        """A graph of these nodes, and of other outputs if given; the identical one if all is as is.

        The nodes are in topological order.
        """
        new = self.outputs if outputs is None else outputs
        if len(nodes) == len(self.nodes) and all(
            map(operator.is_, (*nodes, *new), (*self.nodes, *self.outputs))
        ):
            return self
        return Graph(self.name, self.inputs, nodes, new, self.guards)

    def with_parts(
        self,
        *,
        inputs: Sequence[Value] | None = None,
        nodes: Sequence[Node] | None = None,
        outputs: Sequence[Value] | None = None,
        guards: Iterable[Guard] = (),
    ) -> Graph:
        """A graph that differs in what is given, with the guards of this one and further ones."""
        return Graph(
            self.name,
            self.inputs if inputs is None else inputs,
            self.nodes if nodes is None else nodes,
            self.outputs if outputs is None else outputs,
            merged((*self.guards, *guards)) if guards else self.guards,
        )

    @property
    def producers(self) -> dict[Value, Node]:
        """Which node makes a value; inputs are not in it. Not to be changed."""
        if self._producers is None:
            self._producers = {value: node for node in self.nodes for value in node.outputs}
        return self._producers

    def users(self) -> dict[Value, list[Node]]:
        """For every value the nodes that read it, each once, in order."""
        result: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in distinct(node.inputs):
                found = result.get(value)
                if found is None:
                    result[value] = [node]
                else:
                    found.append(node)
        return result

    def leading_to(self, values: Iterable[Value]) -> list[Node]:
        """The nodes that make these values, in order."""
        needed = set(values)
        nodes = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
                nodes.append(node)
        return nodes[::-1]

    def walk(self) -> Iterator[Node]:
        """All nodes, those of regions included, without recursion."""
        stack = [iter(self.nodes)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            for region in reversed(node.regions):
                stack.append(iter(region.nodes))

    to_networkx = to_networkx
    to_dot = to_dot
    to_svg = to_svg
    _repr_html_ = to_html
    __str__ = to_text

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.inputs)} inputs, {len(self.nodes)} nodes>"
