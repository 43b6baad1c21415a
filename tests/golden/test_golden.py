"""Texts of every level are those that were recorded: see ``golden/README.md``."""

from __future__ import annotations

import subprocess
import sys
from typing import NoReturn

import pytest
from tools import child_environment

from golden.catalogue import SOURCES
from golden.hashes import (
    FOLDER,
    differences,
    hashes_of,
    path_of,
    read_table,
    recorded,
    report,
    table_of,
)
from golden.unreached import UNREACHED

HERE = ("library",)
"""Sources that compile for this machine beside."""


@pytest.fixture
def no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may ask what machine this is, nor how many threads it has."""

    def asked(*_: object) -> NoReturn:
        pytest.fail("a text depends on the machine that it is made on")

    for name, module in list(sys.modules.items()):
        if name.startswith(("graphc.", "passes.")):
            for function in ("host", "usable_threads"):
                if hasattr(module, function):
                    monkeypatch.setattr(module, function, asked)


@pytest.mark.usefixtures("no_host")
@pytest.mark.parametrize("name", [name for name in SOURCES if name not in HERE])
def test_nothing_has_moved(name: str) -> None:
    changed = differences(recorded(name), hashes_of(SOURCES[name]))
    assert not changed, report(name, changed)


@pytest.mark.parametrize("name", HERE)
def test_nothing_has_moved_in_a_library(name: str) -> None:
    changed = differences(recorded(name), hashes_of(SOURCES[name]))
    assert not changed, report(name, changed)


def test_every_file_is_of_a_program() -> None:
    assert {*FOLDER.iterdir()} == {path_of(name) for name in SOURCES}


def test_a_change_is_told_by_text_and_target() -> None:
    name = "softmaxes"
    before = recorded(name)
    assert read_table(table_of(before)) == before
    now = {column: dict(hashes) for column, hashes in before.items()}
    label = next(label for label in now["aarch64"] if label.startswith("llvm 2 "))
    now["aarch64"][label] = "0" * 16
    del now["x86-64-v2"]["plan"], now["x86-64-v3"]["plan"]
    changed = differences(before, now)
    assert changed == {"plan": ["x86-64-v2", "x86-64-v3"], label: ["aarch64"]}
    told = report(name, changed)
    assert f"  {label} (aarch64)\n" in told and "make golden-diff PROGRAM=softmaxes" in told
    assert differences({}, before).keys() == {label for texts in before.values() for label in texts}


def test_an_emitter_that_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc.codegen.kernels.nontemporal_stores.LINE", 128)
    changed = differences(recorded("unknown_sizes"), hashes_of(SOURCES["unknown_sizes"]))
    assert changed and all(label.startswith("llvm ") for label in changed)
    # stores bypass the caches on x86 alone
    assert {c for columns in changed.values() for c in columns} == {
        "x86-64-v2", "x86-64-v3", "x86-64-v4",
    }  # fmt: skip


@pytest.mark.slow
def test_the_programs_reach_the_code_generator() -> None:
    command = [sys.executable, "-m", "golden.reached"]
    environment = child_environment()
    environment["PYTHONPATH"] += ":tests"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == set(UNREACHED)
