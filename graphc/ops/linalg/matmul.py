"""Matrix products.

Core op: ``contract``, the batched product of matrices with equal batch dims, either operand read
transposed. Invariant: all other products are reshapes, broadcasts and (for a vector on the right,
which is summed like any row) multiply and sum around it, so that their gradients follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes, SharedAttributes
from graphc.ir.builder import apply_to, operation_text
from graphc.ir.dims.expressions import equal, product
from graphc.ir.dtypes import ALL, DType
from graphc.ir.lowering import Contraction
from graphc.ir.op import Domain, Multilinear, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value
from graphc.ops.complex.reductions import complex_contraction
from graphc.ops.convert import common_shape, promoted
from graphc.ops.guards import Guards, check_size, guarded, show, unproved
from graphc.ops.move.shape import moveaxis, ravel, sample, stretched, with_shape


def _swapped(shape: Shape) -> Shape:
    """The shape of a stack of matrices, each transposed."""
    return (*shape[:-2], shape[-1], shape[-2])


def _contract_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    a, b = inputs
    if not 2 <= len(a.shape) == len(b.shape):
        raise ShapeError(f"contract of {show(a.shape)} and {show(b.shape)}: the ranks must agree")
    left = _swapped(a.shape) if attrs["transpose_a"] else a.shape
    right = _swapped(b.shape) if attrs["transpose_b"] else b.shape
    alike = equal(left[-1], right[-2])
    if len(left) > 2:
        for one, other in zip(left[:-2], right[:-2], strict=True):
            alike = alike is not False and equal(one, other)
    if alike is False:
        raise ShapeError(f"shapes {show(left)} and {show(right)} do not multiply as matrices")
    shape = (*left[:-1], right[-1])
    check_size(shape, [a.shape, b.shape])
    return [a if shape == a.shape else a.with_shape(shape)]


def _contract_reference(
    a: Any, b: Any, *, transpose_a: bool, transpose_b: bool, guards: Any = ()
) -> Any:
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    return np.matmul(left, right)


def _transpose_left(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Value:
    """c = A·B gives A' = c'·Bᵀ, and its transpose where A was stored transposed."""
    a, b = inputs
    stored: bool = attrs["transpose_b"]
    if attrs["transpose_a"]:
        result = contracted(b, cotangent, transpose_a=stored, transpose_b=True)
    else:
        result = contracted(cotangent, b, transpose_b=not stored)
    return with_shape(result, a.shape)


def _transpose_right(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Value:
    """c = A·B gives B' = Aᵀ·c', and its transpose where B was stored transposed."""
    a, b = inputs
    stored: bool = attrs["transpose_a"]
    if attrs["transpose_b"]:
        result = contracted(cotangent, a, transpose_a=True, transpose_b=stored)
    else:
        result = contracted(a, cotangent, transpose_a=not stored)
    return with_shape(result, b.shape)


def _contract_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    arrays = [sample(random, dtype, 2, 4, 3), sample(random, dtype, 2, 4, 5)]
    return arrays, {"transpose_a": True, "transpose_b": False}


contract_op = register(
    OpDef(
        name="contract",
        doc=(
            "Batched matrix product of a [*B, m, k] and b [*B, k, n]; the flags say that an "
            "operand is stored with its last two axes exchanged. Integers wrap; bools are joined "
            "by or of ands."
        ),
        infer=_contract_type,
        reference=_contract_reference,
        derivative=Multilinear((_transpose_left, _transpose_right)),
        lowering=Contraction(),
        numerics="R",
        domain=Domain(dtypes=ALL, example=_contract_example),
        of_complex=complex_contraction,
    )
)


_FLAGS: Mapping[tuple[bool, bool], Attributes] = {
    (a, b): SharedAttributes(transpose_a=a, transpose_b=b)
    for a in (False, True)
    for b in (False, True)
}
"""The attributes of products without guards."""


def contracted(
    a: Value,
    b: Value,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    guards: Guards = (),
) -> Value:
    """The product of two stacks of matrices, [*B, m, k] by [*B, k, n]."""
    attrs = _FLAGS[transpose_a, transpose_b]
    if guards:
        attrs = {**attrs, **guarded(guards)}
    return apply_to(contract_op, (a, b), attrs)


@surface
def matmul(a: Any, b: Any) -> Value:
    """The matrix product by NumPy's rules.

    A vector counts as a row on the left and a column on the right; leading dims broadcast.
    Shapes: [*B, m, k] by [*C, k, n] gives [*broadcast(B, C), m, n]. Any dtype, promoted.

    Raises:
        ShapeError: naming both shapes, for scalars and for dims proved not to fit; dims that cannot
            be compared now are compared when the graph runs.
    """
    left, right = promoted(a, b)
    try:
        return _product(left, right)
    except ShapeError as error:
        shown = [
            given if isinstance(given, Value) else value
            for given, value in ((a, left), (b, right))
        ]
        error.node = operation_text("matmul", shown, {})
        raise


def _product(left: Value, right: Value) -> Value:
    """``matmul`` of values of one dtype."""
    rows, columns = left.type.shape, right.type.shape
    if not rows or not columns:
        raise _no_product(left, right, "multiply by a scalar with *")
    inner = (rows[-1], columns[max(len(columns) - 2, 0)])
    same = equal(*inner)
    if same is False:
        axis = "only" if right.ndim == 1 else "last but one"
        raise _no_product(
            left,
            right,
            f"the left operand's last axis ({inner[0]}) must equal the right operand's "
            f"{axis} axis ({inner[1]}); .T transposes",
        )
    guards: Guards = ()
    if not same:
        message = "shapes {} and {} do not multiply as matrices"
        guards = unproved([inner], message, left.shape, right.shape)
    if len(rows) == len(columns) == 2:
        return contracted(left, right, guards=guards)
    if right.ndim == 1 and left.dtype.is_inexact:
        return _times_vector(left, right, guards)
    if left.ndim == 1:
        row = matmul_of_matrices(with_shape(left, (1, *left.shape), ()), _column(right), guards)
        result = (*row.shape[:-2], row.shape[-1])
    else:
        row = matmul_of_matrices(left, _column(right), guards)
        result = row.shape
    if right.ndim == 1:
        result = result[:-1]
    return with_shape(row, result, ())


def _no_product(left: Value, right: Value, hint: str) -> ShapeError:
    return ShapeError(
        f"shapes {show(left.shape)} and {show(right.shape)} do not multiply as matrices",
        where=caller(),
        hint=hint,
    )


def _column(value: Value) -> Value:
    return with_shape(value, (*value.shape, 1), ()) if value.ndim == 1 else value


def _times_vector(left: Value, right: Value, guards: Guards) -> Value:
    if guards:
        right = with_shape(right, (left.shape[-1],), guards)
    result: Value = surface_function("sum")(left * right, axis=-1)
    return result


def matmul_of_matrices(left: Value, right: Value, guards: Guards) -> Value:
    """[*B, m, k] by [*C, k, n]; the guards compare the two k."""
    if right.ndim == 2:
        # All rows of all matrices on the left meet the same matrix: one large product.
        rows = with_shape(left, (product(left.shape[:-1]), left.shape[-1]), ())
        result = contracted(rows, right, guards=guards)
        return with_shape(result, (*left.shape[:-1], right.shape[-1]), ())
    batch, fit = common_shape(
        [left.shape[:-2], right.shape[:-2]],
        "shapes {} and {} do not multiply: the leading dims do not broadcast",
        left.shape,
        right.shape,
        hint="the leading dims, all but the last two, must be equal or 1",
    )
    guards += fit
    left = stretched(left, (*batch, *left.shape[-2:]), guards)
    right = stretched(right, (*batch, *right.shape[-2:]), guards)
    return contracted(left, right, guards=guards)


@surface
def outer(a: Any, b: Any) -> Value:
    """``out[i, j] = a[i] * b[j]`` of two vectors; other tensors are flattened.

    Raises:
        ShapeError: if the result would have more elements than an int64 counts.
    """
    left, right = (ravel(operand) for operand in promoted(a, b))
    rows, columns = left.shape[0], right.shape[0]
    try:
        check_size((rows, columns), [left.shape, right.shape])
    except ShapeError as error:
        error.where = caller()
        raise
    return with_shape(left, (rows, 1), ()) * with_shape(right, (1, columns), ())


@surface
def dot(a: Any, b: Any) -> Value:
    """NumPy's dot: the last axis of ``a`` with the last but one (or only one) of ``b``.

    A scalar multiplies; up to rank 2 it is ``matmul``.

    Raises:
        ShapeError: naming both shapes, for dims proved not to fit.
    """
    left, right = promoted(a, b)
    if left.ndim == 0 or right.ndim == 0:
        scaled: Value = left * right
        return scaled
    if right.ndim <= 2:
        return matmul(left, right)
    depth = right.shape[-2]
    message = "shapes {} and {} do not fit for dot"
    guards = unproved([(left.shape[-1], depth)], message, left.shape, right.shape)
    others = (*right.shape[:-2], right.shape[-1])
    flat = with_shape(moveaxis(right, -2, 0), (depth, product(others)), ())
    rows = with_shape(left, (product(left.shape[:-1]), left.shape[-1]), ())
    return with_shape(contracted(rows, flat, guards=guards), (*left.shape[:-1], *others), ())
