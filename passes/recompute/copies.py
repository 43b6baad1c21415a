"""Writes a sequence of steps with repetitions as a graph.

A repeated kernel is a further node with the same body, so it is the same code. Of a kernel that is
repeated each node makes only what is read of it.
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
) -> Graph:
    """The graph in which these nodes run in this sequence; a step that isn't its stage is a
    repetition."""
    made: list[Node] = []
    copies = _Copies(graph, made)
    for step, stage in zip(sequence, stages, strict=True):
        if step == stage:
            made.append(nodes[step].with_inputs([copies.now(v) for v in nodes[step].inputs]))
        else:
            copies.repeat(nodes[step])
    repeated = {id(nodes[s].regions) for s, t in zip(sequence, stages, strict=True) if s != t}
    return graph.with_parts(nodes=_without_unread(graph, made, repeated))


class _Copies:
    """Which copy of each value is the last that was made."""

    def __init__(self, graph: Graph, made: list[Node]) -> None:
        self._made = made
        self._views = {n.output: n for n in graph.nodes if n.op.lowering.keeps_memory}
        self._copied: dict[tuple[Value, Value], Value] = {}
        self._current: dict[Value, Value] = {}
        self._kept = set(graph.outputs)

    def repeat(self, node: Node) -> None:
        """Runs a node again; what lies outside of the arena is not renewed."""
        inputs = tuple([self.now(value) for value in node.inputs])
        outputs = tuple([Value(value.type, value.name) for value in node.outputs])
        provenance = node.provenance.by(CAUSE)
        self._made.append(replace(node, inputs=inputs, outputs=outputs, provenance=provenance))
        self._current.update(
            (old, new)
            for old, new in zip(node.outputs, outputs, strict=True)
            if old not in self._kept
        )

    def now(self, value: Value) -> Value:
        """What stands for the value now; views of a copy are made where they are read."""
        chain: list[Node] = []
        while value in self._views and value not in self._kept:
            chain.append(self._views[value])
            (value,) = chain[-1].inputs
        base = self._current.get(value, value)
        for view in reversed(chain):
            if base is value:
                base = value = view.output
                continue
            value = view.output
            if (value, base) not in self._copied:
                copy = Value(value.type, value.name)
                self._copied[value, base] = copy
                provenance = view.provenance.by(CAUSE)
                self._made.append(
                    replace(view, inputs=(base,), outputs=(copy,), provenance=provenance)
                )
            base = self._copied[value, base]
        return base


def _without_unread(graph: Graph, nodes: Sequence[Node], repeated: set[int]) -> list[Node]:
    """The nodes, those of repeated kernels without results that nobody reads.

    Where only repetitions are read, that is the first run.
    """
    read = set(graph.outputs)
    kept: list[Node] = []
    bodies: dict[tuple[int, tuple[int, ...]], tuple[Graph, list[int]]] = {}
    for node in reversed(nodes):
        if node.op is fused_op and id(node.regions) in repeated:
            wanted = tuple([n for n, value in enumerate(node.outputs) if value in read])
            if not wanted:
                continue
            if len(wanted) < len(node.outputs):
                (region,) = node.regions
                key = id(region), wanted
                if key not in bodies:
                    bodies[key] = _part(region, wanted)
                body, operands = bodies[key]
                node = replace(
                    node,
                    inputs=tuple([node.inputs[n] for n in operands]),
                    outputs=tuple([node.outputs[n] for n in wanted]),
                    regions=(body,),
                )
        read.update(node.inputs)
        kept.append(node)
    return kept[::-1]


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
