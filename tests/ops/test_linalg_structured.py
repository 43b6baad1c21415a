"""Matrices that few numbers make, and what is made of factors, against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from test_linalg_systems import definite, general, run

import graphc as gx

L, N = gx.linalg, scipy.linalg


@pytest.mark.parametrize("m, n", [(1, 1), (4, 1), (1, 5), (3, 5), (6, 6)])
def test_matrices_of_diagonals(m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    c, r = rng.standard_normal(m), rng.standard_normal(n)
    for ours, theirs in ((L.toeplitz, N.toeplitz), (L.hankel, N.hankel)):
        both, alone = run(lambda x, y, f=ours: [f(x, y), f(x)], c, r)
        assert np.array_equal(both, theirs(c, r))
        assert np.array_equal(alone, theirs(c))
    assert np.array_equal(run(L.circulant, c), N.circulant(c))
    stack = run(L.toeplitz, rng.standard_normal((2, 3, m)), rng.standard_normal((2, 3, n)))
    assert stack.shape == (2, 3, m, n)
    z = c + 1j * rng.standard_normal(m)
    assert np.array_equal(run(L.toeplitz, z), N.toeplitz(z))


def test_companions_have_the_roots_as_eigenvalues() -> None:
    a = np.array([2.0, -3.0, 1.0, 5.0])
    assert np.array_equal(run(L.companion, a), N.companion(a))
    roots = run(lambda x: L.eigvals(L.companion(x)), a)
    np.testing.assert_allclose(np.sort_complex(roots), np.sort_complex(np.roots(a)), rtol=1e-12)
    stack = np.stack([a, a + 1])
    assert np.array_equal(run(L.companion, stack)[1], N.companion(a + 1))
    with gx.Graph(), pytest.raises(gx.ShapeError, match="companion of 1 coefficients"):
        L.companion(gx.placeholder((1,)))


def test_blocks_and_products_of_columns() -> None:
    blocks = general(2, 3), general(1, 4), np.arange(3.0), np.float64(7)
    got = run(L.block_diag, *map(np.asarray, blocks))
    assert np.array_equal(got, N.block_diag(*blocks))
    a, b = general(3, 4), general(2, 4)
    assert np.array_equal(run(L.khatri_rao, a, b), N.khatri_rao(a, b))
    with gx.Graph():
        with pytest.raises(gx.ShapeError, match="block_diag of nothing"):
            L.block_diag()
        with pytest.raises(gx.ShapeError, match="give matrices"):
            L.block_diag(gx.zeros((2, 2, 2)))
        with pytest.raises(gx.ShapeError, match="two matrices"):
            L.khatri_rao(gx.zeros((2,)), gx.zeros((2, 2)))


@pytest.mark.parametrize("lower", [False, True])
def test_solving_by_a_cholesky_factor(lower: bool) -> None:
    a, b, v = definite(4), general(4, 3), general(4, 1)[:, 0]

    def both(x: Any, y: Any, z: Any) -> list[Any]:
        factor = L.cho_factor(x, lower)
        return [L.cho_solve(factor, y), L.cho_solve(factor, z), factor.c]

    many, one, factor = run(both, a, b, v)
    np.testing.assert_allclose(many, np.linalg.solve(a, b), rtol=1e-10)
    np.testing.assert_allclose(one, np.linalg.solve(a, v), rtol=1e-10)
    np.testing.assert_allclose(factor, N.cholesky(a, lower=lower), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("side", ["right", "left"])
def test_polar_factors(shape: tuple[int, ...], side: str) -> None:
    a = general(*shape)
    u, p = run(lambda x: tuple(L.polar(x, side)), a)
    np.testing.assert_allclose(u @ p if side == "right" else p @ u, a, atol=1e-13)
    if len(shape) == 2:
        exact = N.polar(a, side)
        np.testing.assert_allclose(u, exact[0], atol=1e-12)
        np.testing.assert_allclose(p, exact[1], atol=1e-12)
    with gx.Graph(), pytest.raises(gx.ShapeError, match="side is"):
        L.polar(gx.zeros((2, 2)), "up")


def test_unknown_sizes_and_slopes() -> None:
    with gx.Graph() as graph:
        c, r = gx.placeholder((None,), "float64"), gx.placeholder((None,), "float64")
        weights = gx.placeholder((None, None), "float64")
        whole = L.toeplitz(c, r)
        loss = gx.sum(whole * weights)
        fetched = [whole, *gx.gradients(loss, [c, r]), L.circulant(c), L.companion(c)]
    exe = gx.Session(graph).compile(fetched, [c, r, weights])
    rng = np.random.default_rng(0)
    for m, n in ((2, 3), (5, 2), (4, 1)):
        column, row, w = rng.standard_normal(m), rng.standard_normal(n), rng.standard_normal((m, n))
        got, by_c, by_r, ring, companion = exe(column, row, w)
        assert np.array_equal(got, N.toeplitz(column, row))
        sums = [np.trace(w, k) for k in range(-m + 1, n)]
        np.testing.assert_allclose(by_c, sums[:m][::-1], atol=1e-14)
        np.testing.assert_allclose(by_r, [0, *sums[m:]], atol=1e-14)
        assert np.array_equal(ring, N.circulant(column))
        assert np.array_equal(companion, N.companion(column))
