"""Triangular factors of matrices, and determinants: ``cholesky``, ``lu``, ``det``, ``slogdet``.

Derivatives are those of Giles (2008), 2.3, and of Murray, "Differentiation of the Cholesky
decomposition" (2016); that of ``lu`` follows from dA = dL U + L dU, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_all
from graphc.ir.dims.expressions import dim_min
from graphc.ir.dtypes import FLOATS, DType, int64
from graphc.ir.lowering import Decompose, Native
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import complex_matrices as complex_meaning
from graphc.kernel.routines import matrices as meaning
from graphc.ops.arguments import switch
from graphc.ops.complex.matrices import complex_cholesky
from graphc.ops.complex.pairs import of_pairs
from graphc.ops.complex.parts import as_decomposed, halves, joined
from graphc.ops.derive import of_one_input
from graphc.ops.indexing.core import taken_along
from graphc.ops.linalg.matrices import (
    lower_half,
    matrices,
    parts_type,
    product,
    refuse,
    require_matrices,
    rows_and_columns,
    squares,
    symmetric,
)
from graphc.ops.linalg.systems import inv_op, regular, square_example, triangle_solved
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import broadcast_to, expand_dims
from graphc.ops.move.triangles import diagonal, tril, triu

# --- Cholesky ------------------------------------------------------------------------------------


def _cholesky_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "cholesky", square=True)
    return [inputs[0]]


def _cholesky_reference(a: Any) -> Any:
    with np.errstate(all="ignore"):
        factor, bad = meaning.cholesky(a)
    refuse(bad, "cholesky", meaning.NOT_POSITIVE)
    return factor


def _cholesky_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ takes the lower triangle and halves the diagonal."""
    left = triangle_solved(output, symmetric(tangent), lower=True)
    both = triangle_solved(output, matrix_transpose(left), lower=True)
    return product(output, lower_half(both))


def _cholesky_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """A' = Φ(S + Sᵀ) of the lower triangle, with S = L⁻ᵀ Φ(Lᵀ L') L⁻¹."""
    inner = lower_half(product(matrix_transpose(output), tril(cotangent)))
    left = triangle_solved(output, inner, lower=True, transposed=True)
    both = triangle_solved(output, matrix_transpose(left), lower=True, transposed=True)
    return lower_half(both + matrix_transpose(both))


def _positive_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    half = rng.normal(size=(3, 4, 4))
    whole = half @ half.swapaxes(-1, -2) + 2 * np.eye(4)
    return [whole.astype(element.numpy)], {}


cholesky_op = register(
    OpDef(
        name="cholesky",
        doc="The lower triangle L with L Lᵀ = a, of a stack [*B, n, n] of which what is above the "
        "diagonal is not read; a matrix that is not positive definite is an error.",
        infer=_cholesky_type,
        reference=_cholesky_reference,
        derivative=of_one_input(_cholesky_jvp, _cholesky_vjp),
        lowering=Native("cholesky", (2, 2), lambda inputs, attrs: inputs[0].shape[-1:]),
        numerics="R",
        may_fail=True,
        any_precision=True,
        of_complex=complex_cholesky,
        domain=Domain(FLOATS, example=_positive_example),
    )
)


def cholesky(a: Any, *, upper: bool = False) -> Value:
    """The triangle L with ``L @ L.T == a``, of symmetric positive definite matrices [*B, n, n].

    Of complex matrices, which are Hermitian, the second factor is the conjugate of that.

    Args:
        a: the matrices; only what is on and below the diagonal is read, or, with ``upper``, on and
            above it. The gradient goes to that part alone.
        upper: whether to give the upper triangle U with ``U.T @ U == a``.

    NaN spreads and is no error, as in NumPy.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
        LinAlgError: for a matrix that is not positive definite, when the graph runs.
    """
    is_upper = switch(upper, "upper")
    value = squares(a, "cholesky")
    if is_upper:
        return matrix_transpose(apply(cholesky_op, matrix_transpose(value)))
    return apply(cholesky_op, value)


# --- LU ------------------------------------------------------------------------------------------


def _lu_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "lu")
    (a,) = inputs
    batch = a.shape[:-2]
    return [a, TensorType(int64, a.shape[:-1]), TensorType(a.dtype, batch)]


def _lu_reference(a: Any) -> Any:
    packed = np.array(a)
    with np.errstate(all="ignore"):
        order, sign, _ = meaning.eliminated(packed)
    return packed, order, sign


def _factors(packed: Value) -> tuple[Value, Value]:
    """L [*B, m, m] and U [*B, n, n], with ones on what there is of the diagonal beyond both."""
    rows, columns = packed.shape[-2:]
    common = dim_min(rows, columns)
    pad, eye = surface_function("pad"), surface_function("eye")
    before = ((0, 0),) * (packed.ndim - 2)
    low, high = tril(packed, -1), triu(packed)
    if rows != columns:
        # a negative margin crops
        low = pad(low, (*before, (0, 0), (0, rows - columns)))
        high = pad(high, (*before, (0, columns - rows), (0, 0)))
        missing = surface_function("arange")(columns) >= common
        extra = surface_function("astype")(missing, packed.dtype)
        high = high + eye(columns, dtype=packed.dtype) * extra
    return low + eye(rows, dtype=packed.dtype), high


def _in_order(matrix: Value, order: Value) -> Value:
    """The rows in an order."""
    index = broadcast_to(expand_dims(order, -1), matrix.shape)
    return taken_along(matrix, index, matrix.ndim - 2)


def _lu_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """With X = L⁻¹ P dA U⁻¹: dL = L tril(X, −1) and dU = triu(X) U."""
    (tangent,) = tangents
    if tangent is None:
        return None, None, None
    packed, order, _ = outputs
    low, high = _factors(packed)
    left = triangle_solved(low, _in_order(tangent, order), lower=True, unit=True)
    across = triangle_solved(high, matrix_transpose(left), lower=False, transposed=True)
    both = matrix_transpose(across)
    return product(low, tril(both, -1)) + product(triu(both), high), None, None


def _lu_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    cotangent = cotangents[0]
    if cotangent is None:
        return (None,)
    packed, order, _ = outputs
    low, high = _factors(packed)
    below = tril(product(matrix_transpose(low), cotangent), -1)
    both = below + triu(product(cotangent, matrix_transpose(high)))
    left = matrix_transpose(triangle_solved(high, matrix_transpose(both), lower=False))
    moved = triangle_solved(low, left, lower=True, transposed=True, unit=True)
    back = surface_function("argsort")(order, axis=-1)
    return (_in_order(moved, back),)


def _lu_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return [regular(rng, element, 3, 4, 4)[:, :, : 3 + int(rng.integers(2))]], {}


def _complex_lu_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    part = parts_type(inputs, "lu")
    return [part, *_lu_type([part], attrs)]


def _complex_lu_reference(re: Any, im: Any) -> Any:
    packed = np.array(re), np.array(im)
    with np.errstate(all="ignore"):
        return (*packed, *complex_meaning.eliminated(*packed))


def _complex_lu_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    re = regular(rng, element, 3, 4, 4)[:, :, : 3 + int(rng.integers(2))]
    return [re, rng.uniform(-0.2, 0.2, re.shape).astype(element.numpy)], {}


complex_lu_op = register(
    OpDef(
        name="complex_lu",
        doc="lu of complex matrices, given as their real and imaginary parts, and so are L and U.",
        infer=_complex_lu_type,
        reference=_complex_lu_reference,
        derivative=of_pairs(_lu_jvp, _lu_vjp, (True, False, False)),
        lowering=Native("complex_lu", (2, 2, 2, 2, 1, 0), rows_and_columns),
        numerics="R",
        any_precision=True,
        domain=Domain(FLOATS, example=_complex_lu_example),
    )
)


def _of_both_parts(
    op: OpDef, operands: Sequence[Value], attrs: Attributes
) -> tuple[Value, Value, Value]:
    re, im, order, sign = apply_all(complex_lu_op, *halves(operands[0]))
    return joined(re, im), order, sign


lu_op = register(
    OpDef(
        name="lu",
        doc="Of a stack [*B, m, n] the factors L, without its diagonal of ones, and U in one "
        "array; the order of rows (int64) so that a[order] = L U; and the sign of that order. "
        "Columns without a pivot are skipped.",
        infer=_lu_type,
        reference=_lu_reference,
        derivative=Custom(_lu_jvp, _lu_vjp),
        lowering=Native("lu", (2, 2, 1, 0), rows_and_columns),
        numerics="R",
        any_precision=True,
        of_complex=_of_both_parts,
        domain=Domain(FLOATS, example=_lu_example),
    )
)


def lu(a: Any, permute_l: bool = False, p_indices: bool = False) -> tuple[Value, ...]:
    """P, L and U with ``a == P @ L @ U``, as ``scipy.linalg.lu``; rows are exchanged for the
    largest pivot.

    Args:
        a: matrices [*B, m, n]; with k the smaller of m and n, L is [*B, m, k], U is [*B, k, n].
        permute_l: whether to give ``P @ L`` and U.
        p_indices: whether to give the places (int64) ``p`` with ``a == L[p] @ U`` in place of P.
    """
    is_permuted, is_indices = switch(permute_l, "permute_l"), switch(p_indices, "p_indices")
    value = matrices(a, "lu")
    packed, order, _ = apply_all(lu_op, value)
    rows, columns = value.shape[-2:]
    common = dim_min(rows, columns)
    low = tril(packed, -1)[..., :common]
    low = low + surface_function("eye")(rows, common, dtype=value.dtype)
    high = triu(packed)[..., :common, :]
    back = surface_function("argsort")(order, axis=-1)
    if is_permuted:
        return _in_order(low, back), high
    if is_indices:
        return back, low, high
    ones = surface_function("eye")(rows, dtype=value.dtype.part)
    permutation = _in_order(broadcast_to(ones, (*value.shape[:-1], rows)), back)
    return permutation, low, high


# --- determinants --------------------------------------------------------------------------------


def _det_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "det", square=True)
    return [TensorType(inputs[0].dtype, inputs[0].shape[:-2])]


def _pivots(inputs: Sequence[Value]) -> tuple[Value, Value]:
    packed, _, sign = apply_all(lu_op, *inputs)
    return diagonal(packed, 0, -2, -1), sign


def _det_parts(inputs: Sequence[Value], attrs: Attributes) -> Value:
    pivots, sign = _pivots(inputs)
    result: Value = sign * surface_function("prod")(pivots, axis=-1)
    return result


def _det_reference(a: Any) -> Any:
    packed, _, sign = _lu_reference(a)
    with np.errstate(all="ignore"):
        return np.asarray(sign * np.prod(np.diagonal(packed, 0, -2, -1), axis=-1), a.dtype)


def _det_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """d det = det tr(A⁻¹ dA)"""
    terms = matrix_transpose(apply(inv_op, value)) * tangent
    result: Value = output * surface_function("sum")(terms, axis=(-2, -1))
    return result


def _det_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """A' = det' det A⁻ᵀ"""
    scale = expand_dims(cotangent * output, (-2, -1))
    result: Value = scale * matrix_transpose(apply(inv_op, value))
    return result


det_op = register(
    OpDef(
        name="det",
        doc="The determinants of a stack [*B, n, n], from its factors L and U.",
        infer=_det_type,
        reference=_det_reference,
        derivative=of_one_input(_det_jvp, _det_vjp),
        lowering=Decompose(_det_parts),
        numerics="R",
        of_complex=as_decomposed,
        domain=Domain(FLOATS, example=square_example),
    )
)


def det(a: Any) -> Value:
    """The determinants of square matrices [*B, n, n]; of an empty one it is 1.

    Those of complex matrices need a known n.

    The gradient is made of the inverse, so that it raises LinAlgError for a singular matrix.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
    """
    return apply(det_op, squares(a, "det"))


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Value
    logabsdet: Value


def _slogdet_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return _det_type(inputs, attrs) * 2


def _slogdet_parts(inputs: Sequence[Value], attrs: Attributes) -> tuple[Value, Value]:
    pivots, sign = _pivots(inputs)
    if pivots.dtype.is_complex:
        signs = surface_function("sign")(pivots)
    else:
        where = surface_function("where")
        signs = where(pivots < 0, -1.0, where(pivots == 0, 0.0, 1.0))
        signs = surface_function("astype")(signs, pivots.dtype)
    logs = surface_function("log")(surface_function("abs")(pivots))
    whole = surface_function("prod")(signs, axis=-1)
    return sign * whole, surface_function("sum")(logs, axis=-1)


def _slogdet_reference(a: Any) -> Any:
    packed, _, sign = _lu_reference(a)
    pivots = np.diagonal(packed, 0, -2, -1)
    with np.errstate(all="ignore"):
        signs = np.where(pivots < 0, -1.0, np.where(pivots == 0, 0.0, 1.0)).prod(-1)
        logs = np.log(np.abs(pivots).astype(np.float64)).sum(-1)
    return np.asarray(sign * signs, a.dtype), np.asarray(logs, a.dtype)


def _slogdet_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """d log|det| = tr(A⁻¹ dA)"""
    (tangent,) = tangents
    if tangent is None:
        return None, None
    terms = matrix_transpose(apply(inv_op, inputs[0])) * tangent
    return None, surface_function("sum")(terms, axis=(-2, -1))


def _slogdet_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    cotangent = cotangents[1]
    if cotangent is None:
        return (None,)
    return (expand_dims(cotangent, (-2, -1)) * matrix_transpose(apply(inv_op, inputs[0])),)


slogdet_op = register(
    OpDef(
        name="slogdet",
        doc="The signs of the determinants of a stack [*B, n, n], and the logarithms of their "
        "absolute values.",
        infer=_slogdet_type,
        reference=_slogdet_reference,
        derivative=Custom(_slogdet_jvp, _slogdet_vjp),
        lowering=Decompose(_slogdet_parts),
        numerics="R",
        of_complex=lambda op, operands, attrs: _slogdet_parts(operands, attrs),
        domain=Domain(FLOATS, example=square_example),
    )
)


def slogdet(a: Any) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of determinants, of matrices [*B, n, n].

    A singular matrix has 0 and -inf; its gradient raises LinAlgError. Of complex matrices, whose n
    must be known, the sign is the determinant over its absolute value.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
    """
    return SlogdetResult(*apply_all(slogdet_op, squares(a, "slogdet")))


__all__ = [
    "SlogdetResult",
    "cholesky",
    "cholesky_op",
    "complex_lu_op",
    "det",
    "det_op",
    "lu",
    "lu_op",
    "slogdet",
    "slogdet_op",
]
