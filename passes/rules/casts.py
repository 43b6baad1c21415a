"""Conversions: chains that are one, and operations that can be done before converting.

A chain is shortened only where every value survives the way; an operation moves before conversions
only where these keep what it sees.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.ir.dtypes import DType, int8, int64, uint16
from graphc.ir.value import Value
from graphc.ops.declare import BITS
from graphc.ops.pointwise.logic import (
    astype,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    not_equal,
    where,
)
from graphc.ops.pointwise.rounding import maximum, minimum
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import NUMBERS, Function, is_one, is_zero
from passes.rules.logic import COMPARISONS


def _chain_is_one(x: Value, middle: DType, last: DType) -> bool:
    """Whether converting by way of ``middle`` is converting at once.

    Integers that get narrower and narrower lose the same bits at once. A float on the way makes a
    conversion to a smaller integer saturate instead of wrap.
    """
    if x.dtype.is_integer and middle.is_integer and last.is_integer and last.width <= middle.width:
        return True
    if not middle.holds(x.dtype):
        return False
    saturates = middle.is_float and x.dtype.is_integer and last.is_integer
    return not saturates or last.holds(x.dtype)


def _both_kept(x: Value, y: Value, to: DType) -> bool:
    """x and y have one dtype that is computed in, whose values the other has too."""
    return x.dtype is y.dtype is x.dtype.computed and to.holds(x.dtype)


def _same_dtype(c: Value, x: Value, y: Value, to: DType) -> bool:
    """x and y have one dtype."""
    return x.dtype is y.dtype


def _bits_kept(x: Value, y: Value, to: DType) -> bool:
    """x and y have one dtype of bits, whose values the other has too."""
    # sign and zero extension commute with bit operations
    return _both_kept(x, y, to) and not x.dtype.is_float and to.is_integer


def _compared(name: str, function: Function) -> Rule:
    return rule(
        f"{name}-of-casts",
        lambda x, y, to: (function(astype(x, to), astype(y, to)), function(x, y)),
        free={"to": uint16},
        when=_both_kept,
        dtypes=(),
    )


def _later(
    name: str, function: Function, when: Callable[..., bool], dtypes: tuple[DType, ...] = ()
) -> Rule:
    """One conversion after an operation instead of two before."""
    return rule(
        f"{name}-of-casts",
        lambda x, y, to: (function(astype(x, to), astype(y, to)), astype(function(x, y), to)),
        free={"to": int64},
        when=when,
        dtypes=dtypes,
        exclusive=True,
    )


_NARROW: tuple[DType, ...] = tuple(dtype for dtype in BITS if dtype.bits < 64)

RULES: tuple[Rule, ...] = (
    rule(
        "astype-chain",
        lambda x, middle, last: (astype(astype(x, middle), last), astype(x, last)),
        free={"middle": uint16, "last": int8},
        when=_chain_is_one,
        dtypes=(),
    ),
    *(_compared(name, function) for name, function in COMPARISONS.items()),
    _later("min", minimum, _both_kept),
    _later("max", maximum, _both_kept),
    _later("and", bitwise_and, _bits_kept, _NARROW),
    _later("or", bitwise_or, _bits_kept, _NARROW),
    _later("xor", bitwise_xor, _bits_kept, _NARROW),
    rule(
        "where-of-casts",
        lambda c, x, y, to: (where(c, astype(x, to), astype(y, to)), astype(where(c, x, y), to)),
        masks=("c",),
        free={"to": uint16},
        when=_same_dtype,
        dtypes=(),
        exclusive=True,
    ),
    rule(
        "cast-ne-zero",
        lambda x, c: (not_equal(astype(x, c.dtype), c), x),
        masks=("x",),
        constants=("c",),
        when=is_zero,
        dtypes=NUMBERS,
    ),
    rule(
        "cast-eq-one",
        lambda x, c: (equal(astype(x, c.dtype), c), x),
        masks=("x",),
        constants=("c",),
        when=is_one,
        dtypes=NUMBERS,
    ),
)
