"""Writes a sequence of steps with repetitions as a graph.

A repeated kernel is a further node with the same body, so it is the same code. Of a kernel that is
repeated each node makes only what is read of it; a value itself is made by the first that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.fused import fused_op

CAUSE = "recompute"
"""What repeated nodes give as their cause."""


def rewritten(
    graph: Graph, nodes: Sequence[Node], sequence: Sequence[int], stages: Sequence[int]
) -> tuple[Graph, dict[Value, list[Value]]]:
    """The graph in which these nodes run in this sequence, and the copies of values; a step that
    isn't its stage is a repetition."""
    copies = _Copies(graph)
    for step, stage in zip(sequence, stages, strict=True):
        if step == stage:
            copies.run(nodes[step])
        else:
            copies.repeat(nodes[step])
    return graph.with_parts(nodes=copies.finished()), copies.copies


class _Copies:
    """The nodes so far, and which copy of each value is the last that was made.

    ``made`` has each node with the one that it runs again, or that itself.

    Attributes:
        copies: of each value, when all is finished.
    """

    def __init__(self, graph: Graph) -> None:
        self.copies: dict[Value, list[Value]] = {}
        self._made: list[tuple[Node, Node]] = []
        self._views = {n.output: n for n in graph.nodes if n.op.lowering.keeps_memory}
        self._copied: dict[tuple[Value, Value], Value] = {}
        self._current: dict[Value, Value] = {}
        self._outputs = set(graph.outputs)
        self._repeated: set[Node] = set()

    def run(self, node: Node) -> None:
        """Runs a node for the first time."""
        self._made.append((node.with_inputs(list(map(self._now, node.inputs))), node))

    def repeat(self, node: Node) -> None:
        """Runs a node again; what lies outside of the arena is not renewed."""
        copy = self._copy(node, list(map(self._now, node.inputs)))
        self._repeated.add(node)
        self._current.update(
            (old, new)
            for old, new in zip(node.outputs, copy.outputs, strict=True)
            if old not in self._outputs
        )

    def _copy(self, node: Node, inputs: Sequence[Value]) -> Node:
        outputs = tuple([Value(value.type, value.name) for value in node.outputs])
        provenance = node.provenance.by(CAUSE)
        copy = replace(node, inputs=tuple(inputs), outputs=outputs, provenance=provenance)
        self._made.append((copy, node))
        return copy

    def _now(self, value: Value) -> Value:
        """What stands for the value now; views of a copy are made where they are read."""
        chain: list[Node] = []
        while value in self._views and value not in self._outputs:
            chain.append(self._views[value])
            (value,) = chain[-1].inputs
        base = self._current.get(value, value)
        for view in reversed(chain):
            if base is view.inputs[0]:
                base = view.output
                continue
            key = view.output, base
            if key not in self._copied:
                self._copied[key] = self._copy(view, [base]).output
            base = self._copied[key]
        return base

    def finished(self) -> list[Node]:
        """The nodes; those of repeated kernels and views without results that nobody reads.

        Of several instances of a value the first that is left is the value itself, and of several
        runs of a node the first is the node.
        """
        parts = _Parts()
        there: set[Value] = set()
        begun: set[Node] = set()
        given: dict[Value, Value] = {}
        nodes: list[Node] = []
        for node, origin, wanted in self._read():
            part = parts.of(node, wanted)
            outputs = []
            for n, value in zip(wanted, part.outputs, strict=True):
                itself = origin.outputs[n]
                if itself in there and origin.op is fused_op:
                    self.copies.setdefault(itself, []).append(value)
                given[value] = value if itself in there else itself
                there.add(itself)
                outputs.append(given[value])
            nodes.append(
                replace(
                    part,
                    inputs=tuple([given.get(value, value) for value in part.inputs]),
                    outputs=tuple(outputs),
                    provenance=part.provenance if origin in begun else origin.provenance,
                )
            )
            begun.add(origin)
        return nodes

    def _read(self) -> list[tuple[Node, Node, tuple[int, ...]]]:
        """The nodes that are needed, what each runs again, and the numbers of its results that
        are."""
        read = set(self._outputs)
        kept: list[tuple[Node, Node, tuple[int, ...]]] = []
        for node, origin in reversed(self._made):
            wanted = tuple(range(len(node.outputs)))
            if origin in self._repeated or origin.op.lowering.keeps_memory:
                wanted = tuple([n for n in wanted if node.outputs[n] in read])
            if wanted:
                read.update(node.inputs)
                kept.append((node, origin, wanted))
        return kept[::-1]


class _Parts:
    """Kernels that make some of the results of others; equal ones share their bodies."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[int, tuple[int, ...]], tuple[Graph, list[int]]] = {}

    def of(self, node: Node, wanted: tuple[int, ...]) -> Node:
        """The node that makes these results alone."""
        if len(wanted) == len(node.outputs):
            return node
        (region,) = node.regions
        key = id(region), wanted
        if key not in self._bodies:
            self._bodies[key] = _part(region, wanted)
        body, operands = self._bodies[key]
        return replace(
            node,
            inputs=tuple([node.inputs[n] for n in operands]),
            outputs=tuple([node.outputs[n] for n in wanted]),
            regions=(body,),
        )


def _part(region: Graph, wanted: Sequence[int]) -> tuple[Graph, list[int]]:
    """The body that makes only these results, and the numbers of the operands that it reads."""
    needed = {region.outputs[n] for n in wanted}
    nodes: list[Node] = []
    for node in reversed(region.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    operands = [n for n, value in enumerate(region.inputs) if value in needed]
    new = {region.inputs[n]: Value(region.inputs[n].type, region.inputs[n].name) for n in operands}
    body: list[Node] = []
    for node in reversed(nodes):
        outputs = tuple([Value(value.type, value.name) for value in node.outputs])
        inputs = tuple([new[value] for value in node.inputs])
        body.append(replace(node, inputs=inputs, outputs=outputs))
        new.update(zip(node.outputs, outputs, strict=True))
    results = [new[region.outputs[n]] for n in wanted]
    return Graph(region.name, [new[region.inputs[n]] for n in operands], body, results), operands
