"""Modified Bessel functions of the second kind, of orders 0 and 1, plain and scaled.

Up to 1 they are the power series with a logarithm (DLMF 10.31.1 and 10.31.2); beyond, the integral
of e^(-x cosh t) (DLMF 10.32.9) by the rule of ``quadrature``.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.builder import apply
from graphc.ir.value import Value
from graphc.ops.declare import float_operand
from graphc.ops.lanes import Lane, polynomial
from graphc.ops.special.declared import INFINITY, NAN, by_formula
from graphc.ops.special.quadrature import integral, stretch

_TERMS = 12
_EULER = 0.5772156649015329


def _harmonic(k: int) -> float:
    return math.fsum(1 / j for j in range(1, k + 1))


# in powers of x²/4, the highest first: I0, and what is beside its logarithm in K0
_FIRST = tuple(1 / math.factorial(k) ** 2 for k in range(_TERMS, -1, -1))
_BESIDE_FIRST = tuple(
    (_harmonic(k) - _EULER) / math.factorial(k) ** 2 for k in range(_TERMS, -1, -1)
)
# the same of I1 by x/2 and of K1 by -x/4
_SECOND = tuple(1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(_TERMS, -1, -1))
_BESIDE_SECOND = tuple(
    (_harmonic(k) + _harmonic(k + 1) - 2 * _EULER) / (math.factorial(k) * math.factorial(k + 1))
    for k in range(_TERMS, -1, -1)
)


def _near(x: Lane, order: int) -> Lane:
    quarter, log = x * x * 0.25, (x * 0.5).of("log")
    if order == 0:
        return polynomial(quarter, _BESIDE_FIRST) - log * polynomial(quarter, _FIRST)
    rest = log * 2.0 * polynomial(quarter, _SECOND) - polynomial(quarter, _BESIDE_SECOND)
    return 1.0 / x + x * 0.25 * rest


def _far(x: Lane, order: int) -> Lane:
    """e^x times the function."""

    def steep(t: Lane) -> tuple[Lane, Lane]:
        sine = (t * 0.5).of("sinh")
        return x * sine * sine * 2.0, x * t.of("sinh")

    def fall(t: Lane) -> Lane:
        return steep(t)[0]

    def times(t: Lane) -> Lane:
        return t.of("cosh")

    return integral(stretch(x.like(0.0), x, steep), fall, times if order else None)


def _at_ends(x: Lane, result: Lane) -> Lane:
    result = x.of("equal", 0.0).where(INFINITY, result)
    result = x.of("equal", INFINITY).where(0.0, result)
    return (x.of("less", 0.0) | x.of("isnan")).where(NAN, result)


def _parts(x: Lane, order: int) -> tuple[Lane, Lane, Lane]:
    is_near = x.of("less_equal", 1.0)
    return is_near, _near(x, order), _far(x.of("maximum", 1.0), order)


def _plain(order: int) -> Any:
    def formula(x: Lane) -> Lane:
        is_near, near, far = _parts(x, order)
        return _at_ends(x, is_near.where(near, far * (-x).of("exp")))

    return formula


def _scaled(order: int) -> Any:
    def formula(x: Lane) -> Lane:
        is_near, near, far = _parts(x, order)
        return _at_ends(x, is_near.where(near * x.of("exp"), far))

    return formula


k0_op = by_formula(
    "k0", "The modified Bessel function of the second kind of order 0; inf at 0, NaN below.",
    _plain(0), partials=lambda inputs, output, attrs: (-k1(inputs[0]),), low=0.1, high=9.0,
    max_ulp=9.0, weight=60,
)  # fmt: skip
k0e_op = by_formula(
    "k0e", "exp(x) times k0(x).", _scaled(0),
    partials=lambda inputs, output, attrs: (output - k1e(inputs[0]),), low=0.1, high=9.0,
    max_ulp=9.0, weight=60,
)  # fmt: skip
k1_op = by_formula(
    "k1", "The modified Bessel function of the second kind of order 1; inf at 0, NaN below.",
    _plain(1), partials=lambda inputs, output, attrs: (-k0(inputs[0]) - output / inputs[0],),
    low=0.1, high=9.0, max_ulp=9.0, weight=60,
)  # fmt: skip
k1e_op = by_formula(
    "k1e", "exp(x) times k1(x).", _scaled(1),
    partials=lambda inputs, output, attrs: (output - k0e(inputs[0]) - output / inputs[0],),
    low=0.1, high=9.0, max_ulp=9.0, weight=60,
)  # fmt: skip


def k0(x: Any) -> Value:
    """The modified Bessel function of the second kind of order 0; inf at 0, NaN below."""
    return apply(k0_op, float_operand(x))


def k0e(x: Any) -> Value:
    """exp(x) times ``k0(x)``, which does not vanish; integers give floats."""
    return apply(k0e_op, float_operand(x))


def k1(x: Any) -> Value:
    """The modified Bessel function of the second kind of order 1; inf at 0, NaN below."""
    return apply(k1_op, float_operand(x))


def k1e(x: Any) -> Value:
    """exp(x) times ``k1(x)``, which does not vanish; integers give floats."""
    return apply(k1e_op, float_operand(x))


__all__ = ["k0", "k0e", "k1", "k1e"]
