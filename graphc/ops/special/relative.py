"""Relative entropies, and the logarithm of the logistic function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, float_operands, like, pointwise, through_float64
from graphc.ops.nn.layers import softplus
from graphc.ops.pointwise.logic import equal, isnan, where
from graphc.ops.pointwise.math import log


def _relative(x: Value, y: Value) -> Value:
    """x log(x / y) where both are above 0; 0 where x is 0, inf elsewhere, NaN beside NaN."""
    inside = (x > 0) & (y > 0)
    nothing = equal(x, 0) & (y >= 0)
    one = like(1, x)
    product = x * log(where(inside, x, one) / where(inside, y, one))
    outside = where(nothing, like(0, x), like(math.inf, x))
    result = where(inside, product, outside)
    return where(isnan(x) | isnan(y), like(math.nan, x), result)


def _relative_reference(x: Any, y: Any) -> Any:
    inside = (x > 0) & (y > 0)
    ratio = np.where(inside, x, 1) / np.where(inside, y, 1)
    outside = np.where((x == 0) & (y >= 0), 0, np.inf)
    found = np.where(inside, x * np.log(ratio), outside)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, found)


rel_entr_op = pointwise(
    "rel_entr",
    "x log(x / y), 0 where x is 0 and y is not below, inf where one of both is negative.",
    FLOATS,
    partials=lambda inputs, output, attrs: (
        log(inputs[0] / inputs[1]) + 1,
        -inputs[0] / inputs[1],
    ),
    parts=lambda inputs, attrs: _relative(*inputs),
    reference=through_float64(_relative_reference),
    arity=2,
    numerics="R",
    low=0.0,
    differentiable=(0.5, 4.0),
)


def rel_entr(x: Any, y: Any) -> Value:
    """x log(x / y), as in SciPy; the sum is the divergence of Kullback and Leibler.

    It is 0 where x is 0 and y not below, and inf where one of both is negative or y alone is 0.
    """
    return apply(rel_entr_op, *float_operands(x, y))


def kl_div(x: Any, y: Any) -> Value:
    """x log(x / y) - x + y, as in SciPy, which is convex in both; inf outside as ``rel_entr``."""
    first, second = float_operands(x, y)
    entropy = rel_entr(first, second)
    outside = equal(entropy, math.inf)
    result: Value = where(outside, entropy, entropy - first + second)
    return result


def log_expit(x: Any) -> Value:
    """The logarithm of ``expit``, right far below 0 too; integers give floats."""
    return -softplus(-float_operand(x))
