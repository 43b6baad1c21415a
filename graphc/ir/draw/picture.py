"""What there is to draw of a graph: vertices of a few kinds, and the values that flow between them.

Invariant: vertices are in topological order, so every edge goes from a smaller number to a larger.
The same picture serves networkx, DOT, SVG and the report, so they agree on kinds and labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from graphc.base.source import Location
from graphc.ir.graph import Graph, Node
from graphc.ir.recorder import Recorder, producer_of
from graphc.ir.text.printer import attrs_text
from graphc.ir.value import Value

Kind = Literal["input", "parameter", "constant", "operation", "fused", "control"]

KINDS: dict[Kind, str] = {
    "input": "input",
    "parameter": "variable",
    "constant": "constant",
    "operation": "operation",
    "fused": "fused kernel",
    "control": "branch or loop",
}
"""Every kind and what legends call it."""

_SOURCES: dict[str, Kind] = {
    "placeholder": "input",
    "variable": "parameter",
    "constant": "constant",
}
WIDEST = 30
"""Labels are cut to this many characters."""


@dataclass(frozen=True, slots=True, eq=False)
class Vertex:
    """Something drawn as one shape.

    Attributes:
        kind: decides shape and colour.
        title: the name of an input or the operation.
        detail: types of what it gives.
        where: the user's line.
        outputs: the values it gives.
        node: the node; None for an input of the graph.
        results: which outputs of the graph it gives, by number.
    """

    kind: Kind
    title: str
    detail: str
    where: Location | None
    outputs: tuple[Value, ...]
    node: Node | None
    results: tuple[int, ...] = ()

    @property
    def op(self) -> str:
        """The operation's name; "input" for inputs."""
        return "input" if self.node is None else self.node.op.name

    @property
    def name(self) -> str | None:
        """The first label among its values."""
        return next((value.name for value in self.outputs if value.name is not None), None)


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """A value that one vertex gives and another takes as its operand of that number."""

    source: int
    target: int
    operand: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A graph as vertices and edges."""

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]


def picture_of(graph: Graph | Recorder) -> Picture:
    """The picture of a frozen graph, or of all that was recorded so far."""
    outputs: Sequence[Value] = getattr(graph, "outputs", ())
    results: dict[Value, list[int]] = {}
    for number, value in enumerate(outputs):
        results.setdefault(value, []).append(number)

    def numbers(values: Iterable[Value]) -> tuple[int, ...]:
        return tuple(number for value in values for number in results.get(value, ()))

    vertices: list[Vertex] = []
    edges: list[Edge] = []
    made_by: dict[Value, int] = {}
    for value in graph.inputs:
        made_by[value] = len(vertices)
        origin = producer_of(value)
        kind = _SOURCES.get(origin.op.name, "input") if origin is not None else "input"
        where = origin.provenance.where if origin is not None else None
        title = value.name or "input"
        vertices.append(
            Vertex(kind, title, str(value.type), where, (value,), None, numbers((value,)))
        )
    for node in graph.nodes:
        number = len(vertices)
        for operand, value in enumerate(node.inputs):
            if value in made_by:
                edges.append(Edge(made_by[value], number, operand, value))
        for value in node.outputs:
            made_by[value] = number
        vertices.append(_vertex(node, numbers(node.outputs)))
    return Picture(graph.name, tuple(vertices), tuple(edges))


def kind_of(node: Node) -> Kind:
    """How a node is drawn."""
    if not node.regions:
        return _SOURCES.get(node.op.name, "operation")
    return "fused" if node.op.name == "fused" else "control"


def _vertex(node: Node, results: tuple[int, ...]) -> Vertex:
    kind = kind_of(node)
    name = node.outputs[0].name
    title = node.op.name
    if kind == "constant":
        title = _constant_title(node)
    elif kind == "fused":
        inner = node.regions[0].nodes
        title = f"fused {inner[0].op.name}" if len(inner) == 1 else f"fused · {len(inner)} nodes"
    elif name is not None:
        title = name if kind in ("input", "parameter") else f"{node.op.name} · {name}"
    detail = ", ".join(value.type.brief() for value in node.outputs[:3])
    if len(node.outputs) > 3:
        detail += f", … {len(node.outputs) - 3} more"
    return Vertex(kind, title, detail, node.provenance.where, node.outputs, node, results)


def _constant_title(node: Node) -> str:
    """A constant's value where it is one number, in decimal, since people read it."""
    payload = node.attrs.get("value")
    array = getattr(payload, "array", None)
    if array is None or array.size != 1:
        return "constant"
    return str(array.reshape(-1)[0])


def shortened(text: str, width: int = WIDEST) -> str:
    """The text, its middle left out if it is long; control characters shown as blanks."""
    clean = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    half = (width - 1) // 2
    return clean if len(clean) <= width else f"{clean[:half]}…{clean[-half:]}"


def described(vertex: Vertex) -> str:
    """Lines about a vertex, for tooltips: what it computes, its attributes, the user's line."""
    lines = [f"{vertex.op}: {', '.join(str(value.type) for value in vertex.outputs)}"]
    if vertex.name is not None:
        lines.append(f"name {vertex.name!r}")
    if vertex.node is not None and vertex.node.attrs:
        lines.append(attrs_text(vertex.node).strip())
    if vertex.node is not None and vertex.kind == "fused":
        lines.append(" → ".join(node.op.name for node in vertex.node.regions[0].nodes[:40]))
    if vertex.where is not None:
        lines.append(str(vertex.where))
        lines.extend(filter(None, [vertex.where.source_line().strip()]))
    return "\n".join(lines)
