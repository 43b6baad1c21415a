"""Common divisors and multiples, and counts of bits: functions of integers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import INTEGERS, uint8, uint64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import ElementBuilder, Scalar
from graphc.ir.op import Algebra
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.convert import converted, promoted
from graphc.ops.declare import number_operands, pointwise, refuse
from graphc.ops.pointwise.rounding import abs_

_COMMUTATIVE = Algebra(commutative=True)


def _lcm(x: Any, y: Any, **attrs: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.lcm(x, y)


def _lcm_rule(b: ElementBuilder, operands: Sequence[Scalar], attrs: Attributes) -> Scalar:
    """|x| / gcd · |y| as unsigned, which the magnitude of the least integer needs.

    A quotient by 0 is 0, and so is the multiple of two zeros.
    """
    element = operands[0].dtype
    unsigned = as_dtype(element.name.removeprefix("u").replace("int", "uint"))
    x, y = (b.cast(b.apply("abs", operand), unsigned) for operand in operands)
    quotient = b.apply("floor_divide", x, b.apply("gcd", x, y))
    return b.cast(b.apply("multiply", quotient, y), element)


gcd_op = pointwise(
    "gcd", "The greatest common divisor, not negative; that of two zeros is 0.", INTEGERS,
    algebra=_COMMUTATIVE,
)  # fmt: skip
lcm_op = pointwise(
    "lcm",
    "The least common multiple of the magnitudes, which wraps around; 0 beside 0.",
    INTEGERS,
    scalars=_lcm_rule,
    reference=_lcm,
    arity=2,
    algebra=_COMMUTATIVE,
)
bit_count_op = pointwise(
    "bit_count", "The ones among the bits, of a negative number in two's complement.", INTEGERS,
    primitive="popcount",
)  # fmt: skip


def _integers(name: str, *operands: Any) -> tuple[Value, ...]:
    values = promoted(*operands)
    if not values[0].dtype.is_integer:
        raise refuse(f"{name} does not take {values[0].dtype}", "convert with astype")
    return values


@surface
def gcd(x: Any, y: Any) -> Value:
    """The greatest common divisor of integers, not negative; that of two zeros is 0.

    Raises:
        DTypeError: for floats and bools, as in NumPy.
    """
    return apply(gcd_op, *_integers("gcd", x, y))


@surface
def lcm(x: Any, y: Any) -> Value:
    """The least common multiple of integers' magnitudes, which wraps around; 0 beside 0.

    Raises:
        DTypeError: for floats and bools, as in NumPy.
    """
    return apply(lcm_op, *_integers("lcm", x, y))


@surface
def bitwise_count(x: Any) -> Value:
    """The ones among the bits of |x|, as uint8; bools count as 0 and 1.

    Raises:
        DTypeError: for floats, as in NumPy.
    """
    (value,) = number_operands(x)
    if not value.dtype.is_integer:
        raise refuse(f"bitwise_count does not take {value.dtype}", "convert with astype")
    return converted(apply(bit_count_op, abs_(value)), uint8)


@surface
def population_count(x: Any) -> Value:
    """The ones among the bits of x, of a negative number in two's complement; in its dtype.

    Raises:
        DTypeError: for floats and bools.
    """
    (value,) = _integers("population_count", x)
    return apply(bit_count_op, value)


@surface
def mulhi(x: Any, y: Any) -> Value:
    """The upper half of the bits of x * y: floor(x * y / 2ⁿ) of integers of n bits, in their dtype.

    Raises:
        DTypeError: for floats and bools.
    """
    left, right = _integers("mulhi", x, y)
    element = left.dtype
    if element.bits < 64:
        wide = as_dtype(f"{element.kind}{2 * element.bits}")
        whole = converted(left, wide) * converted(right, wide)
        return converted(whole >> element.bits, element)
    # four products of 32 bits each, whose upper halves are carried on
    low, half = 0xFFFFFFFF, 32
    words = [converted(value, uint64) for value in (left, right)]
    (a0, a1), (b0, b1) = [(word & low, word >> half) for word in words]
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    high = converted(a1 * b1 + (middle >> half) + (other >> half), element)
    if not element.is_signed:
        return high
    # as a signed number an operand is 2⁶⁴ less where it is negative
    result: Value = high - (left >> 63 & right) - (right >> 63 & left)
    return result
