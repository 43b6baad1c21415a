"""The same graph, options and target give the same bytes, whatever process writes them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from slow_parameters import slow_unless
from tools import tool

SCRIPT = """
import sys
import numpy as np
import graphc as gx

random = np.random.default_rng(0)
with gx.Graph() as graph:
    x = gx.placeholder(("batch", 12), "float32", name="x")
    t = gx.placeholder(("batch",), "int64", name="t")
    w = gx.variable(random.standard_normal((12, 7)).astype(np.float32), name="w")
    c = gx.constant(random.standard_normal((7, 7)).astype(np.float32))
    y = gx.relu(x @ w) @ c
    loss = gx.nn.softmax_cross_entropy(y, t).mean()
    train = gx.optim.Adam(1e-3).minimize(loss)
session = gx.Session(graph, options=gx.Options(threads=int(sys.argv[2])))
exe = session.compile([train, loss, y], [x, t])
gx.aot.compile(exe, sys.argv[1], name="step", target=sys.argv[3], kind=sys.argv[4],
               embed_weights=sys.argv[5] == "embedded")
"""


def written(home: Path, seed: str, threads: str, *order: str) -> dict[str, str]:
    """The hashes of what a fresh process writes, with directories of its own for everything."""
    for name in ("home", "temporary", "work"):
        (home / name).mkdir(parents=True)
    script = home / "work" / "same.py"
    script.write_text(SCRIPT)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONHASHSEED": seed,
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "temporary"),
        "GRAPHC": "cache=off",
    }
    target = home / "work" / "out"
    command = [sys.executable, str(script), str(target), threads, *order]
    subprocess.run(command, env=environment, cwd=home / "work", check=True, timeout=300)
    contents = {path.name: path.read_bytes() for path in target.iterdir()}
    for name, content in contents.items():
        assert str(home).encode() not in content, name
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


@slow_unless(lambda order: order[0] == "x86-64-v3")
@pytest.mark.parametrize(
    "order",
    [
        ("x86-64-v3", "shared", "embedded"),
        ("x86-64-v2", "object", "apart"),
        ("aarch64", "object", "embedded"),
        ("wasm32", "object", "embedded"),
    ],
)
def test_two_environments_write_the_same_bytes(tmp_path: Path, order: tuple[str, ...]) -> None:
    if order[1] == "shared":
        tool("cc")
    first = written(tmp_path / "a", "1", "1", *order)
    second = written(tmp_path / "another", "77", "2", *order)
    assert first == second
    assert len(first) >= 3
