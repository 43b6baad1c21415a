"""Ahead-of-time export: ``aot.compile`` writes a library, ``aot.load`` runs one in Python.

Invariant: loading needs neither the passes nor code generation; each function imports what it needs
when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.aot.loader import LoadedProgram
    from graphc.aot.write import Kind
    from graphc.session.executable import Executable


def compile(
    exe: Executable,
    path: str | os.PathLike[str],
    *,
    target: str = "host",
    kind: Kind = "shared",
    threads: bool = True,
    embed_weights: bool = True,
    dims: Mapping[str, tuple[int, int]] | None = None,
    variants: Collection[str] = (),
    name: str | None = None,
    freeze: bool | None = None,
) -> None:
    """Writes an executable, with the current values of its variables, as a library.

    ``path`` becomes a directory that only its owner may read, at once and whole: the library, its C
    header, a signature and a Python module that calls it with NumPy alone. A library that was there
    before is replaced.

    Args:
        exe: what ``session.compile`` gives.
        path: where to write.
        target: "host" for this machine's kind, or a name of ``graphc.base.target.named``.
        kind: "shared" for a library that programs link or load; "object" for an object file to link
            into a program; "package" for an object that ``load`` runs, which needs no linker.
        threads: whether kernels may run on several threads, where the target has them.
        embed_weights: whether constants and initial values are part of the library; otherwise they
            are in a file beside it, in the format of safetensors.
        dims: the least and the greatest size of symbolic dims, by name. Without, a dim may have any
            size that the graph allows.
        variants: levels of x86-64 to have code for, such as ("x86-64-v2", "x86-64-v3"); a context
            takes the best that its processor can run.
        name: begins the names of the C functions, and is that of the Python module, which may not
            hide one of Python's or NumPy; by default that of the directory.
        freeze: whether variables become constants, which lets the compiler pack them in advance; by
            default where the executable writes none.

    Raises:
        GraphError: if ``exe`` is not an executable, or an argument not as described.
        UnsupportedError: for an unknown target, a structure of results that files can't hold, calls
            of Python functions (``host_call``, ``print``, ``check``), or if there is no linker.
        ArtifactError: if something else than a library is at ``path``.
        FileError: if it can't be written; what was there before then stays.
    """
    from graphc.aot.write import Order, write_library
    from graphc.base.errors import GraphError
    from graphc.base.source import caller
    from graphc.session.executable import Executable

    if not isinstance(exe, Executable):
        swapped = isinstance(path, Executable)
        raise GraphError(
            f"what is exported is an executable, not {type(exe).__name__}",
            where=caller(),
            hint="the executable comes first: gx.aot.compile(exe, path)"
            if swapped
            else "compile first: gx.aot.compile(session.compile(fetches, feeds), path)",
        )
    bounds = {} if dims is None else dims
    order = Order(kind, target, threads, embed_weights, bounds, variants, name, freeze)
    write_library(exe, path, order)


def load(path: str | os.PathLike[str], threads: int | None = None) -> LoadedProgram:
    """The program of a library, ready to be called as an executable of a session is.

    The machine code in a library runs with the rights of this process: load only what you trust.
    Checks find damage and mistakes; nothing is unpickled or evaluated.

    Args:
        path: the directory that ``compile`` wrote, or the signature or the machine code in it.
        threads: how many threads may run a kernel, as for ``gx.Session``: all usable CPUs by
            default.

    Raises:
        ArtifactError: if it is damaged, foreign, of another version, or made for another machine,
            or an object file (``kind="object"``).
        GraphError: for what is no path, or a number of threads that cannot be.
    """
    from graphc.aot.loader import load_library

    return load_library(path, threads)


__all__ = ["compile", "load"]
