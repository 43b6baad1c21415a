"""What a graph knows of its constants: arrays, and lazily broadcast single elements.

Role: shared by folding, canonicalization and the matching of rules. Invariant: a splat is never
spread out; it stands for one element, whatever the shape, symbolic shapes included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.checking.interpreter import evaluate_node
from graphc.ir.attributes import Array, Payload
from graphc.ir.builder import apply
from graphc.ir.graph import Node
from graphc.ir.text.printer import dims_in
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.source import constant_op

Producer = Callable[[Value], Node | None]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A constant.

    Attributes:
        array: its elements, or its only element as an array without axes.
        splat: the value repeats the one element over its shape.
        scalar: for a splat, the value that holds the one element without axes, if there is one.
    """

    array: Array
    splat: bool
    scalar: Value | None = None

    @property
    def single(self) -> bool:
        """True if all elements are one and the same."""
        return self.splat or self.array.size == 1


def known(value: Value, producer: Producer) -> Known | None:
    """What is known of a value: if a constant makes it, or a broadcast of one element."""
    node = producer(value)
    if node is None:
        return None
    if node.op is constant_op:
        return Known(payload_array(node), False)
    if node.op is not broadcast_to_op:
        return None
    source = producer(node.inputs[0])
    if source is None or source.op is not constant_op:
        return None
    array = payload_array(source)
    if array.size != 1:
        return None
    return Known(array.reshape(()), True, source.output if array.ndim == 0 else None)


def new_constant(array: Array, shape: Shape | None = None) -> Value:
    """A constant of these elements, repeated over the shape if that is another one.

    To be called while a builder is current.
    """
    value = apply(constant_op, value=Payload(array))
    if shape is None or value.shape == shape:
        return value
    return apply(broadcast_to_op, value, shape=shape)


def payload_array(node: Node) -> Array:
    """The array of a constant node; read-only."""
    payload: Payload = node.attrs["value"]
    return payload.array


def is_exact(node: Node) -> bool:
    """Whether the reference gives the bits of compiled code: class E, or no floats in it."""
    return node.op.numerics == "E" or not any(
        value.dtype.is_rounded for value in (*node.inputs, *node.outputs)
    )


def needs_sizes(node: Node) -> bool:
    """Whether an attribute holds a dim that is known only when the graph runs."""
    given = ((name, value) for name, value in node.attrs.items() if name != "guards")
    return any(True for _, value in given for _ in dims_in(value))


def element_of(node: Node, operands: Sequence[Known]) -> Array | None:
    """What a pointwise op gives for operands of one element each; None where that is not known.

    Raises:
        GraphcError: where the operation fails on these elements.
    """
    if not node.op.lowering.is_pointwise or not all(o.single for o in operands):
        return None
    if needs_sizes(node):
        return None
    inputs = tuple(Value(TensorType(value.dtype, ())) for value in node.inputs)
    output = Value(TensorType(node.output.dtype, ()))
    alone = Node(node.op, inputs, node.attrs, (output,), (), node.provenance)
    with np.errstate(all="ignore"):
        (array,) = evaluate_node(alone, [o.array.reshape(()) for o in operands], {})
    return array
