"""Schedule: the order of a fused graph's nodes that keeps the fewest bytes alive.

Some orders are tried and the one of least peak is kept: the order given, depth first from the
outputs, and greedily from either end the node that grows live memory least. All are linear up to a
logarithm, and any topological order computes the same bits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from graphc.ir.graph import Graph, Node
from passes.graph.tasks import Sweep, Tasks, tasks_of
from passes.infra.base import PassContext


def peak_bytes(graph: Graph, nodes: Sequence[Node]) -> int:
    """The most bytes of temporaries alive at once when a graph's nodes run in this order."""
    place = {node.outputs[0]: number for number, node in enumerate(graph.nodes)}
    return tasks_of(graph).peak([place[node.outputs[0]] for node in nodes])


def schedule(graph: Graph, context: PassContext) -> Graph:
    """The graph in its best order; the identical one if that is the order it has."""
    tasks = tasks_of(graph)
    best: Sequence[int] = range(len(graph.nodes))
    given = peak = tasks.peak(best)
    least = tasks.least()
    makers: tuple[Callable[[Tasks], list[int]], ...] = (_depth_first, _greedy, _greedy_backwards)
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


def _depth_first(tasks: Tasks) -> list[int]:
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


def _greedy(tasks: Tasks, latest_first: bool = False) -> list[int]:
    """Always the ready node that adds least memory, freed operands counted."""
    sweep = Sweep(tasks)
    queue = _Queue(tasks.sources, sweep.growth, latest_first)
    order: list[int] = []
    while (node := queue.pop()) is not None:
        order.append(node)
        queue.cheaper(sweep.step(node))
        queue.release(tasks.users[node])
    return order


def _greedy_backwards(tasks: Tasks) -> list[int]:
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
