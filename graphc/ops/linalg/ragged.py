"""Products of groups of rows, each with a matrix of its own."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.dtypes import int64
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted, in_dtype, promoted
from graphc.ops.creation import iota_beside
from graphc.ops.guards import show, unproved
from graphc.ops.indexing.picking import take_along_axis
from graphc.ops.linalg.einsum import einsum
from graphc.ops.move.shape import expand_dims, with_shape


@surface
def ragged_dot(lhs: Any, rhs: Any, group_sizes: Any) -> Value:
    """The rows of a matrix, in groups one after the other, each times the matrix of its group.

    Args:
        lhs: [m, k].
        rhs: a matrix for each group, [g, k, n].
        group_sizes: how many rows each group has, [g] integers.

    Gives [m, n], with zeros in rows that no group has. As JAX's on a CPU it multiplies all rows by
    each of the matrices, so its cost is that of g products; what is not taken is never seen.

    Raises:
        ShapeError: for other ranks and sizes; at run time where they are unknown.
        DTypeError: for sizes that are no integers.
    """
    left, right = promoted(lhs, rhs)
    sizes = as_value(group_sizes, left)
    if not sizes.dtype.is_integer:
        raise DTypeError(f"ragged_dot with group sizes of {sizes.dtype}", where=caller())
    if (left.ndim, right.ndim, sizes.ndim) != (2, 3, 1):
        shapes = " and ".join(show(value.shape) for value in (left, right, sizes))
        raise ShapeError(
            f"ragged_dot of {shapes}",
            where=caller(),
            hint="of [m, k], [g, k, n] and [g]",
        )
    message = "ragged_dot of {} matrices and {} group sizes"
    count_of = (right.shape[0], sizes.shape[0])
    guards = unproved([count_of], message, *count_of)
    # an einsum would broadcast a depth of 1
    depth = left.shape[1], right.shape[1]
    guards += unproved([depth], "ragged_dot of {} and {}", left.shape, right.shape)
    left = with_shape(left, (left.shape[0], right.shape[1]), guards)
    sizes = with_shape(sizes, (right.shape[0],), guards)
    sums = surface_function("cumsum")(converted(sizes, int64))
    rows = iota_beside((left.shape[0],), 0, int64, left)
    # the group of a row is how many of them end before it
    group = surface_function("searchsorted")(sums, rows, "right")
    count = in_dtype(right.shape[0], int64, left)
    products = einsum("mk,gkn->gmn", left, right)
    nearest = surface_function("minimum")(group, count - 1)
    chosen = take_along_axis(products, expand_dims(nearest, (0, 2)), 0)[0]
    has_group = expand_dims(group < count, -1)
    result: Value = surface_function("where")(has_group, chosen, 0)
    return result


__all__ = ["ragged_dot"]
