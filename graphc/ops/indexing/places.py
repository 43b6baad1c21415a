"""Places that indices name: on arrays for references, on scalars for kernels.

Invariant: a negative index counts from the end unless it doesn't wrap; what no axis of its length
has is out of range, whatever integer dtype it comes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from graphc.base.errors import DTypeError, IndexRangeError
from graphc.ir.dims.expressions import Dim, equal
from graphc.ir.dtypes import DType, int64, uint64
from graphc.ir.types import TensorType


class _Builder(Protocol):
    """What makes scalars: a builder of kernels, or what lowering rules see of it."""

    def constant(self, value: Any, dtype: DType) -> Any: ...

    def dim(self, dim: Dim) -> Any: ...

    def apply(self, primitive: str, *operands: Any) -> Any: ...

    def cast(self, operand: Any, dtype: DType) -> Any: ...


def located(b: _Builder, index: Any, bound: Dim, wraps: bool = True) -> tuple[Any, Any]:
    """The place that an index names in an axis, an int64, and whether there is such a place."""
    if index.dtype is uint64:
        # what int64 doesn't hold is beyond any axis; as a cast gives it it would be negative
        index = b.apply("minimum", index, b.constant(np.iinfo(np.int64).max, uint64))
    place = b.cast(index, int64)
    zero, size = b.constant(0, int64), b.dim(bound)
    if wraps:
        place = b.apply("select", b.apply("less", place, zero), b.apply("add", place, size), place)
    inside = b.apply(
        "and", b.apply("less_equal", zero, place), b.apply("less", place, size)
    )
    return place, inside


def places_in(indices: Any, bound: int, wraps: bool = True) -> tuple[Any, Any]:
    """The same of arrays: int64 places, 0 where there is none, and a mask."""
    given = np.asarray(indices)
    inside = (given >= (-bound if wraps else 0)) & (given < bound)
    places = np.where(inside, given, 0).astype(np.int64)
    return np.where(places < 0, places + bound, places), inside


def checked(indices: Any, bound: int, axis: int, wraps: bool = True) -> Any:
    """Indices made non-negative; the references' form of ``ElementBuilder.checked_index``.

    Raises:
        IndexRangeError: for the first one out of range, naming it and its position.
    """
    places, inside = places_in(indices, bound, wraps)
    if not np.all(inside):
        given = np.asarray(indices)
        position = tuple(int(place) for place in np.argwhere(~inside)[0])
        at = f" at position {position}" if position else ""
        raise IndexRangeError(
            f"index {given[position]}{at} is out of range for axis {axis} of size {bound}"
        )
    return places


def require_indices(name: str, indices: TensorType) -> None:
    """Raises DTypeError for what no index can be."""
    if not indices.dtype.is_integer:
        raise DTypeError(f"{name} takes integer indices, not {indices.dtype}")


def differ(one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    """Whether shapes are proved to be different."""
    return len(one) != len(other) or any(
        equal(a, b) is False for a, b in zip(one, other, strict=True)
    )


def taken_shape(shape: Sequence[Dim], indices: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    """The shape with the dims of an index tensor in the place of the axis."""
    return (*shape[:axis], *indices, *shape[axis + 1 :])
