"""Factors of matrices, and what is solved with them: in lanes, alone, and in gradients."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import p, program


@program()
def factored_matrices() -> Any:
    """Stacks, single matrices and ones of unknown size, in both dtypes."""
    fetched: list[Any] = []
    for dtype in ("float32", "float64"):
        a, b = p(30, 4, 4, dtype=dtype), p(30, 4, 2, dtype=dtype)
        fetched += [
            gx.linalg.cholesky(a), gx.linalg.solve(a, b), gx.linalg.inv(a),
            gx.linalg.solve_triangular(a, b, lower=True), *gx.linalg.lu(p(3, 5, 4, dtype=dtype)),
        ]  # fmt: skip
    x = p("n", 3, 3)
    fetched += [gx.linalg.inv(p(40, 40)), gx.linalg.det(x), *gx.linalg.slogdet(x)]
    return [*fetched, *gx.gradients(gx.linalg.cholesky(x), [x])]


@program()
def orthogonal_factors() -> Any:
    """What LAPACK is called for, in both dtypes, and its gradients."""
    fetched: list[Any] = []
    for dtype in ("float32", "float64"):
        a, s = p(20, 5, 3, dtype=dtype), p(20, 4, 4, dtype=dtype)
        fetched += [
            *gx.linalg.qr(a), *gx.linalg.qr(a, "complete"), *gx.linalg.eigh(s),
            gx.linalg.eigvalsh(s), *gx.linalg.svd(a), *gx.linalg.svd(a, False),
            gx.linalg.svdvals(a), *gx.linalg.eig(s), gx.linalg.eigvals(s),
        ]  # fmt: skip
    x = p("n", 3, 3)
    fetched += [gx.linalg.pinv(p(7, "k")), gx.linalg.expm(x)]
    return [*fetched, *gx.gradients(gx.linalg.eigh(x)[1], [x])]


@program()
def complex_factors() -> Any:
    """Of complex matrices, in both dtypes: eliminated, factored by LAPACK, solved as real ones."""
    fetched: list[Any] = []
    for dtype in ("complex64", "complex128"):
        a, s = p(20, 5, 3, dtype=dtype), p("n", 4, 4, dtype=dtype)
        fetched += [
            *gx.linalg.lu(a), *gx.linalg.qr(a), *gx.linalg.eigh(s), *gx.linalg.svd(a),
            gx.linalg.solve(s, s), gx.linalg.cholesky(s),
        ]  # fmt: skip
    return [*fetched, gx.linalg.det(s), gx.linalg.eigvalsh(s), gx.sort(s)]
