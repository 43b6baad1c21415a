"""Common subexpressions: what is computed twice is computed once.

    %1 = exp(%0)                        %1 = exp(%0)
    %2 = exp(%0)              ->        %3 = add(%1, %1)
    %3 = add(%1, %2)

Two nodes are the same if op, operands, attributes and regions are. Attributes are compared by what
they mean (0.0 is not -0.0, True is not 1), regions by their structural hash. Operands of a
commutative op may be swapped. What touches state or is fed has an identity and is never merged.
A region that computes what the graph around it computes too, from the same values, takes it from
there if it costs more than arithmetic: fused into a kernel, arithmetic is cheaper than memory.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable

from graphc.ir import attributes
from graphc.ir.edit import topological
from graphc.ir.equal import structure
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.source import placeholder_op
from passes.control_flow.regions import captured_values, with_captured
from passes.infra.base import PassContext, has_open_regions


def cse(graph: Graph, context: PassContext) -> Graph:
    """The graph without repetitions; linear, the first of equal nodes stays."""
    first: dict[Hashable, Node] = {}
    stands_for: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if stands_for and not stands_for.keys().isdisjoint(node.inputs):
            node = node.with_inputs([stands_for.get(v, v) for v in node.inputs])
        if (node.regions or not node.inputs) and not mergeable(node):
            nodes.append(node)
            continue
        same = first.setdefault(key_of(node), node)
        if same is node or not _same_types(same, node) or not context.decide("cse", node):
            nodes.append(node)
            continue
        stands_for.update(zip(node.outputs, same.outputs, strict=True))
    merged = nodes
    if graph.has_regions:
        merged = [
            _taking_from_outside(node, first, context) if has_open_regions(node) else node
            for node in nodes
        ]
    if merged is not nodes and any(map(operator.is_not, merged, nodes)):
        # what a region now reads may stand after it
        nodes = topological(merged)
    elif not stands_for:
        return graph
    outputs = [stands_for.get(value, value) for value in graph.outputs]
    return graph.with_parts(nodes=nodes, outputs=outputs)


def _taking_from_outside(node: Node, known: dict[Hashable, Node], context: PassContext) -> Node:
    """The node whose regions capture what is known outside.

    What is known reads only what the node captures, so it never waits for the node itself.
    """
    regions = list(node.regions)
    captured: list[tuple[int, Value, Value]] = []
    for number, region in enumerate(node.regions):
        outside = captured_values(node, region)
        kept: list[Node] = []
        for inner in region.nodes:
            same = None
            if all(value in outside for value in inner.inputs) and mergeable(inner):
                inputs = tuple(outside[value] for value in inner.inputs)
                same = known.get(key_of(inner, inputs))
            if same is None or not _same_types(same, inner):
                kept.append(inner)
                continue
            outside.update(zip(inner.outputs, same.outputs, strict=True))
            if not inner.op.is_heavy or not context.decide("cse", inner):
                kept.append(inner)
                continue
            pairs = zip(inner.outputs, same.outputs, strict=True)
            captured += [(number, value, outer) for value, outer in pairs]
        regions[number] = region.with_parts(nodes=kept)
    return with_captured(node, regions, captured) if captured else node


def key_of(node: Node, inputs: tuple[Value, ...] | None = None) -> Hashable:
    """Equal for equal nodes; over other operands than its own if given."""
    given = node.inputs if inputs is None else inputs
    is_bare = not node.attrs and not node.regions
    # most are these, for which lists and their sorting take as long as all else
    if is_bare and len(given) == 2:
        left, right = id(given[0]), id(given[1])
        if right < left and node.op.algebra.commutative:
            return node.op, right, left
        return node.op, left, right
    places = [*map(id, given)]
    if len(places) > 1 and node.op.algebra.commutative:
        places.sort()
    if is_bare:
        return node.op, *places
    regions = _Regions(node.regions) if node.regions else None
    return node.op, *places, attributes.keys(node.attrs), regions


class _Regions:
    """Regions as part of a key; read to the end only if another node is alike but for them."""

    __slots__ = ("_regions",)

    def __init__(self, regions: tuple[Graph, ...]) -> None:
        self._regions = regions

    def __hash__(self) -> int:
        return hash(tuple([len(region.nodes) for region in self._regions]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Regions) and all(
            a is b or structure(a) == structure(b)
            for a, b in zip(self._regions, other._regions, strict=True)
        )


def _same_types(a: Node, b: Node) -> bool:
    """Swapped operands may spell the dims of the result differently."""
    pairs = zip(a.outputs, b.outputs, strict=True)
    return all([x._type is y._type or x._type == y._type for x, y in pairs])


def mergeable(node: Node) -> bool:
    """Whether an equal node may stand for it: not for what has an effect or is fed."""
    if node.op is placeholder_op or node.op.effect == "state":
        return False
    return not node.regions or all(
        inner.op.effect != "state" for region in node.regions for inner in region.walk()
    )
