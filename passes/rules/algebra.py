"""Algebraic identities that hold to the bit.

Floats take only what is right at NaN, infinities and both zeros: ``x + 0``, ``x * 0``, ``x - x``
and ``x / x`` are not here, since they are wrong somewhere. Integers take all that holds under
wrap-around.
"""

from __future__ import annotations

from graphc.ir.dtypes import ALL, FLOATS, INTEGERS, DType, bool_, int8, uint16
from graphc.ir.value import Value
from graphc.ops.creation import full_like, zeros_like
from graphc.ops.declare import BITS, NUMBERS
from graphc.ops.nn import relu
from graphc.ops.pointwise_arithmetic import guarded_multiply, negative
from graphc.ops.pointwise_logic import (
    astype,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
    where,
)
from graphc.ops.pointwise_rounding import (
    abs_,
    ceil,
    floor,
    maximum,
    minimum,
    round_,
    sign,
    trunc,
)
from passes.pattern import Rule, rule

SIGNED = (*(dtype for dtype in INTEGERS if dtype.kind == "int"), *FLOATS)
UNSIGNED = tuple(dtype for dtype in INTEGERS if dtype.kind == "uint")
DISCRETE = BITS
"""What has neither NaN nor two zeros."""

_MANTISSA = {32: 24, 64: 53}


def keeps(source: DType, target: DType) -> bool:
    """Whether every value of one dtype is a value of the other."""
    if source is target or source is bool_:
        return True
    if target is bool_:
        return False
    if source.is_float:
        return target.is_float and target.bits >= source.bits
    digits = source.bits - (source.kind == "int")
    if target.is_float:
        return digits <= _MANTISSA[target.bits]
    return digits <= target.bits - (target.kind == "int") and not (
        source.kind == "int" and target.kind == "uint"
    )


def _chain_is_one(x: Value, middle: DType, last: DType) -> bool:
    """Whether converting by way of ``middle`` is converting at once.

    A float on the way makes a conversion to a smaller integer saturate instead of wrap.
    """
    if not keeps(x.dtype, middle):
        return False
    saturates = middle.is_float and x.dtype.is_integer and last.is_integer
    return not saturates or keeps(x.dtype, last)


_NUMBERS: tuple[Rule, ...] = (
    rule("mul-one", lambda x: (x * 1, x), dtypes=NUMBERS),
    rule("neg-neg", lambda x: (negative(negative(x)), x), dtypes=NUMBERS),
    rule("add-neg", lambda x, y: (x + (-y), x - y), dtypes=NUMBERS),
    rule("sub-neg", lambda x, y: (x - (-y), x + y), dtypes=NUMBERS),
    rule("mul-neg-neg", lambda x, y: ((-x) * (-y), x * y), dtypes=NUMBERS),
    rule("abs-neg", lambda x: (abs_(-x), abs_(x)), dtypes=SIGNED),
    rule("abs-unsigned", lambda x: (abs_(x), x), dtypes=UNSIGNED),
)

_FLOATS: tuple[Rule, ...] = (
    rule("div-one", lambda x: (x / 1, x), dtypes=FLOATS),
    rule("div-neg-neg", lambda x, y: ((-x) / (-y), x / y), dtypes=FLOATS),
    rule("sub-zero", lambda x: (x - 0.0, x), dtypes=FLOATS),
    rule("add-negative-zero", lambda x: (x + -0.0, x), dtypes=FLOATS),
    rule("guard-one", lambda x: (guarded_multiply(1, x), x), dtypes=FLOATS),
    rule("guard-minus-one", lambda x: (guarded_multiply(-1, x), -x), dtypes=FLOATS),
)

_INTEGERS: tuple[Rule, ...] = (
    rule("int-add-zero", lambda x: (x + 0, x), dtypes=INTEGERS),
    rule("int-sub-zero", lambda x: (x - 0, x), dtypes=INTEGERS),
    rule("int-mul-zero", lambda x: (x * 0, zeros_like(x)), dtypes=INTEGERS),
    rule("int-sub-self", lambda x: (x - x, zeros_like(x)), dtypes=INTEGERS),
    rule("int-floor-one", lambda x: (x // 1, x), dtypes=INTEGERS),
    rule("int-mod-one", lambda x: (x % 1, zeros_like(x)), dtypes=INTEGERS),
    rule("shift-left-zero", lambda x: (x << 0, x), dtypes=INTEGERS),
    rule("shift-right-zero", lambda x: (x >> 0, x), dtypes=INTEGERS),
    rule("int-or-zero", lambda x: (x | 0, x), dtypes=INTEGERS),
    rule("int-xor-zero", lambda x: (x ^ 0, x), dtypes=INTEGERS),
    rule("int-and-zero", lambda x: (x & 0, zeros_like(x)), dtypes=INTEGERS),
)

_BITS: tuple[Rule, ...] = (
    rule("not-not", lambda x: (~(~x), x), dtypes=BITS),
    rule("and-self", lambda x: (x & x, x), dtypes=BITS),
    rule("or-self", lambda x: (x | x, x), dtypes=BITS),
    rule("xor-self", lambda x: (x ^ x, zeros_like(x)), dtypes=BITS),
    rule("and-true", lambda x: (x & True, x), dtypes=(bool_,)),
    rule("or-false", lambda x: (x | False, x), dtypes=(bool_,)),
    rule("eq-self", lambda x: (equal(x, x), full_like(x, True, bool_)), dtypes=DISCRETE),
    rule("ne-self", lambda x: (not_equal(x, x), full_like(x, False, bool_)), dtypes=DISCRETE),
    rule("le-self", lambda x: (less_equal(x, x), full_like(x, True, bool_)), dtypes=DISCRETE),
    rule("ge-self", lambda x: (greater_equal(x, x), full_like(x, True, bool_)), dtypes=DISCRETE),
)

_ANY: tuple[Rule, ...] = (
    rule("lt-self", lambda x: (less(x, x), full_like(x, False, bool_)), dtypes=ALL),
    rule("gt-self", lambda x: (greater(x, x), full_like(x, False, bool_)), dtypes=ALL),
    rule("min-self", lambda x: (minimum(x, x), x), dtypes=ALL),
    rule("max-self", lambda x: (maximum(x, x), x), dtypes=ALL),
    rule("where-same", lambda c, x: (where(c, x, x), x), masks=("c",), dtypes=ALL),
    rule("where-true", lambda x, y: (where(True, x, y), x), dtypes=ALL),
    rule("where-false", lambda x, y: (where(False, x, y), y), dtypes=ALL),
    rule(
        "astype-chain",
        lambda x, middle, last: (astype(astype(x, middle), last), astype(x, last)),
        free={"middle": uint16, "last": int8},
        when=_chain_is_one,
        dtypes=(),
    ),
)

_TWICE: tuple[Rule, ...] = (
    rule("abs-twice", lambda x: (abs_(abs_(x)), abs_(x)), dtypes=SIGNED),
    rule("sign-twice", lambda x: (sign(sign(x)), sign(x)), dtypes=NUMBERS),
    rule("relu-twice", lambda x: (relu(relu(x)), relu(x)), dtypes=NUMBERS),
    rule("floor-twice", lambda x: (floor(floor(x)), floor(x)), dtypes=FLOATS),
    rule("ceil-twice", lambda x: (ceil(ceil(x)), ceil(x)), dtypes=FLOATS),
    rule("trunc-twice", lambda x: (trunc(trunc(x)), trunc(x)), dtypes=FLOATS),
    rule("round-twice", lambda x: (round_(round_(x)), round_(x)), dtypes=FLOATS),
)

RULES: tuple[Rule, ...] = (*_NUMBERS, *_FLOATS, *_INTEGERS, *_BITS, *_ANY, *_TWICE)
