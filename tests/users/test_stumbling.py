"""What newcomers stumble over when they build: each error tells how to mend it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
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


# --- control flow --------------------------------------------------------------------------------


def test_loop_variable_of_another_shape(graph: Any) -> None:
    u = gx.placeholder((5,), name="u")
    error = raised(
        gx.ShapeError,
        lambda: gx.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a[1:]), (0, u)),
    )
    assert error.message == (
        "loop variable 1 (u) starts as float32[5] but the body gives float32[4]"
    )
    assert "u.at[i].set(row)" in hint_of(error)
    assert error.node is not None and error.node.startswith("while(") and "<" not in error.node

    error = raised(
        gx.ShapeError, lambda: gx.while_loop(lambda a: gx.all(a < 3), lambda a: a[1:], [u * 2])
    )
    assert "x.at[i].set(row), where x is loop variable 0" in hint_of(error)


def test_loop_variable_of_a_long_shape_is_shortened(graph: Any) -> None:
    u = gx.placeholder(("rows", "columns", "channels"), name="u")
    long = gx.concatenate([gx.ravel(u[1:, 2:, 3:]), gx.ravel(u[4:, 5:])])
    assert len(str(long.type)) > 80
    error = raised(
        gx.ShapeError,
        lambda: gx.while_loop(lambda a: gx.all(a < 3), lambda a: long, [gx.ravel(u)]),
    )
    assert " … " in error.message and len(error.message) < 200


def test_loop_variable_of_another_dtype(graph: Any) -> None:
    error = raised(
        gx.DTypeError,
        lambda: gx.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 0.5), (0, np.int64(1))),
    )
    assert "loop variable 1 starts as int64[] but the body gives float" in error.message
    assert ".astype(x.dtype), where x is loop variable 1" in hint_of(error)


def test_branches_do_not_print_their_graphs(graph: Any) -> None:
    flag, u = gx.placeholder((), "bool"), gx.placeholder((3,))
    error = raised(gx.ShapeError, lambda: gx.cond(flag, lambda: u, lambda: u[1:]))
    assert error.node is not None and error.node.startswith("cond(") and "Graph" not in error.node


# --- losses --------------------------------------------------------------------------------------


def test_mse_does_not_broadcast(graph: Any) -> None:
    prediction = gx.placeholder(("batch", 1), name="prediction")
    target = gx.placeholder(("batch",), name="target")
    error = raised(gx.ShapeError, lambda: gx.nn.mse(prediction, target))
    assert "float32[batch, 1]" in error.message and "float32[batch]" in error.message
    assert "target.reshape(prediction.shape)" in hint_of(error)
    gx.nn.mse(prediction, target.reshape(prediction.shape))

    three, four = gx.placeholder((3,)), gx.placeholder((4,))
    assert "reshape" in hint_of(raised(gx.ShapeError, lambda: gx.nn.mse(three, four)))
    assert "reshape" in hint_of(raised(gx.ShapeError, lambda: gx.nn.mse(three, 0.0)))


def test_mse_checks_unknown_dims_when_it_runs(graph: Any) -> None:
    prediction, target = (gx.placeholder((None,), "float64") for _ in range(2))
    loss = gx.nn.mse(prediction, target)
    slope = gx.gradients(loss, prediction)
    session = gx.Session(graph)
    feeds = {prediction: [1.0, 2.0, 3.0], target: [1.0, 4.0, 3.0]}
    value, gradient = session.run([loss, slope], feeds)
    assert value == pytest.approx(4 / 3)
    np.testing.assert_allclose(gradient, [0, -4 / 3, 0])
    raised(gx.ShapeError, lambda: session.run(loss, {**feeds, target: [1.0]}))


def test_a_loss_to_minimise_is_a_scalar(graph: Any) -> None:
    w = gx.variable(np.ones(3), name="w")
    error = raised(gx.ShapeError, lambda: gx.optim.SGD(0.1).minimize(w * w))
    assert "float64[3]" in error.message and ".mean()" in hint_of(error)


# --- building ------------------------------------------------------------------------------------


def test_a_value_of_another_graph_says_where_it_was_built() -> None:
    with gx.Graph("first"):
        z = gx.placeholder((3,), name="z")
    with gx.Graph("second") as second:
        y = gx.placeholder((3,), name="y")
    for call in (lambda: y + z, lambda: gx.gradients(gx.sum(y), z)):
        message = raised(gx.GraphError, call).message
        assert "value z belongs to another graph" in message or "'z'" in message
        assert "graph 'first', built at " in message and HERE in message
        assert "graph 'second'" in message
    message = raised(gx.GraphError, lambda: gx.Session(second).run(z)).message
    assert "graph 'first', built at " in message and "graph 'second'" in message


def test_matmul_names_its_operands(graph: Any) -> None:
    x, w = gx.placeholder(("batch", 3), name="x"), gx.placeholder((4, 2), name="w")
    error = raised(gx.ShapeError, lambda: x @ w)
    assert error.node == "matmul(x: float32[batch, 3], w: float32[4, 2])"
    assert "last axis (3)" in hint_of(error) and "axis (4)" in hint_of(error)
    error = raised(gx.ShapeError, lambda: x @ np.ones(4, np.float32))
    assert error.node == "matmul(x: float32[batch, 3], float32[4])"
    a, b = gx.placeholder((2, 3, 3), name="a"), gx.placeholder((4, 3, 3), name="b")
    error = raised(gx.ShapeError, lambda: a @ b)
    assert error.node is not None and "a: float32[2, 3, 3]" in error.node
    assert "leading dims" in hint_of(error)
    error = raised(gx.ShapeError, lambda: x @ 2)
    assert error.node is not None and "multiply by a scalar with *" in hint_of(error)


def test_values_cannot_be_assigned_to(graph: Any) -> None:
    u = gx.placeholder((5,), name="u")

    def assign() -> None:
        u[1:-1] = 3

    def add() -> None:
        u[0] += 1

    for call in (assign, add):
        error = raised(gx.GraphcError, call)
        assert "immutable" in error.message
        assert "gx.concatenate" in hint_of(error) and "gx.where" in hint_of(error)


def test_values_have_no_number_to_format(graph: Any) -> None:
    y = gx.placeholder((), name="y")
    error = raised(gx.ConcreteValueError, lambda: f"{y:.3f}")
    assert "'.3f'" in error.message and "session.run" in hint_of(error)
    assert f"{y}" == str(y) == repr(y)
    assert str(y).startswith("<Value 'y' float32[] = placeholder at test_stumbling.py:")


def test_unknown_names_suggest_close_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'mes'.*gx\.mse"):
        _ = gx.mes
    with pytest.raises(AttributeError, match=r"did you mean gx\.placeholder"):
        _ = gx.placehodler
    with pytest.raises(AttributeError, match=r"gx\.softmax"):
        _ = gx.softmaxx
    with pytest.raises(AttributeError, match=r"no attribute 'qqqqqq'$"):
        _ = gx.qqqqqq
    with pytest.raises(AttributeError, match=r"gx\.optim\.Adam"):
        _ = gx.Adam
    assert not hasattr(gx, "nothing_of_that_kind")


def test_numpy_functions_are_named_in_full(graph: Any) -> None:
    x = gx.placeholder((3,), name="x")
    error = raised(gx.UnsupportedError, lambda: np.linalg.tensorinv(x))
    assert error.message.startswith("np.linalg.tensorinv of")
    error = raised(gx.UnsupportedError, lambda: np.fft.fft(x, 3, 0, None, None))
    assert error.message.startswith("np.fft.fft of a symbolic value: too many")
    assert "gx.fft.fft(" in hint_of(error)
    error = raised(gx.UnsupportedError, lambda: np.trim_zeros(x))
    assert error.message.startswith("np.trim_zeros of")
    stack = gx.placeholder((2, 3, 3))
    assert np.linalg.trace(stack).shape == (2,) and np.trace(stack).shape == (3,)


def test_numpy_functions_take_no_out(graph: Any) -> None:
    x = gx.placeholder((3,), name="x")
    room = np.empty(3, np.float32)
    calls = {"np.sum": lambda: np.sum(x, out=room), "np.add": lambda: np.add(x, x, out=room)}
    for name, call in calls.items():
        error = raised(gx.UnsupportedError, call)
        assert error.message.startswith(f"{name} of a symbolic value with out=")
        assert "leave out= away" in hint_of(error)
    assert np.sum(x, out=None).shape == ()


# --- faults 22 to 24 -----------------------------------------------------------------------------


@pytest.fixture
def fresh_default_graph() -> Iterator[None]:
    gx.reset_default_graph()
    yield
    gx.reset_default_graph()


@pytest.mark.usefixtures("fresh_default_graph")
def test_fault_22_what_is_built_outside_of_its_graph_says_where_to_build_it() -> None:
    with gx.Graph():
        y = gx.placeholder((3,), name="y")
    builds: list[Any] = [
        lambda: gx.zeros(3) + y, lambda: y + gx.zeros(3), lambda: gx.where(gx.ones(3) > 0, y, 0.0),
        lambda: gx.concatenate([y, gx.arange(3).astype("float32")]),
    ]  # fmt: skip
    for build in builds:
        error = raised(gx.GraphError, build)
        assert "belongs to another graph" in error.message
        assert "build all inside of one 'with graph:'" in hint_of(error)
    with gx.Graph():
        error = raised(gx.GraphError, lambda: gx.zeros(3) + y)
    assert hint_of(error) == "build all operands of an operation in one graph"


@pytest.mark.usefixtures("fresh_default_graph")
def test_fault_22_a_cell_that_runs_again_can_begin_anew() -> None:
    def cell() -> Any:
        x = gx.placeholder((2,), name="x")
        return x, x * gx.variable(2.0, name="w")

    old, result = cell()
    session = gx.Session()
    session.set({"w": 3.0})
    before = gx.default_graph()
    cell()
    error = raised(gx.NameLookupError, lambda: session.run(result, {"x": np.ones(2)}))
    assert error.message.startswith("2 values are called 'x', built at ")
    assert "begin anew, with gx.reset_default_graph()" in hint_of(error)
    gx.reset_default_graph()
    assert gx.default_graph() is not before and not gx.default_graph().nodes
    new, _ = cell()
    assert gx.Session().run("w") == 2
    # the old session goes on, and its graph can be built on
    np.testing.assert_array_equal(session.run(result + 1, {old: np.ones(2)}), [4, 4])
    assert (old * 2).graph is before and new.graph is gx.default_graph()
    with before:
        gx.reset_default_graph()
    with gx.default_graph():
        error = raised(gx.GraphError, lambda: gx.reset_default_graph())
        assert "leave its with block" in hint_of(error)


def test_fault_23_a_value_cannot_be_given_another_type(graph: Any) -> None:
    for value in (gx.placeholder((2,), name="x"), gx.variable(1.0), gx.zeros(3)):
        for name in ("type", "graph"):
            error = raised(gx.UnsupportedError, lambda v=value, n=name: setattr(v, n, None))
            assert error.message.startswith(f"the {name} of <Value")
            assert "astype" in hint_of(error)
        for name in ("shape", "dtype", "ndim", "size", "type", "graph"):
            with pytest.raises(AttributeError):
                delattr(value, name)
        assert value.type is not None and value.graph is graph
        value.name = "still"
        again = pickle.loads(pickle.dumps(value))
        assert again.type == value.type and again.name == "still"


def test_fault_23_a_pickled_variable_is_still_trained(graph: Any) -> None:
    w = gx.variable(1.0, name="w")
    gx.variable(1.0, name="fixed", trainable=False)
    again = pickle.loads(pickle.dumps(gx.Session(graph)))
    first, second = again.graph.variables
    assert (first.trainable, second.trainable) == (True, False)
    step = gx.optim.SGD(0.5).minimize(first * first)
    again.run(step)
    assert again.get(first) == 0 and gx.Session(graph).get(w) == 1


def model(inputs: str, initial: Any, **named: Any) -> Any:
    x = gx.placeholder((None, 2), inputs)
    return gx.sum(x.astype("float64") @ gx.variable(initial, name="w", **named).astype("float64"))


def test_fault_24_parameters_that_are_float64_by_accident_are_told_once(graph: Any) -> None:
    drawn = np.random.default_rng(0).normal(size=2)
    optimizer = gx.optim.SGD(0.1)
    with pytest.warns(gx.GraphcWarning, match="NumPy made 'w' float64") as caught:
        loss = model("float32", drawn)
        for _ in range(3):
            optimizer.minimize(loss)
    assert len(caught) == 3 and {one.filename for one in caught} == {__file__}
    assert "dtype='float32'" in str(caught[0].message)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            optimizer.minimize(loss)
    assert len(told) == 1


def test_fault_24_what_is_meant_is_not_warned_of(graph: Any) -> None:
    drawn = np.random.default_rng(0).normal(size=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in (
            model("float64", drawn),
            model("float32", drawn.astype("float32")),
            model("float32", drawn, dtype="float64"),
            model("float32", drawn, dtype="float32"),
            model("int64", drawn),
            model("float32", drawn) + gx.sum(gx.placeholder((2,), "float64")),
        ):
            gx.optim.Adam(0.1).minimize(loss)
        for loss in (gx.sum(gx.variable(drawn)), model("float32", drawn, trainable=False)):
            extra = gx.variable(1.0)
            gx.optim.SGD(0.1).minimize(loss * extra, [extra])
