"""Graphs in files: the text form, and beside it the arrays that the text names by digest.

``PATH`` holds the text and ``PATH.npz`` the large constants, if there are any. Files are written
under another name and put in place at once, so a reader never sees half of one; the digests tell
when the two don't belong together. Nothing that is read is executed or unpickled.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from graphc.base.errors import ParseError
from graphc.base.paths import FileUse
from graphc.base.source import caller
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph
from graphc.ir.text.archive import read_arrays, write_arrays
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import payloads, print_graph


def replace_file(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Writes a file that only its owner may read, in place of what has that name."""
    directory = os.path.dirname(path) or "."
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        # an interrupt may come when it has its name already
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def save_graph(path: str | os.PathLike[str], graph: Graph) -> None:
    """Writes the graph's text to ``path``, and its large constants, if any, to ``path.npz``.

    Raises:
        GraphError: for what is no path.
        FileError: if that fails; what was there before then stays.
    """
    with FileUse(path, "a graph", "written") as name:
        text = print_graph(graph)
        arrays: dict[str, Any] = payloads(graph)
        beside = name + ".npz"
        if arrays:
            replace_file(beside, lambda file: write_arrays(file, arrays))
        replace_file(name, lambda file: file.write(text.encode()))
        if not arrays and os.path.exists(beside):
            os.unlink(beside)


def _arrays_beside(path: str) -> dict[str, Array]:
    """The large constants, from the file beside the text if there is one."""
    beside = path + ".npz"
    try:
        with open(beside, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    try:
        return read_arrays(content)
    except ParseError as error:
        raise ParseError(f"{beside}: {error.message}") from error


def load_graph(path: str | os.PathLike[str]) -> Graph:
    """Reads what ``save_graph`` wrote; nodes and guards are located at the lines of the text.

    Raises:
        ParseError: if the text or the constants are damaged or don't belong together.
        GraphError: for what is no path.
        FileError: if the file can't be read.
    """
    with FileUse(path, "a graph", "read") as name:
        with open(name, "rb") as file:
            content = file.read()
        arrays = _arrays_beside(name)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ParseError(
            f"{name} is not UTF-8 text: {error}",
            where=caller(),
            hint="give a file that gx.save has written",
        ) from error
    return parse_graph(text, arrays, filename=name)
