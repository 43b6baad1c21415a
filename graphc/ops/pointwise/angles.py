"""Angles in degrees, and the sine of multiples of pi."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, like, pointwise, through_float64
from graphc.ops.pointwise.logic import equal, not_equal, where
from graphc.ops.pointwise.math import cos, sin
from graphc.ops.pointwise.rounding import abs_, floor, round_


@surface
def degrees(x: Any) -> Value:
    """An angle in radians as one in degrees: x * (180 / pi); integers give floats."""
    return float_operand(x) * (180.0 / math.pi)


@surface
def radians(x: Any) -> Value:
    """An angle in degrees as one in radians: x * (pi / 180); integers give floats."""
    return float_operand(x) * (math.pi / 180.0)


# --- sinc ----------------------------------------------------------------------------------------


def _turned(function: Any, x: Value) -> Value:
    """A sine or cosine of pi x, of the rest from the nearest whole number, which is exact."""
    whole = round_(x)
    half = whole * 0.5
    value = function((x - whole) * math.pi)
    return where(not_equal(half, floor(half)), -value, value)


def _sinc_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    (x,) = inputs
    at_zero = equal(x, 0)
    divisor = where(at_zero, like(1, x), x * math.pi)
    return where(at_zero, like(1, x), _turned(sin, x) / divisor)


def _sinc(x: Any) -> Any:
    whole = np.rint(x)
    sine = np.where(whole / 2 != np.floor(whole / 2), -1, 1) * np.sin(np.pi * (x - whole))
    return np.where(x == 0, 1, sine / np.where(x == 0, 1, np.pi * x))


def _sinc_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """(cos pi x - sinc x) / x; near 0, where that cancels, four terms of its series."""
    (x,) = inputs
    near = abs_(x) < 0.05
    square = x * x
    series = like(0, x)
    for power in range(4, 0, -1):
        # d/dx of (-1)^k (pi x)^(2k) / (2k + 1)!
        factor = (-1) ** power * 2 * power * math.pi ** (2 * power) / math.factorial(2 * power + 1)
        series = series * square + factor
    exact = (_turned(cos, x) - output) / where(near, like(1, x), x)
    return (where(near, series * x, exact),)


sinc_op = pointwise(
    "sinc",
    "sin(pi x) / (pi x), 1 at 0 and 0 at other whole numbers.",
    FLOATS,
    partials=_sinc_partials,
    parts=_sinc_rule,
    reference=through_float64(_sinc),
    arity=1,
    numerics="R",
    max_ulp=4.0,
)


@surface
def sinc(x: Any) -> Value:
    """sin(pi x) / (pi x), 1 at 0; integers give floats.

    At other whole numbers it is 0, where NumPy, which rounds pi x, has some 1e-17.
    """
    return apply(sinc_op, float_operand(x))
