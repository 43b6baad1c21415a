"""The text form of graphs: printing.

One node a line, values numbered from 0 in each graph and each region, so that equal graphs print
equally. Everything a graph means is in the text, bit for bit, except the arrays of large constants,
which it names by digest (``payloads`` gives them). Printing also serves graphs that are broken, so
that a dump can show why: a value that nothing defines prints as ``%?``.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import GraphError
from graphc.base.source import Location
from graphc.ir.attributes import Array, Payload
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import DimExpr
from graphc.ir.dtypes import DType, floating
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.guard import Guard
from graphc.ir.host import HostFunction
from graphc.ir.showing import shows
from graphc.ir.types import TensorType
from graphc.ir.value import Value

# Constants of at most this many elements are written out.
INLINE_ELEMENTS = 16
# Regions in regions, and tuples in tuples, may be nested this deep. Python allows a thousand calls
# within calls, and what goes down regions makes up to six a level.
MAXIMUM_NESTING = 100

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_NUMBERS = frozenset({"inf", "nan"})
_SURROGATE = re.compile("[\ud800-\udfff]")


def quote(text: str) -> str:
    """A string in double quotes with JSON's escapes; lone surrogates are escaped one by one."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)


def name_text(name: str) -> str:
    """An op's or attribute's name: bare if it is a dotted identifier."""
    plain = _PLAIN_NAME.fullmatch(name) and name not in _NUMBERS
    return name if plain else quote(name)


def float_text(value: float) -> str:
    """A float in hexadecimal, exact; infinities as ``inf``, a NaN with its bits."""
    if value != value:
        return f"nan:0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
    if value in (float("inf"), float("-inf")):
        return str(value)
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"


def _elements(array: Array) -> str:
    if array.dtype.kind == "c":
        # real and imaginary parts in turn, as they lie in memory
        return _elements(array.reshape(-1).view(array.real.dtype))
    if floating(array.dtype):
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}").tolist()
        digits = 2 * array.itemsize
        texts = [
            float_text(value) if value == value else f"nan:0x{pattern:0{digits}x}"
            for value, pattern in zip(array.reshape(-1).tolist(), bits, strict=True)
        ]
    else:
        texts = [str(value) for value in array.reshape(-1).tolist()]
    return texts[0] if array.ndim == 0 else f"({', '.join(texts)})"


def payload_text(payload: Payload, *, inline: bool = True) -> str:
    """An array: written out if it is small (and ``inline``), else its digest and type."""
    if inline and payload.type.size <= INLINE_ELEMENTS:
        return f"{payload.type} {_elements(payload.array)}"
    return f"payload #{payload.digest.hex()} {payload.type}"


def attribute_text(value: Any, *, inline: bool = True, depth: int = 0) -> str:
    """The text of an attribute's value; different values have different texts.

    Raises:
        GraphError: for anything but plain immutable data.
    """
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, DType):
        return f"@{value.name}"
    if isinstance(value, DimExpr):
        return f"dim({value})"
    if isinstance(value, Payload):
        return payload_text(value, inline=inline)
    if isinstance(value, HostFunction):
        return f"host {quote(value.name)} {value.number}"
    if isinstance(value, tuple) and depth < MAXIMUM_NESTING:
        items = [attribute_text(item, inline=inline, depth=depth + 1) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    raise GraphError(f"an attribute cannot be a {type(value).__name__}: {value!r:.60}")


def payloads_in(value: Any) -> Iterator[Payload]:
    """The arrays an attribute holds, those inside tuples included."""
    if isinstance(value, Payload):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from payloads_in(item)


def large_payloads(graph: Graph) -> dict[str, Payload]:
    """The arrays that the text names by digest only, regions included, by digest in hexadecimal."""
    result: dict[str, Payload] = {}
    for node in graph.walk():
        for value in node.attrs.values():
            for payload in payloads_in(value):
                if payload.type.size > INLINE_ELEMENTS:
                    result.setdefault(payload.digest.hex(), payload)
    return result


def payloads(graph: Graph) -> dict[str, Array]:
    """``large_payloads`` as arrays."""
    return {digest: payload.array for digest, payload in large_payloads(graph).items()}


def dims_in(value: Any) -> Iterator[DimExpr]:
    """The symbolic dims that an attribute holds, those inside tuples included."""
    if isinstance(value, DimExpr):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from dims_in(item)


def symbols_of(attribute: Any) -> set[DimExpr]:
    """The symbols that an attribute mentions; a shape is one too."""
    if not isinstance(attribute, (tuple, DimExpr)):
        return set()
    return {*expressions.symbols_of(*dims_in(attribute))}


def symbols_in(graph: Graph) -> list[DimExpr]:
    """The symbols that types and attributes mention, regions included, by name and bounds."""
    types: dict[int, TensorType] = {}
    mentioned: set[DimExpr] = set()
    stack = [graph]
    while stack:
        current = stack.pop()
        for value in current.inputs:
            types[id(value.type)] = value.type
        spoken_of = {dim for guard in current.guards for dim in guard.dims}
        mentioned |= expressions.symbols_of(*spoken_of)
        for node in current.nodes:
            for value in node.outputs:
                types[id(value.type)] = value.type
            for attribute in node.attrs.values():
                if isinstance(attribute, (tuple, DimExpr)):
                    mentioned.update(dims_in(attribute))
            stack.extend(node.regions)
    shapes = {type.shape for type in types.values()}
    mentioned.update(dim for shape in shapes for dim in shape if not isinstance(dim, int))
    return sorted(expressions.symbols_of(*mentioned), key=symbol_order)


def symbol_order(symbol: DimExpr) -> tuple[str, int, int]:
    """Sorts symbols by name, then bounds; -1 stands for no bound above."""
    lower, upper = expressions.bounds(symbol)
    return expressions.symbol_name(symbol), lower or 0, -1 if upper is None else upper


def bounds_clause(symbols: Sequence[DimExpr]) -> str:
    """The bounds of symbols, in their order; a size of at least 0 goes without saying."""
    stated = []
    for symbol in symbols:
        lower, upper = expressions.bounds(symbol)
        if (lower, upper) != (0, None):
            stated.append(f"{symbol}: {lower}..{'' if upper is None else upper}")
    return f" dims ({', '.join(stated)})" if stated else ""


def where_text(where: Location | None) -> str:
    """A place in the user's source, as clause of a line; empty if there is none."""
    if where is None:
        return ""
    text = f" at {quote(where.filename)}:{where.line}"
    if where.column is not None:
        text += f":{where.column}"
        if where.end_column is not None:
            text += f"..{where.end_column}"
    return text


def guard_text(guard: Guard) -> str:
    """A guard as a line of text, without the user's line."""
    relation = "index" if guard.index else "broadcasts" if guard.broadcasts else "equal"
    text = f"guard {relation} [{guard.left}, {guard.right}] {quote(guard.message)}"
    if guard.shown is not None:
        text += f" of [{', '.join(map(str, guard.shown))}]"
    return text


def _provenance_text(provenance: Provenance) -> str:
    where = str(provenance.where) if provenance.where is not None else "?"
    text = f"{where} {provenance.cause}"
    if provenance.parents:
        text += f" with {', '.join(map(str, provenance.parents))}"
    return " ".join(text.split())


class _Printer:
    """Collects the lines of one graph and its regions."""

    def __init__(self, provenance: bool) -> None:
        self.provenance = provenance
        self.lines: list[str] = []
        self.types: dict[TensorType, str] = {}

    def type_text(self, type: TensorType) -> str:
        text = self.types.get(type)
        if text is None:
            text = self.types[type] = str(type)
        return text

    def graph(self, graph: Graph, head: str, clause: str, indent: str) -> None:
        numbers: dict[Value, str] = {}

        def define(value: Value) -> str:
            number = numbers[value] = f"%{len(numbers)}"
            return number if value.name is None else f"{number} {quote(value.name)}"

        inputs = ", ".join(f"{define(v)}: {self.type_text(v.type)}" for v in graph.inputs)
        self.lines.append(f"{indent}{head} {quote(graph.name)}{clause} ({inputs}) {{")
        inner = indent + "  "
        for guard in graph.guards:
            where = f"  // {guard.where}" if self.provenance and guard.where is not None else ""
            self.lines.append(f"{inner}{guard_text(guard)}{where}")
        for node in graph.nodes:
            operands = ", ".join([numbers.get(value, "%?") for value in node.inputs])
            results = ", ".join([define(value) for value in node.outputs])
            types = ", ".join([self.type_text(value.type) for value in node.outputs])
            line = f"{inner}{results} = {name_text(node.op.name)}({operands}){attrs_text(node)}"
            line += f" : {types}"
            comment = f"  // {_provenance_text(node.provenance)}" if self.provenance else ""
            if not node.regions:
                self.lines.append(line + comment)
                continue
            self.lines.append(f"{line} {{{comment}")
            for region in node.regions:
                self.graph(region, "region", "", inner + "  ")
            self.lines.append(f"{inner}}}")
        outputs = ", ".join([numbers.get(value, "%?") for value in graph.outputs])
        self.lines.append(f"{inner}return {outputs}".rstrip())
        self.lines.append(f"{indent}}}")


def attrs_text(node: Node, *, inline: bool = True) -> str:
    """The attributes of a node in braces, by name; empty if there are none."""
    attrs: Mapping[str, Any] = node.attrs
    if not attrs:
        return ""
    items = [
        f"{name_text(name)} = {attribute_text(attrs[name], inline=inline)}"
        for name in sorted(attrs)
    ]
    return f" {{{', '.join(items)}}}"


@shows("text")
def print_graph(graph: Graph, *, provenance: bool = False) -> str:
    """The text of a graph, ending in a newline; ``parse_graph`` reads it back.

    With ``provenance`` every node's line ends in a comment that says where it comes from. Constants
    of more than 16 elements are named by digest, see ``payloads``.

    Raises:
        GraphError: for attributes that are not plain data.
    """
    printer = _Printer(provenance)
    printer.graph(graph, "graph", bounds_clause(symbols_in(graph)), "")
    return "\n".join(printer.lines) + "\n"
