"""What every reader of a text form needs: errors that show the place, and quoted strings.

Graphs (``text.reader``), kernels and plans (``kernel.scanner``) read different grammars; the errors
and the strings are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from graphc.base.errors import ParseError

# What is neither group is an error.
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))|\\|[\x00-\x1f]')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WIDTH = 60
"""So many characters are shown on each side of an error."""


def parse_error(problem: str, text: str, start: int, filename: str | None = None) -> ParseError:
    """The error at a position of a text: line, column, and the piece of the line with a caret."""
    line = text.count("\n", 0, start) + 1
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    content = text[first : last if last >= 0 else len(text)]
    column = start - first
    shown_from = max(0, column - WIDTH)
    shown = content[shown_from : column + WIDTH]
    clean = "".join(c if c.isprintable() else " " for c in shown)
    place = f"line {line}, column {column + 1}"
    if filename is not None:
        place += f" of {filename}"
    caret = " " * (column - shown_from) + "^"
    return ParseError(f"{problem}\n  at {place}\n    {clean}\n    {caret}")


def unescape(content: str, fail: Callable[[str, int], NoReturn]) -> str:
    """What stands between the quotes of a string, JSON's escapes replaced.

    ``fail`` is given the problem and its offset where there is another escape or a control
    character.
    """
    if "\\" not in content and content.isprintable():
        return content

    def decode(escape: re.Match[str]) -> str:
        if escape[1]:
            return _ESCAPED.get(escape[1], escape[1])
        if escape[2]:
            return chr(int(escape[2], 16))
        fail("bad escape or control character in a string", escape.start())

    return _ESCAPE.sub(decode, content)


__all__ = ["WIDTH", "parse_error", "unescape"]
