"""Loops of lanes that one kernel runs one after the other, so that a stack between them is a tape.

    %2, %3 = fused(%x) { while }              %4 = fused(%x) {
    %4 = fused(%2, %3) { while }       ->       while
                                                while }

The second reads rows of a stack that the first has written, as the gradient of a loop does. Joined,
a lane runs through both, and the stack need not be there for all lanes at once. Pointwise work on
lanes between them is done in between as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphc.base.errors import VerifyError
from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from graphc.ops.lane_loops import lane_body, runs_loops
from passes.control_flow.fuse_loops import LoopBody
from passes.infra.base import PassContext


def join_loops(graph: Graph, context: PassContext) -> Graph:
    """The graph with fused loops joined to those whose stacks they read."""
    for node in graph.nodes:
        if _is_loop(node):
            graph = _joined(graph, node, context)
    return graph


def _is_loop(node: Node) -> bool:
    return node.op is fused_op and runs_loops(node.regions[0])


def _joined(graph: Graph, second: Node, context: PassContext) -> Graph:
    """The graph with a node joined to those whose stacks it reads."""
    for first in _sources(graph, second):
        pair = _Pair(graph, first, second)
        if not pair.tapes:
            continue
        made = pair.node()
        obstacle = _obstacle(made)
        if obstacle is not None:
            context.decline(join_loops.__name__, second, obstacle)
        elif context.decide(join_loops.__name__, second):
            return _joined(pair.replaced(made), made, context)
    return graph


def _sources(graph: Graph, node: Node) -> Iterable[Node]:
    """The fused loops that a node reads results of, the latest first."""
    found = {graph.producers.get(value) for value in node.inputs}
    return [each for each in reversed(graph.nodes) if each in found and _is_loop(each)]


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
    """

    def __init__(self, graph: Graph, first: Node, second: Node) -> None:
        self.graph = graph
        self.first = first
        self.second = second
        users = graph.users()
        self._outputs = set(graph.outputs)
        stacks = _stacks(first)
        self.tapes = {
            value
            for value in stacks - self._outputs
            if all(user is second for user in users.get(value, ()))
        }
        self.between = self._between() if self.tapes else []
        # what is read elsewhere is computed there once more
        inside = {second}
        for node in reversed(self.between):
            if self._is_inside(node.outputs, users, inside):
                inside.add(node)
        self._inside = inside
        self._given = [
            value
            for value in first.outputs
            if value not in self.tapes and not self._is_inside([value], users, inside)
        ]

    def _is_inside(
        self, values: Sequence[Value], users: Mapping[Value, Sequence[Node]], inside: set[Node]
    ) -> bool:
        """Whether nothing but these nodes reads values."""
        return all(
            value not in self._outputs and inside.issuperset(users.get(value, ()))
            for value in values
        )

    def _between(self) -> list[Node]:
        depending = set(self.first.outputs)
        later: list[Node] = []
        for node in self.graph.nodes:
            if node is self.second:
                break
            if not depending.isdisjoint(node.inputs):
                depending.update(node.outputs)
                later.append(node)
        wanted = set(self.second.inputs)
        found: list[Node] = []
        for node in reversed(later):
            if not wanted.isdisjoint(node.outputs):
                wanted.update(node.inputs)
                found.append(node)
        return found[::-1]

    def node(self) -> Node:
        """The node of both."""
        body = LoopBody(self.graph.producers.get)
        made: dict[Value, Value] = {}

        for node in (self.first, *self.between, self.second):
            outside = body.read if node.op is fused_op else body.cheap
            operands = [made[v] if v in made else outside(v) for v in node.inputs]
            results = body.copied(node, operands)
            made.update(zip(node.outputs, results, strict=True))
        outputs = (*self._given, *self.second.outputs)
        region = Graph(
            "body", [*body.inputs.values()], body.nodes, [made[value] for value in outputs]
        )
        where = self.second.provenance.where
        provenance = Provenance(where, join_loops.__name__)
        return Node(fused_op, tuple(body.inputs), {}, outputs, (region,), provenance)

    def replaced(self, made: Node) -> Graph:
        """The graph with the node of both, without what nobody reads any more."""
        gone = (self._inside - {self.second}) | {self.first}
        nodes = [made if n is self.second else n for n in self.graph.nodes if n not in gone]
        return self.graph.rebuilt(topological(nodes))


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
