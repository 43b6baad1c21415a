"""The page: data, styles and script put together in one file.

Invariant: nothing a user named becomes markup. Data is JSON whose ``<`` and ``&`` are escaped,
kernels' texts are compressed base64, and the page's policy runs no script but its own and loads
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from graphc.ir.draw.picture import KINDS
from graphc.ir.draw.svg import COLOURS, text

SCRIPTS = ("model.js", "drawing.js", "passes.js", "kernels.js", "memory.js", "app.js")

# name: light, dark
_PALETTE = {
    "ground": ("#ffffff", "#14171c"),
    "paper": ("#f7f8fa", "#1a1e25"),
    "ink": ("#1b1f26", "#e3e7ed"),
    "quiet": ("#5f6876", "#98a2b1"),
    "line": ("#d9dde3", "#323844"),
    "faint": ("#eceef1", "#252a33"),
    "hover": ("#eff2f6", "#222832"),
    "track": ("#e8ebef", "#2a303a"),
    "accent": ("#2b62b8", "#7eaef5"),
    "pick": ("#e2ecfb", "#1f3152"),
    "edge": ("#9aa4b2", "#5d6877"),
    "hit": ("#ffe58a", "#6b5510"),
    "hit-ink": ("#c99700", "#f0c64a"),
    "added": ("#dff5e3", "#173524"),
    "added-ink": ("#1f8a43", "#57c97c"),
    "removed": ("#fde4e4", "#42201f"),
    "removed-ink": ("#c4312c", "#f2817b"),
    "changed": ("#fdf0cc", "#3d3210"),
    "changed-ink": ("#a97a00", "#e0b440"),
    "moved": ("#ece7f8", "#2b2640"),
    "moved-ink": ("#6b54b0", "#ac97ea"),
    "block": ("#7ea6dd", "#40689e"),
    "block-2": ("#c3c9d2", "#5a6370"),
    "block-3": ("#8ec5a4", "#3f7a58"),
    "block-ink": ("#10151d", "#f1f4f8"),
}


def page_of(content: Mapping[str, Any], kernel_texts: Sequence[Sequence[str]]) -> str:
    """The HTML of a report."""
    script = "\n".join(_asset(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    packed = zlib.compress(json.dumps(kernel_texts).encode("ascii"), 9)
    parts = {
        "SCRIPT_HASH": f"'sha256-{digest}'",
        "TITLE": text(f"graphc report: {content['title']}"),
        "STYLE": style(),
        "DATA": embedded(content),
        "TEXTS": base64.b64encode(packed).decode("ascii"),
        "SCRIPT": script,
    }
    return re.sub(r"\$([A-Z_]+)", lambda found: parts[found[1]], _asset("page.html"))


def embedded(data: Any) -> str:
    """JSON that can stand in a script element whatever strings it holds."""
    written = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (resources.files("graphc.debug.report") / "assets" / name).read_text(encoding="utf-8")


def style() -> str:
    """The styles of pages."""
    palette = dict(_PALETTE)
    for number, kind in enumerate(KINDS):
        fill, stroke, dark_fill, dark_stroke = COLOURS[kind]
        palette |= {f"k{number}": (fill, dark_fill), f"k{number}-line": (stroke, dark_stroke)}
    light, dark = (
        " ".join(f"--{name}: {colours[side]};" for name, colours in palette.items())
        for side in (0, 1)
    )
    rules = [_asset("page.css").replace("$LIGHT", light).replace("$DARK", dark)]
    rules += [
        f".k{number} .shape {{ fill: var(--k{number}); stroke: var(--k{number}-line); }}"
        for number in range(len(KINDS))
    ]
    rules += [
        f".k{number}.far-kind .shape {{ fill: var(--k{number}-line); }}"
        for number in range(len(KINDS))
    ]
    rules += [
        f".legend .mark-{mark} "
        f"{{ background: var(--{mark}); border: 1.5px solid var(--{mark}-ink); }}"
        for mark in ("added", "removed", "changed", "moved")
    ]
    rules += [
        f".legend .key-{name} {{ background: var(--{colour}); }}"
        for name, colour in (("temporary", "block"), ("scratch", "block-2"), ("shared", "block-3"))
    ]
    rules += [
        f".legend .key-{name} {{ height: 2px; background: var(--{colour}); }}"
        for name, colour in (("use", "ink"), ("bound", "removed-ink"))
    ]
    return "\n".join(rules)
