"""Source locations: which line of the user's own file made a node.

Capturing must cost about a microsecond, since every node is located; so only the code object and
the instruction offset are kept, and the column is worked out when somebody asks for it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import time
from functools import lru_cache
from types import CodeType, FrameType

PACKAGE_ROOTS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), name)
    + os.sep
    for name in ("graphc", "passes")
)
"""The directories of graphc's own packages, with a separator at the end."""


LOADED_NANOSECONDS = time.time_ns()
"""When graphc was loaded: what was edited later is not what runs."""

_INSIDE: dict[str, bool] = {contextlib.__file__: True, copy.__file__: True}
"""Whether a file is one of graphc's own, or calls what is and is nobody's line."""


@lru_cache(maxsize=4096)
def _position(code: CodeType, offset: int) -> tuple[int | None, ...] | None:
    """Lines and columns of an instruction; a loop makes many nodes at the same one."""
    return next(itertools.islice(code.co_positions(), offset // 2, None), None)


class Location:
    """A line (and, where known, a column range) of a source file.

    Columns are zero-based offsets in characters; ``None`` where Python does not know them.
    """

    __slots__ = ("_code", "_column", "_end_column", "_offset", "filename", "line")

    def __init__(
        self,
        filename: str,
        line: int,
        column: int | None = None,
        end_column: int | None = None,
        *,
        code: CodeType | None = None,
        offset: int = -1,
    ) -> None:
        self.filename = filename
        self.line = line
        self._column = column
        self._end_column = end_column
        self._code = code
        self._offset = offset

    @property
    def place(self) -> tuple[str, int, int | None]:
        """The same for locations made by one instruction, or at one column; cheap."""
        return self.filename, self.line, self._offset if self._offset >= 0 else self._column

    def _resolve(self) -> None:
        code, self._code = self._code, None
        if code is None:
            return
        found = _position(code, self._offset)
        if found is not None and found[0] == self.line == found[1]:
            self._column, self._end_column = found[2], found[3]

    @property
    def column(self) -> int | None:
        """Zero-based first column of the expression, where known."""
        self._resolve()
        return self._column

    @property
    def end_column(self) -> int | None:
        """Zero-based column after the expression, where known."""
        self._resolve()
        return self._end_column

    @property
    def brief(self) -> str:
        """The last part of the file's name, and the line."""
        return f"{os.path.basename(self.filename)}:{self.line}"

    def source_line(self) -> str:
        """The text of the line; empty where the file can't be read."""
        return linecache.getline(self.filename, self.line).rstrip("\n")

    def excerpt(self) -> str:
        """The source line with a caret line under it; empty where the file can't be read."""
        text = self.source_line()
        if not text.strip():
            return ""
        indent = len(text) - len(text.lstrip())
        first = self.column if self.column is not None else indent
        last = self.end_column if self.end_column is not None else len(text)
        carets = " " * (first - indent) + "^" * max(1, min(last, len(text)) - first)
        return f"    {text.strip()}\n    {carets}"

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}"

    def __repr__(self) -> str:
        return f"Location({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Location):
            return NotImplemented
        return (self.filename, self.line, self.column) == (other.filename, other.line, other.column)

    def __hash__(self) -> int:
        return hash((self.filename, self.line))

    def __reduce__(self) -> tuple[object, ...]:
        return (Location, (self.filename, self.line, self.column, self.end_column))


def user_frame(inner: int = 0) -> FrameType | None:
    """The nearest frame outside graphc's own packages.

    So many ``inner`` frames, from the caller's on, are known to be graphc's and not looked at.
    """
    frame: FrameType | None = sys._getframe(1 + inner)
    known = _INSIDE.get
    while frame is not None:
        inside = known(frame.f_code.co_filename)
        if not inside and (inside is not None or not _is_inside(frame.f_code)):
            return frame
        frame = frame.f_back
    return None


def location_of(frame: FrameType) -> Location:
    """The line that the frame is at."""
    code = frame.f_code
    return Location(code.co_filename, frame.f_lineno, code=code, offset=frame.f_lasti)


def caller() -> Location | None:
    """The user's line: where the nearest frame outside graphc's own packages is."""
    frame = user_frame()
    return None if frame is None else location_of(frame)


def _is_inside(code: CodeType) -> bool:
    """Whether code is of graphc; looked up by file, since each node asks for several frames."""
    # dataclasses are made and compared by code without a file
    if code.co_filename == "<string>":
        return code.co_name in ("__init__", "__eq__")
    return _INSIDE.setdefault(code.co_filename, code.co_filename.startswith(PACKAGE_ROOTS))
