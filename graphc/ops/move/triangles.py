"""Matrices by the places of their elements: identities, diagonals, triangles, powers.

Invariant: masks are comparisons of indices, computed where they are used; nothing is stored.
"""

from __future__ import annotations

from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, DimExpr, dim_max, dim_min
from graphc.ir.dtypes import DTypeLike, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import beside_all, is_whole, switch, whole
from graphc.ops.convert import as_value, axis_of, converted, dim_of, dims_of
from graphc.ops.creation import iota_beside
from graphc.ops.declare import like
from graphc.ops.guards import show
from graphc.ops.move.parts import flip
from graphc.ops.move.shape import broadcast_to, moveaxis, ravel, with_shape
from graphc.ops.move.slicing import padded, part


def _offset(k: Any) -> Dim:
    return k if isinstance(k, DimExpr) else beside_all(whole(k, "the number of a diagonal"))


def _columns_beyond(rows: Dim, columns: Dim, k: Dim, beside: Value | None) -> tuple[Value, Value]:
    """Column numbers as a row, and as a column those of the diagonal ``k`` in each row."""
    row = iota_beside((rows, 1), 0, int64, beside)
    column = iota_beside((1, columns), 1, int64, row)
    return column, row if is_whole(k) and k == 0 else row + k


@surface
def eye(N: Any, M: Any = None, k: Any = 0, dtype: DTypeLike = "float32") -> Value:
    """Ones on a diagonal, zeros elsewhere.

    Args:
        N: how many rows; an int or a dim, as M and k.
        M: how many columns; as many as rows unless given.
        k: which diagonal; above the main one if positive.
        dtype: of the result.
    """
    rows = dim_of(N)
    columns = rows if M is None else dim_of(M)
    column, diagonal_ = _columns_beyond(rows, columns, _offset(k), None)
    return converted(column == diagonal_, as_dtype(dtype))


@surface
def identity(n: Any, dtype: DTypeLike = "float32") -> Value:
    """The square matrix with ones on its diagonal; see ``eye``."""
    return eye(n, dtype=dtype)


@surface
def tri(N: Any, M: Any = None, k: Any = 0, dtype: DTypeLike = "float32") -> Value:
    """Ones on and below a diagonal, zeros above; arguments are those of ``eye``."""
    rows = dim_of(N)
    columns = rows if M is None else dim_of(M)
    column, diagonal_ = _columns_beyond(rows, columns, _offset(k), None)
    return converted(column <= diagonal_, as_dtype(dtype))


def _matrices(x: Any, name: str) -> Value:
    value = as_value(x)
    if value.ndim == 1:
        value = broadcast_to(value, (value.shape[0], value.shape[0]))
    if value.ndim == 0:
        raise ShapeError(f"{name} of a scalar", where=caller(), hint="give a matrix")
    return value


@surface
def tril(x: Any, k: Any = 0) -> Value:
    """Zeros above a diagonal of each matrix of a stack; a vector counts as the rows of a square.

    Raises:
        ShapeError: for scalars.
    """
    value = _matrices(x, "tril")
    rows, columns = value.shape[-2:]
    column, diagonal_ = _columns_beyond(rows, columns, _offset(k), value)
    result: Value = surface_function("where")(column <= diagonal_, value, like(0, value))
    return result


@surface
def triu(x: Any, k: Any = 0) -> Value:
    """Zeros below a diagonal of each matrix of a stack; a vector counts as the rows of a square.

    Raises:
        ShapeError: for scalars.
    """
    value = _matrices(x, "triu")
    rows, columns = value.shape[-2:]
    column, diagonal_ = _columns_beyond(rows, columns, _offset(k), value)
    result: Value = surface_function("where")(column >= diagonal_, value, like(0, value))
    return result


# --- diagonals -----------------------------------------------------------------------------------


@surface
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """A diagonal of the matrices of two axes, as the last axis of the result.

    Args:
        x: any tensor of two axes or more.
        offset: which diagonal; above the main one if positive.
        axis1: the rows.
        axis2: the columns.

    Raises:
        ShapeError: for fewer axes, and for one that is named twice.
    """
    value = as_value(x)
    if value.ndim < 2:
        text = f"a diagonal of {show(value.shape)}"
        raise ShapeError(text, where=caller(), hint="it needs two axes; gx.diag makes a matrix")
    first, second = axis_of(axis1, value.ndim), axis_of(axis2, value.ndim)
    if first == second:
        raise ShapeError(f"axis {axis1} and {axis2} are one axis", where=caller())
    right = beside_all(whole(offset, "offset"))
    down = max(-right, 0)
    right = max(right, 0)
    moved = moveaxis(value, (first, second), (-2, -1))
    rows, columns = moved.shape[-2:]
    length = dim_max(dim_min(rows - down, columns - right), 0)
    if length == 0:
        return with_shape(part(moved, moved.ndim - 2, 0, 0), (*moved.shape[:-2], 0), ())
    square = part(part(moved, moved.ndim - 2, down, length), moved.ndim - 1, right, length)
    result: Value = surface_function("einsum")("...ii->...i", square)
    return result


@surface
def diag(v: Any, k: int = 0) -> Value:
    """The matrix of a vector's elements on a diagonal, or a diagonal of a matrix.

    Raises:
        ShapeError: for anything but vectors and matrices.
    """
    value = as_value(v)
    if value.ndim == 2:
        return diagonal(value, k)
    if value.ndim != 1:
        text = f"diag of {show(value.shape)}"
        raise ShapeError(text, where=caller(), hint="give a vector or a matrix")
    right = whole(k, "k")
    size = value.shape[0] + abs(right)
    column, places = _columns_beyond(size, size, right, value)
    # the element of each row: those of rows without one lie in the margin
    line = padded(value, (max(-right, 0),), (max(right, 0),))
    wide = with_shape(line, (size, 1), ())
    result: Value = surface_function("where")(column == places, wide, like(0, value))
    return result


@surface
def diagflat(v: Any, k: int = 0) -> Value:
    """The matrix of all elements on a diagonal; see ``diag``."""
    return diag(ravel(as_value(v)), k)


@surface
def trace(
    x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Value:
    """The sum of a diagonal; arguments are those of ``diagonal``, ``dtype`` that of ``sum``."""
    result: Value = surface_function("sum")(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)
    return result


@surface
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Value:
    """The powers of a vector's elements as columns: x**(N-1), …, x, 1, or 1 first.

    Args:
        x: a vector; small integers and bools widen to 64 bits.
        N: how many columns; as many as elements unless given.
        increasing: whether 1 is first.

    Raises:
        ShapeError: for anything but a vector.
    """
    value = as_value(x)
    if value.ndim != 1:
        raise ShapeError(f"vander of {show(value.shape)}", where=caller(), hint="give a vector")
    (count,) = (value.shape[0],) if N is None else dims_of(N)
    rows = value.shape[0]
    wide = broadcast_to(with_shape(value, (rows, 1), ()), (rows, count))
    column = iota_beside((1, count), 1, int64, value)
    factors = surface_function("where")(column == 0, 1, wide)
    powers: Value = surface_function("cumprod")(factors, 1)
    return powers if switch(increasing, "increasing") else flip(powers, 1)
