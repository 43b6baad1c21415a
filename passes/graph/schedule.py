"""Schedule: the order of a fused graph's nodes that keeps the fewest bytes alive.

Some orders are tried and the one of least peak is kept: the order given, depth first from the
outputs, and greedily from either end the node that grows live memory least. All are linear up to a
logarithm, and any topological order computes the same bits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.ir.dims.expressions import at_hint
from graphc.ir.graph import Graph, Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.move.placing import join_slices_op
from graphc.ops.source import constant_op
from passes.infra.base import PassContext


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
        sweep = _Sweep(self)
        live = peak = 0
        for node in order:
            added = sweep.added(node)
            peak = max(peak, live + added)
            unread = sum(self.size[made] for made in self.makes[node] if not self.readers[made])
            live += added - sweep.freed(node) - unread
            sweep.step(node)
        return peak

    def reversed(self) -> _Tasks:
        """The same run backwards: what was read is made, and what was made is read."""
        return _Tasks(
            self.size, self.makers, self.readers, self.makes, self.reads, self.users,
            self.sources, self.ends,
        )  # fmt: skip


class _Sweep:
    """What is alive while nodes run one after the other."""

    def __init__(self, tasks: _Tasks) -> None:
        self._tasks = tasks
        self._left = list(map(len, tasks.readers))
        self._begun = [False] * len(tasks.size)

    def added(self, node: int) -> int:
        """Bytes that are there from this node on."""
        size, begun = self._tasks.size, self._begun
        return sum(size[made] for made in self._tasks.makes[node] if not begun[made])

    def freed(self, node: int) -> int:
        """Bytes that are needed by this node for the last time."""
        size, left = self._tasks.size, self._left
        return sum(size[read] for read in self._tasks.reads[node] if left[read] == 1)

    def growth(self, node: int) -> int:
        """How many bytes more are alive after the node."""
        return self.added(node) - self.freed(node)

    def step(self, node: int) -> list[int]:
        """Runs a node; gives those whose growth has become less by it."""
        tasks = self._tasks
        cheaper: list[int] = []
        for made in tasks.makes[node]:
            if not self._begun[made]:
                self._begun[made] = True
                cheaper += tasks.makers[made]
        for read in tasks.reads[node]:
            self._left[read] -= 1
            if self._left[read] == 1:
                cheaper += tasks.readers[read]
        return cheaper


def _tasks(graph: Graph) -> _Tasks:
    root: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.lowering.keeps_memory:
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
            reshaped = node.op.lowering.keeps_memory
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
    return graph.with_parts(nodes=[graph.nodes[n] for n in best])


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


def _greedy(tasks: _Tasks, latest_first: bool = False) -> list[int]:
    """Always the ready node that adds least memory, freed operands counted."""
    sweep = _Sweep(tasks)
    queue = _Queue(tasks.sources, sweep.growth, latest_first)
    order: list[int] = []
    while (node := queue.pop()) is not None:
        order.append(node)
        queue.cheaper(sweep.step(node))
        queue.release(tasks.users[node])
    return order


def _greedy_backwards(tasks: _Tasks) -> list[int]:
    """The same from the end: always the node before which least memory is alive."""
    return _greedy(tasks.reversed(), latest_first=True)[::-1]


class _Queue:
    """Nodes that are ready, cheapest first; a cost may only fall while a node waits."""

    def __init__(
        self,
        before: Sequence[Sequence[int]],
        cost: Callable[[int], int],
        latest_first: bool,
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
