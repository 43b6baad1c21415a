"""Folding: what depends on constants only is computed now.

    %1 = constant() {2.0}
    %2 = constant() {3.0}       ->      %3 = constant() {6.0}
    %3 = multiply(%1, %2)

Only exact operations are folded (class E, and sums and products of integers), by their reference,
so that folded equals unfolded to the bit; everything else keeps its place and its bits. A result
may not be larger than the constants it is made from, nor than all constants that the graph had (or
4 KB), so that doubling again and again ends; broadcasts stay lazy, and an error stays an error of
the run. What is not folded is recorded with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.base.errors import GraphcError, VerifyError
from graphc.checking.interpreter import evaluate_node
from graphc.ir.attributes import Array, Payload
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.source import constant_op
from passes.infra.base import PassContext
from passes.rewriting.constants import (
    Known,
    element_of,
    is_exact,
    known,
    needs_sizes,
    new_constant,
    payload_array,
)

SMALL_BYTES = 4096
"""Results up to this size are folded even if they are larger than what they are made from."""


def fold(graph: Graph, context: PassContext) -> Graph:
    """The graph with constant subgraphs computed; one walk."""
    sources = [node for node in graph.nodes if node.op is constant_op]
    if not sources:
        return graph
    editor = GraphEditor(graph, "fold")
    constants: dict[Value, Known] = {}
    given = sum([payload_array(node).nbytes for node in sources])
    # a node that is folded is replaced when its turn comes, so all others are as they were
    for node in graph.nodes:
        if node.op is constant_op or node.op is broadcast_to_op:
            own = known(node.outputs[0], editor.producer)
            if own is not None:
                constants[node.outputs[0]] = own
                continue
        if not node.inputs or node.inputs[0] not in constants:
            continue
        if any(value not in constants for value in node.inputs):
            continue
        operands = [constants[value] for value in node.inputs]
        reason = _obstacle(node)
        if reason is None:
            reason = _fold_node(editor, node, operands, given, context)
        if reason is not None:
            context.decline("fold", node, reason)
            continue
        made = known(node.outputs[0], editor.producer)
        if made is not None:
            constants[node.outputs[0]] = made
    return editor.finish()


def _obstacle(node: Node) -> str | None:
    """Why an op is never folded."""
    if node.regions:
        return f"{node.op.name} is control flow"
    if node.op.effect != "pure":
        return f"{node.op.name} touches state"
    if len(node.outputs) > 1:
        return "it has several results"
    if node.op is broadcast_to_op:
        return "broadcasts stay lazy"
    return None if is_exact(node) else f"{node.op.name} is not exact"


def _fold_node(
    editor: GraphEditor, node: Node, operands: Sequence[Known], given: int, context: PassContext
) -> str | None:
    """Folds the node, or says why not; ``given`` are the bytes of the graph's own constants."""
    try:
        # One element is computed and stays one element, whatever the shape.
        array = element_of(node, operands)
        lazy = array is not None
        if array is None:
            reason = _oversize(node, operands, given)
            if reason is not None:
                return reason
            arrays = [
                _spread(operand, value) if operand.splat else operand.array
                for value, operand in zip(node.inputs, operands, strict=True)
            ]
            with np.errstate(all="ignore"):
                (array,) = evaluate_node(node, arrays, {})
    except VerifyError:
        raise
    except GraphcError as error:
        return f"it would fail when the graph runs: {error.message}"
    if not context.decide("fold", node):
        return "no fuel is left"
    if lazy and node.output.shape != ():
        with editor.rewriting(node, "fold"):
            scalar = new_constant(array)
        editor.redefine(node.output, broadcast_to_op, (scalar,), {"shape": node.output.shape})
    else:
        editor.redefine(node.output, constant_op, (), {"value": Payload(array)})
    return None


def _oversize(node: Node, operands: Sequence[Known], given: int) -> str | None:
    """Why the result may not be stored: its size is unknown or too large."""
    values = (*node.inputs, node.output)
    is_static = all(value.type.is_static for value in values) and not needs_sizes(node)
    if not is_static:
        return "its size is known only when the graph runs"
    distinct = dict(zip(node.inputs, operands, strict=True))
    stored = sum(operand.array.nbytes for operand in distinct.values())
    limit = max(min(stored, given), SMALL_BYTES)
    for value in values:
        size = _bytes(value)
        if size > limit:
            return f"{size} bytes would be made of {min(stored, given)}"
    return None


def _bytes(value: Value) -> int:
    size = value.type.bytes
    assert isinstance(size, int)
    return size


def _spread(operand: Known, value: Value) -> Array:
    """The elements of a splat of known size, as a view."""
    shape = [dim for dim in value.shape if isinstance(dim, int)]
    return np.broadcast_to(operand.array, shape)
