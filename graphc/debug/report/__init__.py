"""Reports: one HTML page that shows a whole compilation, for reading in a browser.

``content`` gathers what there is to show as plain data, ``page`` puts it into one file together
with the script in ``assets/``. The page needs no network and runs in any recent browser.
"""

from __future__ import annotations

import os
from pathlib import Path

from graphc.base.paths import FileUse
from graphc.compiling.compiled import Compiled
from graphc.debug.profile import Profile
from graphc.debug.report.content import content_of, kernel_texts
from graphc.debug.report.page import page_of


def write_report(
    compiled: Compiled, path: str | os.PathLike[str], profile: Profile | None = None
) -> None:
    """Writes the report of a compilation to a file, which whoever compiled has checked before.

    Raises:
        GraphError: for what is no path.
        FileError: if the file can't be written.
    """
    page = page_of(content_of(compiled, profile), kernel_texts(compiled))
    with FileUse(path, "a report", "written") as name:
        Path(name).write_text(page, encoding="utf-8")


def numbered(path: str, number: int) -> Path:
    """The file for a session's report of that number, from 1: ``r.html``, ``r-2.html``, …"""
    first = Path(path)
    return first if number == 1 else first.with_name(f"{first.stem}-{number}{first.suffix}")


__all__ = ["numbered", "write_report"]
