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
        OSError: if it can't be written; what was there before then stays.
    """
    from graphc.aot.package import write_package

    write_package(exe, path, kind)


def load(path: str | os.PathLike[str]) -> LoadedProgram:
    """The program of a package, ready to be called.

    The machine code in a package runs with the rights of this process: load only what you trust.
    Checks find damage and mistakes; nothing is unpickled or evaluated.

    Raises:
        ArtifactError: if it is damaged, foreign, newer, or made for another machine.
    """
    from graphc.aot.loader import load_package

    return load_package(path)


__all__ = ["compile", "load"]
