"""Models whose reports tests look at, and reading a report without a browser."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gx

HOSTILE = '</script><script>fault()</script><!--<b onclick="x">&amp;\'\\n$DATA'
LARGE = 3000


def small_model(name: str = "small") -> gx.Executable:
    """About 30 nodes: two layers, softmax, a branch; variables and symbolic sizes."""
    rng = np.random.default_rng(0)
    with gx.Graph(name) as graph:
        x = gx.placeholder(("batch", 16), name="x")
        h = x
        for number, (rows, columns) in enumerate([(16, 32), (32, 8)]):
            w = gx.variable(rng.normal(size=(rows, columns)).astype("float32"), name=f"w{number}")
            h = gx.tanh(h @ w + gx.variable(np.zeros(columns, "float32"), name=f"b{number}"))
        p = gx.nn.softmax(h) * 1.0
        least = -gx.max(p, axis=1)
        q = gx.log(gx.sum(gx.exp(h), axis=1)) - -least
        y = gx.cond(gx.sum(q) > 0, lambda: q * 2.0, lambda: q - 1.0)
    return gx.Session(graph).compile(y, [x])


def large_model(nodes: int) -> gx.Executable:
    """A deep graph with skips over many layers, its names and lines hostile."""
    with gx.Graph(HOSTILE) as graph:
        x = gx.placeholder((8, 16), name=HOSTILE)
        weights = [gx.variable(np.eye(16, dtype="float32"), name=f"w{n}") for n in range(20)]
        value = x
        skips = [x]
        number = 0
        while len(graph.nodes) < nodes:
            if number % 6 == 0:
                value = value @ weights[number // 6 % len(weights)]
            value = gx.tanh(value * 1.0 + skips[(number * 7) % len(skips)])
            value = value - gx.mean(value, axis=1, keepdims=True)  # </script><b>
            value = gx.nn.softmax(value) * 2.0
            skips.append(value)
            number += 1
        y = gx.sum(value)
    return gx.Session(graph).compile(y, [x])


class _Elements(HTMLParser):
    """The elements of a page and the content of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self._script = (given.get("id") or "code") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def read(path: Path) -> tuple[_Elements, dict[str, Any], list[list[str]]]:
    """The elements of a report, its data, and the texts of its kernels."""
    page = _Elements()
    page.feed(path.read_text(encoding="utf-8"))
    texts = json.loads(zlib.decompress(base64.b64decode(page.scripts["texts"])))
    return page, json.loads(page.scripts["data"]), texts
