"""Mistakes in ``cond`` and ``while_loop``: where they are told, and how deep nesting may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_control_flow import times, zero

import graphc as gx
from graphc.frontend.regions import DEEPEST

pytestmark = pytest.mark.check_mode


# --- errors --------------------------------------------------------------------------------------


def test_mistakes_are_told_when_building_and_the_graph_stays_usable() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")
        n, m = gx.placeholder((None,), name="n"), gx.placeholder((None,), name="m")
        v = gx.variable(np.zeros(3, np.float32), name="v")

        def fails() -> Any:
            v.assign(x)
            raise ZeroDivisionError

        mistakes: list[tuple[type[Exception], str | None, Callable[[], Any]]] = [
            (gx.ShapeError, "one value", lambda: gx.cond(p, lambda: x, lambda: (x, x))),
            (gx.ShapeError, "keys", lambda: gx.cond(p, lambda: {"a": x}, lambda: {"b": x})),
            (gx.ShapeError, "one value", lambda: gx.cond(p, lambda: (x, [x]), lambda: ([x], x))),
            (gx.ShapeError, "0 and 1", lambda: gx.cond(p, lambda: gx.group(x), lambda: x)),
            (gx.ShapeError, None, lambda: gx.cond(p, lambda: (x, None), lambda: (None, x))),
            (gx.ShapeError, r"float32\[2\]", lambda: gx.cond(p, lambda: x, lambda: x[:2])),
            (gx.DTypeError, "int32", lambda: gx.cond(p, lambda: x, lambda: x.astype("int32"))),
            (gx.ShapeError, "int32", lambda: gx.cond(p, lambda: x, lambda: x[0].astype("int32"))),
            (gx.ShapeError, "branches", lambda: gx.cond(p, lambda: n, lambda: m)),
            (gx.DTypeError, "predicate", lambda: gx.cond(x, lambda: x, lambda: x)),
            (gx.ShapeError, "predicate", lambda: gx.cond(x > 0, lambda: x, lambda: x)),
            (gx.GraphError, "nothing", lambda: gx.cond(p, lambda: None, lambda: None)),
            (gx.GraphError, "variable", lambda: gx.cond(p, lambda: gx.variable(1.0), lambda: 1.0)),
            (gx.DTypeError, "float64", lambda: times(3, lambda i, a: a.astype("float64"), x)),
            (gx.ShapeError, "loop", lambda: times(3, lambda i, a: gx.concatenate([a, a]), n)),
            (gx.ShapeError, "tuple of", lambda: times(3, lambda i, a: (a, a), x)),
            (gx.DTypeError, "condition", lambda: gx.while_loop(lambda i: i, lambda i: i, zero())),
            (
                gx.GraphError,
                "condition",
                lambda: gx.while_loop(lambda i: v.assign(x).sum() > i, lambda i: i + 1, zero()),
            ),
            (TypeError, "iteration", lambda: list(n)),
            (TypeError, "truth", lambda: bool(p)),
            (ZeroDivisionError, None, lambda: gx.cond(p, fails, lambda: x)),
            (ZeroDivisionError, None, lambda: gx.cond(p, lambda: x, fails)),
            (ZeroDivisionError, None, lambda: times(3, lambda i, a: fails(), x)),
            (ZeroDivisionError, None, lambda: gx.while_loop(lambda a: fails(), lambda a: a, x)),
            (
                ZeroDivisionError,
                None,
                lambda: gx.cond(p, lambda: gx.cond(p, lambda: v.assign(x), fails), lambda: x),
            ),
        ]
        for kind, match, mistake in mistakes:
            with pytest.raises(kind, match=match):
                mistake()
        y = gx.cond(p, lambda: x + v.read(), lambda: x)
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(y, {p: True, x: [1, 2, 3]}), [1, 2, 3])
    np.testing.assert_array_equal(session.get(v), [0, 0, 0])


# --- nesting -------------------------------------------------------------------------------------


def nested(kind: str, depth: int) -> tuple[gx.Graph, Any]:
    """Branches or loops in each other; the innermost adds 1 to what each around it has doubled."""

    def inner(x: Any, left: int) -> Any:
        if not left:
            return x + 1
        if kind == "cond":
            return gx.cond(known, lambda: inner(x * 2, left - 1), lambda: x)
        return times(1, lambda trip, y: inner(y * 2, left - 1), x)[0]

    with gx.Graph() as graph:
        known = gx.placeholder((), "bool", name="known")
        result = inner(gx.placeholder((3,), "float64", name="x"), depth)
    return graph, result


@pytest.mark.parametrize("kind", ["cond", "while"])
def test_the_deepest_nesting_compiles_and_is_saved(kind: str, tmp_path: Any) -> None:
    graph, result = nested(kind, DEEPEST)
    feeds = {"x": np.ones(3), "known": True}
    if kind == "while":
        del feeds["known"]
    expected = np.full(3, 2.0**DEEPEST + 1)
    session = gx.Session(graph, options=gx.Options(verify=True))
    assert (session.run(result, feeds) == expected).all()
    gx.save(tmp_path / "deep.gir", result)
    loaded = gx.load(tmp_path / "deep.gir")
    small = gx.Session(loaded.graph, options=gx.Options(optimize=0))
    assert (small.run(loaded, feeds) == expected).all()


@pytest.mark.parametrize("kind", ["cond", "while"])
@pytest.mark.parametrize("depth", [DEEPEST + 1, 300, 2000])
def test_deeper_nesting_is_refused_at_the_line_that_builds_it(kind: str, depth: int) -> None:
    """Fault 10."""
    with pytest.raises(gx.GraphError, match=f"nested more than {DEEPEST} deep") as caught:
        nested(kind, depth)
    assert "gx.cond(known" in str(caught.value) or "gx.while_loop(" in str(caught.value)
