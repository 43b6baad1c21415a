"""Activations by the names of ``jax.nn`` that are short formulas of others.

Invariant: no part of a formula overflows where the whole does not, so that gradients are right too.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.dims.expressions import product
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.convert import axes_of, axis_of, size_beside
from graphc.ops.declare import float_operand, like
from graphc.ops.guards import unproved
from graphc.ops.move.parts import split
from graphc.ops.move.shape import with_shape
from graphc.ops.nn.layers import softplus
from graphc.ops.pointwise.arithmetic import rsqrt, sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.math import exp, expm1, log, log1p, sigmoid, tanh
from graphc.ops.pointwise.rounding import abs_, clip, minimum
from graphc.ops.reduce.axes import Axis
from graphc.ops.reduce.statistics import logsumexp, mean, var

# Klambauer and others, "Self-normalizing neural networks", arXiv:1706.02515
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def elu(x: Any, alpha: float = 1.0) -> Value:
    """x above 0, else alpha * expm1(x); integers give floats."""
    value, scale = float_operand(x), number(alpha, "alpha")
    result: Value = where(value > 0, value, expm1(minimum(value, 0)) * scale)
    return result


def celu(x: Any, alpha: float = 1.0) -> Value:
    """x above 0, else alpha * expm1(x / alpha), whose slope at 0 is 1 for every alpha."""
    value, scale = float_operand(x), number(alpha, "alpha")
    result: Value = where(value > 0, value, expm1(minimum(value, 0) / scale) * scale)
    return result


def selu(x: Any) -> Value:
    """``elu`` with the scales that keep mean and variance, of arXiv:1706.02515."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


def glu(x: Any, axis: int = -1) -> Value:
    """The first half along an axis times the sigmoid of the second.

    Raises:
        ShapeError: for an axis of an odd size; at run time where that is unknown.
    """
    value = float_operand(x)
    guards = unproved(
        [(value.shape[axis_of(axis, value.ndim)] % 2, 0)],
        f"glu of {{}} along axis {axis}",
        value.shape,
        hint="the axis has two halves, so its size is even",
    )
    value = with_shape(value, value.shape, guards)
    first, second = split(value, 2, axis)
    result: Value = first * sigmoid(second)
    return result


def hard_sigmoid(x: Any) -> Value:
    """x / 6 + 1/2, cut off at 0 and 1."""
    return clip(float_operand(x) + 3, 0, 6) * (1 / 6)


def hard_silu(x: Any) -> Value:
    """x times ``hard_sigmoid(x)``, also known as hard_swish."""
    value = float_operand(x)
    return value * hard_sigmoid(value)


def hard_tanh(x: Any) -> Value:
    """x, cut off at -1 and 1."""
    return clip(float_operand(x), -1, 1)


def relu6(x: Any) -> Value:
    """x, cut off at 0 and 6."""
    return clip(float_operand(x), 0, 6)


def log_sigmoid(x: Any) -> Value:
    """log(sigmoid(x)), right far below 0 too."""
    return -softplus(-float_operand(x))


def mish(x: Any) -> Value:
    """x * tanh(softplus(x)), of Misra, arXiv:1908.08681."""
    value = float_operand(x)
    return value * tanh(softplus(value))


def soft_sign(x: Any) -> Value:
    """x / (1 + |x|)."""
    value = float_operand(x)
    return value / (abs_(value) + 1)


def squareplus(x: Any, b: Any = 4) -> Value:
    """(x + sqrt(x * x + b)) / 2, of Barron, arXiv:2112.11687."""
    value = float_operand(x)
    return (value + sqrt(value * value + b)) * 0.5


def sparse_plus(x: Any) -> Value:
    """0 up to -1, x from 1 on, and the parabola (x + 1)² / 4 between."""
    value = float_operand(x)
    middle = clip(value, -1, 1) + 1
    result: Value = where(value >= 1, value, middle * middle * 0.25)
    return result


def sparse_sigmoid(x: Any) -> Value:
    """(x + 1) / 2, cut off at 0 and 1: the slope of ``sparse_plus``."""
    return clip(float_operand(x) * 0.5 + 0.5, 0, 1)


def log1mexp(x: Any) -> Value:
    """log(1 - exp(-x)) for x that is not negative, accurate near 0 and far from it.

    By Mächler, "Accurately computing log(1 - exp(-|a|))", 2012.
    """
    value = float_operand(x)
    is_near = value < math.log(2)
    near, far = where(is_near, value, like(1, value)), where(is_near, like(1, value), value)
    result: Value = where(is_near, log(-expm1(-near)), log1p(-exp(-far)))
    return result


def logmeanexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """log(mean(exp(x))) over an axis, several, or all (None), without overflow."""
    value = float_operand(x)
    count = product(value.shape[place] for place in axes_of(axis, value.ndim))
    return logsumexp(value, axis, keepdims) - log(size_beside(count, value.dtype, value))


def standardize(x: Any, axis: Axis = -1, epsilon: float = 1e-5) -> Value:
    """x less its mean, by the root of its variance and epsilon, along an axis."""
    value = float_operand(x)
    spread = rsqrt(var(value, axis, keepdims=True) + number(epsilon, "epsilon"))
    return (value - mean(value, axis, keepdims=True)) * spread
