"""Sessions: fetches, feeds, names, and variables."""

from __future__ import annotations

import pickle
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from session_harness import counter, small

import graphc as gx

pytestmark = pytest.mark.check_mode

Pair = namedtuple("Pair", ["first", "second"])


# --- fetches -------------------------------------------------------------------------------------


def test_structures_come_back_as_given() -> None:
    graph, x, y, z = small()
    session = gx.Session(graph)
    fetches = {"a": [x, (z, y)], "b": Pair(z, "x"), "c": OrderedDict(k=z), "d": [], "e": {}}
    got = session.run(fetches, {x: [1, 2, 3], y: [10, 20, 30]})
    assert list(got) == ["a", "b", "c", "d", "e"]
    assert isinstance(got["a"][1], tuple) and isinstance(got["b"], Pair)
    assert isinstance(got["c"], OrderedDict) and got["d"] == [] and got["e"] == {}
    np.testing.assert_array_equal(got["a"][1][0], [11, 22, 33])
    np.testing.assert_array_equal(got["b"].second, [1, 2, 3])


def test_results_are_fresh_writable_packed_and_independent() -> None:
    graph, x, y, z = small()
    session = gx.Session(graph)
    fed = np.array([1, 2, 3], np.float32)
    got = session.run([z, z, x, x, y], {x: fed, y: fed})
    again = session.run(z, {x: fed, y: fed})
    arrays = [*got, again]
    for position, array in enumerate(arrays):
        assert array.flags.writeable and array.flags.c_contiguous and array.flags.owndata
        assert not np.shares_memory(array, fed)
        for other in arrays[position + 1 :]:
            assert not np.shares_memory(array, other)
    got[0][:] = -1
    np.testing.assert_array_equal(got[1], [2, 4, 6])


def test_constants_and_variables_that_are_fetched_are_copies() -> None:
    with gx.Graph() as graph:
        c = gx.constant(np.arange(3.0))
        v = gx.variable(np.arange(3.0))
    session = gx.Session(graph)
    for value in (c, v):
        session.run(value)[:] = 7
        np.testing.assert_array_equal(session.run(value), [0, 1, 2])
    session.get(v)[:] = 7
    np.testing.assert_array_equal(session.get(v), [0, 1, 2])


def test_scalars_come_as_arrays() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), "float64", name="x")
        y = x * 2.0
    got = gx.Session(graph).run(y, {x: 1.5})
    assert isinstance(got, np.ndarray) and got.shape == () and got.dtype == np.float64


def test_effects_give_none_and_run() -> None:
    session, v, step = counter()
    with session.graph:
        effect = gx.group(step)
    assert session.run(effect) is None
    assert session.run([effect, {"v": v}])[0] is None
    np.testing.assert_array_equal(session.get(v), [2, 2, 2])


def test_only_what_is_fetched_runs() -> None:
    session, v, step = counter()
    session.run(v)
    session.run(step, {})
    session.run(v)
    np.testing.assert_array_equal(session.get(v), [1, 1, 1])


def test_three_hundred_outputs() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        values, last = [], x
        for _ in range(300):
            last = last + x
            values.append(last)
    got = gx.Session(graph).run(values, {x: [1, 2]})
    for position, array in enumerate(got):
        np.testing.assert_array_equal(array, [position + 2, 2 * position + 4])


@pytest.mark.parametrize("wrong", [None, 3, 1.5, object(), [None], {"a": 2}])
def test_what_cannot_be_fetched(wrong: Any) -> None:
    graph, x, y, z = small()
    session = gx.Session(graph)
    with pytest.raises(gx.GraphError, match="cannot be fetched"):
        session.run(wrong, {x: [0, 0, 0]})
    assert session.run(z, {x: [1, 1, 1], y: [1, 1, 1]})[0] == 2


# --- names ---------------------------------------------------------------------------------------


def test_names_look_up_fetches_and_feeds() -> None:
    graph, *_ = small()
    np.testing.assert_array_equal(gx.Session(graph).run("x", {"x": [1, 2, 3]}), [1, 2, 3])


@pytest.mark.parametrize("name", ["", "π", 'a "quoted"\nline', "%0", "a b", "{}", "\x00"])
def test_any_string_is_a_name(name: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name=name)
        y = gx.exp(x) + 1.0
    session = gx.Session(graph)
    session.run(y, {name: [0, 0]})
    executable = session.compile(y)
    assert str(executable.source) and str(executable.graph) and executable.llvm_ir()


def test_unknown_and_ambiguous_names() -> None:
    with gx.Graph() as graph:
        gx.placeholder((2,), name="twice")
        gx.placeholder((2,), name="twice")
        gx.placeholder((2,), name="once")
    session = gx.Session(graph)
    with pytest.raises(gx.NameLookupError, match="once"):
        session.run("nothing")
    with pytest.raises(gx.NameLookupError, match=r"test_session\.py.*test_session\.py"):
        session.run("twice")
    with pytest.raises(KeyError):
        session.run("once", {"nothing": [1, 2]})


def test_names_given_later_are_found() -> None:
    graph, x, y, z = small()
    session = gx.Session(graph)
    feeds = {"x": [1, 2, 3], "y": [1, 1, 1]}
    z.name = "h"
    for _ in range(4):
        np.testing.assert_array_equal(session.run("h", feeds), [2, 3, 4])
    z.name, y.name = None, "h"
    for _ in range(4):
        np.testing.assert_array_equal(session.run("h", {"h": [5, 6, 7]}), [5, 6, 7])
    with pytest.raises(gx.NameLookupError, match="no value is called 'y'"):
        session.run(z, feeds)
    x.name = "h"
    with pytest.raises(gx.NameLookupError, match="2 values are called 'h'"):
        session.run("h", {x: [1, 2, 3]})
    y.name = "y"
    again = pickle.loads(pickle.dumps(session))
    np.testing.assert_array_equal(again.run("h", {"h": [1, 2, 3]}), [1, 2, 3])


@pytest.mark.parametrize("name", [3, b"x", ("x",)])
def test_names_are_text(name: Any) -> None:
    with gx.Graph():
        with pytest.raises(gx.GraphError, match="is no name") as caught:
            gx.placeholder((2,), name=name)
        x = gx.placeholder((2,), name="x")
        with pytest.raises(gx.GraphError, match="is no name"):
            x.name = name
    assert caught.value.where is not None and x.name == "x"


# --- feeds ---------------------------------------------------------------------------------------


def test_missing_feed_names_the_placeholder() -> None:
    graph, x, _, z = small()
    session = gx.Session(graph)
    with pytest.raises(gx.FeedError, match=r"placeholder y of type float32\[3\]"):
        session.run(z, {x: [1, 2, 3]})
    with pytest.raises(gx.FeedError, match="placeholder y"):
        session.compile(z, [x])
    with pytest.raises(ValueError):
        session.run(z)


def test_feeds_that_are_not_needed_are_accepted() -> None:
    graph, x, y, _ = small()
    np.testing.assert_array_equal(
        gx.Session(graph).run(x, {x: [1, 2, 3], y: "of no matter"}), [1, 2, 3]
    )


def test_intermediate_values_can_be_fed_fetched_and_both() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        y = x * 2.0
        z = y + 1.0
        w = z * y
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(z, {y: [5, 6]}), [6, 7])
    got = session.run([y, z, w, x], {y: [5, 6], x: [0, 0]})
    np.testing.assert_array_equal(got, [[5, 6], [6, 7], [30, 42], [0, 0]])
    np.testing.assert_array_equal(session.run(w, {z: [1, 1], x: [1, 2]}), [2, 4])


def test_one_of_several_results_of_a_node_can_be_fed() -> None:
    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        x = gx.placeholder((3,), name="x")
        a, b = gx.cond(p, lambda: (x + 1.0, x + 2.0), lambda: (x * 2.0, x * 3.0))
        c = a + 1.0
    feeds = {p: True, x: [1, 2, 3]}
    session = gx.Session(graph)
    got = session.run([c, b, a], {**feeds, a: [10, 10, 10]})
    np.testing.assert_array_equal(got, [[11] * 3, [3, 4, 5], [10] * 3])
    got = session.run([c, b], {**feeds, b: [10, 10, 10]})
    np.testing.assert_array_equal(got, [[3, 4, 5], [10] * 3])


def test_a_fed_value_of_derived_size_needs_the_size() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n",), name="x")
        y = gx.concatenate([x, x])
        z = y + 1.0
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(z, {y: [1, 2, 3, 4], x: [0, 0]}), [2, 3, 4, 5])
    with pytest.raises(gx.FeedError, match="placeholder x"):
        session.run(y, {y: [1, 2, 3, 4]})
    with pytest.raises(gx.ShapeError):
        session.run(z, {y: [1, 2, 3], x: [0, 0]})


def test_feeding_a_variable_lasts_one_run() -> None:
    session, v, step = counter()
    np.testing.assert_array_equal(session.run(v, {v: [5, 5, 5]}), [5, 5, 5])
    np.testing.assert_array_equal(session.get(v), [0, 0, 0])
    np.testing.assert_array_equal(session.run(step, {v: [5, 5, 5]}), [6, 6, 6])
    np.testing.assert_array_equal(session.get(v), [6, 6, 6])


def test_feeds_by_value_and_by_name_are_one() -> None:
    graph, x, y, z = small()
    session = gx.Session(graph)
    with pytest.raises(gx.FeedError, match="fed twice"):
        session.run(z, {x: [1, 2, 3], "x": [1, 2, 3], y: [0, 0, 0]})
    with pytest.raises(gx.FeedError, match="by value or name"):
        session.run(z, {3: [1, 2, 3]})


def test_equal_names_of_dims_are_checked_naming_both_feeds() -> None:
    with gx.Graph() as graph:
        a = gx.placeholder(("n", 2), name="left")
        b = gx.placeholder(("n",), name="right")
        c = a.sum() + b.sum()
    session = gx.Session(graph)
    with pytest.raises(gx.ShapeError, match=r"left.*right"):
        session.run(c, {a: np.zeros((3, 2)), b: np.zeros(4)})
    assert session.run(c, {a: np.ones((3, 2)), b: np.ones(3)}) == 9


def test_values_of_another_graph() -> None:
    graph, x, y, z = small()
    _, other, _, _ = small()
    session = gx.Session(graph)
    for attempt in (
        lambda: session.run(other, {}),
        lambda: session.run(z, {x: [1, 2, 3], other: [1, 2, 3]}),
        lambda: session.run(gx.group(other)),
        lambda: session.compile(z, [x, other]),
        lambda: session.get(other),
        lambda: session.set({other: [1, 2, 3]}),
        lambda: x + other,
        lambda: gx.gradients(z.sum(), other),
    ):
        with pytest.raises(gx.GraphError):
            attempt()
    assert session.run(z, {x: [1, 1, 1], y: [1, 1, 1]})[0] == 2


# --- compile -------------------------------------------------------------------------------------


def test_compile_takes_feeds_in_the_order_given() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        unused = gx.placeholder((2,), name="unused")
        y = gx.placeholder((2,), name="y")
        z = x - y
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.compile(z)([5, 5], [1, 2]), [4, 3])
    np.testing.assert_array_equal(session.compile(z, [y, x])([5, 5], [1, 2]), [-4, -3])
    with_unused = session.compile({"z": z}, ["y", unused, "x"])
    np.testing.assert_array_equal(with_unused([5, 5], None, [1, 2])["z"], [-4, -3])
    with pytest.raises(gx.FeedError, match="1 argument for 2 feeds"):
        session.compile(z)([1, 2])
    with pytest.raises(gx.FeedError, match=r"argument 0 is a dict.* \(x, y\)") as caught:
        session.compile(z)({x: [5, 5], y: [1, 2]})
    assert "session.run" in (caught.value.hint or "")
    np.testing.assert_array_equal(session.compile(z * 2.0, [z])([1, 2]), [2, 4])


def test_programs_are_compiled_once() -> None:
    graph, x, y, z = small()
    session = gx.Session(graph)
    for size in range(3):
        session.run([z, {"again": z}], {x: [size] * 3, y: [1] * 3})
        session.run([z, (z,)], {"x": [size] * 3, "y": [1] * 3})
        session.compile([z, z])
    assert session.compile_count == 1
    session.run(z, {x: [1] * 3, y: [1] * 3})
    assert session.compile_count == 2


def test_symbolic_sizes_compile_once() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", None))
        y = gx.nn.softmax(x) @ x.T
    session = gx.Session(graph)
    for shape in [(3, 4), (1, 1), (7, 2), (0, 3), (40, 40)]:
        assert session.run(y, {x: np.ones(shape)}).shape == (shape[0], shape[0])
    assert session.compile_count == 1


# --- errors leave everything as it was -----------------------------------------------------------


def test_a_failing_index_after_an_assignment_leaves_the_variables() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros(3, np.float32), name="v")
        w = gx.variable(np.ones(2, np.float32), name="w")
        x = gx.placeholder((5,), name="x")
        indices = gx.placeholder((2,), "int64", name="indices")
        writes = [v.assign_add(1.0), w.assign_add(v.read()[:2])]
        with gx.control_dependencies(writes):
            y = gx.take(x, indices)
    session = gx.Session(graph)
    good = {x: range(5), indices: [0, -5]}
    for count in range(1, 6):
        np.testing.assert_array_equal(session.run(y, good), [0, 0])
        before = session.get([v, w])
        for bad in ([0, 5], [-6, 0], [2**62, 0]):
            with pytest.raises(gx.IndexRangeError, match="out of range for axis 0 of size 5"):
                session.run(y, {x: range(5), indices: bad})
        after = session.get([v, w])
        np.testing.assert_array_equal(before[0], [count] * 3)
        np.testing.assert_array_equal(before[0], after[0])
        np.testing.assert_array_equal(before[1], after[1])


def test_a_bad_feed_leaves_the_session_usable() -> None:
    session, v, step = counter()
    with pytest.raises(gx.FeedError):
        session.run(step, {v: [1, 2]})
    with pytest.raises(gx.FeedError):
        session.set({v: "text"})
    np.testing.assert_array_equal(session.run(step), [1, 1, 1])


# --- variables -----------------------------------------------------------------------------------


def test_set_and_get() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros(2, np.float32), name="v")
        w = gx.variable(1, name="w")
        y = v * 1.0
    session = gx.Session(graph)
    given = np.array([1, 2], np.float32)
    session.set({v: given, "w": np.uint8(7)})
    given[:] = 9
    got = session.get({"v": v, "both": [w, "v"]})
    np.testing.assert_array_equal(got["v"], [1, 2])
    assert got["both"][0] == 7 and got["both"][0].dtype == np.int64
    with pytest.raises(gx.FeedError):
        session.set({w: 3, v: [1, 2, 3]})
    assert session.get(w) == 7, "all or none"
    with pytest.raises(gx.GraphError, match="not a variable"):
        session.set({y: [1, 2]})
    with pytest.raises(gx.GraphError, match="not a variable"):
        session.get(y)


def test_sessions_share_no_state() -> None:
    one, v, step = counter()
    other = gx.Session(one.graph)
    one.run(step)
    np.testing.assert_array_equal(one.get(v), [1, 1, 1])
    np.testing.assert_array_equal(other.get(v), [0, 0, 0])


def test_entering_a_session_enters_its_graph() -> None:
    graph, *_ = small()
    with gx.Session(graph) as session:
        late = gx.placeholder((2,), name="late")
        with pytest.raises(ZeroDivisionError), gx.Session(gx.Graph()):
            raise ZeroDivisionError
        assert gx.constant(1.0).graph is graph
    assert late.graph is graph and gx.constant(1.0).graph is not graph
    assert session.run(late, {late: [1, 2]})[1] == 2
