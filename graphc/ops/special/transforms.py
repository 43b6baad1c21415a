"""Box and Cox's transforms, losses of Huber, and differences from 1 that nothing cancels in."""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.value import Value
from graphc.ops.declare import float_operand, float_operands, like
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.logic import equal, isinf, where
from graphc.ops.pointwise.math import exp, expm1, log, log1p, sin
from graphc.ops.pointwise.rounding import abs_

_TINY = 1e-20
"""Up to here (e^t - 1) / t and log(1 + t) / t are 1 and half of t, which slopes are made of."""


def _by_power(logarithm: Value, power: Value) -> Value:
    """(e^(power logarithm) - 1) / power, and its limit at power 0."""
    endless, nothing = isinf(logarithm), equal(power, 0)
    product = where(endless, like(0, power), power) * logarithm
    product = where(endless, like(0, product), product)
    is_near = nothing | ((abs_(product) < _TINY) & ~endless)
    some = where(is_near, like(1, power), power)
    far = expm1(where(nothing, like(0, logarithm), some * logarithm)) / some
    result: Value = where(is_near, logarithm * (product * 0.5 + 1), far)
    return result


def _log_by_power(y: Value, power: Value) -> Value:
    """log(1 + power y) / power, and its limit at power 0."""
    product = power * y
    is_near = abs_(product) < _TINY
    some = where(is_near, like(1, power), power)
    far = log1p(where(is_near, like(0, product), product)) / some
    result: Value = where(is_near, y * (1 - product * 0.5), far)
    return result


def boxcox(x: Any, lmbda: Any) -> Value:
    """(x**lmbda - 1) / lmbda, and log(x) where lmbda is 0, as in SciPy; NaN for x below 0."""
    value, power = float_operands(x, lmbda)
    return _by_power(log(value), power)


def boxcox1p(x: Any, lmbda: Any) -> Value:
    """``boxcox`` of 1 + x, which is not rounded; NaN for x below -1."""
    value, power = float_operands(x, lmbda)
    return _by_power(log1p(value), power)


def inv_boxcox(y: Any, lmbda: Any) -> Value:
    """The x whose ``boxcox`` is y: (1 + lmbda y)**(1 / lmbda), and exp(y) where lmbda is 0."""
    value, power = float_operands(y, lmbda)
    return exp(_log_by_power(value, power))


def inv_boxcox1p(y: Any, lmbda: Any) -> Value:
    """The x whose ``boxcox1p`` is y: ``inv_boxcox(y, lmbda)`` - 1 without cancellation."""
    value, power = float_operands(y, lmbda)
    return expm1(_log_by_power(value, power))


def huber(delta: Any, r: Any) -> Value:
    """Huber's loss: r**2 / 2 up to delta, and linear beyond; inf for delta below 0."""
    bound, residual = float_operands(delta, r)
    size = abs_(residual)
    near = size <= bound
    found = where(near, size * size * 0.5, bound * (size - bound * 0.5))
    result: Value = where(bound < 0, like(math.inf, bound), found)
    return result


def pseudo_huber(delta: Any, r: Any) -> Value:
    """delta**2 (sqrt(1 + (r / delta)**2) - 1) without cancellation, smooth everywhere.

    It is 0 where delta is 0, and inf for delta below 0.
    """
    bound, residual = float_operands(delta, r)
    nothing = equal(bound, 0)
    ratio = residual / where(nothing, like(1, bound), bound)
    square = ratio * ratio
    found = bound * (bound * (square / (sqrt(square + 1) + 1)))
    found = where(nothing, like(0, found), found)
    result: Value = where(bound < 0, like(math.inf, bound), found)
    return result


def cosm1(x: Any) -> Value:
    """cos(x) - 1, right near 0 too; integers give floats."""
    half = sin(float_operand(x) * 0.5)
    return half * half * -2


def exprel(x: Any) -> Value:
    """(exp(x) - 1) / x, which is 1 at 0; integers give floats."""
    value = float_operand(x)
    # the series gives derivatives where the quotient's would cancel
    is_near = abs_(value) < 0.03
    near = where(is_near, value, like(0, value))
    series = like(1 / math.factorial(10), near)
    for k in range(9, 0, -1):
        series = series * near + 1 / math.factorial(k)
    far = where(is_near, like(1, value), value)
    quotient = where(equal(far, math.inf), far, expm1(far) / far)
    result: Value = where(is_near, series, quotient)
    return result


__all__ = [
    "boxcox",
    "boxcox1p",
    "cosm1",
    "exprel",
    "huber",
    "inv_boxcox",
    "inv_boxcox1p",
    "pseudo_huber",
]
