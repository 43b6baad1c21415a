"""What a library is on disk: its signature, its files, and reading them with every check.

Invariant: whatever the bytes are, ``opened`` gives a well-formed signature and descriptors of the
very files that it was written with, or raises ArtifactError. It opens only regular files that lie
in the directory itself, each by a name that follows from the library's. Whether the machine code
was written for this signature is for the loader, who asks the code (``graphc.aot.inside.DIGEST``).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from graphc.aot.signature import Signature, damaged, signature_of
from graphc.base.errors import ArtifactError
from graphc.base.paths import path_text

FORMAT = "graphc library"
FORMAT_VERSION = 15

MARK = f'{{\n "format": "{FORMAT}"'.encode()
"""How a signature begins."""

_LARGEST_SIGNATURE = 256 * 1024 * 1024
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LIBRARY = re.compile(r"lib(\w+)\.(?:so|dylib)|(\w+)\.(?:o|dll|wasm)", re.ASCII)
_SEAL = b',\n "sha256": "'


class FileInfo(NamedTuple):
    """A file of a library: how long it is, and the SHA-256 of its content."""

    bytes: int
    sha256: str


class Artifact(NamedTuple):
    """A library on disk, while it is open.

    Attributes:
        path: of the directory.
        signature: what it says of itself.
        files: its files.
        descriptors: of the machine code and of the weights, if they are in a file.
    """

    path: str
    signature: Signature
    files: Mapping[str, FileInfo]
    descriptors: Mapping[str, int]


# --- writing -------------------------------------------------------------------------------------


def digest_of(data: Mapping[str, Any]) -> bytes:
    """The SHA-256 of what a signature says, but for the files; the machine code has it too."""
    rest = {key: value for key, value in data.items() if key not in ("files", "sha256")}
    return hashlib.sha256(json.dumps(rest).encode()).digest()


def signed(data: Mapping[str, Any]) -> bytes:
    """The signature's text, which ends in a hash of all before it."""
    text = json.dumps(data, indent=1).encode().removesuffix(b"\n}")
    return text + _SEAL + hashlib.sha256(text).hexdigest().encode() + b'"\n}\n'


# --- reading -------------------------------------------------------------------------------------


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Artifact]:
    """Opens a library, or one of a directory's, given by any of its files; checks all of it.

    Raises:
        ArtifactError: if a file is missing, no regular file, truncated or edited, or the whole is
            no library of a version this graphc knows.
        GraphError: for what is no path.
    """
    given = path_text(path, "a library")
    held: list[int] = []
    try:
        directory, name = _directory(given, held)
        content = _content(directory, name or _only_signature(directory), held)
        data = _json_of(content)
        _check_format(data, content)
        signature = signature_of(data, _digest(data))
        files = _file_table(data, signature)
        descriptors = {}
        for file, info in files.items():
            needed = file in signature.needed_files
            descriptor = _checked(directory, file, info, needed, held)
            if needed and descriptor is not None:
                descriptors[file] = descriptor
        yield Artifact(given, signature, files, descriptors)
    except ArtifactError as error:
        error.message = f"library {given!r}: {error.message}"
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)


def _directory(path: str, held: list[int]) -> tuple[int, str | None]:
    """The directory, and the name of the signature if a file was given."""
    try:
        try:
            held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            return held[-1], None
        except NotADirectoryError:
            parent, file = os.path.split(path)
            held.append(os.open(parent or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArtifactError(
            f"it can't be opened: {reason}", hint="give the directory that was written"
        ) from error
    found = _LIBRARY.fullmatch(file)
    if found is not None:
        return held[-1], f"{found[1] or found[2]}.json"
    if file.endswith(".json"):
        return held[-1], file
    raise ArtifactError(
        f"{file!r} is no library", hint="give the directory that was written, or its .json file"
    )


def _only_signature(directory: int) -> str:
    names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    if len(names) == 1:
        return names[0]
    if not names:
        raise ArtifactError(
            "there is no signature (a .json file) in it",
            hint="give the directory that graphc.aot.compile wrote",
        )
    raise ArtifactError(
        f"there are several signatures in it: {', '.join(names[:8])}",
        hint="give the path of one of them",
    )


def _open(directory: int, name: str, held: list[int]) -> int:
    """A regular file of the directory."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{name} is missing", hint="copy the whole directory that was written"
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise ArtifactError(
                f"{name} is a symbolic link", hint="copy the file itself"
            ) from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArtifactError(f"{name} can't be read: {reason}") from error
    held.append(descriptor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise ArtifactError(f"{name} is no regular file")
    return descriptor


def _content(directory: int, name: str, held: list[int]) -> bytes:
    descriptor = _open(directory, name, held)
    size = os.fstat(descriptor).st_size
    if size > _LARGEST_SIGNATURE:
        raise ArtifactError(f"{name} has {size:,} bytes, too many for a signature")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(size)


def _checked(
    directory: int, name: str, info: FileInfo, needed: bool, held: list[int]
) -> int | None:
    """A file's descriptor; what nobody reads here may be missing, but not be another file."""
    try:
        descriptor = _open(directory, name, held)
    except ArtifactError as error:
        if not needed and isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    size = os.fstat(descriptor).st_size
    again = "write the library again"
    if size != info.bytes:
        raise ArtifactError(f"{name} has {size:,} bytes, not {info.bytes:,}", hint=again)
    with open(descriptor, "rb", closefd=False) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != info.sha256:
        raise ArtifactError(
            f"{name} is not the file that was written: its hash differs", hint=again
        )
    return descriptor


def _json_of(content: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"its signature is damaged: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArtifactError(
            "its signature is of a foreign format",
            hint="load what graphc.aot.compile wrote",
        )
    return data


def _check_format(data: Mapping[str, Any], content: bytes) -> None:
    version = data.get("format_version")
    if type(version) is not int or version < 1:
        damaged("format_version")
    if version != FORMAT_VERSION:
        newer = "load it with a newer graphc, or " if version > FORMAT_VERSION else ""
        raise ArtifactError(
            f"it is of format version {version}; this graphc reads version {FORMAT_VERSION}",
            hint=f"{newer}write it again",
        )
    text, seal, rest = content.rpartition(_SEAL)
    if not seal or rest != hashlib.sha256(text).hexdigest().encode() + b'"\n}\n':
        raise ArtifactError(
            "its signature was edited: its hash differs", hint="write the library again"
        )


def _digest(data: Mapping[str, Any]) -> bytes:
    try:
        return digest_of(data)
    except RecursionError as error:
        raise ArtifactError("its signature is damaged: it is nested too deep") from error


def _file_table(data: Mapping[str, Any], signature: Signature) -> dict[str, FileInfo]:
    """The files; their names are those that the library's gives."""
    table = data.get("files")
    if not isinstance(table, dict):
        damaged("files")
    name = signature.name
    needed, weights = signature.needed_files, signature.weights
    if not needed <= table.keys() <= {*needed, f"{name}.h", f"{name}.py"}:
        damaged("files")
    result: dict[str, FileInfo] = {}
    for file, entry in table.items():
        if not isinstance(entry, dict):
            damaged("files")
        size, digest = entry.get("bytes"), entry.get("sha256")
        if type(size) is not int or not 0 <= size < 2**62:
            damaged("files")
        if not isinstance(digest, str) or not _HEXADECIMAL.fullmatch(digest):
            damaged("files")
        result[file] = FileInfo(size, digest)
    # the machine code knows which weights it was written for
    if weights.file is not None and result[weights.file].sha256 != weights.sha256:
        damaged("weights")
    return result


__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MARK",
    "Artifact",
    "FileInfo",
    "digest_of",
    "opened",
    "signed",
]
