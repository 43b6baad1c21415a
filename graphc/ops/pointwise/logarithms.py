"""Logarithms beyond the natural one: to base 10, of sums, of odds, and products with logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS
from graphc.ir.op import Algebra
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.complex.elementary import complex_log10
from graphc.ops.declare import float_operand, float_operands, like, pointwise, through_float64
from graphc.ops.pointwise.logic import equal, isnan, logical_not, where
from graphc.ops.pointwise.math import (
    exp2,
    gap,
    log,
    log1p,
    of_a_real,
    shares_of_sum,
)
from graphc.ops.pointwise.rounding import abs_, maximum, minimum
from graphc.ops.pointwise.signs import copysign

_LN2, _LN10 = math.log(2.0), math.log(10.0)

log10_op = of_a_real(
    "log10", "The logarithm to base 10; -inf at 0, NaN below.",
    lambda x, y: like(1 / _LN10, x) / x, monotone=True, low=0.0, differentiable=(0.5, 4.0),
    of_complex=complex_log10,
)  # fmt: skip


@surface
def log10(x: Any) -> Value:
    """The logarithm to base 10: -inf at 0, NaN below; integers give floats."""
    return apply(log10_op, float_operand(x))


# --- of sums -------------------------------------------------------------------------------------


def _logaddexp2_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    return maximum(*inputs) + log1p(exp2(-abs_(gap(inputs)))) * (1 / _LN2)


logaddexp2_op = pointwise(
    "logaddexp2",
    "log2(2**x + 2**y) without overflow; -inf is its neutral element. Near 0 the ulp are those of "
    "1, since its terms cancel.",
    FLOATS,
    partials=lambda inputs, output, attrs: shares_of_sum(output, gap(inputs) * _LN2),
    parts=_logaddexp2_rule,
    reference=through_float64(np.logaddexp2),
    arity=2,
    numerics="R",
    algebra=Algebra(commutative=True),
    low=0.0,
    max_ulp=4.0,
)


@surface
def logaddexp2(x: Any, y: Any) -> Value:
    """log2(2**x + 2**y) without overflow; integers give floats."""
    return apply(logaddexp2_op, *float_operands(x, y))


# --- of odds -------------------------------------------------------------------------------------


def _logit_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    """log1p of |2x - 1| beside the smaller share, with the sign of 2x - 1: nothing cancels.

    Of small x the two logarithms are far from each other, and the quotient might overflow.
    """
    (x,) = inputs
    rest = x + x - 1
    # -0 has the odds of 0
    odds = abs_(rest) / (minimum(x, 1 - x) + 0.0)
    return where(x < 0.25, log(x + 0.0) - log1p(-x), copysign(log1p(odds), rest))


def _logit(x: Any) -> Any:
    rest = 2 * x - 1
    large = np.copysign(np.log1p(np.abs(rest) / (np.minimum(x, 1 - x) + 0.0)), rest)
    return np.where(x < 0.25, np.log(x + 0.0) - np.log1p(-x), large)


logit_op = pointwise(
    "logit",
    "log(x / (1 - x)), the inverse of sigmoid; infinite at 0 and 1, NaN beyond.",
    FLOATS,
    partials=lambda inputs, output, attrs: (like(1, inputs[0]) / (inputs[0] * (1 - inputs[0])),),
    parts=_logit_rule,
    reference=through_float64(_logit),
    arity=1,
    numerics="R",
    algebra=Algebra(monotone=True),
    low=0.0,
    high=1.0,
    differentiable=(0.1, 0.9),
    max_ulp=4.0,
)


@surface
def logit(x: Any) -> Value:
    """log(x / (1 - x)), the inverse of ``expit``: infinite at 0 and 1, NaN beyond."""
    return apply(logit_op, float_operand(x))


# --- products ------------------------------------------------------------------------------------


def _times_log(logarithm: Callable[[Any], Value], x: Value, y: Value) -> Value:
    """x times a logarithm of y, 0 where x is 0 and y is not NaN."""
    nothing = equal(x, 0) & logical_not(isnan(y))
    return where(nothing, like(0, x), x * logarithm(y))


def _numpy_times_log(function: Any) -> Any:
    def reference(x: Any, y: Any) -> Any:
        return np.where((x == 0) & ~np.isnan(y), 0, x * function(y))

    return through_float64(reference)


xlogy_op = pointwise(
    "xlogy",
    "x log y, 0 where x is 0 and y is not NaN.",
    FLOATS,
    partials=lambda inputs, output, attrs: (log(inputs[1]), inputs[0] / inputs[1]),
    parts=lambda inputs, attrs: _times_log(log, *inputs),
    reference=_numpy_times_log(np.log),
    arity=2,
    numerics="R",
    low=0.0,
    differentiable=(0.5, 4.0),
    max_ulp=3.0,
)
xlog1py_op = pointwise(
    "xlog1py",
    "x log(1 + y), 0 where x is 0 and y is not NaN.",
    FLOATS,
    partials=lambda inputs, output, attrs: (log1p(inputs[1]), inputs[0] / (inputs[1] + 1)),
    parts=lambda inputs, attrs: _times_log(log1p, *inputs),
    reference=_numpy_times_log(np.log1p),
    arity=2,
    numerics="R",
    low=-0.9,
    differentiable=(0.5, 4.0),
    max_ulp=3.0,
)
entr_op = pointwise(
    "entr",
    "-x log x, 0 at 0 and -inf below.",
    FLOATS,
    partials=lambda inputs, output, attrs: (-1 - log(inputs[0]),),
    parts=lambda inputs, attrs: where(
        inputs[0] < 0, like(-math.inf, inputs[0]), -_times_log(log, *inputs, *inputs)
    ),
    reference=through_float64(
        lambda x: np.where(x < 0, -np.inf, np.where(x == 0, 0, -x * np.log(x)))
    ),
    arity=1,
    numerics="R",
    low=0.0,
    differentiable=(0.1, 4.0),
    max_ulp=3.0,
)


@surface
def xlogy(x: Any, y: Any) -> Value:
    """x log y, 0 where x is 0 and y is not NaN, as in SciPy; integers give floats."""
    return apply(xlogy_op, *float_operands(x, y))


@surface
def xlog1py(x: Any, y: Any) -> Value:
    """x log(1 + y), 0 where x is 0 and y is not NaN, as in SciPy; integers give floats."""
    return apply(xlog1py_op, *float_operands(x, y))


@surface
def entr(x: Any) -> Value:
    """-x log x, 0 at 0 and -inf below, as in SciPy; integers give floats."""
    return apply(entr_op, float_operand(x))
