"""Writing libraries and calling them from Python by their C interface, and from programs in C."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools import tool

import graphc as gx

_COUNTER = itertools.count()

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def module_of(folder: Path) -> Any:
    """The Python module that was written beside a library."""
    (source,) = folder.glob("*.py")
    spec = importlib.util.spec_from_file_location(f"{source.stem}_{next(_COUNTER)}", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library_of(exe: gx.Executable, folder: Path, threads: int = 1, **options: Any) -> Any:
    """An executable as a library, loaded: a ``Program`` of the module beside it.

    Each needs a folder of its own: the system gives a library that it has by its path.
    """
    gx.aot.compile(exe, folder, **options)
    return module_of(folder).Program(threads)


def compiled(
    folder: Path, source: str, *further: str, language: str = "c", flags: Sequence[str] = ()
) -> Path:
    """A program made of a source beside a library, without a warning."""
    compiler = tool("c++" if language == "c++" else "cc")
    standard = "-std=c++17" if language == "c++" else "-std=c11"
    file = folder / f"main.{'cc' if language == 'c++' else 'c'}"
    file.write_text(source)
    out = folder / "main"
    command = [compiler, standard, *WARNINGS, "-I", str(folder), str(file), *further, *flags]
    done = subprocess.run([*command, "-o", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def ran(*command: str, **options: Any) -> str:
    """What a program printed; it must end well."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=600, check=False, **options
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout
