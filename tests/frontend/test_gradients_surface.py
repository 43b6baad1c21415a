"""``gx.gradients`` and ``gx.jvp`` as users meet them: structure, missing paths, regions, errors."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest
from gradient_harness import close, run, scalars

import graphc as gx
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.builder import apply_node
from graphc.ir.graph import Graph
from graphc.ir.op import NotDifferentiable, lookup
from passes.autodiff.reverse import reverse

pytestmark = pytest.mark.check_mode


@pytest.fixture(autouse=True)
def graph() -> Any:
    with gx.Graph() as current:
        yield current


# --- discrete paths, no path, stop_gradient ------------------------------------------------------


def test_discrete_paths_give_zeros() -> None:
    x = gx.placeholder((3,), "float64")
    losses = [
        x.astype("int32").astype("float64"),
        x * gx.argmax(x),
        gx.where(x > 1, 2.0, 3.0),
        gx.floor(x),
    ]
    got = run([gx.gradients(gx.sum(loss), x) for loss in losses], {x: [0.2, 5.7, 1.1]})
    close(got, [np.zeros(3), np.ones(3), np.zeros(3), np.zeros(3)])
    close(run(gx.jvp(losses[0], x, 1.0), {x: [0.2, 5.7, 1.1]}), np.zeros(3))


def test_no_path_raises_and_names_the_value() -> None:
    x = gx.placeholder((2,), "float64", name="x")
    unused = gx.placeholder((2, 3), "float32", name="unused")
    with pytest.raises(gx.GradientError, match="'unused'") as caught:
        gx.gradients(gx.sum(x * x), [x, unused])
    assert 'unconnected="zeros"' in str(caught.value)
    assert caught.value.where is not None and caught.value.where.filename == __file__


def test_failed_call_adds_nothing(graph: Any) -> None:
    x, unused = scalars("xu")
    y = x * x
    before = len(graph.nodes)
    with pytest.raises(gx.GradientError):
        gx.gradients(y, [x, unused])
    assert len(graph.nodes) == before


def test_no_path_gives_zeros_if_asked() -> None:
    x, unused = gx.placeholder((2,), "float64"), gx.placeholder((None, 3), "float32")
    by_x, by_unused = gx.gradients(gx.sum(x * x), [x, unused], unconnected="zeros")
    assert by_unused.type == unused.type
    got = run([by_x, by_unused], {x: [1, 2], unused: np.ones((2, 3))})
    close(got, [np.array([2.0, 4]), np.zeros((2, 3), np.float32)])
    assert got[1].dtype == np.float32


def test_stop_gradient_cuts() -> None:
    x, y = scalars("xy")
    loss = x * gx.stop_gradient(x * y) + y
    assert run(gx.gradients(loss, [x, y]), {x: 3, y: 5}) == [15, 1]
    assert run(gx.gradients(gx.stop_gradient(x), x), {x: 3}) == 0
    assert run(gx.jvp(loss, [x, y], [1.0, 1.0]), {x: 3, y: 5}) == 16


# --- structure, weights, intermediate values -----------------------------------------------------


def test_structure_of_xs_comes_back() -> None:
    x, y, w = scalars("xyw")
    loss = x * y * w
    got = gx.gradients(loss, {"a": [x, (y,)], "b": w})
    assert isinstance(got["a"], list) and isinstance(got["a"][1], tuple)
    assert run(got, {x: 2, y: 3, w: 4}) == {"a": [12, (8,)], "b": 6}
    assert gx.gradients(loss, []) == []


def test_several_ys_are_summed_and_weighed() -> None:
    x = gx.placeholder((2,), "float64")
    s = gx.sum(x)
    ys = {"square": x * x, "rest": [s, 3.0 * x]}
    fed = {x: [1, 2]}
    close(run(gx.gradients(ys, x), fed), np.array([6.0, 8.0]))
    weighed = gx.gradients(ys, x, {"square": np.array([1.0, 10]), "rest": [2.0, None]})
    close(run(weighed, fed), np.array([2.0 + 2 + 3, 40.0 + 2 + 3]))
    close(run(gx.gradients([s, s], x), fed), np.array([2.0, 2.0]))


def test_by_intermediate_values_and_by_itself() -> None:
    x, g = scalars("xg")
    h = x * x
    y = h * h
    assert run(gx.gradients(y, [x, h, y]), {x: 2}) == [32, 8, 1]
    assert run(gx.gradients(y, [y, x, x], g), {x: 2, g: 3}) == [3, 96, 96]
    assert run(gx.jvp([y, h, x], [x, x], [1.0, 2.0]), {x: 2}) == [96, 12, 3]
    assert run(gx.jvp(y, [x, h], [1.0, 1.0]), {x: 2}) == (2 * 2 + 1) * 2 * 4


def test_by_a_variable() -> None:
    w = gx.variable(np.array([1.0, 2.0]), name="w")
    x = gx.placeholder((2,), "float64")
    by_w = gx.gradients(gx.sum(gx.exp(w) * x), w)
    close(run(by_w, {x: [3, 4]}), np.exp([1.0, 2.0]) * [3, 4])


def test_dtype_of_the_value_is_kept() -> None:
    x = gx.placeholder((2,), "float32")
    y = gx.sum(x.astype("float64") ** 2)
    by_x = gx.gradients(y, x)
    assert by_x.dtype is x.dtype
    np.testing.assert_array_equal(run(by_x, {x: [1, 2]}), np.array([2, 4], np.float32))


def test_nodes_know_the_line_they_come_from(graph: Any) -> None:
    x, y = scalars("xy")
    loss = gx.sin(x) * y
    line = inspect.currentframe().f_lineno - 1
    before = len(graph.nodes)
    gx.gradients(loss, x)
    made = graph.nodes[before:]
    assert {node.provenance.where.line for node in made} == {line}
    causes = {node.provenance.cause for node in made}
    assert causes == {"gradient of sin", "gradient of multiply"}


def test_reverse_keeps_the_graph_it_is_given() -> None:
    x, y = scalars("xy")
    loss = x * y
    graph = extract(loss.graph, [loss]).graph
    grown, (by_x, by_loss) = reverse(graph, [loss], [x, loss], [None])
    assert grown.nodes[: len(graph.nodes)] == graph.nodes
    assert evaluate(Graph("g", grown.inputs, grown.nodes, [by_x, by_loss]), [3.0, 5.0]) == (5, 1)
    assert reverse(graph, [x], [y], [None])[1] == [None]


# --- inside branches and loops -------------------------------------------------------------------


def test_gradients_inside_a_branch() -> None:
    x, w = scalars("xw")
    h = gx.exp(x) * w

    def branch() -> Any:
        inner = x * x
        return gx.gradients(inner * x * gx.log(h), [x, h, inner])

    def other() -> Any:
        return gx.gradients(h, [x, w, h])

    results = gx.cond(w > 0, branch, other)
    a, b = 2.0, 3.0
    outer = math.exp(a) * b
    taken = [3 * a**2 * math.log(outer) + a**3, a**3 / outer, a * math.log(outer)]
    close(run(results, {x: a, w: b}), taken)
    close(run(results, {x: a, w: -b}), [-outer, math.exp(a), 1.0])


def test_newton_iteration_in_a_loop() -> None:
    (target,) = scalars("t")

    def body(i: Any, x: Any) -> Any:
        residual = x**3 - target
        return i + 1, x - residual / gx.gradients(residual, x)

    start = gx.constant(2.0, "float64")
    _, root = gx.while_loop(lambda i, x: i < 8, body, (gx.constant(0), start))
    close(run(root, {target: 5}), 5 ** (1 / 3))


# --- errors --------------------------------------------------------------------------------------


def test_integers_are_refused() -> None:
    x, n = gx.placeholder((), "float64"), gx.placeholder((), "int64", name="n")
    for call in (
        lambda: gx.gradients(x * n, n),
        lambda: gx.gradients(n, x),
        lambda: gx.jvp(x * n, n, 1),
        lambda: gx.gradients(x, [x, 3.0]),
    ):
        with pytest.raises(gx.DTypeError):
            call()


def test_an_op_without_derivative_is_named_inside_control_flow() -> None:
    x = gx.placeholder((), "float64")

    def blocked(value: gx.Value) -> gx.Value:
        return gx.nextafter(value, 1.0)

    line = inspect.currentframe().f_lineno - 2
    chosen = gx.cond(x > 0, lambda: blocked(x), lambda: x)
    last = gx.while_loop(lambda v: v < 100.0, lambda v: blocked(v) * 2.0, x)
    for y in (chosen, last):
        for call in (lambda y=y: gx.gradients(y, x), lambda y=y: gx.jvp(y, x, 1.0)):
            with pytest.raises(gx.GradientError, match="nextafter has no derivative") as caught:
                call()
            assert caught.value.where.line == line


def test_control_flow_off_the_path_does_not_matter() -> None:
    x, p = scalars("xp")
    chosen = gx.cond(p > 0, lambda: p * 2.0, lambda: p)
    picked = gx.cond(x > 0, lambda: gx.constant(1), lambda: gx.constant(2))
    assert run(gx.gradients(x * chosen * picked, x), {x: 3, p: 4}) == 8


def test_op_without_derivative_says_why() -> None:
    x = gx.placeholder((), "float64")
    blocked = dataclasses.replace(
        lookup("sin"), name="blocked", derivative=NotDifferentiable("made for tests")
    )
    y = apply_node(blocked, [x], {}).output
    with pytest.raises(gx.GradientError, match="blocked has no derivative: made for tests"):
        gx.gradients(y * x, x)
    assert run(gx.gradients(gx.stop_gradient(y) * 2.0 + x, x), {x: 1}) == 1


def test_values_of_another_graph() -> None:
    x = gx.placeholder((), "float64")
    with gx.Graph():
        other = gx.placeholder((), "float64", name="other")
    with pytest.raises(gx.GraphError, match="another graph"):
        gx.gradients(x * x, other)


@pytest.mark.parametrize("weights", [[1.0], {"a": 1.0}, 1.0, [1.0, [2.0, 3.0, 4.0]]])
def test_weights_of_another_structure(weights: Any) -> None:
    x, y = scalars("xy")
    with pytest.raises(gx.GradientError, match="grad_ys has not the structure"):
        gx.gradients([x, [y, x]], x, weights)


def test_weights_of_another_type() -> None:
    x = gx.placeholder((2,), "float64")
    with pytest.raises(gx.DTypeError, match="float32"):
        gx.gradients(x, x, np.ones(2, np.float32))
    with pytest.raises(gx.ShapeError):
        gx.gradients(x, x, np.ones(3))
    with pytest.raises(gx.GraphError, match="unconnected"):
        gx.gradients(x, x, unconnected="ignore")
