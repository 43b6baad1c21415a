"""Variables, assignments, groups and control dependencies: what a run reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode


def scalar(value: float = 0.0, name: str = "v") -> Any:
    return gx.variable(np.float32(value), name=name)


# --- what a variable is --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "dtype", "shape"),
    [
        (1.5, "float32", ()), (3, "int64", ()), (True, "bool", ()), ([1.5, 2], "float32", (2,)),
        ([[1, 2]], "int64", (1, 2)), (np.float64(1), "float64", ()), (np.int8(1), "int8", ()),
        (np.zeros((2, 0)), "float64", (2, 0)), (np.ones(3, np.uint16), "uint16", (3,)),
        (np.arange(6, dtype=">f4").reshape(3, 2).T[::-1], "float32", (2, 3)),
    ],
)  # fmt: skip
def test_initial_values(initial: Any, dtype: str, shape: tuple[int, ...]) -> None:
    with gx.Graph() as graph:
        v = gx.variable(initial)
    session = gx.Session(graph)
    assert str(v.dtype) == dtype and v.shape == shape
    for got in (session.get(v), session.run(v)):
        assert got.dtype == np.dtype(dtype) and got.dtype.isnative
        np.testing.assert_array_equal(got, initial)


def test_the_initial_value_is_copied() -> None:
    given = np.zeros(3, np.float32)
    with gx.Graph() as graph:
        v = gx.variable(given)
        step = v.assign_add(1.0)
    given[:] = 7
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(step), [1, 1, 1])
    np.testing.assert_array_equal(given, [7, 7, 7])
    np.testing.assert_array_equal(gx.Session(graph).get(v), [0, 0, 0])


# --- reads and writes ----------------------------------------------------------------------------


def test_as_a_value_it_is_what_it_was_at_the_start_of_the_run() -> None:
    with gx.Graph() as graph:
        v = scalar(1)
        early = v * 10.0
        new = v.assign(v + 1.0)
        late = v * 10.0
        read = v.read() * 10.0
    session = gx.Session(graph)
    assert session.run([early, new, late, read, v]) == [10, 2, 10, 20, 1]
    assert session.run([read, late, early]) == [30, 20, 20]
    assert session.get(v) == 3


def test_read_runs_the_write_before_it() -> None:
    with gx.Graph() as graph:
        v = scalar(1)
        before = v.read()
        v.assign(5.0)
        middle = v.read()
        v.assign(7.0)
        after = v.read()
    session = gx.Session(graph)
    assert session.run(before) == 1 and session.get(v) == 1
    assert session.run(middle) == 5 and session.get(v) == 5
    assert session.run([after, middle]) == [7, 5] and session.get(v) == 7
    assert session.run(middle) == 5 and session.get(v) == 5, "only what is fetched runs"


def test_chains_of_assign_add() -> None:
    with gx.Graph() as graph:
        v = scalar()
        sums = [v.assign_add(float(n)) for n in (1, 10, 100)]
        less = v.assign_sub(1.0)
    session = gx.Session(graph)
    assert session.run(sums) == [1, 11, 111]
    assert session.run(sums[1]) == 122
    assert session.run([less, v]) == [232, 122]
    assert session.get(v) == 232


def test_a_thousand_writes() -> None:
    with gx.Graph() as graph:
        v = scalar()
        for _ in range(1000):
            last = v.assign_add(1.0)
    session = gx.Session(graph)
    assert session.run(last) == 1000 and session.run(last) == 2000


def test_two_variables_swap() -> None:
    with gx.Graph() as graph:
        a = gx.variable(np.arange(3.0), name="a")
        b = gx.variable(np.arange(3.0) + 3, name="b")
        swap = gx.group(a.assign(b), b.assign(a))
    session = gx.Session(graph)
    first, second = np.arange(3.0), np.arange(3.0) + 3
    for _ in range(5):
        session.run(swap)
        first, second = second, first
        np.testing.assert_array_equal(session.get([a, b]), [first, second])


def test_three_variables_rotate_in_place_of_each_other() -> None:
    with gx.Graph() as graph:
        a, b, c = (gx.variable(np.full(100, n, np.float32)) for n in range(3))
        turn = [a.assign(b), b.assign(c + a * 0.0), c.assign(a[::-1])]
    session = gx.Session(graph)
    state = [0, 1, 2]
    for _ in range(7):
        got = session.run(turn)
        state = [state[1], state[2], state[0]]
        for array, new, number in zip(session.get([a, b, c]), got, state, strict=True):
            np.testing.assert_array_equal(array, np.full(100, number))
            np.testing.assert_array_equal(array, new)


def test_results_of_a_run_survive_later_runs() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros(64, np.float32))
        new = v.assign_add(1.0)
        also = v.read() * 1.0
    session = gx.Session(graph)
    kept = [session.run([new, also, v]) for _ in range(6)]
    for count, (one, other, old) in enumerate(kept):
        np.testing.assert_array_equal(one, np.full(64, count + 1))
        np.testing.assert_array_equal(other, np.full(64, count + 1))
        np.testing.assert_array_equal(old, np.full(64, count))


# --- conversion ----------------------------------------------------------------------------------


def test_assigned_values_are_cast_and_broadcast() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros((2, 3), np.float32), name="v")
        i = gx.variable(np.int32(0), name="i")
        row = gx.placeholder((3,), "float64", name="row")
        dynamic = gx.placeholder((None, 3), name="dynamic")
        assigns = [v.assign(row), v.assign(1), v.assign(v.read()[:, :1] + 1.0), i.assign(True)]
        from_dynamic = v.assign(dynamic)
    session = gx.Session(graph)
    got = session.run(assigns, {row: [1, 2, 3]})
    np.testing.assert_array_equal(got[0], [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(got[1], np.ones((2, 3)))
    np.testing.assert_array_equal(got[2], np.full((2, 3), 2))
    assert got[3] == 1 and got[3].dtype == np.int32
    for size in (2, 1):
        got = session.run(from_dynamic, {dynamic: np.full((size, 3), size)})
        np.testing.assert_array_equal(got, np.full((2, 3), size))
    with pytest.raises(gx.ShapeError):
        session.run(from_dynamic, {dynamic: np.zeros((3, 3))})
    np.testing.assert_array_equal(session.get(v), np.full((2, 3), 1))


@pytest.mark.parametrize("shape", [(4,), (3, 2), (1, 2, 3), (5, 2, 3), (0,)])
def test_what_does_not_fit_is_told_when_building(shape: tuple[int, ...]) -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros((2, 3), np.float32), name="v")
        x = gx.placeholder(shape, name="x")
        with pytest.raises(gx.ShapeError):
            v.assign(x)
        new = v.assign_add(1.0)
    assert gx.Session(graph).run(new).sum() == 6


ASSIGNED: tuple[tuple[str, Any, str], ...] = (
    ("int64", 1.5, "given dtype float64"),
    ("int64", float("nan"), "given dtype float64"),
    ("int64", [1.0, 2.0], "given dtype float64"),
    ("int32", np.float32(1), "given dtype float32"),
    ("int8", 300, "given values from 300 to 300"),
    ("int8", [1, -129], "given values from -129 to 1"),
    ("uint8", -1, "given values from -1 to -1"),
    ("uint64", np.int64(-1), "given values from -1 to -1"),
    ("int64", np.uint64(2**63), "given values from"),
    ("bool", 1, "given dtype int64"),
    ("bool", 0.0, "given dtype float64"),
    ("float32", 1j, "given dtype complex128"),
    ("int64", "1", "cannot make a tensor of str"),
    ("int64", None, "cannot make a tensor of NoneType"),
    ("int64", 2**70, "out of the range of every integer dtype"),
    ("float32", [[1.0], [1.0, 2.0]], "cannot make a tensor of list"),
    ("float32", object(), "cannot make a tensor of object"),
    ("float32", np.datetime64("2020"), "cannot make a tensor of datetime64"),
)


@pytest.mark.parametrize("dtype, given, message", ASSIGNED)
@pytest.mark.parametrize("place", ["graph", "cond", "while"])
def test_fault_25_what_would_lose_something_is_not_assigned(
    dtype: str, given: Any, message: str, place: str
) -> None:
    with gx.Graph() as graph:
        k = gx.variable(np.zeros(2, dtype), name="k")
        p = gx.placeholder((), "bool", name="p")
        with pytest.raises(gx.DTypeError, match=message) as caught:
            if place == "graph":
                k.assign(given)
            elif place == "cond":
                gx.cond(p, lambda: k.assign(given), lambda: k.read())
            else:
                gx.while_loop(lambda n: n < 3, lambda n: [n + 0 * k.assign(given)[0]], [0])
    assert caught.value.where is not None and caught.value.where.filename == __file__
    # what set refuses has the same words
    if message.startswith("given"):
        given = np.broadcast_to(np.asarray(given), (2,))
        with pytest.raises(gx.FeedError) as set_:
            gx.Session(graph).set({k: given})
        wanted = set_.value.message.removeprefix("feed for k: ")
        assert caught.value.message == f"value assigned to k: {wanted}"
        assert caught.value.hint == set_.value.hint


def test_fault_25_values_of_another_kind_are_not_assigned() -> None:
    with gx.Graph() as graph:
        k = gx.variable(0, name="k")
        flag = gx.variable(False, name="flag")
        x = gx.placeholder((), name="x")
        i = gx.placeholder((), "int64", name="i")
        for build in (
            lambda: k.assign(x),
            lambda: k.assign_add(1.5),
            lambda: k.assign_sub(np.float64(1)),
            lambda: k.assign_add(x),
            lambda: flag.assign(i),
            lambda: flag.assign(x),
            lambda: gx.cond(flag, lambda: k.assign(x), lambda: k.read()),
        ):
            with pytest.raises(gx.DTypeError, match="value assigned to"):
                build()
        new = [k.assign(x.astype("int64")), flag.assign(i != 0), k.assign_add(True)]
    got = gx.Session(graph).run(new, {x: 2.9, i: 3})
    assert [int(array) for array in got] == [2, 1, 3]


def test_fault_25_numbers_are_not_rounded_twice_on_their_way() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.float64(0), name="v")
        n = gx.variable(np.uint64(0), name="n")
        new = [v.assign(0.1), n.assign(2**64 - 1)]
    got = gx.Session(graph).run(new)
    assert got[0] == 0.1 and int(got[1]) == 2**64 - 1


# --- groups and dependencies ---------------------------------------------------------------------


def test_groups_are_fetched_by_name() -> None:
    with gx.Graph() as graph:
        v = scalar(1)
        gx.group(v.assign_add(1.0), name="train")
        y = v * 10.0
    session = gx.Session(graph)
    for run in range(1, 5):
        result = session.run({"step": "train", "y": y})
        assert result["step"] is None and result["y"] == 10 * run
    assert session.compile("train")() is None
    with graph:
        gx.group(v.assign_add(2.0), name="train")
    lines = r"2 values or effects are called 'train'.*test_state\.py.*test_state\.py"
    with pytest.raises(gx.NameLookupError, match=lines):
        session.run("train")
    with pytest.raises(gx.NameLookupError, match="no value is called 'train'"):
        session.run(y, {"train": 1.0})
    with pytest.raises(gx.NameLookupError, match="known names are 'train', 'v'"):
        session.run("trian")


def test_groups_nest_and_have_structure() -> None:
    with gx.Graph() as graph:
        v, w = scalar(0, "v"), scalar(0, "w")
        inner = gx.group(v.assign_add(1.0))
        outer = gx.group({"a": [inner, (w.assign_add(2.0),)]}, inner)
        empty = gx.group()
    session = gx.Session(graph)
    assert session.run([outer, empty]) == [None, None]
    assert session.get([v, w]) == [1, 2]
    assert session.run(empty) is None
    for wrong in (3, None, "v"):
        with pytest.raises(gx.GraphError, match="neither a value nor an effect"):
            gx.group(wrong)


def test_control_dependencies() -> None:
    with gx.Graph() as graph:
        v, w = scalar(0, "v"), scalar(0, "w")
        x = gx.placeholder((), name="x")
        outside = x * 2.0
        with gx.control_dependencies([gx.group(v.assign_add(1.0))]):
            inside = x * 3.0
            with gx.control_dependencies([w.assign_add(1.0), outside]):
                both = x * 4.0
            again = inside + outside
        after = x * 5.0
    session = gx.Session(graph)

    def effect(fetch: Any, expected: float) -> list[float]:
        before = session.get([v, w])
        assert session.run(fetch, {x: 1}) == expected
        return [float(b - a) for a, b in zip(before, session.get([v, w]), strict=True)]

    assert effect(outside, 2) == [0, 0]
    assert effect(inside, 3) == [1, 0]
    assert effect(both, 4) == [1, 1]
    assert effect(again, 5) == [1, 0]
    assert effect(after, 5) == [0, 0]
    assert effect(w.read(), 2) == [1, 1], "the write of w stands under that of v"


def test_a_failing_block_ends_its_dependencies() -> None:
    with gx.Graph() as graph:
        v = scalar()
        x = gx.placeholder((), name="x")
        with pytest.raises(ZeroDivisionError), gx.control_dependencies([v.assign_add(1.0)]):
            raise ZeroDivisionError
        y = x * 2.0
    session = gx.Session(graph)
    session.run(y, {x: 1})
    assert session.get(v) == 0


def test_dependencies_are_of_the_graph_not_of_the_place() -> None:
    with gx.Graph() as graph:
        v = scalar()
        x = gx.placeholder((), name="x")
    with gx.control_dependencies([v.assign_add(1.0)]):
        y = x * 2.0
    session = gx.Session(graph)
    assert session.run(y, {x: 3}) == 6 and session.get(v) == 1


def test_variables_that_nothing_reads() -> None:
    with gx.Graph() as graph:
        v, unused = scalar(0, "v"), gx.variable(np.zeros(1000), name="unused")
        gx.placeholder((None,), name="loose")
        only_written = unused.assign(gx.zeros((1000,), "float64") + 3.0)
        y = v + 1.0
    session = gx.Session(graph)
    executable = session.compile([y, only_written])
    assert "loose" not in [value.name for value in executable.source.inputs]
    assert executable()[0] == 1
    assert session.get(unused)[0] == 3


def test_training_by_hand_falls() -> None:
    rng = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), name="x")
        t = gx.placeholder((None,), name="t")
        w = gx.variable(np.zeros(3, np.float32), name="w")
        loss = ((x @ w - t) ** 2).mean()
        step = gx.group(w.assign_sub(gx.gradients(loss, w) * 0.1))
    session = gx.Session(graph)
    samples = rng.normal(size=(64, 3))
    goal = samples @ np.array([1.0, -2.0, 0.5])
    losses = [float(session.run([loss, step], {x: samples, t: goal})[0]) for _ in range(60)]
    assert losses[-1] < 1e-4 * losses[0]
    np.testing.assert_allclose(session.get(w), [1, -2, 0.5], atol=0.05)
