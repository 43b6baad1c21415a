"""Eigenvalues and eigenvectors of general matrices: by LAPACK.

The operations give real and imaginary parts, which the surface joins. With P = V^-1 dA V the
derivative of eigenvalues is diag P (Giles (2008), 3.1), and that of eigenvectors is
V (P_ij / (w_j - w_i)), less what would change their lengths or make their largest components
complex, which LAPACK has real. Where two eigenvalues are equal, vectors have no derivative: it is
infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply_all
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import lapack as meaning
from graphc.ops.complex.parts import halves, joined
from graphc.ops.linalg.matrices import (
    adjoint,
    conjugate,
    diagonal_matrix,
    product,
    reciprocal_gaps,
    refuse,
    require_matrices,
    rows_and_columns,
    squares,
)
from graphc.ops.linalg.systems import inv
from graphc.ops.move.shape import expand_dims
from graphc.ops.move.triangles import diagonal
from graphc.ops.pointwise.logic import equal


class EigResult(NamedTuple):
    """What ``eig`` gives."""

    eigenvalues: Value
    eigenvectors: Value


def _values_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "eigvals", square=True)
    return [inputs[0].with_shape(inputs[0].shape[:-1])] * 2


def _eig_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "eig", square=True)
    return [*[inputs[0].with_shape(inputs[0].shape[:-1])] * 2, inputs[0], inputs[0]]


def _eig_reference(a: Any) -> Any:
    *parts, info = meaning.each(lambda matrix: meaning.eig(matrix, True), a)
    refuse(info, "eig", meaning.NO_EIGENVALUES)
    return tuple(parts)


def _values_reference(a: Any) -> Any:
    re, im, _, _, info = meaning.each(lambda matrix: meaning.eig(matrix, False), a)
    refuse(info, "eigvals", meaning.NO_EIGENVALUES)
    return re, im


def _largest(vectors: Value) -> tuple[Value, Value]:
    """Where the largest component of each column is, 1 there and 0 elsewhere, and its real part."""
    re, im = halves(vectors)
    rows = surface_function("arange")(vectors.shape[-2])
    place = surface_function("argmax")(re * re + im * im, -2)
    is_largest = equal(expand_dims(rows, -1), expand_dims(place, -2))
    mask = surface_function("astype")(is_largest, re.dtype)
    return mask, _of_columns(mask * re)


def _of_columns(value: Value) -> Value:
    """The sum of each column, as a row."""
    result: Value = surface_function("sum")(value, axis=-2, keepdims=True)
    return result


def _normed(vectors: Value, turned: Value) -> Value:
    """A change of eigenvectors, less what changes their lengths and phases."""
    (a, b), (c, d) = halves(vectors), halves(turned)
    mask, largest = _largest(vectors)
    length, phase = _of_columns(a * c + b * d), _of_columns(mask * d) / largest
    return turned - vectors * joined(length, phase)


def _normed_back(vectors: Value, cotangent: Value) -> Value:
    """The transpose of ``_normed``, of real and imaginary parts together."""
    (a, b), (c, d) = halves(vectors), halves(cotangent)
    mask, largest = _largest(vectors)
    length, phase = _of_columns(a * c + b * d), _of_columns(c * b - d * a)
    across = mask * (phase / largest)
    return cotangent - vectors * length + joined(across * 0, across)


def _eig_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (tangent,) = tangents
    if tangent is None:
        return None, None, None, None
    values, vectors = joined(*outputs[:2]), joined(*outputs[2:])
    inner = _in_basis(tangent, vectors)
    change = _normed(vectors, product(vectors, reciprocal_gaps(values) * inner))
    return *halves(diagonal(inner, 0, -2, -1)), *halves(change)


def _eig_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    values, vectors = joined(*outputs[:2]), joined(*outputs[2:])
    of_values, of_vectors = _both(cotangents[:2]), _both(cotangents[2:])
    inner = None
    if of_values is not None:
        inner = diagonal_matrix(of_values)
    if of_vectors is not None:
        projected = product(adjoint(vectors), _normed_back(vectors, of_vectors))
        further = conjugate(reciprocal_gaps(values)) * projected
        inner = further if inner is None else inner + further
    return (None if inner is None else _out_of_basis(inner, vectors),)


def _both(parts: Sequence[Value | None]) -> Value | None:
    """Cotangents of parts as one complex number; what is missing is 0."""
    re, im = parts
    some = re if im is None else im
    if some is None:
        return None
    return joined(some * 0 if re is None else re, some * 0 if im is None else im)


def _in_basis(tangent: Value, vectors: Value) -> Value:
    """V⁻¹ dA V"""
    return product(product(inv(vectors), joined(tangent, tangent * 0)), vectors)


def _out_of_basis(inner: Value, vectors: Value) -> Value:
    """Re(V⁻ᴴ M Vᴴ)"""
    whole = product(product(adjoint(inv(vectors)), inner), adjoint(vectors))
    return halves(whole)[0]


def _vectors(value: Value) -> Value:
    return joined(*apply_all(eig_op, value)[2:])


def _values_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (tangent,) = tangents
    if tangent is None:
        return None, None
    return halves(diagonal(_in_basis(tangent, _vectors(inputs[0])), 0, -2, -1))


def _values_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    of_values = _both(cotangents)
    if of_values is None:
        return (None,)
    vectors = _vectors(inputs[0])
    return (_out_of_basis(diagonal_matrix(of_values), vectors),)


def _example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    """Some eigenvalues are real, some are pairs, and all are apart."""
    a = rng.uniform(-0.2, 0.2, (3, 4, 4))
    for k in range(4):
        a[:, k, k] += 3.0 * k
    a[:, 0, 1] += 2.0
    a[:, 1, 0] -= 6.0
    return [a.astype(element.numpy)], {}


eig_op = register(
    OpDef(
        name="eig",
        doc="Of general matrices [*B, n, n] the real and the imaginary parts of the eigenvalues, "
        "and those of the eigenvectors, as columns. By LAPACK.",
        infer=_eig_type,
        reference=_eig_reference,
        derivative=Custom(_eig_jvp, _eig_vjp),
        lowering=Native("eig", (2, 1, 1, 2, 2), rows_and_columns),
        numerics="R",
        may_fail=True,
        domain=Domain(FLOATS, example=_example),
    )
)
eigvals_op = register(
    OpDef(
        name="eigvals",
        doc="The real and the imaginary parts of the eigenvalues of general matrices; as eig.",
        infer=_values_type,
        reference=_values_reference,
        derivative=Custom(_values_jvp, _values_vjp),
        lowering=Native("eigvals", (2, 1, 1), rows_and_columns),
        numerics="R",
        may_fail=True,
        domain=Domain(FLOATS, example=_example),
    )
)


def _real_squares(a: Any, name: str) -> Value:
    value = squares(a, name)
    if value.dtype.is_complex:
        raise DTypeError(
            f"{name} of {value.dtype}",
            where=caller(),
            hint="it takes real matrices; eigh takes Hermitian ones",
        )
    return value


def eig(a: Any) -> EigResult:
    """The eigenvalues and the eigenvectors, as columns, of general real matrices; complex.

    Args:
        a: matrices [*B, n, n].

    Eigenvalues are in LAPACK's order (``geev``), the two of a pair one behind the other, the one
    with the positive imaginary part first. Eigenvectors have length 1, and their largest component
    is real. Results are complex even where all are real numbers, which NumPy gives as such.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
        DTypeError: for complex matrices.
        LinAlgError: where LAPACK finds no eigenvalues, as for NaN, when the graph runs.
    """
    re, im, u, v = apply_all(eig_op, _real_squares(a, "eig"))
    return EigResult(joined(re, im), joined(u, v))


def eigvals(a: Any) -> Value:
    """The eigenvalues of general real matrices [*B, n], complex, in LAPACK's order; see ``eig``."""
    return joined(*apply_all(eigvals_op, _real_squares(a, "eigvals")))


__all__ = ["EigResult", "eig", "eig_op", "eigvals", "eigvals_op"]
