"""What passes over control flow share: the signature of ``cond`` and ``while`` and how it changes.

Invariant: regions of one node take the same inputs in the same order, carried values first, and a
region's own values are its inputs and what its nodes make. ``cond`` has its predicate before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value


def carried_count(node: Node) -> int:
    """How many of the regions' inputs are carried from trip to trip; none for ``cond``."""
    count: int = node.attrs.get("carried", 0)
    return count


def is_loop(node: Node) -> bool:
    """True for ``while``, which carries at least one value, and false for ``cond``."""
    return "carried" in node.attrs


def operands(node: Node) -> tuple[Value, ...]:
    """The operands that the regions take as inputs, in their order."""
    return node.inputs[len(node.inputs) - len(node.regions[0].inputs) :]


def captures(node: Node) -> range:
    """Places of captured values among the regions' inputs."""
    return range(carried_count(node), len(node.regions[0].inputs))


def captured_values(node: Node, region: Graph) -> dict[Value, Value]:
    """For each value that one of the node's regions captures, what it is outside."""
    first = carried_count(node)
    return dict(zip(region.inputs[first:], operands(node)[first:], strict=True))


def with_captured(
    node: Node, regions: Sequence[Graph], captured: Sequence[tuple[int, Value, Value]]
) -> Node:
    """The node with values of its regions captured from outside instead of made.

    Args:
        node: a ``cond`` or ``while``.
        regions: its regions, without the nodes that made the values.
        captured: for each value the number of its region, the value, and what it equals outside.
            Inside it keeps its identity, as an input; other regions get one that they don't read.
    """
    changed = []
    for number, region in enumerate(regions):
        new = [v if home == number else Value(v.type, v.name) for home, v, _ in captured]
        changed.append(region.with_parts(inputs=(*region.inputs, *new)))
    inputs = (*node.inputs, *(outer for _, _, outer in captured))
    return replace(node, inputs=inputs, regions=tuple(changed))


def with_signature(node: Node, results: Sequence[int], captured: Sequence[int]) -> Node:
    """The node with some of its results and captures; the others are read by nothing that stays.

    Args:
        node: a ``cond`` or ``while``.
        results: places of the outputs that stay, and of the carried values of a loop.
        captured: places among the regions' inputs of the captures that stay.
    """
    loop = is_loop(node)
    places = [*results, *captured] if loop else list(captured)
    regions = []
    for number, region in enumerate(node.regions):
        inputs = [region.inputs[place] for place in places]
        # the condition of a loop gives its own result, not the node's
        keeps = loop and number == 0
        outputs = region.outputs if keeps else [region.outputs[place] for place in results]
        regions.append(region.with_parts(inputs=inputs, outputs=outputs))
    given = operands(node)
    before = node.inputs[: len(node.inputs) - len(given)]
    return replace(
        node,
        inputs=(*before, *(given[place] for place in places)),
        attrs={**node.attrs, "carried": len(results)} if loop else node.attrs,
        outputs=tuple(node.outputs[place] for place in results),
        regions=tuple(regions),
    )
