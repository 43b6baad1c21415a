"""Systems, inverses, triangles and singular values of complex matrices, by real ones.

A number a + ib acts on pairs of real numbers as the block [[a, -b], [b, a]]. Sums, products,
transposed conjugates and inverses of matrices of such blocks are those of the complex ones; so are
triangles whose diagonals are real, and eigenvalues and singular values come twice. It takes twice
the arithmetic that complex numbers would.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply_to
from graphc.ir.dims.expressions import Dim, dim_min
from graphc.ir.op import OpDef
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, joined


def _call(name: str, *operands: object) -> Value:
    result: Value = surface_function(name)(*operands)
    return result


def blocks(a: Value) -> Value:
    """Real matrices [*B, 2 m, 2 n] of complex ones [*B, m, n]."""
    re, im = halves(a)
    rows = _call("stack", [re, -im], -1), _call("stack", [im, re], -1)
    *batch, m, n = a.shape
    return _call("reshape", _call("stack", rows, -3), (*batch, 2 * m, 2 * n))


def unblocked(real: Value, rows: Dim, columns: Dim) -> Value:
    """Complex matrices of matrices of blocks."""
    first: Value = _call("reshape", real, (*real.shape[:-2], rows, 2, columns, 2))[..., 0]
    return joined(first[..., 0, :], first[..., 1, :])


def _stacked(b: Value) -> Value:
    """Complex columns [*B, n, m] as real ones [*B, 2 n, m]."""
    *batch, n, m = b.shape
    return _call("reshape", _call("stack", halves(b), -2), (*batch, 2 * n, m))


def _unstacked(x: Value, like: Value) -> Value:
    *batch, n, m = like.shape
    pairs = _call("reshape", x, (*batch, n, 2, m))
    return joined(pairs[..., 0, :], pairs[..., 1, :])


def _with_diagonal(below: Value, diagonal: Value) -> Value:
    """What is beside the diagonal of complex matrices, and real numbers on it."""
    ones = surface_function("eye")(below.shape[-1], dtype=diagonal.dtype)
    result: Value = below + _call("expand_dims", diagonal, -1) * ones
    return result


def _hermitian(a: Value) -> Value:
    """What is read of Hermitian matrices: the lower triangle, and real parts of the diagonal."""
    return _with_diagonal(_call("tril", a, -1), _call("real", _call("diagonal", a, 0, -2, -1)))


# --- rules of operations -------------------------------------------------------------------------


def complex_system(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The x with a x = b."""
    a, b = operands
    return _unstacked(apply_to(op, (blocks(a), _stacked(b)), attrs), b)


def complex_triangle(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The x with t x = b: rows are divided by the diagonal, which is real then; so is each block.

    A zero on the diagonal stays there, so that it is found.
    """
    a, b = operands
    lower = attrs["lower"]
    if attrs["transposed"]:
        a, lower = _call("swapaxes", a, -1, -2), not lower
    beside = _call("tril", a, -1) if lower else _call("triu", a, 1)
    diagonal = _call("diagonal", a, 0, -2, -1)
    is_zero = _call("equal", diagonal, 0)
    kept = surface_function("ones_like")(_call("real", diagonal))
    if not attrs["unit"]:
        scale = _call("expand_dims", _call("where", is_zero, 1, diagonal), -1)
        beside, b, kept = beside / scale, b / scale, _call("where", is_zero, 0, kept)
    plain = {**attrs, "lower": lower, "transposed": False, "unit": False}
    matrices = blocks(_with_diagonal(beside, kept))
    return _unstacked(apply_to(op, (matrices, _stacked(b)), plain), b)


def complex_inverse(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """Inverses and pseudo-inverses; tolerances are real."""
    a, *rest = operands
    rows, columns = a.shape[-2:]
    return unblocked(apply_to(op, (blocks(a), *rest), attrs), columns, rows)


def complex_cholesky(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The lower triangle L with L Lᴴ = a, whose diagonal is real."""
    (a,) = operands
    factor = unblocked(apply_to(op, (blocks(_hermitian(a)),), attrs), *a.shape[-2:])
    return joined(_call("real", factor), _call("tril", _call("imag", factor), -1))


def complex_eigenvalues(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The eigenvalues of Hermitian matrices, which are real."""
    (a,) = operands
    values = apply_to(op, (blocks(_hermitian(a)),), attrs)
    return _call("reshape", values, (*a.shape[:-1], 2))[..., 0]


def complex_singular_values(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The singular values, which are real."""
    (a,) = operands
    *batch, m, n = a.shape
    values = apply_to(op, (blocks(a),), attrs)
    return _call("reshape", values, (*batch, dim_min(m, n), 2))[..., 0]


__all__ = [
    "blocks",
    "complex_cholesky",
    "complex_eigenvalues",
    "complex_inverse",
    "complex_singular_values",
    "complex_system",
    "complex_triangle",
    "unblocked",
]
