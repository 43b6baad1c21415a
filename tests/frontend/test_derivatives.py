"""Products with vectors, Jacobians and Hessians: against formulas, of any shapes and structures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

RANDOM = np.random.default_rng(4)
A = RANDOM.normal(size=(4, 3))
X = RANDOM.normal(size=3)
SLOPES = np.cos(A @ X)[:, None] * A


@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
@pytest.mark.parametrize("is_known", [True, False])
def test_jacobians(mode: Any, is_known: bool) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,) if is_known else ("n",), "float64")
        a = gx.placeholder((4, 3) if is_known else ("m", "n"), "float64")
        y = gx.sin(a @ x)
        of_one = gx.jacobian(y, x, mode)
        of_both = gx.jacobian(y, {"x": x, "rest": [a]}, mode)
    session = gx.Session(graph)
    one, both = session.run([of_one, of_both], {x: X, a: A})
    np.testing.assert_allclose(one, SLOPES, rtol=1e-12)
    np.testing.assert_array_equal(both["x"], one)
    expected = np.zeros((4, 4, 3))
    expected[range(4), range(4)] = np.cos(A @ X)[:, None] * X
    np.testing.assert_allclose(both["rest"][0], expected, rtol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("of", "by"), [((), (2, 3)), ((2, 3), ()), ((0,), (2,)), ((2,), (0, 3))])
def test_any_shapes(mode: Any, of: tuple[int, ...], by: tuple[int, ...]) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(by, "float64")
        y = gx.broadcast_to(x.sum(), of)
        apart = gx.placeholder(by, "float64")
        found = gx.jacobian(y, [x, apart], mode)
    of_x, of_apart = gx.Session(graph).run(found, {x: np.ones(by)})
    np.testing.assert_array_equal(of_x, np.ones((*of, *by)))
    np.testing.assert_array_equal(of_apart, np.zeros((*of, *by)))


def test_second_derivatives() -> None:
    with gx.Graph() as graph:
        x, a = gx.placeholder((3,), "float64"), gx.placeholder((4, 3), "float64")
        loss = (gx.sin(a @ x) ** 2).sum()
        whole = gx.hessian(loss, x)
        parts = gx.hessian(loss, {"x": x, "a": a})
        product = gx.hvp(loss, x, gx.constant(X))
        third = gx.jacobian(whole, x)
    h, blocks, along, cube = gx.Session(graph).run([whole, parts, product, third], {x: X, a: A})
    expected = np.einsum("ij,ik,i->jk", A, A, 2 * np.cos(2 * A @ X))
    np.testing.assert_allclose(h, expected, rtol=1e-11)
    np.testing.assert_allclose(along, expected @ X, rtol=1e-11)
    np.testing.assert_array_equal(blocks["x"]["x"], h)
    assert blocks["x"]["a"].shape == (3, 4, 3) and blocks["a"]["a"].shape == (4, 3, 4, 3)
    swapped = np.moveaxis(blocks["a"]["x"], -1, 0)
    np.testing.assert_allclose(blocks["x"]["a"], swapped, rtol=1e-11)
    expected = np.einsum("ij,ik,il,i->jkl", A, A, A, -4 * np.sin(2 * A @ X))
    np.testing.assert_allclose(cube, expected, rtol=1e-11)


def test_products_with_vectors() -> None:
    with gx.Graph() as graph:
        x, a = gx.placeholder((3,), "float64"), gx.placeholder((4, 3), "float64")
        y = gx.sin(a @ x)
        weights = gx.constant([1.0, 2.0, 3.0, 4.0], "float64")
        pulled, none = gx.vjp(y, (x, gx.placeholder((2,), "float64")), weights)
        value, slope = gx.value_and_gradients(y.sum(), x)
    session = gx.Session(graph)
    found, zeros, value, slope = session.run([pulled, none, value, slope], {x: X, a: A})
    np.testing.assert_allclose(found, [1, 2, 3, 4] @ SLOPES, rtol=1e-12)
    np.testing.assert_array_equal(zeros, [0, 0])
    np.testing.assert_allclose(value, np.sin(A @ X).sum(), rtol=1e-12)
    np.testing.assert_allclose(slope, SLOPES.sum(0), rtol=1e-12)


def test_a_jacobian_of_a_loop_in_a_loop() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), "float64")

        def newton(i: gx.Value, point: gx.Value) -> gx.Value:
            off = gx.stack([point[0] ** 2 + point[1] ** 2 - x[0], point[0] - point[1] * x[1]])
            return point - gx.linalg.solve(gx.jacobian(off, point), off)

        root = gx.fori_loop(0, 8, newton, gx.ones((2,), "float64"))
        found = [root, gx.jacobian(root, x)]
    point, slopes = gx.Session(graph).run(found, {x: [5.0, 2.0]})
    np.testing.assert_allclose(point, [2, 1], rtol=1e-12)
    # the implicit function theorem
    expected = np.linalg.solve([[4, 2], [1, -2]], [[1, 0], [0, 1]])
    np.testing.assert_allclose(slopes, expected, rtol=1e-9)


def test_mistakes() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        with pytest.raises(gx.ShapeError, match=r"hessian of a value of type float64\[3\]"):
            gx.hessian(x * x, x)
        with pytest.raises(gx.ShapeError, match="hvp of a value"):
            gx.hvp(x * x, x, x)
        with pytest.raises(gx.DTypeError, match="jacobian of a list, which is no value"):
            gx.jacobian([x], x)
        with pytest.raises(gx.GraphError, match="mode 'backward'"):
            gx.jacobian(x, x, "backward")  # type: ignore[arg-type]
        with pytest.raises(gx.DTypeError, match="int64, which has no derivative"):
            gx.jacobian(x.sum(), gx.constant([1, 2]))
