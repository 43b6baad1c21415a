"""What a training says of itself: rows of a CSV file, and a line that shows how far it is."""

from __future__ import annotations

import csv
import os
import sys
import time
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from graphc.base.errors import FeedError, FileError, GraphError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ops.arguments import is_whole, switch

_SECONDS = 0.1
"""How long a line stands before the next one is shown."""

_HEAD = ("step", "seconds")


class Log:
    """Figures of steps, written to a CSV file and shown in one line of a terminal.

    ``log(loss=…, accuracy=…)`` is a step; with arrays [steps], as ``session.run_many`` gives them,
    it is as many. A row has the number of the step, counted from 0, the seconds since the log was
    made, and the figures. Rows are in the file when the call is over. ``close``, as the end of a
    ``with`` block, leaves the line as it is last.

    Args:
        path: the CSV file, which is written anew; none without it.
        steps: how many there will be, for the line to say when they are done.
        progress: whether the line is shown; by default where ``stream`` is a terminal.
        append: goes on behind the rows that the file has, with their names and the next number.
        stream: where the line is shown; ``sys.stderr`` by default.

    Raises:
        FileError: if the file can't be written, or read to go on.
        GraphError: for a number of steps that is none, and where there is no path to append to.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        steps: int | None = None,
        progress: bool | None = None,
        append: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        if steps is not None and not (is_whole(steps) and steps > 0):
            raise GraphError(
                f"the number of steps is {shown(steps)}", where=caller(), hint="give an int from 1"
            )
        self._stream = sys.stderr if stream is None else stream
        shows = self._stream.isatty() if progress is None else switch(progress, "progress")
        self._shows, self._steps = shows, steps
        self._created = self._began = self._due = time.monotonic()
        self._first = self._step = 0
        self._width = 0
        self._names: list[str] | None = None
        self._path, self._line = path, ""
        if switch(append, "append"):
            self._go_on(path)
        self._put([], "a" if append else "w")

    def _go_on(self, path: str | os.PathLike[str] | None) -> None:
        """Takes over what a file has; what a process that was killed left of a row is cut off."""
        if path is None:
            raise GraphError("there is no file to append to", where=caller(), hint="give its path")
        try:
            with open(path, newline="", encoding="utf-8") as file:
                text = file.read()
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                os.truncate(path, len(whole.encode()))
            names, *rows = csv.reader(whole.splitlines()) if whole else [[]]
            if names:
                if tuple(names[: len(_HEAD)]) != _HEAD:
                    raise ValueError(f"its columns are {', '.join(names)}")
                self._names = names[len(_HEAD) :]
            if rows:
                self._step = self._first = int(rows[-1][0]) + 1
                self._began -= float(rows[-1][1])
        except FileNotFoundError:
            return
        except (OSError, ValueError, IndexError, csv.Error) as error:
            raise _unusable(path, error) from error

    @property
    def step(self) -> int:
        """The number of the next step."""
        return self._step

    def __call__(self, **figures: Any) -> None:
        """Takes the figures of a step, or arrays of those of several.

        Raises:
            FeedError: for no figures, others than before, and arrays that are not of one length.
            FileError: if they can't be written.
        """
        rows = self._rows(figures)
        if not rows:
            return
        seconds = f"{time.monotonic() - self._began:.3f}"
        lines = [[str(self._step + n), seconds, *map(str, row)] for n, row in enumerate(rows)]
        if self._names is None:
            self._names = [*figures]
            lines.insert(0, [*_HEAD, *self._names])
        self._step += len(rows)
        self._put(lines, "a")
        self._show(dict(zip(self._names, rows[-1], strict=True)))

    def _put(self, lines: list[list[str]], mode: str) -> None:
        """Writes to the file, if there is one."""
        if self._path is None:
            return
        try:
            with open(self._path, mode, newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows(lines)
        except OSError as error:
            raise _unusable(self._path, error) from error

    def _rows(self, figures: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The figures of each step."""
        if not figures or (self._names is not None and [*figures] != self._names):
            known = "none" if self._names is None else ", ".join(self._names)
            raise FeedError(
                f"the figures of a step are {', '.join(figures) or 'none'}, those before {known}",
                where=caller(),
                hint="give those of all steps by the same names, as in log(loss=loss)",
            )
        arrays = {name: np.asarray(given) for name, given in figures.items()}
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) > 1 or len(next(iter(shapes))) > 1:
            told = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise FeedError(
                f"figures have the shapes {told}",
                where=caller(),
                hint="give numbers, or arrays [steps] of one length",
            )
        return [*zip(*map(np.atleast_1d, arrays.values()), strict=True)]

    def _show(self, figures: dict[str, Any]) -> None:
        """Shows a line, if the one before it has stood long enough."""
        now = time.monotonic()
        if not self._shows:
            return
        done = self._step
        rate = (done - self._first) / max(now - self._created, 1e-9)
        parts = [f"step {done}" if self._steps is None else f"step {done}/{self._steps}"]
        parts += [f"{name} {value:.4g}" for name, value in figures.items()]
        parts.append(f"{rate:.3g} steps/s")
        if self._steps is not None and done < self._steps:
            parts.append(f"{(self._steps - done) / rate:.0f} s left")
        self._line = "  ".join(parts)
        if now >= self._due:
            self._due = now + _SECONDS
            self._write("")

    def _write(self, end: str) -> None:
        """Writes the line over the one before it."""
        width, self._width = self._width, len(self._line)
        self._stream.write("\r" + self._line.ljust(width) + end)
        self._stream.flush()

    def close(self) -> None:
        """Shows the last line, and leaves it."""
        if self._line:
            self._write("\n")
            self._line = ""

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _unusable(path: str | os.PathLike[str], error: Exception) -> FileError:
    return FileError(
        f"the log {os.fspath(path)!r} can't be used: {error}",
        where=caller(),
        hint="give a path that can be written to; append=True goes on with what a log has written",
    )


__all__ = ["Log"]
