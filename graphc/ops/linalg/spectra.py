"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices: by LAPACK.

Derivatives are those of Giles (2008), 3.1, in which a vector of a Hermitian matrix keeps its phase.
Where two eigenvalues are equal, vectors have no derivative: it is infinite or NaN, and that of the
values alone is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_all
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import lapack as meaning
from graphc.ops.complex.matrices import complex_eigenvalues
from graphc.ops.complex.pairs import of_pairs
from graphc.ops.complex.parts import halves, joined
from graphc.ops.derive import of_one_input
from graphc.ops.linalg.matrices import (
    adjoint,
    complex_of_parts,
    conjugate,
    lower_half,
    parts_of_complex,
    parts_type,
    product,
    real_diagonal,
    reciprocal_gaps,
    refuse,
    require_matrices,
    rows_and_columns,
    squares,
    symmetric,
)
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims
from graphc.ops.move.triangles import diagonal


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


def _eigh_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """With P = Vᴴ dA V: dw = diag P and dV = V (F ∘ P)."""
    (tangent,) = tangents
    if tangent is None:
        return None, None
    values, vectors = outputs
    inner = _in_basis(vectors, tangent)
    return real_diagonal(inner), product(vectors, reciprocal_gaps(values) * inner)


def _eigh_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """M = conj(V) (diag w' + F ∘ (Vᵀ V')) Vᵀ, of whose two halves each element has its own."""
    of_values, of_vectors = cotangents
    values, vectors = outputs
    across = conjugate(vectors)
    moved = None if of_values is None else across * expand_dims(of_values, -2)
    if of_vectors is not None:
        turn = reciprocal_gaps(values) * product(matrix_transpose(vectors), of_vectors)
        turned = product(across, turn)
        moved = turned if moved is None else moved + turned
    return (None if moved is None else _out_of_basis(vectors, moved),)


def _in_basis(vectors: Value, tangent: Value) -> Value:
    """Vᴴ dA V"""
    return product(product(adjoint(vectors), symmetric(tangent)), vectors)


def _out_of_basis(vectors: Value, moved: Value) -> Value:
    """M Vᵀ on and below the diagonal, to which what is above it adds."""
    whole = product(moved, matrix_transpose(vectors))
    return lower_half(whole + adjoint(whole))


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


def _complex_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    part = parts_type(inputs, "eigh", square=True)
    return [*_eigh_type([part], attrs), part]


def _complex_reference(re: Any, im: Any) -> Any:
    values, vectors = _eigh_reference(complex_of_parts(re, im))
    return (values, *parts_of_complex(vectors))


def _complex_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    (re,), attrs = _symmetric_example(rng, element)
    return [re, rng.uniform(-0.5, 0.5, re.shape).astype(element.numpy)], attrs


complex_eigh_op = register(
    OpDef(
        name="complex_eigh",
        doc="eigh of Hermitian matrices, given as their real and imaginary parts, and so are the "
        "vectors. By LAPACK.",
        infer=_complex_type,
        reference=_complex_reference,
        derivative=of_pairs(_eigh_jvp, _eigh_vjp, (False, True)),
        lowering=Native("complex_eigh", (2, 2, 1, 2, 2), rows_and_columns),
        numerics="R",
        may_fail=True,
        domain=Domain(FLOATS, example=_complex_example),
    )
)


def _of_both_parts(
    op: OpDef, operands: Sequence[Value], attrs: Attributes
) -> tuple[Value, Value]:
    values, re, im = apply_all(complex_eigh_op, *halves(operands[0]))
    return values, joined(re, im)


eigh_op = register(
    OpDef(
        name="eigh",
        doc="The eigenvalues in ascending order and the eigenvectors, as columns, of symmetric "
        "matrices [*B, n, n], of which what is above the diagonal is not read. By LAPACK.",
        infer=_eigh_type,
        reference=_eigh_reference,
        derivative=Custom(_eigh_jvp, _eigh_vjp),
        lowering=Native("eigh", (2, 1, 2), rows_and_columns),
        numerics="R",
        may_fail=True,
        of_complex=_of_both_parts,
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
        lowering=Native("eigvalsh", (2, 1), rows_and_columns),
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
    return adjoint(value) if triangle.upper() == "U" else value


def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """The eigenvalues in ascending order, and the eigenvectors as columns, of symmetric matrices,
    or of complex Hermitian ones.

    Args:
        a: matrices [*B, n, n].
        UPLO: whether the lower ("L") or the upper triangle ("U") is read; the gradient goes to it.

    Signs of eigenvectors are those of LAPACK's ``syevd``, phases those of ``heevd``; derivatives
    leave the phase of each vector as it is.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
        LinAlgError: where LAPACK finds no eigenvalues, when the graph runs.
    """
    return EighResult(*apply_all(eigh_op, _triangle(a, UPLO, "eigh")))


def eigvalsh(a: Any, UPLO: str = "L") -> Value:
    """The eigenvalues of symmetric matrices in ascending order [*B, n]; see ``eigh``."""
    return apply(eigvalsh_op, _triangle(a, UPLO, "eigvalsh"))


__all__ = [
    "EighResult",
    "complex_eigh_op",
    "eigh",
    "eigh_op",
    "eigvalsh",
    "eigvalsh_op",
]
