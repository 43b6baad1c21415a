"""Pictures for other tools: networkx graphs and Graphviz's DOT.

Invariant: the DOT text is well-formed whatever users called their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphc.ir.draw.picture import Kind, described, picture_of
from graphc.ir.draw.svg import COLOURS, box_of
from graphc.ir.graph import Graph
from graphc.ir.recorder import Recorder
from graphc.ir.showing import shows

if TYPE_CHECKING:
    import networkx

_DOT_SHAPES: dict[Kind, str] = {
    "input": "oval",
    "parameter": "hexagon",
    "constant": "note",
    "operation": "box",
    "fused": "box3d",
    "control": "octagon",
}


@shows("networkx")
def networkx_of(graph: Graph | Recorder) -> networkx.MultiDiGraph[int]:
    """The graph for networkx.

    Nodes are numbered in topological order, inputs first. Their attributes: ``op``, ``kind``,
    ``name``, ``type``, ``where`` ("file:line" or None), ``outputs`` (the values) and ``results``
    (which outputs of the graph they give). Edges have ``operand`` (its number), ``value`` and
    ``type``; a node that takes a value twice has two.
    """
    import networkx

    picture = picture_of(graph)
    result: networkx.MultiDiGraph[int] = networkx.MultiDiGraph(name=picture.name)
    for number, vertex in enumerate(picture.vertices):
        result.add_node(
            number,
            op=vertex.op,
            kind=vertex.kind,
            name=vertex.name,
            type=", ".join(str(value.type) for value in vertex.outputs),
            where=None if vertex.where is None else str(vertex.where),
            outputs=vertex.outputs,
            results=vertex.results,
        )
    for edge in picture.edges:
        result.add_edge(
            edge.source,
            edge.target,
            operand=edge.operand,
            value=edge.value,
            type=str(edge.value.type),
        )
    return result


@shows("dot")
def dot_of(graph: Graph | Recorder) -> str:
    """The graph in Graphviz's language."""
    picture = picture_of(graph)
    lines = [
        f"digraph {_quoted(picture.name)} {{",
        '  node [fontname="monospace", fontsize=11, style=filled];',
        '  edge [color="#8a94a3"];',
    ]
    for number, vertex in enumerate(picture.vertices):
        fill, stroke, _, _ = COLOURS[vertex.kind]
        box = box_of(vertex)
        label = "\n".join(filter(None, (box.title, box.detail, box.place)))
        width = ", penwidth=2.4" if vertex.results else ""
        lines.append(
            f"  n{number} [label={_quoted(label)}, tooltip={_quoted(described(vertex))}, "
            f'shape={_DOT_SHAPES[vertex.kind]}, fillcolor="{fill}", color="{stroke}"{width}];'
        )
    for edge in picture.edges:
        lines.append(f"  n{edge.source} -> n{edge.target};")
    return "\n".join((*lines, "}", ""))


def _quoted(text: str) -> str:
    """A string of DOT; what cannot be written in UTF-8, and NUL, is replaced."""
    clean = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    escaped = clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
