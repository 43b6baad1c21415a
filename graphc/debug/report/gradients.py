"""The page of gradients by layer: a table with bars, without a script."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from graphc.base.paths import FileUse, check_writable
from graphc.debug.report.page import style
from graphc.ir.draw.svg import text

_DECADES = 12
"""Powers of ten that a bar shows, up to the largest one."""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$TITLE</title>
<style>
$STYLE
body { overflow: auto; padding: 1.5rem; }
td, th { padding: .2rem .8rem; text-align: right; }
td:first-child, th:first-child, td:last-child { text-align: left; }
.bar { width: 14rem; }
.bar span { display: block; height: .8rem; background: var(--block); }
.marked td { background: var(--removed); }
</style>
</head>
<body>
<h1>$TITLE</h1>
<p>Bars show powers of ten of the root mean square, $DECADES of them up to the largest one.</p>
<table>
$ROWS
</table>
</body>
</html>
"""


def write_gradients(
    path: str | os.PathLike[str], title: str, table: Sequence[Sequence[str]], sizes: Sequence[float]
) -> None:
    """Writes the page.

    Args:
        path: the file.
        title: of the page.
        table: its head and a row for each layer; the last cell says what is to be said of it.
        sizes: for each layer that of its gradient, which the bars show.

    Raises:
        GraphError: for what is no path.
        FileError: if the file can't be written.
    """
    check_writable(path, "a report")
    with FileUse(path, "a report", "written") as name:
        Path(name).write_text(_page(title, table, sizes), encoding="utf-8")


def _page(title: str, table: Sequence[Sequence[str]], sizes: Sequence[float]) -> str:
    """The HTML of the page; all texts are escaped."""
    head, *rows = table
    logs = [math.log10(size) if size > 0 else -math.inf for size in sizes]
    top = max(logs, default=0.0)
    lines = [_line([*map(text, head[:-1]), "", text(head[-1])], "th", "")]
    for row, size in zip(rows, logs, strict=True):
        share = max(0.0, 1 - (top - size) / _DECADES) if math.isfinite(size) else 0.0
        bar = f'<span style="width: {share:.1%}"></span>'
        cells = [*map(text, row[:-1]), bar, text(row[-1])]
        lines.append(_line(cells, "td", ' class="marked"' if row[-1] else ""))
    parts = {
        "TITLE": text(title),
        "STYLE": style(),
        "DECADES": str(_DECADES),
        "ROWS": "\n".join(lines),
    }
    return re.sub(r"\$([A-Z]+)", lambda mark: parts[mark[1]], _PAGE)


def _line(cells: list[str], kind: str, attribute: str) -> str:
    """A row of a table; the cell before the last has a bar."""
    last = len(cells) - 2
    made = [
        f'<{kind}{" class=bar" if place == last else ""}>{cell}</{kind}>'
        for place, cell in enumerate(cells)
    ]
    return f"<tr{attribute}>{''.join(made)}</tr>"


__all__ = ["write_gradients"]
