"""Decomposition: coarse operations become core ones. Required: later passes know core ops only.

    %1 = softmax(%0) {axes = (1,)}      ->      %1 = max(%0) …; %2 = subtract(%0, %1)
                                                %3 = exp(%2) …; %5 = divide(%3, %4)

Each coarse op says itself what it stands for, in the user's algebra (``Lowering.parts``); a
decomposition may use coarse ops again. A concatenation of many pieces becomes a balanced tree of
small ones, since each piece costs a comparison an element.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from graphc.base.errors import GraphcError
from graphc.base.tuning.fusion import FUSION
from graphc.ir.builder import apply
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.move.joining import concatenate_op
from passes.infra.base import PassContext


def is_core(node: Node) -> bool:
    """True for what the passes after this one may meet."""
    if node.op is concatenate_op:
        return len(node.inputs) <= FUSION.kernel_pieces
    return not node.op.lowering.is_coarse


def decompose(graph: Graph, context: PassContext) -> Graph:
    """The graph in core ops; linear in the nodes it ends up with."""
    pending = [node for node in reversed(graph.nodes) if not is_core(node)]
    if not pending:
        return graph
    editor = GraphEditor(graph)
    while pending:
        # The node may have been put anew since, with other operands.
        node = editor.producer(pending.pop().outputs[0])
        if node is None or is_core(node):
            continue
        results = _decomposed(editor, node)
        for old, new in zip(node.outputs, results, strict=True):
            editor.substitute(old, new)
        made = editor.take_made()
        if editor.alive(node) and not any(editor.is_used(value) for value in node.outputs):
            editor.remove(node)
        pending.extend(new for new in reversed(made) if not is_core(new))
    return editor.finish()


def decomposed_alone(node: Node) -> Graph:
    """A coarse node as a graph of core ops: of its inputs, each once, to its outputs."""
    alone = Graph("alone", tuple(dict.fromkeys(node.inputs)), (node,), node.outputs)
    return decompose(alone, PassContext())


def _decomposed(editor: GraphEditor, node: Node) -> Sequence[Value]:
    """What stands for the node's outputs, of the same types."""
    try:
        with editor.rewriting(node, "decompose"):
            if node.op is concatenate_op:
                return (_joined(node),)
            values = node.op.lowering.parts(node.inputs, node.attrs)
            return [
                _respelled(value, output)
                for value, output in zip(values, node.outputs, strict=True)
            ]
    except GraphcError as error:
        error.where = error.where or node.provenance.where
        error.node = error.node or repr(node)
        raise


def _respelled(value: Value, output: Value) -> Value:
    """The value in the output's own spelling of its dims, which may be equal and look different."""
    if value.shape == output.shape:
        return value
    result: Value = surface_function("reshape")(value, output.shape)
    return result


def _joined(node: Node) -> Value:
    """The same concatenation by a tree; pieces that fit stay pieces that fit."""
    axis = node.attrs["axis"]
    pieces = list(node.inputs)
    while len(pieces) > FUSION.kernel_pieces:
        # Even shares: 9 pieces make 5 and 4, not 8 and 1.
        groups = -(-len(pieces) // FUSION.kernel_pieces)
        bounds = [len(pieces) * number // groups for number in range(groups + 1)]
        pieces = [
            apply(concatenate_op, *pieces[start:stop], axis=axis) if stop - start > 1
            else pieces[start]
            for start, stop in itertools.pairwise(bounds)
        ]  # fmt: skip
    return apply(concatenate_op, *pieces, **node.attrs)
