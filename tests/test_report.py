"""Reports: what a page contains, and the page at work in a real browser; kernels timed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, executable
from hypothesis import given
from hypothesis import strategies as st

import graphc as gx
from graphc.cli import main
from graphc.report import numbered
from graphc.report.diff import rows_between
from graphc.report.page import embedded

HOSTILE = '</script><script>fault()</script><!--<b onclick="x">&amp;\'\\n$DATA'
LARGE = 3000


def small_model(name: str = "small") -> gx.Executable:
    """About 30 nodes: two layers, softmax, a branch; variables and symbolic sizes."""
    rng = np.random.default_rng(0)
    with gx.Graph(name) as graph:
        x = gx.placeholder(("batch", 16), name="x")
        h = x
        for number, (rows, columns) in enumerate([(16, 32), (32, 8)]):
            w = gx.variable(rng.normal(size=(rows, columns)).astype("float32"), name=f"w{number}")
            h = gx.tanh(h @ w + gx.variable(np.zeros(columns, "float32"), name=f"b{number}"))
        p = gx.nn.softmax(h) * 1.0
        least = -gx.max(p, axis=1)
        q = gx.log(gx.sum(gx.exp(h), axis=1)) - -least
        y = gx.cond(gx.sum(q) > 0, lambda: q * 2.0, lambda: q - 1.0)
    return gx.Session(graph).compile(y, [x])


def large_model(nodes: int) -> gx.Executable:
    """A deep graph with skips over many layers, its names and lines hostile."""
    with gx.Graph(HOSTILE) as graph:
        x = gx.placeholder((8, 16), name=HOSTILE)
        weights = [gx.variable(np.eye(16, dtype="float32"), name=f"w{n}") for n in range(20)]
        value = x
        skips = [x]
        number = 0
        while len(graph.nodes) < nodes:
            if number % 6 == 0:
                value = value @ weights[number // 6 % len(weights)]
            value = gx.tanh(value * 1.0 + skips[(number * 7) % len(skips)])
            value = value - gx.mean(value, axis=1, keepdims=True)  # </script><b>
            value = gx.nn.softmax(value) * 2.0
            skips.append(value)
            number += 1
        y = gx.sum(value)
    return gx.Session(graph).compile(y, [x])


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


# --- timing kernels ------------------------------------------------------------------------------


def test_profile_names_kernels_and_launches() -> None:
    exe = small_model()
    profile = exe.profile(np.ones((4, 16), "float32"), runs=3)
    assert profile is exe.last_profile
    assert profile.runs == 3
    assert profile.sizes == {"batch": 4}
    assert {time.kernel for time in profile.kernels} <= set(range(-1, len(exe.kernels)))
    assert all(time.seconds > 0 and time.launches >= 1 for time in profile.kernels)
    assert sum(time.share for time in profile.kernels) == pytest.approx(1)
    names = [exe.kernels[time.kernel].name for time in profile.kernels if time.kernel >= 0]
    assert all(name in str(profile) for name in names)


def test_stepwise_runs_give_the_same_bits_through_branches_and_loops() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        count, total = gx.while_loop(
            lambda count, total: count < 5,
            lambda count, total: (
                count + 1,
                gx.cond(count > 2, lambda: total * x, lambda: total + x),
            ),
            (gx.constant(0), x),
        )
    exe = gx.Session(graph).compile([count, total], [x])
    program = exe.compiled.program
    for seed in range(3):
        array = np.random.default_rng(seed).normal(size=3).astype("float32")
        seen: list[int] = []
        expected = program.run([array])
        actual = program.run([array], observer=lambda position, _, seen=seen: seen.append(position))
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(seen) > len(set(seen)), "the loop's body ran several times"


def test_profiling_changes_no_variable() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros(3, "float32"), name="v")
        step = v.assign_add(1.0)
    session = gx.Session(graph)
    exe = session.compile(step)
    exe.profile(runs=2)
    np.testing.assert_array_equal(session.get(v), np.zeros(3))
    np.testing.assert_array_equal(exe(), np.ones(3))


def test_profile_raises_what_a_run_raises() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        i = gx.placeholder((2,), "int64", name="i")
        y = gx.tanh(gx.take(x, i, axis=0)) + 1.0
    exe = gx.Session(graph).compile(y, [x, i])
    with pytest.raises(gx.IndexRangeError):
        exe.profile(np.ones(4, "float32"), np.array([0, 4]))
    exe.profile(np.ones(4, "float32"), np.array([0, 3]))
    with pytest.raises(gx.GraphError, match="runs=0"):
        exe.profile(np.ones(4, "float32"), np.array([0, 3]), runs=0)
    with pytest.raises(gx.FeedError):
        exe.profile()


# --- the file ------------------------------------------------------------------------------------


class _Elements(HTMLParser):
    """The elements of a page and the content of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self._script = (given.get("id") or "code") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def read(path: Path) -> tuple[_Elements, dict[str, Any], list[list[str]]]:
    """The elements of a report, its data, and the texts of its kernels."""
    page = _Elements()
    page.feed(path.read_text(encoding="utf-8"))
    texts = json.loads(zlib.decompress(base64.b64decode(page.scripts["texts"])))
    return page, json.loads(page.scripts["data"]), texts


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
    for number, (ir, llvm, machine) in enumerate(texts):
        assert ir in exe.kernel_ir()
        assert llvm.startswith("define") and f"@kernel_{number}(" in llvm
        assert machine.startswith(f"kernel_{number}:") and "ret" in machine
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


# --- in a browser --------------------------------------------------------------------------------


def test_a_missing_browser_fails_in_ci_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no chromium"):
        executable()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no chromium"):
        executable()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    small, large = small_model(), large_model(LARGE)
    small.profile(np.ones((6, 16), "float32"), runs=2)
    for name, exe in (("small", small), ("large", large)):
        exe.report(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in ("small", "large")}


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    """No page of these tests may report a fault or ask for anything but itself."""
    yield
    if "browser" in request.fixturenames:
        found: Browser = request.getfixturevalue("browser")
        assert not found.faults
        assert texts_of(found, ".fault") == []
        assert all(
            address.startswith("file://") and address.partition("#")[0].endswith(".html")
            for address in found.requests
            if not address.startswith(("about:", "data:"))
        ), found.requests


# boxes of elements of one kind that are seen, as [left, top, right, bottom]
BOXES = """
[...document.querySelectorAll(%s)].map((each) => each.getBoundingClientRect())
  .filter((box) => box.width > 0).map((box) => [box.left, box.top, box.right, box.bottom])
"""


def boxes(browser: Browser, selector: str) -> list[list[float]]:
    found: list[list[float]] = browser.evaluate(BOXES % json.dumps(selector))
    return found


def texts_of(browser: Browser, selector: str) -> list[str]:
    found: list[str] = browser.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.textContent)"
    )
    return found


def overlapping(found: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    return [
        (a, b)
        for number, a in enumerate(found)
        for b in found[:number]
        if a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["small", "large"])
def test_views_are_drawn_without_overlap(
    browser: Browser, pages: dict[str, Path], name: str, dark: bool, tmp_path: Path
) -> None:
    address = pages[name].as_uri()
    browser.open(address, dark=dark)
    assert browser.evaluate("document.querySelectorAll('.vertex').length") > 2
    for pane in (1, 2):
        shapes = boxes(browser, f".pane:nth-child({pane}) .vertex .shape")
        assert shapes and not overlapping(shapes)
    assert not overlapping(boxes(browser, "header > *"))
    assert not overlapping(boxes(browser, ".pane"))
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) is dark
    for view in ("kernels", "memory", "lines"):
        browser.open(f"{address}#{view}", dark=dark)
        assert (
            browser.evaluate(f"document.getElementById('{view}').getBoundingClientRect().width")
            > 1000
        )
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.screenshot(tmp_path / f"{name}-{view}.png")
        assert (tmp_path / f"{name}-{view}.png").stat().st_size > 10_000


def test_a_large_report_is_small_and_opens_quickly(
    browser: Browser, pages: dict[str, Path]
) -> None:
    assert pages["large"].stat().st_size < 5_000_000
    browser.open(pages["large"].as_uri())
    milliseconds = browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert milliseconds < 5_000
    count = browser.evaluate("document.querySelectorAll('*').length")
    assert count < 5_000, "only what is in view is in the document"


def test_kinds_have_distinct_shapes_and_colours_and_a_legend(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["small"].as_uri() + "#passes/fusion%231")
    legend = browser.evaluate(
        "[...document.querySelectorAll('.legend .shape')].map((shape) => [shape.getAttribute('d'), "
        "getComputedStyle(shape).fill, shape.closest('span').textContent])"
    )
    assert [name for _, _, name in legend] == [
        "input", "variable", "constant", "operation", "fused kernel", "branch or loop",
    ]  # fmt: skip
    assert len({path for path, _, _ in legend}) == len({fill for _, fill, _ in legend}) == 6


def test_changed_nodes_are_marked_on_their_side(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["small"].as_uri() + "#passes/decompose%231")
    left, right = (
        set(
            browser.evaluate(
                f"[...document.querySelectorAll('.pane:nth-child({pane}) .vertex')]"
                ".flatMap((vertex) => [...vertex.classList])"
            )
        )
        for pane in (1, 2)
    )
    assert "added" in right and "added" not in left
    assert "removed" not in right
    browser.press("g")
    assert browser.evaluate("document.querySelectorAll('.cell.added').length") > 0
    assert "softmax(h)" in browser.evaluate("document.querySelector('.diff').textContent")
    # changes are walked with n, and the chosen node is explained with its line
    browser.press("n")
    about = browser.evaluate("document.querySelector('.foot').textContent")
    assert "test_report.py:" in about


def test_keys_search_and_regions(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["small"].as_uri())
    chosen = "document.querySelector('#passes li[aria-selected=true] .name').textContent"
    first = browser.evaluate(chosen)
    browser.press("ArrowDown")
    assert browser.evaluate(chosen) != first
    browser.press("k")
    assert browser.evaluate(chosen) == first
    browser.press("/")
    browser.type("w1")
    # the variable, and what stands for it in the body of a kernel
    assert browser.evaluate("document.getElementById('found').textContent") == "2 found"
    browser.press("Enter")
    assert browser.evaluate("document.querySelectorAll('.vertex.hit.picked').length") == 2
    assert '"w1"' in browser.evaluate("document.querySelector('.foot h2').textContent")
    browser.press("Escape")
    browser.open(pages["small"].as_uri() + "#passes/fusion%231")
    # the product and the sum went into the kernel, which makes the activation
    for _ in range(3):
        browser.press("n")
    browser.press("o")
    heads = browser.evaluate(
        "[...document.querySelectorAll('.pane .head')].map((h) => h.textContent)"
    )
    assert "region 0" not in heads[0] and "region 0" in heads[1]
    browser.press("Escape")
    assert "region 0" not in browser.evaluate(
        "document.querySelector('#passes .panes').textContent"
    )
    browser.press("2")
    assert browser.evaluate("document.getElementById('kernels').hidden") is False
    browser.press("?")
    assert browser.evaluate("document.getElementById('keys').open") is True


def test_kernels_show_their_code_and_times(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["small"].as_uri() + "#kernels/0")
    browser.evaluate("kernelTexts()")
    browser.settle()
    left, right = browser.evaluate(
        "[...document.querySelectorAll('#kernels pre')].map((each) => each.textContent)"
    )
    assert left.startswith('kernel "') and right.startswith("kernel_0:")
    browser.press("g")
    assert browser.evaluate("document.querySelectorAll('#kernels pre')[1].textContent").startswith(
        "define"
    )
    assert "median of 2 runs, batch = 6" in texts_of(browser, "#kernels .side")[0]
    browser.open(pages["large"].as_uri() + "#kernels")
    assert "not profiled" in browser.evaluate(
        "document.querySelector('#kernels .side').textContent"
    )


def test_memory_blocks_name_values_and_lines(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["large"].as_uri() + "#memory")
    shown = boxes(browser, ".plot .block")
    _, data, _ = read(pages["large"])
    assert len(shown) == len(data["memory"]["buffers"])
    titles = texts_of(browser, ".plot .block")
    assert all("steps" in title and "test_report.py:" in title for title in titles)
    browser.evaluate("document.querySelector('.plot .block').focus()")
    browser.settle()
    assert "written by" in browser.evaluate("document.querySelector('#memory .foot').textContent")
    assert browser.evaluate("document.querySelectorAll('.plot .block.hit').length") == 0


def test_a_plan_of_many_steps_scrolls(browser: Browser, tmp_path: Path) -> None:
    with gx.Graph() as graph:
        value = gx.placeholder((8,), name="x")
        for _ in range(700):
            value = gx.cumsum(value, axis=0)
    gx.Session(graph).compile(value).report(tmp_path / "out.html")
    browser.open((tmp_path / "out.html").as_uri() + "#memory")
    wide, high = browser.evaluate(
        "(() => { const plot = document.querySelector('.plot'); return ["
        "plot.scrollWidth - plot.clientWidth, plot.scrollHeight - plot.clientHeight]; })()"
    )
    assert wide > 0 and high == 0


def test_hostile_names_stay_text(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["large"].as_uri())
    assert browser.evaluate("document.querySelectorAll('b').length") == 0
    assert browser.evaluate("document.getElementById('title').textContent") == HOSTILE
    browser.press("g")
    browser.evaluate("document.querySelector('.diff').scrollTop = 0")
    assert HOSTILE.replace('"', '\\"').replace("\\n", "\\\\n") in browser.evaluate(
        "document.querySelector('.diff').textContent"
    )


def test_far_away_the_drawing_is_an_overview(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["large"].as_uri())
    browser.press("0")
    assert browser.evaluate("document.querySelectorAll('.vertex').length") == 0
    assert browser.evaluate("document.querySelectorAll('.far-kind').length") > 0
    assert browser.evaluate("document.querySelectorAll('.far').length") > 0
