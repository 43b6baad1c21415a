"""The page of a report in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, executable
from report_harness import HOSTILE, LARGE, large_model, read, small_model
from slow_parameters import slow_unless

import graphc as gx


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


@slow_unless(lambda name, dark: dark == (name == "large"))
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
    assert "report_harness.py:" in about


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
    code = "document.querySelectorAll('#kernels pre')[1].textContent"
    browser.press("g")
    assert " < " in browser.evaluate(code) and "not pipeline_rows: " in browser.evaluate(code)
    browser.press("g")
    assert browser.evaluate(code).startswith("define")
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
    assert all("steps" in title and "report_harness.py:" in title for title in titles)
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
