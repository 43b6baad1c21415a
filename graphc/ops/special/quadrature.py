"""Integrals of what falls off from 0 on, and the remainders of functions that their exponents need.

Source: Gauss and Legendre's rule of 28 points, over the stretch in which the integrand falls to
e^-40. It is found by Newton's method. Logarithms of integrands are analytic and concave here, so
the rule has digits to spare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphc.ops.lanes import Lane, polynomial, repeated

FALL = 40.0
"""Where an integral is cut: at e to minus this."""

_STEPS = 6
# on [0, 1], with weights whose sum is 1
_RULE = (
    (0.001778751213022775, 0.0045621412965472586),
    (0.009348417314563623, 0.01056605629638563),
    (0.022870359685530903, 0.01645071389115219),
    (0.04218348680393396, 0.022136467379502114),
    (0.06705373871280247, 0.027553672837858374),
    (0.09717931454141042, 0.0326364619834998),
    (0.1321945609931841, 0.03732310711728439),
    (0.17167445298056752, 0.041556708614450606),
    (0.21513976409429914, 0.04528587219651642),
    (0.2620628875224409, 0.04846532899896496),
    (0.31187424195546065, 0.05105648378903038),
    (0.363969186182411, 0.05302788296142321),
    (0.41771535893330963, 0.05435559612914707),
    (0.47246035505798284, 0.0550235065082376),
    (0.5275396449420171, 0.0550235065082376),
    (0.5822846410666904, 0.05435559612914707),
    (0.6360308138175891, 0.05302788296142321),
    (0.6881257580445393, 0.05105648378903038),
    (0.7379371124775591, 0.04846532899896496),
    (0.7848602359057009, 0.04528587219651642),
    (0.8283255470194325, 0.041556708614450606),
    (0.8678054390068158, 0.03732310711728439),
    (0.9028206854585896, 0.0326364619834998),
    (0.9329462612871975, 0.027553672837858374),
    (0.9578165131960661, 0.022136467379502114),
    (0.9771296403144691, 0.01645071389115219),
    (0.9906515826854364, 0.01056605629638563),
    (0.9982212487869773, 0.0045621412965472586),
)  # fmt: skip
_LOG1P_REST = tuple(2 / (2 * k + 3) for k in range(15, -1, -1))
_EXP_REST = tuple(1 / math.factorial(k + 2) for k in range(12, -1, -1))


def log1p_rest(x: Lane, log: Lane) -> Lane:
    """log(1 + x) - x without cancellation, where ``log`` is log(1 + x)."""
    r = x / (x + 2.0)
    square = r * r
    near = square * r * polynomial(square, _LOG1P_REST) - x * r
    return r.of("abs").of("less", 1 / 3).where(near, log - x)


def exp_rest(x: Lane, expm1: Lane) -> Lane:
    """e^x - 1 - x without cancellation, where ``expm1`` is e^x - 1."""
    near = x * x * polynomial(x, _EXP_REST)
    return x.of("abs").of("less", 0.5).where(near, expm1 - x)


def stretch(slope: Lane, curvature: Lane, fall: Callable[[Lane], tuple[Lane, Lane]]) -> Lane:
    """Where a convex function that is 0 at 0 has risen to ``FALL``, or a little beyond.

    Args:
        slope: its derivative at 0, not negative.
        curvature: its second derivative at 0.
        fall: gives the function and its derivative.
    """
    first = slope.like(2.0 * FALL) / (slope * 2.0 + (curvature * (2.0 * FALL)).of("sqrt"))

    def nearer(state: Sequence[Lane]) -> Sequence[Lane]:
        (place,) = state
        height, rise = fall(place)
        return (place - (height - FALL) / rise,)

    return repeated([()] * _STEPS, [first], nearer)[0]


def integral(
    end: Lane, fall: Callable[[Lane], Lane], times: Callable[[Lane], Lane] | None = None
) -> Lane:
    """Of e^-fall(v), perhaps times something, for v from 0 to ``end``."""

    def added(state: Sequence[Lane], share: Lane, weight: Lane) -> Sequence[Lane]:
        place = end * share
        term = (-fall(place)).of("exp") * weight
        return (state[0] + (term if times is None else term * times(place)),)

    return repeated(_RULE, [end.like(0.0)], added)[0] * end


__all__ = ["FALL", "exp_rest", "integral", "log1p_rest", "stretch"]
