"""Schedule: the order of a fused graph's nodes that keeps the fewest bytes alive.

Some orders are tried and the one of least peak is kept: the order given, depth first from the
outputs, and greedily from either end the node that grows live memory least. All are linear up to a
logarithm, and any topological order computes the same bits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.ir.dims import at_hint
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Reshape
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.placing import join_slices_op
from graphc.ops.source import constant_op
from passes.base import PassContext


@dataclass(frozen=True, slots=True)
class _Tasks:
    """A graph as numbers: nodes in the order given, and the storages that live in the arena.

    Inputs, constants and outputs of the graph take the same memory whatever the order is, so they
    are no storages. A reshape stands for the value it reshapes.

    * `size`: bytes of each storage; `readers`, `makers`: the nodes that read it, and that write
      to it: more than one where slices of it are made apart. It is there from the first of them on.
    * `reads`, `makes`: the storages of each node, each once.
    * `sources`, `users`: the nodes right before and after each node, each once.
    * `ends`: the nodes that make outputs.
    """

    size: list[int]
    readers: list[list[int]]
    makers: list[list[int]]
    reads: list[list[int]]
    makes: list[list[int]]
    sources: list[list[int]]
    users: list[list[int]]
    ends: list[int]

    def made(self, node: int) -> int:
        """Bytes that a node adds."""
        return sum(self.size[storage] for storage in self.makes[node])

    def least(self) -> int:
        """What no order is below: some node's operands and results."""
        return max(
            (
                self.made(node) + sum(self.size[storage] for storage in reads)
                for node, reads in enumerate(self.reads)
            ),
            default=0,
        )

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes alive at once in an order."""
        left = list(map(len, self.readers))
        begun = [False] * len(left)
        live = peak = 0
        for node in order:
            for storage in self.makes[node]:
                live += 0 if begun[storage] else self.size[storage]
                begun[storage] = True
            peak = max(peak, live)
            for storage in self.reads[node]:
                left[storage] -= 1
                if left[storage] == 0:
                    live -= self.size[storage]
            live -= sum(self.size[storage] for storage in self.makes[node] if not left[storage])
        return peak


def _tasks(graph: Graph) -> _Tasks:
    root: dict[Value, Value] = {}
    for node in graph.nodes:
        if isinstance(node.op.lowering, Reshape):
            root[node.outputs[0]] = root.get(node.inputs[0], node.inputs[0])
        elif node.op is join_slices_op:
            root.update(dict.fromkeys(node.inputs, node.outputs[0]))
    free = {root.get(value, value) for value in graph.outputs}
    maker: dict[Value, int] = {}
    storage: dict[Value, int] = {}
    known: dict[TensorType, int] = {}  # products of dims are costly, and few types recur
    size: list[int] = []
    count = len(graph.nodes)
    makes: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    tasks = _Tasks(size, [], [], [], makes, [], users, [])
    for place, node in enumerate(graph.nodes):
        reads = dict.fromkeys(root.get(value, value) for value in node.inputs)
        tasks.reads.append([storage[value] for value in reads if value in storage])
        for read in tasks.reads[-1]:
            tasks.readers[read].append(place)
        sources = dict.fromkeys(maker[value] for value in node.inputs if value in maker)
        tasks.sources.append(list(sources))
        for source in sources:
            tasks.users[source].append(place)
        for value in node.outputs:
            maker[value] = place
            kept = root.get(value, value)
            reshaped = isinstance(node.op.lowering, Reshape)
            if kept in free or reshaped or node.op in (constant_op, join_slices_op):
                continue
            if kept not in storage:
                storage[kept] = len(size)
                if value.type not in known:
                    known[value.type] = at_hint(value.type.bytes)
                size.append(known[value.type])
                tasks.readers.append([])
                tasks.makers.append([])
            if storage[kept] not in tasks.makes[place]:
                tasks.makes[place].append(storage[kept])
                tasks.makers[storage[kept]].append(place)
    tasks.ends.extend(dict.fromkeys(maker[value] for value in graph.outputs if value in maker))
    return tasks


def peak_bytes(graph: Graph, nodes: Sequence[Node]) -> int:
    """The most bytes of temporaries alive at once when a graph's nodes run in this order."""
    place = {node.outputs[0]: number for number, node in enumerate(graph.nodes)}
    return _tasks(graph).peak([place[node.outputs[0]] for node in nodes])


def schedule(graph: Graph, context: PassContext) -> Graph:
    """The graph in its best order; the identical one if that is the order it has."""
    tasks = _tasks(graph)
    best: Sequence[int] = range(len(graph.nodes))
    given = peak = tasks.peak(best)
    least = tasks.least()
    makers: tuple[Callable[[_Tasks], list[int]], ...] = (_depth_first, _greedy, _greedy_backwards)
    for make in makers:
        if peak == least:
            break
        order = make(tasks)
        reached = tasks.peak(order)
        if reached < peak:
            best, peak = order, reached
    if peak == given:
        return graph
    return Graph(graph.name, graph.inputs, [graph.nodes[n] for n in best], graph.outputs)


def _depth_first(tasks: _Tasks) -> list[int]:
    """Producers just before the consumer that needs them, from the outputs back.

    The operand that needs most beyond what is left of it comes first; for trees that is the best
    order (R. Sethi and J. D. Ullman, "The generation of optimal code for arithmetic expressions",
    1970, for one register a value).
    """
    need: list[int] = []
    ordered: list[list[int]] = []
    made = [tasks.made(node) for node in range(len(tasks.reads))]
    for node, sources in enumerate(tasks.sources):
        operands = sorted(sources, key=lambda other: (made[other] - need[other], other))
        held = most = 0
        for operand in operands:
            most = max(most, held + need[operand])
            held += made[operand]
        need.append(max(most, held + made[node]))
        ordered.append(operands)
    order: list[int] = []
    seen = [False] * len(need)
    for start in (*tasks.ends, *range(len(need))):
        stack = [] if seen[start] else [(start, 0)]
        seen[start] = True
        while stack:
            node, position = stack.pop()
            if position == len(ordered[node]):
                order.append(node)
                continue
            stack.append((node, position + 1))
            operand = ordered[node][position]
            if not seen[operand]:
                seen[operand] = True
                stack.append((operand, 0))
    return order


def _greedy(tasks: _Tasks) -> list[int]:
    """Always the ready node that adds least memory, freed operands counted."""
    left = list(map(len, tasks.readers))
    begun = [False] * len(left)
    size, reads, makes = tasks.size, tasks.reads, tasks.makes

    def growth(node: int) -> int:
        freed = sum(size[storage] for storage in reads[node] if left[storage] == 1)
        return sum(size[storage] for storage in makes[node] if not begun[storage]) - freed

    queue = _Queue(tasks.sources, growth)
    order: list[int] = []
    while (node := queue.pop()) is not None:
        order.append(node)
        for storage in makes[node]:
            if not begun[storage]:
                begun[storage] = True
                queue.cheaper(tasks.makers[storage])
        for storage in reads[node]:
            left[storage] -= 1
            if left[storage] == 1:  # its last reader has become cheaper
                queue.cheaper(tasks.readers[storage])
        queue.release(tasks.users[node])
    return order


def _greedy_backwards(tasks: _Tasks) -> list[int]:
    """The same from the end: always the node before which least memory is alive."""
    live = [False] * len(tasks.size)
    ahead = list(map(len, tasks.makers))
    size, reads, makes = tasks.size, tasks.reads, tasks.makes

    def growth(node: int) -> int:
        ended = sum(size[storage] for storage in makes[node] if ahead[storage] == 1)
        return sum(size[storage] for storage in reads[node] if not live[storage]) - ended

    queue = _Queue(tasks.users, growth, latest_first=True)
    order: list[int] = []
    while (node := queue.pop()) is not None:
        order.append(node)
        for storage in makes[node]:
            ahead[storage] -= 1
            if ahead[storage] == 1:  # before the first that writes to it, it is not there
                queue.cheaper(tasks.makers[storage])
        for storage in reads[node]:
            if not live[storage]:
                live[storage] = True
                queue.cheaper(tasks.readers[storage])
        queue.release(tasks.sources[node])
    order.reverse()
    return order


class _Queue:
    """Nodes that are ready, cheapest first; a cost may only fall while a node waits."""

    def __init__(
        self,
        before: Sequence[Sequence[int]],
        cost: Callable[[int], int],
        latest_first: bool = False,
    ) -> None:
        self._waiting = list(map(len, before))
        self._done = [False] * len(before)
        self._cost = cost
        self._sign = -1 if latest_first else 1
        self._heap: list[tuple[int, int]] = []
        for node, waiting in enumerate(self._waiting):
            if not waiting:
                self._push(node)

    def _push(self, node: int) -> None:
        heapq.heappush(self._heap, (self._cost(node), self._sign * node))

    def pop(self) -> int | None:
        """The cheapest node that is ready, or None at the end."""
        while self._heap:
            node = self._sign * heapq.heappop(self._heap)[1]
            if not self._done[node]:
                self._done[node] = True
                return node
        return None

    def cheaper(self, nodes: Sequence[int]) -> None:
        """Costs of these may have fallen."""
        for node in nodes:
            if not self._done[node] and not self._waiting[node]:
                self._push(node)

    def release(self, nodes: Sequence[int]) -> None:
        """One of the nodes that these waited for is done."""
        for node in nodes:
            self._waiting[node] -= 1
            if not self._waiting[node]:
                self._push(node)
