"""A dim stands wherever a Python number may, and errors say how to go on where it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
LAST = np.array([[0], [0], [1]], np.float32)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda x, n: gx.where(x > 2, n, 0), np.where(ROWS > 2, 3, 0)),
        (lambda x, n: gx.where(x > 2, n, n - 1), np.where(ROWS > 2, 3, 2)),
        (lambda x, n: gx.where(x > 2, 0.5, n), np.where(ROWS > 2, 0.5, 3).astype(np.float32)),
        (lambda x, n: gx.where(x > 2, 1 / n, 0), np.where(ROWS > 2, np.float32(1 / 3), 0)),
        (lambda x, n: np.where(x > 2, n, np.float64(1)), np.where(ROWS > 2, 3, np.float64(1))),
        (
            lambda x, n: gx.where(x > 2, np.arange(2, dtype=np.int32), n),
            np.where(ROWS > 2, [0, 1], 3),
        ),
        (lambda x, n: gx.full_like(x, n), np.full_like(ROWS, 3)),
        (lambda x, n: gx.full_like(x, n / 2, "float64"), np.full((3, 2), 1.5)),
        (
            lambda x, n: gx.full((2,), gx.sum(x).astype("int64") + n, "int8"),
            np.full(2, 18, np.int8),
        ),
        (lambda x, n: gx.take(x, n - 1, axis=0), ROWS[2]),
        (lambda x, n: gx.scatter_add(x, n - 1, 1.0), ROWS + LAST),
    ],
)
def test_a_dim_is_a_number(build: Callable[[Any, Any], Any], expected: Any) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 2), name="x")
    result = gx.Session(graph).run(build(x, x.shape[0]), {x: ROWS})
    np.testing.assert_array_equal(result, expected, strict=False)
    assert result.dtype == np.asarray(expected).dtype


def test_a_place_by_a_size_is_checked_when_the_graph_runs() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", "k"), name="x")
        row = gx.take(x, x.shape[1], axis=0)
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(row, {x: ROWS}), ROWS[2])
    with pytest.raises(gx.IndexRangeError, match="index 3 is out of range for axis 0 of size 3"):
        session.run(row, {x: np.ones((3, 3))})


def test_the_hint_for_a_list_of_sizes_works() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 2), name="x")
        ends = x[gx.stack([0, x.shape[0] - 1])]
    np.testing.assert_array_equal(gx.Session(graph).run(ends, {x: ROWS}), ROWS[[0, 2]])


def test_full_of_a_size_has_the_dtype_asked_for() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 2), name="x")
        filled = gx.full((2,), x.shape[0], "float32")
    result = gx.Session(graph).run(filled, {x: ROWS})
    assert result.tolist() == [3.0, 3.0] and result.dtype == np.float32


def test_a_variable_is_assigned_a_size() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 2), name="x")
        count = gx.variable(0, name="count")
        share = gx.variable(0.0, name="share")
        both = [count.assign(x.shape[0]), share.assign(1 / x.shape[0])]
        with pytest.raises(gx.DTypeError, match="expected int64"):
            count.assign(1 / x.shape[0])
    session = gx.Session(graph)
    session.run(both, {x: ROWS})
    assert session.get(count) == 3 and session.get(share) == np.float32(1 / 3)


@pytest.mark.parametrize(
    ("build", "error", "hint"),
    [
        (lambda x: gx.constant(x.shape[0]), gx.DTypeError, "gx.dim"),
        (lambda x: gx.variable(x.shape[0]), gx.DTypeError, "gx.dim"),
        (lambda x: gx.variable(gx.zeros(3)), gx.DTypeError, "np.zeros"),
        (lambda x: x[[0, x.shape[0] - 1]], gx.DTypeError, "gx.stack"),
        (lambda x: x[[0.0, 1.0]], gx.DTypeError, "astype"),
        (lambda x: gx.take(x, x[0, 0], axis=0), gx.DTypeError, "astype"),
        (lambda x: x[:: x.shape[0]], gx.UnsupportedError, "gx.take"),
        (lambda x: gx.Session().run(x.shape[0]), gx.GraphError, "gx.dim"),
        (
            lambda x: gx.variable([0.0, 0.0], "v").assign(gx.zeros(3)),
            gx.ShapeError,
            "keeps its shape",
        ),
    ],
)
def test_where_none_may_stand_the_error_says_what_may(
    build: Callable[[Any], Any], error: type[gx.GraphcError], hint: str
) -> None:
    with gx.Graph():
        x = gx.placeholder(("n", 2), name="x")
        with pytest.raises(error) as raised:
            build(x)
    assert hint in str(raised.value.hint) and raised.value.where is not None


def _loops(x: gx.Value, m: gx.Value) -> dict[str, tuple[Callable[[], Any], type[Exception], str]]:
    start = gx.zeros((x.shape[0], 2))
    return {
        "grows": (
            lambda: gx.while_loop(
                lambda i, y: i < 3,
                lambda i, y: [i + 1, gx.concatenate([y, gx.ones((1, 2))])],
                [0, start],
            ),
            gx.ShapeError,
            ".at[i].set(row)",
        ),
        "another size": (
            lambda: gx.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, m], [0, x]),
            gx.ShapeError,
            ".reshape(x.shape)",
        ),
        "one argument": (
            lambda: gx.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, x)),
            gx.GraphError,
            "lambda i, x: ...",
        ),
        "operands of cond": (
            lambda: gx.cond(gx.sum(x) > 0, lambda y: y, lambda y: -y),
            gx.GraphError,
            "branches take no arguments",
        ),
        "branches of unknown sizes": (
            lambda: gx.cond(gx.sum(x) > 0, lambda: x, lambda: m),
            gx.ShapeError,
            ".reshape(x.shape)",
        ),
        "a placeholder": (
            lambda: gx.cond(gx.sum(x) > 0, lambda: gx.placeholder(()), lambda: 1.0),
            gx.GraphError,
            "make it outside",
        ),
    }


@pytest.mark.parametrize(
    "case",
    [
        "grows",
        "another size",
        "one argument",
        "operands of cond",
        "branches of unknown sizes",
        "a placeholder",
    ],
)
def test_errors_of_control_flow_say_how_to_go_on(case: str) -> None:
    with gx.Graph():
        x, m = gx.placeholder(("n", 2), name="x"), gx.placeholder(("m", 2), name="m")
        build, error, hint = _loops(x, m)[case]
        with pytest.raises(error) as raised:
            build()
    assert isinstance(raised.value, gx.GraphcError) and hint in str(raised.value.hint)


def test_the_hint_for_branches_of_unknown_sizes_works() -> None:
    with gx.Graph() as graph:
        x, m = gx.placeholder(("n", 2), name="x"), gx.placeholder(("m", 2), name="m")
        one = gx.cond(gx.sum(x) > 0, lambda: x, lambda: m.reshape(x.shape))
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(one, {x: -ROWS, m: ROWS}), ROWS)
    with pytest.raises(gx.ShapeError, match="reshape"):
        session.run(one, {x: -ROWS, m: ROWS[:2]})


def test_a_builtin_without_a_signature_may_be_a_branch() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        result = gx.cond(gx.sum(x) > 0, dict(y=x).copy, lambda: {"y": -x})
    assert gx.Session(graph).run(result, {x: [-1, 0]})["y"].tolist() == [1, 0]


def test_a_value_of_a_body_is_not_sent_to_a_session_of_its_own() -> None:
    inside: list[gx.Value] = []
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        gx.while_loop(lambda y: y < 3, lambda y: inside.append(y + 1) or inside[-1], x)
    with pytest.raises(gx.GraphError) as raised:
        gx.Session(graph).run(inside[0], {x: 0})
    assert "return it from the function" in str(raised.value.hint)


def test_a_value_of_the_default_graph_is_told_from_one_of_another_graph() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
    with pytest.raises(gx.GraphError) as raised:
        gx.Session(graph).run(gx.zeros(2), {x: [1, 2]})
    assert "build all inside of one 'with graph:'" in str(raised.value.hint)
    with pytest.raises(gx.GraphError) as raised:
        gx.Session(gx.Graph()).run(x)
    assert "gx.Session(value.graph)" in str(raised.value.hint)


def test_a_name_of_a_graph_without_names() -> None:
    with pytest.raises(gx.NameLookupError) as raised:
        gx.Session(gx.Graph("empty")).run("x")
    assert "nothing of graph 'empty' has a name" in str(raised.value.hint)
