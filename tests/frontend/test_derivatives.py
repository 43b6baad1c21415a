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


def band(rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Where a matrix of three diagonals is other than zero."""
    return np.abs(np.subtract.outer(np.arange(rows), np.arange(columns))) < 2


@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
def test_sparse_jacobians(mode: Any) -> None:
    random = np.random.default_rng(3)
    patterns = [
        band(7, 7), np.zeros((3, 2), bool), random.random((6, 8)) < 0.3, np.zeros((0, 4), bool)
    ]
    for pattern in patterns:
        with gx.Graph() as graph:
            x = gx.placeholder(pattern.shape[1:], "float64")
            weights = gx.constant(random.normal(size=pattern.shape) * pattern)
            y = gx.sin(weights @ x)
            found = [gx.jacobian(y, x, mode, pattern), gx.jacobian(y, x)]
        for point in (np.zeros(pattern.shape[1]), random.normal(size=pattern.shape[1])):
            sparse, dense = gx.Session(graph).run(found, {x: point})
            np.testing.assert_allclose(sparse, dense, rtol=1e-13, atol=1e-300)


def test_a_sparsity_of_structures_in_a_loop_and_twice() -> None:
    with gx.Graph() as graph:
        x, a = gx.placeholder((2, 3), "float64"), gx.placeholder((2,), "float64")
        y = gx.cumsum(x, axis=1)[:, ::2] * a[:, None]
        rows = np.eye(2, dtype=bool)
        of_x = np.broadcast_to(rows[:, None, :, None], (2, 2, 2, 3))
        pattern = {"x": of_x, "a": np.broadcast_to(rows[:, None], (2, 2, 2))}
        found = [gx.jacobian(y, {"x": x, "a": a}, sparsity=s) for s in (pattern, None)]
        chain = x[0, 0] * gx.arange(4, dtype="float64") ** 2
        slopes = gx.jacobian(gx.sin(chain), chain, sparsity=np.eye(4, dtype=bool))
        curve = gx.gradients(slopes.sum(), x)
    feeds = {x: np.ones((2, 3)), a: [2.0, 3.0]}
    sparse, dense, bent = gx.Session(graph).run([*found, curve], feeds)
    np.testing.assert_array_equal(sparse["x"], dense["x"])
    np.testing.assert_array_equal(sparse["a"], dense["a"])
    squares = np.arange(4.0) ** 2
    np.testing.assert_allclose(bent[0, 0], -(squares * np.sin(squares)).sum(), rtol=1e-12)


def test_columns_of_a_band_take_three_products() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((50,), "float64")
        y = x.at[1:].add(x[:-1] ** 2).at[:-1].add(x[1:] ** 2)
        matrix = gx.jacobian(y, x, "forward", band(50, 50))
    shapes = [node.output.shape for node in graph.nodes if node.op.name == "constant"]
    assert (3, 50) in shapes and (50, 50) in shapes
    point = np.random.default_rng(0).normal(size=50)
    expected = np.eye(50) + np.diag(2 * point[:-1], -1) + np.diag(2 * point[1:], 1)
    np.testing.assert_allclose(gx.Session(graph).run(matrix, {x: point}), expected, rtol=1e-14)


def test_a_wrong_sparsity() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), "float64")
        y = gx.cumsum(x * x)
        wrong = gx.jacobian(y, x, sparsity=np.eye(3, dtype=bool))
        weights = gx.constant([1.0, -2.0, 1.0], "float64")
        product, along = wrong @ weights, gx.jvp(y, x, weights)
        for given, error, match in (
            (np.eye(3), gx.DTypeError, "sparsity of jacobian is a ndarray"),
            ("junk", gx.DTypeError, "sparsity of jacobian is 'junk'"),
            (np.eye(2, dtype=bool), gx.ShapeError, r"has shape \[2, 2\], the result \[3, 3\]"),
            ([np.eye(3, dtype=bool)], gx.ShapeError, "a list of 1 where one value"),
        ):
            with pytest.raises(error, match=match) as caught:
                gx.jacobian(y, x, sparsity=given)
            assert "gx.jacobian(y, x, sparsity=given)" in str(caught.value)
        many = gx.placeholder(("n",), "float64")
        with pytest.raises(gx.ShapeError, match=r"the result \[n, n\]"):
            gx.jacobian(many, many, sparsity=np.eye(3, dtype=bool))
    found, product, along = gx.Session(graph).run([wrong, product, along], {x: [1.0, 2.0, 3.0]})
    # what is denied is added where the pattern has an element of the same colour
    np.testing.assert_array_equal(found, np.diag([2.0, 6.0, 12.0]))
    # a product with any vector tells
    np.testing.assert_array_equal(product, [2, -12, 12])
    np.testing.assert_array_equal(along, [2, -6, 0])


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
