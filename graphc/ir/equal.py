"""When two graphs are the same: a key, a structural hash, and the first difference for tests.

Names of values, labels of graphs and regions, and source lines don't count; everything else does,
bits of floats and bounds of symbols included. Nodes are compared in the order given: two orders of
one computation are two graphs. The hash is the same in every process; the key is for dictionaries
of this one, and several times cheaper.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Hashable
from typing import TypeAlias

from graphc.base.errors import VerifyError
from graphc.ir import attributes
from graphc.ir.dims.expressions import Dim, digest
from graphc.ir.graph import Graph, Node
from graphc.ir.guard import Guard
from graphc.ir.op import OpDef
from graphc.ir.text.printer import attrs_text, guard_text, quote, symbol_order, symbols_of
from graphc.ir.types import TensorType
from graphc.ir.value import Value

_VERSION = "graph 7"


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


_Kind: TypeAlias = "tuple[OpDef, int, int, int, int]"
"""The op of a node, the number of its attributes, -1 for none, and how many operands, results and
regions it has."""


class _Numbered:
    """A graph as numbers, and what they stand for, each in the order of its first occurrence.

    Attributes:
        words: how many inputs, nodes and outputs there are; for each input its type; for each node
            its kind, its operands and the types of its results; the outputs.
        kinds, types: what the numbers of kinds and types stand for.
        attrs: a node with the attributes of each number, by the attributes' key.
        regions: the regions of all nodes.
    """

    __slots__ = ("attrs", "kinds", "regions", "types", "words")

    def __init__(self, graph: Graph) -> None:
        """Raises VerifyError if a node reads a value that is not defined before it."""
        self.kinds: dict[_Kind, int] = {}
        self.types: dict[TensorType, int] = {}
        self.attrs: dict[Hashable, tuple[int, Node]] = {}
        self.regions: list[Graph] = []
        numbers: dict[Value, int] = {}
        known: dict[int, int] = {}
        shared: dict[int, int] = {}
        words = [len(graph.inputs), len(graph.nodes), len(graph.outputs)]
        kinds, add, number_of = self.kinds, words.append, numbers.__getitem__
        for value in graph.inputs:
            number = known.get(id(value.type), -1)
            add(self._type(value.type, known) if number < 0 else number)
            numbers[value] = len(numbers)
        try:
            for node in graph.nodes:
                attrs, number = node.attrs, -1
                if attrs:
                    number = shared.get(id(attrs), -1)
                    if number < 0:
                        number = shared[id(attrs)] = self._attributes(node)
                inputs, outputs, regions = node.inputs, node.outputs, node.regions
                kind = node.op, number, len(inputs), len(outputs), len(regions)
                add(kinds.setdefault(kind, len(kinds)))
                if len(inputs) == 1:
                    add(numbers[inputs[0]])
                elif inputs:
                    words += map(number_of, inputs)
                for value in outputs:
                    type_ = value._type
                    number = known.get(id(type_), -1)
                    add(self._type(type_, known) if number < 0 else number)
                    numbers[value] = len(numbers)
                if regions:
                    self.regions += regions
            for value in graph.outputs:
                add(numbers[value])
        except KeyError as error:
            what = f"graph {graph.name!r} reads {error.args[0]!r}, which is not defined before"
            raise VerifyError(what) from error
        self.words = array("q", words)

    def _type(self, type_: TensorType, known: dict[int, int]) -> int:
        number = known[id(type_)] = self.types.setdefault(type_, len(self.types))
        return number

    def _attributes(self, node: Node) -> int:
        number, _ = self.attrs.setdefault(attributes.keys(node.attrs), (len(self.attrs), node))
        return number


def structure(graph: Graph) -> Structure:
    """A key, equal for graphs that are the same up to names of values and source lines.

    A graph keeps it.

    Raises:
        VerifyError: if a node reads a value that is not defined before it.
    """
    found: Structure | None = graph._structure
    if found is None:
        found = graph._structure = _structure(graph)
    return found


def structural_hash(graph: Graph) -> str:
    """32 hexadecimal digits that are the same in every process; equal for equal graphs.

    A graph keeps them.

    Raises:
        VerifyError: if a node reads a value that is not defined before it.
    """
    if graph._hash is None:
        graph._hash = _structural_hash(graph)
    return graph._hash


def _structure(graph: Graph) -> Structure:
    content = _Numbered(graph)
    regions = tuple([structure(region) for region in content.regions])
    tables = tuple(content.kinds), tuple(content.types), tuple(content.attrs)
    guards = tuple([(guard.condition, guard.message, guard.shown) for guard in graph.guards])
    return Structure((content.words.tobytes(), *tables, regions, guards))


def _structural_hash(graph: Graph) -> str:
    content = _Numbered(graph)
    symbols = symbols_of(tuple(type_.shape for type_ in content.types))
    parts = [_VERSION]
    parts += (" ".join((quote(op.name), *map(str, rest))) for op, *rest in content.kinds)
    parts += ("types", *map(_type_digest, content.types))
    parts.append("attributes")
    for _, node in content.attrs.values():
        parts.append(_attrs_text(node))
        symbols |= symbols_of(tuple(node.attrs.values()))
    parts += (f"region {structural_hash(region)}" for region in content.regions)
    parts += map(_guard_digest, graph.guards)
    symbols |= symbols_of(tuple({dim for guard in graph.guards for dim in guard.dims}))
    parts += (str(symbol_order(symbol)) for symbol in sorted(symbols, key=symbol_order))
    # Every part is free of raw newlines, since strings are quoted: the joint is unambiguous.
    tables = "\n".join(parts).encode("utf-8", "surrogatepass")
    words = content.words
    if sys.byteorder == "big":
        words.byteswap()
    return hashlib.sha256(words.tobytes() + tables).hexdigest()[:32]


def _guard_digest(guard: Guard) -> str:
    left, right, *flags = guard.condition
    shown = None if guard.shown is None else " ".join(map(_quoted_digest, guard.shown))
    sides = f"{_quoted_digest(left)} {_quoted_digest(right)}"
    return f"guard {sides} {flags} {quote(guard.message)} {shown}"


def _quoted_digest(dim: Dim) -> str:
    return f"[{digest(dim)}]"


def _type_digest(type_: TensorType) -> str:
    return f"{type_.dtype}[{', '.join(map(digest, type_.shape))}]"


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
    guards_a, guards_b = (sorted(map(guard_text, graph.guards)) for graph in (a, b))
    if guards_a != guards_b:
        return f"{path}{'; '.join(guards_a) or 'no guard'} against {'; '.join(guards_b) or 'none'}"
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
