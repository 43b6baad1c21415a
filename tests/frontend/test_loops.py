"""Loops and choices by JAX's names, against loops in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    """What a function of values of unknown length gives."""
    with gx.Graph() as graph:
        operands = [
            gx.placeholder((None, *np.shape(array)[1:]) if np.ndim(array) else (), array.dtype)
            for array in arrays
        ]
        result = function(*operands)
    return gx.Session(graph).run(result, dict(zip(operands, arrays, strict=True)))


def test_counted_loops() -> None:
    assert run(lambda x: gx.fori_loop(0, 5, lambda i, total: total + i, 0), X) == 10
    total, number = run(
        lambda x: gx.fori_loop(
            2,
            gx.dim(x.shape[0]),
            lambda i, state: (state[0] + x[i], state[1] * 2.0),
            (gx.zeros((3,)), 1.0),
        ),
        X,
    )
    np.testing.assert_allclose(total, X[2:].sum(0), rtol=1e-5)
    assert number == 32 and number.dtype == np.float32
    assert run(lambda x: gx.fori_loop(5, 2, lambda i, total: total + 1, 0), X) == 0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [7, 1, 0])
def test_scans(reverse: bool, length: int) -> None:
    x = X[:length]

    def step(carry: Any, row: Any) -> Any:
        return carry + row["a"], {"before": carry, "sum": [row["a"].sum(), row["b"]]}

    carry, made = run(
        lambda x: gx.scan(step, gx.zeros((3,)), {"a": x, "b": x[:, 0]}, reverse=reverse), x
    )
    order = range(length)[::-1] if reverse else range(length)
    total, before = np.zeros(3, np.float32), np.zeros((length, 3), np.float32)
    for place in order:
        before[place] = total
        total = total + x[place]
    np.testing.assert_array_equal(carry, total)
    np.testing.assert_array_equal(made["before"], before)
    np.testing.assert_allclose(made["sum"][0], x.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(made["sum"][1], x[:, 0])


def test_scans_without_rows_or_results() -> None:
    carry, made = run(lambda x: gx.scan(lambda c, _: (c * 2, c), 1.0, None, length=5), X)
    assert carry == 32 and made.tolist() == [1, 2, 4, 8, 16] and made.dtype == np.float32
    with gx.Graph() as graph:
        count = gx.placeholder((None,), name="x").shape[0]
        carry, made = gx.scan(lambda c, _: (c + 1, None), 0, length=count)
        assert made is None
    assert gx.Session(graph).run(carry, {"x": X[:, 0]}) == 7


def test_maps() -> None:
    got = run(lambda x: gx.map(lambda row: {"sorted": gx.sort(row)[::-1], "n": 3}, x), X)
    np.testing.assert_array_equal(got["sorted"], np.sort(X, 1)[:, ::-1])
    assert got["n"].tolist() == [3] * 7
    assert run(lambda x: gx.map(lambda row: row * 2, x), X[:0]).shape == (0, 3)
    with gx.Graph() as graph:
        # known to be empty
        none = gx.map(lambda row: row * 2, gx.placeholder((0, 3), name="x"))
    assert gx.Session(graph).run(none, {"x": X[:0]}).shape == (0, 3)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_switches(count: int) -> None:
    branches = [lambda x, n=n: (x * n, n) for n in range(count)]
    for index in (-5, 0, 1, count - 1, count, 99):
        x, number = run(lambda i, x: gx.switch(i, branches, x), np.int32(index), X)
        wanted = min(max(index, 0), count - 1)
        np.testing.assert_array_equal(x, X * wanted)
        assert number == wanted


def test_the_first_true_case() -> None:
    branches = [lambda x, n=n: (x * (n + 1), n) for n in range(3)]

    def chosen(flags: Any, x: Any) -> Any:
        conditions = [flags[0], flags[1], flags[2]]
        return gx.case(conditions, branches, x, default=lambda x: (x * 0, -1))

    for number in range(8):
        flags = np.array([number & 1, number & 2, number & 4], bool)
        x, taken = run(chosen, flags, X)
        wanted = int(flags.argmax()) if flags.any() else -1
        assert taken == wanted
        np.testing.assert_array_equal(x, X * (wanted + 1))


def test_a_case_that_is_known_or_alone_or_differentiated() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), "float64")
        ways = [lambda: x * x, lambda: gx.exp(x), lambda: -x]
        signs = gx.case([x > 2.0, x > 0.0], ways[:2], default=ways[2])
        slope = gx.gradients(signs, x)
        known = gx.case([False, True], ways[:2], default=ways[2])
        alone = gx.case([], [], default=ways[2])
    session = gx.Session(graph)
    assert session.run(slope, {x: 3.0}) == 6 and session.run(slope, {x: -1.0}) == -1
    np.testing.assert_allclose(session.run([slope, known], {x: 1.0}), np.e, rtol=1e-15)
    assert session.run(alone, {x: 1.0}) == -1
    kinds = [node.op.name for node in session.compile(known, [x]).graph.nodes]
    assert "cond" not in kinds


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scans(size: int, reverse: bool) -> None:
    """Products of matrices, which don't commute."""
    m = np.random.default_rng(size).normal(size=(2, size, 3, 3))
    with gx.Graph() as graph:
        value = gx.placeholder(m.shape, "float64")
        got = gx.associative_scan(gx.matmul, value, reverse=reverse, axis=1)
    wanted, total = m.copy(), None
    for place in range(size)[::-1] if reverse else range(size):
        total = m[:, place] if total is None else total @ m[:, place]
        wanted[:, place] = total
    np.testing.assert_allclose(gx.Session(graph).run(got, {value: m}), wanted, rtol=1e-9)


def test_associative_scans_have_gradients() -> None:
    """h = a h + b, as of states: the gradient is that of the loop, by finite differences."""
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 9))
    with gx.Graph() as graph:
        first, second = gx.placeholder((9,), "float64"), gx.placeholder((9,), "float64")
        _, states = gx.associative_scan(
            lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (first, second)
        )
        loss = gx.sum(states**2)
        slopes = gx.gradients(loss, [first, second])
    session = gx.Session(graph)

    def lossy(a: Any, b: Any) -> Any:
        return session.run(loss, {first: a, second: b})

    for number, slope in enumerate(session.run(slopes, {first: a, second: b})):
        for place in range(9):
            step = np.zeros(9)
            step[place] = 1e-6
            sides = [(a + s * step, b) if number == 0 else (a, b + s * step) for s in (1, -1)]
            found = (lossy(*sides[0]) - lossy(*sides[1])) / 2e-6
            np.testing.assert_allclose(slope[place], found, rtol=1e-5, atol=1e-6)


def test_refusals() -> None:
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, 3), name="x"), gx.placeholder((None,), name="y")
        with pytest.raises(gx.GraphError, match="the function of scan gives"):
            gx.scan(lambda c, row: c, 0.0, x)
        with pytest.raises(gx.ShapeError, match="scan over nothing"):
            gx.scan(lambda c, row: (c, c), 0.0)
        with pytest.raises(gx.ShapeError, match="first axis"):
            gx.scan(lambda c, row: (c, c), 0.0, gx.constant(1.0))
        with pytest.raises(gx.ShapeError, match="associative_scan along"):
            gx.associative_scan(gx.add, x)
        with pytest.raises(gx.GraphError, match="no branches"):
            gx.switch(0, [])
        with pytest.raises(gx.DTypeError, match="switch by a float32"):
            gx.switch(1.0, [lambda: x])
        ways = [lambda: x, lambda: x * 2]
        for conditions, functions, error, match in (
            ([True], ways, gx.GraphError, "case of 1 condition and 2 functions"),
            ([1.0, True], ways, gx.DTypeError, "condition 0 of case is float32"),
            ([True, x > 0], ways, gx.ShapeError, r"condition 1 of case has shape"),
            (3, ways, gx.ShapeError, "conditions of case is 3, not a sequence"),
            ([True, False], [1, ways[0]], gx.GraphError, "1 is not a callable object"),
            ([True, False], [gx.sin, ways[0]], gx.GraphError, "a branch of case is called"),
        ):
            with pytest.raises(error, match=match):
                gx.case(conditions, functions, default=ways[0])
        both = gx.scan(lambda c, rows: (c, rows[0] + rows[1]), 0, (x, y))[1]
    session = gx.Session(graph)
    session.run(both, {x: X, y: X[:, 0]})
    with pytest.raises(gx.ShapeError, match="scan over"):
        session.run(both, {x: X, y: X[:3, 0]})
