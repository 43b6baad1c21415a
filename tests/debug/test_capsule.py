"""Replay capsules: what they hold, that they repeat a run to the bit, and what is refused."""

from __future__ import annotations

import io
import json
import os
import random
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.errors import GraphcError
from graphc.base.options import Options
from graphc.checking.compare import same_bits
from graphc.debug.capsule import load_capsule

X = np.linspace(-3, 3, 12, dtype="float32").reshape(4, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A capsule of a run with symbolic dims, a variable, a large constant and a loop."""
    with gx.Graph("captured"):
        x = gx.placeholder((None, 3), name="x")
        w = gx.variable(np.eye(3, dtype="float32"), name="w")
        table = gx.constant(np.arange(300, dtype="float32").reshape(100, 3) / 300)
        y = gx.nn.softmax(x @ w) + table[:1]
        z = gx.while_loop(lambda v: gx.sum(v) < 50.0, lambda v: gx.abs(v) * 2.0 + 0.1, y)
        session = gx.Session(options=Options(numerics="strict", off={"cse"}))
        exe = session.compile([y, z, gx.group(w.assign_add(1.0))], [x])
    session.set({w: np.full((3, 3), 0.3)})
    exe.capture(tmp_path / "bug.gxr", X)
    assert np.array_equal(session.get(w), np.full((3, 3), np.float32(0.3)))
    return tmp_path / "bug.gxr"


def test_a_capsule_repeats_the_run(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["bug.gxr"]
    capsule = load_capsule(path)
    case = capsule.case
    assert not capsule.failed and capsule.same_bits
    assert case.options == Options(numerics="strict", off={"cse"})
    assert [value.name for value in case.graph.inputs] == ["x", "w"] and case.states == 1
    given, _ = case.native()
    assert not isinstance(given, Exception)
    assert len(given) == 3
    for expected, array in zip(capsule.outcome, given, strict=True):
        assert isinstance(expected, np.ndarray)
        assert same_bits(expected, array).all()
    lines = {str(node.provenance.where) for node in case.graph.walk()}
    assert any(line.startswith(__file__) for line in lines)


def test_an_error_is_captured(tmp_path: Path) -> None:
    with gx.Graph(), gx.Session() as session:
        places = gx.placeholder((2,), "int64", name="places")
        exe = session.compile(gx.take(gx.constant(np.arange(3.0)), places, axis=0))
        exe.capture(tmp_path / "a.gxr", [0, 7])
    capsule = load_capsule(tmp_path / "a.gxr")
    assert capsule.failed and capsule.outcome[0] == "IndexRangeError"
    outcome, _ = capsule.case.native()
    assert isinstance(outcome, gx.IndexRangeError) and "7" in outcome.message
    with pytest.raises(gx.FeedError):
        exe.capture(tmp_path / "b.gxr", [0.5, 7])
    assert not (tmp_path / "b.gxr").exists()


def test_arrays_are_kept_as_they_are(tmp_path: Path) -> None:
    special = np.array([np.nan, -np.nan, -0.0, np.inf, 5e-324])
    with gx.Graph(), gx.Session() as session:
        x, flag = gx.placeholder((None,), "float64"), gx.placeholder((), "bool")
        empty = gx.placeholder((0, 3), "int8")
        exe = session.compile([gx.where(flag, x, -x), empty + 1], [x, flag, empty])
        exe.capture(tmp_path / "a.gxr", special[::-1], True, np.zeros((0, 3), "int8"))
    case = load_capsule(tmp_path / "a.gxr").case
    assert case.arrays[0].tobytes() == special[::-1].tobytes()
    assert [array.shape for array in case.arrays] == [(5,), (), (0, 3)]


# --- what is refused -----------------------------------------------------------------------------


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(array: Any, **details: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **details)
    return buffer.getvalue()


def pack(path: Path, parts: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts:
            archive.writestr(name, content)


def changed(path: Path, name: str, content: bytes | None) -> None:
    parts = members(path)
    assert name in parts
    if content is None:
        del parts[name]
    else:
        parts[name] = content
    pack(path, list(parts.items()))


def text(content: str) -> bytes:
    return npy(np.frombuffer(content.encode(), np.uint8))


def about(path: Path, **changes: Any) -> None:
    known = json.loads(np.load(path)["about"].tobytes())
    changed(path, "about.npy", text(json.dumps({**known, **changes})))


def refused(path: Path, message: str) -> None:
    with pytest.raises((gx.ArtifactError, gx.ParseError), match=message):
        load_capsule(path)


TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (lambda p: p.write_bytes(b""), "can't be read"),
    "text": (lambda p: p.write_text("graph"), "can't be read"),
    "missing": (lambda p: changed(p, "graph.npy", None), "graph is missing"),
    "no result": (lambda p: changed(p, "result_1.npy", None), "3 results"),
    "no input": (lambda p: changed(p, "input_0.npy", None), "2 inputs"),
    "no constant": (
        lambda p: changed(p, next(n for n in members(p) if n.startswith("constant")), None),
        "constant|payload|digest",
    ),
    "object": (
        lambda p: changed(p, "input_0.npy", npy(np.array([{}, []], object), allow_pickle=True)),
        "can't be read",
    ),
    "dates": (lambda p: changed(p, "input_0.npy", npy(np.zeros(2, "M8[s]"))), "numbers or bools"),
    "no array": (lambda p: changed(p, "input_0.npy", b"1 2 3"), "numbers or bools"),
    "shape": (lambda p: changed(p, "input_0.npy", npy(X.T.copy())), "don't fit"),
    "rank": (lambda p: changed(p, "input_0.npy", npy(X[0])), "don't fit"),
    "dtype": (lambda p: changed(p, "input_0.npy", npy(X.astype("f8"))), "float64, not float32"),
    "result": (lambda p: changed(p, "result_0.npy", npy(X.astype("f8"))), "a result is float64"),
    "graph": (lambda p: changed(p, "graph.npy", text('graph "g" () {')), "expected"),
    "encoding": (lambda p: changed(p, "graph.npy", npy(np.full(9, 255, "u1"))), "UTF-8"),
    "floats": (lambda p: changed(p, "graph.npy", npy(X)), "no text"),
    "json": (lambda p: changed(p, "about.npy", text("{")), "no JSON"),
    "nested": (lambda p: changed(p, "about.npy", text("[" * 100_000)), "no JSON"),
    "list": (lambda p: changed(p, "about.npy", text("[]")), "does not say"),
    "version": (lambda p: about(p, version=2), "version 2"),
    "states": (lambda p: about(p, states=3), "number of variables"),
    "negative": (lambda p: about(p, states=-1), "number of variables"),
    "lines": (lambda p: about(p, lines=[]), "lines don't fit"),
    "line": (lambda p: about(p, lines=[["a.py", -1]] * 99), "lines don't fit"),
    "options": (lambda p: about(p, options={"decisions": "/tmp/x"}), "options are damaged"),
    "fuel": (lambda p: about(p, options={"fuel": "much"}), "options are damaged"),
    "names": (lambda p: about(p, options={"off": 3}), "options are damaged"),
    "target": (lambda p: about(p, target={}), "target is damaged"),
    "error": (lambda p: about(p, error=["a"]), "outcome is damaged"),
    "extra": (lambda p: about(p, more=1), "incomplete"),
    "both": (lambda p: about(p, error=["GraphError", "x"]), "0 results"),
    "path": (
        lambda p: pack(p, [*members(p).items(), ("../../evil.npy", npy(X))]), "a file called",
    ),
    "absolute": (lambda p: pack(p, [*members(p).items(), ("/evil.npy", b"")]), "a file called"),
    "unknown": (lambda p: pack(p, [*members(p).items(), ("code.py", b"")]), "a file called"),
    "compressed": (
        lambda p: pack(p, list(members(p).items()), zipfile.ZIP_DEFLATED), "compressed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_capsules_are_refused(path: Path, name: str) -> None:
    tamper, message = TAMPERED[name]
    tamper(path)
    refused(path, message)


def test_names_that_occur_twice_are_refused(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        pack(path, [*members(path).items(), ("input_0.npy", npy(X))])
    refused(path, "several files of one name")


def test_sizes_that_lie_are_refused(path: Path) -> None:
    header = npy(np.zeros((2, 2), "float32"))
    huge = header.replace(b"(2, 2), ", b"(9999999999, 99999), ").replace(b" " * 16 + b"\n", b"\n")
    changed(path, "input_0.npy", huge)
    refused(path, "can't be read")


def test_lines_in_devices_are_refused(path: Path) -> None:
    count = len(json.loads(np.load(path)["about"].tobytes())["lines"])
    about(path, lines=[["/dev/zero", 1]] * count)
    refused(path, "no regular file")


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gxr")
    refused(tmp_path / "pipe.gxr", "no regular file")
    with pytest.raises(OSError):
        load_capsule(tmp_path / "nothing.gxr")


def test_any_damage_is_an_error_or_harmless(path: Path) -> None:
    whole = path.read_bytes()
    source = random.Random(1)
    for _ in range(150):
        content = bytearray(whole)
        if source.random() < 0.3:
            content = content[: source.randrange(len(content))]
        else:
            for _ in range(source.randint(1, 3)):
                content[source.randrange(len(content))] = source.randrange(256)
        path.write_bytes(content)
        try:
            load_capsule(path)
        except (GraphcError, OSError):
            continue


def test_writing_replaces_at_once(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    with gx.Graph(), gx.Session() as session:
        x = gx.placeholder((2,), name="x")
        exe = session.compile(x + 1.0)
        with pytest.raises(OSError):
            exe.capture(tmp_path / "no" / "where.gxr", [1, 2])
        exe.capture(path, [1, 2])
    assert path.read_bytes() != before
    assert len(load_capsule(path).outcome) == 1
