"""Schedule: the order of a fused graph's nodes that keeps the fewest bytes alive.

Three orders are tried and the one of least peak is kept: the order given, depth first from the
outputs, and greedily the ready node that grows live memory least. All three are linear up to a
logarithm, and any topological order computes the same bits.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Reshape
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from passes.base import PassContext
from passes.sizes import hint_bytes


class _Memory:
    """Which values share storage, how big it is and how often it is read."""

    def __init__(self, graph: Graph) -> None:
        self.root: dict[Value, Value] = {}
        self.bytes: dict[Value, int] = {}
        self.reads: dict[Value, int] = {}
        sizes: dict[TensorType, int] = {}  # products of dims are costly, and few types recur
        for node in graph.nodes:
            for value in node.outputs:
                if isinstance(node.op.lowering, Reshape):
                    self.root[value] = self.root.get(node.inputs[0], node.inputs[0])
                elif node.op.name != "constant":
                    size = sizes.get(value.type)
                    if size is None:
                        size = sizes[value.type] = hint_bytes(value.type.bytes)
                    self.bytes[value] = size
        for node in graph.nodes:
            for root in self.roots(node):
                self.reads[root] = self.reads.get(root, 0) + 1
        for value in graph.outputs:
            root = self.root.get(value, value)
            self.reads[root] = self.reads.get(root, 0) + 1

    def roots(self, node: Node) -> list[Value]:
        """The storages a node reads, each once."""
        return list(dict.fromkeys(self.root.get(value, value) for value in node.inputs))

    def made(self, node: Node) -> int:
        """Bytes that a node adds."""
        return sum(self.bytes.get(value, 0) for value in node.outputs)


def peak_bytes(graph: Graph, nodes: Sequence[Node]) -> int:
    """The most bytes alive at once in this order."""
    memory = _Memory(graph)
    left = dict(memory.reads)
    live = peak = 0
    for node in nodes:
        live += memory.made(node)
        peak = max(peak, live)
        for root in memory.roots(node):
            left[root] -= 1
            if left[root] == 0:
                live -= memory.bytes.get(root, 0)
    return peak


def schedule(graph: Graph, context: PassContext) -> Graph:
    """The graph in its best order; the identical one if that is the order it has."""
    orders = [list(graph.nodes), _depth_first(graph), _greedy(graph)]
    peaks = [peak_bytes(graph, order) for order in orders]
    best = orders[peaks.index(min(peaks))]
    if best is orders[0]:
        return graph
    return Graph(graph.name, graph.inputs, best, graph.outputs)


def _depth_first(graph: Graph) -> list[Node]:
    """Producers just before the consumer that needs them, from the outputs back."""
    by_key = {node.outputs[0]: node for node in graph.nodes}
    producer = {value: node.outputs[0] for node in graph.nodes for value in node.outputs}
    roots = [graph.producers[value] for value in graph.outputs if value in graph.producers]
    return topological([*roots, *graph.nodes], by_key, producer)


def _greedy(graph: Graph) -> list[Node]:
    """Always the ready node that adds least memory, freed operands counted."""
    memory = _Memory(graph)
    left = dict(memory.reads)
    waiting = {
        node.outputs[0]: len({v for v in node.inputs if v in graph.producers})
        for node in graph.nodes
    }
    users = graph.users()
    readers: dict[Value, list[Node]] = {}
    position = {node.outputs[0]: n for n, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        for root in memory.roots(node):
            readers.setdefault(root, []).append(node)

    def growth(node: Node) -> int:
        freed = sum(memory.bytes.get(r, 0) for r in memory.roots(node) if left[r] == 1)
        return memory.made(node) - freed

    heap: list[tuple[int, int]] = []
    for node in graph.nodes:
        if waiting[node.outputs[0]] == 0:
            heapq.heappush(heap, (growth(node), position[node.outputs[0]]))
    done: set[int] = set()
    order: list[Node] = []
    while heap:
        _, place = heapq.heappop(heap)
        if place in done:
            continue
        done.add(place)
        node = graph.nodes[place]
        order.append(node)
        for root in memory.roots(node):
            left[root] -= 1
            if left[root] == 1:  # its last reader has become cheaper
                for reader in readers[root]:
                    at = position[reader.outputs[0]]
                    if at not in done and waiting[reader.outputs[0]] == 0:
                        heapq.heappush(heap, (growth(reader), at))
        for value in node.outputs:
            for user in users.get(value, ()):
                key = user.outputs[0]
                waiting[key] -= 1
                if waiting[key] == 0:
                    heapq.heappush(heap, (growth(user), position[key]))
    return order
