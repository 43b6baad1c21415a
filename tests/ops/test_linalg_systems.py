"""Factors, systems, inverses and determinants against NumPy's and SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from slow_parameters import slow_unless

import graphc as gx

DTYPES = ("float32", "float64")
SIZES = (1, 3, 8, 16, 17, 33)


def run(function: Callable[..., Any], *arrays: Any, unknown: bool = True) -> Any:
    """What a function gives for arrays, compiled; sizes are not known unless it says so."""
    with gx.Graph() as graph:
        operands = [
            gx.placeholder([None] * array.ndim if unknown else array.shape, array.dtype)
            for array in map(np.asarray, arrays)
        ]
        made = function(*operands)
        results = list(made) if isinstance(made, tuple) else made
    return gx.Session(graph).run(results, dict(zip(operands, arrays, strict=True)))


def definite(n: int, *batch: int, dtype: str = "float64", seed: int = 0) -> Any:
    """Positive definite matrices."""
    half = np.random.default_rng(seed).normal(size=(*batch, n, n))
    return (half @ half.swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def general(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    """Any matrices."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def residual(a: Any, x: Any, b: Any) -> float:
    """‖a x − b‖ in units of what rounding alone makes of it."""
    norm = np.abs(a).sum(-1).max() * np.abs(x).max() + np.abs(b).max()
    return float(np.abs(a @ x - b).max() / (norm * np.finfo(a.dtype).eps * a.shape[-1] or 1.0))


@slow_unless(lambda n, dtype: (dtype == "float32") == (n in (3, 17)))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_factors_and_solutions_have_small_residuals(n: int, dtype: str) -> None:
    # more matrices than lanes, and some left over
    s, a = definite(n, 19, dtype=dtype), general(19, n, n, dtype=dtype)
    b = general(19, n, 3, dtype=dtype, seed=1)
    factor = run(gx.linalg.cholesky, s)
    assert factor.dtype == dtype and (np.triu(factor, 1) == 0).all()
    assert residual(factor, factor.swapaxes(-1, -2), s) < 4
    assert residual(a, run(gx.linalg.solve, a, b), b) < 16
    inverse = run(gx.linalg.inv, a)
    assert residual(a, inverse, np.eye(n, dtype=dtype)) < 16
    permutation, low, high = run(gx.linalg.lu, a)
    assert residual(permutation @ low, high, a) < 4
    assert np.abs(low).max() <= 1
    for lower in (False, True):
        triangle = np.tril(s) if lower else np.triu(s)
        x = run(lambda t, y, lower=lower: gx.linalg.solve_triangular(t, y, lower=lower), s, b)
        assert residual(triangle, x, b) < 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 16, 20])
def test_bits_do_not_depend_on_the_batch(n: int, dtype: str) -> None:
    s, b = definite(n, 40, dtype=dtype), general(40, n, 4, dtype=dtype)
    a = general(40, n, n, dtype=dtype)
    functions = {
        "cholesky": (gx.linalg.cholesky, (s,)),
        "solve": (gx.linalg.solve, (a, b)),
        "inv": (gx.linalg.inv, (a,)),
        "lu": (lambda x: gx.linalg.lu(x, p_indices=True), (a,)),
        "triangular": (gx.linalg.solve_triangular, (s, b)),
    }
    for name, (function, arrays) in functions.items():
        whole = run(function, *arrays)
        for place in (0, 17, 39):
            alone = run(function, *(array[place] for array in arrays))
            pairs = zip(whole, alone, strict=True) if name == "lu" else [(whole, alone)]
            for together, one in pairs:
                np.testing.assert_array_equal(together[place], one, err_msg=name)


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (3, 5, 2), (2, 2, 5), (0, 3), (1, 1)])
def test_lu_is_scipy_s(shape: tuple[int, ...]) -> None:
    a = general(*shape)
    for got, wanted in zip(run(gx.linalg.lu, a), scipy.linalg.lu(a), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-13)
    got = run(lambda x: gx.linalg.lu(x, permute_l=True), a)
    np.testing.assert_allclose(got[0] @ got[1], a, atol=1e-13)
    places, low, high = run(lambda x: gx.linalg.lu(x, p_indices=True), a)
    np.testing.assert_allclose(np.take_along_axis(low, places[..., None], -2) @ high, a, atol=1e-13)


def test_determinants() -> None:
    a = general(6, 5, 5)
    a[2, 1] = a[2, 3]
    a[4] = np.nan
    with np.errstate(all="ignore"):
        wanted, (sign, log) = np.linalg.det(a), np.linalg.slogdet(a)
    np.testing.assert_allclose(run(gx.linalg.det, a), wanted, atol=1e-13)
    signs, logs = run(gx.linalg.slogdet, a)
    np.testing.assert_allclose(np.delete(logs, 2), np.delete(log, 2))
    np.testing.assert_array_equal(np.delete(signs, 2), np.delete(sign, 2))
    zero = run(gx.linalg.slogdet, np.zeros((2, 3, 3)))
    np.testing.assert_array_equal(zero[0], 0)
    np.testing.assert_array_equal(zero[1], -np.inf)


def test_broadcasting_and_vectors() -> None:
    a, b = general(4, 1, 3, 3), general(5, 3, 2)
    np.testing.assert_allclose(run(gx.linalg.solve, a, b), np.linalg.solve(a, b))
    vector = general(3)
    np.testing.assert_allclose(run(gx.linalg.solve, a, vector), np.linalg.solve(a, vector))
    with gx.Graph() as graph:
        whole = gx.linalg.inv(np.array([[1, 2], [3, 5]]))
    assert whole.dtype is gx.float64
    np.testing.assert_allclose(gx.Session(graph).run(whole), [[-5, 2], [3, -1]])


def test_triangles_are_those_that_are_asked_for() -> None:
    a, b = general(4, 4) + 4 * np.eye(4), general(4, 2)
    for trans in (0, 1, "T"):
        for lower in (False, True):
            for unit in (False, True):

                def function(
                    x: Any, y: Any, t: Any = trans, down: bool = lower, ones: bool = unit
                ) -> Any:
                    return gx.linalg.solve_triangular(x, y, t, down, ones)

                wanted = scipy.linalg.solve_triangular(a, b, trans, lower, unit)
                np.testing.assert_allclose(run(function, a, b), wanted, rtol=1e-12)
    upper = run(lambda x: gx.linalg.cholesky(x, upper=True), definite(4))
    np.testing.assert_allclose(upper, np.linalg.cholesky(definite(4), upper=True))


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("batch", [0, 2])
def test_empty_stacks_and_matrices(n: int, batch: int) -> None:
    a, b = definite(n, batch), general(batch, n, 2)
    for unknown in (False, True):
        for function, arrays, wanted in (
            (gx.linalg.cholesky, (a,), np.linalg.cholesky(a)),
            (gx.linalg.inv, (a,), np.linalg.inv(a)),
            (gx.linalg.det, (a,), np.linalg.det(a)),
            (gx.linalg.solve, (a, b), np.linalg.solve(a, b)),
            (gx.linalg.solve, (a, b[..., :0]), b[..., :0]),
        ):
            got = run(function, *arrays, unknown=unknown)
            np.testing.assert_allclose(got, wanted, err_msg=function.__name__)


@pytest.mark.parametrize(
    ("name", "problem", "word"),
    [
        ("inv", "is singular", "matrix 20 of 30"),
        ("solve", "is singular", "matrix 20 of 30"),
        ("cholesky", "is not positive definite", "matrix 20 of 30"),
        ("solve_triangular", "is singular", "matrix 20 of 30"),
    ],
)
def test_failures_name_the_matrix_and_the_line(name: str, problem: str, word: str) -> None:
    function = getattr(gx.linalg, name)
    for n in (3, 40):
        a = definite(n, 30)
        a[20] = 0.0
        a[23] = -1.0
        operands = (a, general(30, n, 1)) if name.startswith("solve") else (a,)
        with pytest.raises(gx.LinAlgError) as caught:
            run(function, *operands)
        text = str(caught.value)
        assert text.startswith(f"{name}: {word} {problem}") and "test_linalg_systems.py" in text
        assert isinstance(caught.value, np.linalg.LinAlgError)
        a[20] = a[23] = np.eye(n)
        assert np.isfinite(run(function, *operands)).all()


def test_nan_and_infinity_spread_as_in_numpy() -> None:
    for value in (np.nan, np.inf):
        for n in (1, 3):
            a = definite(n, 3)
            a[1, 0, 0] = value
            for name in ("cholesky", "inv"):
                got = run(getattr(gx.linalg, name), a)
                wanted = getattr(np.linalg, name)(a)
                assert np.isnan(got[np.isnan(wanted)]).all(), name
                np.testing.assert_allclose(got[[0, 2]], wanted[[0, 2]], rtol=1e-12)


def test_ill_conditioned_matrices() -> None:
    hilbert = scipy.linalg.hilbert(10)
    b = np.ones((10, 1))
    x = run(gx.linalg.solve, hilbert, b)
    assert residual(hilbert, x, b) < 1
    factor = run(gx.linalg.cholesky, hilbert)
    assert residual(factor, factor.T, hilbert) < 1
    with pytest.raises(gx.LinAlgError):
        run(gx.linalg.cholesky, scipy.linalg.hilbert(16))


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(gx.ShapeError, match=r"inv: the matrices of \[3, 4\] are not square"):
        run(gx.linalg.inv, general(3, 4))
    with pytest.raises(gx.ShapeError, match=r"are not square"):
        gx.linalg.cholesky(np.ones((2, 3)))
    with pytest.raises(gx.ShapeError, match=r"solve of \[3, 3\] and \[4, 1\]"):
        run(gx.linalg.solve, general(3, 3), general(4, 1))
    with pytest.raises(gx.ShapeError, match=r"solve of \[2, 3, 3\] and \[4, 3, 1\]"):
        gx.linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1)))
    with pytest.raises(gx.ShapeError, match="det of shape"):
        gx.linalg.det(np.ones(3))
    with pytest.raises(gx.DTypeError):
        gx.linalg.inv("no")


def test_strided_feeds() -> None:
    a = general(8, 6, 8).transpose(2, 1, 0)[::2, :, 1:7]
    np.testing.assert_allclose(run(gx.linalg.inv, a), np.linalg.inv(a), rtol=1e-9)


def test_second_derivatives() -> None:
    a, v = definite(3), general(3, 3)
    with gx.Graph() as graph:
        x = gx.placeholder((3, 3), "float64")
        loss = gx.sum(gx.linalg.inv(x) * v) + gx.linalg.slogdet(x).logabsdet
        (first,) = gx.gradients(loss, [x])
        (second,) = gx.gradients(gx.sum(first * v), [x])
    session = gx.Session(graph)
    at, step = session.run([first, second], {x: a}), 1e-6
    moved = (session.run(first, {x: a + step * v}) - session.run(first, {x: a - step * v})) / 2e-6
    # the Hessian is symmetric
    np.testing.assert_allclose(at[1], moved, rtol=1e-5, atol=1e-6)
