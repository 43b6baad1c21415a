"""A run as a picture: for each workload graphc's time over each peer's, on a logarithmic axis.

Plain SVG text. Left of the line at 1 graphc is faster. The peer to beat has the larger dot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.conductor import Measurement
from benchmarks.figures import best, ratio
from benchmarks.peers import OWNS
from benchmarks.workloads.base import Workload

_ROW, _LEFT, _WIDTH, _RIGHT = 22, 170, 620, 30
_LEGEND_TOP, _LEGEND_ROW = 38, 18
_LEAST, _MOST = 1 / 64, 4.0
_TICKS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 4)
_COLOURS = (
    "#1b6ca8", "#d1495b", "#3a7d44", "#8f6bb3", "#c98b1b",
    "#4aa3a2", "#7a4b2a", "#5b6770", "#b04a8b", "#2f2f7f",
)  # fmt: skip


def drawn(measured: Sequence[tuple[Workload, Mapping[str, Measurement]]], threads: int) -> str:
    """The SVG file's text."""
    peers: list[str] = []
    for _, results in measured:
        peers += [p for p in results if p not in OWNS and p not in peers]
    colours = {peer: _COLOURS[n % len(_COLOURS)] for n, peer in enumerate(peers)}
    legend, rows = _legend(colours)
    top = _LEGEND_TOP + _LEGEND_ROW * rows + 8
    height = top + _ROW * len(measured) + 40
    width = _LEFT + _WIDTH + _RIGHT
    count = "one thread" if threads == 1 else f"{threads} threads"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="14" fill="#222222">graphc\'s time over each '
        f"peer's, {count}: left of 1 graphc is faster</text>",
        *legend,
        *_axis(top, top + _ROW * len(measured)),
    ]
    for number, (workload, results) in enumerate(measured):
        parts += _line(top + _ROW * number, workload, results, colours)
    return "\n".join((*parts, "</svg>", ""))


def _place(share: float) -> float:
    held = min(max(share, _LEAST), _MOST)
    return _LEFT + _WIDTH * math.log(held / _LEAST) / math.log(_MOST / _LEAST)


def _legend(colours: Mapping[str, str]) -> tuple[list[str], int]:
    """Which colour is which peer, and in how many rows that is written."""
    parts, x, rows = [], _LEFT, 1
    for peer, colour in colours.items():
        length = 28 + 7 * len(peer)
        if x + length > _LEFT + _WIDTH + _RIGHT:
            x, rows = _LEFT, rows + 1
        y = _LEGEND_TOP + _LEGEND_ROW * (rows - 1)
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 9}" y="{y + 4}" fill="#222222">{escape(peer)}</text>')
        x += length
    return parts, rows


def _axis(top: int, bottom: int) -> list[str]:
    parts = []
    for tick in _TICKS:
        x = _place(tick)
        name = str(int(tick)) if tick >= 1 else f"1/{round(1 / tick)}"
        colour = "#222222" if tick == 1 else "#dddddd"
        parts.append(
            f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#222222">{name}</text>'
        )
    return parts


def _line(
    top: int,
    workload: Workload,
    results: Mapping[str, Measurement],
    colours: Mapping[str, str],
) -> list[str]:
    y = top + _ROW / 2
    leader = best(results)
    parts = [
        f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end" fill="#222222">'
        f"{escape(workload.name)}</text>"
    ]
    for peer, colour in colours.items():
        share = ratio(results, peer)
        if share is None:
            continue
        radius = 6 if leader is not None and leader.peer == peer else 4
        parts.append(
            f'<circle cx="{_place(share):.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">'
            f"<title>{escape(workload.name)}: {share:.2f} of {escape(peer)}</title></circle>"
        )
    return parts
