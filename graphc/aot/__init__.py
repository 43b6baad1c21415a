"""Ahead-of-time export: ``aot.compile`` writes a package, ``aot.load`` runs one.

Invariant: loading needs neither the passes nor code generation; each function imports what it needs
when it is called.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.aot.loader import LoadedProgram
    from graphc.executable import Executable


def compile(exe: Executable, path: str | os.PathLike[str], kind: str = "package") -> None:
    """Writes an executable, with the current values of its variables, to ``path``.

    A package is a directory that only its owner may read; it appears at once and whole. A package
    that was there before is replaced.

    Args:
        exe: what ``session.compile`` gives.
        path: where to write.
        kind: "package".

    Raises:
        UnsupportedError: for another kind, or a structure of results that files can't hold.
        ArtifactError: if something else than a package is at ``path``.
        GraphError: if ``exe`` is not an executable or ``path`` not a path.
        OSError: if it can't be written; what was there before then stays.
    """
    from graphc.aot.package import write_package
    from graphc.base.errors import GraphError
    from graphc.base.source import caller
    from graphc.executable import Executable

    if not isinstance(exe, Executable):
        swapped = isinstance(path, Executable)
        raise GraphError(
            f"what is exported is an executable, not {type(exe).__name__}",
            where=caller(),
            hint="the executable comes first: gx.aot.compile(exe, path)"
            if swapped
            else "compile first: gx.aot.compile(session.compile(fetches, feeds), path)",
        )
    if not isinstance(path, (str, os.PathLike)):
        raise GraphError(
            f"a package is written to a path, not to {path!r}",
            where=caller(),
            hint='give the name of a directory: gx.aot.compile(exe, "model")',
        )
    write_package(exe, path, kind)


def load(path: str | os.PathLike[str], threads: int | None = None) -> LoadedProgram:
    """The program of a package, ready to be called.

    ``threads`` is how many threads may run a kernel, as for ``gx.Session``: all usable CPUs by
    default. Kernels that need room of their own for each use no more than the executable did that
    was exported.

    The machine code in a package runs with the rights of this process: load only what you trust.
    Checks find damage and mistakes; nothing is unpickled or evaluated.

    Raises:
        ArtifactError: if it is damaged, foreign, of another version, or made for another machine.
        GraphError: for a number of threads that cannot be.
    """
    from graphc.aot.loader import load_package

    return load_package(path, threads)


__all__ = ["compile", "load"]
