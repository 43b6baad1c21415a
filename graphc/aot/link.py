"""Object files to a shared library, by the linker that this machine has.

Invariant: what comes out depends on the objects, the names and the linker alone. All happens in a
directory of its own under fixed names, and no time, path or build number is asked for. Symbols that
are not exported are hidden, so that two libraries in one process never meet.

For this machine's platform ``cc`` links where there is one. For others, and where there is none,
the linkers of the package ``ziglang`` do, or those of a ``zig`` that is on the path.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from graphc.base.errors import ArtifactError, UnsupportedError
from graphc.base.target import Target, unsupported_platform

SUFFIXES = {"linux": ".so", "macos": ".dylib", "windows": ".dll", "none": ".wasm"}
"""How the files of libraries end, by system."""

WASM_STACK_BYTES = 1 << 20
"""Of a WebAssembly module; kernels keep some 100 KB of running sums there."""

_SECONDS = 900
"""How long a linker may take; the first time ziglang prepares a system's libraries for a minute."""

_ZIG_SYSTEMS = {
    # versions of glibc so old that every system in use has a later one
    "linux": "{}-linux-gnu.2.17",
    "macos": "{}-macos",
    "windows": "{}-windows-gnu",
}

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def library_name(name: str, target: Target) -> str:
    """The file name of a library on the target: libNAME.so, libNAME.dylib, NAME.dll, NAME.wasm."""
    prefix = "lib" if target.system in ("linux", "macos") else ""
    return f"{prefix}{name}{SUFFIXES[target.system]}"


def link(objects: Sequence[bytes], exports: Sequence[str], target: Target, name: str) -> bytes:
    """A shared library of relocatable objects, as bytes.

    Args:
        objects: made for ``target``.
        exports: the symbols that are visible from outside; the objects must define them all.
        target: for whom to link.
        name: what the library calls itself, without "lib" and suffix.

    Raises:
        UnsupportedError: if there is no linker for the target.
        ArtifactError: if the linker refuses, with what it says, or takes too long; or if a name
            can't be one of a library or a symbol.
    """
    if _NAME.fullmatch(name) is None:
        raise ArtifactError(
            f"a library cannot be called {name!r}",
            hint="use letters, digits, '_', '-' and '.', and begin with a letter, digit or '_'",
        )
    for symbol in exports:
        if _SYMBOL.fullmatch(symbol) is None:
            raise ArtifactError(f"{symbol!r} is no symbol that a library can export")
    result = library_name(name, target)
    with tempfile.TemporaryDirectory(prefix="graphc-link-") as place:
        inputs = [f"{number}.o" for number in range(len(objects))]
        for file, content in zip(inputs, objects, strict=True):
            _write(place, file, content)
        command = _command(place, inputs, exports, target, result)
        _run(command, place, result)
        with open(os.path.join(place, result), "rb") as made:
            return made.read()


def has_linker(target: Target) -> bool:
    """Whether ``link`` finds a linker for a target."""
    return _compiler(target) is not None


# --- commands ------------------------------------------------------------------------------------


def _compiler(target: Target) -> list[str] | None:
    """The command that links for a target, or its beginning."""
    if _is_here(target):
        found = shutil.which("cc")
        if found is not None:
            return [found]
    zig = _zig()
    if zig is None:
        return None
    if target.architecture == "wasm32":
        return [*zig, "wasm-ld"]
    return [*zig, "cc", "-target", _ZIG_SYSTEMS[target.system].format(target.architecture)]


def _is_here(target: Target) -> bool:
    """Whether a target is of the platform that graphc runs on."""
    return unsupported_platform() is None and (target.architecture, target.system) == (
        "x86_64",
        "linux",
    )


def _zig() -> list[str] | None:
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang"]
    found = shutil.which("zig")
    return None if found is None else [found]


def _command(
    place: str, inputs: Sequence[str], exports: Sequence[str], target: Target, result: str
) -> list[str]:
    compiler = _compiler(target)
    if compiler is None:
        looked = "no cc and no ziglang" if _is_here(target) else "no ziglang"
        raise UnsupportedError(
            f"there is no linker for {target.triple} here: {looked} was found",
            hint="pip install ziglang, which brings one for every target",
        )
    if target.architecture == "wasm32":
        return [
            *compiler, "--no-entry", "--strip-all", "--stack-first",
            "-z", f"stack-size={WASM_STACK_BYTES}",
            *(f"--export={symbol}" for symbol in exports), "-o", result, *inputs,
        ]  # fmt: skip
    return [*compiler, "-shared", "-s", *_options(place, exports, target, result), "-o", result,
            *inputs]  # fmt: skip


def _options(place: str, exports: Sequence[str], target: Target, result: str) -> list[str]:
    """What to tell the linker of a system: what is visible, and what would differ by machine."""
    if target.system == "linux":
        visible = "".join(f" {symbol};" for symbol in exports)
        _write(place, "exports", f"{{ global:{visible} local: *; }};\n".encode())
        return [
            "-nostartfiles", "-pthread", "-Wl,--version-script=exports", f"-Wl,-soname,{result}",
            # threads of the pool would lose their code if it were unloaded
            "-Wl,-z,nodelete", "-Wl,-z,noexecstack", "-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now",
            "-Wl,--build-id=none", "-Wl,--no-undefined-version",
        ]  # fmt: skip
    if target.system == "windows":
        _write(place, "exports.def", ("EXPORTS\n" + "\n".join(exports) + "\n").encode())
        # nothing has to be initialised, so no start-up code, which would bring four more libraries;
        # what is not needed of the two that are named is not linked
        return [
            "exports.def", "-nostdlib", "-Wl,--no-entry", "-rtlib=compiler-rt",
            "-lkernel32", "-lapi-ms-win-crt-heap-l1-1-0",
        ]  # fmt: skip
    visible = "".join(f"_{symbol}\n" for symbol in exports)
    _write(place, "exports", visible.encode())
    return ["-Wl,-exported_symbols_list,exports", f"-Wl,-install_name,@rpath/{result}"]


# --- running -------------------------------------------------------------------------------------


def _write(place: str, name: str, content: bytes) -> None:
    with open(os.path.join(place, name), "xb") as file:
        file.write(content)


def _run(command: Sequence[str], place: str, result: str) -> None:
    environment = {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ArtifactError(
            f"linking {result} took longer than {_SECONDS} seconds", hint="try again"
        ) from None
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode(errors="replace").strip()
        raise ArtifactError(f"linking {result} failed: {said or f'code {done.returncode}'}")


__all__ = ["has_linker", "library_name", "link"]
