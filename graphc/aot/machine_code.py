"""The machine code of a library, in this process.

Shared libraries are loaded by the system from the very file whose hash was checked; objects by
LLVM, which is imported for them alone. Invariant: code that is loaded was written for the signature
that it comes with, and this processor can run it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from graphc.aot.artifact import Artifact
from graphc.aot.inside import (
    DIGEST,
    DIGEST_BYTES,
    ENTRY_AT,
    FLAG_AT,
    HANDLER_AT,
    IMPORTS_AT,
    KERNELS,
    PROGRAM,
    WALKER_AT,
    WEIGHTS,
    WORKER_AT,
)
from graphc.aot.signature import ProgramInfo, Signature
from graphc.base.errors import ArtifactError
from graphc.base.forks import MACHINE_CODE, held_lock
from graphc.runtime.code import Code, Glue


class MachineCode(NamedTuple):
    """A library in memory.

    Attributes:
        program: what this processor runs of it.
        code: the machine code of that.
        weights: the address of the embedded weights, 0 for none.
    """

    program: ProgramInfo
    code: Code
    weights: int


def machine_code_of(artifact: Artifact) -> MachineCode:
    """Loads the machine code of a library.

    Raises:
        ArtifactError: if it is for another machine, damaged, or written for another signature.
    """
    signature = artifact.signature
    if signature.kind == "object":
        raise ArtifactError(
            "it is an object file, to be linked into a program of yours",
            hint='write it with kind="shared" to load it here, or kind="package" without a linker',
        )
    descriptor = artifact.descriptors[signature.library]
    _check_image(descriptor, signature)
    symbol = f"{signature.name}_internal"
    if signature.kind == "shared":
        kept, address = _System.loaded(descriptor, artifact.files[signature.library].sha256, symbol)
    else:
        kept, address = _loaded_by_llvm(descriptor, symbol)
    inside = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(address)

    def found(what: int) -> int:
        return inside(what) or 0

    digest = found(DIGEST)
    if not digest or ctypes.string_at(digest, DIGEST_BYTES) != signature.digest:
        raise ArtifactError(
            f"{signature.library} was written for another signature than this one",
            hint="keep the files of a library together, as they were written",
        )
    place = found(PROGRAM)
    if not place:
        levels = ", ".join(f"x86-64-v{program.level}" for program in signature.programs)
        raise ArtifactError(
            f"this processor lacks instructions that it needs; it has code for {levels}",
            hint='write it with code for older ones too: variants=("x86-64-v3", "x86-64-v2")',
        )
    program = signature.programs[place - 1]
    return MachineCode(program, _code(found, program.kernels, kept), found(WEIGHTS))


def _code(found: Callable[[int], int], kernels: int, kept: object) -> Code:
    entries = (ctypes.c_uint64 * kernels).from_address(found(KERNELS)) if kernels else ()
    glue = Glue(found(HANDLER_AT), found(FLAG_AT), found(ENTRY_AT), found(IMPORTS_AT))
    return Code((kept,), tuple(entries), found(WALKER_AT), found(WORKER_AT), kept, glue)


# --- images --------------------------------------------------------------------------------------

_MACHINES = {62: "x86_64", 183: "aarch64"}
"""ELF's numbers of processors."""

_KINDS = {"shared": 3, "package": 1}
"""ELF's numbers of kinds of files."""

_HEAD, _SEGMENT = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")


def _check_image(descriptor: int, signature: Signature) -> None:
    """Refuses what is no whole ELF file for this machine, which loaders may not survive."""
    name, again = signature.library, "write the library again"
    content = os.pread(descriptor, _HEAD.size, 0)
    if len(content) < _HEAD.size or content[:4] != b"\x7fELF":
        raise ArtifactError(
            f"{name} is made for {signature.triple}; here libraries are ELF files",
            hint="write it for this machine",
        )
    head = _HEAD.unpack(content)
    machine = _MACHINES.get(head[2], f"processor {head[2]}")
    if content[4:6] != b"\x02\x01" or machine != platform.machine():
        raise ArtifactError(
            f"{name} is made for {machine} ({signature.triple}), "
            f"this machine is {platform.machine()}",
            hint="write it for this machine",
        )
    if head[1] != _KINDS[signature.kind]:
        raise ArtifactError(f"{name} is no {signature.kind} library", hint=again)
    size = os.fstat(descriptor).st_size
    table, count = head[5], head[10]
    for number in range(count):
        segment = os.pread(descriptor, _SEGMENT.size, min(table + number * _SEGMENT.size, size))
        if len(segment) < _SEGMENT.size:
            raise ArtifactError(f"{name} is truncated", hint=again)
        _, _, offset, _, _, length, _, _ = _SEGMENT.unpack(segment)
        if offset + length > size:
            raise ArtifactError(f"{name} is truncated", hint=again)


class _System:
    """What the system has loaded. It is never unloaded: threads of the pool may sleep in it.

    The system knows files by their device and number, and what it has loaded by the name it was
    given. So that two names never are the same, the descriptor in a library's name stays open.
    """

    lock = held_lock(MACHINE_CODE)
    loaded_files: ClassVar[dict[tuple[int, int], tuple[str, Any]]] = {}

    @classmethod
    def loaded(cls, descriptor: int, digest: str, symbol: str) -> tuple[object, int]:
        """A library, and the address of its function."""
        status = os.fstat(descriptor)
        key = status.st_dev, status.st_ino
        with cls.lock:
            known = cls.loaded_files.get(key)
            if known is None:
                known = cls.loaded_files[key] = digest, _loaded(os.dup(descriptor))
        if known[0] != digest:
            raise ArtifactError(
                "its file was changed after it was loaded here",
                hint="write libraries anew instead of changing their files",
            )
        try:
            function = getattr(known[1], symbol)
        except AttributeError as error:
            raise ArtifactError(
                f"its machine code has no function {symbol}", hint="write the library again"
            ) from error
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None, "a function has an address"
        return known[1], address


def _loaded(descriptor: int) -> Any:
    try:
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    except OSError as error:
        os.close(descriptor)
        raise ArtifactError(
            f"the system can't load it: {error}",
            hint="it needs /proc, and a file system that programs may be run from",
        ) from error


def _loaded_by_llvm(descriptor: int, symbol: str) -> tuple[object, int]:
    from graphc.runtime.jit import Library

    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        content = file.read()
    try:
        library = Library(content, (symbol,))
    except RuntimeError as error:
        raise ArtifactError(
            f"LLVM can't load it: {error}", hint="write the library again"
        ) from error
    return library, library.addresses[symbol]


__all__ = ["MachineCode", "machine_code_of"]
