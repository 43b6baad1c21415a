"""What rules of several subjects share: groups of dtypes, and conditions on constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.dtypes import COMPUTED_FLOATS, INTEGERS, DType, dtype, floating
from graphc.ir.value import Value
from graphc.ops.convert import broadcast_shapes
from graphc.ops.move.shape import broadcast_to
from passes.rewriting.constants import Known

FLOATS: tuple[DType, ...] = COMPUTED_FLOATS
"""Those that rules are about: none meets arithmetic with others (``passes.graph.widen``)."""
SIGNED_INTEGERS: tuple[DType, ...] = tuple(d for d in INTEGERS if d.kind == "int")
UNSIGNED: tuple[DType, ...] = tuple(d for d in INTEGERS if d.kind == "uint")
NUMBERS: tuple[DType, ...] = (*INTEGERS, *FLOATS)
SIGNED: tuple[DType, ...] = (*SIGNED_INTEGERS, *FLOATS)

Function = Callable[..., Value]


def spread(constant: Value, like: Value) -> Value:
    """The constant in the shape that an operation on it and ``like`` has."""
    return broadcast_to(constant, broadcast_shapes(constant.shape, like.shape))


def combine(*constants: Known) -> bool:
    """Whether an operation on the constants is no larger than the largest of them."""
    shapes = {constant.array.shape for constant in constants if not constant.single}
    return len(shapes) <= 1


def combines(c: Known, d: Known, **others: object) -> bool:
    """What c and d give is no larger than they are."""
    return combine(c, d)


def is_zero(c: Known, **others: object) -> bool:
    """c is 0."""
    return bool(np.all(c.array == 0))


def is_nowhere_zero(c: Known, **others: object) -> bool:
    """c is nowhere 0."""
    return bool(np.all(c.array != 0))


def is_one(c: Known, **others: object) -> bool:
    """c is 1."""
    return bool(np.all(c.array == 1))


def powers_of_two(array: Array) -> bool:
    """Whether all are powers of two; of floats also negative ones and those below 1."""
    if floating(array.dtype):
        mantissa, _ = np.frexp(array)
        return bool(np.all(np.abs(mantissa) == 0.5))
    return bool(np.all((array > 0) & ((array & (array - array.dtype.type(1))) == 0)))


def normal(array: Any) -> bool:
    """Whether all floats are finite, and neither 0 nor subnormal."""
    size = np.abs(array)
    return bool(np.all((size >= dtype(array.dtype).format.smallest_normal) & np.isfinite(array)))
