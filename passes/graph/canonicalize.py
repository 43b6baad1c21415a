"""One spelling for things that are written in several ways.

    %1 = multiply(2, %0)                %1 = multiply(%0, 2)
    %2 = reshape(%1) {(2, 3)}     ->    %2 = reshape(%1) {(6,)}
    %3 = reshape(%2) {(6,)}

Constants stand on the right of commutative ops and comparisons; what moves nothing goes; two
moves of one kind become one; a single element that is moved is broadcast where it goes. Everything
here is exact to the bit.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.ir.builder import apply, infer
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to, broadcast_to_op, renames, reshape_op, transpose_op
from graphc.ops.pointwise.logic import (
    astype_op,
    greater_equal_op,
    greater_op,
    less_equal_op,
    less_op,
)
from graphc.ops.source import constant_op
from passes.infra.base import PassContext
from passes.rewriting.constants import known

_MIRRORED: dict[OpDef, OpDef] = {
    less_op: greater_op,
    greater_op: less_op,
    less_equal_op: greater_equal_op,
    greater_equal_op: less_equal_op,
}


def canonicalize(graph: Graph, context: PassContext) -> Graph:
    """The graph in canonical spelling; one walk, since operands come before their users."""
    ops = {node.op for node in graph.nodes}
    steps = {op: _STEPS.get(op, _order) for op in ops if op in _STEPS or op.algebra.commutative}
    if constant_op not in ops:
        steps = {op: step for op, step in steps.items() if step is not _order}
    if not steps:
        return graph
    editor = GraphEditor(graph, "canonicalize")
    for original in graph.nodes:
        step = steps.get(original.op)
        if step is not None:
            node = editor.producer(original.outputs[0])
            if node is not None:
                step(editor, node, context)
    return editor.finish()


Step = Callable[[GraphEditor, Node, PassContext], None]


# --- operands ------------------------------------------------------------------------------------


def _order(editor: GraphEditor, node: Node, context: PassContext) -> None:
    """Constants to the right."""
    if len(node.inputs) != 2:
        return
    left, right = node.inputs
    if known(left, editor.producer) is None or known(right, editor.producer) is not None:
        return
    op = _MIRRORED.get(node.op, node.op)
    operands = (right, left)
    # Where dims are symbolic, the swapped spelling may name the same shape differently.
    if left.type.shape and infer(op, operands, node.attrs)[0] != node.output.type:
        return
    if context.decide("constant-right", node):
        editor.put(Node(op, operands, node.attrs, node.outputs, (), node.provenance))


# --- moves ---------------------------------------------------------------------------------------


def _still(editor: GraphEditor, node: Node, context: PassContext) -> bool:
    """Takes out what gives its operand back."""
    (source,) = node.inputs
    if node.output.type != source.type:
        return False
    if node.op is transpose_op and node.attrs["axes"] != tuple(range(source.ndim)):
        return False
    if context.decide(f"{node.op.name}-nothing", node):
        editor.supplant(node, source)
    return True


def _move(editor: GraphEditor, node: Node, context: PassContext) -> None:
    """A reshape, transpose or broadcast: nothing, or of a single element, or after another."""
    node = _renamed(editor, node, context)
    if _still(editor, node, context):
        return
    (source,) = node.inputs
    inner = editor.producer(source)
    if inner is None:
        return
    constant = known(source, editor.producer)
    if node.op is not broadcast_to_op and constant is not None and constant.splat:
        scalar = constant.scalar
        if scalar is not None:
            _replace(
                editor, node, context, "move-element",
                lambda: broadcast_to(scalar, node.output.shape),
            )  # fmt: skip
        return
    if inner.op is not node.op:
        return
    (origin,) = inner.inputs
    if node.op is transpose_op:
        axes = tuple(inner.attrs["axes"][axis] for axis in node.attrs["axes"])
        if axes == tuple(range(origin.ndim)):
            if context.decide("transpose-back", node):
                editor.supplant(node, origin)
        elif context.decide("transpose-twice", node):
            with editor.rewriting(node, "transpose-twice"):
                made = editor.redefine(node.output, transpose_op, (origin,), {"axes": axes})
            _move(editor, made, context)
        return
    if node.op is reshape_op and origin.type == node.output.type:
        if context.decide("reshape-back", node):
            editor.supplant(node, origin)
        return
    _replace(
        editor, node, context, f"{node.op.name}-twice",
        lambda: apply(node.op, origin, shape=node.attrs["shape"]),
    )  # fmt: skip


def _renamed(editor: GraphEditor, node: Node, context: PassContext) -> Node:
    """A transpose that only moves axes of one element moves nothing: it is a reshape."""
    if node.op is not transpose_op or not renames(node.inputs[0].shape, node.attrs["axes"]):
        return node
    if not context.decide("transpose-renames", node):
        return node
    return editor.redefine(node.output, reshape_op, node.inputs, {"shape": node.output.shape})


def _convert(editor: GraphEditor, node: Node, context: PassContext) -> None:
    _still(editor, node, context)


def _replace(
    editor: GraphEditor,
    node: Node,
    context: PassContext,
    rule: str,
    build: Callable[[], Value],
) -> None:
    if context.decide(rule, node):
        with editor.rewriting(node, rule):
            editor.substitute(node.output, build())


_STEPS: dict[OpDef, Step] = {
    astype_op: _convert,
    reshape_op: _move,
    transpose_op: _move,
    broadcast_to_op: _move,
    **dict.fromkeys(_MIRRORED, _order),
}
