"""Residuals of a loop's body: what a trip computes that is kept for its derivative.

What the derivative of a trip reads of the trip itself is computed again, from the loop variables
before it, where that is cheap. To store a number and read it back takes as long as some ten
operations. So what deep matrix products give is kept, a row a trip, and where only pointwise work
reads a product, what that gives:

    z = x @ w + h @ u + b; y = tanh(z)        z is kept: the products are not computed twice
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graphc.base.tuning.fusion import MEMORY
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.fusion_contract import depth


def residuals(body: Graph, grown: Graph, wanted: Sequence[Value]) -> list[Value]:
    """The values of a body that are kept.

    Args:
        body: of the loop.
        grown: it, with its derivative.
        wanted: what of that is computed on the way back.
    """
    needed, given = grown.leading_to(wanted), set(wanted)
    own = set(body.nodes)
    readers: dict[Value, list[Node]] = {}
    for node in needed:
        for value in dict.fromkeys(node.inputs):
            readers.setdefault(value, []).append(node)
    ends: dict[Value, Value] = {}
    for node in reversed(needed):
        if node in own and len(node.outputs) == 1:
            follows = _follower(node.output, readers, own)
            if follows is not None and node.output not in given:
                ends[node.output] = ends.get(follows, follows)
    kept = [node.output for node in needed if node in own and _is_costly(node)]
    return list(dict.fromkeys([ends.get(value, value) for value in kept]))


def _is_costly(node: Node) -> bool:
    """Whether it takes longer to compute a value again than to keep it."""
    if not node.op.lowering.is_product or node.provenance.checkpoints:
        # what gx.checkpoint computes is not kept
        return False
    terms = depth(node)
    return not isinstance(terms, int) or terms >= MEMORY.kept_depth


def _follower(
    value: Value, readers: Mapping[Value, Sequence[Node]], own: Collection[Node]
) -> Value | None:
    """What cheap work makes of a value, if nothing else reads that, in as many bytes."""
    found = readers.get(value, ())
    if len(found) != 1:
        return None
    (reader,) = found
    if reader not in own or not reader.op.lowering.is_pointwise or reader.op.is_heavy:
        return None
    return reader.output if reader.output.type.bytes == value.type.bytes else None


def without(graph: Graph, kept: Sequence[Value]) -> Graph:
    """The graph with these values as further inputs."""
    gone = set(kept)
    nodes = [node for node in graph.nodes if gone.isdisjoint(node.outputs)]
    return graph.with_parts(inputs=(*graph.inputs, *kept), nodes=nodes)


__all__ = ["residuals", "without"]
