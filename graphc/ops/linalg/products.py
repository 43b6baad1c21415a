"""NumPy's further products: of stacked vectors, over several axes, Kronecker's, in space.

Invariant: integers keep their dtype and wrap, bools are joined by or of ands, as in ``matmul``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import product
from graphc.ir.dtypes import bool_
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole, items_of, one_or_more
from graphc.ops.complex.parts import conj
from graphc.ops.convert import axis_of, promoted
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matmul import contracted, matmul
from graphc.ops.move.joining import stack
from graphc.ops.move.shape import moveaxis, permuted, ravel, with_shape
from graphc.ops.move.slicing import part
from graphc.ops.reduce.axes import any_, sum_


@surface
def vecdot(x: Any, y: Any, axis: int = -1) -> Value:
    """The sum of x * y along an axis of both, whose other axes broadcast.

    Of a complex x it is the conjugate that is multiplied.

    Raises:
        ShapeError: for scalars, and for axes that are proved to differ; else checked at run time.
    """
    left, right = promoted(x, y)
    if not left.ndim or not right.ndim:
        raise ShapeError("vecdot of a scalar", where=caller(), hint="multiply with *")
    left = moveaxis(left, axis_of(axis, left.ndim), -1)
    right = moveaxis(right, axis_of(axis, right.ndim), -1)
    sizes = [(left.shape[-1], right.shape[-1])]
    guards = unproved(sizes, "vecdot of {} and {}", left.shape, right.shape)
    if left.dtype.is_complex:
        left = conj(left)
    terms = left * with_shape(right, (*right.shape[:-1], left.shape[-1]), guards)
    return any_(terms, -1) if terms.dtype is bool_ else sum_(terms, -1, dtype=terms.dtype)


@surface
def vdot(x: Any, y: Any) -> Value:
    """The sum of the products of all elements, in row-major order; of complex x its conjugate.

    Raises:
        ShapeError: for sizes that are proved to differ; else checked at run time.
    """
    left, right = promoted(x, y)
    return vecdot(ravel(left), ravel(right))


@surface
def matvec(a: Any, x: Any) -> Value:
    """Stacks of matrices [*B, m, k] times vectors [*C, k]: [*broadcast(B, C), m].

    Raises:
        ShapeError: naming both shapes.
    """
    left, right = promoted(a, x)
    if left.ndim < 2 or not right.ndim:
        raise _no_fit("matvec", left, right)
    column = matmul(left, with_shape(right, (*right.shape, 1), ()))
    return with_shape(column, column.shape[:-1], ())


@surface
def vecmat(x: Any, a: Any) -> Value:
    """Vectors [*B, k] times stacks of matrices [*C, k, n]: [*broadcast(B, C), n].

    Of a complex x it is the conjugate that is multiplied.

    Raises:
        ShapeError: naming both shapes.
    """
    left, right = promoted(x, a)
    if right.ndim < 2 or not left.ndim:
        raise _no_fit("vecmat", left, right)
    if left.dtype.is_complex:
        left = conj(left)
    row = matmul(with_shape(left, (*left.shape[:-1], 1, left.shape[-1]), ()), right)
    return with_shape(row, (*row.shape[:-2], row.shape[-1]), ())


def _no_fit(name: str, left: Value, right: Value) -> ShapeError:
    return ShapeError(f"{name} of {show(left.shape)} and {show(right.shape)}", where=caller())


@surface
def inner(a: Any, b: Any) -> Value:
    """The sums of products along the last axis of both; a scalar multiplies.

    Raises:
        ShapeError: for last axes that are proved to differ; else checked at run time.
    """
    left, right = promoted(a, b)
    if not left.ndim or not right.ndim:
        scaled: Value = left * right
        return scaled
    return tensordot(left, right, ((-1,), (-1,)))


@surface
def tensordot(a: Any, b: Any, axes: Any = 2) -> Value:
    """The sums of products over axes of both.

    Args:
        a: any tensor.
        b: any tensor.
        axes: a number n, for the last n axes of ``a`` with the first n of ``b``; or a pair of an
            axis or several of ``a``, and as many of ``b``.

    The result has the other axes of ``a``, then those of ``b``.

    Raises:
        ShapeError: for axes that are not there, not as many, or proved to differ in size.
    """
    left, right = promoted(a, b)
    if is_whole(axes):
        if not 0 <= axes <= min(left.ndim, right.ndim):
            text = f"tensordot of {show(left.shape)} and {show(right.shape)} over {axes} axes"
            raise ShapeError(text, where=caller())
        pair: Sequence[Any] = (range(left.ndim - axes, left.ndim), range(axes))
    else:
        pair = items_of(axes, "axes")
        if len(pair) != 2:
            raise ShapeError(f"axes {axes!r} are no pair", where=caller(), hint="one for each")
    ours = [axis_of(axis, left.ndim) for axis in one_or_more(pair[0], "axes")]
    theirs = [axis_of(axis, right.ndim) for axis in one_or_more(pair[1], "axes")]
    if not len(ours) == len(theirs) == len(set(ours)) == len(set(theirs)):
        raise ShapeError(
            f"axes {ours} and {theirs}: equally many different ones are needed", where=caller()
        )
    sizes = [(left.shape[one], right.shape[other]) for one, other in zip(ours, theirs, strict=True)]
    message = f"tensordot of {{}} and {{}} over the axes {ours} and {theirs}"
    guards = unproved(sizes, message, left.shape, right.shape)
    rows = [axis for axis in range(left.ndim) if axis not in ours]
    columns = [axis for axis in range(right.ndim) if axis not in theirs]
    depth = product(size for size, _ in sizes)
    height = [left.shape[axis] for axis in rows]
    width = [right.shape[axis] for axis in columns]
    first = with_shape(permuted(left, [*rows, *ours]), (product(height), depth), ())
    second = with_shape(permuted(right, [*theirs, *columns]), (depth, product(width)), guards)
    return with_shape(contracted(first, second), (*height, *width), ())


@surface
def kron(a: Any, b: Any) -> Value:
    """Kronecker's product: blocks of b, each times an element of a."""
    left, right = promoted(a, b)
    rank = max(left.ndim, right.ndim)
    outer = (1,) * (rank - left.ndim) + left.shape
    inside = (1,) * (rank - right.ndim) + right.shape
    wide = with_shape(left, tuple(size for dim in outer for size in (dim, 1)), ())
    blocks = with_shape(right, tuple(size for dim in inside for size in (1, dim)), ())
    shape = tuple(one * other for one, other in zip(outer, inside, strict=True))
    return with_shape(wide * blocks, shape, ())


@surface
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Value:
    """The products of vectors of three elements, which are perpendicular to both.

    Args:
        a: vectors along ``axisa``.
        b: vectors along ``axisb``; the other axes broadcast.
        axisa: the axis of the vectors of ``a``.
        axisb: the axis of the vectors of ``b``.
        axisc: where the vectors of the result are.
        axis: all three of these at once.

    Raises:
        ShapeError: for axes of other sizes; at run time where these are unknown.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = promoted(a, b)
    ours, theirs = (
        _components(value, place, name)
        for value, place, name in ((left, axisa, "first"), (right, axisb, "second"))
    )
    parts = [
        ours[(n + 1) % 3] * theirs[(n + 2) % 3] - ours[(n + 2) % 3] * theirs[(n + 1) % 3]
        for n in range(3)
    ]
    return moveaxis(stack(parts, -1), -1, axisc)


def _components(value: Value, axis: int, name: str) -> list[Value]:
    moved = moveaxis(value, axis_of(axis, value.ndim), 0)
    message = f"cross: the vectors of the {name} operand, {{}}, have not three elements"
    guards = unproved([(moved.shape[0], 3)], message, value.shape)
    known = with_shape(moved, (3, *moved.shape[1:]), guards)
    return [with_shape(part(known, 0, n, 1), known.shape[1:], ()) for n in range(3)]
