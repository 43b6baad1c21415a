"""Systems of equations: ``solve``, ``solve_triangular`` and ``inv``.

Derivatives are those of Giles, "An extended collection of matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008), 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, InferTypes, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines import matrices as meaning
from graphc.ops.arguments import switch
from graphc.ops.complex.matrices import complex_inverse, complex_system, complex_triangle
from graphc.ops.convert import common_shape
from graphc.ops.declare import float_operands
from graphc.ops.derive import of_one_input
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matrices import product, refuse, require_matrices, squares
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import stretched, with_shape
from graphc.ops.move.triangles import tril, triu

# --- general systems -----------------------------------------------------------------------------


def _system_type(name: str) -> InferTypes:
    """The type rule of an operation that gives the x of a system: x is like its right side."""

    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        require_matrices(inputs, name, square=True)
        a, b = inputs
        if equal(a.shape[-1], b.shape[-2]) is False:
            raise ShapeError(f"{name} of {show(a.shape)} and {show(b.shape)}")
        return [b]

    return infer


def _system_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return inputs[1].shape[-2:]


def _solve_reference(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        x, bad = meaning.solved(a, b)
    refuse(bad, "solve", meaning.SINGULAR)
    return x


def _solve_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """dx = A⁻¹ (db − dA x)"""
    da, db = tangents
    right = db
    if da is not None:
        moved = product(da, outputs[0])
        right = -moved if db is None else db - moved
    return (None if right is None else apply(solve_op, inputs[0], right),)


def _solve_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    """b' = A⁻ᵀ x', A' = −b' xᵀ"""
    (cotangent,) = cotangents
    if cotangent is None:
        return None, None
    of_b = apply(solve_op, matrix_transpose(inputs[0]), cotangent)
    return -product(of_b, matrix_transpose(outputs[0])), of_b


def regular(rng: Any, element: DType, *shape: int) -> Any:
    """Square matrices that are far from singular, with pivots that no small difference changes."""
    n = shape[-1]
    matrices = rng.uniform(-1, 1, shape) + 3 * np.eye(n)[rng.permutation(n)]
    return matrices.astype(element.numpy)


def _solve_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return [regular(rng, element, 3, 4, 4), rng.normal(size=(3, 4, 2)).astype(element.numpy)], {}


solve_op = register(
    OpDef(
        name="solve",
        doc="The x with a x = b, of stacks of matrices [*B, n, n] and [*B, n, m], by elimination "
        "with partial pivoting; a singular matrix is an error.",
        infer=_system_type("solve"),
        reference=_solve_reference,
        derivative=Custom(_solve_jvp, _solve_vjp),
        lowering=Native("solve", (2, 2, 2), _system_numbers),
        numerics="R",
        may_fail=True,
        any_precision=True,
        of_complex=complex_system,
        domain=Domain(FLOATS, example=_solve_example),
    )
)


# --- triangles -----------------------------------------------------------------------------------


def _triangle_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    flags = [int(attrs[name]) for name in ("lower", "transposed", "unit")]
    return (*inputs[1].shape[-2:], *flags)


def _triangle_reference(a: Any, b: Any, lower: bool, transposed: bool, unit: bool) -> Any:
    matrices, x = (meaning.turned(a) if transposed else a), b.copy()
    with np.errstate(all="ignore"):
        bad = meaning.substituted(matrices, x, lower != transposed, unit)
    refuse(bad, "solve_triangular", meaning.SINGULAR)
    return x


def _triangle_of(matrix: Value, attrs: Attributes) -> Value:
    """The part that is read, zeros elsewhere."""
    if attrs["lower"]:
        return tril(matrix, -1 if attrs["unit"] else 0)
    return triu(matrix, 1 if attrs["unit"] else 0)


def _triangle_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    da, db = tangents
    right = db
    if da is not None:
        part = _triangle_of(da, attrs)
        moved = product(matrix_transpose(part) if attrs["transposed"] else part, outputs[0])
        right = -moved if db is None else db - moved
    if right is None:
        return (None,)
    return (triangle_solved(inputs[0], right, attrs["lower"], attrs["transposed"], attrs["unit"]),)


def _triangle_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return None, None
    lower, transposed, unit = (attrs[name] for name in ("lower", "transposed", "unit"))
    of_b = triangle_solved(inputs[0], cotangent, lower, not transposed, unit)
    left, right = (outputs[0], of_b) if transposed else (of_b, outputs[0])
    of_a = product(left, matrix_transpose(right))
    return -_triangle_of(of_a, attrs), of_b


def _triangle_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    a = rng.uniform(-1, 1, (3, 4, 4)) + 3 * np.eye(4)
    arrays = [a.astype(element.numpy), rng.normal(size=(3, 4, 2)).astype(element.numpy)]
    return arrays, {name: bool(rng.integers(2)) for name in ("lower", "transposed", "unit")}


solve_triangular_op = register(
    OpDef(
        name="solve_triangular",
        doc="The x with t x = b, where t is the attrs lower or upper triangle of a, perhaps "
        "transposed, with ones on the diagonal if attrs unit; [*B, n, n] and [*B, n, m]. A zero on "
        "the diagonal is an error.",
        infer=_system_type("solve_triangular"),
        reference=_triangle_reference,
        derivative=Custom(_triangle_jvp, _triangle_vjp),
        lowering=Native("solve_triangular", (2, 2, 2), _triangle_numbers),
        numerics="R",
        may_fail=True,
        any_precision=True,
        of_complex=complex_triangle,
        domain=Domain(FLOATS, example=_triangle_example),
    )
)


def triangle_solved(
    a: Value,
    b: Value,
    lower: bool,
    transposed: bool = False,
    unit: bool = False,
) -> Value:
    """``solve_triangular`` of stacks with equal batch dims."""
    return apply(solve_triangular_op, a, b, lower=lower, transposed=transposed, unit=unit)


# --- inverses ------------------------------------------------------------------------------------


def _inverse_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_matrices(inputs, "inv", square=True)
    return [inputs[0]]


def _inverse_reference(a: Any) -> Any:
    with np.errstate(all="ignore"):
        x, bad = meaning.solved(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    refuse(bad, "inv", meaning.SINGULAR)
    return x


def _inverse_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """dC = −C dA C"""
    return -product(product(output, tangent), output)


def _inverse_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    """A' = −Cᵀ C' Cᵀ"""
    across = matrix_transpose(output)
    return -product(product(across, cotangent), across)


def square_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    """Operands of an operation on square matrices, as a sample."""
    return [regular(rng, element, 3, 4, 4)], {}


inv_op = register(
    OpDef(
        name="inv",
        doc="The inverse of each matrix of a stack [*B, n, n], by elimination with partial "
        "pivoting; a singular matrix is an error.",
        infer=_inverse_type,
        reference=_inverse_reference,
        derivative=of_one_input(_inverse_jvp, _inverse_vjp),
        lowering=Native("inv", (2, 2), lambda inputs, attrs: inputs[0].shape[-1:]),
        numerics="R",
        may_fail=True,
        any_precision=True,
        of_complex=complex_inverse,
        domain=Domain(FLOATS, example=square_example),
    )
)


# --- functions -----------------------------------------------------------------------------------


def _paired(a: Any, b: Any, name: str, is_vector: bool) -> tuple[Value, Value]:
    """Both as stacks with equal batch dims; a vector is a column."""
    left, right = float_operands(a, b)
    left = squares(left, name)
    if is_vector:
        right = with_shape(right, (*right.shape, 1), ())
    if right.ndim < 2:
        raise ShapeError(f"{name}: the right side is a scalar", where=caller())
    message = f"{name} of {{}} and {{}}"
    shown = (left.shape, right.shape[:-1] if is_vector else right.shape)
    guards = unproved([(left.shape[-1], right.shape[-2])], message, *shown)
    batch, fit = common_shape([left.shape[:-2], right.shape[:-2]], message, *shown)
    left = stretched(left, (*batch, *left.shape[-2:]), fit)
    right = stretched(right, (*batch, *right.shape[-2:]), fit)
    if guards:
        right = with_shape(right, (*batch, left.shape[-1], right.shape[-1]), guards)
    return left, right


def solve(a: Any, b: Any) -> Value:
    """The x with ``a @ x = b``, by elimination with partial pivoting, as ``np.linalg.solve``.

    Args:
        a: square matrices [*B, n, n].
        b: a vector [n], or matrices [*C, n, m]; the axes before the last two broadcast.

    Gives [*broadcast(B, C), n, m], or [*B, n] for a vector. NaN spreads and is no error.

    Raises:
        ShapeError: for sizes that don't fit; at run time where they are unknown.
        LinAlgError: for a singular matrix, when the graph runs.
    """
    is_vector = _rank(b) == 1
    left, right = _paired(a, b, "solve", is_vector)
    x = apply(solve_op, left, right)
    return with_shape(x, x.shape[:-1], ()) if is_vector else x


def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Value:
    """The x with ``t @ x = b``, where t is a triangle of ``a``; as in ``scipy.linalg``.

    Args:
        a: square matrices [*B, n, n]; the other triangle is not read.
        b: a vector [n], or matrices [*C, n, m]; the axes before the last two broadcast.
        trans: 0 or "N" for t itself, 1 or "T" for its transpose, 2 or "C" for the conjugate of
            that.
        lower: whether t is the lower triangle, and not the upper one.
        unit_diagonal: whether ones are taken for the diagonal, which is not read then.

    Raises:
        ShapeError: for sizes that don't fit; at run time where they are unknown.
        LinAlgError: for a zero on the diagonal, when the graph runs.
    """
    known = {0: False, 1: True, 2: True, "N": False, "T": True, "C": True}
    if not isinstance(trans, (int, str)) or trans not in known:
        raise ShapeError(f"trans is {trans!r}", where=caller(), hint='0, 1, 2, "N", "T" or "C"')
    flags = switch(lower, "lower"), known[trans], switch(unit_diagonal, "unit_diagonal")
    is_vector = _rank(b) == 1
    left, right = _paired(a, b, "solve_triangular", is_vector)
    if trans in (2, "C"):
        left = surface_function("conj")(left)
    x = triangle_solved(left, right, *flags)
    return with_shape(x, x.shape[:-1], ()) if is_vector else x


def inv(a: Any) -> Value:
    """The inverses of square matrices [*B, n, n], as ``np.linalg.inv``; NaN spreads.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
        LinAlgError: for a singular matrix, when the graph runs.
    """
    return apply(inv_op, squares(a, "inv"))


def _rank(given: Any) -> int:
    return given.ndim if isinstance(given, Value) else np.ndim(given)


__all__ = [
    "inv",
    "inv_op",
    "regular",
    "solve",
    "solve_op",
    "solve_triangular",
    "solve_triangular_op",
    "square_example",
    "triangle_solved",
]
