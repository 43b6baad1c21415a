"""The bodies of fused nodes, and what each reads; groups that are the same share one.

Invariant: a body holds what its group computes, in the group's order, each cheap value cloned once
before its first reader. Two groups share a body only if nothing tells them apart, neither
operations, attributes, types, names of values nor lines of the user, so nobody can tell that it is
shared. What is worked out for a body, such as its kernel, is so worked out once for all layers of a
network.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from graphc.base.source import Location
from graphc.ir import attributes
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import Contraction, Element, Scan, ScatterAdd
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from graphc.ops.placing import place_slice_op


class Bodies:
    """Makes the fused nodes of one graph."""

    def __init__(self, cheap: Mapping[Value, Node]) -> None:
        """``cheap`` are the values that each body makes for itself, and what makes them."""
        self._cheap = cheap
        self._known: dict[Hashable, tuple[Graph, Provenance]] = {}
        self._types: dict[TensorType, int] = {}
        self._type_of: dict[int, int] = {}

    def fused(self, members: Sequence[Node], exits: Sequence[Value]) -> Node:
        """The fused node of members in topological order; ``exits`` are what others read."""
        content = _Content(self._cheap)
        content.fill(members)
        key = self._key(content, exits)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (content.graph(exits), _provenance(members))
        region, provenance = known
        return Node(fused_op, tuple(content.inputs), {}, tuple(exits), (region,), provenance)

    def _key(self, content: _Content, exits: Sequence[Value]) -> Hashable:
        numbers = content.numbers
        parts: list[Hashable] = [(numbers[v], self._label(v)) for v in content.inputs]
        for node in content.nodes:
            made = node.provenance
            parts += (
                node.op,
                tuple([numbers[value] for value in node.inputs]),
                attributes.keys(node.attrs) if node.attrs else (),
                tuple([self._label(value) for value in node.outputs]),
                made.cause,
                made.where.place if made.where else None,
                tuple([parent.place for parent in made.parents]),
            )
        return len(content.inputs), tuple(parts), tuple([numbers[value] for value in exits])

    def _label(self, value: Value) -> tuple[int, str | None]:
        """A value's name, and a number for its type: hashing a type takes longer."""
        number = self._type_of.get(id(value.type))
        if number is None:
            number = self._types.setdefault(value.type, len(self._types))
            self._type_of[id(value.type)] = number
        return number, value.name


class _Content:
    """What a body will hold, in terms of the graph around it.

    Attributes:
        inputs: what it reads.
        nodes: what it computes, clones of cheap values included.
        numbers: all values, in the order in which they come up.
    """

    def __init__(self, cheap: Mapping[Value, Node]) -> None:
        self._cheap = cheap
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.numbers: dict[Value, int] = {}

    def fill(self, members: Sequence[Node]) -> None:
        """Finds out what the members read and which cheap values they need."""
        inside = {value for node in members for value in node.outputs}
        # a product reads from memory, so nobody else in the group may have its operands cloned
        for node in members:
            if isinstance(node.op.lowering, Contraction):
                for value in node.inputs:
                    if value not in inside:
                        self._read(value)
        for node in members:
            clones = not isinstance(node.op.lowering, (Element, Contraction, Scan, ScatterAdd))
            for value in node.inputs:
                if value in self.numbers:
                    continue
                if clones and value in self._cheap and value not in inside:
                    self._clone(value)
                else:
                    self._read(value)
            self._compute(node)

    def graph(self, exits: Sequence[Value]) -> Graph:
        """The body itself, with values of its own."""
        inner = {value: Value(value.type, value.name) for value in self.numbers}
        nodes = [
            Node(
                node.op,
                tuple([inner[value] for value in node.inputs]),
                node.attrs,
                tuple([inner[value] for value in node.outputs]),
                (),
                node.provenance,
            )
            for node in self.nodes
        ]
        return Graph("body", [inner[v] for v in self.inputs], nodes, [inner[v] for v in exits])

    def _read(self, value: Value) -> None:
        if value not in self.numbers:
            self.numbers[value] = len(self.numbers)
            self.inputs.append(value)

    def _compute(self, node: Node) -> None:
        self.nodes.append(node)
        for value in node.outputs:
            self.numbers[value] = len(self.numbers)

    def _clone(self, value: Value) -> None:
        """A cheap value's definition, and those it needs."""
        stack = [value]
        while stack:
            current = stack[-1]
            node = self._cheap[current]
            missing = [v for v in node.inputs if v not in self.numbers]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if current not in self.numbers:
                self._compute(node)


def _provenance(members: Sequence[Node]) -> Provenance:
    """The lines of all members, the last of what is computed, not of where it is put, first."""
    # to compare lines their columns must be found; most nodes are of few instructions
    places: dict[object, Location] = {}
    for node in members:
        where = node.provenance.where
        if where is not None:
            places.setdefault(where.place, where)
    lines = dict.fromkeys(places.values())
    work = [node for node in members if node.op is not place_slice_op] or members
    first: Location | None = work[-1].provenance.where
    return Provenance(first, "fusion", tuple(line for line in lines if line is not first))
