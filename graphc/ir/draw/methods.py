"""The methods by which graphs of both kinds, recorded and frozen, are drawn and handed on.

Drawing is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

    from graphc.ir.graph import Graph
    from graphc.ir.recorder import Recorder


def to_networkx(graph: Graph | Recorder) -> networkx.MultiDiGraph[int]:
    """The graph for networkx: nodes numbered in topological order, an edge for each operand.

    Attributes of nodes: ``op``, ``kind`` ("input", "parameter", "constant", "operation",
    "fused" or "control"), ``name``, ``type``, ``where``, ``outputs``, ``results``; of edges:
    ``operand``, ``value``, ``type``.
    """
    from graphc.ir.draw.export import networkx_of

    return networkx_of(graph)


def to_dot(graph: Graph | Recorder) -> str:
    """The graph in Graphviz's language."""
    from graphc.ir.draw.export import dot_of

    return dot_of(graph)


def to_svg(graph: Graph | Recorder) -> str:
    """The graph drawn, as the text of an SVG file."""
    from graphc.ir.draw.svg import svg_of

    return svg_of(graph)


def to_html(graph: Graph | Recorder) -> str:
    """The graph drawn, as HTML for notebooks."""
    from graphc.ir.draw.html import html_of

    return html_of(graph)
