"""Solutions of equations: derivatives by the implicit function theorem, of any order, anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import check

import graphc as gx

RANDOM = np.random.default_rng(5)
W = 0.2 * RANDOM.normal(size=(4, 4))
B = RANDOM.normal(size=4)


def layer(x: gx.Value, w: gx.Value, b: gx.Value) -> gx.Value:
    return gx.tanh(w @ x + b)


def iterated(w: gx.Value, b: gx.Value) -> gx.Value:
    """A fixed point, by an iteration that has no derivative."""
    start = gx.zeros_like(b)
    return gx.fori_loop(0, 60, lambda i, x: gx.stop_gradient(layer(x, w, b)), start)


def series(product: Any, right: Any) -> Any:
    """A linear system by the Neumann series, for fixed points."""
    return gx.fori_loop(0, 60, lambda i, u: u + (product(u) - right), gx.zeros_like(right))


def fixed_point(w: gx.Value, b: gx.Value, **options: Any) -> Any:
    return gx.implicit(lambda x, w, b: layer(x, w, b) - x, iterated, w, b, **options)


def known(w: gx.Value, b: gx.Value) -> tuple[gx.Value, gx.Value]:
    """The operands of a check, with sizes that are known."""
    return w.reshape((4, 4)), b.reshape((4,))


@pytest.mark.parametrize(
    "options",
    [{}, {"linear_solver": series}, {"sparsity": np.ones((4, 4), bool)}],
    ids=["dense", "series", "sparse"],
)
def test_fixed_points(options: Any) -> None:
    check(lambda w, b: (fixed_point(*known(w, b), **options) ** 2).sum(), W, B)


def test_roots_of_unknown_sizes_and_several_unknowns() -> None:
    """Newton's method, whose trips depend on data; no derivative could pass through rounding."""

    def residual(found: Any, parameters: Any) -> Any:
        x, (y,) = found["x"], found["y"]
        return {"x": x**3 + y - parameters["a"], "y": [y - 0.5 * x.sum() - parameters["b"]]}

    def solver(parameters: Any) -> Any:
        def turn(x: gx.Value, y: gx.Value) -> Any:
            x, y = x - 0.3 * (x**3 + y - parameters["a"]), 0.5 * x.sum() + parameters["b"]
            return gx.stop_gradient(x), gx.stop_gradient(y)

        def goes_on(x: gx.Value, y: gx.Value) -> gx.Value:
            return gx.max(gx.abs(x**3 + y - parameters["a"])) > 1e-14

        x, y = gx.while_loop(goes_on, turn, (gx.ones_like(parameters["a"]), parameters["b"]))
        return {"x": x, "y": [y]}

    def loss(a: gx.Value, b: gx.Value) -> gx.Value:
        found = gx.implicit(residual, solver, {"a": a, "b": b})
        return (found["x"] ** 2).sum() * gx.exp(found["y"][0])

    check(loss, np.array([1.5, 2.0, 1.0]), np.float64(-0.5))


def test_third_derivatives() -> None:
    with gx.Graph() as graph:
        a = gx.placeholder((), "float64", name="a")
        found = value = gx.implicit(
            lambda x, a: x * x - a,
            lambda a: gx.fori_loop(0, 9, lambda i, x: 0.5 * (x + a / x), gx.ones_like(a)),
            a,
        )
        pushed = gx.jvp(gx.jvp(gx.gradients(value, a), a, 1.0), a, 1.0)
        for _ in range(3):
            found = gx.gradients(found, a)
    slope, other = gx.Session(graph).run([found, pushed], {a: 4.0})
    np.testing.assert_allclose([slope, other], 0.375 * 4.0**-2.5, rtol=1e-13)


def test_within_loops_and_branches() -> None:
    def chained(w: gx.Value, b: gx.Value) -> gx.Value:
        w, b = known(w, b)

        def step(carry: gx.Value, _: None) -> Any:
            after = gx.cond(carry[0] > 0.0, lambda: fixed_point(w, carry), lambda: carry * 0.5)
            return after + 0.1, after.sum()

        last, sums = gx.scan(step, b, length=3)
        return last.sum() + (sums**2).sum()

    check(chained, W, np.abs(B), second=False)


def test_the_solver_is_not_differentiated() -> None:
    with gx.Graph() as graph:
        w, b = gx.placeholder((4, 4), "float64"), gx.placeholder((4,), "float64")
        y = (fixed_point(w, b) ** 2).sum()
        pulled = gx.gradients(y, [w, b])
        pushed = gx.jvp(y, b, gx.ones_like(b))
    executable = gx.Session(graph).compile([*pulled, pushed], [w, b])
    loops = [node for node in executable.graph.walk() if node.op.name == "while"]
    # the iteration, and two Jacobians of four rows
    assert len(loops) <= 3
    assert "custom_derivative" not in str(executable.graph)
    executable(W, B)


def test_elements_on_their_own_need_no_matrix() -> None:
    """A linear solver by division: the derivative of a million roots is as many divisions."""

    def divided(product: Any, right: Any) -> Any:
        return right / product(gx.ones_like(right))

    with gx.Graph() as graph:
        a = gx.placeholder(("n",), "float64")

        def newton(a: gx.Value) -> gx.Value:
            return gx.fori_loop(0, 30, lambda i, x: x - (x + gx.exp(x) - a) / (1 + gx.exp(x)), a)

        x = gx.implicit(lambda x, a: x + gx.exp(x) - a, newton, a, linear_solver=divided)
        slope = gx.gradients(x, a)
        bend = gx.gradients(slope, a)
    points = RANDOM.normal(size=1000)
    found, first, second = gx.Session(graph).run([x, slope, bend], {a: points})
    np.testing.assert_allclose(found + np.exp(found), points, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(first, 1 / (1 + np.exp(found)), rtol=1e-13)
    np.testing.assert_allclose(second, -np.exp(found) * first**3, rtol=1e-12)


def test_what_is_not_a_parameter_counts_as_constant() -> None:
    with gx.Graph() as graph:
        a, b = gx.placeholder((), "float64"), gx.placeholder((), "float64")
        x = gx.implicit(lambda x, a: x - a * b, lambda a: a * b, a)
        found = gx.gradients(x, [a, b], unconnected="zeros")
    np.testing.assert_array_equal(gx.Session(graph).run(found, {a: 2.0, b: 3.0}), [3, 0])


def test_a_singular_matrix_is_an_error_of_the_run() -> None:
    with gx.Graph() as graph:
        a = gx.placeholder((2,), "float64")
        x = gx.implicit(lambda x, a: (x - a) ** 2, lambda a: a * 1.0, a)
        slope = gx.gradients(x.sum(), a)
    with pytest.raises(gx.LinAlgError, match="singular") as caught:
        gx.Session(graph).run(slope, {a: [1.0, 2.0]})
    assert "x = gx.implicit(" in str(caught.value)


def test_mistakes() -> None:
    a = gx.placeholder((3,), "float64")
    z = gx.placeholder((3,), "complex128")

    def right(x: gx.Value, a: gx.Value) -> gx.Value:
        return x * x - a

    for arguments, options, error, match in (
        ((1, gx.sqrt, a), {}, gx.GraphError, "residual of implicit is 1, not a function"),
        ((right, 1, a), {}, gx.GraphError, "solver of implicit is 1, not a function"),
        ((right, gx.sqrt, a), {"linear_solver": 1}, gx.GraphError, "linear solver of implicit is"),
        ((right, gx.sqrt), {}, gx.GraphError, "no parameters"),
        ((right, gx.sqrt, a, a), {}, gx.GraphError, "solver of implicit is called with 2"),
        ((lambda x: x, gx.sqrt, a), {}, gx.GraphError, "residual of implicit is called with 2"),
        ((lambda x, a: x[:2], gx.sqrt, a), {}, gx.ShapeError, r"float64\[2\] for value 0"),
        ((lambda x, a: [x, a], gx.sqrt, a), {}, gx.ShapeError, "a list of 2 where one value"),
        ((lambda x, a: gx.floor(x).astype("int64"), gx.sqrt, a), {}, gx.DTypeError, "int64"),
        ((right, gx.argmax, a), {}, gx.DTypeError, "int64, which has no derivative"),
        ((right, gx.sqrt, gx.constant([1, 2])), {}, gx.DTypeError, "int64, which has no"),
        ((right, gx.sqrt, z), {}, gx.DTypeError, "hold a complex128"),
        ((right, lambda a: [a, a.astype("float32")], a), {}, gx.DTypeError, "float64, float32"),
        ((right, gx.sqrt, a), {"sparsity": np.eye(2, dtype=bool)}, gx.ShapeError, r"\[2, 2\]"),
        (
            (right, gx.sqrt, a),
            {"sparsity": np.eye(3, dtype=bool), "linear_solver": series},
            gx.GraphError,
            "a linear solver and a sparsity",
        ),
        (
            (right, gx.sqrt, a),
            {"linear_solver": lambda product, right: right[:2]},
            gx.ShapeError,
            r"linear solver of implicit gives float64\[2\]",
        ),
    ):
        with pytest.raises(error, match=match) as caught:
            gx.implicit(*arguments, **options)
        assert "gx.implicit(*arguments, **options)" in str(caught.value)
