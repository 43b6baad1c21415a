"""Layout: constant right operands of products are stored as the product reads them, in panels.

    %2 = contract(%0, %1)        ->       %2 = contract_panels(%0, %packed) {k = 784, n = 512}

The constant is packed here, once; a run packs nothing. The bits stay, since the order of a
product's chain does not depend on where its operands lie. Only products of float matrices:
stacks of matrices and integers have no packed form.

A constant that nothing else reads lives on in its panels alone: graphs that still have it, the
user's above all, get it from there when somebody looks.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from graphc.base.target import Target
from graphc.base.tuning.fusion import MEMORY
from graphc.ir.attributes import Array, Payload
from graphc.ir.builder import apply
from graphc.ir.dtypes import DType
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.kernel.panels import depth_limit, even_depth, pack, panel_width, unpack
from graphc.ops.linalg.matmul import contract_op
from graphc.ops.linalg.panels import contract_panels_op
from graphc.ops.source import constant_op
from passes.infra.base import PassContext
from passes.rewriting.constants import payload_array


def layout(graph: Graph, context: PassContext) -> Graph:
    """The graph with products by constants reading panels; one walk."""
    target = context.target
    if target is None:
        return graph
    editor = GraphEditor(graph, "layout")
    packed: dict[tuple[Value, bool], Value] = {}
    for node in graph.nodes:
        matrix = _constant_matrix(node, editor, target)
        if matrix is None or not context.decide("layout", node):
            continue
        key = node.inputs[1], node.attrs["transpose_b"]
        if key not in packed:
            with editor.rewriting(node, "layout"):
                packed[key] = apply(constant_op, value=_packed(matrix, node.output.dtype, target))
        k, n = matrix.shape
        attrs = {"k": k, "n": n, "transpose_a": node.attrs["transpose_a"]}
        plain = editor.producer(node.inputs[1])
        editor.redefine(node.output, contract_panels_op, (node.inputs[0], packed[key]), attrs)
        if plain is not None:
            editor.remove_unused(plain)
            if not editor.alive(plain):
                panels = editor.producer(packed[key])
                assert panels is not None, "it was made above"
                _give_up(plain.attrs["value"], panels.attrs["value"], (k, n), key[1])
    return editor.finish()


def _give_up(
    plain: Payload, panels: Payload, shape: tuple[int, int], is_transposed: bool
) -> None:
    """Leaves the elements to the panels, unless that saves next to nothing."""
    if plain.array.nbytes >= MEMORY.given_up_bytes:
        plain.give_up(partial(_unpacked, panels, shape, is_transposed))


def _unpacked(panels: Payload, shape: tuple[int, int], is_transposed: bool) -> Array:
    """The constant that was packed, as an array of its own."""
    packed = panels.array
    array = np.empty(shape[::-1] if is_transposed else shape, packed.dtype)
    unpack(packed, *shape, into=array.T if is_transposed else array)
    return array


def _constant_matrix(node: Node, editor: GraphEditor, target: Target) -> Array | None:
    """The right operand, as the product reads it, if it is worth packing."""
    if node.op is not contract_op or node.output.type.rank != 2:
        return None
    source = editor.producer(node.inputs[1])
    if source is None or source.op is not constant_op or not node.output.dtype.is_float:
        return None
    matrix = payload_array(source)
    if node.attrs["transpose_b"]:
        matrix = matrix.T
    k, n = matrix.shape
    if node.inputs[0].shape[0 if node.attrs["transpose_a"] else 1] != k:
        return None
    wide_enough = n * MEMORY.most_padding >= panel_width(node.output.dtype, target)
    return matrix if k and wide_enough else None


def _packed(matrix: Array, dtype: DType, target: Target) -> Payload:
    depth = even_depth(matrix.shape[0], depth_limit(dtype, target))
    panels = pack(matrix, panel_width(dtype, target), depth)
    panels.flags.writeable = False  # so that the payload takes it as it is
    return Payload(panels)
