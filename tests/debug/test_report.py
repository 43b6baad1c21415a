"""Reports: what they hold, and that nothing a user names is markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_harness import HOSTILE, large_model, read, small_model

import graphc as gx
from graphc.cli import main
from graphc.debug.report import numbered
from graphc.debug.report.diff import rows_between
from graphc.debug.report.page import embedded

# --- comparing graphs ----------------------------------------------------------------------------


@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 12), st.data())
def test_rows_show_every_node_once(
    first: list[int], second: list[int], shared: int, data: st.DataObject
) -> None:
    before = [(value, 0) for value in first[: data.draw(st.integers(0, 12))]]
    after = [(value if value < shared else value + 100, value % 2) for value in second]
    left, right = [], []
    for sign, from_, to, count in rows_between(before, after):
        for step in range(count):
            if sign in "=~-<":
                left.append(from_ + step)
            if sign in "=~+>":
                right.append(to + step)
            if sign in "=~":
                assert before[from_ + step][0] == after[to + step][0]
                assert (sign == "=") == (before[from_ + step][1] == after[to + step][1])
            values = {value for value, _ in after}
            if sign in "-<":
                assert (sign == "<") == (before[from_ + step][0] in values)
            if sign in "+>":
                assert (sign == ">") == (after[to + step][0] in {value for value, _ in before})
    assert left == list(range(len(before)))
    assert right == list(range(len(after)))


def test_equal_graphs_are_one_run() -> None:
    nodes = [(value, value) for value in range(100)]
    assert rows_between(nodes, nodes) == [("=", 0, 0, 100)]


def test_the_longest_common_order_stays_in_place() -> None:
    before = [(value, 0) for value in (0, 1, 2, 3, 4)]
    after = [(value, 0) for value in (4, 0, 1, 2, 3)]
    assert rows_between(before, after) == [
        (">", 0, 0, 1), ("=", 0, 1, 4), ("<", 4, 5, 1),
    ]  # fmt: skip


# --- the file ------------------------------------------------------------------------------------


def test_a_report_holds_the_whole_compilation(tmp_path: Path) -> None:
    exe = small_model()
    exe.report(tmp_path / "out.html")
    page, data, texts = read(tmp_path / "out.html")
    assert page.tags.count("script") == 3
    assert page.links == ["data:,"], "nothing is loaded from elsewhere"
    assert [each["name"] for each in data["passes"]] == [record.name for record in exe.passes]
    for each, record in zip(data["passes"], exe.passes, strict=True):
        assert len(each["decisions"]) == len(record.decisions)
        assert len(data["graphs"][each["graph"]]["nodes"]) == len(record.graph.nodes)
    assert data["profile"] is None
    assert [kernel["name"] for kernel in data["kernels"]] == [k.name for k in exe.kernels]
    for number, (ir, llvm, machine, schedule) in enumerate(texts):
        assert ir in exe.kernel_ir()
        assert llvm.startswith("define") and f"@kernel_{number}(" in llvm
        assert machine.startswith(f"kernel_{number}:") and "ret" in machine
        assert schedule.splitlines() == exe.compiled.schedule_lines(number)
    lines = {text for _, _, text in data["lines"]}
    assert "p = gx.nn.softmax(h) * 1.0" in lines
    memory = data["memory"]
    assert memory["peak"] == exe.memory.peak_bytes
    for _, _, offset, size, *_ in memory["buffers"]:
        assert offset >= 0 and offset + size <= memory["peak"]
    fused = [line for kernel in data["kernels"] for line in kernel["lines"]]
    assert any("softmax" in data["lines"][line][2] for line in fused)


def test_every_kernel_knows_its_lines_and_launches(tmp_path: Path) -> None:
    exe = small_model()
    exe.report(tmp_path / "out.html")
    _, data, _ = read(tmp_path / "out.html")
    for kernel in data["kernels"]:
        assert kernel["launches"] and kernel["values"] and kernel["lines"]


def test_a_profiled_report_has_times_and_sizes(tmp_path: Path) -> None:
    exe = small_model()
    exe.profile(np.ones((6, 16), "float32"), runs=2)
    exe.report(tmp_path / "out.html")
    _, data, _ = read(tmp_path / "out.html")
    assert data["profile"]["runs"] == 2
    assert data["memory"]["sizes"] == {"batch": 6}
    assert data["memory"]["peak"] == exe.memory_at(batch=6).peak_bytes
    measured = [kernel["seconds"] for kernel in data["kernels"] if kernel["seconds"] is not None]
    assert measured and all(seconds > 0 for seconds in measured)


def test_nothing_a_user_names_is_markup(tmp_path: Path) -> None:
    exe = large_model(60)
    exe.report(tmp_path / "out.html")
    page, data, _ = read(tmp_path / "out.html")
    assert page.tags.count("script") == 3
    assert "b" not in page.tags
    assert data["title"] == HOSTILE
    assert any(name == HOSTILE for name, _, _ in data["values"])


@given(st.text())
def test_embedded_text_is_the_text(text: str) -> None:
    written = embedded({"text": text})
    assert json.loads(written) == {"text": text}
    assert not re.search(r"[<>&]", written)
    assert written.isascii()


def test_a_program_without_kernels_has_a_report(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
    gx.Session(graph).compile(x, [x]).report(tmp_path / "out.html")
    _, data, texts = read(tmp_path / "out.html")
    assert data["kernels"] == [] and texts == []


def test_reports_of_saved_graphs(tmp_path: Path) -> None:
    with gx.Graph("saved"):
        x = gx.placeholder((2,), name="x")
        gx.save(tmp_path / "graph.gir", gx.tanh(x) * 2.0)
    page = str(tmp_path / "out.html")
    assert main(["report", str(tmp_path / "graph.gir"), "-o", page]) == 0
    _, data, _ = read(tmp_path / "out.html")
    assert data["title"] == "saved" and len(data["kernels"]) == 1
    (tmp_path / "bad.gir").write_text("no graph")
    assert main(["report", str(tmp_path / "bad.gir"), "-o", page]) == 2


def test_the_environment_asks_for_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC", f"html={tmp_path / 'out.html'}")
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        y, z = gx.tanh(x), gx.exp(x)
    session = gx.Session(graph)
    for fetched in (y, z, y):
        session.run(fetched, {x: np.zeros(2, "float32")})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-2.html", "out.html"]
    assert numbered("a/b.c.html", 3) == Path("a/b.c-3.html")
    with pytest.raises(gx.GraphError, match="html is ''"):
        gx.Options(html="")


def test_a_missing_folder_is_told_before_anything_is_compiled(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "out.html"
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        y = gx.tanh(x)
    with pytest.raises(gx.FileError, match=r"no folder .*nowhere") as error:
        gx.Session(graph, options=gx.Options(html=str(missing)))
    assert "test_report.py" in str(error.value.where)
    with pytest.raises(gx.FileError, match=r"no folder .*nowhere"):
        gx.Session(graph).compile(y, [x]).report(missing)
    gx.Session(graph, options=gx.Options(html="beside.html"))
