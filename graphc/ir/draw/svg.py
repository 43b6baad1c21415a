"""Pictures as SVG, and the shapes and colours that the report shares with it.

Invariant: the text is well-formed XML whatever users called their values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphc.ir.draw.layout import HEIGHT, Placement, layered
from graphc.ir.draw.picture import (
    KINDS,
    Kind,
    Picture,
    Vertex,
    described,
    picture_of,
    shortened,
)
from graphc.ir.graph import Graph
from graphc.ir.recorder import Recorder
from graphc.ir.showing import shows

SHAPES: dict[Kind, str] = {
    "input": "M26 0 LW-26 0 AR26 0 0 1 W-26 52 L26 52 AR26 0 0 1 26 0 Z",
    "parameter": "M16 0 LW-16 0 LW 26 LW-16 52 L16 52 L0 26 Z",
    "constant": "M0 0 LW-12 0 LW 12 LW 52 L0 52 Z",
    "operation": "M8 0 LW-8 0 AR8 0 0 1 W 8 LW 44 AR8 0 0 1 W-8 52 L8 52 AR8 0 0 1 0 44 "
    "L0 8 AR8 0 0 1 8 0 Z",
    "fused": "M0 0 LW 0 LW 52 L0 52 Z M4 4 LW-4 4 LW-4 48 L4 48 Z",
    "control": "M14 0 LW-14 0 LW 14 LW 38 LW-14 52 L14 52 L0 38 L0 14 Z",
}
"""The outline of each kind as an SVG path; W stands for the width, R before a radius for itself
twice."""

COLOURS: dict[Kind, tuple[str, str, str, str]] = {
    "input": ("#d9f2e6", "#1d7a55", "#12382a", "#4fc795"),
    "parameter": ("#fbe8cf", "#a85b00", "#412a0c", "#eda84e"),
    "constant": ("#eceef1", "#69727f", "#282d35", "#98a2b0"),
    "operation": ("#e2ecfb", "#2b62b8", "#1a2a44", "#7eaef5"),
    "fused": ("#ece4fa", "#6a3fb5", "#2c2146", "#b596f0"),
    "control": ("#fbe1e6", "#b02a48", "#43192a", "#f08aa2"),
}
"""Fill and outline of each kind, on light ground and on dark."""

MARGIN = 16
LEGEND = 34
_WIDTH_VARIABLE = re.compile(r"W(-\d+)?")
_RADIUS = re.compile(r"AR(\d+)")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Box:
    """The lines of text in a vertex, and its width in pixels."""

    title: str
    detail: str
    place: str
    width: int


def box_of(vertex: Vertex) -> Box:
    """What stands in a vertex; characters are taken to be as wide as those of monospaced fonts."""
    title, detail = shortened(vertex.title), shortened(vertex.detail)
    place = "" if vertex.where is None else shortened(vertex.where.brief)
    width = max(len(title) * 7.5, len(detail) * 6.2, len(place) * 6.2) + 32
    return Box(title, detail, place, max(72, round(width)))


def outline(kind: Kind, width: int) -> str:
    """The path of a shape of that width, at the origin."""
    path = _RADIUS.sub(r"A\1 \1", SHAPES[kind])
    return _WIDTH_VARIABLE.sub(lambda found: str(width + int(found[1] or 0)), path)


def text(value: str) -> str:
    """A string as XML text or attribute; what XML cannot hold is replaced."""
    clean = _CONTROL.sub("\ufffd", value)
    return (
        clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


@shows("svg")
def svg_of(graph: Graph | Recorder) -> str:
    """The drawing of a graph, with a legend; hovering a shape tells more about it."""
    picture = picture_of(graph)
    boxes = [box_of(vertex) for vertex in picture.vertices]
    placement = layered(
        [box.width for box in boxes], [(edge.source, edge.target) for edge in picture.edges]
    )
    kinds = [kind for kind in KINDS if any(v.kind == kind for v in picture.vertices)]
    legend, legend_width = _legend(kinds)
    width = max(placement.width, legend_width) + 2 * MARGIN
    height = placement.height + 2 * MARGIN + LEGEND
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace">',
        f"<title>{text(picture.name)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<g transform="translate({MARGIN} {MARGIN})">',
        *legend,
        "</g>",
        f'<g transform="translate({MARGIN} {MARGIN + LEGEND})">',
        *_edges(picture, boxes, placement),
    ]
    for vertex, box, x, y in zip(picture.vertices, boxes, placement.x, placement.y, strict=True):
        lines += _shape(vertex, box, x, y)
    return "\n".join((*lines, "</g>", "</svg>", ""))


def _edges(picture: Picture, boxes: list[Box], placement: Placement) -> list[str]:
    lines = ['<g fill="none" stroke="#8a94a3" stroke-width="1.2">']
    for number, edge in enumerate(picture.edges):
        if placement.is_long(edge.source, edge.target):
            continue
        start = placement.x[edge.source] + boxes[edge.source].width / 2
        end = placement.x[edge.target] + boxes[edge.target].width / 2
        points: list[tuple[float, float]] = [
            (start, placement.y[edge.source] + HEIGHT),
            *placement.bends.get(number, ()),
            (end, placement.y[edge.target]),
        ]
        lines.append(f'<path d="{curve(points)}"/>')
    return [*lines, "</g>", *_stubs(picture, boxes, placement)]


def _stubs(picture: Picture, boxes: list[Box], placement: Placement) -> list[str]:
    """What stands for edges that would cross most of the drawing: where they come from, by name."""
    origins: dict[int, dict[str, None]] = {}
    lines = ['<g fill="none" stroke="#8a94a3" stroke-dasharray="2 2" font-size="10">']
    for edge in picture.edges:
        if placement.is_long(edge.source, edge.target):
            start = placement.x[edge.source] + boxes[edge.source].width / 2
            end = placement.x[edge.target] + boxes[edge.target].width / 2
            from_y, to_y = placement.y[edge.source] + HEIGHT, placement.y[edge.target]
            lines.append(f'<path d="M{start:g} {from_y}v14M{end:g} {to_y}v-14"/>')
            origins.setdefault(edge.target, {})[boxes[edge.source].title] = None
    for target, titles in origins.items():
        x, y = placement.x[target] + 2, placement.y[target] - 9
        content = text(shortened(f"↑ {', '.join(titles)}"))
        lines.append(f'<text x="{x}" y="{y}" fill="#6b7482" stroke="none">{content}</text>')
    return [*lines, "</g>"] if origins else []


def curve(points: list[tuple[float, float]]) -> str:
    """A path through points that leaves and enters each of them vertically."""
    (x, y), *rest = points
    path = [f"M{x:g} {y:g}"]
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        path.append(f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}")
        x, y = to_x, to_y
    return " ".join(path)


def _shape(vertex: Vertex, box: Box, x: int, y: int) -> list[str]:
    fill, stroke, _, _ = COLOURS[vertex.kind]
    middle = box.width / 2
    lines = [
        f'<g class="{vertex.kind}" transform="translate({x} {y})">',
        f"<title>{text(described(vertex))}</title>",
        f'<path d="{outline(vertex.kind, box.width)}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{2.4 if vertex.results else 1.2}"/>',
    ]
    for content, line, size, colour in (
        (box.title, 17, 12, "#1b1f26"),
        (box.detail, 31, 10, "#4a5260"),
        (box.place, 44, 10, "#6b7482"),
    ):
        if content:
            lines.append(
                f'<text x="{middle:g}" y="{line}" font-size="{size}" fill="{colour}" '
                f'text-anchor="middle">{text(content)}</text>'
            )
    return [*lines, "</g>"]


def _legend(kinds: list[Kind]) -> tuple[list[str], int]:
    lines: list[str] = []
    x = 0
    for kind in kinds:
        fill, stroke, _, _ = COLOURS[kind]
        lines.append(
            f'<path d="{outline(kind, 60)}" transform="translate({x} 0) scale(0.34)" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="3"/>'
        )
        lines.append(
            f'<text x="{x + 27}" y="13" font-size="11" fill="#4a5260">{text(KINDS[kind])}</text>'
        )
        x += 27 + round(len(KINDS[kind]) * 6.8) + 22
    return lines, x
