"""Loops of lanes that one kernel runs one after the other, so that a stack between them is a tape.

    %2, %3 = fused(%x) { while }              %4 = fused(%x) {
    %4 = fused(%2, %3) { while }       ->       while
                                                while }

The second reads rows of a stack that the first has written, as the gradient of a loop does. Joined,
a lane runs through both, and the stack need not be there for all lanes at once. Pointwise work on
lanes between them is done in between as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphc.base.errors import VerifyError
from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from graphc.ops.lane_loops import lane_body, runs_loops
from passes.control_flow.fuse_loops import LoopBody
from passes.infra.base import PassContext


def join_loops(graph: Graph, context: PassContext) -> Graph:
    """The graph with fused loops joined to those whose stacks they read.

    Linear in the nodes, and in those between each two loops.
    """
    if not any(map(_is_loop, graph.nodes)):
        return graph
    return _Joiner(graph, context).run()


def _is_loop(node: Node) -> bool:
    return node.op is fused_op and runs_loops(node.regions[0])


class _Joiner:
    """One graph while its loops are joined.

    Attributes:
        producers: what makes each value by now.
        users: what reads each value by now.
        outputs: the values that the graph gives.
        position: of each node.
    """

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self.graph = graph
        self.context = context
        self.producers = dict(graph.producers)
        self.users = {value: set(nodes) for value, nodes in graph.users().items()}
        self.outputs = frozenset(graph.outputs)
        self.position = {node: number for number, node in enumerate(graph.nodes)}

    def run(self) -> Graph:
        """The graph with its loops joined."""
        for node in self.graph.nodes:
            if _is_loop(node):
                self._join(node)
        nodes = dict.fromkeys(
            now
            for node in self.graph.nodes
            if (now := self.producers.get(node.outputs[0])) is not None
        )
        if len(nodes) == len(self.graph.nodes):
            return self.graph
        return self.graph.rebuilt(topological([*nodes]))

    def _join(self, second: Node) -> None:
        """Joins a node to those whose stacks it reads."""
        name = join_loops.__name__
        for first in self._sources(second):
            pair = _Pair(self, first, second)
            if not pair.tapes:
                continue
            made = pair.node()
            obstacle = _obstacle(made)
            if obstacle is not None:
                self.context.decline(name, second, obstacle)
            elif self.context.decide(name, second):
                self._replace(pair, made)
                self._join(made)
                return

    def _sources(self, node: Node) -> Iterable[Node]:
        """The fused loops that a node reads results of, the latest first."""
        found = {self.producers[value] for value in node.inputs if value in self.producers}
        return sorted(filter(_is_loop, found), key=lambda each: -self.position[each])

    def _replace(self, pair: _Pair, made: Node) -> None:
        """Puts the node of both in the place of the second."""
        gone = {pair.first, *pair.inside}
        for node in gone:
            for value in node.inputs:
                self.users[value].discard(node)
            for value in node.outputs:
                self.producers.pop(value, None)
        for value in made.inputs:
            self.users[value].add(made)
        self.producers.update(dict.fromkeys(made.outputs, made))
        self.position[made] = self.position[pair.second]


def _obstacle(node: Node) -> str | None:
    """Why no kernel can be made of a fused node."""
    try:
        lane_body(node.regions[0])
    except VerifyError as error:
        return error.message
    return None


class _Pair:
    """Two fused loops, the second of which reads results of the first.

    Attributes:
        tapes: the stacks of the first that nothing but the second reads.
        between: what the second reads that is computed of the first, in order.
        inside: the second, and those between that nothing else reads; others are computed twice.
    """

    def __init__(self, joiner: _Joiner, first: Node, second: Node) -> None:
        self.joiner = joiner
        self.first = first
        self.second = second
        stacks = _stacks(first)
        self.between = self._between() if stacks else []
        self.inside = {second}
        for node in reversed(self.between):
            if all(self._is_read_in(value, self.inside) for value in node.outputs):
                self.inside.add(node)
        self.tapes = {value for value in stacks if self._is_read_in(value, self.inside)}

    def _is_read_in(self, value: Value, nodes: set[Node]) -> bool:
        """Whether nothing but these nodes reads a value."""
        readers = self.joiner.users.get(value, set())
        return value not in self.joiner.outputs and readers <= nodes

    def _between(self) -> list[Node]:
        joiner = self.joiner
        start, seen = joiner.position[self.first], set[Node]()
        pending = list(self.second.inputs)
        while pending:
            node = joiner.producers.get(pending.pop())
            if node is not None and joiner.position[node] > start and node not in seen:
                seen.add(node)
                pending += node.inputs
        depending = set(self.first.outputs)
        found = []
        for node in sorted(seen, key=joiner.position.__getitem__):
            if not depending.isdisjoint(node.inputs):
                depending.update(node.outputs)
                found.append(node)
        return found

    def node(self) -> Node:
        """The node of both."""
        body = LoopBody(self.joiner.producers.get)
        made: dict[Value, Value] = {}
        for node in (self.first, *self.between, self.second):
            outside = body.read if node.op is fused_op else body.cheap
            operands = [made[v] if v in made else outside(v) for v in node.inputs]
            results = body.copied(node, operands)
            made.update(zip(node.outputs, results, strict=True))
        given = [
            value
            for value in self.first.outputs
            if value not in self.tapes and not self._is_read_in(value, self.inside)
        ]
        outputs = (*given, *self.second.outputs)
        region = Graph(
            "body", [*body.inputs.values()], body.nodes, [made[value] for value in outputs]
        )
        provenance = Provenance(self.second.provenance.where, join_loops.__name__)
        return Node(fused_op, tuple(body.inputs), {}, outputs, (region,), provenance)


def _stacks(node: Node) -> set[Value]:
    """The results of a fused node that are stacks."""
    (region,) = node.regions
    stacks = {
        each.outputs[place]
        for each, form in lane_body(region).forms.items()
        for place in form.stacks
    }
    return {
        value
        for value, inner in zip(node.outputs, region.outputs, strict=True)
        if inner in stacks
    }


__all__ = ["join_loops"]
