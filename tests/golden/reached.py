"""Which lines of the code generator no golden program reaches.

A line counts if it stands in a function. What was computed before and kept would hide lines, so
nothing of graphc may have been imported: ``python -m golden.reached`` prints them by function.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("graphc/codegen", "graphc/lower", "graphc/codegen/native")


def unreached() -> tuple[dict[str, list[int]], int]:
    """For each function of the folders the numbers of its lines that no source of texts reaches;
    and how many lines functions have in all."""
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    wanted = {str(path): set[int]() for path in files}

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        reached = wanted.get(frame.f_code.co_filename)
        if reached is None:
            return None

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                reached.add(frame.f_lineno)
            return line

        return line

    assert "graphc" not in sys.modules, "what was done at import would count as not reached"
    sys.settrace(enter)
    try:
        from golden.catalogue import SOURCES

        for source in SOURCES.values():
            for column in source.columns:
                source.texts(column)
    finally:
        sys.settrace(None)
    found: dict[str, list[int]] = {}
    count = 0
    for path in files:
        code = compile(path.read_text("utf-8"), str(path), "exec")
        for function in _functions(code):
            lines = {line for _, line in dis.findlinestarts(function) if line is not None}
            lines.discard(function.co_firstlineno)
            count += len(lines)
            missing = sorted(lines - wanted[str(path)])
            if missing:
                name = f"{path.relative_to(ROOT)} {function.co_qualname}"
                found.setdefault(name, []).extend(missing)
    return found, count


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions inside, which that of modules and classes is not."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:
                yield constant
            yield from _functions(constant)


if __name__ == "__main__":
    functions, total = unreached()
    for name, numbers in functions.items():
        print(f"{name}: {', '.join(map(str, numbers))}")
    left = sum(map(len, functions.values()))
    print(f"{total - left} of {total} lines are reached", file=sys.stderr)

__all__ = ["unreached"]
