"""NumPy's further forms of arithmetic, rounding and extremes, made of those there are."""

from __future__ import annotations

from typing import Any

from graphc.ir.dtypes import bool_, complex128, float64
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted, promoted
from graphc.ops.declare import float_operand, refuse
from graphc.ops.pointwise.arithmetic import floor_divide, mod, power
from graphc.ops.pointwise.logic import isnan, where
from graphc.ops.pointwise.rounding import abs_, maximum, minimum, round_


@surface
def positive(x: Any) -> Value:
    """x itself. Bools are an error, as in NumPy."""
    value = as_value(x)
    if value.dtype is bool_:
        raise refuse("positive does not take bool", "convert with astype")
    return value


@surface
def fabs(x: Any) -> Value:
    """|x| as a float: integers give floats."""
    return abs_(float_operand(x))


@surface
def rint(x: Any) -> Value:
    """x rounded to nearest, ties to even; integers give floats."""
    return round_(float_operand(x))


@surface
def divmod_(x: Any, y: Any) -> tuple[Value, Value]:
    """x // y and x % y; integers by zero give 0 and 0, bools become int8."""
    return floor_divide(x, y), mod(x, y)


@surface
def float_power(x: Any, y: Any) -> Value:
    """x ** y in float64, or complex128, whatever the operands are."""
    operands = promoted(x, y)
    element = complex128 if operands[0].dtype.is_complex else float64
    return power(*(converted(operand, element) for operand in operands))


@surface
def fmax(x: Any, y: Any) -> Value:
    """The larger of x and y, and the other one beside NaN; ties share the derivative evenly."""
    return _beside_nan(x, y, maximum)


@surface
def fmin(x: Any, y: Any) -> Value:
    """The smaller of x and y, and the other one beside NaN; ties share the derivative evenly."""
    return _beside_nan(x, y, minimum)


def _beside_nan(x: Any, y: Any, extreme: Any) -> Value:
    left, right = promoted(x, y)
    result: Value = extreme(left, right)
    if left.dtype.is_float:
        result = where(isnan(left), right, where(isnan(right), left, result))
    return result
