"""Floats taken apart: signs, neighbours, significands and exponents.

Invariant: everything here is exact; results differ from operands in the sign, the exponent or the
last place alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import COMPUTED_FLOATS, FLOATS, DType, int32
from graphc.ir.op import Linear, NotDifferentiable, OpDef
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, joined
from graphc.ops.convert import as_value, converted, in_dtype
from graphc.ops.declare import float_operand, float_operands, like, pointwise, refuse
from graphc.ops.pointwise.logic import equal, isinf, isnan, less, not_equal, where
from graphc.ops.pointwise.rounding import trunc

# --- signs ---------------------------------------------------------------------------------------


def _copysign_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """1 where the sign stays, -1 where it turns; nothing to the operand that lends its sign."""
    x, y = inputs
    turned = not_equal(signbit(x), signbit(y))
    return where(turned, like(-1, x), like(1, x)), None


copysign_op = pointwise(
    "copysign",
    "The magnitude of x with the sign of y, which zeros and NaN have too.",
    FLOATS,
    partials=_copysign_partials,
    differentiable=(0.5, 4.0),
)
signbit_op = pointwise(
    "signbit", "Whether the sign bit is set: below 0, at -0, and at some NaN.", FLOATS,
    result="bool",
)  # fmt: skip


@surface
def copysign(x: Any, y: Any) -> Value:
    """The magnitude of x with the sign of y, where -0 is negative; integers give floats.

    Nothing of the gradient goes to y. The sign of NaN is open, as that of any NaN.
    """
    return apply(copysign_op, *float_operands(x, y))


@surface
def signbit(x: Any) -> Value:
    """Whether x is negative, as bool; -0 is. At NaN the answer is open."""
    value = as_value(x)
    return apply(signbit_op, value) if value.dtype.is_inexact else less(value, 0)


@surface
def isposinf(x: Any) -> Value:
    """Whether x is +inf, as bool; integers never are."""
    return _is_infinity(as_value(x), math.inf)


@surface
def isneginf(x: Any) -> Value:
    """Whether x is -inf, as bool; integers never are."""
    return _is_infinity(as_value(x), -math.inf)


def _is_infinity(value: Value, which: float) -> Value:
    if value.dtype.is_complex:
        raise refuse("complex infinities have no sign", "use gx.isinf, or ask of gx.real(x)")
    return equal(value, which) if value.dtype.is_float else isinf(value)


# --- neighbours ----------------------------------------------------------------------------------

nextafter_op = pointwise(
    "nextafter",
    "The float next to x on the side of y; y where both are equal.",
    COMPUTED_FLOATS,
    derivative=NotDifferentiable("the next float is no smooth function of a float"),
)


@surface
def nextafter(x: Any, y: Any) -> Value:
    """The float next to x on the side of y; y where both are equal, NaN beside NaN.

    Of float32 and float64; floats of 16 bits are computed with in float32, which has others.
    """
    return apply(nextafter_op, *float_operands(x, y))


@surface
def spacing(x: Any) -> Value:
    """The distance to the next float away from 0, with the sign of x; NaN at infinities."""
    value = float_operand(x)
    away = where(less(value, 0), like(-math.inf, value), like(math.inf, value))
    return nextafter(value, away) - value


# --- significands and exponents ------------------------------------------------------------------


def _ldexp_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    exponents = rng.integers(-9, 9, (4,))
    arrays = [rng.uniform(-4, 4, (3, 4)), exponents]
    return [array.astype(element.numpy) for array in arrays], {}


ldexp_op: OpDef = pointwise(
    "ldexp",
    "x times 2 to the y, rounded once; y is a whole number in the dtype of x.",
    FLOATS,
    derivative=Linear(
        lambda ct, inputs, output, attrs: (apply(ldexp_op, ct, inputs[1]), None), fixed=(1,)
    ),
    example=_ldexp_example,
)
frexp_exponent_op = pointwise(
    "frexp_exponent",
    "The exponent of the power of two that x is a significand in [1/2, 1) times, as a float; 0 for "
    "0, infinities and NaN.",
    FLOATS,
    primitive="exponent",
)
frexp_significand_op = pointwise(
    "frexp_significand",
    "x times the power of two that brings its magnitude into [1/2, 1); x where there is none.",
    FLOATS,
    primitive="significand",
    partials=lambda inputs, output, attrs: (
        apply(ldexp_op, like(1, output), -apply(frexp_exponent_op, inputs[0])),
    ),
    differentiable=(0.6, 0.9),
)


@surface
def frexp(x: Any) -> tuple[Value, Value]:
    """Significand in [1/2, 1) and exponent (int32) of x = significand * 2**exponent.

    0, infinities and NaN are their own significands, with exponent 0. The derivative of the
    exponent is zero.
    """
    value = float_operand(x)
    exponent = apply(frexp_exponent_op, value)
    return apply(frexp_significand_op, value), converted(exponent, int32)


@surface
def ldexp(x: Any, exponent: Any) -> Value:
    """x * 2**exponent, rounded once however large the exponent is.

    Raises:
        DTypeError: for an exponent that is no integer, as in NumPy.
    """
    value, power = float_operand(x), as_value(exponent)
    if power.dtype.is_float:
        raise refuse(f"ldexp takes an integer exponent, not {power.dtype}", "use x * gx.exp2(y)")
    return apply(ldexp_op, value, converted(power, value.dtype))


@surface
def modf(x: Any) -> tuple[Value, Value]:
    """What x has behind the point, and what before it, both with the sign of x."""
    value = float_operand(x)
    whole = trunc(value)
    rest = where(isinf(value), like(0, value), value - whole)
    return copysign(rest, value), whole


# --- numbers in the place of NaN -----------------------------------------------------------------


@surface
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Value:
    """x with other numbers in the place of NaN and infinities; integers stay as they are.

    Args:
        x: any numbers.
        copy: of no meaning, since values never change in place.
        nan: what NaN becomes.
        posinf: what inf becomes; the largest number of the dtype unless given.
        neginf: what -inf becomes; the least number of the dtype unless given.
    """
    value = as_value(x)
    if value.dtype.is_complex:
        re, im = (nan_to_num(part, copy, nan, posinf, neginf) for part in halves(value))
        return joined(re, im)
    if not value.dtype.is_float:
        return value
    top = value.dtype.format.largest
    for where_it_is, instead in (
        (isnan(value), nan),
        (isposinf(value), top if posinf is None else posinf),
        (isneginf(value), -top if neginf is None else neginf),
    ):
        value = where(where_it_is, in_dtype(instead, value.dtype, value), value)
    return value


@surface
def heaviside(x: Any, at_zero: Any) -> Value:
    """0 below 0, 1 above, ``at_zero`` at 0, NaN at NaN; integers give floats."""
    value, middle = float_operands(x, at_zero)
    step = converted(value > 0, value.dtype)
    return where(equal(value, 0), middle, where(isnan(value), value, step))
