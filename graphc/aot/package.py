"""Writing packages: an executable as an object file, its plan, its arrays and a signature."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np

from graphc import __version__
from graphc.aot.artifact import (
    CONSTANTS,
    FORMAT,
    OBJECT,
    PLAN,
    PLAN_DIGEST,
    SIGNATURE,
    STATE,
    Signature,
    TensorInfo,
    signature_text,
)
from graphc.base.errors import ArtifactError, UnsupportedError
from graphc.base.source import caller
from graphc.codegen.walker import emit_program, emit_walker
from graphc.executable import Executable
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.plan.text import constants_of, print_plan
from graphc.runtime.jit import compile_object
from graphc.structure import leaves
from graphc.structure_data import structure_data


def write_package(exe: Executable, path: str | os.PathLike[str], kind: str = "package") -> None:
    """Writes a package; see ``graphc.aot.compile``."""
    if kind != "package":
        raise UnsupportedError(
            f"graphc cannot export the kind {kind!r}", where=caller(), hint='known is "package"'
        )
    signature, values = _describe(exe)
    plan = exe.compiled.plan
    target = exe.compiled.target
    text = print_plan(plan).encode()
    program = emit_program(plan, target)
    module = program.joined(emit_walker(target)) + _digest_constant(text)
    files = {
        OBJECT: compile_object(module, target),
        PLAN: text,
        CONSTANTS: _archive(constants_of(plan)),
        STATE: _archive({str(number): value for number, value in enumerate(values)}),
    }
    _publish(os.fspath(path), {**files, SIGNATURE: signature_text(signature, files)})


# --- content -------------------------------------------------------------------------------------


def _info(value: Value, read: int | None = None, written: int | None = None) -> TensorInfo:
    shape = tuple(dim if isinstance(dim, int) else str(dim) for dim in value.shape)
    return TensorInfo(value.name, value.dtype.name, shape, read, written)


def _describe(exe: Executable) -> tuple[Signature, list[Array]]:
    """The signature, and the variables' current values in its order."""
    extraction, target = exe._extraction, exe.compiled.target
    structure = structure_data(exe._fetches)
    feed_of = {value: number for number, value in enumerate(extraction.feeds)}
    state_of = {v: number for number, v in enumerate(extraction.states, len(extraction.feeds))}
    written = {v: number for number, v in enumerate(extraction.written, exe._results)}
    results: list[TensorInfo | None] = []
    outputs = 0
    for leaf in leaves(exe._fetches):
        if isinstance(leaf, Value):
            results.append(_info(leaf, written=outputs))
            outputs += 1
        else:
            results.append(None)
    variables = list(dict.fromkeys((*extraction.states, *extraction.written)))
    values = exe._session._holdings.copies(variables)
    signature = Signature(
        graphc_version=__version__,
        name=exe.compiled.plan.name,
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
        kernels=len(exe.compiled.plan.kernels),
        arguments=tuple(_info(value, feed_of.get(value)) for value in exe.feeds),
        results=tuple(results),
        structure=structure,
        variables=tuple(_info(v, state_of.get(v), written.get(v)) for v in variables),
    )
    return signature, values


def _digest_constant(plan: bytes) -> str:
    """The constant by which the object tells what plan it belongs to."""
    text = "".join(f"\\{byte:02X}" for byte in hashlib.sha256(plan).digest())
    return f'@{PLAN_DIGEST} = constant [32 x i8] c"{text}"\n'


def _archive(arrays: Mapping[str, Array]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


# --- files ---------------------------------------------------------------------------------------


def _publish(path: str, files: Mapping[str, bytes]) -> None:
    """A directory of these files at ``path``, put there when it is complete."""
    path = os.path.abspath(path)
    parent = os.path.dirname(path)
    _check_free(path)
    temporary = tempfile.mkdtemp(dir=parent, prefix=".", suffix=".part")
    try:
        for name, content in files.items():
            _write(os.path.join(temporary, name), content)
        _sync_directory(temporary)
        _put_in_place(temporary, path)
        _sync_directory(parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _check_free(path: str) -> None:
    """What is replaced must be a package or an empty directory."""
    if not os.path.lexists(path):
        return
    if os.path.isdir(path) and not os.path.islink(path):
        names: Sequence[str] = os.listdir(path)
        if not names:
            return
        signature = os.path.join(path, SIGNATURE)
        if os.path.isfile(signature):
            with open(signature, "rb") as file:
                if f'"{FORMAT}"'.encode() in file.read(256):
                    return
    raise ArtifactError(
        f"{path!r} exists and is no package", hint="remove it or write to another path"
    )


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(temporary: str, path: str) -> None:
    """Renames; an older package steps aside first and comes back if that fails."""
    if not os.path.lexists(path):
        os.rename(temporary, path)
        return
    aside = tempfile.mkdtemp(dir=os.path.dirname(path), prefix=".", suffix=".old")
    try:
        os.rename(path, os.path.join(aside, "package"))
        try:
            os.rename(temporary, path)
        except BaseException:
            os.rename(os.path.join(aside, "package"), path)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


__all__ = ["write_package"]
