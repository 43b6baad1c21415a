"""Eigenvalues and eigenvectors of general matrices against LAPACK's as NumPy calls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_linalg_systems import general, run

import graphc as gx

L, N = gx.linalg, np.linalg


def by_size(values: Any) -> Any:
    return np.sort_complex(values.astype(np.complex128))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 5), (2, 3, 4, 4), (40, 40)])
def test_vectors_belong_to_values(shape: tuple[int, ...], dtype: str) -> None:
    a = general(*shape, dtype=dtype)
    values, vectors, alone = run(lambda x: (*L.eig(x), L.eigvals(x)), a)
    assert values.dtype == vectors.dtype == alone.dtype == np.result_type(dtype, "complex64")
    unit = (1e-4 if dtype == "float32" else 1e-12) * max(1.0, float(np.abs(a).max()))
    np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], rtol=0, atol=unit)
    np.testing.assert_allclose(np.sum(np.abs(vectors) ** 2, -2), 1, rtol=0, atol=unit)
    for one, other in ((values, alone), (values, N.eigvals(a))):
        np.testing.assert_allclose(by_size(one), by_size(other), rtol=0, atol=10 * unit)
    # the largest component is real, and of a pair the positive imaginary part comes first
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(-2)[..., None, :], -2)
    np.testing.assert_allclose(largest.imag, 0, rtol=0, atol=unit)
    assert (values.imag[..., :-1][np.diff(np.sign(values.imag), axis=-1) < -1] > 0).all()


def test_matrices_have_the_same_bits_alone_as_in_a_stack() -> None:
    a = general(20, 6, 6)
    values, vectors = run(lambda x: tuple(L.eig(x)), a)
    for number in (0, 7, 19):
        alone = run(lambda x: tuple(L.eig(x)), a[number])
        assert np.array_equal(alone[0], values[number])
        assert np.array_equal(alone[1], vectors[number])


def test_unknown_sizes_nothing_and_what_does_not_fit() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, None, None), "float64")
        values, vectors = L.eig(x)
    exe = gx.Session(graph).compile([values, vectors, L.eigvals(x)], [x])
    for shape in ((0, 3, 3), (2, 0, 0), (2, 1, 1), (3, 4, 4)):
        a = general(*shape)
        got = exe(a)
        assert [part.shape for part in got] == [shape[:-1], shape, shape[:-1]]
        np.testing.assert_allclose(a @ got[1], got[1] * got[0][..., None, :], atol=1e-12)
    with pytest.raises(gx.ShapeError, match=r"eig: the matrices of .* are not square"):
        exe(general(2, 3, 4))
    with gx.Graph():
        with pytest.raises(gx.ShapeError, match="not square"):
            L.eigvals(gx.placeholder((3, 4)))
        with pytest.raises(gx.DTypeError, match="real matrices"):
            L.eig(gx.placeholder((3, 3), "complex64"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_what_is_not_finite_is_named(name: str, bad: float) -> None:
    a = general(12, 3, 3)
    a[9, 1, 2] = bad
    with pytest.raises(gx.LinAlgError, match=f"{name}: matrix 9 of 12 has eigenvalues that do not"):
        run(lambda x: getattr(L, name)(x), a)


def test_values_have_derivatives() -> None:
    rng = np.random.default_rng(3)
    a = np.array([[1.0, 2.0, 0.1], [-3.0, 1.0, 0.5], [0.2, 0.3, 4.0]]) + np.zeros((2, 3, 3))
    a[1] += 0.1 * rng.standard_normal((3, 3))
    re, im = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))

    def loss(x: Any, through: str) -> Any:
        values = L.eigvals(x) if through == "eigvals" else L.eig(x).eigenvalues
        return gx.sum(gx.real(values) * re) + gx.sum(gx.imag(values) * im)

    first, second = run(
        lambda x: [gx.gradients(loss(x, name), x) for name in ("eigvals", "eig")], a
    )
    np.testing.assert_allclose(first, second, rtol=1e-12)
    direction, step = rng.standard_normal(a.shape), 1e-6
    ends = [run(lambda x: loss(x, "eigvals"), a + sign * step * direction) for sign in (1, -1)]
    measured = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(np.sum(first * direction), measured, rtol=1e-7)
    (forward,) = run(
        lambda x: gx.jvp([loss(x, "eigvals")], [x], [gx.constant(direction)]), a
    )
    np.testing.assert_allclose(forward, measured, rtol=1e-7)


def test_vectors_have_derivatives_too() -> None:
    rng = np.random.default_rng(5)
    a = np.array([[1.0, 2.0, 0.1], [-3.0, 1.0, 0.5], [0.2, 0.3, 4.0]]) + np.zeros((2, 3, 3))
    a[1] = np.diag([1.0, 2.5, 4.0]) + 0.3 * rng.standard_normal((3, 3))
    re, im = rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3, 3))

    def loss(x: Any) -> Any:
        values, vectors = L.eig(x)
        both = vectors * gx.expand_dims(values, -2)
        return gx.sum(gx.real(both) * re) + gx.sum(gx.imag(vectors) * im)

    slope = run(lambda x: gx.gradients(loss(x), x), a)
    direction, step = rng.standard_normal(a.shape), 1e-6
    ends = [run(loss, a + sign * step * direction) for sign in (1, -1)]
    measured = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(np.sum(slope * direction), measured, rtol=1e-7)
    (forward,) = run(lambda x: gx.jvp([loss(x)], [x], [gx.constant(direction)]), a)
    np.testing.assert_allclose(forward, measured, rtol=1e-7)
