"""Reads the blocks of a Markdown page and runs them, in order, in one namespace.

* A ``python`` block is executed. The blocks of a page are one program: line numbers in errors are
  those of all its python blocks one after the other, as a reader would paste them into a file.
* A ``text`` block right after a block that prints is that block's output, compared exactly, but
  that ``...`` stands for anything.
* A ``console`` block is run if the line above it is ``<!-- run -->``: each line ``$ COMMAND …`` is
  a command, such as ``graphc`` or ``python``, what follows is its output.
* ``<!-- file: NAME -->`` above a python block also writes it to that file, for commands to use;
  above a block of another language it only does that.

    python docs_runner.py PAGE.md    # in an empty directory; GRAPHC_BLESS=1 rewrites the page
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^```(\w*)\s*$")
_FILE = re.compile(r"^<!-- file: (\S+) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: ``line`` is that of its first line of content, counted from 1."""

    language: str
    line: int
    lines: tuple[str, ...]
    marker: str
    follows: bool

    @property
    def text(self) -> str:
        """The content."""
        return "\n".join(self.lines)


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page; ``follows`` says that only blank lines part it from the last."""
    lines = text.splitlines()
    position, previous, end = 0, "", -1
    while position < len(lines):
        fence = _FENCE.match(lines[position])
        if fence is None:
            if lines[position].strip():
                previous, end = lines[position], -1
            position += 1
            continue
        start = position + 1
        position = start
        while not lines[position].startswith("```"):
            position += 1
        yield Block(fence[1], start + 1, tuple(lines[start:position]), previous, end >= 0)
        position += 1
        previous, end = "", position


def agrees(expected: str, actual: str) -> bool:
    """Whether an output is the expected one; trailing blanks don't count, ``...`` is anything."""
    wanted, given = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        for text in (expected, actual)
    )
    pattern = ".*?".join(re.escape(part) for part in wanted.split("..."))
    return re.fullmatch(pattern, given, re.DOTALL) is not None


class Page:
    """One page being run in a directory of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_text(encoding="utf-8")
        self.program = f"{path.stem.lower()}.py"
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self._pasted = ""
        self.mismatches: list[tuple[Block, str]] = []

    def run(self) -> None:
        """Runs all blocks; what printed something else than shown is in ``mismatches``."""
        printed: str | None = None
        for block in blocks_of(self.source):
            if block.language == "python":
                printed = self._python(block)
            elif block.language == "console":
                printed = None
                if block.marker == "<!-- run -->":
                    self._console(block)
            elif block.language == "text" and block.follows and printed is not None:
                if not agrees(block.text, printed):
                    self.mismatches.append((block, printed))
                printed = None
            else:
                self._file(block)

    def _python(self, block: Block) -> str:
        offset = self._pasted.count("\n")
        self._pasted += block.text + "\n\n"
        lines = self._pasted.splitlines(keepends=True)
        linecache.cache[self.program] = (len(self._pasted), None, lines, self.program)
        code = compile("\n" * offset + block.text + "\n", self.program, "exec")
        self._file(block)
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(code, self.namespace)
        except Exception as error:
            error.add_note(f"in the block at {self.path.name}:{block.line}")
            raise
        return output.getvalue()

    @staticmethod
    def _file(block: Block) -> None:
        """Writes a block to the file that its marker names, if any."""
        file = _FILE.match(block.marker)
        if file is not None:
            Path(file[1]).write_text(block.text + "\n", encoding="utf-8")

    def _console(self, block: Block) -> None:
        shown: list[str] = []
        commands = [n for n, line in enumerate(block.lines) if line.startswith("$ ")]
        expected, actual = [], []
        for start, end in zip(commands, [*commands[1:], len(block.lines)], strict=True):
            expected.append(block.lines[start])
            expected += block.lines[start + 1 : end]
            output = _command(block.lines[start][2:])
            shown = [block.lines[start], *output.rstrip("\n").splitlines()]
            if agrees("\n".join(block.lines[start + 1 : end]), output):
                shown = list(block.lines[start:end])
            actual += shown
        if expected != actual:
            self.mismatches.append((block, "\n".join(actual)))

    def blessed(self) -> str:
        """The page with the real output in the blocks that did not agree."""
        lines = self.source.splitlines()
        for block, output in reversed(self.mismatches):
            first = block.line - 1
            lines[first : first + len(block.lines)] = [
                line.rstrip() for line in output.strip("\n").splitlines()
            ]
        return "\n".join(lines) + "\n"


def _command(line: str) -> str:
    """What a command prints; paths in the working directory without it."""
    words = shlex.split(line)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    programs = {"graphc": [sys.executable, "-m", "graphc"], "python": [sys.executable]}
    finished = subprocess.run(
        [part for word in words for part in programs.get(word, [word])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return finished.stdout.replace(f"{os.getcwd()}{os.sep}", "")


def main(path: Path) -> int:
    """Runs a page in this process, which should be a fresh one: pages may register operations."""
    page = Page(path)
    page.run()
    if os.environ.get("GRAPHC_BLESS") == "1" and page.mismatches:
        path.write_text(page.blessed(), encoding="utf-8")
        return 0
    for block, output in page.mismatches:
        print(f"{path.name}:{block.line} shows\n{block.text}\nbut printed was\n{output}\n")
    return 1 if page.mismatches else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
