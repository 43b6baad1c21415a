"""The normal distribution and inverses of the error function.

Sources: Wichura, Algorithm AS 241, Applied Statistics 37 (1988), for quantiles; for the scaled
complement of the error function a quotient of polynomials that this project has fitted.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.builder import apply
from graphc.ir.op import Algebra
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, like
from graphc.ops.lanes import Lane, polynomial
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.math import exp
from graphc.ops.special.declared import (
    INFINITY,
    NAN,
    by_formula,
    quotient,
    squared_apart,
)

_ROOT_HALF, _ROOT_2 = math.sqrt(0.5), math.sqrt(2.0)
_ROOT_PI, _ROOT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)

# e^(t²)·erfc(t)·(3 + t) for t from 0 on, in powers of (t - 3) / (t + 3)
_SCALED_TOP = (
    -4.414420979726242e-06, 8.152970465070747e-05, -0.0006036181766308054,
    0.0043343629272521965, -0.012325134812112896, 0.062205981416008894, -0.0868852472994164,
    0.3684826999986867, -0.2649358128705983, 1.0067195871533836, -0.32700928488839764,
    1.0740069070883398,
)  # fmt: skip
_SCALED_BOTTOM = (
    3.55908264438086e-06, 6.4944914913198e-05, 0.0005787394900011653, 0.003391045668950112,
    0.014284354408828184, 0.04817669215161153, 0.12188012827800661, 0.2856078044857083,
    0.427145730491523, 0.8138963913842103, 0.5180461732689042, 1.0,
)  # fmt: skip

# Wichura's coefficients: near the middle, on the slopes, far out
_QUANTILE_NEAR = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_QUANTILE_SLOPE = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip
_QUANTILE_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887936900e-1, 1.0),
)  # fmt: skip


def scaled_erfc(t: Lane) -> Lane:
    """e^(t²)·erfc(t) for t that is not negative."""
    u = (t - 3.0) / (t + 3.0)
    result = quotient(u, _SCALED_TOP, _SCALED_BOTTOM) / (t + 3.0)
    return t.of("equal", INFINITY).where(0.0, result)


def _erfcx(x: Lane) -> Lane:
    """Below 0 it is 2·e^(x²) less what it is above."""
    own = scaled_erfc(x.of("abs"))
    # beyond -27 the exponential is infinite, and the parts of the square must not be
    square, rest = squared_apart(x.of("maximum", -27.0))
    reflected = square.of("exp") * rest.of("exp") * 2.0 - own
    return x.of("less", 0.0).where(reflected, own)


def _tail(size: Lane) -> Lane:
    """What of the normal distribution lies beyond a number that is not negative."""
    square, rest = squared_apart(size.of("minimum", 40.0))
    scale = (rest * -0.5).of("exp") * (scaled_erfc(size * _ROOT_HALF) * 0.5)
    return scale * (square * -0.5).of("exp")


def _distribution(x: Lane) -> Lane:
    """Near 0 by the error function, whose terms cancel below."""
    size = x.of("abs")
    tail = _tail(size)
    near = (x * _ROOT_HALF).of("erf") * 0.5 + 0.5
    far = x.of("less", 0.0).where(tail, 1.0 - tail)
    return size.of("less", 0.5).where(near, far)


def _log_distribution(x: Lane) -> Lane:
    """log1p of what is missing to 1; below -1 the exponent apart from the logarithm."""
    missing = _distribution(-x)
    scaled = scaled_erfc(x.of("abs") * _ROOT_HALF) * 0.5
    far = scaled.of("log") - x * x * 0.5
    return x.of("less", -1.0).where(far, (-missing).of("log1p"))


def _quantile(q: Lane, tail: Lane) -> Lane:
    """Of the probability q + 1/2, where ``tail`` is the lesser one of it and what it leaves."""
    size = q.of("abs")
    r = (-tail.of("log")).of("sqrt")
    is_near, is_slope = size.of("less_equal", 0.425), r.of("less_equal", 5.0)
    near, slope, far = 0.180625 - q * q, r - 1.6, r - 5.0
    parts = [
        is_near.where(
            polynomial(near, middle),
            is_slope.where(polynomial(slope, beside), polynomial(far, out)),
        )
        for middle, beside, out in zip(_QUANTILE_NEAR, _QUANTILE_SLOPE, _QUANTILE_FAR, strict=True)
    ]
    ratio = parts[0] / parts[1]
    ratio = tail.of("equal", 0.0).where(INFINITY, ratio)
    return is_near.where(q * ratio, ratio.of("copysign", q))


def _ndtri(p: Lane) -> Lane:
    return _quantile(p - 0.5, p.of("less", 0.5).where(p, 1.0 - p))


def _erfinv(x: Lane) -> Lane:
    return _quantile(x * 0.5, (1.0 - x.of("abs")) * 0.5) * _ROOT_HALF


def _erfcinv(x: Lane) -> Lane:
    # half of x would be 0 for the least number below 0
    tail = x.of("less", 1.0).where(x, 2.0 - x)
    found = _quantile((1.0 - x) * 0.5, tail * 0.5) * _ROOT_HALF
    return tail.of("less", 0.0).where(NAN, found)


def _density(x: Value) -> Value:
    return exp(x * x * -0.5) * (1 / _ROOT_2PI)


def _slope_of_log(x: Value) -> Value:
    """density / distribution, by the scaled complement where both vanish."""
    below = where(x < 0, x, like(0, x))
    above = where(x < 0, like(0, x), x)
    far = like(_ROOT_2 / _ROOT_PI, x) / erfcx(below * -_ROOT_HALF)
    result: Value = where(x < 0, far, _density(above) / ndtr(above))
    return result


_MONOTONE = Algebra(monotone=True)

erfcx_op = by_formula(
    "erfcx",
    "exp(x * x) * erfc(x), which neither vanishes nor overflows above 0.",
    _erfcx,
    partials=lambda inputs, output, attrs: (inputs[0] * output * 2 - 2 / _ROOT_PI,),
    differentiable=(-1.0, 4.0),
    max_ulp=4.5,
)
erfinv_op = by_formula(
    "erfinv",
    "The number whose error function is x; infinite at 1 and -1, NaN beyond.",
    _erfinv,
    partials=lambda inputs, output, attrs: (exp(output * output) * (_ROOT_PI / 2),),
    algebra=_MONOTONE,
    low=-1.0,
    high=1.0,
    differentiable=(-0.9, 0.9),
    max_ulp=5.5,
)
erfcinv_op = by_formula(
    "erfcinv",
    "The number whose erfc is x; inf at 0, -inf at 2, NaN beyond.",
    _erfcinv,
    partials=lambda inputs, output, attrs: (exp(output * output) * (-_ROOT_PI / 2),),
    low=0.0,
    high=2.0,
    differentiable=(0.1, 1.9),
    max_ulp=4.5,
)
ndtr_op = by_formula(
    "ndtr",
    "The standard normal distribution: the probability of less than x.",
    _distribution,
    partials=lambda inputs, output, attrs: (_density(inputs[0]),),
    algebra=_MONOTONE,
    max_ulp=5.0,
)
log_ndtr_op = by_formula(
    "log_ndtr",
    "The logarithm of the standard normal distribution, right far below 0 too.",
    _log_distribution,
    partials=lambda inputs, output, attrs: (_slope_of_log(inputs[0]),),
    algebra=_MONOTONE,
    max_ulp=5.0,
)
ndtri_op = by_formula(
    "ndtri",
    "The quantile of the standard normal distribution; infinite at 0 and 1, NaN beyond.",
    _ndtri,
    partials=lambda inputs, output, attrs: (exp(output * output * 0.5) * _ROOT_2PI,),
    algebra=_MONOTONE,
    low=0.0,
    high=1.0,
    differentiable=(0.05, 0.95),
    max_ulp=5.0,
)


def erfcx(x: Any) -> Value:
    """exp(x * x) * erfc(x), as in SciPy; integers give floats."""
    return apply(erfcx_op, float_operand(x))


def erfinv(x: Any) -> Value:
    """The number whose error function is x: infinite at 1 and -1, NaN beyond."""
    return apply(erfinv_op, float_operand(x))


def erfcinv(x: Any) -> Value:
    """The number whose ``erfc`` is x: inf at 0, -inf at 2, NaN beyond."""
    return apply(erfcinv_op, float_operand(x))


def ndtr(x: Any) -> Value:
    """The standard normal distribution, accurate where it is small; integers give floats."""
    return apply(ndtr_op, float_operand(x))


def log_ndtr(x: Any) -> Value:
    """The logarithm of ``ndtr``, which is no -inf far below 0; integers give floats."""
    return apply(log_ndtr_op, float_operand(x))


def ndtri(p: Any) -> Value:
    """The inverse of ``ndtr``: infinite at 0 and 1, NaN beyond; integers give floats."""
    return apply(ndtri_op, float_operand(p))


__all__ = ["erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]
