"""The zeta function of Hurwitz, with its derivative by the exponent.

Source: the summation formula of Euler and Maclaurin (DLMF 25.11.28): ten terms, the integral of
what follows, and twelve corrections by Bernoulli's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.op import NotDifferentiable
from graphc.ir.value import Value
from graphc.ops.declare import float_operands
from graphc.ops.lanes import Lane
from graphc.ops.special.declared import INFINITY, NAN, by_formula, is_whole

_TERMS = 10
# Bernoulli's number of 2j by (2j)!
_CORRECTIONS = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000, 77683 / 14101100039391805440000,
    -236364091 / 1693824136731743669452800000,
)  # fmt: skip


def _zeta(s: Lane, q: Lane) -> Lane:
    """The sum of (q + k)^-s over all k from 0 on."""
    total = q.of("power", -s)
    for k in range(1, _TERMS):
        total = total + (q + float(k)).of("power", -s)
    a = q + float(_TERMS)
    power = a.of("power", -s)
    inverse = 1.0 / a
    # the integral, which may be a number where the power has vanished
    total = total + a.of("power", 1.0 - s) / (s - 1.0)
    rest = s.like(0.5)
    factor, square = s * inverse, inverse * inverse
    for j, correction in enumerate(_CORRECTIONS):
        rest = rest + factor * correction
        factor = factor * ((s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0)) * square)
    # where the power vanishes the factors may be infinite
    tail = power.of("greater", 0.0).where(power * rest, power)
    total = total + tail
    total = s.of("equal", 1.0).where(INFINITY, total)
    total = q.of("less_equal", 0.0).where(is_whole(q).where(INFINITY, q.like(NAN)), total)
    return (s.of("less", 1.0) | s.of("isnan") | q.of("isnan")).where(NAN, total)


def _slope(s: Lane, q: Lane) -> Lane:
    """The derivative of each term by s."""
    total = -(q.of("log") * q.of("power", -s))
    for k in range(1, _TERMS):
        term = q + float(k)
        total = total - term.of("log") * term.of("power", -s)
    a = q + float(_TERMS)
    power, log = a.of("power", -s), a.of("log")
    inverse = 1.0 / a
    whole = a.of("power", 1.0 - s) / (s - 1.0)
    total = total - whole * (log + 1.0 / (s - 1.0))
    rest, slope = s.like(0.5), s.like(0.0)
    factor, change, square = s * inverse, inverse, inverse * inverse
    for j, correction in enumerate(_CORRECTIONS):
        rest, slope = rest + factor * correction, slope + change * correction
        first, second = s + (2.0 * j + 1.0), s + (2.0 * j + 2.0)
        step = first * second * square
        change = change * step + factor * ((first + second) * square)
        factor = factor * step
    tail = power.of("greater", 0.0).where(power * (slope - log * rest), power)
    total = total + tail
    return (s.of("less_equal", 1.0) | q.of("less_equal", 0.0)).where(NAN, total)


zeta_slope_op = by_formula(
    "zeta_slope",
    "The derivative of zeta(s, q) by s.",
    _slope,
    arity=2,
    derivative=NotDifferentiable("the second derivative of zeta by its exponent is not known"),
    low=1.5,
    high=9.0,
    max_ulp=4.0,
)


def _partials(inputs: Sequence[Value], output: Value, attrs: Attributes) -> Sequence[Value | None]:
    s, q = inputs
    return apply(zeta_slope_op, s, q), -s * apply(zeta_op, s + 1, q)


zeta_op = by_formula(
    "zeta",
    "The sum of (q + k)**-s over all k from 0 on; inf at s = 1, NaN for s below 1 and q below 0, "
    "inf at whole q from 0 down.",
    _zeta,
    arity=2,
    partials=_partials,
    low=1.5,
    high=9.0,
    max_ulp=8.0,
)


def zeta(s: Any, q: Any = 1) -> Value:
    """The zeta function of Riemann, or with ``q`` that of Hurwitz: the sum of (q + k)**-s.

    It is inf at s = 1 and where q is 0 or a whole number below, NaN for smaller s and for other q
    below 0; integers give floats.
    """
    return apply(zeta_op, *float_operands(s, q))
