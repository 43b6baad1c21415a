"""Orthogonal columns and an upper triangle: ``qr``, by LAPACK. Its derivative is that of JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphc.base.errors import GradientError, ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply_all
from graphc.ir.dims.expressions import Dim, dim_min, equal
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import lapack as meaning
from graphc.ops.complex.pairs import of_pairs
from graphc.ops.complex.parts import halves, joined
from graphc.ops.linalg.matrices import (
    adjoint,
    complex_of_parts,
    conjugate,
    full_rank,
    imaginary_diagonal,
    matrices,
    parts_of_complex,
    parts_type,
    product,
    require_matrices,
    symmetric,
)
from graphc.ops.linalg.systems import triangle_solved
from graphc.ops.move.joining import concatenate
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.triangles import tril


class QRResult(NamedTuple):
    """What ``qr`` gives."""

    Q: Value
    R: Value


def _kept(shape: Sequence[Dim], attrs: Attributes) -> Dim:
    return shape[-2] if attrs["complete"] else dim_min(*shape[-2:])


def _qr_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "qr")
    (a,) = inputs
    *batch, rows, columns = a.shape
    kept = _kept(a.shape, attrs)
    return [a.with_shape((*batch, rows, kept)), a.with_shape((*batch, kept, columns))]


def _qr_reference(a: Any, complete: bool) -> Any:
    columns = a.shape[-2] if complete else min(a.shape[-2:])
    return meaning.each(lambda matrix: meaning.qr(matrix, columns), a)


def _qr_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    shape = inputs[0].shape
    return (*shape[-2:], _kept(shape, attrs))


def _require_reduced(value: Value, attrs: Attributes) -> bool:
    """Whether there are at least as many rows as columns.

    Raises:
        GradientError: for a square Q that the columns do not determine, and for unknown sizes.
    """
    rows, columns = value.shape[-2:]
    wide = equal(dim_min(rows, columns), rows)
    if equal(rows, columns):
        return True
    if attrs["complete"] and wide is not True:
        raise GradientError(
            "qr(mode='complete') of more rows than columns has no derivative",
            where=caller(),
            hint="the last columns of Q are not determined; use mode='reduced'",
        )
    if wide is None:
        raise GradientError(
            "qr of matrices of unknown size: whether they are high or wide must be known",
            where=caller(),
            hint="give the placeholder the sizes of the last two axes",
        )
    return not wide


def _over_r(a: Value, r: Value) -> Value:
    """a R⁻¹"""
    return matrix_transpose(triangle_solved(r, matrix_transpose(a), lower=False, transposed=True))


def _qr_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """Of a high matrix, with X = dA R⁻¹ and Ω the antisymmetric matrix with the lower part of Qᵀ X:
    dQ = Q (Ω − Qᵀ X) + X and dR = (Qᵀ X − Ω) R. A wide one's first columns give Q."""
    (tangent,) = tangents
    if tangent is None:
        return None, None
    q, r = outputs
    is_high = _require_reduced(inputs[0], attrs)
    rows = inputs[0].shape[-2]
    square, left = (r, tangent) if is_high else (r[..., :rows], tangent[..., :rows])
    over = _over_r(left, square)
    inner = product(adjoint(q), over)
    below = tril(inner, -1)
    turn = below - adjoint(below)
    if inner.dtype.is_complex:
        # phases of the diagonal turn too, since that of R stays real
        turn = turn + imaginary_diagonal(inner)
    of_q = product(q, turn - inner) + over
    of_r = product(inner - turn, square)
    if not is_high:
        rest = tangent[..., rows:] - product(of_q, r[..., rows:])
        of_r = concatenate([of_r, product(adjoint(q), rest)], -1)
    return of_q, of_r


def _qr_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """Of a high matrix A' = (Q' + Q (tril M + tril(M, −1)ᵀ)) R⁻ᵀ with M = R R'ᵀ − Q'ᵀ Q."""
    if cotangents[0] is None and cotangents[1] is None:
        return (None,)
    zeros = surface_function("zeros_like")
    q, r = outputs
    of_q, of_r = (
        zeros(value) if cotangent is None else cotangent
        for cotangent, value in zip(cotangents, outputs, strict=True)
    )
    is_high = _require_reduced(inputs[0], attrs)
    if is_high:
        return (_high_vjp(q, r, of_q, of_r),)
    rows = inputs[0].shape[-2]
    rest = of_r[..., rows:]
    of_q = of_q + conjugate(product(inputs[0][..., rows:], matrix_transpose(rest)))
    first = _high_vjp(q, r[..., :rows], of_q, of_r[..., :rows])
    return (concatenate([first, product(conjugate(q), rest)], -1),)


def _high_vjp(q: Value, r: Value, of_q: Value, of_r: Value) -> Value:
    moment = product(r, matrix_transpose(of_r)) - product(matrix_transpose(of_q), q)
    right = of_q + conjugate(product(q, symmetric(moment)))
    # (right) R⁻ᵀ
    return matrix_transpose(triangle_solved(r, matrix_transpose(right), lower=False))


def _qr_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    rows, columns = ((5, 3), (3, 5), (4, 4))[int(rng.integers(3))]
    return [full_rank(rng, element, 2, rows, columns)], {"complete": rows == 4}


def _complex_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    q, r = _qr_type([parts_type(inputs, "qr")], attrs)
    return [q, q, r, r]


def _complex_reference(re: Any, im: Any, complete: bool) -> Any:
    q, r = _qr_reference(complex_of_parts(re, im), complete)
    return (*parts_of_complex(q), *parts_of_complex(r))


def _complex_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    (re,), attrs = _qr_example(rng, element)
    return [re, rng.uniform(-0.2, 0.2, re.shape).astype(element.numpy)], attrs


complex_qr_op = register(
    OpDef(
        name="complex_qr",
        doc="qr of complex matrices, given as their real and imaginary parts, and so are Q and R, "
        "whose diagonal is real. By LAPACK.",
        infer=_complex_type,
        reference=_complex_reference,
        derivative=of_pairs(_qr_jvp, _qr_vjp, (True, True)),
        lowering=Native("complex_qr", (2, 2, 2, 2, 2, 2), _qr_numbers),
        numerics="R",
        domain=Domain(FLOATS, example=_complex_example),
    )
)


def _of_both_parts(
    op: OpDef, operands: Sequence[Value], attrs: Attributes
) -> tuple[Value, Value]:
    u, v, x, y = apply_all(complex_qr_op, *halves(operands[0]), **attrs)
    return joined(u, v), joined(x, y)


qr_op = register(
    OpDef(
        name="qr",
        doc="Of a stack [*B, m, n] the orthonormal columns Q and the upper triangle R with a = Q "
        "R; as many columns as the smaller side has, or m if attrs complete. By LAPACK.",
        infer=_qr_type,
        reference=_qr_reference,
        derivative=Custom(_qr_jvp, _qr_vjp),
        lowering=Native("qr", (2, 2, 2), _qr_numbers),
        numerics="R",
        of_complex=_of_both_parts,
        domain=Domain(FLOATS, example=_qr_example),
    )
)


def qr(a: Any, mode: str = "reduced") -> QRResult | Value:
    """Q with orthonormal columns and the upper triangle R, ``a == Q @ R``, by LAPACK.

    Of complex matrices the diagonal of R is real.

    Args:
        a: matrices [*B, m, n]; k is the smaller of m and n.
        mode: "reduced" for Q [*B, m, k] and R [*B, k, n], "complete" for [*B, m, m] and [*B, m, n],
            "r" for R alone.

    Raises:
        ShapeError: for fewer than two axes, and for a mode that is none of these.
        UnsupportedError: for the mode "raw".
        GradientError: for the derivative where "complete" has columns that are not determined.
    """
    if mode == "raw":
        raise UnsupportedError("qr(mode='raw')", where=caller(), hint="Q and R are there")
    if not isinstance(mode, str) or mode not in ("reduced", "complete", "r"):
        raise ShapeError(
            f"mode is {shown(mode)}", where=caller(), hint='"reduced", "complete" or "r"'
        )
    q, r = apply_all(qr_op, matrices(a, "qr"), complete=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


__all__ = ["QRResult", "qr", "qr_op"]
