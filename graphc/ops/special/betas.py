"""Euler's beta function, its logarithm, and what counts choices: factorials and binomials.

Source: quotients of gamma functions; where an argument is large Stirling's formula, of which the
large terms cancel before anything is rounded (Didonato and Morris, Algorithm 708, ACM TOMS 18
(1992), split it likewise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import DType
from graphc.ir.op import Algebra
from graphc.ir.value import Value
from graphc.ops.arguments import switch, whole
from graphc.ops.declare import float_operand, float_operands, like, refuse
from graphc.ops.lanes import Lane
from graphc.ops.pointwise.logic import where
from graphc.ops.special.declared import INFINITY, NAN, by_formula, is_odd, is_whole
from graphc.ops.special.gammas import (
    digamma,
    gamma,
    gamma_of,
    gammaln,
    log_gamma,
    sign_of_gamma,
    stirling_rest,
)

_LARGE = 8.0
# up to here the inverse is no number
_TINY = 2.0**-1024
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _ahead(low: Lane, high: Lane) -> Lane:
    """log Γ(high) - log Γ(low + high), for both from 3 on, without cancellation."""
    both = low + high
    log1p = (low / high).of("log1p")
    rest = stirling_rest(high) - stirling_rest(both)
    return rest - (high - 0.5) * log1p - low * (both.of("log") - 1.0)


def _is_far(low: Lane, high: Lane) -> Lane:
    """Where the larger operand and the sum are so large that their gamma functions cancel."""
    return high.of("greater_equal", _LARGE) & (low + high).of("greater_equal", 3.0)


def _log_beta_ahead(low: Lane, high: Lane) -> Lane:
    """log |B(low, high)| of operands in order, whose sum is above 0 if one is below."""
    both = low + high
    plain = (log_gamma(low) - log_gamma(both)) + log_gamma(high)
    one_large = log_gamma(low) + _ahead(low, high)
    log1p = (low / high).of("log1p")
    rest = stirling_rest(high) - stirling_rest(both)
    shares = low * (high / low).of("log1p") + high * log1p
    two_large = (
        (stirling_rest(low) + rest) + log1p * 0.5 + _HALF_LOG_2PI - low.of("log") * 0.5
    ) - shares
    far = low.of("greater_equal", _LARGE).where(two_large, one_large)
    result = _is_far(low, high).where(far, plain)
    return low.of("equal", 0.0).where(INFINITY, result)


def _lifted(a: Lane, b: Lane) -> tuple[Lane, Lane, Lane]:
    """Operands in order of which no gamma functions of large numbers cancel, and a factor.

    Where one is far below 0, and the sum is not, the other one is raised by 3 (DLMF 5.5.1). Where
    the sum is below 0 as well, both are reflected: B(a, b) is B(1 - a - b, b) times a quotient of
    sines (DLMF 5.5.3). That has a limit where both are whole, which SciPy gives.
    """
    low, high = a.of("minimum", b), a.of("maximum", b)
    both = low + high
    is_far, is_pole = low.of("less", -4.0), low.of("less", 0.0) & is_whole(low)
    is_reflected = (is_far & both.of("less", 0.0)) | (is_pole & both.of("less", 3.0))
    whole, beside = high.of("round"), low - low.of("round")
    angle = beside + (high - whole)
    turns = angle.of("round")
    ratio = ((angle - turns) * math.pi).of("sin") / (beside * math.pi).of("sin")
    ratio = (is_pole & is_whole(high)).where(1.0, ratio)
    ratio = is_odd(whole + turns).where(-ratio, ratio)
    other = 1.0 - both
    first = is_reflected.where(other.of("minimum", high), low)
    last = is_reflected.where(other.of("maximum", high), high)
    is_raised = is_far & both.of("greater_equal", 0.0) & both.of("less", 3.0) & ~is_pole
    share = both / high * ((both + 1.0) / (high + 1.0)) * ((both + 2.0) / (high + 2.0))
    factor = is_reflected.where(ratio, is_raised.where(share, low.like(1.0)))
    return first, is_raised.where(last + 3.0, last), factor


def _at_ends(a: Lane, b: Lane, endless: float, result: Lane) -> Lane:
    """Where an operand is infinite, ``endless`` being the limit beside a positive one, or NaN."""
    low, high = a.of("minimum", b), a.of("maximum", b)
    last = high.of("equal", INFINITY)
    result = (last & low.of("greater", 0.0)).where(endless, result)
    result = low.of("equal", -INFINITY).where(INFINITY, result)
    return (a.of("isnan") | b.of("isnan")).where(NAN, result)


def _log_beta(a: Lane, b: Lane) -> Lane:
    """log |B(a, b)|."""
    low, high, factor = _lifted(a, b)
    result = _log_beta_ahead(low, high) + factor.of("abs").of("log")
    return _at_ends(a, b, -INFINITY, factor.of("isinf").where(INFINITY, result))


def beta_of_few(a: Lane, b: Lane) -> Lane:
    """B(a, b) by gamma functions, for a sum below 170."""
    low, high = a.of("minimum", b), a.of("maximum", b)
    both = low + high
    plain = (gamma_of(high) / gamma_of(both)) * gamma_of(low)
    # what the sum has lost counts about log(a + b) times
    virtual = both - high
    lost = (high - (both - virtual)) + (low - virtual)
    slope = both.of("log") - 0.5 / both
    return both.of("greater", 2.0).where(plain * (1.0 - lost * slope), plain)


def _beta(a: Lane, b: Lane) -> Lane:
    """By gamma functions where all three are numbers, else by the logarithm."""
    low, high, factor = _lifted(a, b)
    both = low + high
    sign = sign_of_gamma(low)
    # one of them below 0 alone can have a negative gamma function
    far = _log_beta_ahead(low, high).of("exp").of("copysign", sign)
    is_some = _is_far(low, high) & low.of("abs").of("less", 170.0)
    root = (_ahead(low, high) * 0.5).of("exp")
    far = is_some.where(gamma_of(low) * root * root, far)
    is_few = both.of("less", 170.0) & high.of("less", 170.0) & low.of("greater", -170.0)
    result = is_few.where(beta_of_few(low, high), far) * factor
    # a pole of the sum, and poles of one of both
    is_zero = (both.of("less_equal", 0.0) & is_whole(both)) | factor.of("equal", 0.0)
    result = is_zero.where(0.0, result)
    is_pole = (low.of("less_equal", 0.0) & is_whole(low)) | (
        high.of("less_equal", 0.0) & is_whole(high)
    )
    is_tiny = low.of("greater", 0.0) & high.of("less", _TINY)
    result = (is_pole | is_tiny | factor.of("isinf")).where(INFINITY, result)
    unbounded = low.like(INFINITY).of("copysign", sign)
    result = (high.of("equal", INFINITY) & low.of("less", 0.0)).where(unbounded, result)
    return _at_ends(a, b, 0.0, result)


def _slopes(inputs: Sequence[Value], output: Value, attrs: Attributes) -> Sequence[Value | None]:
    a, b = inputs
    both = digamma(a + b)
    return digamma(a) - both, digamma(b) - both


def _beta_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    first, second = _slopes(inputs, output, attrs)
    assert first is not None and second is not None
    return output * first, output * second


betaln_op = by_formula(
    "betaln",
    "log |beta(a, b)|. Where the three logarithms cancel the ulp are those of the largest.",
    _log_beta,
    partials=_slopes,
    arity=2,
    algebra=Algebra(commutative=True),
    low=2.0,
    high=20.0,
    max_ulp=64.0,
    weight=10,
)
beta_op = by_formula(
    "beta",
    "gamma(a) gamma(b) / gamma(a + b). For sums from 170 on the ulp grow with the logarithm.",
    _beta,
    partials=_beta_partials,
    arity=2,
    algebra=Algebra(commutative=True),
    low=0.1,
    high=20.0,
    max_ulp=9.0,
    weight=20,
)


def betaln(a: Any, b: Any) -> Value:
    """log |beta(a, b)|, as in SciPy; integers give floats."""
    return apply(betaln_op, *float_operands(a, b))


def beta(a: Any, b: Any) -> Value:
    """gamma(a) gamma(b) / gamma(a + b), as in SciPy; integers give floats."""
    return apply(beta_op, *float_operands(a, b))


def _choices(n: Lane, k: Lane) -> Lane:
    """n! / (k! (n - k)!), rounded to a whole number where that is what it is."""
    rest = n - k
    plain = gamma_of(n + 1.0) / gamma_of(k + 1.0) / gamma_of(rest + 1.0)
    # by halves, since the inverse of beta may be no number where its quotient by n + 1 is
    least, most = rest.of("minimum", k) + 1.0, rest.of("maximum", k) + 1.0
    root = (_log_beta_ahead(least, most) * -0.5).of("exp")
    far = root / (n + 1.0) * root
    found = n.of("less", 169.0).where(plain, far)
    is_exact = is_whole(n) & is_whole(k) & found.of("less", 2.0**46)
    found = is_exact.where(found.of("round"), found)
    is_choice = k.of("greater_equal", 0.0) & rest.of("greater_equal", 0.0)
    found = is_choice.where(found, found.like(0.0))
    return (n.of("isnan") | k.of("isnan")).where(NAN, found)


def _choices_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    n, k = inputs
    inside = (k >= 0) & (n >= k)
    n, k = where(inside, n, like(0, n)), where(inside, k, like(0, k))
    rest = digamma(n - k + 1)
    return output * (digamma(n + 1) - rest), output * (rest - digamma(k + 1))


def _choices_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    n, k = rng.uniform(6, 20, (3, 4)), rng.uniform(0, 5, (4,))
    return [n.astype(element.numpy), k.astype(element.numpy)], {}


comb_op = by_formula(
    "comb",
    "n! / (k! (n - k)!), a whole number of whole ones; 0 for k below 0 or above n. Of others the "
    "rounding of n + 1 counts n log n times.",
    _choices,
    partials=_choices_partials,
    arity=2,
    example=_choices_example,
    differentiable=None,
    max_ulp=24.0,
    weight=20,
)


def comb(n: Any, k: Any, repetition: Any = False) -> Value:
    """In how many ways k of n things are chosen; 0 for k below 0 or above n.

    Whole numbers give whole numbers, exact up to 2**46, as floats; integers give floats.

    Args:
        n, k: how many things there are, and how many are chosen.
        repetition: whether the same thing may be chosen several times.
    """
    things, chosen = float_operands(n, k)
    if switch(repetition, "repetition of comb"):
        things = things + chosen - 1
    return apply(comb_op, things, chosen)


def factorial(n: Any) -> Value:
    """n! = gamma(n + 1), and 0 below 0, as in SciPy with ``exact=False``; exact up to 17!."""
    value = float_operand(n)
    nothing = like(0, value)
    result: Value = where(value < 0, nothing, gamma(where(value < 0, nothing, value) + 1))
    return result


def multigammaln(a: Any, d: Any) -> Value:
    """The logarithm of the gamma function of several dimensions, as in SciPy.

    Args:
        a: floats; what is not above (d - 1) / 2 gives NaN or the logarithm of a magnitude.
        d: how many dimensions, a Python int from 1 to 100.

    Raises:
        DTypeError: for another d.
    """
    count = whole(d, "d of multigammaln")
    if not 1 <= count <= 100:
        raise refuse(f"d of multigammaln is {count}", "it is from 1 to 100")
    value = float_operand(a)
    result: Value = gammaln(value) + like(count * (count - 1) / 4 * math.log(math.pi), value)
    for j in range(1, count):
        result = result + gammaln(value - j / 2)
    return result
