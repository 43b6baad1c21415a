"""Object files to shared libraries: what is visible, what is not, and errors."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from object_symbols import macho_exports
from tools import need_linker, tool

import graphc as gx
from graphc.aot import link as linking
from graphc.aot.link import has_linker, library_name, link
from graphc.base.target import named
from graphc.runtime.jit import compile_object

TEXT = """
@table = private constant [3 x double] [double 1.0, double 2.0, double 4.0]
define double @answer(i64 %n) {
  %v = call double @hidden_part(i64 %n)
  ret double %v
}
define hidden double @hidden_part(i64 %n) {
  %p = getelementptr double, ptr @table, i64 %n
  %v = load double, ptr %p
  ret double %v
}
"""
HERE = named("x86-64-v2")
KINDS = {
    "x86-64-v3": b"\x7fELF\x02\x01", "aarch64": b"\x7fELF\x02\x01",
    "aarch64-macos": b"\xcf\xfa\xed\xfe", "x86-64-windows": b"MZ", "wasm32": b"\0asm",
}  # fmt: skip


def simple(target: str) -> bytes:
    return compile_object(TEXT, named(target))


@pytest.fixture
def with_cc() -> None:
    tool("cc")


@pytest.fixture
def without_cc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which there is no C compiler."""
    find = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "cc" else find(name))


@pytest.fixture
def without_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "_zig", lambda: None)


def loaded(image: bytes, at: Path) -> ctypes.CDLL:
    path = at / "library.so"
    path.write_bytes(image)
    return ctypes.CDLL(str(path))


def check(image: bytes, at: Path) -> None:
    """A library whose one function works, and shows nothing else."""
    library = loaded(image, at)
    library.answer.restype = ctypes.c_double
    assert [library.answer(ctypes.c_int64(n)) for n in range(3)] == [1.0, 2.0, 4.0]
    assert not hasattr(library, "hidden_part")
    for word in (os.fsencode(os.path.expanduser("~")), b"/tmp", b"graphc-link", b"hidden_part"):
        assert word not in image


@pytest.mark.usefixtures("with_cc", "without_zig")
def test_a_library_by_cc(tmp_path: Path) -> None:
    image = link([simple("x86-64-v2")], ["answer"], HERE, "simple")
    check(image, tmp_path)
    assert image == link([simple("x86-64-v2")], ["answer"], HERE, "simple")
    assert b"libsimple.so" in image
    command = [tool("readelf"), "-dlW", str(tmp_path / "library.so")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "NODELETE" in said
    (stack,) = (line for line in said.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack
    assert "RPATH" not in said and "RUNPATH" not in said


@pytest.mark.usefixtures("with_cc")
def test_objects_see_each_other(tmp_path: Path) -> None:
    text = "declare i64 @other()\ndefine i64 @answer() {\n  %v = call i64 @other()\n  ret i64 %v\n}"
    first = compile_object(text, HERE)
    second = compile_object("define hidden i64 @other() {\n  ret i64 42\n}", HERE)
    library = loaded(link([first, second], ["answer"], HERE, "two"), tmp_path)
    assert library.answer() == 42
    assert not hasattr(library, "other")


@pytest.mark.slow
@pytest.mark.usefixtures("without_cc")
def test_a_library_by_zig(tmp_path: Path) -> None:
    need_linker(HERE)
    image = link([simple("x86-64-v2")], ["answer"], HERE, "simple")
    check(image, tmp_path)
    assert image == link([simple("x86-64-v2")], ["answer"], HERE, "simple")


@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name in KINDS if name != "x86-64-v3"])
def test_libraries_for_other_platforms(target: str) -> None:
    chosen = named(target)
    need_linker(chosen)
    images = {link([simple(target)], ["answer"], chosen, "simple") for _ in range(2)}
    (image,) = images
    assert image.startswith(KINDS[target])
    assert b"answer" in image
    if target == "x86-64-windows":
        assert b".dll\0" not in image.lower().replace(b"simple.dll", b"")
    if target == "aarch64-macos":
        assert macho_exports(image) == {"answer"}
    else:
        assert b"hidden_part" not in image
    assert b"graphc-link" not in image and os.fsencode(os.path.expanduser("~")) not in image


def test_names_of_files() -> None:
    assert [library_name("net", named(name)) for name in KINDS] == [
        "libnet.so", "libnet.so", "libnet.dylib", "net.dll", "net.wasm",
    ]  # fmt: skip


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_cc", "without_zig")
@pytest.mark.parametrize("target", KINDS)
def test_without_a_linker(target: str) -> None:
    assert not has_linker(named(target))
    with pytest.raises(gx.UnsupportedError, match="no linker") as caught:
        link([simple(target)], ["answer"], named(target), "simple")
    assert "pip install ziglang" in str(caught.value)
    assert ("no cc" in str(caught.value)) == (target == "x86-64-v3")


@pytest.mark.usefixtures("with_cc")
def test_the_linker_says_what_it_lacks() -> None:
    text = "declare void @nowhere_to_be_found()\ndefine void @answer() {\n"
    image = compile_object(text + "  call void @nowhere_to_be_found()\n  ret void\n}", HERE)
    with pytest.raises(gx.ArtifactError, match=r"linking libbroken\.so failed") as caught:
        link([image], ["answer"], HERE, "broken")
    assert "nowhere_to_be_found" in str(caught.value)
    with pytest.raises(gx.ArtifactError, match="failed"):
        link([b"no object at all"], ["answer"], HERE, "broken")
    with pytest.raises(gx.ArtifactError, match="another_answer"):
        link([simple("x86-64-v2")], ["answer", "another_answer"], HERE, "broken")


def test_a_linker_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "cc"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(linking, "_SECONDS", 0.2)
    with pytest.raises(gx.ArtifactError, match="took longer than"):
        link([simple("x86-64-v2")], ["answer"], HERE, "simple")


@pytest.mark.parametrize("name", ["", "a/b", "../a", "-o", "a b", "a\nb", "ü"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(gx.ArtifactError, match="cannot be called"):
        link([simple("x86-64-v2")], ["answer"], HERE, name)
    with pytest.raises(gx.ArtifactError, match="no symbol"):
        link([simple("x86-64-v2")], [name], HERE, "simple")
