"""What newcomers stumble over when they feed, run, export and inspect."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mistakes import hint_of, raised

import graphc as gx

pytestmark = pytest.mark.check_mode

HERE = Path(__file__).name


@pytest.fixture
def graph() -> Any:
    with gx.Graph("mine") as graph:
        yield graph


# --- feeding -------------------------------------------------------------------------------------


def test_a_feed_of_a_wrong_shape_names_the_axis(graph: Any) -> None:
    x = gx.placeholder(("rows", 4), name="x")
    session = gx.Session(graph)
    exe = session.compile(x * 2, [x])

    error = raised(gx.FeedError, lambda: exe(np.zeros((4, 3))))
    assert "axis 1 has size 3, not 4" in error.message and "dim 1" in hint_of(error)
    assert error.where is not None and "gx.placeholder" in error.where.excerpt()
    assert error.node is not None and error.node.startswith("the call at ")
    assert HERE in error.node

    error = raised(gx.FeedError, lambda: session.run(x * 2, {x: np.zeros(4)}))
    assert "1 axis instead of 2" in error.message and "array[None]" in hint_of(error)
    error = raised(gx.FeedError, lambda: exe(np.zeros((1, 2, 4))))
    assert "3 axes instead of 2" in error.message and "squeeze" in hint_of(error)
    error = raised(gx.FeedError, lambda: exe(np.zeros((2, 2, 4))))
    assert "declare the placeholder" in hint_of(error)


def test_a_transposed_feed_is_recognised(graph: Any) -> None:
    x = gx.placeholder((2, 3), name="x")
    error = raised(gx.FeedError, lambda: gx.Session(graph).run(x * 2, {x: np.zeros((3, 2))}))
    assert "axis 0 has size 3, not 2" in error.message and "transpose" in hint_of(error)


def test_a_variable_of_fixed_shape_is_not_told_to_be_a_placeholder(graph: Any) -> None:
    w = gx.variable(np.ones(3), name="w")
    error = raised(gx.FeedError, lambda: gx.Session(graph).set({w: np.ones(4)}))
    assert "axis 0 has size 4, not 3" in error.message and error.hint is None


# --- exporting and inspecting --------------------------------------------------------------------


def test_export_of_something_else(graph: Any, tmp_path: Path) -> None:
    x = gx.placeholder((3,), name="x")
    session = gx.Session(graph)
    exe = session.compile(x * 2, [x])
    path: Any = tmp_path / "model"

    error = raised(gx.GraphError, lambda: gx.aot.compile(path, exe))
    assert "gx.aot.compile(exe, path)" in hint_of(error)
    error = raised(gx.GraphError, lambda: gx.aot.compile(session, path))
    assert "not Session" in error.message and "session.compile" in hint_of(error)
    error = raised(gx.GraphError, lambda: gx.aot.compile(exe, 3))
    assert "kept in a file, not in 3" in error.message
    assert not path.exists()


def test_pass_table(graph: Any) -> None:
    x = gx.placeholder((None, 4), name="x")
    exe = gx.Session(graph).compile(gx.nn.softmax(x), [x])
    head, *rows, total = exe.pass_table().splitlines()
    assert head.split() == ["pass", "nodes", "before", "after", "decisions", "ms"]
    assert [row.split()[0] for row in rows] == [record.name for record in exe.passes]
    for row, record in zip(rows, exe.passes, strict=True):
        counts = [record.nodes_before, record.nodes_after, record.made]
        assert list(map(int, row.split()[1:4])) == counts
        assert len(row) == len(head)
    assert total.split()[:2] == ["all", "passes"] and len(total) == len(head)
    assert int(total.split()[4]) == sum(record.made for record in exe.passes)


def test_representations_fit_a_line(graph: Any) -> None:
    x = gx.placeholder((None, 4), name="x")
    session = gx.Session(graph)
    exe = session.compile(gx.nn.softmax(x), [x])
    shown = [repr(exe), repr(exe.compiled), *map(repr, session.compilations)]
    shown += [*map(repr, exe.passes), *map(repr, exe.kernels)]
    assert all(len(text) < 200 and "\n" not in text for text in shown), shown
    assert repr(exe) == "<Executable: 1 feed, 1 step, 1 kernel>"


def test_unknown_names_list_close_ones_first(graph: Any) -> None:
    for number in range(12):
        x = gx.placeholder((2,), name=f"a{number}")
    error = raised(gx.NameLookupError, lambda: gx.Session(graph).run("a1l"))
    assert "known names are 'a1'" in hint_of(error) and hint_of(error).endswith("and 2 more")
    exe = gx.Session(graph).compile(gx.exp(x), [x])
    assert "known names are 'a11'" in hint_of(raised(gx.NameLookupError, lambda: exe.explain("b")))


def test_memory_at_other_dims(graph: Any) -> None:
    x = gx.placeholder(("n", 4), name="x")
    exe = gx.Session(graph).compile(gx.nn.softmax(x), [x])
    error = raised(gx.GraphError, lambda: exe.memory_at(m=3))
    assert "sizes of m are given; the symbolic dims of this program are n" in error.message
    error = raised(gx.GraphError, lambda: exe.memory_at(n=3, m=3))
    assert "sizes of n, m are given" in error.message


def test_arguments_by_other_names(graph: Any) -> None:
    x, rate = gx.placeholder((2,), name="x"), gx.placeholder((), name="rate")
    data = np.ones(2, "float32")
    for fetches in (x * rate, {"product": x * rate}):
        exe = gx.Session(graph).compile(fetches, [x, rate])
        for _ in range(3):
            error = raised(gx.FeedError, lambda exe=exe: exe(data, rates=2.0))
            assert error.message == "no argument is called 'rates'"
            assert hint_of(error) == "known names are 'rate', 'x'"
            error = raised(gx.FeedError, lambda exe=exe: exe(rate=2.0))
            assert error.message == "argument 0, x: float32[2], is needed but not given"
            exe(data, rate=2.0)


def test_feeds_of_compile_are_a_list_of_different_values(graph: Any) -> None:
    x, y = (gx.placeholder((2,), name=name) for name in "xy")
    session = gx.Session(graph)
    for feeds in (x, "x"):
        error = raised(gx.FeedError, lambda feeds=feeds: session.compile(x - y, feeds))
        assert error.message.endswith("not a list") and "give a list" in hint_of(error)
    error = raised(gx.FeedError, lambda: session.compile(x - y, [x, y, "x"]))
    assert error.message.endswith("is fed twice")


def test_a_session_of_what_is_no_graph(graph: Any) -> None:
    x = gx.placeholder((2,), name="x")
    error = raised(gx.GraphError, lambda: gx.Session(x))  # type: ignore[arg-type]
    assert error.message == "a session runs a gx.Graph, not Value"


def test_out_with_other_keys_lists_both(graph: Any) -> None:
    x = gx.placeholder((2,), name="x")
    exe = gx.Session(graph).compile({"a": x + 1, "b": x * 3}, [x])
    error = raised(gx.FeedError, lambda: exe(np.ones(2), out={"a": None, "c": None}))
    assert error.message == "out has a dict of 'a', 'c' where the fetches have a dict of 'a', 'b'"


def test_constants_of_uneven_lists_and_complex_numbers(graph: Any) -> None:
    x = gx.placeholder((2,), name="x")
    error = raised(gx.DTypeError, lambda: gx.add(x, [[1, 2], [3]]))
    assert "must have one shape" in hint_of(error)
    error = raised(gx.DTypeError, lambda: gx.constant(1j, "float32"))
    assert "holds no imaginary parts" in error.message and ".real" in hint_of(error)


def test_classes_that_are_floats(graph: Any) -> None:
    logits = gx.placeholder(("n", 3), name="logits")
    labels = gx.placeholder(("n",), name="labels")
    error = raised(gx.ShapeError, lambda: gx.nn.softmax_cross_entropy(logits, labels))
    assert "classes are integers" in hint_of(error)


def test_two_sizes_of_one_dim_have_a_place_and_a_hint(graph: Any) -> None:
    # which line it is shows the tutorial: here the watch of kernels stands in between
    x, y = (gx.placeholder(("n",), name=name) for name in "xy")
    session = gx.Session(graph)
    exe = session.compile(x + y, [x, y])
    for _ in range(3):
        with pytest.raises(gx.ShapeError) as caught:
            exe(np.ones(2), np.ones(3))
        assert caught.value.message == "dim n is 2 in axis 0 of 'x' but 3 in axis 0 of 'y'"
        assert caught.value.where is not None and "different names" in hint_of(caught.value)
        exe(np.ones(2), np.ones(2))


def test_a_placeholder_with_its_arguments_in_another_order(graph: Any) -> None:
    error = raised(gx.DTypeError, lambda: gx.placeholder("x", (3,)))  # type: ignore[arg-type]
    assert error.message.endswith("comes first and its dtype second, which is (3,) here")
    assert hint_of(error) == "write gx.placeholder((3,), name='x')"
    error = raised(gx.DTypeError, lambda: gx.placeholder("int64", 3))  # type: ignore[arg-type]
    assert hint_of(error) == "write gx.placeholder(3, 'int64')"
    error = raised(gx.DTypeError, lambda: gx.placeholder(2, 3))  # type: ignore[arg-type]
    assert hint_of(error) == "write gx.placeholder(3)"
    error = raised(gx.ShapeError, lambda: gx.placeholder("float32"))
    assert error.message == "the shape of a placeholder is 'float32', which is a dtype"
    assert "gx.placeholder(shape, 'float32')" in hint_of(error)
    assert not graph.nodes and gx.placeholder("n").ndim == 1


def test_a_variable_with_its_name_first_and_one_that_nobody_made(graph: Any) -> None:
    error = raised(gx.DTypeError, lambda: gx.variable("v", np.zeros(3)))  # type: ignore[arg-type]
    assert error.message == "a variable's initial value comes first, which is 'v' here"
    assert hint_of(error) == "write gx.variable(initial, name='v')"
    gx.variable(np.zeros(3), name="v")
    session = gx.Session(graph)
    for look in (lambda: session.get("nope"), lambda: session.set({"nope": 1.0})):
        error = raised(gx.NameLookupError, look)
        assert error.message == "no value is called 'nope'"
        assert hint_of(error) == "known names are 'v'"


def test_what_takes_feeds_takes_them_by_name(graph: Any, tmp_path: Path) -> None:
    x, rate = gx.placeholder((2,), name="x"), gx.placeholder((), name="rate")
    exe = gx.Session(graph).compile(x * rate, [x, rate])
    data = np.ones(2, "float32")
    uses: list[Any] = [exe.profile, exe.audit, partial(exe.capture, tmp_path / "capsule.gxr")]
    for use in uses:
        use(data, rate=2.0)
        error = raised(gx.FeedError, lambda use=use: use(data, rates=2.0))
        assert error.message == "no argument is called 'rates'"
        assert hint_of(error) == "known names are 'rate', 'x'"
        error = raised(gx.FeedError, lambda use=use: use({"x": data, "rate": 2.0}))
        assert "argument 0 is a dict" in error.message and "name=array" in hint_of(error)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
def test_an_executable_belongs_to_its_process(graph: Any, duplicate: Any) -> None:
    exe = gx.Session(graph).compile(gx.placeholder((2,), name="x") + 1, ["x"])
    for _ in range(3):
        error = raised(gx.UnsupportedError, lambda: duplicate(exe))
        assert "neither pickled nor copied deeply" in error.message
        assert "gx.aot.compile" in hint_of(error) and copy.copy(exe) is exe
        exe(np.ones(2))


@pytest.mark.parametrize("word", ["on", "On", "OFF", "true", "0", "none"])
def test_a_cache_is_no_switch(
    graph: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHC", f"cache={word}")
    for make in (lambda: gx.Session(graph), lambda: gx.Options(cache=word)):
        error = raised(gx.GraphError, make)
        assert error.message == f"cache is {word!r}"
        assert '"off" for none' in hint_of(error) and f"./{word}" in hint_of(error)
    assert gx.Options(cache=f"./{word}").cache == f"./{word}" and not list(tmp_path.iterdir())
