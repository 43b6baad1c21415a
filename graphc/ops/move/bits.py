"""Bits of integers as elements and back (packbits, unpackbits), and leading zeros (clz)."""

from __future__ import annotations

from typing import Any

from graphc.ir.dims.expressions import ceil_div
from graphc.ir.dtypes import bool_, dtype, uint8
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import whole
from graphc.ops.convert import as_value, axis_of, converted
from graphc.ops.creation import iota_beside
from graphc.ops.declare import refuse
from graphc.ops.move.parts import pad
from graphc.ops.move.shape import ravel, reshape
from graphc.ops.pointwise.divisors import bitwise_count
from graphc.ops.pointwise.logic import bitwise_and, bitwise_or, left_shift, right_shift


def _row(x: Any, axis: Any) -> tuple[Value, int]:
    value = as_value(x)
    return (ravel(value), 0) if axis is None else (value, axis_of(axis, value.ndim))


def _places(bitorder: Any, rank: int, axis: int, beside: Value) -> Value:
    """By how many places each of eight bits is shifted, along an axis of its own."""
    if bitorder not in ("big", "little"):
        raise refuse(f"bitorder is {bitorder!r}", "it is 'big' or 'little'")
    shape = tuple(8 if place == axis else 1 for place in range(rank))
    places = iota_beside(shape, axis, uint8, beside)
    return places if bitorder == "little" else 7 - places


@surface
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Value:
    """Eight elements as the bits of one uint8: whether each is not 0.

    Args:
        a: bools or integers.
        axis: along which; None for all elements in row-major order. It is filled up with zeros.
        bitorder: "big" if the first is the highest bit, or "little".

    Raises:
        DTypeError: for floats, and for another order.
    """
    value, place = _row(a, axis)
    if value.dtype.is_float:
        raise refuse(f"packbits takes bools or integers, not {value.dtype}", "compare with 0")
    count = value.shape[place]
    groups = ceil_div(count, 8)
    margins = [(0, groups * 8 - count if axis_ == place else 0) for axis_ in range(value.ndim)]
    bits = pad(converted(value, bool_), margins)
    shape = (*value.shape[:place], groups, 8, *value.shape[place + 1 :])
    eights = converted(reshape(bits, shape), uint8)
    shifted = left_shift(eights, _places(bitorder, len(shape), place + 1, value))
    total: Value = surface_function("sum")(shifted, axis=place + 1, dtype=uint8)
    return total


@surface
def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Value:
    """The bits of uint8 as elements of uint8: eight for one.

    Args:
        a: uint8.
        axis: along which; None for all elements in row-major order.
        count: how many of them are kept, no more than there are; if negative all but so many.
        bitorder: "big" if the first is the highest bit, or "little".

    Raises:
        DTypeError: for other dtypes, and for another order.
    """
    value, place = _row(a, axis)
    if value.dtype is not uint8:
        raise refuse(f"unpackbits takes uint8, not {value.dtype}", "convert with astype")
    shape = (*value.shape[: place + 1], 1, *value.shape[place + 1 :])
    shifts = _places(bitorder, len(shape), place + 1, value)
    eights = bitwise_and(right_shift(reshape(value, shape), shifts), 1)
    whole_shape = (*value.shape[:place], value.shape[place] * 8, *value.shape[place + 1 :])
    result = reshape(eights, whole_shape)
    if count is None:
        return result
    kept = whole(count, "count")
    found: Value = result[(*(slice(None),) * place, slice(None, kept))]
    return found


@surface
def clz(x: Any) -> Value:
    """How many leading bits of an integer are 0, in its dtype: all of them for 0.

    Raises:
        DTypeError: for floats and bools.
    """
    value = as_value(x)
    if not value.dtype.is_integer:
        raise refuse(f"clz takes integers, not {value.dtype}", "convert with astype")
    word = converted(value, dtype(f"uint{value.dtype.bits}"))
    shift = 1
    while shift < value.dtype.bits:
        # below the highest one all bits become ones
        word = bitwise_or(word, right_shift(word, shift))
        shift *= 2
    return converted(value.dtype.bits - converted(bitwise_count(word), value.dtype), value.dtype)
