"""NumPy's own functions of ``np.linalg`` and ``np.fft`` on values: they lead to graphc's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

CALLS: tuple[Callable[[Any], Any], ...] = (
    np.linalg.norm, lambda x: np.linalg.norm(x, 2, (-2, -1)), np.linalg.trace,
    lambda x: np.linalg.diagonal(x, offset=1), np.linalg.inv, np.linalg.det,
    lambda x: np.linalg.slogdet(x).logabsdet, lambda x: np.linalg.solve(x, x @ x),
    lambda x: np.linalg.svd(x, full_matrices=False).S, lambda x: np.linalg.eigh(x).eigenvalues,
    lambda x: np.linalg.qr(x).R, np.linalg.pinv, np.linalg.matrix_rank, np.linalg.cond,
    lambda x: np.linalg.matrix_power(x, 3), lambda x: np.linalg.multi_dot([x[0], x[1], x[0]]),
    lambda x: np.linalg.tensordot(x[0], x[1], axes=1), lambda x: np.linalg.outer(x[0, 0], x[0, 1]),
    lambda x: np.linalg.vecdot(x, x), lambda x: np.linalg.cross(x[..., :3], x[..., 1:]),
    lambda x: np.linalg.matmul(x, x), np.linalg.matrix_norm, np.linalg.svdvals,
    lambda x: np.linalg.vector_norm(x, axis=1), np.linalg.matrix_transpose, np.linalg.eigvalsh,
    lambda x: np.linalg.lstsq(x[0], x[1])[0],
    lambda x: np.linalg.cholesky(x @ np.conj(np.matrix_transpose(x)), upper=True),
    np.fft.fft, lambda x: np.fft.ifft(x, 6), lambda x: np.fft.fftn(x, axes=(0, 1)),
    lambda x: np.fft.rfft(np.real(x), norm="ortho"), lambda x: np.fft.fftshift(x, axes=1),
    np.fft.hfft, np.fft.irfft2,
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_linear_algebra_and_transforms(dtype: str) -> None:
    random = np.random.default_rng(0)
    array = random.normal(size=(2, 4, 4)) + 1j * random.normal(size=(2, 4, 4))
    array = array if dtype == "complex128" else array.real
    with gx.Graph() as graph:
        x = gx.placeholder((2, 4, 4), dtype)
        made = [call(x) for call in CALLS]
    session = gx.Session(graph, options=gx.Options(cache="off"))
    for number, result in enumerate(session.run(made, {x: array})):
        wanted = CALLS[number](array)
        np.testing.assert_allclose(result, wanted, rtol=1e-7, atol=1e-9, err_msg=str(number))


def test_values_beside_arrays() -> None:
    array = np.diag([2.0, 4.0])
    with gx.Graph() as graph:
        x = gx.placeholder((2,), "float64")
        solved = np.linalg.solve(array, x)
    np.testing.assert_array_equal(gx.Session(graph).run(solved, {x: [2, 2]}), [1, 0.5])
