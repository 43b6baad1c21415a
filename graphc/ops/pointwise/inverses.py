"""Inverse functions: arcsine and arccosine, the areas of hyperbolic functions, the cube root.

Invariant: operands are floats (``declare.float_dtype`` says which for integers); outside of its
domain a function is NaN, and signed zeros keep their signs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS
from graphc.ir.op import Algebra
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.complex.inverses import (
    complex_arccos,
    complex_arccosh,
    complex_arcsin,
    complex_arcsinh,
    complex_arctanh,
)
from graphc.ops.declare import float_operand, like, pointwise, through_float64
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.math import log1p, of_a_real
from graphc.ops.pointwise.rounding import abs_
from graphc.ops.pointwise.signs import copysign

_LN2 = math.log(2.0)


def _cosine_of_arcsine(x: Value) -> Value:
    return sqrt((1 - x) * (x + 1))


arcsin_op = of_a_real(
    "arcsin", "The angle in [-pi/2, pi/2] whose sine is x; NaN beyond 1.",
    lambda x, y: like(1, x) / _cosine_of_arcsine(x), monotone=True, low=-1.0, high=1.0,
    differentiable=(-0.9, 0.9),
    of_complex=complex_arcsin,
)  # fmt: skip
arccos_op = of_a_real(
    "arccos", "The angle in [0, pi] whose cosine is x; NaN beyond 1.",
    lambda x, y: like(-1, x) / _cosine_of_arcsine(x), low=-1.0, high=1.0,
    differentiable=(-0.9, 0.9),
    of_complex=complex_arccos,
)  # fmt: skip


@surface
def arcsin(x: Any) -> Value:
    """The angle in [-pi/2, pi/2] whose sine is x, NaN beyond 1; integers give floats."""
    return apply(arcsin_op, float_operand(x))


@surface
def arccos(x: Any) -> Value:
    """The angle in [0, pi] whose cosine is x, NaN beyond 1; integers give floats."""
    return apply(arccos_op, float_operand(x))


# --- areas of hyperbolic functions ---------------------------------------------------------------


def _is_huge(x: Value) -> Value:
    """Where 1 is nothing beside x², so that an area is log 2x."""
    result: Value = x > 2.0 ** (x.dtype.format.significand // 2 + 2)
    return result


def _log_of_one_and(term: Value, x: Value) -> Value:
    """log(1 + term), but log 2x where x is huge and its square may be too large."""
    huge = _is_huge(x)
    return log1p(where(huge, x - 1, term)) + where(huge, like(_LN2, x), like(0, x))


def _arcsinh_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    """log(x + sqrt(1 + x²)) of the magnitude, what is added to 1 kept apart."""
    (x,) = inputs
    size = abs_(x)
    square = size * size
    beyond_one = size + square / (sqrt(square + 1) + 1)
    return copysign(_log_of_one_and(beyond_one, size), x)


def _arccosh_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    """log(x + sqrt(x² - 1)) as log1p of t + sqrt(2t + t²), t = x - 1."""
    (x,) = inputs
    t = x - 1
    area = _log_of_one_and(t + sqrt(t * (t + 2)), x)
    return where(x < 1, like(math.nan, x), area)


def _arctanh_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    (x,) = inputs
    size = abs_(x)
    return copysign(log1p((size + size) / (1 - size)) * 0.5, x)


arcsinh_op = pointwise(
    "arcsinh",
    "The number whose hyperbolic sine is x.",
    FLOATS,
    partials=lambda inputs, output, attrs: (
        like(1, inputs[0]) / surface_function("hypot")(inputs[0], 1),
    ),
    parts=_arcsinh_rule,
    reference=through_float64(np.arcsinh),
    arity=1,
    numerics="R",
    algebra=Algebra(monotone=True),
    max_ulp=4.0,
    of_complex=complex_arcsinh,
)
arccosh_op = pointwise(
    "arccosh",
    "The number that is not negative and whose hyperbolic cosine is x; NaN below 1.",
    FLOATS,
    partials=lambda inputs, output, attrs: (
        like(1, inputs[0]) / (sqrt(inputs[0] - 1) * sqrt(inputs[0] + 1)),
    ),
    parts=_arccosh_rule,
    reference=through_float64(np.arccosh),
    arity=1,
    numerics="R",
    algebra=Algebra(monotone=True),
    low=1.0,
    differentiable=(1.2, 4.0),
    max_ulp=4.0,
    of_complex=complex_arccosh,
)
arctanh_op = pointwise(
    "arctanh",
    "The number whose hyperbolic tangent is x; infinite at 1, NaN beyond.",
    FLOATS,
    partials=lambda inputs, output, attrs: (
        like(1, inputs[0]) / ((1 - inputs[0]) * (inputs[0] + 1)),
    ),
    parts=_arctanh_rule,
    reference=through_float64(np.arctanh),
    arity=1,
    numerics="R",
    algebra=Algebra(monotone=True),
    low=-1.0,
    high=1.0,
    differentiable=(-0.9, 0.9),
    max_ulp=4.0,
    of_complex=complex_arctanh,
)


@surface
def arcsinh(x: Any) -> Value:
    """The number whose hyperbolic sine is x; integers give floats."""
    return apply(arcsinh_op, float_operand(x))


@surface
def arccosh(x: Any) -> Value:
    """The number, not negative, whose hyperbolic cosine is x; NaN below 1; integers give floats."""
    return apply(arccosh_op, float_operand(x))


@surface
def arctanh(x: Any) -> Value:
    """The number whose hyperbolic tangent is x: infinite at 1, NaN beyond; integers give floats."""
    return apply(arctanh_op, float_operand(x))


# --- the cube root -------------------------------------------------------------------------------


cbrt_op = of_a_real(
    "cbrt",
    "The cube root, negative for negative numbers.",
    lambda x, y: like(1 / 3, y) / (y * y),
    monotone=True,
    differentiable=(0.2, 4.0),
    max_ulp=1.0,
)


@surface
def cbrt(x: Any) -> Value:
    """The cube root, negative for negative numbers; integers give floats."""
    return apply(cbrt_op, float_operand(x))
