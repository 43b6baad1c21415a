"""The gamma function, its logarithm and the logarithm's derivative.

Source: Stirling's series from 3 on (DLMF 5.11.1 and 5.11.2), the reflection below 0 (DLMF 5.5.3 and
5.5.4), and between quotients of polynomials. All polynomials here are relative minimax fits of this
project, made with 50 digits; each says of what.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.base.words import is_count, shown
from graphc.ir.builder import apply
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, like, refuse
from graphc.ops.lanes import Lane, polynomial
from graphc.ops.special.declared import (
    INFINITY,
    NAN,
    by_formula,
    is_odd,
    is_whole,
    quotient,
)
from graphc.ops.special.zetas import zeta

# log Γ(x) / ((x - 1)(x - 2)) on [1, 3]
_LOG_GAMMA_TOP = (
    0.0014054574502140086, 0.6331453486801244, 16.504448620624483, 110.10050731557014,
    245.23128270842685, 190.97685906219823, 47.17364433839504, 2.4181149990547706,
)  # fmt: skip
_LOG_GAMMA_BOTTOM = (
    0.16596510941584172, 7.433095867732942, 80.66981419772377, 300.07890060110833,
    421.3920326637446, 216.87338075762622, 34.449823169054085, 1.0,
)  # fmt: skip
# what Stirling's formula for log Γ(x) leaves, times x, in 1/x² up to 1/9
_STIRLING_TOP = (
    0.14957367135321326, 2.8094220927967486, 7.18880542059648, 5.152727265275216,
    1.2207856415348342, 0.08333333333333333,
)  # fmt: skip
_STIRLING_BOTTOM = (
    2.4797332540237518, 36.15472272198437, 88.21005970928344, 62.3126287415059,
    14.682761031751337, 1.0,
)  # fmt: skip
# Γ(x) by Stirling's formula for it, in 1/x up to 1/3
_SCALED_TOP = (
    0.19992711463837723, 2.2158205941044735, 6.425317744465584, 10.543371417550325,
    8.606427781668708, 4.399628977385772, 1.0,
)  # fmt: skip
_SCALED_BOTTOM = (
    0.060500438211774595, 1.738269435145779, 5.588154260358488, 9.844126919118446,
    8.24326425577491, 4.316295644052442, 1.0,
)  # fmt: skip
# Γ(2 + t), t from -1/2 to 1/2
_GAMMA_TOP = (
    5.4397485965383556e-05, 0.0006405568683937316, 0.005381053821625117, 0.030516855941629017,
    0.13294124037988042, 0.4127695744238425, 0.8850138241684433, 1.0,
)  # fmt: skip
_GAMMA_BOTTOM = (
    0.00010970895716193337, -0.0010714015103172544, 0.0009932897014230072, 0.022663156035028185,
    -0.05677134736444087, -0.19449414320195094, 0.46222948906997613, 1.0,
)  # fmt: skip
# ψ's zero in two parts, and ψ(x) / (x - zero) on [1, 3]
_PSI_ZERO = (1.4616321449683622, 9.549995429965697e-17)
_PSI_TOP = (
    145.5345175411662, 134127.2439097285, 6772708.260864733, 99587033.12247449,
    579652122.1194885, 1455902009.4116833, 1488661750.7483761, 448499464.83884674,
)  # fmt: skip
_PSI_BOTTOM = (
    25590.11680468207, 1864100.4282938447, 36628664.49557674, 280331620.7033909,
    938996357.2495195, 1348987811.8403645, 655541222.2081158, 1.0,
)  # fmt: skip
# (log x - 1/(2x) - ψ(x))·x² in 1/x² up to 1/9
_PSI_FAR_TOP = (
    1.3371643119487036, 25.208856151734665, 66.84223007451524, 54.66903319566365,
    17.104216754031146, 2.1029007820563135, 0.08333333333333333,
)  # fmt: skip
_PSI_FAR_BOTTOM = (
    31.834436393696777, 364.7649375865399, 860.9549422821394, 675.6456251472734,
    207.73646293922266, 25.334809384675758, 1.0,
)  # fmt: skip

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)
# from here on Γ is infinite
_GAMMA_END = 171.7


def stirling_rest(x: Lane) -> Lane:
    """log Γ(x) - ((x - 1/2) log x - x + log(2π)/2), for x from 3 on."""
    inverse = 1.0 / x
    return inverse * quotient(inverse * inverse, _STIRLING_TOP, _STIRLING_BOTTOM)


def _log_gamma_parts(x: Lane) -> tuple[Lane, Lane]:
    """log Γ of x and, below 1, of 1 + x too; elsewhere twice the same. x is not negative."""
    is_small, is_near = x.of("less", 1.0), x.of("less", 3.0)
    y = is_small.where(x + 1.0, x)
    # (y - 1)(y - 2) without the rounding of y
    factors = is_small.where(x * (x - 1.0), (x - 1.0) * (x - 2.0))
    near = factors * quotient(y, _LOG_GAMMA_TOP, _LOG_GAMMA_BOTTOM)
    log = x.of("log")
    far = (x - 0.5) * (log - 1.0) + (_HALF_LOG_2PI - 0.5) + stirling_rest(x)
    return is_small.where(near - log, is_near.where(near, far)), is_near.where(near, far)


def log_gamma(x: Lane) -> Lane:
    """log |Γ(x)|."""
    size = x.of("abs")
    own, next_one = _log_gamma_parts(size)
    rest = size - size.of("round")
    sine = (rest * math.pi).of("sin").of("abs")
    # Γ(-x) is π / (x sin πx Γ(x)), and Γ(1 + x) is x Γ(x)
    is_small = size.of("less", 1.0)
    product = is_small.where(sine, sine * size) * (1 / math.pi)
    reflected = -(product.of("log") + is_small.where(next_one, own))
    result = x.of("less", 0.0).where(reflected, own)
    # whole numbers so far below that Γ vanishes have their pole all the same
    is_pole = x.of("less", 0.0) & is_whole(size)
    return (x.of("isinf") | is_pole).where(x.like(INFINITY), result)


def log_gamma_beside_one(x: Lane) -> Lane:
    """log Γ(1 + x) for x from 0 to 1, in which small ones are not rounded."""
    return x * (x - 1.0) * quotient(x + 1.0, _LOG_GAMMA_TOP, _LOG_GAMMA_BOTTOM)


def gamma_of(x: Lane) -> Lane:
    """Γ(x): up to 8.5 a product and Γ near 2, so that factorials are exact; then Stirling."""
    size = x.of("abs")
    y, product = size, x.like(1.0)
    for _ in range(6):
        is_above = y.of("greater_equal", 2.5)
        y, product = is_above.where(y - 1.0, y), is_above.where(product * (y - 1.0), product)
    # between -1/2 and 1/2 two steps up, by which no reflection is needed below 0
    is_tiny, is_small = size.of("less", 0.5), y.of("less", 1.5)
    divisor = is_tiny.where(x * (x + 1.0), is_small.where(y, x.like(1.0)))
    t = is_tiny.where(x, is_small.where(y - 1.0, y - 2.0))
    near = quotient(t, _GAMMA_TOP, _GAMMA_BOTTOM)

    is_far = size.of("greater", 8.5)
    root = size.of("power", size * 0.5 - 0.25)
    scaled = quotient(1.0 / size, _SCALED_TOP, _SCALED_BOTTOM) * _ROOT_2PI
    # two factors, since Γ(171.9) is no number, but its inverse is
    first = is_far.where(root * (-size).of("exp"), product / divisor)
    second = is_far.where(root * scaled, near)
    own = first * second
    own = (is_whole(size) & size.of("less", 18.5)).where(own.of("round"), own)
    own = size.of("greater", _GAMMA_END).where(INFINITY, own)

    whole = size.of("round")
    sine = ((size - whole) * math.pi).of("sin")
    sine = is_odd(whole).where(-sine, sine)
    reflected = x.like(-math.pi) / (sine * size) / first / second
    # beyond all denormals
    reflected = size.of("greater", 200.0).where(x.like(0.0).of("copysign", reflected), reflected)
    reflected = is_whole(size).where(NAN, reflected)
    is_reflected = x.of("less", 0.0) & ~is_tiny
    return is_reflected.where(reflected, own)


def psi_rest(x: Lane) -> Lane:
    """log x - Γ'(x) / Γ(x), for x from 3 on."""
    inverse = 1.0 / x
    square = inverse * inverse
    return inverse * 0.5 + square * quotient(square, _PSI_FAR_TOP, _PSI_FAR_BOTTOM)


def psi(x: Lane) -> Lane:
    """Γ'(x) / Γ(x)."""
    size = x.of("abs")
    is_small, is_near = size.of("less", 1.0), size.of("less", 3.0)
    y = is_small.where(size + 1.0, size)
    beside = is_small.where(size - (_PSI_ZERO[0] - 1.0), size - _PSI_ZERO[0]) - _PSI_ZERO[1]
    inverse = 1.0 / size
    w = inverse * inverse
    top = is_near.where(polynomial(y, _PSI_TOP) * beside, polynomial(w, _PSI_FAR_TOP) * w)
    bottom = is_near.where(polynomial(y, _PSI_BOTTOM), polynomial(w, _PSI_FAR_BOTTOM))
    ratio = top / bottom
    # of 1 + size below 1, of size from there on
    next_one = is_near.where(ratio, size.of("log") - inverse * 0.5 - ratio)
    own = is_small.where(next_one - inverse, next_one)

    rest = size - size.of("round")
    cotangent = math.pi / (rest * math.pi).of("tan")
    reflected = is_small.where(next_one, next_one + inverse) + cotangent
    reflected = is_whole(size).where(NAN, reflected)
    result = x.of("less", 0.0).where(reflected, own)
    infinite = x.like(INFINITY).of("copysign", -x)
    return size.of("equal", 0.0).where(infinite, result)


def sign_of_gamma(x: Lane) -> Lane:
    """The sign of Γ(x)."""
    below = x.of("floor")
    sign = is_odd(below).where(-1.0, x.like(1.0))
    sign = is_whole(x).where(NAN, sign)
    result = x.of("less", 0.0).where(sign, x.like(1.0))
    result = x.of("equal", 0.0).where(x.like(1.0).of("copysign", x), result)
    return x.of("isnan").where(x, result)


gammaln_op = by_formula(
    "gammaln",
    "log |gamma(x)|; inf at 0, at negative whole numbers and at infinities. Near its zeros below "
    "-2 the ulp are those of the terms that cancel.",
    log_gamma,
    partials=lambda inputs, output, attrs: (digamma(inputs[0]),),
    low=0.01,
    high=30.0,
    max_ulp=5.0,
)
gamma_op = by_formula(
    "gamma",
    "The gamma function, (x - 1)! of whole numbers; NaN at those below 0, infinite at 0.",
    gamma_of,
    partials=lambda inputs, output, attrs: (output * digamma(inputs[0]),),
    low=0.01,
    high=30.0,
    differentiable=(0.4, 4.0),
    max_ulp=6.0,
)
digamma_op = by_formula(
    "digamma",
    "The derivative of log gamma(x); NaN at whole numbers below 0, infinite at 0. Near its zeros "
    "below 0 the ulp are those of the terms that cancel.",
    psi,
    partials=lambda inputs, output, attrs: (polygamma(1, inputs[0]),),
    low=0.01,
    high=30.0,
    differentiable=(0.4, 4.0),
    max_ulp=5.5,
)
gammasgn_op = by_formula(
    "gammasgn",
    "The sign of gamma(x): 1 or -1; NaN at whole numbers below 0.",
    sign_of_gamma,
    max_ulp=1.0,
)


def gammaln(x: Any) -> Value:
    """log |gamma(x)|, as in SciPy: inf at 0 and below it at whole numbers; integers give floats."""
    return apply(gammaln_op, float_operand(x))


def gamma(x: Any) -> Value:
    """The gamma function, as in SciPy; integers give floats.

    gamma(n) of whole numbers is (n - 1)!, exact up to 17!. It is NaN at whole numbers below 0 and
    infinite at 0, with the sign of that.
    """
    return apply(gamma_op, float_operand(x))


def digamma(x: Any) -> Value:
    """The derivative of log gamma(x), SciPy's ``psi``; integers give floats.

    It is NaN at whole numbers below 0 and infinite at 0, with the other sign.
    """
    return apply(digamma_op, float_operand(x))


def gammasgn(x: Any) -> Value:
    """The sign of gamma(x), as in SciPy: 1 or -1, NaN at whole numbers below 0."""
    return apply(gammasgn_op, float_operand(x))


def polygamma(n: Any, x: Any) -> Value:
    """Derivative number n of ``digamma``, for x above 0; integers give floats.

    Args:
        n: a Python int from 0 to 169.
        x: where; below 0 the result is NaN, unless n is 0, and inf at whole numbers from 0 down.

    Raises:
        DTypeError: for an n that is no such int.
    """
    if not is_count(n, 0) or n > 169:
        raise refuse(
            f"polygamma takes the number of a derivative, 0 to 169, not {shown(n)}",
            "write a Python int",
        )
    if n == 0:
        return digamma(x)
    value = float_operand(x)
    factorial = math.factorial(n)
    result: Value = zeta(like(n + 1, value), value) * float(factorial if n % 2 else -factorial)
    return result
