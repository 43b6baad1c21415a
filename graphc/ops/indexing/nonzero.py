"""Places and elements that a mask chooses, in room for a known number of them, as in jax.numpy.

How many a mask chooses only a run tells, so ``size=`` says for how many there is room: those too
many are left out, and ``fill_value`` stands where there are fewer. Without ``size`` the mask must
be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, dim_max
from graphc.ir.dtypes import bool_, int64
from graphc.ir.lowering import Native
from graphc.ir.op import Domain, Flat, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines.choosing import TRUE_PLACES
from graphc.ops.convert import as_value, axis_of, dim_of, in_dtype, size_beside
from graphc.ops.guards import show, unproved
from graphc.ops.indexing.core import split_place, taken
from graphc.ops.move.shape import ravel, with_shape
from graphc.ops.source import known_array


def _is_true(x: Any) -> Value:
    value = as_value(x)
    return value if value.dtype is bool_ else surface_function("not_equal")(value, 0)


def _room(name: str, x: Any, size: Any) -> Dim:
    """For how many there is room: as many as the mask chooses where that is known.

    Raises:
        UnsupportedError: where it is not, and nobody says.
    """
    if size is not None:
        return dim_of(size)
    array = known_array(x) if isinstance(x, Value) else x
    if array is None:
        raise UnsupportedError(
            f"{name} of {x!r}: how many elements it chooses is known when the graph runs",
            where=caller(),
            hint=f"say for how many there is room: gx.{name}(…, size=most, fill_value=…)",
        )
    return int(np.count_nonzero(array))


def _places_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (mask,) = inputs
    if mask.dtype is not bool_:
        raise DTypeError(f"true_places of {mask.dtype}, not of truth values")
    return [TensorType(int64, (*mask.shape[:-1], attrs["count"]))]


true_places_op = register(
    OpDef(
        name="true_places",
        doc="The first attrs count places of true elements along the last axis, in order; where "
        "there are fewer, the length of the axis behind them; int64.",
        infer=_places_type,
        reference=lambda mask, count: TRUE_PLACES.reference(mask, mask.shape[-1], count)[0],
        derivative=Flat(),
        lowering=Native(
            "true_places", (1, 1), lambda inputs, attrs: (inputs[0].shape[-1], attrs["count"])
        ),
        domain=Domain(
            (bool_,), example=lambda rng, dtype: ([rng.uniform(size=(3, 9)) < 0.4], {"count": 5})
        ),
    )
)


def _chosen(mask: Value, room: Dim) -> tuple[Value, Value]:
    """The places of the true elements of a vector, its length behind them, and which are there."""
    found = apply(true_places_op, mask, count=room)
    return found, found < size_beside(mask.shape[0], int64, mask)


@surface
def nonzero(x: Any, size: Any = None, fill_value: Any = None) -> tuple[Value, ...]:
    """The indices of what is not 0, a vector for each axis, as ``np.nonzero``.

    Args:
        x: of rank 1 or more.
        size: for how many there is room, an int or a dim; as many as there are where x is known.
        fill_value: what stands behind them, an index or one for each axis; 0 unless given.

    Raises:
        UnsupportedError: without ``size`` for what is not known.
    """
    value = as_value(x)
    if not value.ndim:
        raise ShapeError("nonzero of a scalar", where=caller(), hint="reshape it to (1,)")
    mask = _is_true(value)
    found, there = _chosen(ravel(mask), _room("nonzero", x, size))
    fill = fill_value if isinstance(fill_value, (tuple, list)) else [fill_value or 0] * value.ndim
    if len(fill) != value.ndim:
        raise ShapeError(
            f"{len(fill)} fill values for the axes of {show(value.shape)}", where=caller()
        )
    where = surface_function("where")
    parts = split_place(found, value.shape)
    return tuple(
        where(there, index, in_dtype(number, int64, value))
        for index, number in zip(parts, fill, strict=True)
    )


@surface
def flatnonzero(x: Any, size: Any = None, fill_value: Any = None) -> Value:
    """The row-major places of what is not 0; ``size`` and ``fill_value`` as for ``nonzero``."""
    value = as_value(x)
    found, there = _chosen(ravel(_is_true(value)), _room("flatnonzero", x, size))
    result: Value = surface_function("where")(there, found, in_dtype(fill_value or 0, int64, value))
    return result


@surface
def argwhere(x: Any, size: Any = None, fill_value: Any = None) -> Value:
    """The indices of what is not 0, a row for each; see ``nonzero``."""
    result: Value = surface_function("stack")(nonzero(x, size, fill_value), axis=-1)
    return result


@surface
def compress(
    condition: Any, x: Any, axis: int | None = None, size: Any = None, fill_value: Any = 0
) -> Value:
    """What a mask chooses along an axis, or of all elements in row-major order.

    Args:
        condition: a vector, no longer than the axis; what is beyond it is not chosen.
        x: any tensor.
        axis: the axis; None for all elements.
        size: for how many there is room; as many as there are where the condition is known.
        fill_value: what stands behind them.

    Raises:
        UnsupportedError: without ``size`` for a condition that is not known.
        ShapeError: for a condition that is no vector, or too long.
    """
    value = as_value(x, condition if isinstance(condition, Value) else None)
    if axis is None:
        value, axis = ravel(value), 0
    place, mask = axis_of(axis, value.ndim), _is_true(as_value(condition, value))
    if mask.ndim != 1:
        raise ShapeError(
            f"compress by a condition of shape {show(mask.shape)}",
            where=caller(),
            hint="a condition is a vector; ravel it and x to choose among all elements",
        )
    length, count = value.shape[place], mask.shape[0]
    guards = unproved(
        [(dim_max(count, length), length)],
        f"compress by {{}} conditions along axis {place} of {{}}",
        count,
        value.shape,
    )
    room = _room("compress", condition, size)
    found, there = _chosen(mask, room)
    # what is not there is beyond the axis, also where the condition is shorter
    beyond = size_beside(length, int64, value)
    found = surface_function("where")(there, found, beyond)
    result = taken(value, found, place, guards, drop=True)
    behind = (1,) * (value.ndim - place - 1)
    there = with_shape(there, (*(1,) * place, room, *behind), ())
    number = in_dtype(fill_value, value.dtype, value)
    filled: Value = surface_function("where")(there, result, number)
    return filled


def _flat(condition: Any) -> Any:
    """A condition that is no value as a vector; what is no array is refused where it is taken."""
    array = as_value(condition)
    known = known_array(array)
    return ravel(array) if known is None else np.ravel(known)


@surface
def extract(condition: Any, x: Any, size: Any = None, fill_value: Any = 0) -> Value:
    """What a mask of the shape of x chooses of it, in row-major order.

    Args:
        condition: bools, or numbers that are compared with 0.
        x: any tensor.
        size: for how many there is room; as many as there are where the condition is known.
        fill_value: what stands behind them.

    Raises:
        UnsupportedError: without ``size`` for a condition that is not known.
        ShapeError: for a condition of more elements than x.
    """
    flat = ravel(condition) if isinstance(condition, Value) else _flat(condition)
    return compress(flat, x, None, size, fill_value)
