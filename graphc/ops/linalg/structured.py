"""Matrices that few numbers make, by the names of ``scipy.linalg``, and what is made of factors."""

from __future__ import annotations

from typing import Any, NamedTuple

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import dim_max
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.convert import as_value, promoted
from graphc.ops.creation import arange, zeros
from graphc.ops.guards import show, unproved
from graphc.ops.indexing.picking import take
from graphc.ops.linalg.factoring import cholesky
from graphc.ops.linalg.matrices import matrices, product
from graphc.ops.linalg.singular_values import svd
from graphc.ops.linalg.systems import solve_triangular
from graphc.ops.move.joining import concatenate
from graphc.ops.move.parts import flip
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims, reshape, with_shape
from graphc.ops.move.triangles import eye
from graphc.ops.pointwise.logic import equal, where


def _rows(x: Any, name: str) -> Value:
    value = as_value(x)
    if value.ndim < 1:
        raise ShapeError(
            f"{name} of shape {show(value.shape)}",
            where=caller(),
            hint="it takes numbers along the last axis",
        )
    return value


def toeplitz(c: Any, r: Any = None) -> Value:
    """The matrix [*B, m, n] that is constant along its diagonals.

    Args:
        c: the first column [*B, m].
        r: the first row [*B, n], whose first number is not read; c, conjugated, if there is none.
    """
    column = _rows(c, "toeplitz")
    row = surface_function("conj")(column) if r is None else _rows(r, "toeplitz")
    column, row = promoted(column, row)
    upwards = concatenate([flip(column, -1), row[..., 1:]], axis=-1)
    places = expand_dims(flip(arange(column.shape[-1])), -1) + arange(row.shape[-1])
    return take(upwards, places, axis=-1)


def hankel(c: Any, r: Any = None) -> Value:
    """The matrix [*B, m, n] that is constant along its other diagonals.

    Args:
        c: the first column [*B, m].
        r: the last row [*B, n], whose first number is not read; zeros, as many as c, if there is
            none.
    """
    column = _rows(c, "hankel")
    row = surface_function("zeros_like")(column) if r is None else _rows(r, "hankel")
    column, row = promoted(column, row)
    along = concatenate([column, row[..., 1:]], axis=-1)
    places = expand_dims(arange(column.shape[-1]), -1) + arange(row.shape[-1])
    return take(along, places, axis=-1)


def circulant(c: Any) -> Value:
    """The matrix [*B, n, n] whose columns are c [*B, n], each a place further down."""
    column = _rows(c, "circulant")
    return toeplitz(column, concatenate([column[..., :1], flip(column[..., 1:], -1)], axis=-1))


def companion(a: Any) -> Value:
    """The matrix [*B, n - 1, n - 1] whose eigenvalues are the roots of a polynomial.

    Args:
        a: its coefficients [*B, n], the one of the highest power first.

    Raises:
        ShapeError: for fewer than two.
    """
    coefficients = _rows(a, "companion")
    count = coefficients.shape[-1]
    few = unproved(
        [(dim_max(2 - count, 0), 0)], "companion of {} coefficients", count,
        hint="it takes two or more",
    )  # fmt: skip
    coefficients = with_shape(coefficients, coefficients.shape, few)
    first = -coefficients[..., 1:] / coefficients[..., :1]
    size = first.shape[-1]
    is_first = equal(expand_dims(arange(size), -1), 0)
    below = eye(size, k=-1, dtype=first.dtype)
    result: Value = where(is_first, expand_dims(first, -2), below)
    return result


def block_diag(*arrs: Any) -> Value:
    """The matrix with these on its diagonal and zeros elsewhere; numbers and vectors are rows.

    Raises:
        ShapeError: for none, and for more than two axes.
    """
    if not arrs:
        raise ShapeError("block_diag of nothing", where=caller(), hint="give one array or more")
    blocks = []
    for block in promoted(*arrs):
        if block.ndim > 2:
            raise ShapeError(
                f"block_diag of shape {show(block.shape)}", where=caller(), hint="give matrices"
            )
        missing = 2 - block.ndim
        blocks.append(reshape(block, (*(1,) * missing, *block.shape)))
    rows = []
    for number, block in enumerate(blocks):
        parts = [
            block if other == number else zeros((block.shape[0], beside.shape[1]), block.dtype)
            for other, beside in enumerate(blocks)
        ]
        rows.append(concatenate(parts, axis=1))
    return concatenate(rows, axis=0)


def khatri_rao(a: Any, b: Any) -> Value:
    """Kronecker's product of each column of a [m, k] and the same of b [n, k]: [m n, k]."""
    one, other = promoted(a, b)
    for value in (one, other):
        if value.ndim != 2:
            raise ShapeError(
                f"khatri_rao of {show(one.shape)} and {show(other.shape)}",
                where=caller(),
                hint="give two matrices of as many columns",
            )
    pairs = expand_dims(one, 1) * expand_dims(other, 0)
    m, n, k = pairs.shape
    return reshape(pairs, (m * n, k))


class CholeskyFactor(NamedTuple):
    """What ``cho_factor`` gives, and ``cho_solve`` takes."""

    c: Value
    lower: bool


def cho_factor(a: Any, lower: bool = False) -> CholeskyFactor:
    """The triangle of ``cholesky`` for ``cho_solve``, whose other half is 0 (SciPy's is anything).

    Args:
        a: symmetric positive definite matrices [*B, n, n].
        lower: whether it is the lower triangle, and of ``a`` that is read.
    """
    is_lower = switch(lower, "lower")
    return CholeskyFactor(cholesky(a, upper=not is_lower), is_lower)


def cho_solve(c_and_lower: Any, b: Any) -> Value:
    """The x with ``a @ x = b``, by the factor of a.

    Args:
        c_and_lower: what ``cho_factor`` gave.
        b: a vector [n], or matrices [*C, n, m].

    Raises:
        ShapeError: for what is no pair, and for sizes that do not fit.
    """
    if not isinstance(c_and_lower, (tuple, list)) or len(c_and_lower) != 2:
        raise ShapeError(
            f"cho_solve by {shown(c_and_lower)}",
            where=caller(),
            hint="give what cho_factor gave: the factor, and whether it is the lower one",
        )
    c, lower = c_and_lower
    is_lower = switch(lower, "lower")
    half = solve_triangular(c, b, trans=0 if is_lower else 2, lower=is_lower)
    return solve_triangular(c, half, trans=2 if is_lower else 0, lower=is_lower)


class PolarResult(NamedTuple):
    """What ``polar`` gives."""

    u: Value
    p: Value


def polar(a: Any, side: str = "right") -> PolarResult:
    """The factors u and p of a: orthonormal columns or rows, and a positive semidefinite matrix.

    Args:
        a: matrices [*B, m, n].
        side: "right" for ``a == u @ p``, "left" for ``a == p @ u``.
    """
    if side not in ("right", "left"):
        raise ShapeError(f"side is {shown(side)}", where=caller(), hint='"right" or "left"')
    left, values, right = svd(matrices(a, "polar"), full_matrices=False)
    scale = expand_dims(values, -2)
    if side == "right":
        positive = product(matrix_transpose(right) * scale, right)
    else:
        positive = product(left * scale, matrix_transpose(left))
    return PolarResult(product(left, right), positive)


__all__ = [
    "CholeskyFactor",
    "PolarResult",
    "block_diag",
    "cho_factor",
    "cho_solve",
    "circulant",
    "companion",
    "hankel",
    "khatri_rao",
    "polar",
    "toeplitz",
]
