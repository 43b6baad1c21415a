"""Places in sorted vectors: ``searchsorted``, ``digitize`` and membership."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import ALL, DType, bool_, int64
from graphc.ir.lowering import Native
from graphc.ir.op import Domain, Flat, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines.searching import SEARCHSORTED
from graphc.ops.arguments import switch
from graphc.ops.convert import as_value, promoted, size_beside
from graphc.ops.guards import show, unproved
from graphc.ops.indexing.core import taken
from graphc.ops.move.shape import expand_dims, ravel, with_shape
from graphc.ops.pointwise.logic import equal


def _type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    vector, rows = inputs
    if vector.dtype is not rows.dtype:
        raise DTypeError(f"searchsorted of {rows.dtype} in a vector of {vector.dtype}")
    if vector.rank != 1 or not rows.rank:
        shapes = f"{show(vector.shape)} and {show(rows.shape)}"
        raise ShapeError(f"searchsorted takes a vector and rows, not {shapes}")
    return [rows.with_dtype(int64)]


def _reference(vector: Any, rows: Any, right: bool) -> Any:
    counts = len(vector), rows.shape[-1], int(right)
    return SEARCHSORTED.reference(vector, rows, *counts)[0]


def _numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return inputs[0].shape[-1], inputs[1].shape[-1], int(attrs["right"])


def _example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    high = 2 if element is bool_ else 9
    vector, rows = np.sort(rng.integers(0, high, 6)), rng.integers(0, high, (3, 4))
    arrays = [part.astype(element.numpy) for part in (vector, rows)]
    return arrays, {"right": bool(rng.integers(2))}


searchsorted_op = register(
    OpDef(
        name="searchsorted",
        doc="Before which place of the first input, a sorted vector, each element of the second "
        "goes; behind equal ones if attrs right; int64.",
        infer=_type,
        reference=_reference,
        derivative=Flat(),
        lowering=Native("searchsorted", (1, 1, 1), _numbers),
        domain=Domain(ALL, example=_example),
    )
)


def _vector(given: Any, what: str) -> Value:
    value = as_value(given)
    if value.ndim != 1:
        raise ShapeError(
            f"{what} has {value.ndim} axes", where=caller(), hint="it must be a sorted vector"
        )
    return value


def found(vector: Value, values: Value, right: bool) -> Value:
    """``searchsorted`` of operands of one dtype."""
    if values.ndim:
        return apply(searchsorted_op, vector, values, right=right)
    row = apply(searchsorted_op, vector, expand_dims(values, 0), right=right)
    result: Value = surface_function("squeeze")(row, 0)
    return result


@surface
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Value:
    """Before which place (int64) of a sorted vector each element of ``v`` goes to keep its order.

    Args:
        a: a vector in the order of ``sort``, or one that ``sorter`` puts into it.
        v: of any shape; rows along the last axis are shared among threads.
        side: "left" for the place before elements that are equal, "right" for that behind them.
        sorter: places, as ``argsort`` gives them.

    NaN goes behind all numbers. Where ``a`` is in no order the result is some place of it. The
    derivative is zero.

    Raises:
        ShapeError: for an ``a`` that is no vector, for a side that is neither, and for a sorter of
            another length; at run time where lengths are unknown.
    """
    if side not in ("left", "right"):
        raise ShapeError(f"side is {shown(side)}", where=caller(), hint='"left" or "right"')
    vector, values = promoted(a, v)
    _vector(vector, "searchsorted: a")
    if sorter is not None:
        places = _vector(sorter, "searchsorted: sorter")
        message = "searchsorted: a is {} and sorter is {}"
        guards = unproved([(vector.shape[0], places.shape[0])], message, vector.shape, places.shape)
        vector = taken(with_shape(vector, vector.shape, guards), places, 0)
    return found(vector, values, side == "right")


@surface
def digitize(x: Any, bins: Any, right: bool = False) -> Value:
    """The number (int64) of the bin that each element falls into.

    Args:
        x: of any shape.
        bins: a vector that ascends or descends; bin i goes from ``bins[i - 1]`` to ``bins[i]``.
        right: whether bins hold their right end, and not their left one.

    Raises:
        ShapeError: for bins that are no vector.
    """
    ends_right = switch(right, "right")
    values, edges = promoted(x, bins)
    _vector(edges, "digitize: bins")
    up = found(edges, values, not ends_right)
    size = edges.shape[0]
    if isinstance(size, int) and size < 2:
        return up
    flipped = found(surface_function("flip")(edges, 0), values, not ends_right)
    down = size_beside(size, int64, edges) - flipped
    if not isinstance(size, int):
        # of no bins there is no first one
        edges = surface_function("pad")(edges, ((1, 1),), mode="constant")
        descends = surface_function("sum")(edges[1:-2] > edges[2:-1]) > 0
    else:
        descends = edges[0] > edges[-1]
    result: Value = surface_function("where")(descends, down, up)
    return result


@surface
def isin(element: Any, test_elements: Any, invert: bool = False) -> Value:
    """Whether each element is one of ``test_elements``, or is none if ``invert``; NaN never is.

    ``test_elements`` are of any shape and in any order; they are sorted.
    """
    turned = switch(invert, "invert")
    values, tests = promoted(element, test_elements)
    row = surface_function("sort")(ravel(tests))
    size = row.shape[0]
    if isinstance(size, int) and size == 0:
        hits: Value = surface_function("zeros_like")(values, "bool")
    else:
        # one more element than there are, so that there is a place for whatever is the largest
        padded = surface_function("pad")(row, ((0, 1),))
        places = found(row, values, False)
        inside = places < size_beside(size, int64, row)
        hits = surface_function("logical_and")(inside, equal(taken(padded, places, 0), values))
    result: Value = surface_function("logical_not")(hits) if turned else hits
    return result


__all__ = ["digitize", "found", "isin", "searchsorted", "searchsorted_op"]
