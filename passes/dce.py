"""Dead code elimination: nodes that no output needs go.

    %1 = exp(%0)
    %2 = log(%0)        ->      %1 = exp(%0)
    return %1                   return %1

A graph has no side effects once it is extracted (state is passed explicitly), so being read is the
only reason to stay. Inputs stay, since they are the graph's signature.
"""

from __future__ import annotations

from graphc.ir.graph import Graph, Node
from passes.base import PassContext


def dce(graph: Graph, context: PassContext) -> Graph:
    """The graph without the nodes that nothing needs; one walk from the outputs back."""
    live = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value in live for value in node.outputs):
            live.update(node.inputs)
            kept.append(node)
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    return Graph(graph.name, graph.inputs, kept, graph.outputs)
