"""What is installed, where, and what else has its names (fault 18)."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools import ROOT, child_environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

PROGRAM = """
import graphc as gx
with gx.Graph() as graph:
    x = gx.placeholder((2,), name="x")
print(gx.Session(graph).run(x * 2 + 1, {x: [1.0, 2.0]}))
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder, which finds graphc after what lies in that folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=child_environment(GRAPHC="cache=off"),
        capture_output=True,
        text=True,
        check=False,
    )


# --- names that a user's own files take ----------------------------------------------------------


@pytest.mark.parametrize("taken", ["passes.py", "passes/__init__.py"])
def test_fault_18_a_module_that_hides_the_passes_is_named(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    (tmp_path / taken).write_text("MINE = 1\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    hiding = tmp_path / Path(taken).parts[0]
    for first in ("", "import passes\n"):
        (tmp_path / "program.py").write_text(first + PROGRAM)
        done = run(tmp_path, "program.py")
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("ImportError: the f") and repr(str(hiding)) in last
        assert f"rename {hiding.name!r}" in last
        assert "not a package" not in done.stderr
    hiding.rename(tmp_path / f"my_{hiding.name}")
    (tmp_path / "program.py").write_text(f"import my_passes\n{PROGRAM}")
    done = run(tmp_path, "program.py")
    assert (done.returncode, done.stdout) == (0, "[3. 5.]\n"), done.stderr


def test_fault_18_a_folder_of_another_kind_hides_nothing(tmp_path: Path) -> None:
    """Python takes a folder without ``__init__.py`` only where there is no package."""
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "notes.txt").write_text("three of five\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run(tmp_path, "program.py")
    assert (done.returncode, done.stdout) == (0, "[3. 5.]\n"), done.stderr


def test_fault_18_looking_imports_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", "import graphc, sys; print('passes' in sys.modules)")
    assert done.stdout == "False\n"


# --- the wheel -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as building leaves things behind."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("graphc", "passes", "tests", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    done = run(
        folder, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index",
        "--disable-pip-version-check", "--wheel-dir", "built",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (folder / "built").iterdir()
    return built


def test_fault_18_the_wheel_says_where_it_runs(wheel: Path) -> None:
    assert wheel.name == f"graphc-{PROJECT['version']}-py3-none-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        (info,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Tag: py3-none-manylinux_2_17_x86_64" in archive.read(info).decode()


def test_fault_18_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    assert {name.split("/")[0] for name in names} == {
        "graphc", "passes", f"graphc-{PROJECT['version']}.dist-info"
    }  # fmt: skip
    expected = {
        str(path.relative_to(ROOT))
        for package in ("graphc", "passes")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info" not in name} == expected
    assert {"graphc/py.typed", "passes/py.typed"} <= expected


def test_fault_18_every_extra_brings_something(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(info))
    extras = metadata.get_all("Provides-Extra", [])
    required = metadata.get_all("Requires-Dist", [])
    assert sorted(extras) == sorted(PROJECT["optional-dependencies"])
    for extra in extras:
        assert any(f'extra == "{extra}"' in line for line in required), extra
    always = [line.split(">")[0] for line in required if "extra ==" not in line]
    assert sorted(always) == ["llvmlite<0.51,", "networkx", "numpy", "safetensors"]
