"""What several commands share: reading the files that they take, and telling how far they are."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.base.options import Options
    from graphc.base.target import Target
    from graphc.compiling.compiled import Compiled
    from graphc.compiling.extraction import Extraction
    from graphc.debug.case import Case


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A graph to compile.

    Attributes:
        extraction: what its fetches need.
        options: those of the environment, or of a capsule.
        target: this machine, or less of it if a capsule says so.
    """

    extraction: Extraction
    options: Options
    target: Target

    def compiled(self) -> Compiled:
        """The compiled program."""
        from graphc.compiling.compiler import compile_graph

        return compile_graph(self.extraction, self.options, self.target)


def job_of_file(path: str) -> Job:
    """What a graph saved by ``graphc.save`` or a capsule holds; ``-`` is the standard input."""
    from graphc.base.options import Options
    from graphc.base.target import host
    from graphc.debug.capsule import load_capsule
    from graphc.debug.case import extraction_of
    from graphc.frontend.saving import load

    if is_capsule(path):
        case = load_capsule(path).case
        return Job(case.extraction, case.context().options, case.target)
    extraction, _ = extraction_of(load("/dev/stdin" if path == "-" else path), {})
    return Job(extraction, Options.from_environment(), host())


def progress(text: str = "") -> None:
    """Tells a person at a terminal how far a long command is, in one line that the next replaces.

    Without a text the line is cleared. Nothing is written where the error stream is no terminal.
    """
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def is_capsule(path: str) -> bool:
    """Whether a file is an archive, as capsules are, and no text."""
    if path == "-":
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


def cases_of_file(path: str) -> list[Case]:
    """The run that a capsule holds, or runs of a saved graph on random inputs.

    Options are those of the capsule, or of the environment.
    """
    from graphc.base.options import Options
    from graphc.debug.capsule import load_capsule
    from graphc.debug.case import extraction_of, sampled_cases
    from graphc.frontend.saving import load

    if is_capsule(path):
        return [load_capsule(path).case]
    extraction, recorder = extraction_of(load(path), {})
    return sampled_cases(extraction, recorder, Options.from_environment())


__all__ = ["Job", "cases_of_file", "is_capsule", "job_of_file", "progress"]
