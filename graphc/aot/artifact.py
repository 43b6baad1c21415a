"""What a package is: its files, its signature, and reading both with every check.

Invariant: whatever the bytes on disk are, ``read_package`` gives a package whose signature is
well-formed and whose files are the ones it was written with, or raises ArtifactError. It opens only
regular files that lie in the directory itself, each by a fixed name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from graphc.base.errors import ArtifactError
from graphc.ir import dtypes

FORMAT = "graphc package"
FORMAT_VERSION = 2

SIGNATURE = "signature.json"
OBJECT, PLAN, CONSTANTS, STATE = "program.o", "plan.txt", "constants.npz", "state.npz"
CONTENTS = (OBJECT, PLAN, CONSTANTS, STATE)
"""The files beside the signature."""

PLAN_DIGEST = "graphc_plan_sha256"
"""The symbol of the object that holds the SHA-256 of the plan it was compiled with."""

_LARGEST_SIGNATURE = 64 * 1024 * 1024
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An argument, a result or a variable.

    Attributes:
        name: its label, or None.
        dtype: NumPy's name of it.
        shape: ints, and symbolic dims as text.
        read: which of the plan's feeds it is; None where the plan does not need it.
        written: which of the plan's outputs it gets; None for none.
    """

    name: str | None
    dtype: str
    shape: tuple[int | str, ...]
    read: int | None = None
    written: int | None = None

    @property
    def type(self) -> str:
        """dtype and shape, as text."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"{self.name or '(unnamed)'}: {self.type}"

    def data(self) -> dict[str, Any]:
        """As it stands in the signature."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "read": self.read,
            "written": self.written,
        }


@dataclass(frozen=True, slots=True)
class Signature:
    """What a package says of itself.

    Attributes:
        graphc_version: of the compiler.
        name: of the graph.
        triple, cpu, features: the target, in LLVM's spelling.
        kernels: how many there are.
        arguments: in the order of positional arguments.
        results: the leaves of the result, left to right; None for an effect.
        structure: how they are nested, see ``structure_data``.
        variables: with their values in the state file, in this order.
    """

    graphc_version: str
    name: str
    triple: str
    cpu: str
    features: str
    kernels: int
    arguments: tuple[TensorInfo, ...]
    results: tuple[TensorInfo | None, ...]
    structure: Any
    variables: tuple[TensorInfo, ...]


@dataclass(frozen=True, slots=True)
class Package:
    """A package in memory: its signature, and its files by name."""

    signature: Signature
    files: Mapping[str, bytes]


def signature_text(signature: Signature, files: Mapping[str, bytes]) -> bytes:
    """The content of the signature file."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "graphc_version": signature.graphc_version,
        "name": signature.name,
        "target": {
            "triple": signature.triple,
            "cpu": signature.cpu,
            "features": signature.features,
        },
        "kernels": signature.kernels,
        "arguments": [info.data() for info in signature.arguments],
        "results": [None if info is None else info.data() for info in signature.results],
        "structure": signature.structure,
        "variables": [info.data() for info in signature.variables],
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        },
    }
    return signed(data)


def signed(data: Mapping[str, Any]) -> bytes:
    """The one way to write this data, ending in a hash of the rest."""
    rest = {key: value for key, value in data.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, indent=1).encode()).hexdigest()
    return (json.dumps({**rest, "sha256": digest}, indent=1) + "\n").encode()


# --- reading -------------------------------------------------------------------------------------


def read_package(path: str | os.PathLike[str]) -> Package:
    """Reads and checks a package; whether it fits this machine is for the loader.

    Raises:
        ArtifactError: if a file is missing, no regular file, truncated or edited, or the whole is
            no package of a version this graphc knows.
    """
    path = os.fspath(path)
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArtifactError(f"{path!r} is no package: {reason}") from error
    try:
        content = _read(directory, SIGNATURE, _LARGEST_SIGNATURE)
        data = _json_of(content)
        _check_format(data, content)
        files: dict[str, bytes] = {}
        for name, (size, digest) in _file_table(data).items():
            content = _read(directory, name, size)
            if len(content) != size:
                raise ArtifactError(f"{name} has {len(content)} bytes, not {size}")
            if hashlib.sha256(content).hexdigest() != digest:
                raise ArtifactError(f"{name} is not the file that was written: its hash differs")
            files[name] = content
        return Package(_signature(data), files)
    except ArtifactError as error:
        error.message = f"package {path!r}: {error.message}"
        raise
    finally:
        os.close(directory)


def _read(directory: int, name: str, limit: int) -> bytes:
    """A regular file of the directory; at most one byte more than the limit."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArtifactError(f"{name} is no regular file")
            size = os.fstat(file.fileno()).st_size
            return file.read(min(limit, size) + 1)
    except FileNotFoundError as error:
        raise ArtifactError(f"{name} is missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArtifactError(f"{name} is a symbolic link") from error
        raise ArtifactError(f"{name} can't be read: {error.strerror}") from error


def _json_of(content: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{SIGNATURE} is damaged: {error}") from error
    if not isinstance(data, dict):
        raise ArtifactError(f"{SIGNATURE} is of a foreign format")
    return data


def _check_format(data: Mapping[str, Any], content: bytes) -> None:
    if data.get("format") != FORMAT:
        raise ArtifactError(f"{SIGNATURE} is of a foreign format")
    version = data.get("format_version")
    if type(version) is not int or version < 1:
        _damaged("format_version")
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"it is of format version {version}; this graphc reads version {FORMAT_VERSION}",
            hint="load it with a newer graphc, or export it again",
        )
    if version < FORMAT_VERSION:
        raise ArtifactError(
            f"it is of format version {version}; this graphc reads version {FORMAT_VERSION}",
            hint="export it again",
        )
    try:
        expected = signed(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{SIGNATURE} is damaged: {error}") from error
    if content != expected:
        raise ArtifactError(f"{SIGNATURE} was edited: its hash differs")


def _damaged(what: str) -> NoReturn:
    raise ArtifactError(f"{SIGNATURE} is damaged at {what!r}")


def _file_table(data: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    table = data.get("files")
    if not isinstance(table, dict) or set(table) != set(CONTENTS):
        _damaged("files")
    result: dict[str, tuple[int, str]] = {}
    for name in CONTENTS:
        entry = table[name]
        if not isinstance(entry, dict):
            _damaged("files")
        size, digest = entry.get("bytes"), entry.get("sha256")
        if type(size) is not int or not 0 <= size < 2**62:
            _damaged("files")
        if not isinstance(digest, str) or not _HEXADECIMAL.fullmatch(digest):
            _damaged("files")
        result[name] = (size, digest)
    return result


def _signature(data: Mapping[str, Any]) -> Signature:
    target = data.get("target")
    if not isinstance(target, dict):
        _damaged("target")
    kernels = data.get("kernels")
    if type(kernels) is not int or not 0 <= kernels < 2**31:
        _damaged("kernels")
    return Signature(
        graphc_version=_text(data, "graphc_version"),
        name=_text(data, "name"),
        triple=_text(target, "triple"),
        cpu=_text(target, "cpu"),
        features=_text(target, "features"),
        kernels=kernels,
        arguments=tuple(_info(item, "arguments") for item in _list(data, "arguments")),
        results=tuple(
            None if item is None else _info(item, "results") for item in _list(data, "results")
        ),
        structure=data.get("structure"),
        variables=tuple(_info(item, "variables") for item in _list(data, "variables")),
    )


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        _damaged(key)
    return value


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        _damaged(key)
    return value


def _info(item: Any, where: str) -> TensorInfo:
    if not isinstance(item, dict):
        _damaged(where)
    name, dtype, shape = item.get("name"), item.get("dtype"), item.get("shape")
    if name is not None and not isinstance(name, str):
        _damaged(where)
    if not isinstance(dtype, str) or dtypes.named(dtype) is None:
        _damaged(where)
    if not isinstance(shape, list):
        _damaged(where)
    for dim in shape:
        if not isinstance(dim, str) and (type(dim) is not int or dim < 0):
            _damaged(where)
    numbers: list[int | None] = []
    for key in ("read", "written"):
        number = item.get(key)
        if number is not None and (type(number) is not int or number < 0):
            _damaged(where)
        numbers.append(number)
    return TensorInfo(name, dtype, tuple(shape), *numbers)
