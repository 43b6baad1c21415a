"""The incomplete gamma functions of Euler, regularised.

Each is a power over a gamma function times an integral from x on, down to 0 or up to infinity, in
the logarithm of the variable. Down from x, for x up to a, the integrand falls as fast as e^(a u).
So for small a sixteen terms of the series go ahead (DLMF 8.11.4), all positive, and the integral is
what remains. Where both operands are small the upper function is 1 less nearly as much: it is by
the other series (DLMF 8.7.1), of which the first term is subtracted before anything is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.op import NotDifferentiable
from graphc.ir.value import Value
from graphc.ops.declare import float_operands
from graphc.ops.lanes import Lane, repeated
from graphc.ops.pointwise.math import log
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
_LARGE = 140.0
# up to here the lower function is computed, whatever a is
_NEAR = 1.1
_NEAR_TERMS = 20
_DOWNWARD = [(float(k),) for k in range(_TERMS, 0, -1)]


def _scale(a: Lane, x: Lane) -> Lane:
    """x^a e^-x / Γ(a + 1)."""
    # by halves, since the power may overflow; beyond 2000 it has vanished
    few, some = a.of("minimum", _LARGE), x.of("minimum", 2000.0)
    root = some.of("power", few * 0.5) * (some * -0.5).of("exp")
    # a + 1 would be rounded, which counts log a times
    is_small = a.of("less", 1.0)
    factorial = gamma_of(is_small.where(few + 1.0, few)) * is_small.where(1.0, few)
    small = root / factorial * root
    many = a.of("maximum", _LARGE)
    exponent = many * log1p_rest((x - many) / many, (x / many).of("log"))
    large = (exponent - stirling_rest(many)).of("exp") / (many * (2 * math.pi)).of("sqrt")
    return a.of("less", _LARGE).where(small, large)


class _Tail:
    """One of both functions: the lower one for x up to a, else the upper one."""

    def __init__(self, a: Lane, x: Lane) -> None:
        self.a, self.x = a, x
        self.is_lower = x.of("less_equal", a.of("maximum", _NEAR))
        self.is_few = self.is_lower & a.of("less", float(_TERMS))
        self.raised = self.is_few.where(a + float(_TERMS), a)
        self.distance = (x - self.raised).of("abs")
        self.sign = self.is_lower.where(-1.0, x.like(1.0))
        self.end = stretch(self.distance, x, self.steep)

    def steep(self, v: Lane) -> tuple[Lane, Lane]:
        """By how much the logarithm has fallen at a distance, and how steeply it does there."""
        w = v * self.sign
        expm1 = w.of("expm1")
        height = self.distance * v + self.x * exp_rest(w, expm1)
        return height, self.distance + self.x * expm1 * self.sign

    def fall(self, v: Lane) -> Lane:
        return self.steep(v)[0]

    def value(self) -> Lane:
        rest = self.raised * integral(self.end, self.fall)

        def preceded(state: Sequence[Lane], k: Lane) -> Sequence[Lane]:
            top, bottom = state
            bottom = bottom * (self.a + k)
            return bottom + self.x * top, bottom

        top, bottom = repeated(_DOWNWARD, [rest, self.a.like(1.0)], preceded)
        return _scale(self.a, self.x) * self.is_few.where(top / bottom, rest)


def _near_upper(a: Lane, x: Lane) -> Lane:
    """The upper function for a up to 1 and x up to ``_NEAR``."""
    exponent = a * x.of("log") - log_gamma_beside_one(a)

    def added(state: Sequence[Lane], n: Lane) -> Sequence[Lane]:
        total, power = state
        power = power * x / -n
        return total + power / (a + n), power

    terms = [(float(n),) for n in range(1, _NEAR_TERMS + 1)]
    total, _ = repeated(terms, [x.like(0.0), x.like(1.0)], added)
    return -exponent.of("expm1") - exponent.of("exp") * a * total


def _outside(a: Lane, x: Lane) -> Lane:
    return a.of("less", 0.0) | x.of("less", 0.0) | a.of("isnan") | x.of("isnan")


def _at_ends(a: Lane, x: Lane, lower: float, result: Lane) -> Lane:
    """Where an operand is 0 or infinite; ``lower`` is 1 for the lower function, 0 for the upper."""
    first, last = a.of("equal", 0.0), x.of("equal", INFINITY)
    result = (first | last).where(lower, result)
    none, endless = x.of("equal", 0.0), a.of("equal", INFINITY)
    result = (none | endless).where(1.0 - lower, result)
    both = (first & none) | (last & endless)
    return (both | _outside(a, x)).where(NAN, result)


def _lower(a: Lane, x: Lane) -> Lane:
    tail = _Tail(a, x)
    value = tail.value()
    return _at_ends(a, x, 1.0, tail.is_lower.where(value, 1.0 - value))


def _upper(a: Lane, x: Lane) -> Lane:
    tail = _Tail(a, x)
    value = tail.value()
    is_near = x.of("less_equal", _NEAR) & a.of("less", 1.0)
    below = is_near.where(_near_upper(a, x), 1.0 - value)
    return _at_ends(a, x, 0.0, tail.is_lower.where(below, value))


def _density(a: Lane, x: Lane) -> Lane:
    """The derivative of the lower function by x: x^(a - 1) e^-x / Γ(a)."""
    found = _scale(a, x) * a / x
    at_zero = a.of("less", 1.0).where(INFINITY, a.of("equal", 1.0).where(a, a.like(0.0)))
    found = x.of("equal", 0.0).where(at_zero, found)
    is_end = a.of("equal", 0.0) | x.of("equal", INFINITY) | a.of("equal", INFINITY)
    return _outside(a, x).where(NAN, is_end.where(0.0, found))


def _slope(a: Lane, x: Lane) -> Lane:
    """The derivative of the lower function by a: that of each term and of the integrand."""
    tail = _Tail(a, x)
    # log x - ψ(a + 1)
    near = x.of("log") - psi(a.of("minimum", _LARGE) + 1.0)

    def added(state: Sequence[Lane], k: Lane) -> Sequence[Lane]:
        total, term, slope = state
        inverse = 1.0 / (a + k)
        return total + term * slope, term * x * inverse, slope - inverse

    total, term, _ = repeated(_DOWNWARD[::-1], [x.like(0.0), x.like(1.0), near], added)
    many = tail.raised.of("maximum", float(_TERMS))
    apart = (x - many) / many
    is_near = apart.of("abs").of("less", 0.4)
    ratio = is_near.where(apart.of("log1p"), (x / many).of("log"))
    far = ratio + psi_rest(many) - 1.0 / many
    first = tail.raised.of("less", float(_TERMS)).where(near, far)

    def times(v: Lane) -> Lane:
        return first + v * tail.sign

    # a (log x - ψ(a)) is a (log x - ψ(a + 1)) + 1
    whole = integral(tail.end, tail.fall)
    rest = tail.raised * integral(tail.end, tail.fall, times) + whole
    few = total + term * rest
    found = _scale(a, x) * tail.is_few.where(few, tail.is_lower.where(rest, -rest))
    is_end = x.of("equal", 0.0) | x.of("equal", INFINITY) | a.of("equal", INFINITY)
    return _outside(a, x).where(NAN, is_end.where(0.0, found))


_BY_A = NotDifferentiable("the second derivative of gammainc by its parameter is not known")


def _density_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    a, x = inputs
    return output * (log(x) - digamma(a)), output * ((a - 1) / x - 1)


density_op = by_formula(
    "gammainc_by_x",
    "The derivative of gammainc(a, x) by x: x**(a - 1) exp(-x) / gamma(a).",
    _density,
    partials=_density_partials,
    arity=2,
    low=0.5,
    high=9.0,
    max_ulp=16.0,
    weight=10,
)
slope_op = by_formula(
    "gammainc_by_a",
    "The derivative of gammainc(a, x) by a.",
    _slope,
    arity=2,
    derivative=_BY_A,
    low=0.5,
    high=9.0,
    max_ulp=64.0,
    weight=80,
)


def _lower_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    return apply(slope_op, *inputs), apply(density_op, *inputs)


def _upper_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    return -apply(slope_op, *inputs), -apply(density_op, *inputs)


gammainc_op = by_formula(
    "gammainc",
    "The integral of t**(a - 1) exp(-t) from 0 to x by gamma(a). The ulp grow with the logarithm "
    "of the result, by three for each unit of it.",
    _lower,
    partials=_lower_partials,
    arity=2,
    low=0.1,
    high=9.0,
    max_ulp=16.0,
    weight=50,
)
gammaincc_op = by_formula(
    "gammaincc",
    "The integral of t**(a - 1) exp(-t) from x on by gamma(a), 1 - gammainc(a, x). The ulp grow "
    "with the logarithm of the result, by three for each unit of it.",
    _upper,
    partials=_upper_partials,
    arity=2,
    low=0.1,
    high=9.0,
    max_ulp=16.0,
    weight=50,
)


def gammainc(a: Any, x: Any) -> Value:
    """The regularised lower incomplete gamma function, the distribution of Gamma(a) up to x.

    It is NaN for negative operands, 0 at x = 0 and 1 at infinity; integers give floats.

    Args:
        a: the shape, from 0 to inf; it has a derivative too, but only the first.
        x: where the integral ends.
    """
    return apply(gammainc_op, *float_operands(a, x))


def gammaincc(a: Any, x: Any) -> Value:
    """1 - ``gammainc(a, x)``, right where that is small; integers give floats."""
    return apply(gammaincc_op, *float_operands(a, x))


__all__ = ["gammainc", "gammaincc"]
