"""Widening: what computes with float16 or bfloat16 does so in float32. Required.

    %2 = add(%0, %1) : bfloat16[n]      ->      %3 = astype(%0) {dtype = @float32}
                                                %4 = astype(%1) {dtype = @float32}
                                                %5 = add(%3, %4) : float32[n]
                                                %2 = astype(%5) {dtype = @bfloat16}

Each result is rounded, so chains round after each operation, as NumPy does, though they are one
kernel. What rounding doesn't change is read as it is: what chooses an operand, or changes its sign
or drops its digits, and a product with a power of two. Later passes meet narrow floats where they
are moved, chosen and converted, nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.builder import apply, apply_node
from graphc.ir.dtypes import DType
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.declare import like
from graphc.ops.narrow_floats import computes_narrow, rounded, types_of, widened
from graphc.ops.pointwise.arithmetic import multiply_op, negative_op
from graphc.ops.pointwise.rounding import (
    abs_op,
    ceil_op,
    floor_op,
    maximum_op,
    minimum_op,
    round_op,
    sign_op,
    trunc_op,
)
from passes.infra.base import PassContext
from passes.rewriting.constants import known
from passes.rules.common import powers_of_two

_EXACT = frozenset(
    {abs_op, ceil_op, floor_op, maximum_op, minimum_op, negative_op, round_op, sign_op, trunc_op}
)
"""What gives only numbers that the dtype of its operands has."""


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
    exact: dict[Value, Value] = {}
    for before in narrow:
        # its operands may have been put anew since
        node = editor.producer(before.outputs[0])
        assert node is not None, "what computes is a node"
        with editor.rewriting(node, "widen"):
            operands = [
                exact.get(value, wide)
                for value, wide in zip(node.inputs, widened(node.inputs), strict=True)
            ]
            wide = apply_node(node.op, operands, node.attrs)
            results = rounded(wide.outputs, types_of(node.outputs))
            whole = _unrounded(node, operands, wide, editor)
            if whole is not None:
                exact[results[0]] = exact[node.output] = whole
            for old, new in zip(node.outputs, results, strict=True):
                editor.substitute(old, new)
        if editor.alive(node):
            editor.remove(node)
    return editor.finish()


def _unrounded(
    node: Node, operands: Sequence[Value], wide: Node, editor: GraphEditor
) -> Value | None:
    """The rounded result of a node as it is computed, if that takes no rounding."""
    if any(value.dtype.computed is value.dtype for value in node.inputs):
        return None
    if node.op in _EXACT:
        return wide.outputs[0]
    if node.op is multiply_op:
        for number, x in zip(node.inputs, reversed(operands), strict=True):
            scale = known(number, editor.producer)
            if scale is not None and scale.single and _doubles(scale.array):
                return _scaled(x, float(scale.array.item()), node.output.dtype)
    return None


def _doubles(array: Array) -> bool:
    """Whether it is a power of two that makes numbers no smaller."""
    return bool(np.all((array >= 1) & np.isfinite(array))) and powers_of_two(array)


def _scaled(x: Value, scale: float, dtype: DType) -> Value:
    """Numbers of a narrow dtype, in that they are computed in, times a power of two of 1 or more:
    they keep their digits, and are infinite where the narrow dtype has no such number."""
    apart = dtype.computed.format.bias - dtype.format.bias
    if not apart:
        return apply(multiply_op, x, like(scale, x))
    large = apply(multiply_op, x, like(scale * 2.0**apart, x))
    return apply(multiply_op, large, like(2.0**-apart, x))
