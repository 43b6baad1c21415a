"""Pseudo-inverses and least squares, by singular values.

The derivative of the pseudo-inverse is that of Golub and Pereyra, "The differentiation of
pseudo-inverses and nonlinear least squares problems whose variables separate" (1973), which holds
where the rank does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_all
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Decompose
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import lapack as meaning
from graphc.ops.arguments import switch
from graphc.ops.complex.matrices import complex_inverse
from graphc.ops.complex.parts import squared_size
from graphc.ops.declare import float_operands
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matmul import matmul
from graphc.ops.linalg.matrices import matrices, product, refuse, require_matrices
from graphc.ops.linalg.norms import largest, matrix_rank, tolerance
from graphc.ops.linalg.singular_values import svd_op, svdvals
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims, stretched, with_shape
from graphc.ops.reduce.axes import sum_


def _pinv_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs[:1], "pinv")
    *batch, rows, columns = inputs[0].shape
    return [inputs[0].with_shape((*batch, columns, rows))]


def _pinv_parts(inputs: Sequence[Value], attrs: Attributes) -> Value:
    a, limit = inputs
    u, values, vt = apply_all(svd_op, a, full=False)
    where = surface_function("where")
    keeps = values > expand_dims(limit, -1) * largest(values)
    values = where(keeps, 1.0 / where(keeps, values, 1.0), 0.0)
    return product(matrix_transpose(vt) * expand_dims(values, -2), matrix_transpose(u))


def _pinv_reference(a: Any, limit: Any) -> Any:
    k = min(a.shape[-2:])
    u, values, vt, info = meaning.each(lambda matrix: meaning.svd(matrix, k, k), a)
    refuse(info, "svd", meaning.NO_SINGULAR_VALUES)
    keeps = values > limit[..., None] * values.max(-1, keepdims=True, initial=0)
    inverse = np.where(keeps, 1 / np.where(keeps, values, values.dtype.type(1)), 0)
    scaled = np.swapaxes(vt, -1, -2) * inverse[..., None, :].astype(a.dtype)
    return np.matmul(scaled, np.swapaxes(u, -1, -2))


def _pinv_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """dP = −P dA P + P Pᵀ dAᵀ (1 − A P) + (1 − P A) dAᵀ Pᵀ P"""
    tangent = tangents[0]
    if tangent is None:
        return (None,)
    a, p = inputs[0], outputs[0]
    across = matrix_transpose(tangent)
    first = product(product(p, tangent), p)
    left = product(product(p, matrix_transpose(p)), across)
    right = product(product(across, matrix_transpose(p)), p)
    second = left - product(product(left, a), p)
    third = right - product(p, product(a, right))
    return (second + third - first,)


def _pinv_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return None, None
    a, p = inputs[0], outputs[0]
    across, other = matrix_transpose(cotangent), matrix_transpose(p)
    first = product(product(other, cotangent), other)
    left = product(product(across, p), other)
    right = product(product(other, p), across)
    second = left - product(a, product(p, left))
    third = right - product(product(right, p), a)
    return second + third - first, None


def _pinv_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    shape = ((2, 5, 3), (2, 3, 5))[int(rng.integers(2))]
    a = rng.uniform(-1, 1, shape)
    a[..., range(3), range(3)] += 2 + np.arange(3)
    return [a.astype(element.numpy), np.full(2, 1e-6, element.numpy)], {}


pinv_op = register(
    OpDef(
        name="pinv",
        doc="The pseudo-inverses [*B, n, m] of a stack [*B, m, n]; singular values up to the "
        "second input [*B] times the largest count as 0.",
        infer=_pinv_type,
        reference=_pinv_reference,
        derivative=Custom(_pinv_jvp, _pinv_vjp),
        lowering=Decompose(_pinv_parts),
        numerics="R",
        may_fail=True,
        of_complex=complex_inverse,
        domain=Domain(FLOATS, example=_pinv_example),
    )
)


def _inverse(value: Value, rtol: Any) -> Value:
    limit = tolerance(value, rtol)
    batch = value.shape[:-2]
    message = "pinv: tolerances {} of matrices {}"
    pairs = zip(reversed(limit.shape), reversed(batch), strict=False)
    guards = unproved([pair for pair in pairs if pair[0] != 1], message, limit.shape, value.shape)
    if limit.ndim > len(batch):
        raise ShapeError(
            f"pinv: tolerances {show(limit.shape)} of matrices {show(value.shape)}", where=caller()
        )
    return apply(pinv_op, value, stretched(limit, batch, guards))


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Value:
    """The pseudo-inverses [*B, n, m] of matrices [*B, m, n], by singular values.

    Args:
        a: the matrices.
        rcond: singular values up to so much times the largest count as 0; one, or one for each
            matrix [*B]. By default the larger of m and n times epsilon, as in the array API, where
            NumPy has 1e-15.
        hermitian: makes no difference.
        rtol: another name of ``rcond``.

    The derivative is that where the rank stays as it is.

    Raises:
        ShapeError: for fewer than two axes, and for both ``rcond`` and ``rtol``.
        LinAlgError: where LAPACK finds no singular values, as for NaN, when the graph runs.
    """
    switch(hermitian, "hermitian")
    if rcond is not None and rtol is not None:
        raise ShapeError("pinv takes rcond or rtol, not both", where=caller())
    return _inverse(matrices(a, "pinv"), rtol if rcond is None else rcond)


class LstsqResult(NamedTuple):
    """What ``lstsq`` gives."""

    x: Value
    residuals: Value
    rank: Value
    s: Value


def lstsq(a: Any, b: Any, rcond: Any = None) -> LstsqResult:
    """The x for which ``‖a x − b‖`` is least, the shortest of these; by singular values.

    Args:
        a: a matrix [m, n].
        b: a vector [m], or a matrix [m, k], whose columns are solved for.
        rcond: singular values up to so much times the largest count as 0; by default the larger of
            m and n times epsilon.

    Gives x [n] or [n, k], the sums of squares of what is left for each column, the rank and the
    singular values. NumPy leaves out the sums where the rank is below n or m is not above n; here
    they are there, as in JAX, since shapes depend on no number.

    Raises:
        ShapeError: for other shapes.
    """
    left, right = float_operands(a, b)
    if left.ndim != 2 or right.ndim not in (1, 2):
        raise ShapeError(
            f"lstsq of {show(left.shape)} and {show(right.shape)}",
            where=caller(),
            hint="it takes a matrix, and a vector or a matrix",
        )
    message = "lstsq of {} and {}"
    guards = unproved([(left.shape[0], right.shape[0])], message, left.shape, right.shape)
    if guards:
        # the rank and the singular values, too, are of systems that there are
        left = with_shape(left, left.shape, guards)
        right = with_shape(right, (left.shape[0], *right.shape[1:]), guards)
    x = matmul(_inverse(left, rcond), right)
    rest = matmul(left, x) - right
    sums = sum_(squared_size(rest), 0, right.ndim == 1)
    return LstsqResult(x, sums, matrix_rank(left, rtol=rcond), svdvals(left))


__all__ = ["LstsqResult", "lstsq", "pinv", "pinv_op"]
