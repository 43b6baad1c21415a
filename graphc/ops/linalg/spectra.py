"""Eigenvalues of symmetric matrices and singular values, with vectors: by LAPACK.

Derivatives of eigenvalues and eigenvectors are those of Giles (2008), 3.1; those of singular values
and vectors, of Townsend, "Differentiating the singular value decomposition" (2016). Where two
eigenvalues or singular values are equal, vectors have no derivative: it is infinite or NaN, and
that of the values alone is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.base.errors import GradientError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_all
from graphc.ir.dims.expressions import Dim, dim_min, equal
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import lapack as meaning
from graphc.ops.arguments import switch
from graphc.ops.complex.matrices import complex_eigenvalues, complex_singular_values
from graphc.ops.derive import of_one_input
from graphc.ops.linalg.matrices import (
    full_rank,
    lower_half,
    matrices,
    product,
    refuse,
    require_matrices,
    squares,
    symmetric,
)
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims
from graphc.ops.move.triangles import diagonal

# --- symmetric matrices --------------------------------------------------------------------------


class EighResult(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Value
    eigenvectors: Value


def _values_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "eigvalsh", square=True)
    return [inputs[0].with_shape(inputs[0].shape[:-1])]


def _eigh_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "eigh", square=True)
    return [inputs[0].with_shape(inputs[0].shape[:-1]), inputs[0]]


def _eigh_reference(a: Any) -> Any:
    values, vectors, info = meaning.each(lambda matrix: meaning.eigh(matrix, True), a)
    refuse(info, "eigh", meaning.NO_EIGENVALUES)
    return values, vectors


def _values_reference(a: Any) -> Any:
    values, _, info = meaning.each(lambda matrix: meaning.eigh(matrix, False), a)
    refuse(info, "eigvalsh", meaning.NO_EIGENVALUES)
    return values


def _reciprocals(gaps: Value) -> Value:
    """1 / gaps off the diagonal, 0 on it, where gaps are 0."""
    ones = surface_function("eye")(gaps.shape[-1], dtype=gaps.dtype)
    result: Value = 1.0 / (gaps + ones) - ones
    return result


def _gaps(values: Value) -> Value:
    """1 / (w[j] − w[i]) off the diagonal, 0 on it."""
    return _reciprocals(expand_dims(values, -2) - expand_dims(values, -1))


def _diagonal_matrix(values: Value) -> Value:
    ones = surface_function("eye")(values.shape[-1], dtype=values.dtype)
    result: Value = expand_dims(values, -1) * ones
    return result


def _eigh_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """With P = Vᵀ dA V: dw = diag P and dV = V (F ∘ P)."""
    (tangent,) = tangents
    if tangent is None:
        return None, None
    values, vectors = outputs
    inner = _in_basis(vectors, tangent)
    return diagonal(inner, 0, -2, -1), product(vectors, _gaps(values) * inner)


def _eigh_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """M = V (diag w' + F ∘ (Vᵀ V')) Vᵀ, of whose two halves each element has its own."""
    of_values, of_vectors = cotangents
    values, vectors = outputs
    moved = None if of_values is None else vectors * expand_dims(of_values, -2)
    if of_vectors is not None:
        turn = _gaps(values) * product(matrix_transpose(vectors), of_vectors)
        turned = product(vectors, turn)
        moved = turned if moved is None else moved + turned
    return (None if moved is None else _out_of_basis(vectors, moved),)


def _in_basis(vectors: Value, tangent: Value) -> Value:
    """Vᵀ dA V"""
    return product(product(matrix_transpose(vectors), symmetric(tangent)), vectors)


def _out_of_basis(vectors: Value, moved: Value) -> Value:
    """M Vᵀ on and below the diagonal, to which what is above it adds."""
    whole = product(moved, matrix_transpose(vectors))
    return lower_half(whole + matrix_transpose(whole))


def _eigenvectors(value: Value) -> Value:
    return apply_all(eigh_op, value)[1]


def _values_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    return diagonal(_in_basis(_eigenvectors(value), tangent), 0, -2, -1)


def _values_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    vectors = _eigenvectors(value)
    return _out_of_basis(vectors, vectors * expand_dims(cotangent, -2))


def _symmetric_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    a = rng.uniform(-1, 1, (3, 4, 4))
    whole = a + a.swapaxes(-1, -2) + np.diag([0.0, 4.0, 8.0, 12.0])
    return [whole.astype(element.numpy)], {}


def _twice(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return inputs[0].shape[-2:]


eigh_op = register(
    OpDef(
        name="eigh",
        doc="The eigenvalues in ascending order and the eigenvectors, as columns, of symmetric "
        "matrices [*B, n, n], of which what is above the diagonal is not read. By LAPACK.",
        infer=_eigh_type,
        reference=_eigh_reference,
        derivative=Custom(_eigh_jvp, _eigh_vjp),
        lowering=Native("eigh", (2, 1, 2), _twice),
        numerics="R",
        may_fail=True,
        domain=Domain(FLOATS, example=_symmetric_example),
    )
)
eigvalsh_op = register(
    OpDef(
        name="eigvalsh",
        doc="The eigenvalues of symmetric matrices in ascending order; as eigh.",
        infer=_values_type,
        reference=_values_reference,
        derivative=of_one_input(_values_jvp, _values_vjp),
        lowering=Native("eigvalsh", (2, 1), _twice),
        numerics="R",
        may_fail=True,
        of_complex=complex_eigenvalues,
        domain=Domain(FLOATS, example=_symmetric_example),
    )
)


def _triangle(a: Any, triangle: Any, name: str) -> Value:
    """The matrices with what is read on and below the diagonal."""
    value = squares(a, name)
    if not isinstance(triangle, str) or triangle.upper() not in ("L", "U"):
        raise ShapeError(f"UPLO is {shown(triangle)}", where=caller(), hint='"L" or "U"')
    return matrix_transpose(value) if triangle.upper() == "U" else value


def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """The eigenvalues in ascending order, and the eigenvectors as columns, of symmetric matrices.

    Args:
        a: matrices [*B, n, n].
        UPLO: whether the lower ("L") or the upper triangle ("U") is read; the gradient goes to it.

    Signs of eigenvectors are those of LAPACK's ``syevd``.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
        LinAlgError: where LAPACK finds no eigenvalues, when the graph runs.
    """
    return EighResult(*apply_all(eigh_op, _triangle(a, UPLO, "eigh")))


def eigvalsh(a: Any, UPLO: str = "L") -> Value:
    """The eigenvalues of symmetric matrices in ascending order [*B, n]; see ``eigh``."""
    return apply(eigvalsh_op, _triangle(a, UPLO, "eigvalsh"))


# --- singular values -----------------------------------------------------------------------------


class SVDResult(NamedTuple):
    """What ``svd`` gives."""

    U: Value
    S: Value
    Vh: Value


def _svd_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "svd")
    (a,) = inputs
    *batch, rows, columns = a.shape
    least = dim_min(rows, columns)
    left, right = (rows, columns) if attrs["full"] else (least, least)
    return [
        a.with_shape((*batch, rows, left)),
        a.with_shape((*batch, least)),
        a.with_shape((*batch, right, columns)),
    ]


def _svd_reference(a: Any, full: bool) -> Any:
    m, n = a.shape[-2:]
    left, right = (m, n) if full else (min(m, n), min(m, n))
    u, values, vt, info = meaning.each(lambda matrix: meaning.svd(matrix, left, right), a)
    refuse(info, "svd", meaning.NO_SINGULAR_VALUES)
    return u, values, vt


def _svd_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    rows, columns = inputs[0].shape[-2:]
    least = dim_min(rows, columns)
    return (rows, columns, rows, columns) if attrs["full"] else (rows, columns, least, least)


def _require_determined(value: Value, attrs: Attributes) -> None:
    rows, columns = value.shape[-2:]
    if attrs["full"] and not equal(rows, columns):
        raise GradientError(
            "svd(full_matrices=True) of matrices that are not square has no derivative",
            where=caller(),
            hint="the last vectors are not determined; use full_matrices=False or svdvals",
        )


def _square_gaps(values: Value) -> Value:
    """1 / (s[j]² − s[i]²) off the diagonal, 0 on it."""
    one, other = expand_dims(values, -2), expand_dims(values, -1)
    return _reciprocals((one - other) * (one + other))


def _svd_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (tangent,) = tangents
    if tangent is None:
        return None, None, None
    _require_determined(inputs[0], attrs)
    u, values, vt = outputs
    v, across = matrix_transpose(vt), matrix_transpose(tangent)
    left, right = product(tangent, v), product(across, u)
    inner = product(matrix_transpose(u), left)
    row, column = expand_dims(values, -2), expand_dims(values, -1)
    gaps = _square_gaps(values)
    turn_u = gaps * (inner * row + column * matrix_transpose(inner))
    turn_v = gaps * (column * inner + matrix_transpose(inner) * row)
    of_u = product(u, turn_u) + (left - product(u, inner)) / row
    of_v = product(v, turn_v) + (right - product(v, matrix_transpose(inner))) / row
    return of_u, diagonal(inner, 0, -2, -1), matrix_transpose(of_v)


def _svd_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    of_u, of_values, of_vt = cotangents
    u, values, vt = outputs
    row, column = expand_dims(values, -2), expand_dims(values, -1)
    inner = None if of_values is None else _diagonal_matrix(of_values)
    beside: list[Value] = []
    if of_u is not None or of_vt is not None:
        _require_determined(inputs[0], attrs)
        gaps = _square_gaps(values)
    if of_u is not None:
        moment = product(matrix_transpose(u), of_u)
        turn = gaps * (moment - matrix_transpose(moment)) * row
        inner = turn if inner is None else inner + turn
        beside.append(product((of_u - product(u, moment)) / row, vt))
    if of_vt is not None:
        moment = product(vt, matrix_transpose(of_vt))
        turn = column * (gaps * (moment - matrix_transpose(moment)))
        inner = turn if inner is None else inner + turn
        beside.append(product(u, (of_vt - product(matrix_transpose(moment), vt)) / column))
    if inner is None:
        return (None,)
    if attrs["full"]:
        least = values.shape[-1]
        u, vt = u[..., :least], vt[..., :least, :]
    total: Value = product(product(u, inner), vt)
    for term in beside:
        total = total + term
    return (total,)


def _svd_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    rows, columns = ((5, 3), (3, 5), (4, 4))[int(rng.integers(3))]
    return [full_rank(rng, element, 2, rows, columns)], {"full": rows == 4}


svd_op = register(
    OpDef(
        name="svd",
        doc="Of a stack [*B, m, n] U, the singular values in descending order and Vᵀ, with as many "
        "vectors as there are values, or whole orthogonal matrices if attrs full. By LAPACK.",
        infer=_svd_type,
        reference=_svd_reference,
        derivative=Custom(_svd_jvp, _svd_vjp),
        lowering=Native("svd", (2, 2, 1, 2), _svd_numbers),
        numerics="R",
        may_fail=True,
        domain=Domain(FLOATS, example=_svd_example),
    )
)


def _svdvals_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return _svd_type(inputs, {"full": False})[1:2]


def _svdvals_reference(a: Any) -> Any:
    _, values, _, info = meaning.each(lambda matrix: meaning.svd(matrix, 0, 0), a)
    refuse(info, "svdvals", meaning.NO_SINGULAR_VALUES)
    return values


def _vectors(value: Value) -> tuple[Value, Value]:
    u, _, vt = apply_all(svd_op, value, full=False)
    return u, vt


def _svdvals_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """ds = diag(Uᵀ dA V)"""
    u, vt = _vectors(value)
    inner = product(product(matrix_transpose(u), tangent), matrix_transpose(vt))
    return diagonal(inner, 0, -2, -1)


def _svdvals_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """A' = U diag(s') Vᵀ"""
    u, vt = _vectors(value)
    return product(u * expand_dims(cotangent, -2), vt)


svdvals_op = register(
    OpDef(
        name="svdvals",
        doc="The singular values of a stack [*B, m, n] in descending order. By LAPACK.",
        infer=_svdvals_type,
        reference=_svdvals_reference,
        derivative=of_one_input(_svdvals_jvp, _svdvals_vjp),
        lowering=Native("svdvals", (2, 1), _twice),
        numerics="R",
        may_fail=True,
        of_complex=complex_singular_values,
        domain=Domain(FLOATS, example=lambda rng, element: (_svd_example(rng, element)[0], {})),
    )
)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Value:
    """U, the singular values S in descending order, and Vh, with ``a == (U * S) @ Vh``.

    Args:
        a: matrices [*B, m, n]; k is the smaller of m and n.
        full_matrices: whether U is [*B, m, m] and Vh [*B, n, n], and not [*B, m, k] and [*B, k, n].
        compute_uv: whether to give more than S.
        hermitian: makes no difference: matrices are taken as they are.

    Signs of vectors are those of LAPACK's ``gesdd``.

    Raises:
        ShapeError: for fewer than two axes.
        LinAlgError: where LAPACK finds no values, as for NaN, when the graph runs.
        GradientError: for the derivative of vectors that are not determined.
    """
    full, vectors = switch(full_matrices, "full_matrices"), switch(compute_uv, "compute_uv")
    switch(hermitian, "hermitian")
    value = matrices(a, "svd")
    if not vectors:
        return apply(svdvals_op, value)
    return SVDResult(*apply_all(svd_op, value, full=full))


def svdvals(x: Any) -> Value:
    """The singular values of matrices [*B, m, n] in descending order; see ``svd``."""
    return apply(svdvals_op, matrices(x, "svdvals"))


__all__ = [
    "EighResult",
    "SVDResult",
    "eigh",
    "eigh_op",
    "eigvalsh",
    "eigvalsh_op",
    "svd",
    "svd_op",
    "svdvals",
    "svdvals_op",
]
