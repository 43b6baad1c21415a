"""Order of updates: readers of an old value run before the new one is made in its place.

    %g = fused(%x, %d)           %e = fused(%d, %w)
    %w2 = fused(%w, %g)    ->    %g = fused(%x, %d)
    %e = fused(%d, %w)           %w2 = fused(%w, %g)

Old values are those of variables, those that a loop carries, seen from its body, and what a scatter
adds to. Where variables are written, whatever may fail or jumps comes first too, since nothing may
do so once one is. Then the new value may lie where the old one does. Every order computes the same,
so nothing depends on it that this succeeds: where a reader needs the new value itself, both have to
exist. A scatter that makes such a value has its indices checked before anything is written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from graphc.base.tuning.fusion import MEMORY
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.control import while_op
from graphc.ops.fused import AHEAD, checks_ahead, fused_op
from passes.infra.base import PassContext, has_open_regions

_GATE = -1
"""Stands between what may fail and the updates, each of which waits for all of that."""

_Renewed = Iterable[tuple[Value | None, Value]]
"""Old values, None where nothing reads one, and new ones."""


def order_variable_updates(graph: Graph, context: PassContext) -> Graph:
    """The graph with updates behind the readers of old values, in all its regions.

    The order stays otherwise, as far as it can. Linear up to a logarithm.
    """
    renewed = [
        (None if old is None else graph.inputs[old], graph.outputs[new])
        for old, new in context.renewed
    ]
    return _ordered(_checked_ahead(_in_regions(graph), renewed), renewed, of_variables=True)


def _in_regions(graph: Graph) -> Graph:
    """The graph with its regions in order; they are nested at most MAXIMUM_NESTING deep."""
    if not graph.has_regions:
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        if not has_open_regions(node):
            nodes.append(node)
            continue
        regions = []
        for number, region in enumerate(node.regions):
            is_body = node.op is while_op and number == 1
            count = node.attrs["carried"] if is_body else 0
            pairs = zip(region.inputs[:count], region.outputs[:count], strict=True)
            regions.append(_ordered(_in_regions(region), [*pairs], of_variables=False))
        nodes.append(node.with_regions(regions))
    return graph.rebuilt(nodes)


def _checked_ahead(graph: Graph, renewed: _Renewed) -> Graph:
    """The graph in which scatters that give variables new values have their indices checked before
    anything is written, if the variables are large."""
    reshaped: dict[Value, Value] | None = None
    marked: dict[Node, Node] = {}
    for _, new in renewed:
        size = new.type.bytes
        if isinstance(size, int) and size < MEMORY.renewal_bytes:
            continue
        reshaped = _reshaped(graph) if reshaped is None else reshaped
        node = graph.producers.get(reshaped.get(new, new))
        while node is not None and (base := _base(node)) is not None:
            if not checks_ahead(node) and node.may_fail_within:
                made = node.inputs, AHEAD, node.outputs, node.regions, node.provenance
                marked[node] = Node(node.op, *made)
            node = graph.producers.get(reshaped.get(base, base))
    return graph.rebuilt([marked.get(node, node) for node in graph.nodes]) if marked else graph


def _ordered(graph: Graph, renewed: _Renewed, of_variables: bool) -> Graph:
    """One level of a graph; updates of variables come behind what may fail, too."""
    reshaped = _reshaped(graph)
    place = {value: n for n, node in enumerate(graph.nodes) for value in node.outputs}
    maker_of = _makers(graph, renewed, reshaped, place)
    scatters = _scatters(graph, reshaped)
    if not maker_of and not scatters:
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
    for earlier, later in _readers_before(graph, maker_of, scatters, reshaped):
        wait(later, earlier)
    updating = set(maker_of.values()) if of_variables else set()
    if updating:
        ahead = [node for node in graph.nodes if node.op is fused_op and checks_ahead(node)]
        checked = {place[value] for node in ahead for value in node.inputs if value in place}
        for earlier, node in enumerate(graph.nodes):
            if earlier not in updating and (_may_interrupt(node) or earlier in checked):
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
    return graph.with_parts(nodes=order)


def _reshaped(graph: Graph) -> dict[Value, Value]:
    """What lies in the same memory as another value, and that value."""
    reshaped: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.lowering.keeps_memory:
            reshaped[node.output] = reshaped.get(node.inputs[0], node.inputs[0])
    return reshaped


def _makers(
    graph: Graph, renewed: _Renewed, reshaped: dict[Value, Value], place: dict[Value, int]
) -> dict[Value, int]:
    """The node that makes a new value, by the old one, or by itself where nothing reads that."""
    maker_of: dict[Value, int] = {}
    for old, new in renewed:
        maker = place.get(reshaped.get(new, new))
        if maker is not None:
            maker_of[new if old is None else old] = maker
    return maker_of


def _scatters(graph: Graph, reshaped: dict[Value, Value]) -> dict[Value, int]:
    """For each value that scatters add to the last of them."""
    found: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        base = _base(node)
        if base is not None:
            found[reshaped.get(base, base)] = number
    return found


def _base(node: Node) -> Value | None:
    """What a scatter adds to; None for other nodes."""
    if node.op is fused_op:
        (region,) = node.regions
        for inner in region.nodes:
            updated = inner.op.lowering.updates
            if updated is not None:
                return node.inputs[region.inputs.index(inner.inputs[updated])]
    return None


def _readers_before(
    graph: Graph,
    maker_of: dict[Value, int],
    scatters: dict[Value, int],
    reshaped: dict[Value, Value],
) -> list[tuple[int, int]]:
    """Pairs of nodes: the first reads a value that the second may write over."""
    pairs: dict[tuple[int, int], None] = {}
    for reader, node in enumerate(graph.nodes):
        for value in node.inputs:
            source = reshaped.get(value, value)
            for later in {maker_of.get(source, reader), scatters.get(source, reader)}:
                if later != reader:
                    pairs[reader, later] = None
    return list(pairs)


def _may_interrupt(node: Node) -> bool:
    """Whether a run may end at this node, or steps be left out or repeated."""
    if node.op is not fused_op:
        return node.may_fail or bool(node.regions) or node.op.calls_host
    return not checks_ahead(node) and any(
        inner.may_fail for inner in node.regions[0].nodes
    )
