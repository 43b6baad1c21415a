"""Common subexpressions: what is computed twice is computed once.

    %1 = exp(%0)                        %1 = exp(%0)
    %2 = exp(%0)              ->        %3 = add(%1, %1)
    %3 = add(%1, %2)

Two nodes are the same if op, operands, attributes and regions are. Attributes are compared by what
they mean (0.0 is not -0.0, True is not 1), regions by their structural hash. Operands of a
commutative op may be swapped. What touches state or is fed has an identity and is never merged.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from graphc.ir import attributes
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.source import placeholder_op
from passes.base import PassContext


def cse(graph: Graph, context: PassContext) -> Graph:
    """The graph without repetitions; one walk, the first of equal nodes stays."""
    first: dict[Hashable, Node] = {}
    stands_for: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if stands_for and any(value in stands_for for value in node.inputs):
            node = replace(node, inputs=tuple(stands_for.get(v, v) for v in node.inputs))
        if not _mergeable(node):
            nodes.append(node)
            continue
        same = first.setdefault(_key(node), node)
        if same is node or not _same_types(same, node) or not context.decide("cse", node):
            nodes.append(node)
            continue
        stands_for.update(zip(node.outputs, same.outputs, strict=True))
    if not stands_for:
        return graph
    outputs = [stands_for.get(value, value) for value in graph.outputs]
    return Graph(graph.name, graph.inputs, nodes, outputs)


def _key(node: Node) -> Hashable:
    operands = [id(value) for value in node.inputs]
    if node.op.algebra.commutative:
        operands.sort()
    attrs = attributes.keys(node.attrs) if node.attrs else ()
    regions = tuple(region.structural_hash for region in node.regions)
    return (node.op, tuple(operands), attrs, regions)


def _same_types(a: Node, b: Node) -> bool:
    """Swapped operands may spell the dims of the result differently."""
    return all(x.type == y.type for x, y in zip(a.outputs, b.outputs, strict=True))


def _mergeable(node: Node) -> bool:
    if node.op is placeholder_op or node.op.effect == "state":
        return False
    return all(
        inner.op.effect != "state" for region in node.regions for inner in region.walk()
    )
