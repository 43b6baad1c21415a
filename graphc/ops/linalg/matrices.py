"""What functions of square matrices share: their operands, products and derivatives in short form.

Invariant: operands of core ops are stacks of matrices [*B, m, n] with equal batch dims, of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, LinAlgError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.dims.expressions import Dim, equal
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.complex.parts import joined
from graphc.ops.convert import as_value
from graphc.ops.declare import float_operand
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matmul import contracted
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims, with_shape
from graphc.ops.move.triangles import diagonal, tril


def matrices(x: Any, name: str) -> Value:
    """A stack of matrices of floats.

    Raises:
        ShapeError: for fewer than two axes.
    """
    value = float_operand(as_value(x))
    if value.ndim < 2:
        raise ShapeError(
            f"{name} of shape {show(value.shape)}",
            where=caller(),
            hint="it takes a matrix, or a stack of them along the last two axes",
        )
    return value


def squares(x: Any, name: str) -> Value:
    """A stack of square matrices of floats.

    Raises:
        ShapeError: for other ones; at run time where sizes are unknown.
    """
    value = matrices(x, name)
    rows, columns = value.shape[-2:]
    message = f"{name}: the matrices of {{}} are not square"
    guards = unproved([(rows, columns)], message, value.shape)
    return with_shape(value, (*value.shape[:-1], rows), guards) if guards else value


def require_matrices(inputs: Sequence[TensorType], name: str, *, square: bool = False) -> None:
    """Checks the operands of a core op.

    Raises:
        DTypeError: for what are no floats of one dtype.
        ShapeError: for what are no matrices, or the first no square ones.
    """
    first = inputs[0]
    for operand in inputs:
        if operand.dtype not in FLOATS or operand.dtype is not first.dtype:
            raise DTypeError(f"{name} takes floats of one dtype, not {operand.dtype}")
        if operand.rank < 2:
            raise ShapeError(f"{name} of shape {show(operand.shape)}: it takes matrices")
        if operand.shape[:-2] != first.shape[:-2]:
            raise ShapeError(f"{name} of {show(first.shape)} and {show(operand.shape)}")
    if square and equal(*first.shape[-2:]) is False:
        raise ShapeError(f"{name} of {show(first.shape)}: the matrices are not square")


def complex_of_parts(re: Any, im: Any) -> Any:
    """The complex array of two real ones."""
    a = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
    a.real, a.imag = re, im
    return a


def parts_of_complex(a: Any) -> tuple[Any, Any]:
    """Its parts, as arrays of their own."""
    return a.real.copy(), a.imag.copy()


def refuse(bad: Any, name: str, problem: str) -> None:
    """The error of references for the first matrix that is bad.

    Raises:
        LinAlgError: if one is.
    """
    failing = np.flatnonzero(bad)
    if failing.size:
        raise LinAlgError(f"{name}: matrix {failing[0]} of {np.size(bad)} {problem}")


def full_rank(rng: Any, element: DType, *shape: int) -> Any:
    """Matrices whose columns or rows are far from depending on each other, as samples."""
    matrix = rng.uniform(-1, 1, shape)
    k = min(shape[-2:])
    matrix[..., range(k), range(k)] += 2 + np.arange(k)
    return matrix.astype(element.numpy)


def product(a: Value, b: Value) -> Value:
    """a b"""
    return contracted(a, b)


def adjoint(a: Value) -> Value:
    """aᴴ, the transpose of the conjugate."""
    return matrix_transpose(conjugate(a))


def conjugate(a: Value) -> Value:
    """The conjugate of complex numbers; real ones as they are."""
    result: Value = surface_function("conj")(a)
    return result


def symmetric(a: Value) -> Value:
    """The symmetric matrices whose lower triangles are those of ``a``, or the Hermitian ones."""
    below = tril(a, -1)
    if not a.dtype.is_complex:
        return tril(a) + matrix_transpose(below)
    return below + adjoint(below) + diagonal_matrix(real_diagonal(a))


def reciprocals(gaps: Value) -> Value:
    """1 / gaps off the diagonal, 0 on it, where gaps are 0."""
    ones = surface_function("eye")(gaps.shape[-1], dtype=gaps.dtype)
    result: Value = 1.0 / (gaps + ones) - ones
    return result


def reciprocal_gaps(values: Value) -> Value:
    """1 / (w[j] − w[i]) off the diagonal, 0 on it."""
    return reciprocals(expand_dims(values, -2) - expand_dims(values, -1))


def rows_and_columns(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    """What a native routine is told of the matrices of the first operand."""
    return inputs[0].shape[-2:]


def diagonal_matrix(values: Value) -> Value:
    """Square matrices with these diagonals, and 0 elsewhere."""
    ones = surface_function("eye")(values.shape[-1], dtype=values.dtype)
    result: Value = expand_dims(values, -1) * ones
    return result


def real_diagonal(a: Value) -> Value:
    result: Value = surface_function("real")(diagonal(a, 0, -2, -1))
    return result


def imaginary_diagonal(a: Value) -> Value:
    """What is imaginary on the diagonal of complex square matrices, and 0 elsewhere."""
    ones = surface_function("eye")(a.shape[-1], dtype=a.dtype.part)
    half = surface_function("imag")(a) * ones
    return joined(surface_function("zeros_like")(half), half)


def parts_type(inputs: Sequence[TensorType], name: str, *, square: bool = False) -> TensorType:
    """The type of both parts of complex matrices, which must be one.

    Raises:
        DTypeError, ShapeError: as ``require_matrices``, and for parts that differ.
    """
    require_matrices(inputs, name, square=square)
    re, im = inputs
    if re.shape != im.shape:
        raise ShapeError(f"{name} of parts {show(re.shape)} and {show(im.shape)}")
    return re


def lower_half(a: Value) -> Value:
    """What is below the diagonal, and half of what is on it."""
    below: Value = (tril(a) + tril(a, -1)) * 0.5
    return below


__all__ = [
    "adjoint",
    "complex_of_parts",
    "conjugate",
    "diagonal_matrix",
    "full_rank",
    "imaginary_diagonal",
    "lower_half",
    "matrices",
    "parts_of_complex",
    "parts_type",
    "product",
    "real_diagonal",
    "reciprocals",
    "refuse",
    "require_matrices",
    "squares",
    "symmetric",
]
