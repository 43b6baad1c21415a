"""Singular values and vectors: by LAPACK.

Derivatives are those of Townsend, "Differentiating the singular value decomposition" (2016); those
of complex vectors are JAX's, of which V keeps its phases. Where two singular values are equal,
vectors have no derivative: it is infinite or NaN, and that of the values alone is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphc.base.errors import GradientError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_all
from graphc.ir.dims.expressions import Dim, dim_min, equal
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import lapack as meaning
from graphc.ops.arguments import switch
from graphc.ops.complex.matrices import complex_singular_values
from graphc.ops.complex.pairs import of_pairs
from graphc.ops.complex.parts import halves, joined
from graphc.ops.convert import converted
from graphc.ops.derive import of_one_input
from graphc.ops.linalg.matrices import (
    adjoint,
    complex_of_parts,
    conjugate,
    diagonal_matrix,
    full_rank,
    imaginary_diagonal,
    matrices,
    parts_of_complex,
    parts_type,
    product,
    real_diagonal,
    reciprocals,
    refuse,
    require_matrices,
    rows_and_columns,
)
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims
from graphc.ops.move.triangles import diagonal


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
    return reciprocals((one - other) * (one + other))


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
    v, across = adjoint(vt), adjoint(tangent)
    left, right = product(tangent, v), product(across, u)
    inner = product(adjoint(u), left)
    row, column = expand_dims(values, -2), expand_dims(values, -1)
    gaps = _square_gaps(values)
    turn_u = gaps * (inner * row + column * adjoint(inner))
    turn_v = gaps * (column * inner + adjoint(inner) * row)
    if inner.dtype.is_complex:
        turn_u = turn_u + imaginary_diagonal(inner) / row
    of_u = product(u, turn_u) + (left - product(u, inner)) / row
    of_v = product(v, turn_v) + (right - product(v, adjoint(inner))) / row
    return of_u, real_diagonal(inner), adjoint(of_v)


def _svd_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    of_u, of_values, of_vt = cotangents
    u, values, vt = conjugate(outputs[0]), outputs[1], conjugate(outputs[2])
    row, column = expand_dims(values, -2), expand_dims(values, -1)
    inner = None if of_values is None else converted(diagonal_matrix(of_values), u.dtype)
    beside: list[Value] = []
    if of_u is not None or of_vt is not None:
        _require_determined(inputs[0], attrs)
        gaps = _square_gaps(values)
    if of_u is not None:
        moment = product(adjoint(u), of_u)
        turn = gaps * (moment - adjoint(moment)) * row
        if turn.dtype.is_complex:
            turn = turn + imaginary_diagonal(moment) / row
        inner = turn if inner is None else inner + turn
        beside.append(product((of_u - product(u, moment)) / row, vt))
    if of_vt is not None:
        moment = product(vt, adjoint(of_vt))
        turn = column * (gaps * (moment - adjoint(moment)))
        inner = turn if inner is None else inner + turn
        beside.append(product(u, (of_vt - product(adjoint(moment), vt)) / column))
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


def _complex_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    u, values, vt = _svd_type([parts_type(inputs, "svd")], attrs)
    return [values, u, u, vt, vt]


def _complex_reference(re: Any, im: Any, full: bool) -> Any:
    u, values, vt = _svd_reference(complex_of_parts(re, im), full)
    return (values, *parts_of_complex(u), *parts_of_complex(vt))


def _complex_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    values, u, vt = outputs
    of_u, of_values, of_vt = _svd_jvp(tangents, inputs, (u, values, vt), attrs)
    return of_values, of_u, of_vt


def _complex_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (of_values, of_u, of_vt), (values, u, vt) = cotangents, outputs
    return _svd_vjp((of_u, of_values, of_vt), inputs, (u, values, vt), attrs)


def _complex_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    (re,), attrs = _svd_example(rng, element)
    return [re, rng.uniform(-0.2, 0.2, re.shape).astype(element.numpy)], attrs


complex_svd_op = register(
    OpDef(
        name="complex_svd",
        doc="The singular values of complex matrices, given as their real and imaginary parts, "
        "and the parts of U and Vᴴ; as svd. By LAPACK.",
        infer=_complex_type,
        reference=_complex_reference,
        derivative=of_pairs(_complex_jvp, _complex_vjp, (False, True, True)),
        lowering=Native("complex_svd", (2, 2, 1, 2, 2, 2, 2), _svd_numbers),
        numerics="R",
        may_fail=True,
        domain=Domain(FLOATS, example=_complex_example),
    )
)


def _of_both_parts(
    op: OpDef, operands: Sequence[Value], attrs: Attributes
) -> tuple[Value, Value, Value]:
    values, u, v, x, y = apply_all(complex_svd_op, *halves(operands[0]), **attrs)
    return joined(u, v), values, joined(x, y)


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
        of_complex=_of_both_parts,
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
        lowering=Native("svdvals", (2, 1), rows_and_columns),
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

    Signs of vectors are those of LAPACK's ``gesdd``, and so are phases of complex ones.

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


__all__ = ["SVDResult", "complex_svd_op", "svd", "svd_op", "svdvals", "svdvals_op"]
