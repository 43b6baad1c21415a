"""Kernels of single operations, of which programs of ``optimize=0`` consist.

Invariant: the kernel is that of a fused node with this operation alone, so its bits are those that
the operation has in any kernel. Operations that differ only in their operands share one.
"""

from __future__ import annotations

from collections.abc import Hashable

from graphc.base.target import Target
from graphc.ir import attributes
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.lower.fused_node import lower_group
from graphc.lower.launch_fission import Series
from graphc.ops.fused import fused_op


class Singles:
    """Finds operations of a graph that share a kernel.

    Types are interned and compared by identity, because hashing one takes longer than all else.
    """

    def __init__(self) -> None:
        self._first: dict[TensorType, TensorType] = {}
        self._known: dict[int, int] = {}
        self._held: list[TensorType] = []

    def key(self, node: Node) -> Hashable:
        """A key that is equal for nodes that share a kernel."""
        known = self._known
        parts: list[Hashable] = [node.op, attributes.keys(node.attrs) if node.attrs else None]
        # types as their slots are read, and no comprehensions, whose calls take as long as all else
        for value in node.inputs:
            type_ = value._type
            parts.append(known.get(id(type_)) or self._enter(type_))
        for value in node.outputs:
            type_ = value._type
            parts.append(known.get(id(type_)) or self._enter(type_))
        return tuple(parts)

    def _enter(self, type_: TensorType) -> int:
        first = self._first.setdefault(type_, type_)
        self._known[id(type_)] = id(first)
        self._held.append(type_)  # an identity stands for one type as long as this lives
        return id(first)


def lower_single(node: Node, target: Target) -> Series:
    """The launches of one operation; the first buffers are its inputs and outputs in order.

    An operand that comes twice is two buffers. Errors of checks name the line of the launch.

    Raises:
        UnsupportedError: naming the op if no kernel can be made of it.
    """
    inputs = [Value(value.type) for value in node.inputs]
    outputs = [Value(value.type) for value in node.outputs]
    provenance = Provenance(None, node.provenance.cause)
    inner = Node(node.op, tuple(inputs), node.attrs, tuple(outputs), (), provenance)
    body = Graph("body", inputs, [inner], outputs)
    fused = Node(fused_op, node.inputs, {}, node.outputs, (body,), node.provenance)
    return lower_group(fused, target)
