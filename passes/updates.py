"""Updates: whoever reads the old value of a variable runs before the new one is made.

    %g = fused(%x, %d)           %e = fused(%d, %w)
    %w2 = fused(%w, %g)    ->    %g = fused(%x, %d)
    %e = fused(%d, %w)           %w2 = fused(%w, %g)

So does whatever may fail or jumps, since nothing may do so once a variable is written. Then the new
value may lie where the old one does. Every order computes the same, so nothing depends on it that
this succeeds: where a reader needs the new value itself, both have to exist.
"""

from __future__ import annotations

import heapq

from graphc.ir.graph import Graph, Node
from graphc.ir.op import Reshape
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from passes.base import PassContext

_GATE = -1
"""Stands between what may fail and the updates, each of which waits for all of that."""


def updates(graph: Graph, context: PassContext) -> Graph:
    """The graph with updates of variables behind the readers of their old values.

    The order stays otherwise, as far as it can. Linear up to a logarithm.
    """
    reshaped = _reshaped(graph)
    place = {value: n for n, node in enumerate(graph.nodes) for value in node.outputs}
    update_of = _updates(graph, context, reshaped, place)
    if not update_of:
        return graph
    count = len(graph.nodes)
    waiting = [0] * (count + 1)
    followers: list[list[int]] = [[] for _ in range(count + 1)]

    def wait(later: int, earlier: int) -> None:
        waiting[later] += 1
        followers[earlier].append(later)

    for later, node in enumerate(graph.nodes):
        for earlier in {place[value] for value in node.inputs if value in place}:
            wait(later, earlier)
    for earlier, later in _readers_before_updates(graph, update_of, reshaped):
        wait(later, earlier)
    updating = set(update_of.values())
    for earlier, node in enumerate(graph.nodes):
        if earlier not in updating and _may_fail(node):
            wait(_GATE, earlier)
    for later in updating:
        wait(later, _GATE)
    ready = [n for n in range(_GATE, count) if not waiting[n]]
    done = [False] * (count + 1)
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
        if node_number != _GATE:
            order.append(graph.nodes[node_number])
        for follower in followers[node_number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    if all(a is b for a, b in zip(order, graph.nodes, strict=True)):
        return graph
    return Graph(graph.name, graph.inputs, order, graph.outputs)


def _reshaped(graph: Graph) -> dict[Value, Value]:
    """What lies in the same memory as another value, and that value."""
    reshaped: dict[Value, Value] = {}
    for node in graph.nodes:
        if isinstance(node.op.lowering, Reshape):
            reshaped[node.output] = reshaped.get(node.inputs[0], node.inputs[0])
    return reshaped


def _updates(
    graph: Graph, context: PassContext, reshaped: dict[Value, Value], place: dict[Value, int]
) -> dict[Value, int]:
    """The node that makes the new value of a variable, by its old one, or by the new one where
    nothing reads the old one."""
    update_of: dict[Value, int] = {}
    for old, new in context.renewed:
        value = graph.outputs[new]
        maker = place.get(reshaped.get(value, value))
        if maker is not None:
            update_of[value if old is None else graph.inputs[old]] = maker
    return update_of


def _readers_before_updates(
    graph: Graph, update_of: dict[Value, int], reshaped: dict[Value, Value]
) -> list[tuple[int, int]]:
    """Pairs of nodes: the first reads a variable of which the second makes the new value."""
    old_values = update_of.keys() & set(graph.inputs)
    pairs: dict[tuple[int, int], None] = {}
    for reader, node in enumerate(graph.nodes):
        for value in node.inputs:
            source = reshaped.get(value, value)
            if source in old_values and update_of[source] != reader:
                pairs[reader, update_of[source]] = None
    return list(pairs)


def _may_fail(node: Node) -> bool:
    """Whether a run may end at this node, or steps be left out or repeated."""
    if node.op is not fused_op:
        return node.op.checks_indices or bool(node.regions)
    return any(inner.op.checks_indices for inner in node.regions[0].nodes)
