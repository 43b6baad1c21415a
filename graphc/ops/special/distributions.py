"""Distributions by SciPy's names: of chi squared, Gamma, Poisson, binomials, F and Student's t.

Each is an incomplete gamma or beta function (DLMF 8.17.5 and 8.17.24), taken from the side on which
nothing is subtracted from 1.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.value import Value
from graphc.ops.declare import float_operands, like
from graphc.ops.pointwise.logic import equal, isinf, where
from graphc.ops.pointwise.rounding import floor
from graphc.ops.special.incomplete_beta import betainc, betaincc
from graphc.ops.special.incomplete_gamma import gammainc, gammaincc
from graphc.ops.special.normal import ndtr


def _only(inside: Value, value: Value) -> Value:
    """NaN outside."""
    result: Value = where(inside, value, like(math.nan, value))
    return result


def chdtr(v: Any, x: Any) -> Value:
    """The distribution of chi squared with v degrees of freedom up to x; NaN for x below 0."""
    freedom, end = float_operands(v, x)
    return gammainc(freedom * 0.5, end * 0.5)


def chdtrc(v: Any, x: Any) -> Value:
    """1 - ``chdtr(v, x)``, right where that is small."""
    freedom, end = float_operands(v, x)
    return gammaincc(freedom * 0.5, end * 0.5)


def gdtr(a: Any, b: Any, x: Any) -> Value:
    """The distribution of Gamma of shape b and rate a up to x; NaN for x below 0."""
    rate, shape, end = float_operands(a, b, x)
    return gammainc(shape, rate * end)


def gdtrc(a: Any, b: Any, x: Any) -> Value:
    """1 - ``gdtr(a, b, x)``, right where that is small."""
    rate, shape, end = float_operands(a, b, x)
    return gammaincc(shape, rate * end)


def pdtr(k: Any, m: Any) -> Value:
    """The distribution of Poisson's events of mean m: at most k of them, rounded down."""
    count, mean = float_operands(k, m)
    return _only(count >= 0, gammaincc(floor(count) + 1, mean))


def pdtrc(k: Any, m: Any) -> Value:
    """1 - ``pdtr(k, m)``, right where that is small."""
    count, mean = float_operands(k, m)
    return _only(count >= 0, gammainc(floor(count) + 1, mean))


def bdtr(k: Any, n: Any, p: Any) -> Value:
    """The binomial distribution: at most k, rounded down, of n events of probability p.

    It is NaN for k below 0 or above n, and for p outside of [0, 1].
    """
    count, events, probability = float_operands(k, n, p)
    count = floor(count)
    found = betaincc(count + 1, events - count, probability)
    inside = (probability >= 0) & (probability <= 1)
    found = where(equal(count, events) & inside, like(1, found), found)
    return _only((count >= 0) & (count <= events), found)


def bdtrc(k: Any, n: Any, p: Any) -> Value:
    """1 - ``bdtr(k, n, p)``, right where that is small, and 1 for k below 0."""
    count, events, probability = float_operands(k, n, p)
    count = floor(count)
    found = betainc(count + 1, events - count, probability)
    inside = (probability >= 0) & (probability <= 1)
    found = where(equal(count, events) & inside, like(0, found), found)
    found = where((count < 0) & inside, like(1, found), found)
    return _only(count <= events, found)


def nbdtr(k: Any, n: Any, p: Any) -> Value:
    """The negative binomial distribution: at most k failures, rounded down, before n successes of
    probability p; NaN for k below 0."""
    count, successes, probability = float_operands(k, n, p)
    return _only(count >= 0, betainc(successes, floor(count) + 1, probability))


def nbdtrc(k: Any, n: Any, p: Any) -> Value:
    """1 - ``nbdtr(k, n, p)``, right where that is small."""
    count, successes, probability = float_operands(k, n, p)
    return _only(count >= 0, betaincc(successes, floor(count) + 1, probability))


def _f_sides(dfn: Any, dfd: Any, x: Any) -> tuple[Value, Value, Value, Value, Value]:
    """Both parameters, whether x is the larger side, and the share of the smaller one."""
    top, bottom, end = float_operands(dfn, dfd, x)
    product = top * end
    is_far = product > bottom
    small = where(is_far, bottom / (bottom + product), product / (bottom + product))
    # what is infinite is all of it
    small = where(isinf(end), like(0, small), small)
    inside = (top > 0) & (bottom > 0) & (end >= 0)
    return top * 0.5, bottom * 0.5, is_far, small, inside


def fdtr(dfn: Any, dfd: Any, x: Any) -> Value:
    """Fisher's F distribution of dfn and dfd degrees of freedom up to x; NaN for x below 0."""
    a, b, is_far, small, inside = _f_sides(dfn, dfd, x)
    found = where(is_far, betaincc(b, a, small), betainc(a, b, small))
    return _only(inside, found)


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Value:
    """1 - ``fdtr(dfn, dfd, x)``, right where that is small."""
    a, b, is_far, small, inside = _f_sides(dfn, dfd, x)
    found = where(is_far, betainc(b, a, small), betaincc(a, b, small))
    return _only(inside, found)


def stdtr(df: Any, t: Any) -> Value:
    """Student's t distribution of df degrees of freedom up to t; that of ``ndtr`` for df inf.

    It is NaN for df that is not above 0.
    """
    freedom, end = float_operands(df, t)
    normal = isinf(freedom)
    some = where(normal, like(1, freedom), freedom)
    square = end * end
    is_far = square > some
    share = where(is_far, some, square) / (some + square)
    half = some * 0.5
    # both tails together
    tails = where(is_far, betainc(half, 0.5, share), betaincc(0.5, half, share))
    found = where(end < 0, tails * 0.5, 1 - tails * 0.5)
    found = where(normal, ndtr(end), found)
    return _only(freedom > 0, found)


__all__ = [
    "bdtr",
    "bdtrc",
    "chdtr",
    "chdtrc",
    "fdtr",
    "fdtrc",
    "gdtr",
    "gdtrc",
    "nbdtr",
    "nbdtrc",
    "pdtr",
    "pdtrc",
    "stdtr",
]
