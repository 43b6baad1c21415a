"""Graphs as networkx, DOT and SVG, in notebooks and as reprs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import networkx
import numpy as np
import pytest
from effort import assert_linear
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc as gx
from graphc.ir.draw.layout import GAP, HEIGHT, LONGEST, PER_ROW, ROW, layered
from graphc.ir.draw.picture import picture_of
from graphc.ir.draw.svg import outline

HOSTILE = '</script><b onclick="x">&amp;\'\\n\\\n\x00\x07\ud800\uffff é 漢'
SVG = "{http://www.w3.org/2000/svg}"


def model(name: str = "model") -> tuple[gx.Graph, gx.Value]:
    with gx.Graph(name) as graph:
        x = gx.placeholder(("rows", 4), name="x")
        w = gx.variable(np.ones((4, 4), "float32"), name="w")
        h = gx.nn.softmax(x @ w) * 2.0
        h = h * h
        y = gx.cond(gx.sum(h) > 0, lambda: h + 1, lambda: h * 2)
    return graph, y


# --- networkx ------------------------------------------------------------------------------------


def test_networkx_has_what_the_graph_says() -> None:
    graph, _ = model()
    found = graph.to_networkx()
    assert found.name == "model"
    assert networkx.is_directed_acyclic_graph(found)
    assert all(source < target for source, target in found.edges())
    by_kind: dict[str, list[str]] = {}
    for _, data in found.nodes(data=True):
        by_kind.setdefault(data["kind"], []).append(data["op"])
    assert by_kind["input"] == ["placeholder"]
    assert by_kind["parameter"] == ["variable"]
    assert by_kind["control"] == ["cond"]
    assert {"contract", "softmax", "multiply"} <= set(by_kind["operation"])
    x = next(data for _, data in found.nodes(data=True) if data["name"] == "x")
    assert x["type"] == "float32[rows, 4]"
    assert re.fullmatch(r".*test_visual\.py:\d+", x["where"])


def test_an_operand_taken_twice_is_two_edges() -> None:
    graph, _ = model()
    found = graph.to_networkx()
    square = [
        number
        for number, data in found.nodes(data=True)
        if data["op"] == "multiply" and len(set(found.predecessors(number))) == 1
    ]
    (number,) = square
    edges = [data for _, _, data in found.in_edges(number, data=True)]
    assert sorted(edge["operand"] for edge in edges) == [0, 1]
    assert edges[0]["value"] is edges[1]["value"]


def test_a_frozen_graph_has_inputs_parameters_and_results() -> None:
    graph, y = model()
    exe = gx.Session(graph).compile(y)
    found = exe.source.to_networkx()
    kinds = {data["name"]: data["kind"] for _, data in found.nodes(data=True) if data["name"]}
    assert kinds == {"x": "input", "w": "parameter"}
    results = [data["op"] for _, data in found.nodes(data=True) if data["results"]]
    assert results == ["cond"]
    assert "fused" in {data["kind"] for _, data in exe.to_networkx().nodes(data=True)}


# --- DOT -----------------------------------------------------------------------------------------


def test_dot_names_every_vertex_and_edge() -> None:
    graph, _ = model()
    text = graph.to_dot()
    found = graph.to_networkx()
    assert len(re.findall(r"^  n\d+ \[", text, re.MULTILINE)) == len(found)
    assert len(re.findall(r"^  n\d+ -> n\d+;$", text, re.MULTILINE)) == found.number_of_edges()
    assert {"shape=oval", "shape=hexagon", "shape=octagon", "shape=note"} <= set(
        re.findall(r"shape=\w+", text)
    )


def test_dot_is_well_formed_whatever_the_names() -> None:
    with gx.Graph(HOSTILE) as graph:
        gx.placeholder((2,), name=HOSTILE)
    text = graph.to_dot()
    text.encode("utf-8")
    string = r'"(?:[^"\\]|\\.)*"'
    value = rf"(?:{string}|\w+|\d+\.\d+)"
    attributes = rf"\w+={value}(?:, \w+={value})*"
    for line in text.splitlines()[1:-1]:
        assert re.fullmatch(rf"  \w+ \[{attributes}\];", line), line
    assert re.fullmatch(rf"digraph {string} {{", text.splitlines()[0])


# --- SVG -----------------------------------------------------------------------------------------


def boxes_of(text: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each shape of a drawing."""
    root = ElementTree.fromstring(text)
    found = []
    for group in root.iter(f"{SVG}g"):
        if group.get("class") is None:
            continue
        place = re.fullmatch(r"translate\((\S+) (\S+)\)", group.get("transform", ""))
        assert place is not None
        path = group.find(f"{SVG}path")
        assert path is not None
        numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]
        x, y = float(place[1]), float(place[2])
        found.append((x, y, x + max(numbers), y + HEIGHT))
    return found


def test_svg_shows_every_node_and_a_legend() -> None:
    graph, _ = model()
    text = graph.to_svg()
    root = ElementTree.fromstring(text)
    shown = {element.text for element in root.iter(f"{SVG}text")}
    assert {"x", "w", "softmax", "cond", "input", "variable", "constant", "operation"} <= shown
    assert "float32[rows, 4]" in shown
    assert len(boxes_of(text)) == len(graph.nodes)
    titles = [element.text or "" for element in root.iter(f"{SVG}title")]
    assert any("h = gx.nn.softmax(x @ w) * 2.0" in title for title in titles), "the user's line"


def test_svg_is_well_formed_whatever_the_names() -> None:
    with gx.Graph(HOSTILE) as graph:
        gx.placeholder((2,), name=HOSTILE)
    root = ElementTree.fromstring(graph.to_svg().encode("utf-8"))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "rect", "g", "path", "text",
    }  # fmt: skip


def test_kinds_have_distinct_shapes_and_colours() -> None:
    kinds = ("input", "parameter", "constant", "operation", "fused", "control")
    assert len({outline(kind, 100) for kind in kinds}) == len(kinds)
    graph, _ = model()
    fills = re.findall(r'fill="(#[0-9a-f]{6})" stroke', graph.to_svg())
    assert len(set(fills)) == 5


# --- layout --------------------------------------------------------------------------------------


@st.composite
def acyclic(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    count = draw(st.integers(1, 40))
    widths = draw(st.lists(st.integers(20, 300), min_size=count, max_size=count))
    edges = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
                lambda edge: edge[0] < edge[1]
            ),
            max_size=3 * count,
        )
        if count > 1
        else st.just([])
    )
    return widths, edges


@settings(deadline=None)
@given(acyclic())
def test_nothing_overlaps_and_edges_go_down(case: tuple[list[int], list[tuple[int, int]]]) -> None:
    widths, edges = case
    found = layered(widths, edges)
    assert found == layered(widths, edges)
    rows: dict[int, list[tuple[int, int]]] = {}
    for x, y, width in zip(found.x, found.y, widths, strict=True):
        assert 0 <= x <= found.width - width + 1
        assert 0 <= y <= found.height - HEIGHT
        rows.setdefault(y, []).append((x, x + width))
    for row in rows.values():
        row.sort()
        for (_, right), (left, _) in pairwise(row):
            assert left - right >= GAP - 1
    for number, (source, target) in enumerate(edges):
        assert found.y[target] >= found.y[source] + ROW
        points = found.bends.get(number, ())
        assert all(after[1] > before[1] for before, after in pairwise(points))
        span = (found.y[target] - found.y[source]) // ROW
        assert len(points) == (span - 1 if span <= LONGEST else 0)


def test_a_wide_row_is_broken() -> None:
    found = layered([50] * 101, [(n, 100) for n in range(100)])
    counts = [found.y.count(y) for y in set(found.y)]
    assert max(counts) == PER_ROW


def test_layout_takes_about_as_much_work_a_node_for_many_nodes() -> None:
    def laying_out(count: int) -> Callable[[], object]:
        edges = [(n, n + 1) for n in range(count - 1)]
        edges += [(n // 2, n) for n in range(2, count)]
        edges += [(0, n) for n in range(1, count, 3)]
        return partial(layered, [80] * count, edges)

    laying_out(20_000)()
    assert_linear(laying_out, 500)


def test_a_long_chain_is_drawn() -> None:
    with gx.Graph() as graph:
        value = gx.placeholder((2,), name="x")
        for _ in range(20_000):
            value = value + 1.0
    assert len(boxes_of(graph.to_svg())) == len(graph.nodes)


def test_a_graph_without_nodes_is_drawn() -> None:
    graph = gx.Graph("nothing")
    ElementTree.fromstring(graph.to_svg())
    assert len(graph.to_networkx()) == 0
    assert graph.to_dot().startswith('digraph "nothing" {')


# --- notebooks and reprs -------------------------------------------------------------------------


def test_notebooks_show_a_drawing() -> None:
    graph, y = model(HOSTILE)
    exe = gx.Session(graph).compile(y)
    for shown in (graph._repr_html_(), exe.source._repr_html_(), exe._repr_html_()):
        assert "<svg" in shown
        assert "<b onclick" not in shown
        assert "<script" not in shown
        ElementTree.fromstring(f"<div>{shown}</div>".encode())
    assert "fusion#1" in exe._repr_html_()


def test_notebooks_show_a_table_of_large_graphs() -> None:
    with gx.Graph() as graph:
        value = gx.placeholder((2,), name="x")
        for _ in range(400):
            value = gx.tanh(value)
    shown = graph._repr_html_()
    assert "<svg" not in shown
    assert "<td>tanh</td><td>400</td>" in shown


def test_values_say_what_makes_them_and_where() -> None:
    with gx.Graph():
        x = gx.placeholder((2,), name="x")
        y = x * 2.0
    assert re.fullmatch(r"<Value 'x' float32\[2\] = placeholder at test_visual\.py:\d+>", repr(x))
    assert re.fullmatch(r"<Value float32\[2\] = multiply at test_visual\.py:\d+>", repr(y))
    inner = gx.Value(y.type)
    assert repr(inner) == "<Value float32[2]>"


def test_graphs_say_what_is_in_them() -> None:
    with gx.Graph("g") as graph:
        assert repr(graph) == "<Graph 'g': 0 nodes>"
        for number in range(6):
            gx.placeholder((2,), name=f"x{number}")
        gx.variable(1.0, name="w")
    assert repr(graph) == (
        "<Graph 'g': 7 nodes, 6 placeholders (x0, x1, x2, x3, …), 1 variable (w)>"
    )


@pytest.mark.parametrize("number", [1, 2])
def test_fused_nodes_say_what_they_hold(number: int) -> None:
    with gx.Graph() as graph:
        value = gx.placeholder((2,), name="x")
        for _ in range(number):
            value = gx.tanh(value)
    picture = picture_of(gx.Session(graph).compile(value).graph)
    assert picture.vertices[-1].title == ("fused tanh" if number == 1 else "fused · 2 nodes")
