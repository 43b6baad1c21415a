"""Dead code elimination: nodes, and results and operands of control flow, that no output needs go.

    %1 = exp(%0)
    %2 = log(%0)        ->      %1 = exp(%0)
    return %1                   return %1

A graph has no side effects once it is extracted (state is passed explicitly), so being read is the
only reason to stay. Inputs stay, since they are the graph's signature. What is needed is found for
the graph and the regions inside it at once, value by value: a result of ``cond`` needs that result
of both branches and the predicate; a result of ``while`` needs the condition, its start and its
successor. A carried value that only feeds itself is so never reached, however deep it is nested.
What may fail and must run stays, since a ``demand`` reads it. Control flow with guards or a
``demand`` stays, with one of its results: these hold when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.control import demand_op
from passes.control_flow.regions import captures, carried_count, is_loop, operands, with_signature
from passes.infra.base import PassContext, has_open_regions, open_nodes


def dce(graph: Graph, context: PassContext) -> Graph:
    """The graph without what nothing needs; linear in all nodes, those of regions included.

    Dropping results or captures of control flow is a decision; dropping nodes is none.
    """
    if not graph.has_regions:
        return _reaching(graph)
    nodes = [*open_nodes(graph)]
    owners = [node for node in nodes if has_open_regions(node)]
    live = _Live(graph, owners)
    live.need(graph.outputs)
    live.need(node.output for node in nodes if node.op is demand_op)
    for node in owners:
        if _may_refuse(node) and live.values.isdisjoint(node.outputs):
            live.need(node.outputs[:1])
    decided: set[Node] = set()
    refused = True
    while refused:
        # without fuel a node keeps all its parts, for which others may have to come back
        refused = False
        for node in owners:
            if node in decided or not live.has_dead_parts(node):
                continue
            decided.add(node)
            if not context.decide("dce", node):
                live.need_all(node)
                refused = True
    return _rebuilt(graph, live.values)


def _reaching(graph: Graph) -> Graph:
    """A graph without regions: one walk against the order of the nodes finds what is needed."""
    found = {*graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.op is demand_op or not found.isdisjoint(node.outputs):
            kept.append(node)
            found.update(node.inputs)
    kept.reverse()
    return graph.rebuilt(kept)


class _Live:
    """Which values of a graph and its regions are needed; grows only.

    Attributes:
        values: those found so far.
    """

    def __init__(self, graph: Graph, owners: Iterable[Node]) -> None:
        self.values: set[Value] = set()
        self._producer: dict[Value, Node] = dict(graph.producers)
        self._place: dict[Value, int] = {}
        self._owners: dict[Value, list[tuple[Node, int]]] = {}
        for node in owners:
            self._place.update((value, place) for place, value in enumerate(node.outputs))
            for region in node.regions:
                self._producer.update(region.producers)
                for position, value in enumerate(region.inputs):
                    self._owners.setdefault(value, []).append((node, position))

    def need(self, values: Iterable[Value]) -> None:
        """The values are needed, and so is all that they are made from."""
        found, producer, owners = self.values, self._producer, self._owners
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in found:
                continue
            found.add(value)
            node = producer.get(value)
            if node is not None:
                stack.extend(self._sources(node, value) if node.regions else node.inputs)
            if not owners:
                continue
            for owner, position in owners.get(value, ()):
                if position < carried_count(owner):
                    stack.append(owner.outputs[position])
                else:
                    stack.append(operands(owner)[position])

    def _sources(self, node: Node, value: Value) -> Iterable[Value]:
        """What a result is made from; captures come in by way of the regions' inputs."""
        if not has_open_regions(node):
            return node.inputs
        place = self._place[value]
        if not is_loop(node):
            return (node.inputs[0], *(region.outputs[place] for region in node.regions))
        condition, body = node.regions
        return (node.inputs[place], condition.outputs[0], body.outputs[place])

    def need_all(self, node: Node) -> None:
        """All results and operands of a node of control flow stay, if the node does."""
        if any(value in self.values for value in node.outputs):
            self.need(node.outputs)
            self.need(value for region in node.regions for value in region.inputs)

    def has_dead_parts(self, node: Node) -> bool:
        """True if the node stays, but not all of its results and operands."""
        alive = [value in self.values for value in node.outputs]
        return any(alive) and not (
            all(alive) and all(_used(node, place, self.values) for place in captures(node))
        )


def _may_refuse(node: Node) -> bool:
    """Whether it must run to find out if sizes and indices fit, whoever reads what it gives."""
    pending = [*node.regions]
    while pending:
        region = pending.pop()
        if region.guards or any(node.op is demand_op for node in region.nodes):
            return True
        pending += [inner for node in region.nodes for inner in node.regions]
    return False


def _used(node: Node, place: int, live: set[Value]) -> bool:
    return any(region.inputs[place] in live for region in node.regions)


def _rebuilt(graph: Graph, live: set[Value]) -> Graph:
    """The graph of the live values; regions are nested at most MAXIMUM_NESTING deep."""
    kept: list[Node] = []
    for node in graph.nodes:
        if node.regions and has_open_regions(node):
            alive = [value in live for value in node.outputs]
            if any(alive):
                kept.append(_pruned(node, alive, live))
        elif not live.isdisjoint(node.outputs):
            kept.append(node)
    return graph.rebuilt(kept)


def _pruned(node: Node, alive: list[bool], live: set[Value]) -> Node:
    """The node of control flow with its live results and captures."""
    results = [place for place, is_live in enumerate(alive) if is_live]
    captured = [place for place in captures(node) if _used(node, place, live)]
    if len(results) < len(node.outputs) or len(captured) < len(captures(node)):
        node = with_signature(node, results, captured)
    return node.with_regions([_rebuilt(region, live) for region in node.regions])
