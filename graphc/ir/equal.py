"""When two graphs are the same: a key, a structural hash, and the first difference for tests.

Names of values, labels of graphs and regions, and source lines don't count; everything else does,
bits of floats and bounds of symbols included. Nodes are compared in the order given: two orders of
one computation are two graphs. The hash is the same in every process; the key is for dictionaries
of this one, and several times cheaper.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import TYPE_CHECKING

from graphc.base.errors import VerifyError
from graphc.ir import attributes
from graphc.ir.printer import attrs_text, quote, symbol_order, symbols_in

if TYPE_CHECKING:
    from graphc.ir.graph import Graph, Node
    from graphc.ir.op import OpDef
    from graphc.ir.types import TensorType
    from graphc.ir.value import Value

_VERSION = "graph 3"


class Structure:
    """What graphs that are the same have in common; hashed once."""

    __slots__ = ("_content", "_hash")

    def __init__(self, content: Hashable) -> None:
        self._content = content
        self._hash = hash(content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (
            self is other or (self._hash == other._hash and self._content == other._content)
        )


def structure(graph: Graph) -> Structure:
    """A key that is equal for equal graphs.

    Raises:
        VerifyError: if a node reads a value that is not defined before it.
    """
    numbers: dict[Value, int] = {}
    types: dict[TensorType, int] = {}
    known: dict[int, int] = {}

    def number_of(type: TensorType) -> int:
        number = known.get(id(type))
        if number is None:
            number = known[id(type)] = types.setdefault(type, len(types))
        return number

    parts: list[Hashable] = [len(graph.inputs)]
    for value in graph.inputs:
        numbers[value] = len(numbers)
        parts.append(number_of(value.type))
    try:
        for node in graph.nodes:
            parts.append(node.op)
            parts.append(tuple([numbers[value] for value in node.inputs]))
            if node.attrs:
                parts.append(attributes.keys(node.attrs))
            if node.regions:
                parts.append(tuple([region.structure for region in node.regions]))
            for value in node.outputs:
                numbers[value] = len(numbers)
                parts.append(number_of(value.type))
        outputs = tuple([numbers[value] for value in graph.outputs])
    except KeyError as error:
        raise _undefined(graph, error) from error
    return Structure((tuple(parts), outputs, tuple(types)))


def _undefined(graph: Graph, error: KeyError) -> VerifyError:
    return VerifyError(f"graph {graph.name!r} reads {error.args[0]!r}, which is not defined before")


def structural_hash(graph: Graph) -> str:
    """32 hexadecimal digits; equal for equal graphs.

    Raises:
        VerifyError: if a node reads a value that is not defined before it.
    """
    numbers: dict[Value, int] = {}
    names: dict[OpDef, str] = {}
    types: dict[int, str] = {}

    def text_of(type: TensorType) -> str:
        text = types.get(id(type))
        if text is None:
            text = types[id(type)] = str(type)
        return text

    parts = [_VERSION, *(str(symbol_order(symbol)) for symbol in symbols_in(graph))]
    parts.append("inputs")
    for value in graph.inputs:
        numbers[value] = len(numbers)
        parts.append(text_of(value.type))
    try:
        for node in graph.nodes:
            operands = " ".join([str(numbers[value]) for value in node.inputs])
            results = ";".join([text_of(value.type) for value in node.outputs])
            name = names.get(node.op)
            if name is None:
                name = names[node.op] = quote(node.op.name)
            attrs = _attrs_text(node) if node.attrs else ""
            parts.append(f"{name}({operands}){attrs}:{results}")
            parts.extend(f"region {region.structural_hash}" for region in node.regions)
            for value in node.outputs:
                numbers[value] = len(numbers)
        parts.append("outputs " + " ".join([str(numbers[value]) for value in graph.outputs]))
    except KeyError as error:
        raise _undefined(graph, error) from error
    # Every part is free of raw newlines, since strings are quoted: the joint is unambiguous.
    content = "\n".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _attrs_text(node: Node) -> str:
    """Attributes with their bits. Most nodes that have some are constants, written in short."""
    value = node.attrs.get("value")
    if len(node.attrs) == 1 and isinstance(value, attributes.Payload):
        return f" {{value = #{value.digest.hex()}}}"
    return attrs_text(node, inline=False)


def difference(a: Graph, b: Graph) -> str | None:
    """The first difference of two graphs in words, ``a`` against ``b``; None if they are equal.

    Names of values, labels of graphs and source lines make no difference.
    """
    return _difference(a, b, "")


def _types(values: tuple[Value, ...]) -> str:
    return ", ".join(str(value.type) for value in values) or "nothing"


def _type_difference(a: tuple[Value, ...], b: tuple[Value, ...]) -> str | None:
    types_a, types_b = [value.type for value in a], [value.type for value in b]
    if types_a == types_b:
        return None
    if _types(a) == _types(b):
        return f"{_types(a)}, with different bounds of its symbols"
    return f"{_types(a)} against {_types(b)}"


def _difference(a: Graph, b: Graph, path: str) -> str | None:
    if (found := _type_difference(a.inputs, b.inputs)) is not None:
        return f"{path}inputs: {found}"
    numbers_a = {value: f"%{number}" for number, value in enumerate(a.inputs)}
    numbers_b = {value: f"%{number}" for number, value in enumerate(b.inputs)}
    for position, (node_a, node_b) in enumerate(zip(a.nodes, b.nodes, strict=False)):
        where = f"{path}node {position} ({node_a.op.name})"
        if (found := _node_difference(node_a, node_b, numbers_a, numbers_b)) is not None:
            return f"{where}: {found}"
        for place, regions in enumerate(zip(node_a.regions, node_b.regions, strict=True)):
            found = _difference(*regions, f"{where}, region {place}, ")
            if found is not None:
                return found
        for value_a, value_b in zip(node_a.outputs, node_b.outputs, strict=True):
            numbers_a[value_a] = f"%{len(numbers_a)}"
            numbers_b[value_b] = f"%{len(numbers_b)}"
    if len(a.nodes) != len(b.nodes):
        shared = min(len(a.nodes), len(b.nodes))
        extra = (a.nodes if len(a.nodes) > shared else b.nodes)[shared]
        return f"{path}{len(a.nodes)} nodes against {len(b.nodes)}; the next is {extra!r}"
    outputs_a = [numbers_a.get(value, "%?") for value in a.outputs]
    outputs_b = [numbers_b.get(value, "%?") for value in b.outputs]
    if outputs_a != outputs_b:
        return f"{path}outputs: {', '.join(outputs_a)} against {', '.join(outputs_b)}"
    return None


def _node_difference(
    a: Node, b: Node, numbers_a: dict[Value, str], numbers_b: dict[Value, str]
) -> str | None:
    if a.op is not b.op:
        return f"op {a.op.name} against {b.op.name}"
    operands_a = [numbers_a.get(value, "%?") for value in a.inputs]
    operands_b = [numbers_b.get(value, "%?") for value in b.inputs]
    if operands_a != operands_b:
        return f"operands {', '.join(operands_a)} against {', '.join(operands_b)}"
    if attributes.keys(a.attrs) != attributes.keys(b.attrs):
        return f"attributes{attrs_text(a) or ' none'} against{attrs_text(b) or ' none'}"
    if (found := _type_difference(a.outputs, b.outputs)) is not None:
        return f"outputs {found}"
    if len(a.regions) != len(b.regions):
        return f"{len(a.regions)} regions against {len(b.regions)}"
    return None
