"""Graphs of the cases about code for a chosen target, exported and cached."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from tools import tool

import graphc as gx
from cases.registry import CaseRun, case
from graphc.base.target import named

AVX = re.compile(r"\t(v[a-z]\w+)\s|%[yz]mm")
"""Instructions with a prefix that processors before AVX don't know, and registers they lack."""


@case("aot-target")
def code_is_for_the_chosen_target(run: CaseRun) -> list[Any]:
    x = run.enter(run.inputs["x"], "x", constant=False)
    y = gx.tanh(x)
    _exported(y, x, run.directory)
    _cached(run, y, x)
    return run.fetch([y])


def _exported(y: Any, x: Any, folder: Path) -> None:
    """A library for x86-64 without AVX has no such instruction; one for AVX2 has some."""
    tool("cc")
    exe = gx.Session(y.graph).compile(y, [x])
    for level, has_avx in (("x86-64-v2", False), ("x86-64-v3", True)):
        gx.aot.compile(exe, folder / level, target=level, name="tanh")
        command = [tool("objdump"), "-d", "--no-show-raw-insn", str(folder / level / "libtanh.so")]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = {name for line in text.splitlines() for name in AVX.findall(line)}
        assert bool(found - {"verr", "verw"}) is has_avx, (level, sorted(found))


def _cached(run: CaseRun, y: Any, x: Any) -> None:
    """What was kept for other features is not taken, with a reason; for the same it always is."""
    options = gx.Options(cache=str(run.directory / "cache"), optimize=3)
    said = []
    for level in ("x86-64-v2", "x86-64-v2", "x86-64-v3", "x86-64-v3", "x86-64-v2"):
        session = gx.Session(y.graph, options=options, target=named(level))
        session.run(y, {x: run.inputs["x"]})
        (compilation,) = session.compilations
        said.append(compilation.cache)
    assert [reason == "hit" for reason in said] == [False, True, False, True, True], said
    assert all(said)
