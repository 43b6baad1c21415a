"""The incomplete beta function, regularised.

It is powers over a beta function times an integral from x on, down to 0 or up to 1, in
log(t / (1 - t)), where all logarithms of integrands are concave and analytic. The operands are
those of x or of 1 - x, whichever is up to 1/2, so that neither is rounded. As for the incomplete
gamma functions sixteen terms of the series go ahead of an integral that falls slowly (DLMF 8.17.8
with 15.2.1, all positive), and where a small parameter leaves 1 less nearly as much, the first
term of the other series is subtracted before anything is rounded (DLMF 8.17.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import DType
from graphc.ir.op import NotDifferentiable
from graphc.ir.value import Value
from graphc.ops.declare import float_operands
from graphc.ops.lanes import Lane, repeated
from graphc.ops.pointwise.math import log, log1p
from graphc.ops.special.betas import beta_of_few
from graphc.ops.special.declared import INFINITY, NAN, by_formula
from graphc.ops.special.gammas import (
    digamma,
    gamma_of,
    log_gamma_beside_one,
    psi,
    psi_rest,
    stirling_rest,
)
from graphc.ops.special.quadrature import exp_rest, integral, log1p_rest, stretch

_TERMS = 16
_NEAR_TERMS = 18
_DOWNWARD = [(float(k),) for k in range(_TERMS, 0, -1)]
# up to here powers and gamma functions are numbers
_FEW = 80.0
# Bernoulli's number of 2k by 2k (2k - 1), k from 1 on
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def _log_ratio(x: Lane, p: Lane) -> Lane:
    """log Γ(x + p) - log Γ(x) for p up to 1, right beside 0: Stirling's formula, from 16 on."""
    is_few = x.of("less", float(_TERMS))
    many = is_few.where(x + float(_TERMS), x)
    part = p / many
    log1p = part.of("log1p")
    u, w = 1.0 / many, 1.0 / (many + p)
    # the sum of products of m - 1 of u and w, which times w - u is w^m - u^m
    products, power, total = x.like(1.0), x.like(1.0), x.like(0.0)
    for m in range(1, 2 * len(_STIRLING)):
        if m % 2:
            total = total + products * _STIRLING[m // 2]
        power = power * w
        products = products * u + power
    found = many * log1p_rest(part, log1p) + (p - 0.5) * log1p + p * many.of("log")
    found = found - p * (u * w) * total

    def raised(state: Sequence[Lane], k: Lane) -> Sequence[Lane]:
        (lifted,) = state
        step = p / (x + (k - 1.0))
        return (lifted + step + lifted * step,)

    (lifted,) = repeated(_DOWNWARD, [x.like(0.0)], raised)
    return is_few.where(found - lifted.of("log1p"), found)


class _Tail:
    """One of the two parts of the distribution: what lies below x if that is below the mean.

    ``x`` is up to 1/2 here, and ``rest`` is what it leaves to 1, with its rounding error.
    """

    def __init__(self, p: Lane, q: Lane, x: Lane) -> None:
        self.p, self.q, self.x = p, q, x
        self.rest = 1.0 - x
        self.lost = (1.0 - self.rest) - x
        # p - (p + q) x with all of its digits
        first, second = p * x, q * x
        both = first + second
        virtual = both - first
        error = (first - (both - virtual)) + (second - virtual)
        error = error + p.of("fma", x, -first) + q.of("fma", x, -second)
        self.slope = (p - both) - error
        # where little of the integral above would be beside x, the one below is right as well
        self.is_near = p.of("less", 1.0) & ((p + q + float(_TERMS)) * x).of("less", 1.0)
        self.is_lower = self.slope.of("greater_equal", 0.0) | self.is_near
        self.sign = self.is_lower.where(-1.0, x.like(1.0))
        self.own = self.is_lower.where(p, q)
        self.side = self.is_lower.where(x, self.rest)
        self.is_few = self.own.of("less", float(_TERMS))
        more = self.is_few.where(float(_TERMS), x.like(0.0))
        self.raised = self.own + more
        self.sum = p + q + more
        self.apart = self.is_lower.where(self.slope, -self.slope)
        self.distance = self.apart + more * self.is_lower.where(self.rest, x)
        self.curvature = self.sum * x * self.rest
        self.end = stretch(self.distance, self.curvature, self.steep)

    def steep(self, v: Lane) -> tuple[Lane, Lane]:
        """By how much the logarithm has fallen at a distance, and how steeply it does there."""
        w = v * self.sign
        expm1 = w.of("expm1")
        part = self.x * expm1
        log1p = part.of("log1p")
        near = log1p_rest(part, log1p) + self.x * exp_rest(w, expm1)
        bend = part.of("abs").of("less", 0.4).where(near, log1p - self.x * w)
        rise = self.curvature * expm1 * self.sign / (part + 1.0)
        return self.distance * v + self.sum * bend, self.distance + rise

    def fall(self, v: Lane) -> Lane:
        return self.steep(v)[0]

    def density(self) -> Lane:
        """x^p (1 - x)^q / B(p, q)."""
        p, q, x = self.p, self.q, self.x
        low, high = p.of("minimum", q), p.of("maximum", q)
        is_p_low = p.of("less_equal", q)

        def of_rest(n: Lane) -> Lane:
            """The power of what is rounded, put right by no more than doubles have."""
            right = (n * self.lost / self.rest).of("minimum", 700.0)
            return self.rest.of("power", n) * right.of("exp")

        root = x.of("power", p * 0.5)
        few = root / beta_of_few(p.of("minimum", _FEW), q.of("minimum", _FEW)) * root * of_rest(q)

        many = high.of("maximum", _FEW)
        base = is_p_low.where(x, self.rest)
        times = many * base
        lost = many.of("fma", base, -times) + is_p_low.where(x.like(0.0), many * self.lost)
        some = low.of("minimum", float(_TERMS))
        power = times.of("power", some) * (some * lost / times).of("exp")
        part = some / many
        log1p = part.of("log1p")
        exponent = many * log1p_rest(part, log1p) + (some - 0.5) * log1p
        exponent = exponent + stirling_rest(many + some) - stirling_rest(many)
        is_small = some.of("less", 1.0)
        gamma = gamma_of(is_small.where(some + 1.0, some))
        gamma = is_small.where(gamma / some, gamma)
        other = is_p_low.where(of_rest(many), x.of("power", many))
        mixed = power * exponent.of("exp") * other / gamma
        # where it vanishes the other power may be infinite
        mixed = other.of("equal", 0.0).where(other, mixed)

        first, second = p.of("maximum", float(_TERMS)), q.of("maximum", float(_TERMS))
        total = first + second
        log = (x * (total / first)).of("log")
        exponent = first * log1p_rest(-self.slope / first, log)
        log = (self.rest * (total / second)).of("log")
        exponent = exponent + second * log1p_rest(self.slope / second, log)
        exponent = exponent + (stirling_rest(total) - stirling_rest(first) - stirling_rest(second))
        root = (first * (second / total) * (0.5 / math.pi)).of("sqrt")
        large = root * exponent.of("exp")
        found = low.of("less", float(_TERMS)).where(mixed, large)
        return high.of("less", _FEW).where(few, found)

    def both(self) -> tuple[Lane, Lane]:
        """What lies below x and above."""
        whole = integral(self.end, self.fall)
        count = self.p + self.q - 1.0

        def preceded(state: Sequence[Lane], k: Lane) -> Sequence[Lane]:
            top, bottom = state
            bottom = bottom * (self.own + k)
            return bottom + self.side * (count + k) * top, bottom

        top, bottom = repeated(_DOWNWARD, [self.raised * whole, self.x.like(1.0)], preceded)
        found = self.density() * self.is_few.where(top / bottom / self.own, whole)
        above = self.is_near.where(self.near(), self.is_lower.where(1.0 - found, found))
        return self.is_lower.where(found, 1.0 - above), above

    def near(self) -> Lane:
        """The part above x for p, q x and x that are small."""
        p, q, x = self.p.of("minimum", 1.0), self.q, self.x
        exponent = p * x.of("log") - (log_gamma_beside_one(p) - _log_ratio(q, p))

        def added(state: Sequence[Lane], k: Lane) -> Sequence[Lane]:
            total, power = state
            power = power * ((k - q) * x / k)
            return total + power / (p + k), power

        terms = [(float(k),) for k in range(1, _NEAR_TERMS + 1)]
        total, _ = repeated(terms, [x.like(0.0), x.like(1.0)], added)
        return -exponent.of("expm1") - exponent.of("exp") * p * total

    def slope_of(self, is_own: Lane) -> Lane:
        """The derivative of the part by its own parameter, or by the other one.

        It is that of each term and of the integrand: the logarithm of the variable, or of what it
        leaves to 1, plus the difference of two digammas.
        """
        count = self.p + self.q
        mine = is_own.where(self.own, self.is_lower.where(self.q, self.p))
        is_x = ~(is_own ^ self.is_lower)
        # few are raised by 1, since their digamma at 0 is infinite
        few = mine.of("minimum", _FEW) + is_own.where(1.0, mine.like(0.0))
        log = is_x.where(self.x.of("log"), (-self.x).of("log1p"))
        direct = log + psi(count) - psi(few)
        # beside the mean the logarithms cancel
        many = mine.of("maximum", float(_TERMS))
        apart = is_own.where(-self.apart, self.apart) / many
        share = is_x.where(self.x, self.rest) * (count / many)
        ratio = apart.of("abs").of("less", 0.4).where(apart.of("log1p"), share.of("log"))
        far = ratio + psi_rest(many) - psi_rest(count.of("maximum", float(_TERMS)))
        is_far = mine.of("greater_equal", float(_TERMS))
        coefficient = is_far.where(far, direct)

        def added(state: Sequence[Lane], k: Lane) -> Sequence[Lane]:
            total, term, slope = state
            up, down = count - 1.0 + k, self.own + k
            step = is_own.where(1.0 / up - 1.0 / down, 1.0 / up)
            return total + term * slope, term * self.side * up / down, slope + step

        initial = [self.x.like(0.0), self.x.like(1.0), coefficient]
        total, term, last = repeated(_DOWNWARD[::-1], initial, added)
        # that of the raised parameter lacks what the last step subtracts
        last = is_own.where(last + 1.0 / self.raised, last)
        first = self.is_few.where(last, coefficient)

        def times(v: Lane) -> Lane:
            w = v * self.sign
            return first + is_x.where(w, w.like(0.0)) - (self.x * w.of("expm1")).of("log1p")

        rest = integral(self.end, self.fall, times)
        few = (total + term * self.raised * rest) / self.own
        return self.density() * self.is_few.where(few, rest)


def _split(a: Lane, b: Lane, x: Lane) -> tuple[Lane, _Tail]:
    """Whether x is up to 1/2, and the tail of it or of 1 - x."""
    is_left = x.of("less_equal", 0.5)
    near = is_left.where(x, 1.0 - x)
    return is_left, _Tail(is_left.where(a, b), is_left.where(b, a), near)


def _outside(a: Lane, b: Lane, x: Lane) -> Lane:
    negative = a.of("less", 0.0) | b.of("less", 0.0) | x.of("less", 0.0) | x.of("greater", 1.0)
    return negative | a.of("isnan") | b.of("isnan") | x.of("isnan")


def _at_ends(a: Lane, b: Lane, x: Lane, lower: float, result: Lane) -> Lane:
    """Where an operand is at an end; ``lower`` is 1 for what lies below x, else 0."""
    left = a.of("equal", 0.0) | b.of("equal", INFINITY)
    right = b.of("equal", 0.0) | a.of("equal", INFINITY)
    result = left.where(lower, right.where(1.0 - lower, result))
    result = x.of("equal", 0.0).where(1.0 - lower, x.of("equal", 1.0).where(lower, result))
    both = (a.of("equal", 0.0) & b.of("equal", 0.0)) | (
        a.of("equal", INFINITY) & b.of("equal", INFINITY)
    )
    return (both | _outside(a, b, x)).where(NAN, result)


def _lower(a: Lane, b: Lane, x: Lane) -> Lane:
    is_left, tail = _split(a, b, x)
    below, above = tail.both()
    return _at_ends(a, b, x, 1.0, is_left.where(below, above))


def _upper(a: Lane, b: Lane, x: Lane) -> Lane:
    is_left, tail = _split(a, b, x)
    below, above = tail.both()
    return _at_ends(a, b, x, 0.0, is_left.where(above, below))


def _density(a: Lane, b: Lane, x: Lane) -> Lane:
    """The derivative of the lower function by x: x^(a - 1) (1 - x)^(b - 1) / B(a, b)."""
    _, tail = _split(a, b, x)
    found = tail.density() / (tail.x * tail.rest)
    # at an end it is that of the operand there, times the power that is 1
    at_end = tail.p.of("less", 1.0).where(
        INFINITY, tail.p.of("equal", 1.0).where(tail.q, x.like(0.0))
    )
    found = tail.x.of("equal", 0.0).where(at_end, found)
    return _outside(a, b, x).where(NAN, _is_end(a, b).where(0.0, found))


def _is_end(a: Lane, b: Lane) -> Lane:
    """Where the distribution is at one point."""
    ends = a.of("equal", 0.0) | b.of("equal", 0.0)
    return ends | a.of("equal", INFINITY) | b.of("equal", INFINITY)


def _slope(a: Lane, b: Lane, x: Lane, by_first: bool) -> Lane:
    """The derivative of the lower function by one of the parameters."""
    is_left, tail = _split(a, b, x)
    is_own = is_left ^ tail.is_lower
    is_own = ~is_own if by_first else is_own
    found = tail.slope_of(is_own)
    found = is_own.where(found, -found) if by_first else is_own.where(-found, found)
    is_end = x.of("equal", 0.0) | x.of("equal", 1.0) | _is_end(a, b)
    return _outside(a, b, x).where(NAN, is_end.where(0.0, found))


def _example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    a, b, x = rng.uniform(0.5, 9, (3, 4)), rng.uniform(0.5, 9, (4,)), rng.uniform(0.1, 0.9, (3, 1))
    return [a.astype(element.numpy), b.astype(element.numpy), x.astype(element.numpy)], {}


def _density_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    a, b, x = inputs
    both = digamma(a + b)
    return (
        output * (log(x) - digamma(a) + both),
        output * (log1p(-x) - digamma(b) + both),
        output * ((a - 1) / x - (b - 1) / (1 - x)),
    )


_SECOND = NotDifferentiable("the second derivatives of betainc by its parameters are not known")

density_op = by_formula(
    "betainc_by_x",
    "The derivative of betainc(a, b, x) by x: x**(a - 1) (1 - x)**(b - 1) / beta(a, b).",
    _density,
    partials=_density_partials,
    arity=3,
    example=_example,
    max_ulp=16.0,
    weight=20,
)
by_a_op, by_b_op = (
    by_formula(
        f"betainc_by_{letter}",
        f"The derivative of betainc(a, b, x) by {letter}.",
        partial(_slope, by_first=letter == "a"),
        derivative=_SECOND,
        arity=3,
        example=_example,
        max_ulp=64.0,
        weight=90,
    )
    for letter in "ab"
)


def _lower_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    return tuple(apply(op, *inputs) for op in (by_a_op, by_b_op, density_op))


def _upper_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    return tuple(-apply(op, *inputs) for op in (by_a_op, by_b_op, density_op))


betainc_op = by_formula(
    "betainc",
    "The integral of t**(a - 1) (1 - t)**(b - 1) from 0 to x by beta(a, b). The ulp grow with the "
    "logarithm of the result, by three for each unit of it.",
    _lower,
    partials=_lower_partials,
    arity=3,
    example=_example,
    max_ulp=24.0,
    weight=70,
)
betaincc_op = by_formula(
    "betaincc",
    "The integral of t**(a - 1) (1 - t)**(b - 1) from x to 1 by beta(a, b). The ulp grow with the "
    "logarithm of the result, by three for each unit of it.",
    _upper,
    partials=_upper_partials,
    arity=3,
    example=_example,
    max_ulp=24.0,
    weight=70,
)


def betainc(a: Any, b: Any, x: Any) -> Value:
    """The regularised incomplete beta function, the distribution of Beta(a, b) up to x.

    It is NaN for negative parameters and for x outside of [0, 1]; integers give floats.

    Args:
        a, b: the parameters, from 0 to inf; they have derivatives too, but only the first.
        x: where the integral ends.
    """
    return apply(betainc_op, *float_operands(a, b, x))


def betaincc(a: Any, b: Any, x: Any) -> Value:
    """1 - ``betainc(a, b, x)``, right where that is small; integers give floats."""
    return apply(betaincc_op, *float_operands(a, b, x))


__all__ = ["betainc", "betaincc"]
