"""The recorded hashes: their files, and what differs from them.

A file has a table: a row for each text, with its label behind one hash for each column, or a row of
dashes where a column has no such text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from golden.catalogue import SOURCES, Source

FOLDER = Path(__file__).parent / "hashes"
DIGITS = 16
"""Hexadecimal digits of a hash."""

_NONE = "-" * DIGITS

Hashes = dict[str, dict[str, str]]
"""By column, then by label."""


def hash_of(text: str) -> str:
    """The hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def hashes_of(source: Source) -> Hashes:
    """Those of a source as it is now."""
    return {
        column: {label: hash_of(text) for label, text in source.texts(column).items()}
        for column in source.columns
    }


def path_of(name: str) -> Path:
    """The file of a source."""
    return FOLDER / f"{name}.txt"


def table_of(hashes: Hashes) -> str:
    """Hashes as a table."""
    labels = dict.fromkeys(label for column in hashes.values() for label in column)
    lines = [" ".join(column.ljust(DIGITS) for column in hashes).rstrip()]
    for label in labels:
        row = " ".join(column.get(label, _NONE) for column in hashes.values())
        lines.append(f"{row} {label}")
    return "\n".join((*lines, ""))


def read_table(text: str) -> Hashes:
    """``table_of`` undone."""
    head, *lines = text.splitlines()
    columns = head.split()
    hashes: Hashes = {column: {} for column in columns}
    for line in lines:
        *row, label = line.split(" ", len(columns))
        for column, digits in zip(columns, row, strict=True):
            if digits != _NONE:
                hashes[column][label] = digits
    return hashes


def recorded(name: str) -> Hashes:
    """The recorded hashes of a source; none where it has no file."""
    path = path_of(name)
    return read_table(path.read_text("utf-8")) if path.exists() else {}


def record(name: str) -> bool:
    """Writes the hashes of a source as it is; tells whether they have changed."""
    text = table_of(hashes_of(SOURCES[name]))
    path = path_of(name)
    changed = not path.exists() or path.read_text("utf-8") != text
    if changed:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return changed


def differences(before: Hashes, now: Hashes) -> dict[str, list[str]]:
    """For each label that has another hash, or none on one side, the columns where that is so."""
    found: dict[str, list[str]] = {}
    for column in dict.fromkeys((*before, *now)):
        old, new = before.get(column, {}), now.get(column, {})
        for label in dict.fromkeys((*old, *new)):
            if old.get(label) != new.get(label):
                found.setdefault(label, []).append(column)
    return found


def report(name: str, changed: Mapping[str, Sequence[str]]) -> str:
    """What a failing test says: which texts have changed, and how to see them."""
    lines = [f"{name}: {len(changed)} texts are not those that were recorded"]
    lines += [f"  {label} ({', '.join(columns)})" for label, columns in changed.items()]
    return "\n".join((
        *lines,
        f"To see how they differ:  make golden-diff PROGRAM={name}",
        "If they shall differ:    make golden, and say in the commit why",
    ))  # fmt: skip


__all__ = ["FOLDER", "Hashes", "differences", "hashes_of", "path_of", "read_table", "record",
           "recorded", "report", "table_of"]  # fmt: skip
