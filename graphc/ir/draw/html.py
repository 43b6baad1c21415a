"""What notebooks show of a graph: its drawing, or a summary where a drawing would be too large."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.draw.svg import svg_of, text
from graphc.ir.graph import Graph
from graphc.ir.recorder import Recorder
from graphc.ir.showing import shows

LARGEST = 300
"""Graphs of more nodes are not drawn in notebooks."""


@shows("html")
def html_of(graph: Graph | Recorder) -> str:
    """A heading and the drawing, in a box that scrolls."""
    parts = [f"<div><code>{text(repr(graph))}</code>"]
    if len(graph.nodes) > LARGEST:
        counts: dict[str, int] = {}
        for node in graph.nodes:
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
        rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        parts.append(f"<p>Graphs of more than {LARGEST} nodes are not drawn. Operations:</p>")
        parts.append(table(("operation", "nodes"), [(name, str(n)) for name, n in rows]))
    else:
        parts.append(f'<div style="overflow:auto;max-height:640px">{svg_of(graph)}</div>')
    return "\n".join((*parts, "</div>"))


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of texts, which are escaped."""
    lines = ["<table>", "<tr>" + "".join(f"<th>{text(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join((*lines, "</table>"))
