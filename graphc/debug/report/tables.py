"""The graphs of a compilation as tables of plain data, each value, node, line and graph once.

Invariant: everything is a number, a string or a list of those. A value keeps its number through all
passes, so that it can be followed; equal nodes of different graphs are one entry.
"""

from __future__ import annotations

from typing import Any

from graphc.base.source import Location
from graphc.debug.report.diff import Run, rows_between
from graphc.ir.draw.layout import layered
from graphc.ir.draw.picture import KINDS, Picture, Vertex, kind_of, picture_of, shortened
from graphc.ir.draw.svg import box_of
from graphc.ir.graph import Graph, Node
from graphc.ir.text.printer import attrs_text
from graphc.ir.value import Value

_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
LONGEST_TEXT = 400
"""Attributes of more characters are shown in part."""


class Tables:
    """What the page's script reads; entries are referred to by their places in the lists.

    Attributes:
        values: [name, type, place of the user's line or -1]
        nodes: [op, attributes, operands (values), results (values), regions (graphs), line, cause,
            further lines, kind, title]; operand -1 is not defined in the graph
        lines: [file, line, text]
        graphs: {name, inputs, nodes, outputs, and the drawing: x, y, width of each input and node,
            bends by edge, size}
        diffs: for "before:after" the runs of rows.
    """

    def __init__(self) -> None:
        self.values: list[list[Any]] = []
        self.nodes: list[list[Any]] = []
        self.lines: list[list[Any]] = []
        self.graphs: list[dict[str, Any]] = []
        self.diffs: dict[str, list[Run]] = {}
        self._value_of: dict[Value, int] = {}
        self._node_of: dict[str, int] = {}
        self._contents: list[int] = []
        self._content_of: dict[str, int] = {}
        self._line_of: dict[tuple[str, int], int] = {}
        # graphs and nodes are known by identity, so they are kept alive
        self._graph_of: dict[int, int] = {}
        self._graphs: list[Graph] = []
        self._seen: dict[int, tuple[Node, int]] = {}

    def line(self, where: Location | None) -> int:
        """The number of a user's line; -1 for none."""
        if where is None:
            return -1
        key = (where.filename, where.line)
        if key not in self._line_of:
            self._line_of[key] = len(self.lines)
            self.lines.append([where.filename, where.line, where.source_line().strip()])
        return self._line_of[key]

    def value(self, value: Value, where: Location | None = None) -> int:
        """The number of a value."""
        number = self._value_of.get(value)
        if number is None:
            number = self._value_of[value] = len(self.values)
            self.values.append([value.name, value.type.brief(), self.line(where)])
        return number

    def graph(self, graph: Graph) -> int:
        """The number of a graph; its regions get theirs before it."""
        known = self._graph_of.get(id(graph))
        if known is not None:
            return known
        # regions are nested at most MAXIMUM_NESTING deep, so this recursion is bounded
        picture = picture_of(graph)
        inputs = [vertex for vertex in picture.vertices if vertex.node is None]
        rest = picture.vertices[len(inputs) :]
        entry = {
            "name": graph.name,
            "inputs": [[self.value(v.outputs[0], v.where), _KIND_NUMBERS[v.kind]] for v in inputs],
            "nodes": [self._node(vertex) for vertex in rest],
            "outputs": [self.value(value) for value in graph.outputs],
            **_drawing(picture),
        }
        number = self._graph_of[id(graph)] = len(self.graphs)
        self._graphs.append(graph)
        self.graphs.append(entry)
        return number

    def _node(self, vertex: Vertex) -> int:
        node = vertex.node
        assert node is not None
        seen = self._seen.get(id(node))
        if seen is not None:
            return seen[1]
        provenance = node.provenance
        line = self.line(provenance.where)
        attributes = attrs_text(node).strip()
        if len(attributes) > LONGEST_TEXT:
            attributes = f"{attributes[:LONGEST_TEXT]} …"
        entry = [
            node.op.name,
            attributes,
            [self.value(value) for value in node.inputs],
            [self.value(value, provenance.where) for value in node.outputs],
            [self.graph(region) for region in node.regions],
            line,
            provenance.cause,
            [self.line(where) for where in provenance.parents[:8]],
            _KIND_NUMBERS[kind_of(node)],
            shortened(vertex.title),
        ]
        key = repr(entry)
        number = self._node_of.get(key)
        if number is None:
            number = self._node_of[key] = len(self.nodes)
            self.nodes.append(entry)
            definition = repr(entry[:5])
            self._contents.append(self._content_of.setdefault(definition, len(self._content_of)))
        self._seen[id(node)] = node, number
        return number

    def compare(self, before: int, after: int) -> None:
        """Finds the rows between two graphs, and between the regions of nodes on both sides."""
        pending = [(before, after)]
        while pending:
            left, right = pending.pop()
            key = f"{left}:{right}"
            if key in self.diffs:
                continue
            old, new = self._first(left), self._first(right)
            self.diffs[key] = rows_between(
                [(value, self._contents[node]) for value, node in old],
                [(value, self._contents[node]) for value, node in new],
            )
            regions = {value: self.nodes[node][4] for value, node in old}
            for value, node in new:
                pending += zip(regions.get(value, ()), self.nodes[node][4], strict=False)

    def _first(self, graph: int) -> list[tuple[int, int]]:
        """The first output and the number of each node."""
        return [(self.nodes[number][3][0], number) for number in self.graphs[graph]["nodes"]]


def _drawing(picture: Picture) -> dict[str, Any]:
    widths = [box_of(vertex).width for vertex in picture.vertices]
    placement = layered(widths, [(edge.source, edge.target) for edge in picture.edges])
    bends = {
        f"{picture.edges[number].target}.{picture.edges[number].operand}": points
        for number, points in placement.bends.items()
    }
    return {
        "x": placement.x,
        "y": placement.y,
        "w": widths,
        "bends": bends,
        "size": [placement.width, placement.height],
    }
