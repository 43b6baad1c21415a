"""Whatever the bytes of a library are: it is refused, or gives what it gave when it was written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutants
import numpy as np
import pytest
from tools import child_environment

import graphc as gx
from graphc import aot
from graphc.aot import inside
from graphc.aot.artifact import FORMAT_VERSION, opened, signed
from graphc.base import object_layouts
from graphc.base.errors import ArtifactError
from graphc.cli import main
from graphc.plan import abi as table

BATCH = 100


def exported(path: Path, factor: float, **options: Any) -> Path:
    """A program with weights, a variable it writes and one it reads."""
    with gx.Graph("exported"), gx.Session() as session:
        x = gx.placeholder(("n", 4), "float32", name="x")
        w = gx.variable(np.linspace(-1, factor, 20, dtype=np.float32).reshape(4, 5), name="w")
        seen = gx.variable(np.float32(factor), name="seen")
        table = gx.constant(np.linspace(0, factor, 35, dtype=np.float32).reshape(5, 7))
        y = gx.tanh(x @ w) @ table
        exe = session.compile([y, seen.assign_add(gx.sum(y)), y[0] * 2], [x])
        aot.compile(exe, path, name="model", freeze=False, **options)
    return path


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name; the other ones differ in their numbers only."""
    home = tmp_path_factory.mktemp("libraries")
    return {
        "one": exported(home / "one", 1.0, embed_weights=False),
        "other": exported(home / "other", 1.5, embed_weights=False),
        "package": exported(home / "package", 1.0, kind="package"),
        "other package": exported(home / "other_package", 1.5, kind="package"),
    }


@pytest.fixture
def copy(libraries: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(libraries["one"], tmp_path / "copy"))


def refused(path: Path, message: str) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        aot.load(path)
    assert message in caught.value.message, caught.value.message
    assert caught.value.where is not None and caught.value.where.filename == __file__
    return caught.value


def resign(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Edits the signature and makes its own hash right again."""
    file = path / "model.json"
    data = json.loads(file.read_text())
    del data["sha256"]
    change(data)
    file.write_bytes(signed(data))


@pytest.mark.parametrize("name", ["model.json", "libmodel.so", "model.safetensors", "model.h"])
def test_missing_truncated_edited_and_linked_files(copy: Path, tmp_path: Path, name: str) -> None:
    file = copy / name
    content = file.read_bytes()
    file.unlink()
    if name.endswith(".h"):
        assert mutants.answers(copy)
    else:
        refused(copy, "no signature" if name.endswith(".json") else f"{name} is missing")
    for target in (tmp_path / "outside", copy / "inside"):
        target.write_bytes(content)
        file.symlink_to(target)
        refused(copy, f"{name} is a symbolic link")
        file.unlink()
    os.mkfifo(file)
    refused(copy, f"{name} is no regular file")
    file.unlink()
    file.mkdir()
    refused(copy, name)
    file.rmdir()
    for damaged in (content[:-1], content[: len(content) // 2], b"", content + b"x"):
        file.write_bytes(damaged)
        refused(copy, "library")
    place = len(content) // 2
    file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    refused(copy, "library")
    file.write_bytes(content)
    assert mutants.answers(copy)


def test_what_is_no_library(tmp_path: Path, copy: Path) -> None:
    refused(tmp_path / "none", "No such file")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "'file' is no library")
    refused(tmp_path, "no signature")
    with pytest.raises(gx.GraphError, match="is no name of a file"):
        aot.load(Path("bad\0name"))
    shutil.copy(copy / "model.json", copy / "second.json")
    refused(copy, "several signatures in it: model.json, second.json")
    for name in ("model.json", "libmodel.so"):
        assert mutants.answers(copy / name)
    with pytest.raises(gx.GraphError, match="not in 3"):
        aot.load(3)  # type: ignore[arg-type]


def test_an_object_is_for_the_linker(tmp_path: Path) -> None:
    path = exported(tmp_path / "object", 1.0, kind="object")
    error = refused(path, "an object file, to be linked into a program")
    assert error.hint is not None and 'kind="package"' in error.hint


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("aarch64", "is made for aarch64 (aarch64-unknown-linux-gnu), this machine is x86_64"),
        ("aarch64-macos", "is made for arm64-apple-macosx11.0.0; here libraries are ELF files"),
        ("wasm32", "is made for wasm32-unknown-unknown; here libraries are ELF files"),
    ],
)
def test_libraries_for_other_machines(
    target: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"kind": "package", "target": target, "embed_weights": False}
    path = exported(tmp_path / "foreign", 1.0, **options)
    refused(path, message)
    assert main(["inspect", str(path)]) == 0
    assert f"target: {target}, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="onnx"), "foreign"),
        (lambda d: d.update(format_version=1), f"1; this graphc reads version {FORMAT_VERSION}"),
        (lambda d: d.update(format_version=99), f"99; this graphc reads version {FORMAT_VERSION}"),
        (lambda d: d.update(format_version=True), "damaged at 'format_version'"),
        (lambda d: d.update(format_version=-1), "damaged at 'format_version'"),
        (lambda d: d.update(name="../model"), "'name'"),
        (lambda d: d.update(kind="program"), "'kind'"),
        (lambda d: d.update(library="libother.so"), "'library'"),
        (lambda d: d["weights"].update(file="../x.safetensors"), "'weights'"),
        (lambda d: d["weights"].update(sha256="0" * 64), "'weights'"),
        (lambda d: d.update(weights=None), "'weights'"),
        (lambda d: d["weights"].update(file=None), "'files'"),
        (lambda d: d["weights"].update(file=[]), "'weights'"),
        (lambda d: d["files"].update({"../../etc/passwd": d["files"]["model.h"]}), "'files'"),
        (lambda d: d["files"].pop("libmodel.so"), "'files'"),
        (lambda d: d["files"]["libmodel.so"].update(bytes=2**70), "'files'"),
        (lambda d: d["files"]["libmodel.so"].update(sha256="0" * 64), "its hash differs"),
        (lambda d: d["arguments"][0].update(dtype="object"), "'arguments'"),
        (lambda d: d["arguments"][0].update(dtype=[]), "'dtype'"),
        (lambda d: d["arguments"][0].update(shape=[-1]), "'arguments'"),
        (lambda d: d["arguments"][0].update(dtype="float64"), "another signature"),
        (lambda d: d["arguments"].pop(), "another signature"),
        (lambda d: d["arguments"][0].update(read=99), "another signature"),
        (lambda d: d["outputs"].pop(), "'results'"),
        (lambda d: d["variables"][0].update(written=0), "another signature"),
        (lambda d: d["variables"].pop(), "'initial'"),
        (lambda d: d["variables"][0].update(shape=["n"]), "'variables'"),
        (lambda d: d["programs"].clear(), "'programs'"),
        (lambda d: d["programs"][0].update(plan="[[], [], []]\n[]"), "another signature"),
        (lambda d: d["programs"][0].update(kernels=10**12), "another signature"),
        (lambda d: d["programs"][0]["constants"].clear(), "another signature"),
        (lambda d: d["initial"].__setitem__(0, 2**40), "another signature"),
        (lambda d: d.update(weight_bytes=2**40), "another signature"),
        (lambda d: d.update(structure=["list", 0]), "leaves"),
        (lambda d: d.update(structure=["set", 0, 1, 2]), "structure of results"),
        (lambda d: d.update(structure=None), "structure of results"),
        (lambda d: d.update(more=1), "another signature"),
    ],
)
def test_edited_signatures(copy: Path, change: Any, message: str) -> None:
    resign(copy, change)
    refused(copy, message)


def test_deeply_nested_signatures(copy: Path) -> None:
    for text in ("[" * 100_000, '{"format": ' + "9" * 10_000 + "}"):
        (copy / "model.json").write_text(text)
        refused(copy, "damaged")


def test_embedded_weights_of_another_library(libraries: dict[str, Path], tmp_path: Path) -> None:
    """The signatures differ in a hash alone."""
    path = Path(shutil.copytree(libraries["package"], tmp_path / "copy"))
    rewritten(path / "model.o", (libraries["other package"] / "model.o").read_bytes())
    refused(path, "written for another signature")


def rewritten(file: Path, content: bytes) -> None:
    """Another file in place of one that may be mapped, all hashes mended."""
    file.unlink()
    file.write_bytes(content)
    mutants.mend(file.parent)


def test_files_of_another_library(libraries: dict[str, Path], copy: Path) -> None:
    other = libraries["other"]
    for name, message in (
        ("libmodel.so", "written for another signature"),
        ("model.safetensors", "written for another signature"),
    ):
        kept, foreign = (copy / name).read_bytes(), (other / name).read_bytes()
        (copy / name).write_bytes(foreign)
        refused(copy, "hash differs" if len(kept) == len(foreign) else "bytes, not")
        rewritten(copy / name, foreign)
        refused(copy, message)
        rewritten(copy / name, kept)
    assert mutants.answers(copy) == mutants.answers(libraries["one"])


def test_foreign_and_truncated_code_with_hashes_mended(copy: Path) -> None:
    content = (copy / "libmodel.so").read_bytes()
    for length in (0, 20, 64, 200, len(content) // 2):
        rewritten(copy / "libmodel.so", content[:length])
        refused(copy, "is made for" if length < 64 else "is truncated")
    machine = bytearray(content)
    machine[18:20] = struct.pack("<H", 183)
    rewritten(copy / "libmodel.so", bytes(machine))
    refused(copy, "is made for aarch64")
    kind = bytearray(content)
    kind[16:18] = struct.pack("<H", 1)
    rewritten(copy / "libmodel.so", bytes(kind))
    refused(copy, "is no shared library")
    rewritten(copy / "libmodel.so", b"MZ" + content)
    refused(copy, "here libraries are ELF files")
    rewritten(copy / "libmodel.so", content.replace(b"model_internal", b"model_infernal"))
    refused(copy, "no function model_internal")


def test_files_that_change_under_a_loaded_library(copy: Path) -> None:
    first = aot.load(copy)
    file = copy / "libmodel.so"
    with open(file, "ab") as opened_file:
        opened_file.write(b"x")
    mutants.mend(copy)
    refused(copy, "changed after it was loaded")
    assert len(first(mutants.SMALL)) == 3


def test_processors_that_lack_what_a_library_needs(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphc.aot import machine_code

    found = machine_code.ctypes.CFUNCTYPE

    def without_program(*types: Any) -> Any:
        make = found(*types)
        return lambda address: lambda what: 0 if what == machine_code.PROGRAM else make(address)(
            what
        )

    monkeypatch.setattr(machine_code.ctypes, "CFUNCTYPE", without_program)
    error = refused(copy, "this processor lacks instructions")
    assert error.hint is not None and "variants=" in error.hint


# --- mutants -------------------------------------------------------------------------------------


def try_mutants(libraries: dict[str, Path], scratch: Path, name: str, first: int, last: int) -> int:
    """Loads mutants in a process of their own; gives how many were refused."""
    other = "other" if name == "one" else f"other {name}"
    environment = child_environment()
    refusals = 0
    for start in range(first, last, BATCH):
        scratch.mkdir()
        stop = min(start + BATCH, last)
        command = [sys.executable, mutants.__file__, libraries[name], libraries[other], scratch]
        done = subprocess.run(
            [*map(str, command), str(start), str(stop)],
            capture_output=True, text=True, timeout=300, env=environment, check=False,
        )  # fmt: skip
        *seeds, told = done.stdout.split("\n")[:-1] or [""]
        assert done.returncode == 0, (done.returncode, seeds[-1:], told, done.stderr[-3000:])
        refusals += int(told.removeprefix("refused "))
        shutil.rmtree(scratch)
    return refusals


def test_three_hundred_mutants(libraries: dict[str, Path], tmp_path: Path) -> None:
    assert try_mutants(libraries, tmp_path / "scratch", "one", 0, 200) > 160
    assert try_mutants(libraries, tmp_path / "scratch", "package", 0, 100) > 80


@pytest.mark.slow
def test_five_thousand_mutants(libraries: dict[str, Path], tmp_path: Path) -> None:
    assert try_mutants(libraries, tmp_path / "scratch", "one", 1000, 5000) > 3200
    assert try_mutants(libraries, tmp_path / "scratch", "package", 1000, 2000) > 800


def test_what_was_checked_is_what_was_opened(copy: Path) -> None:
    with opened(copy) as artifact:
        (copy / "libmodel.so").unlink()
        descriptor = artifact.descriptors["libmodel.so"]
        assert os.fstat(descriptor).st_size == artifact.files["libmodel.so"].bytes


# --- versions ------------------------------------------------------------------------------------


def test_the_version_changes_with_what_loader_and_machine_code_agree_on() -> None:
    """Code of one version that is loaded by another would run amok."""
    agreed: list[Any] = []
    for module in (inside, object_layouts, table):
        agreed += sorted((name, value) for name, value in vars(module).items() if name.isupper())
    digest = hashlib.sha256(repr(agreed).encode()).hexdigest()[:16]
    assert (FORMAT_VERSION, digest) == (15, "f4e934cf4000db4e"), (
        "libraries written before can't be loaded any more: raise FORMAT_VERSION in "
        "graphc/aot/artifact.py, and write the new digest here"
    )
