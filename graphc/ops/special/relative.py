"""Relative entropies, and the logarithm of the logistic function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, float_operands, like
from graphc.ops.lanes import Lane
from graphc.ops.nn.layers import softplus
from graphc.ops.pointwise.logic import equal, where
from graphc.ops.special.declared import INFINITY, NAN, by_formula
from graphc.ops.special.quadrature import log1p_rest

_LEAST = 2.0**-1022


def _parts(x: Lane, y: Lane) -> tuple[Lane, Lane]:
    """y / x - 1, and log(y / x) where the quotient is no number too."""
    ratio, apart = y / x, (y - x) / x
    is_normal = ratio.of("greater_equal", _LEAST) & ratio.of("less", INFINITY)
    log = is_normal.where(ratio.of("log"), y.of("log") - x.of("log"))
    return apart, apart.of("abs").of("less", 0.5).where(apart.of("log1p"), log)


def _at_ends(x: Lane, y: Lane, at_zero: Lane, result: Lane) -> Lane:
    """Inside both are above 0; x may be 0, and all else is infinite."""
    inside = x.of("greater", 0.0) & y.of("greater", 0.0)
    nothing = x.of("equal", 0.0) & y.of("greater_equal", 0.0)
    result = inside.where(result, nothing.where(at_zero, x.like(INFINITY)))
    return (x.of("isnan") | y.of("isnan")).where(NAN, result)


def _entropy(x: Lane, y: Lane) -> Lane:
    _, log = _parts(x, y)
    return _at_ends(x, y, x.like(0.0), -(x * log))


def _divergence(x: Lane, y: Lane) -> Lane:
    """Beside y = x what cancels is taken out before anything is rounded."""
    apart, log = _parts(x, y)
    near = -(x * log1p_rest(apart, log))
    far = (y - x) - x * log
    return _at_ends(x, y, y, apart.of("abs").of("less", 0.5).where(near, far))


def _log_ratio(x: Value, y: Value, entropy: Value) -> Value:
    """log(x / y) by what it is multiplied by in the entropy, -inf at x = 0."""
    at_zero = equal(x, 0)
    result: Value = where(at_zero, like(-math.inf, x), entropy / where(at_zero, like(1, x), x))
    return result


def _entropy_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    x, y = inputs
    return _log_ratio(x, y, output) + 1, -x / y


def _divergence_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    x, y = inputs
    return _log_ratio(x, y, apply(rel_entr_op, x, y)), 1 - x / y


rel_entr_op = by_formula(
    "rel_entr",
    "x log(x / y), 0 where x is 0 and y is not below, inf where one of both is negative.",
    _entropy,
    partials=_entropy_partials,
    arity=2,
    low=0.0,
    differentiable=(0.5, 4.0),
    max_ulp=4.5,
)
kl_div_op = by_formula(
    "kl_div",
    "x log(x / y) - x + y, which is not negative and convex in both; as rel_entr outside.",
    _divergence,
    partials=_divergence_partials,
    arity=2,
    low=0.0,
    differentiable=(0.5, 4.0),
    max_ulp=16.0,
)


def rel_entr(x: Any, y: Any) -> Value:
    """x log(x / y), as in SciPy; the sum is the divergence of Kullback and Leibler.

    It is 0 where x is 0 and y not below, and inf where one of both is negative or y alone is 0.
    """
    return apply(rel_entr_op, *float_operands(x, y))


def kl_div(x: Any, y: Any) -> Value:
    """x log(x / y) - x + y, as in SciPy, which is convex in both; inf outside as ``rel_entr``."""
    return apply(kl_div_op, *float_operands(x, y))


def log_expit(x: Any) -> Value:
    """The logarithm of ``expit``, right far below 0 too; integers give floats."""
    return -softplus(-float_operand(x))
