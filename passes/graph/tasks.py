"""A graph as tasks: what each node reads and makes in the arena, as plain numbers.

``schedule`` looks for orders of them, ``passes.recompute`` for tasks that are worth running twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.dims.expressions import at_hint
from graphc.ir.graph import Graph
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.move.placing import join_slices_op
from graphc.ops.source import constant_op


@dataclass(frozen=True, slots=True)
class Tasks:
    """A graph as numbers: nodes in the order given, and the storages that live in the arena.

    Inputs, constants and outputs of the graph take the same memory whatever the order is, so they
    are no storages. A reshape stands for the value it reshapes.

    * `size`: bytes of each storage; `readers`, `makers`: the nodes that read it, and that write
      to it: more than one where slices of it are made apart. It is there from the first of them on.
    * `reads`, `makes`: the storages of each node, each once.
    * `sources`, `users`: the nodes right before and after each node, each once.
    * `ends`: the nodes that make outputs.
    * `storage`: of each value the storage that it lies in, if it lies in one.
    """

    size: list[int]
    readers: list[list[int]]
    makers: list[list[int]]
    reads: list[list[int]]
    makes: list[list[int]]
    sources: list[list[int]]
    users: list[list[int]]
    ends: list[int]
    storage: dict[Value, int]

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
        sweep = Sweep(self)
        live = peak = 0
        for node in order:
            added = sweep.added(node)
            peak = max(peak, live + added)
            unread = sum(self.size[made] for made in self.makes[node] if not self.readers[made])
            live += added - sweep.freed(node) - unread
            sweep.step(node)
        return peak

    def reversed(self) -> Tasks:
        """The same run backwards: what was read is made, and what was made is read."""
        return Tasks(
            self.size, self.makers, self.readers, self.makes, self.reads, self.users,
            self.sources, self.ends, self.storage,
        )  # fmt: skip


class Sweep:
    """What is alive while nodes run one after the other."""

    def __init__(self, tasks: Tasks) -> None:
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


def tasks_of(graph: Graph) -> Tasks:
    """The tasks of a graph's nodes, in their order; symbolic sizes are those at the hints."""
    root: dict[Value, Value] = {}
    for node in reversed(graph.nodes):
        # what is joined may be joined again
        if node.op is join_slices_op:
            whole = root.get(node.outputs[0], node.outputs[0])
            root.update(dict.fromkeys(node.inputs, whole))
    for node in graph.nodes:
        if node.op.lowering.keeps_memory:
            root[node.outputs[0]] = root.get(node.inputs[0], node.inputs[0])
    free = {root.get(value, value) for value in graph.outputs}
    maker: dict[Value, int] = {}
    storage: dict[Value, int] = {}
    known: dict[TensorType, int] = {}  # products of dims are costly, and few types recur
    size: list[int] = []
    count = len(graph.nodes)
    makes: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    tasks = Tasks(size, [], [], [], makes, [], users, [], storage)
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
    storage.update({value: storage[kept] for value, kept in root.items() if kept in storage})
    return tasks
