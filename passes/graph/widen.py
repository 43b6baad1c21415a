"""Widening: what computes with float16 or bfloat16 does so in float32. Required.

    %2 = add(%0, %1) : bfloat16[n]      ->      %3 = astype(%0) {dtype = @float32}
                                                %4 = astype(%1) {dtype = @float32}
                                                %5 = add(%3, %4) : float32[n]
                                                %2 = astype(%5) {dtype = @bfloat16}

Each result is rounded, so chains round after each operation, as NumPy does, though they are one
kernel. Later passes meet narrow floats where they are moved, chosen and converted, nowhere else.
"""

from __future__ import annotations

from graphc.ir.builder import apply_node
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ops.narrow_floats import computes_narrow, rounded, types_of, widened
from passes.infra.base import PassContext


def is_wide(node: Node) -> bool:
    """True for what the passes after this one may meet."""
    return not computes_narrow(node)


def widen(graph: Graph, context: PassContext) -> Graph:
    """The graph in which only moves, choices and conversions take narrow floats."""
    if all(dtype.computed is dtype for dtype in graph.dtypes):
        return graph
    narrow = [node for node in graph.nodes if computes_narrow(node)]
    if not narrow:
        return graph
    editor = GraphEditor(graph)
    for before in narrow:
        # its operands may have been put anew since
        node = editor.producer(before.outputs[0])
        assert node is not None, "what computes is a node"
        with editor.rewriting(node, "widen"):
            wide = apply_node(node.op, widened(node.inputs), node.attrs)
            results = rounded(wide.outputs, types_of(node.outputs))
            for old, new in zip(node.outputs, results, strict=True):
                editor.substitute(old, new)
        if editor.alive(node):
            editor.remove(node)
    return editor.finish()
