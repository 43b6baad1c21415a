"""Operations on float16 and bfloat16: computed in float32, each result rounded once.

For + - * / and roots that is the nearest narrow float, as if it had been computed exactly, because
float32 has more than twice the digits and two more. Sums and products of many terms are added up in
float32. What moves, chooses or converts elements (``Lowering.keeps_words``) takes them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphc.ir.graph import Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.convert import converted


def computes_narrow(node: Node) -> bool:
    """Whether a node computes with narrow floats, or gives such by computing; nodes of its regions
    do so by themselves."""
    if node.op.lowering.keeps_words or node.regions:
        return False
    return any(
        value._type.dtype.computed is not value._type.dtype
        for values in (node.inputs, node.outputs)
        for value in values
    )


def widened(values: Iterable[Value]) -> list[Value]:
    """The values in the dtypes they are computed in."""
    return [converted(value, value.dtype.computed) for value in values]


def rounded(results: Sequence[Value], types: Iterable[TensorType]) -> list[Value]:
    """The results in the dtypes of what they stand for."""
    return [
        converted(result, type_.dtype) for result, type_ in zip(results, types, strict=True)
    ]


def as_computed(node: Node) -> Node:
    """The node as it is computed: of operands and results in the dtypes it is computed in."""
    if not computes_narrow(node):
        return node
    return replace(
        node, inputs=tuple(widened(node.inputs)), outputs=tuple(widened(node.outputs))
    )


def as_stored(result: Value, beside: Value) -> Value:
    """What was computed for a value, in its dtype."""
    return converted(result, beside.dtype) if result.dtype is beside.dtype.computed else result


def types_of(values: Iterable[Value]) -> list[TensorType]:
    """The types of values."""
    return [value.type for value in values]
