"""Gradients through branches and loops: as those of unrolled graphs, and by finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import check
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.tuning.fusion import MEMORY

Structure = Any
RANDOM = np.random.default_rng(16)
X = RANDOM.normal(size=3)
W = RANDOM.normal(size=3) * 0.5
ROWS = RANDOM.normal(size=(6, 3))


# --- branches ------------------------------------------------------------------------------------


def chosen(x: gx.Value, w: gx.Value) -> gx.Value:
    return gx.cond(x.sum() > 0, lambda: (x * x * w).sum(), lambda: gx.sin(x).sum())


@pytest.mark.parametrize("sign", [1, -1])
def test_branches(sign: int) -> None:
    x = np.abs(X) * sign
    _, of_w = check(chosen, x, W)
    if sign < 0:  # the branch taken does not read it
        np.testing.assert_array_equal(of_w, 0)


def test_a_branch_that_is_not_taken_spoils_nothing() -> None:
    def root(x: gx.Value) -> gx.Value:
        return gx.cond(x[0] > 0, lambda: gx.sqrt(x[0]), lambda: x[0] * 2.0)

    np.testing.assert_array_equal(check(root, np.array([-4.0, 1.0]))[0], [2, 0])


@slow_unless(lambda number: number == 1)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_switches(number: int) -> None:
    def picked(x: gx.Value, number: gx.Value) -> gx.Value:
        branches = [lambda x: (x * x).sum(), lambda x: gx.exp(x).sum(), lambda x: x[0] * x[1]]
        return gx.switch(number, branches, x)

    check(picked, X, np.int64(number))


def test_several_results_and_integers() -> None:
    def both(x: gx.Value, w: gx.Value) -> gx.Value:
        a, number, b = gx.cond(
            w[0] > 0, lambda: (x * w, 3, x.sum()), lambda: (x + w, 4, w.sum() * x[0])
        )
        return (a * b).sum() * number

    check(both, X, W)


# --- loops of known and of unknown numbers of trips ----------------------------------------------


def rolled(x: gx.Value, w: gx.Value, count: Any) -> gx.Value:
    last = gx.fori_loop(0, count, lambda i, c: gx.tanh(c * w) + x * i.astype("float64"), x)
    return (last * last).sum()


def unrolled(x: gx.Value, w: gx.Value, count: int) -> gx.Value:
    last = x
    for number in range(count):
        last = gx.tanh(last * w) + x * float(number)
    return (last * last).sum()


@pytest.mark.parametrize("count", [0, 1, 2, 9, 200])
@pytest.mark.parametrize("is_known", [True, False])
def test_counted_loops_are_as_unrolled_ones(count: int, is_known: bool) -> None:
    with gx.Graph() as graph:
        x, w = gx.placeholder((3,), "float64"), gx.placeholder((3,), "float64")
        number = gx.placeholder((), "int64")
        trips = count if is_known else number
        found = gx.gradients(rolled(x, w, trips), [x, w], unconnected="zeros")
        expected = gx.gradients(unrolled(x, w, count), [x, w], unconnected="zeros")
    session = gx.Session(graph)
    given = session.run(found, {x: X, w: W, number: count})
    wanted = session.run(expected, {x: X, w: W})
    for one, other in zip(given, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@slow_unless(lambda start, is_known: start < 2**63 or is_known[0] != is_known[1])
@pytest.mark.parametrize("start", [2**63 - 2, 2**63 + 1, 2**64 - 3])
@pytest.mark.parametrize("is_known", [(True, True), (False, True), (True, False), (False, False)])
def test_counters_beyond_the_range_of_int64(start: int, is_known: tuple[bool, bool]) -> None:
    ends = [np.uint64(start), np.uint64(start + 2)]
    with gx.Graph() as graph:
        x = gx.placeholder((), "float64")
        fed = [gx.placeholder((), "uint64") for _ in ends]
        first, last = (
            gx.constant(end) if known else given
            for end, known, given in zip(ends, is_known, fed, strict=True)
        )
        counted = gx.fori_loop(first, last, lambda i, c: gx.sin(c) * x, x)
        none = gx.fori_loop(last, first, lambda i, c: gx.sin(c) * x, x)
        plain = gx.sin(gx.sin(x) * x) * x
        found = [gx.gradients(y, x) for y in (counted, plain, none)]
    one, other, still = gx.Session(graph).run(found, {x: 0.7, **dict(zip(fed, ends, strict=True))})
    np.testing.assert_allclose(one, other, rtol=1e-14)
    assert still == 1


def test_an_error_on_the_way_back_names_the_line_in_the_body() -> None:
    with gx.Graph() as graph:
        x, place = gx.placeholder((3,), "float64"), gx.placeholder((), "int64")
        count = gx.placeholder((), "int64")

        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            bent = gx.sin(c)
            return bent + gx.take(x, i + place, 0)

        # the sines are run again, where the gradient reads them; the rows are only added to
        gradient = gx.gradients(gx.fori_loop(0, count, step, x).sum(), x)
    with pytest.raises(gx.IndexRangeError, match=r"bent \+ gx\.take"):
        gx.Session(graph).run(gradient, {x: X, place: 5, count: 1})


def test_loops_by_differences() -> None:
    check(lambda x, w: rolled(x, w, 5), X, W)
    check(rolled, X, W, np.int64(4), second=False)


@slow_unless(lambda scale: scale > 0.1)
@pytest.mark.parametrize("scale", [100.0, 1.0, 0.02])
def test_trips_that_depend_on_data(scale: float) -> None:
    def grown(x: gx.Value, w: gx.Value) -> gx.Value:
        last, trips = gx.while_loop(
            lambda c, i: gx.abs(c).sum() < 20.0,
            lambda c, i: (c * (1.3 + gx.sin(w) * 0.1) + 0.1 * x, i + 1),
            (x, 0),
        )
        return (last * w).sum() * (1.0 + 0.5 * trips.astype("float64"))

    check(grown, X * scale, W, second=scale == 1)


@pytest.mark.parametrize("count", [63, 64, 65, 300, 2145, 2146, 5000])
def test_any_number_of_trips_in_a_fixed_memory(count: int) -> None:
    with gx.Graph() as graph:
        x, number = gx.placeholder((), "float64"), gx.placeholder((), "int64")

        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            return c + 0.3 * gx.sin(c + i.astype("float64"))

        gradient = gx.gradients(gx.fori_loop(0, number, step, x), x)
        known = gx.gradients(gx.fori_loop(0, count, step, x), x)
    session = gx.Session(graph)
    found, expected = session.run([gradient, known], {x: 0.3, number: count})
    assert found == expected  # the same products, to the bit
    executable = session.compile(gradient)
    assert executable.memory.peak_bytes < 20 * 8 * MEMORY.trips_kept


def test_what_would_take_too_much_memory_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> tuple[gx.Graph, gx.Value]:
        with gx.Graph() as graph:
            x = gx.constant(X)
            last = gx.fori_loop(0, 400, lambda i, c: gx.sin(c * 1.1) + 0.1, x)
            return graph, gx.gradients((last * last).sum(), x)

    graph, whole = program()
    plain = gx.Session(graph)
    expected, large = plain.run(whole), plain.compile(whole).memory.peak_bytes
    with monkeypatch.context() as patched:
        patched.setattr("passes.autodiff.loops.MEMORY", MEMORY._replace(trips_bytes=4096))
        graph, parts = program()
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(parts), expected)
    assert session.compile(parts).memory.peak_bytes < large


# --- scans ---------------------------------------------------------------------------------------


def scanned(x: gx.Value, w: gx.Value, rows: gx.Value, reverse: bool = False) -> gx.Value:
    def step(carry: Structure, row: gx.Value) -> Structure:
        a, b = carry["a"], carry["b"]
        following = {"a": gx.tanh(a * w + row), "b": b + (a * row).sum()}
        return following, [a * b, row.sum() * b]

    carry, (first, second) = gx.scan(step, {"a": x, "b": 0.5}, rows, reverse=reverse)
    return (carry["a"] * first.sum(0)).sum() + carry["b"] * (second * second).sum()


@slow_unless(lambda reverse, length: reverse == (length == 6))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [6, 1, 0])
def test_scans(reverse: bool, length: int) -> None:
    check(lambda *v: scanned(*v, reverse=reverse), X, W, ROWS[:length], second=length == 6)


@slow_unless(lambda length: length < 100)
@pytest.mark.parametrize("length", [40, 1000])
def test_a_long_scan_is_as_its_unrolled_graph(length: int) -> None:
    rows = RANDOM.normal(size=(length, 3)) * 0.1
    with gx.Graph() as graph:
        w, xs = gx.placeholder((3,), "float64"), gx.placeholder((length, 3), "float64")
        last, _ = gx.scan(lambda c, row: (gx.tanh(c * w + row), None), gx.zeros_like(w), xs)
        plain = gx.zeros_like(w)
        for number in range(length):
            plain = gx.tanh(plain * w + xs[number])
        values = [gx.gradients((y * y).sum(), [w, xs]) for y in (last, plain)]
    one, other = gx.Session(graph).run(values, {w: W, xs: rows})
    for given, wanted in zip(one, other, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-11, atol=1e-300)


def test_scan_in_cond_in_scan() -> None:
    def nested(x: gx.Value, w: gx.Value, rows: gx.Value) -> gx.Value:
        def inner(carry: gx.Value) -> gx.Value:
            return gx.scan(lambda a, b: (a * b + 0.1, a), carry, rows)[0]

        def step(i: gx.Value, carry: gx.Value) -> gx.Value:
            return gx.cond(carry.sum() > 0, lambda: gx.tanh(carry * w) - x, lambda: inner(carry))

        return (gx.fori_loop(2, 7, step, x) ** 2).sum()

    check(nested, X, W, ROWS[:4] * 0.5)


def test_rows_are_read_and_written_by_trips_in_any_order() -> None:
    places = np.array([2, 0, 2, 1])

    def picked(x: gx.Value, rows: gx.Value, places: gx.Value) -> gx.Value:
        def step(carry: gx.Value, place: gx.Value) -> Structure:
            return carry.at[place].multiply(rows[place].sum()), carry[place] * rows[place, 0]

        carry, stacked = gx.scan(step, x, places)
        return (carry * carry).sum() + stacked.sum()

    check(picked, X, ROWS[:3], places)


def scatters_in_loops(graph: gx.Graph, fetches: Any) -> list[bool]:
    """For each scatter in a loop whether it adds to what the loop carries, or to another sum."""
    executable = gx.Session(graph, options=gx.Options(optimize=0)).compile(fetches)
    found = []
    for loop in executable.source.walk():
        for region in loop.regions:
            for node in region.leading_to(region.outputs):
                if node.op.name == "scatter_add":
                    maker = region.producers.get(node.inputs[0])
                    found.append(maker is None or maker.op.name in ("add", "scatter_add"))
    return found


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_rows_that_a_trip_reads_are_added_to_in_place(dtype: str) -> None:
    def paired(x: gx.Value, rows: gx.Value) -> gx.Value:
        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            return gx.tanh(c * rows[i % 5] + rows[i] * rows[i % 3])

        return (gx.fori_loop(0, 6, step, x) ** 2).sum()

    if dtype == "float64":
        check(paired, X, ROWS, second=False)
    with gx.Graph() as graph:
        x, rows = gx.placeholder((3,), dtype), gx.placeholder((6, 3), dtype)
        gradient = gx.gradients(paired(x, rows), rows)
    places = scatters_in_loops(graph, gradient)
    assert len(places) == 3 and all(places)


def test_rows_that_a_loop_inside_reads_are_added_to_in_place() -> None:
    def nested(x: gx.Value, rows: gx.Value) -> gx.Value:
        def inner(i: gx.Value, c: gx.Value) -> gx.Value:
            return gx.fori_loop(0, 3, lambda j, d: gx.tanh(d * rows[i + j] + rows[i]), c)

        return (gx.fori_loop(0, 3, inner, x) ** 2).sum()

    check(nested, X, ROWS, second=False)
    with gx.Graph() as graph:
        x, rows = gx.placeholder((3,), "float64"), gx.placeholder((6, 3), "float64")
        gradient = gx.gradients(nested(x, rows), rows)
    places = scatters_in_loops(graph, gradient)
    assert len(places) == 2 and all(places)
    # no sum of whole tables is left in any trip
    source = gx.Session(graph).compile(gradient).source
    sums = [
        node
        for loop in source.walk()
        for region in loop.regions
        for node in region.leading_to(region.outputs)
        if node.op.name == "add" and node.output.shape == (6, 3)
    ]
    assert not sums


def test_what_several_share_of_a_sum_is_added_to_each() -> None:
    def shared(x: gx.Value, a: gx.Value, b: gx.Value) -> gx.Value:
        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            both = a + b
            inner = gx.fori_loop(0, 2, lambda j, d: gx.sin(d * both[i + j]), c)
            return inner + both.sum() * 0.1

        return (gx.fori_loop(0, 2, step, x) ** 2).sum()

    check(shared, X, ROWS[:3], ROWS[3:], second=False)


def test_gradients_inside_of_a_loop_that_is_differentiated() -> None:
    def descent(x: gx.Value, w: gx.Value) -> gx.Value:
        def step(i: gx.Value, point: gx.Value) -> gx.Value:
            return point - 0.1 * gx.gradients((gx.sin(point) * w).sum(), point)

        return (gx.fori_loop(0, 4, step, x) ** 2).sum()

    check(descent, X, W)


def test_a_newton_iteration_in_a_newton_iteration() -> None:
    def inner(a: gx.Value) -> gx.Value:
        return gx.while_loop(
            lambda y: gx.abs(y * y - a) > 1e-13 * a, lambda y: 0.5 * (y + a / y), a
        )

    def outer(a: gx.Value) -> gx.Value:
        return gx.while_loop(
            lambda y: gx.abs(y * y * y - a) > 1e-12 * a,
            lambda y: y - (y - inner(a / y)) * 2.0 / 3.0,
            a,
        )

    with gx.Graph() as graph:
        a = gx.placeholder((), "float64")
        y = outer(a)
        found = [y, gx.gradients(y, a)]
    root, slope = gx.Session(graph).run(found, {a: 10.0})
    np.testing.assert_allclose(root, 10 ** (1 / 3), rtol=1e-9)
    np.testing.assert_allclose(slope, 10 ** (-2 / 3) / 3, rtol=1e-6)


# --- kinds of values -----------------------------------------------------------------------------


def test_what_is_masked_stays_masked() -> None:
    def roots(x: gx.Value) -> gx.Value:
        def step(i: gx.Value, total: gx.Value) -> gx.Value:
            return total + gx.where(x > 0, gx.sqrt(gx.where(x > 0, x, 1.0)), 0.0)

        return gx.fori_loop(0, 3, step, gx.zeros_like(x)).sum()

    found = check(roots, np.array([4.0, -1.0, -0.5]), second=False)[0]
    np.testing.assert_array_equal(found, [0.75, 0, 0])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_goes_where_it_goes_unrolled(special: float) -> None:
    x = np.array([0.5, special, -0.25])
    with gx.Graph() as graph:
        value, w = gx.placeholder((3,), "float64"), gx.placeholder((3,), "float64")
        found = [gx.gradients(f(value, w, 3), [value, w]) for f in (rolled, unrolled)]
    one, other = gx.Session(graph).run(found, {value: x, w: W})
    for given, wanted in zip(one, other, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_floats(dtype: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), dtype)
        w = gx.placeholder((3,), dtype)
        last = gx.fori_loop(0, 3, lambda i, c: c * w, x)
        bent = gx.cond(x[0] > 0, lambda: last * last, lambda: last)
        found = gx.gradients(bent.sum(), [x, w])
    feeds = {x: np.array([1, 2, 4], x.dtype.numpy), w: np.array([0.5, 1, 2], x.dtype.numpy)}
    of_x, of_w = gx.Session(graph).run(found, feeds)
    assert of_x.dtype == of_w.dtype == x.dtype.numpy
    np.testing.assert_array_equal(of_x.astype("f8"), [0.03125, 4, 512])
    np.testing.assert_array_equal(of_w.astype("f8"), [0.1875, 24, 3072])


def test_complex_states() -> None:
    with gx.Graph() as graph:
        z = gx.placeholder((2,), "complex128")
        plain = z
        for _ in range(3):
            plain = plain * plain + z
        last = gx.fori_loop(0, 3, lambda i, c: c * c + z, z)
        found = [gx.gradients(gx.abs(y).sum(), z) for y in (last, plain)]
    one, other = gx.Session(graph).run(found, {z: np.array([0.1 + 0.2j, -0.3 + 0.1j])})
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_random_numbers_of_a_trip_are_the_same_on_the_way_back() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), "float64")
        key = gx.random.key(7)

        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            noise = gx.random.normal(gx.random.fold_in(key, i), (3,), "float64")
            return c * (1.0 + 0.1 * noise)

        last = gx.fori_loop(0, 5, step, x)
        found = [last, gx.gradients(last.sum(), x)]
    values, gradient = gx.Session(graph).run(found, {x: X})
    np.testing.assert_allclose(gradient, values / X, rtol=1e-12)


def test_variables_that_a_loop_assigns() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), "float64")
        calls = gx.variable(np.float64(0), name="calls")

        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            calls.assign_add(1.0)
            return c * x

        last = gx.fori_loop(0, 4, step, x)
        gradient = gx.gradients(last, x)
    session = gx.Session(graph)
    # a gradient is computed of what trips read: their effects are those of the loop itself
    assert session.run(gradient, {x: 2.0}) == 80
    assert session.run(calls) == 0
    assert session.run([last, gradient], {x: 2.0}) == [32, 80]
    assert session.run(calls) == 4


def test_training_by_a_scan() -> None:
    rows = RANDOM.normal(size=(8, 5, 2))
    target = rows[..., 0] * 0.5 - rows[..., 1]
    with gx.Graph() as graph:
        xs, ys = gx.placeholder((None, None, 2), "float64"), gx.placeholder((None, None), "float64")
        w = gx.variable(np.zeros(2), name="w")
        state, _ = gx.scan(
            lambda total, row: (total + ((row[0] @ w - row[1]) ** 2).mean(), None),
            gx.constant(0.0, "float64"),
            (xs, ys),
        )
        step = gx.optim.SGD(0.05).minimize(state)
    session = gx.Session(graph)
    for _ in range(200):
        session.run(step, {xs: rows, ys: target})
    np.testing.assert_allclose(session.run(w), [0.5, -1], atol=1e-6)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_result_of_a_loop_that_only_another_one_reaches(is_known: bool) -> None:
    with gx.Graph() as graph:
        x, w, n = (gx.placeholder((), dtype) for dtype in ("float64", "float64", "int64"))
        _, other = gx.fori_loop(
            0, 3 if is_known else n, lambda i, s: (s[0] * 2.0, s[1] * 1.5), (x, w)
        )
        found = gx.gradients(other + x, [x, w])
    assert gx.Session(graph).run(found, {x: 1.0, w: 1.0, n: 3}) == [1, 1.5**3]
    with graph:
        found = gx.gradients(other + x, x)
    assert gx.Session(graph).run(found, {x: 1.0, w: 1.0, n: 3}) == 1


def test_no_path_through_a_loop() -> None:
    with gx.Graph():
        x, w = gx.placeholder((), "float64"), gx.placeholder((), "float64")
        last, other = gx.while_loop(lambda c, d: c < 9.0, lambda c, d: (c + 1.0, d * w), (x, w))
        with pytest.raises(gx.GradientError, match="no path leads"):
            gx.gradients(last, gx.placeholder((), "float64"))
        # only the condition connects it, which is discrete
        found = gx.gradients(other, x)
    assert gx.Session(x.graph).run(found, {x: 1.0, w: 2.0}) == 0
