"""Updates: whoever reads the old value of a variable runs before the new one is made.

    %g = fused(%x, %d)           %e = fused(%d, %w)
    %w2 = fused(%w, %g)    ->    %g = fused(%x, %d)
    %e = fused(%d, %w)           %w2 = fused(%w, %g)

Then the new value may lie where the old one does. Every order computes the same, so nothing depends
on it that this succeeds: where a reader needs the new value itself, both have to exist.
"""

from __future__ import annotations

import heapq

from graphc.ir.graph import Graph, Node
from graphc.ir.op import Reshape
from graphc.ir.value import Value
from passes.base import PassContext


def updates(graph: Graph, context: PassContext) -> Graph:
    """The graph with updates of variables behind the readers of their old values.

    The order stays otherwise, as far as it can. Linear up to a logarithm.
    """
    before = _readers_before_updates(graph, context)
    if not before:
        return graph
    place = {value: n for n, node in enumerate(graph.nodes) for value in node.outputs}
    count = len(graph.nodes)
    waiting = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]

    def wait(later: int, earlier: int) -> None:
        waiting[later] += 1
        followers[earlier].append(later)

    for later, node in enumerate(graph.nodes):
        for earlier in {place[value] for value in node.inputs if value in place}:
            wait(later, earlier)
    for earlier, later in before:
        wait(later, earlier)
    ready = [n for n in range(count) if not waiting[n]]
    done = [False] * count
    order: list[Node] = []
    first = 0
    while len(order) < count:
        if ready:
            node_number = heapq.heappop(ready)
        else:
            # a circle: the first node that is left needs no value but those that exist
            while done[first]:
                first += 1
            node_number = first
        if done[node_number]:
            continue
        done[node_number] = True
        order.append(graph.nodes[node_number])
        for follower in followers[node_number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    if all(a is b for a, b in zip(order, graph.nodes, strict=True)):
        return graph
    return Graph(graph.name, graph.inputs, order, graph.outputs)


def _readers_before_updates(graph: Graph, context: PassContext) -> list[tuple[int, int]]:
    """Pairs of nodes: the first reads a variable of which the second makes the new value."""
    reshaped: dict[Value, Value] = {}
    for node in graph.nodes:
        if isinstance(node.op.lowering, Reshape):
            reshaped[node.output] = reshaped.get(node.inputs[0], node.inputs[0])
    place = {value: n for n, node in enumerate(graph.nodes) for value in node.outputs}
    update_of: dict[Value, int] = {}
    for old, new in context.renewed:
        value = graph.outputs[new]
        maker = place.get(reshaped.get(value, value))
        if old is not None and maker is not None:
            update_of[graph.inputs[old]] = maker
    pairs: dict[tuple[int, int], None] = {}
    for reader, node in enumerate(graph.nodes):
        for value in node.inputs:
            update = update_of.get(reshaped.get(value, value))
            if update is not None and update != reader:
                pairs[reader, update] = None
    return list(pairs)
