"""The verifier of the graph IR, and graphs in files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_ops
from tiny_ops import ADD, GROUP, HALVES, NEGATE, TAG, chain, node, sample, tagged, value

from graphc.base.errors import GraphError, ParseError, VerifyError
from graphc.ir.attributes import Payload
from graphc.ir.dims import expressions
from graphc.ir.equal import difference, structural_hash
from graphc.ir.graph import Graph
from graphc.ir.text.files import load_graph, save_graph
from graphc.ir.verify import verify


@pytest.fixture(scope="module", autouse=True)
def _operations() -> Iterator[None]:
    with tiny_ops.registered():
        yield


# --- verifier ------------------------------------------------------------------------------------


def test_sample_verifies() -> None:
    verify(sample())
    verify(chain(100))


def broken_graphs() -> dict[str, tuple[Graph, str]]:
    x, y = value(4, name="x"), value(4, name="y")
    first, second = node(NEGATE, x), node(NEGATE, y)
    after = node(NEGATE, first.output)
    twin = replace(second, outputs=first.outputs)
    wrong = replace(first, outputs=(value(5),))
    fewer = replace(node(HALVES, x, axis=0), outputs=(value(2),))
    empty = replace(first, outputs=())
    listed = replace(node(TAG, x), attrs={"a": [1]})
    numpy_integer = replace(node(TAG, x), attrs={"a": (np.int64(1),)})
    lacking = replace(node(HALVES, x, axis=0), attrs={})
    redefined = replace(first, outputs=(x,))
    inner = value(4)
    leak = node(ADD, inner, x)
    leaking = node(GROUP, y, regions=[Graph("r", [inner], [leak], [leak.output])])
    same = node(GROUP, x, regions=[Graph("r", [x], [], [x])])
    unknown = node(GROUP, x, regions=[Graph("r", [inner], [], [y])])
    n = expressions.symbol("n")
    sized = node(TAG, inner, size=n)
    hidden = node(GROUP, x, regions=[Graph("r", [inner], [sized], [inner])])
    return {
        "two producers": (Graph("g", [x, y], [first, twin], [x]), "has a producer already"),
        "produced input": (Graph("g", [x], [redefined], [x]), "is an input already"),
        "repeated input": (Graph("g", [x, x], [], [x]), "is an input already"),
        "late": (Graph("g", [x], [after, first], [x]), "before it is defined"),
        "undefined": (Graph("g", [x], [second], [x]), "that nothing defines"),
        "output": (Graph("g", [x], [], [y]), "the output <Value 'y' float32[4]> is not defined"),
        "type": (Graph("g", [x], [wrong], [x]), "are float32[5], the type rule says float32[4]"),
        "count": (Graph("g", [x], [fewer], [x]), "the type rule says float32[2], float32[2]"),
        "no output": (Graph("g", [x], [empty], [x]), "at least one output"),
        "list": (Graph("g", [x], [listed], [x]), "'a' is not plain"),
        "numpy": (Graph("g", [x], [numpy_integer], [x]), "'a' is not plain"),
        "attribute": (Graph("g", [x], [lacking], [x]), "axis"),
        "leak": (Graph("g", [x, y], [leaking], [x]), "of a graph around this region"),
        "shared": (Graph("g", [x], [same], [x]), "belongs to a graph around"),
        "region output": (Graph("g", [x], [unknown], [x]), "region 0: the output"),
        "hidden symbol": (Graph("g", [x], [hidden], [x]), "symbol n occurs inside a region only"),
        "negative": (Graph("g", [value(-1)], [], []), "extent -1"),
    }


BROKEN = ["two producers", "produced input", "repeated input", "late", "undefined", "output",
          "type", "count", "no output", "list", "numpy", "attribute", "leak", "shared",
          "region output", "hidden symbol", "negative"]  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_verifier_names_what_is_wrong(case: str) -> None:
    cases = broken_graphs()
    assert list(cases) == BROKEN
    graph, message = cases[case]
    with pytest.raises(VerifyError) as caught:
        verify(graph)
    assert message in str(caught.value)
    assert "graph 'g'" in str(caught.value)


# --- files ---------------------------------------------------------------------------------------


def test_files_without_large_constants(tmp_path: Path) -> None:
    path = tmp_path / "m.gir"
    save_graph(path, sample())
    assert os.listdir(tmp_path) == ["m.gir"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert difference(load_graph(str(path)), sample()) is None
    assert str(load_graph(path).nodes[0].provenance.where) == f"{path}:2"


def test_files_with_large_constants(tmp_path: Path) -> None:
    path = tmp_path / "m.gir"
    array = np.random.default_rng(0).standard_normal((50, 60)).astype(np.float32)
    graph = tagged(a=Payload(array), b=(Payload(array.T.copy()),), c=Payload(np.zeros((0, 99))))
    save_graph(path, graph)
    assert sorted(os.listdir(tmp_path)) == ["m.gir", "m.gir.npz"]
    assert stat.S_IMODE((tmp_path / "m.gir.npz").stat().st_mode) == 0o600
    back = load_graph(path)
    assert difference(back, graph) is None
    assert structural_hash(back) == structural_hash(graph)
    save_graph(path, sample())
    assert os.listdir(tmp_path) == ["m.gir"]


def test_damaged_files(tmp_path: Path) -> None:
    path, beside = tmp_path / "m.gir", tmp_path / "m.gir.npz"
    save_graph(path, tagged(a=Payload(np.arange(1000.0))))
    content = beside.read_bytes()
    half = content[: len(content) // 2]
    for damaged in (b"", b"PK", content[:200], half, b"\x93NUMPY" + content):
        beside.write_bytes(damaged)
        with pytest.raises(ParseError):
            load_graph(path)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    beside.write_bytes(bytes(flipped))
    with pytest.raises(ParseError):
        load_graph(path)
    np.savez(beside, objects=np.array([object()], dtype=object))
    with pytest.raises(ParseError):
        load_graph(path)
    beside.unlink()
    with pytest.raises(ParseError, match="not among those given"):
        load_graph(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ParseError, match="UTF-8"):
        load_graph(path)


def test_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gir"
    save_graph(path, sample())
    with pytest.raises(GraphError):
        save_graph(path, tagged(a=[1]))
    with pytest.raises(OSError):
        save_graph(tmp_path / "missing" / "m.gir", sample())
    assert os.listdir(tmp_path) == ["m.gir"]
    load_graph(path)
