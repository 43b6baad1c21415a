"""Indices are checked where they count, whether or not anything is read or written (fault 4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mistakes import refuses
from slow_parameters import slow_unless

import graphc as gx

pytestmark = pytest.mark.check_mode

OPTIONS = gx.Options(verify=True)


def test_fault_4_indices_are_checked_where_nothing_is_read_or_written() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64", name="x")
        i = gx.placeholder((None,), "int64", name="i")
        added, taken = gx.scatter_add(x, i, 1.0), gx.take(x, i, axis=0)
    session = gx.Session(graph, options=OPTIONS)
    for value in (added, taken):
        for shape in ((0, 3), (2, 0)):
            feeds = {x: np.zeros(shape), i: np.array([3])}
            refuses(lambda: session.run(value, feeds), "axis 0 of size", gx.IndexRangeError)  # noqa: B023
        none = {x: np.zeros((0, 3)), i: np.zeros(0, np.int64)}
        assert session.run(value, none).shape == (0, 3)


@slow_unless(lambda level: level in (0, 2))
@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("known", [None, 0])
def test_fault_4_indices_are_checked_beside_an_axis_of_nothing(
    level: int, known: int | None
) -> None:
    """No element reads an index there, but indices of the same axis beside elements are checked."""
    with gx.Graph() as graph:
        x = gx.placeholder((known, None), "float64", name="x")
        i = gx.placeholder((None,), "int64", name="i")
        n = gx.placeholder((), "int64", name="n")
        taken = gx.take(x, i, axis=1)
        slope = gx.gradients(gx.sum(taken * taken), x)
        body = lambda k, s: (k + 1, s + gx.sum(gx.take(x, i[0], axis=1)))  # noqa: E731
        values = [
            taken, gx.take(x.T, i, axis=0), gx.sum(taken), x[:, n], slope,
            gx.scatter_add(x, i, 1.0, axis=1), gx.gradients(gx.sum(slope * slope), x),
            gx.while_loop(lambda k, s: k < n - 2, body, (0, np.float64(0)))[1],
        ]  # fmt: skip
    session = gx.Session(graph, options=gx.Options(optimize=level, verify=True))
    x_ = np.zeros((0, 3))
    for value in values:
        session.run(value, {x: x_, i: np.array([0, -3]), n: 2})
        text = r"(take|scatter_add): index 3 is out of range for axis [01] of size 3"
        bad = {x: x_, i: np.array([3, 0]), n: 3}
        refuses(lambda: session.run(value, bad), text, gx.IndexRangeError)  # noqa: B023
        if known is None:
            bad[x] = np.zeros((2, 3))
            refuses(lambda: session.run(value, bad), text, gx.IndexRangeError)  # noqa: B023
    # columns that are sure to be there leave nothing to check beside the take itself
    with graph:
        plain = gx.take(gx.placeholder((None, 4), "float64", name="y"), i, axis=0)
    assert len(session.compile(plain).kernels) == 1


@slow_unless(lambda level: level in (0, 2))
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_fault_4_indices_of_effects_are_checked(level: int, tmp_path: Path) -> None:
    """What must run checks its indices, whether or not anything reads what it picks."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        i = gx.placeholder((None,), "int64", name="i")
        v = gx.variable(np.float64(1))
        picked = gx.sum(gx.take(x, i, axis=0))
        either = gx.cond(gx.sum(x) > 0.0, lambda: gx.take(x, i, axis=0)[0], lambda: x[0])
        with gx.control_dependencies([picked * 2.0]):
            late, written = x[0] * 1.0, v.assign(x[0])
        with gx.control_dependencies([either]):
            chosen = x[0] * 1.0
    fetches = [gx.group(picked, x), late, written, chosen, [gx.group(picked), x]]
    session = gx.Session(graph, options=gx.Options(optimize=level, verify=True))
    good, bad = ({"x": np.ones(3), "i": np.array([place])} for place in (-3, 3))
    for fetched in fetches:
        refuses(lambda: session.run(fetched, bad), "index 3", gx.IndexRangeError)  # noqa: B023
        session.run(fetched, good)
    assert (session.run(late, good), session.run([gx.group(picked), x], good)[0]) == (1, None)
    refuses(lambda: session.run(late * 2.0, bad), "index 3", gx.IndexRangeError)
    assert session.run([x, i + 1], bad)[1] == 4
    gx.aot.compile(session.compile(late, [x, i]), tmp_path / "late")
    loaded = gx.aot.load(tmp_path / "late")
    assert loaded(*good.values()) == 1
    refuses(lambda: loaded(*bad.values()), "index 3", gx.IndexRangeError)


@slow_unless(lambda level: level in (0, 2))
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_fault_4_indices_of_what_regions_require_are_checked(level: int, tmp_path: Path) -> None:
    """In a branch or a body they are checked when that runs, and no sooner."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        i = gx.placeholder((None,), "int64", name="i")
        n = gx.placeholder((), "int64", name="n")

        def inside() -> gx.Value:
            with gx.control_dependencies([gx.take(x, i, axis=0) * 2.0]):
                return x[0] * 1.0

        def nested(k: gx.Value) -> gx.Value:
            return gx.cond(gx.equal(k, 1), inside, lambda: x[0])

        def looped(step: Callable[[gx.Value], gx.Value]) -> list[gx.Value]:
            body = lambda k, s: (k + 1, s + step(k))  # noqa: E731
            return gx.while_loop(lambda k, s: k < n, body, (0, np.float64(0)))

        chosen = gx.cond(n > 1, inside, lambda: x[0])
        count, total = looped(lambda k: inside())
        within = looped(nested)[1]
    session = gx.Session(graph, options=gx.Options(optimize=level, verify=True))
    good, bad = ({"x": np.ones(3), "i": np.array([place])} for place in (-3, 3))
    path = tmp_path / "graph.gir"
    gx.save(path, [chosen, count, total, within])
    again = gx.load(path)
    other = gx.Session(again[0].graph, options=session.options)
    for value, loaded in zip((chosen, count, total, within), again, strict=True):
        expected = 1 if value is chosen else 2
        assert session.run(value, {**good, "n": 2}) == other.run(loaded, {**good, "n": 2})
        assert session.run(value, {**good, "n": 2}) == expected
        session.run(value, {**bad, "n": 0})
        refuses(lambda: session.run(value, {**bad, "n": 2}), "index 3", gx.IndexRangeError)  # noqa: B023
        with pytest.raises(gx.IndexRangeError, match="index 3"):
            other.run(loaded, {**bad, "n": 2})


@pytest.mark.parametrize("level", [0, 2])
def test_fault_4_no_index_is_checked_where_there_is_none(level: int) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((0, None), "float64", name="x")
        i = gx.placeholder((0,), "int64", name="i")
        slope = gx.gradients(gx.sum(gx.take(x, i)), x)
        added = gx.scatter_add(gx.zeros((0,), "float64"), i, 1.0)
    session = gx.Session(graph, options=gx.Options(optimize=level, verify=True))
    feeds = {x: np.zeros((0, 3)), i: np.zeros(0, np.int64)}
    assert session.run(slope, feeds).shape == (0, 3)
    assert session.run(added, feeds).shape == (0,)
