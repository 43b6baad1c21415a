"""``cond`` and ``while_loop``: captures, nesting, assignments inside, odd carries, weak numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode


def zero() -> Any:
    return gx.constant(0)


def times(count: Any, body: Callable[..., Any], *start: Any) -> Any:
    """Repeats ``body``, which takes the trip and the values and gives their successors."""

    def step(trip: Any, *values: Any) -> Any:
        given = body(trip, *values)
        return (trip + 1, *(given if isinstance(given, tuple) else (given,)))

    return gx.while_loop(lambda trip, *values: trip < count, step, (zero(), *start))[1:]


# --- cond ----------------------------------------------------------------------------------------


def test_cond_takes_one_branch() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")
        y = gx.cond(p, lambda: {"a": x + 1.0, "b": [x]}, lambda: {"b": [x * 2.0], "a": x})
    session = gx.Session(graph)
    got = session.run(y, {p: True, x: [1, 2, 3]})
    np.testing.assert_array_equal([got["a"], got["b"][0]], [[2, 3, 4], [1, 2, 3]])
    got = session.run(y, {p: False, x: [1, 2, 3]})
    np.testing.assert_array_equal([got["a"], got["b"][0]], [[1, 2, 3], [2, 4, 6]])


def test_dicts_are_matched_by_key_whatever_their_order() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        y = gx.cond(p, lambda: {"a": 1.0, "b": 2.0}, lambda: {"b": 4.0, "a": 3.0})
        z = gx.while_loop(
            lambda values: values["n"] < 3,
            lambda values: {"s": values["s"] + 10, "n": values["n"] + 1},
            {"n": zero(), "s": zero()},
        )
    session = gx.Session(graph)
    assert session.run(y, {p: True}) == {"a": 1, "b": 2}
    assert session.run(y, {p: False}) == {"a": 3, "b": 4}
    assert session.run(z) == {"n": 3, "s": 30}


def test_only_the_branch_taken_runs() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((5,), name="x")
        i = gx.placeholder((), "int64", name="i")
        y = gx.cond(i < 5, lambda: gx.take(x, i), lambda: gx.constant(-1.0))
    session = gx.Session(graph)
    assert session.run(y, {x: range(5), i: 9}) == -1
    assert session.run(y, {x: range(5), i: 4}) == 4
    with pytest.raises(gx.IndexRangeError):
        session.run(y, {x: range(5), i: -6})


def test_branches_may_give_what_they_capture() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.arange(3, dtype=np.float32))
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")
        y = gx.cond(p, lambda: (v, x, x), lambda: (x, x, v))
    session = gx.Session(graph)
    fed = np.ones(3, np.float32)
    for taken in (True, False):
        got = session.run(y, {p: taken, x: fed})
        expected = (np.arange(3), fed, fed) if taken else (fed, fed, np.arange(3))
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
            assert not np.shares_memory(one, fed)
            one[:] = 7
    np.testing.assert_array_equal(session.get(v), np.arange(3))


def test_python_predicates_and_results() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        y = gx.cond(True, lambda: (x, 1.0), lambda: (x + 1.0, 2.0))
    got = gx.Session(graph).run(y, {x: [1, 2]})
    np.testing.assert_array_equal(got[0], [1, 2])
    assert got[1] == 1


# --- while ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4])
def test_carries_may_swap_rotate_and_stand_still(trips: int) -> None:
    with gx.Graph() as graph:
        n = gx.placeholder((), "int64", name="n")
        a, b = (gx.placeholder((3,), name=name) for name in "ab")
        results = times(n, lambda i, p, q, r, s: (q, p, r, p + q), a, b, a, b)
    p, q, r, s = (np.arange(3.0), np.arange(3.0) + 10) * 2
    feeds = {n: trips, a: p, b: q}
    for _ in range(trips):
        p, q, r, s = q, p, r, p + q
    got = gx.Session(graph).run(results, feeds)
    for one, other in zip(got, (p, q, r, s), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_million_trips() -> None:
    with gx.Graph() as graph:
        (total,) = times(1_000_000, lambda i, t: t + i % 7, zero())
    assert gx.Session(graph).run(total) == sum(k % 7 for k in range(1_000_000))


@pytest.mark.parametrize("rows", [0, 1, 5, 40])
def test_symbolic_and_empty_arrays(rows: int) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), name="x")
        p = gx.placeholder((), "bool", name="p")
        (y,) = times(3, lambda i, y: y * 2.0 + y.sum(axis=0), x)
        z = gx.cond(p, lambda: y + 1.0, lambda: y - 1.0)
    expected = np.ones((rows, 3))
    for _ in range(3):
        expected = expected * 2 + expected.sum(axis=0)
    got = gx.Session(graph).run(z, {x: np.ones((rows, 3)), p: rows > 1})
    np.testing.assert_allclose(got, expected + (1 if rows > 1 else -1), rtol=1e-6)


def test_loops_over_structures_and_single_values() -> None:
    with gx.Graph() as graph:
        alone = gx.while_loop(lambda i: i < 5, lambda i: i + 2, zero())
        listed = gx.while_loop(lambda i: i < 5, lambda i: [i + 2], [zero()])
        nested = gx.while_loop(
            lambda i, more: i < 3,
            lambda i, more: (i + 1, {"a": more["b"], "b": more["a"] + more["b"]}),
            (0, {"a": 0, "b": 1}),
        )
    got = gx.Session(graph).run([alone, listed, nested])
    assert got == [6, [6], (3, {"a": 2, "b": 3})]


def test_loops_join_the_graph_of_their_values() -> None:
    graph = gx.Graph()
    with graph:
        x = gx.placeholder((2,), name="x")
    _, y = gx.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))
    np.testing.assert_array_equal(gx.Session(graph).run(y, {x: [1, 2]}), [8, 16])


def test_one_loop_after_another() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((8,), name="x")
        y = x
        for _ in range(20):
            (y,) = times(2, lambda i, y: gx.floor(y * 0.5) + y[::-1], y)
    expected = np.arange(8, dtype=np.float32)
    for _ in range(40):
        expected = np.floor(expected * np.float32(0.5)) + expected[::-1]
    np.testing.assert_array_equal(gx.Session(graph).run(y, {x: np.arange(8)}), expected)


# --- one in another ------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [3, -2, 0])
def test_loops_in_loops_with_branches_and_assignments(factor: int) -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.int64(0), name="v")
        x = gx.placeholder((), "int64", name="x")

        def outer(i: Any, a: Any) -> Any:
            def inner(j: Any, b: Any) -> Any:
                v.assign_add(1)
                return gx.cond(
                    j % 2 == 0,
                    lambda: b + x * i,
                    lambda: gx.cond(b > 10, lambda: b - v.read(), lambda: b + j),
                )

            return times(i, inner, a)

        (out,) = times(6, outer, gx.constant(1))
        after = v.read()
    session = gx.Session(graph)
    count = 0
    for _ in range(2):
        a = 1
        for i in range(6):
            for j in range(i):
                count += 1
                a = a + factor * i if j % 2 == 0 else a - count if a > 10 else a + j
        assert session.run([out, after], {x: factor}) == [a, count]
        assert session.get(v) == count


def test_branches_forty_deep() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")

        def branch(depth: int) -> Callable[[], Any]:
            if depth == 0:
                return lambda: x + 1.0
            return lambda: gx.cond(p, branch(depth - 1), lambda: x * float(depth))

        y = branch(40)()
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(y, {p: True, x: [1, 2, 3]}), [2, 3, 4])
    np.testing.assert_array_equal(session.run(y, {p: False, x: [1, 2, 3]}), [40, 80, 120])


# --- variables inside ----------------------------------------------------------------------------


def test_reads_and_writes_of_two_variables_in_a_loop() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.float32(1), name="v")
        w = gx.variable(np.float32(10), name="w")

        def body(i: Any) -> Any:
            old = v.read()
            v.assign(w.read())
            w.assign(old + w.read())
            return ()

        effect = gx.group(gx.while_loop(lambda i: i < 5, lambda i: (body(i), i + 1)[1], zero()))
    session = gx.Session(graph)
    assert session.run(effect) is None
    a, b = 1.0, 10.0
    for _ in range(5):
        a, b = b, a + b
    assert session.get([v, w]) == [a, b]


def test_the_condition_may_read_what_the_body_writes() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.int64(1), name="v")
        other = gx.variable(np.int64(100), name="other")

        def body(i: Any) -> Any:
            v.assign(v.read() * 2)
            return i + 1

        trips = gx.while_loop(lambda i: v.read() < other.read(), body, zero())
    session = gx.Session(graph)
    assert session.run(trips) == 7 and session.get(v) == 128
    assert session.run(trips) == 0 and session.get(v) == 128


def test_a_branch_that_assigns_and_one_that_does_not() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.float32(1), name="v")
        p = gx.placeholder((), "bool", name="p")
        y = gx.cond(p, lambda: v.assign_add(1.0), lambda: v.read() * 100.0)
        z = v.read()
        nothing = gx.cond(p, lambda: gx.group(v.assign(z * 2.0)), lambda: None)
        last = v.read()
    session = gx.Session(graph)
    assert session.run([y, z, v], {p: False}) == [100, 1, 1]
    assert session.run([y, z, v], {p: True}) == [2, 2, 1]
    assert session.get(v) == 2
    assert session.run([v, y, z, last], {p: True}) == [2, 3, 3, 6]
    assert session.get(v) == 6
    # of branches without a value, the effect stands for what they do
    assert session.run(nothing, {p: False}) is None and session.get(v) == 6
    assert session.run(nothing, {p: True}) is None and session.get(v) == 14


def test_an_error_in_a_loop_leaves_the_variables() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.float32(0), name="v")
        x = gx.placeholder((5,), name="x")
        n = gx.placeholder((), "int64", name="n")

        def body(i: Any, total: Any) -> Any:
            v.assign_add(1.0)
            return total + gx.take(x, i)

        (total,) = times(n, body, gx.constant(0.0))
    session = gx.Session(graph)
    assert session.run(total, {x: range(5), n: 5}) == 10 and session.get(v) == 5
    with pytest.raises(gx.IndexRangeError, match="index 5"):
        session.run(total, {x: range(5), n: 6})
    assert session.get(v) == 5
    assert session.run(total, {x: range(5), n: 3}) == 3 and session.get(v) == 8


def test_dependencies_on_what_stands_outside() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.float32(0), name="v")
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((), name="x")
        write = v.assign(5.0)

        def deep() -> Any:
            with gx.control_dependencies([write]):
                return x * 2.0

        y = gx.cond(p, lambda: gx.cond(p, deep, lambda: x), lambda: x)
    session = gx.Session(graph)
    assert session.run(y, {p: True, x: 1}) == 2 and session.get(v) == 5


def test_values_of_a_branch_stay_inside() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")
        kept: list[Any] = []
        y = gx.cond(p, lambda: kept.append(x + 1.0) or kept[0], lambda: x)
    session = gx.Session(graph)
    with pytest.raises(gx.GraphError, match="another graph"):
        session.run(kept[0], {p: True, x: [1, 2, 3]})
    with pytest.raises(gx.GraphError, match="another graph"):
        session.run(y, {p: True, x: [1, 2, 3], kept[0]: [1, 2, 3]})
    np.testing.assert_array_equal(session.run(y, {p: True, x: [1, 2, 3]}), [2, 3, 4])


def test_values_that_leave_their_region_are_refused_where_they_are_used() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")
        kept: list[Any] = []

        def keep(value: Any) -> Any:
            kept.append(value)
            return value

        gx.cond(p, lambda: keep(gx.exp(x)), lambda: x)
        uses: list[Callable[[], Any]] = [
            lambda: kept[0] + 1.0,
            lambda: x + kept[0],
            lambda: gx.exp(kept[0]),
            lambda: gx.cond(p, lambda: kept[0], lambda: x),
            lambda: gx.cond(p, lambda: x, lambda: x * kept[0]),
            lambda: times(3, lambda i, y: y + kept[0], x),
            lambda: times(3, lambda i, y: y, kept[0]),
            lambda: gx.cond(p, lambda: keep(x * 2.0), lambda: kept.pop() + 1.0),
        ]
        for use in uses:
            with pytest.raises(gx.GraphError, match="branch or loop body") as caught:
                use()
            assert caught.value.where is not None and caught.value.where.filename == __file__
            assert "return it from the function" in str(caught.value)
        variables: list[Any] = []
        times(3, lambda i, y: (variables.append(y), y)[1], x)
        with pytest.raises(gx.GraphError, match="graph 'body'"):
            variables[0] * 2.0
        y = gx.cond(p, lambda: x * 2.0, lambda: x)
    np.testing.assert_array_equal(
        gx.Session(graph).run(y, {p: True, x: [1, 2, 3]}), [2, 4, 6]
    )


# --- Python numbers are weak (fault 33) ----------------------------------------------------------


@pytest.mark.parametrize("element", ["int8", "int64", "float32", "float64"])
def test_python_numbers_in_branches_take_the_dtype_of_the_other(element: str) -> None:
    """Fault 33: beside a float64 the branch ``lambda: -1.0`` was refused."""
    number = -1.0 if element.startswith("float") else -1
    with gx.Graph() as g:
        x = gx.placeholder((), element, name="x")
        results = [gx.cond(x > 0, lambda: number, lambda: x), gx.cond(x > 0, lambda: x, lambda: -1)]
        both = gx.cond(x > 0, lambda: {"a": 1, "b": x}, lambda: {"b": 2, "a": 1.5})
    assert [r.dtype.name for r in results] == [element, element]
    assert both["a"].dtype.name == gx.add(1, 1.5).dtype.name and both["b"].dtype.name == element
    ahead, behind, pair = gx.Session(g).run([*results, both], {x: 3})
    assert (ahead, behind, pair["a"], pair["b"]) == (-1, 3, 1, 3)


def test_numbers_of_another_kind_and_strong_numbers_keep_their_dtype() -> None:
    with gx.Graph():
        x = gx.placeholder((), "int64", name="x")
        y = gx.placeholder((), "float64", name="y")
        for given in (lambda: 1.5, lambda: np.float64(1.5), lambda: gx.constant(1.5)):
            with pytest.raises(gx.DTypeError, match="branches of cond give"):
                gx.cond(x > 0, given, lambda: x)
        with pytest.raises(gx.DTypeError, match="branches of cond give"):
            gx.cond(x > 0, lambda: np.float32(1.5), lambda: y)
        with pytest.raises(gx.DTypeError, match="Python integer 300 is out of bounds for int8"):
            gx.cond(x > 0, lambda: 300, lambda: x.astype("int8"))


@pytest.mark.parametrize(
    ("start", "step", "element"),
    [
        (0.0, lambda v, y: v + y, "float64"),
        (0, lambda v, y: v + y, "float64"),
        (0, lambda v, y: v + 0.5, "float64"),
        (0, lambda v, y: y.astype("int8"), "int8"),
        (0, lambda v, y: v + y.astype("int8"), "int64"),
        (0.0, lambda v, y: v + 1, "float32"),
        (0, lambda v, y: 1.5, "float64"),
        (0.0, lambda v, y: 1, "float64"),
        (np.float64(0), lambda v, y: 1.5, "float64"),
        (False, lambda v, y: v | (y > 0), "bool"),
    ],
)
def test_python_numbers_that_loops_begin_with(start: Any, step: Any, element: str) -> None:
    """Fault 33: a start of 0.0 was refused beside a float64 successor."""
    with gx.Graph() as g:
        y = gx.placeholder((), "float64", name="y")
        _, last = gx.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, step(v, y)), (0, start))
        nested = gx.cond(
            y > 0,
            lambda: gx.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, step(v, y)), (0, start)),
            lambda: (0, start),
        )
    assert last.dtype.name == nested[1].dtype.name == element
    expected = np.asarray(start, element)
    for _ in range(3):
        expected = np.asarray(step(expected, np.float64(2.0))).astype(element)
    results = gx.Session(g).run([last, nested[1]], {y: 2.0})
    assert results[0] == results[1] == expected


def test_loop_variables_still_keep_strong_dtypes() -> None:
    with gx.Graph():
        y = gx.placeholder((), "float64", name="y")
        for start in (np.float32(0), gx.constant(0.0)):
            with pytest.raises(gx.DTypeError, match=r"starts as float32\[\] but the body gives"):
                gx.while_loop(lambda v: v < 3, lambda v: v + y, start)
        with pytest.raises(gx.DTypeError, match=r"starts as int64\[\] but the body gives float32"):
            gx.while_loop(lambda v: v < 3, lambda v: 0.5, gx.constant(1))
        with pytest.raises(gx.DTypeError, match=r"starts as float64\[\] but the body gives int64"):
            gx.while_loop(lambda v: v < 3, lambda v: v.astype("int64"), y)
