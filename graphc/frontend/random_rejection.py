"""Distributions that are drawn by rejection or by search: rounds of a loop until all are decided.

Each round draws from a key of its own for every element, decided or not, so an element depends on
the key, its index and its parameters alone. Parameters that make no distribution give NaN (-1 where
results are integers) at once. A round leaves an element undecided with a probability below a bound,
and a loop has so many rounds that one in 2**64 is never decided; it gets the last proposal.
Everything is computed in float64 by operations that are exact or ``portable``, and rounded at the
end, so draws are the same on every target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.frontend.control_flow import while_loop
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType, DTypeLike, float64
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted
from graphc.ops.creation import iota_beside, zeros
from graphc.ops.declare import float_operand
from graphc.ops.move.shape import broadcast_to, expand_dims
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.rounding import abs_, floor, maximum, minimum
from graphc.ops.random.keys import drawn, element_type, fitted, fold_in, key_of, shape_of, split
from graphc.ops.random.portable import exp, log, rejected
from graphc.ops.reduce.axes import any_, max_, sum_

Shape = tuple[Dim, ...]
Proposal = Callable[[Value], tuple[Value, Value]]
"""From the key of a round to what it proposes and where that is accepted."""


def _rounds(most_refused: float) -> int:
    """Rounds after which an element is undecided with a probability below 2**-64."""
    return int(np.ceil(-64 / np.log2(most_refused)))


def _until_accepted(
    key: Value, settled: Value, first: Value, most: int, proposal: Proposal
) -> Value:
    """What is proposed first and accepted, for each element; ``first`` where it is settled."""

    def goes_on(number: Value, done: Value, result: Value) -> Value:
        return (number < most) & any_(~done)

    def body(number: Value, done: Value, result: Value) -> tuple[Value, ...]:
        proposed, accepted = proposal(fold_in(key, number))
        return number + 1, done | accepted, where(done, result, proposed)

    found: Value = while_loop(goes_on, body, [0, settled, first])[2]
    return found


def _unit(key: Value, shape: Shape) -> Value:
    return drawn(key, "uniform", shape, float64)


def _exponential(key: Value, shape: Shape) -> Value:
    return drawn(key, "exponential", shape, float64)


def _wide(*given: Any) -> tuple[tuple[Value, ...], DType]:
    """Parameters in float64, and the dtype that they have as floats together."""
    values = [float_operand(parameter) for parameter in given]
    dtype = values[0].dtype
    for value in values:
        dtype = float64 if value.dtype is float64 else dtype
    return tuple(converted(value, float64) for value in values), dtype


def _result(value: Value, asked: DTypeLike | None, own: DType, name: str) -> Value:
    """Draws in the dtype that is asked for, or that of the parameters."""
    return rejected(converted(value, own if asked is None else element_type(asked, "float", name)))


# --- gamma and what is made of it -----------------------------------------------------------------


def _gamma_parts(key: Value, a: Value, shape: Shape) -> tuple[Value, Value]:
    """Gamma draws of a, or of a + 1 where a < 1, and the logarithm of the factor that is missing.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. A round
    refuses at most 0.05.
    """
    is_small = a < 1.0
    d = where(is_small, a + 1.0, a) - 1 / 3
    c = 1 / (3.0 * sqrt(d))

    def proposal(key: Value) -> tuple[Value, Value]:
        one, two = split(key)
        x = drawn(one, "normal", shape, float64)
        root = 1.0 + c * x
        cube = root * root * root
        positive = where(root > 0, root, 1.0)
        room = 0.5 * x * x + d - d * cube + 3.0 * d * log(positive)
        return d * cube, (root > 0) & (-_exponential(two, shape) < room)

    rounds, boost = split(key)
    is_law = (a > 0) & (a < np.inf)
    settled = broadcast_to(~is_law, shape)
    unlawful = broadcast_to(where((a == 0) | (a == np.inf), a, np.nan), shape)
    draws = _until_accepted(rounds, settled, unlawful, _rounds(0.05), proposal)
    missing = where(is_small & is_law, -_exponential(boost, shape) / where(is_law, a, 1.0), 0.0)
    return draws, missing


def gamma(key: Any, a: Any, shape: Any = None, dtype: DTypeLike | None = None) -> Value:
    """Gamma draws of shape parameter ``a`` and scale 1.

    Args:
        key: a key.
        a: positive; 0 gives 0, a negative one NaN.
        shape: of the result, to which a broadcasts; that of a by default.
        dtype: a float dtype; that of a by default.

    There is no gradient by ``a``. Source: Marsaglia and Tsang, 2000.
    """
    source, ((parameter,), own) = key_of(key, "gamma"), _wide(a)
    dims, (parameter,) = fitted(shape, "gamma", parameter)
    draws, missing = _gamma_parts(source, parameter, dims)
    return _result(draws * exp(missing), dtype, own, "gamma")


def _log_gamma(key: Value, a: Value, shape: Shape) -> Value:
    """Logarithms of gamma draws, which don't underflow for small parameters."""
    draws, missing = _gamma_parts(key, a, shape)
    return log(draws) + missing


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: DTypeLike | None = None) -> Value:
    """Beta draws, from 0 to 1: a gamma draw of ``a`` by the sum of it and one of ``b``.

    Arguments are as for ``gamma``; a and b broadcast to each other.
    """
    source, ((one, other), own) = key_of(key, "beta"), _wide(a, b)
    dims, (one, other) = fitted(shape, "beta", one, other)
    first, second = split(source)
    x, y = _log_gamma(first, one, dims), _log_gamma(second, other, dims)
    most = maximum(x, y)
    x, y = exp(x - most), exp(y - most)
    return _result(x / (x + y), dtype, own, "beta")


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: DTypeLike | None = None) -> Value:
    """Dirichlet draws: rows of positive numbers whose sum is 1.

    Args:
        key: a key.
        alpha: positive parameters, along the last axis.
        shape: of the result without its last axis; by default that of alpha without it.
        dtype: a float dtype; that of alpha by default.
    """
    source, ((parameter,), own) = key_of(key, "dirichlet"), _wide(alpha)
    if not parameter.shape:
        raise ShapeError("dirichlet: alpha is a scalar", where=caller(), hint="give a vector")
    batch = parameter.shape[:-1] if shape is None else shape_of(shape, "dirichlet")
    dims = (*batch, parameter.shape[-1])
    rows = _log_gamma(source, broadcast_to(parameter, dims), dims)
    weights = exp(rows - max_(rows, axis=-1, keepdims=True))
    return _result(weights / sum_(weights, axis=-1, keepdims=True), dtype, own, "dirichlet")


# --- normals between bounds -----------------------------------------------------------------------


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: DTypeLike | None = None
) -> Value:
    """Standard normal draws between two bounds, however far out these are.

    Args:
        key: a key.
        lower, upper: the bounds, which broadcast to each other; infinite ones are none.
        shape: of the result; by default what the bounds broadcast to.
        dtype: a float dtype; that of the bounds by default.

    A draw is a normal one, a uniform one or an exponential one, whichever is refused least: at most
    0.65. There is no gradient by the bounds. Source: Robert, "Simulation of truncated normal
    variables", 1995.
    """
    source, ((low, high), own) = key_of(key, "truncated_normal"), _wide(lower, upper)
    dims, (low, high) = fitted(shape, "truncated_normal", low, high)
    # the side of 0 on which more of the interval lies is the right one
    is_turned = low + high < 0
    a, b = where(is_turned, -high, low), where(is_turned, -low, high)
    width = b - a
    is_tail = a > 0
    root = sqrt(a * a + 4.0)
    rate = (a + root) * 0.5
    bound = exp((a * a - a * root) * 0.25 + 0.5) / rate
    by_exponential = is_tail & (width > bound)
    by_normal = ~is_tail & (width > np.sqrt(2 * np.pi))

    def proposal(key: Value) -> tuple[Value, Value]:
        one, two, three = split(key, 3)
        tail = a + drawn(one, "exponential", dims, float64) / rate
        flat = where(width < np.inf, width, 1.0) * _unit(two, dims) + where(a > -np.inf, a, 0.0)
        x = where(by_exponential, tail, where(by_normal, drawn(two, "normal", dims, float64), flat))
        away = tail - rate
        least = where(is_tail, a * a, 0.0)
        cost = where(by_exponential, away * away, where(by_normal, 0.0, x * x - least)) * 0.5
        return x, (x >= a) & (x <= b) & (cost <= _exponential(three, dims))

    is_law = low < high
    edge = broadcast_to(where(low == high, a, np.nan), dims)
    draws = _until_accepted(source, broadcast_to(~is_law, dims), edge, _rounds(0.65), proposal)
    draws = where(is_turned, -draws, draws)
    return _result(maximum(minimum(draws, high), low), dtype, own, "truncated_normal")


# --- counts ---------------------------------------------------------------------------------------


def _log_factorial(k: Value) -> Value:
    """log k! of whole numbers from 0 on: Stirling's series at k + 8, less what it is too much."""
    x = k + 1.0
    factors = x
    for step in range(1, 7):
        factors = factors * (x + float(step))
    y = x + 7.0
    inverse = 1 / y
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    result: Value = (y - 0.5) * log(y) - y + (0.5 * np.log(2 * np.pi)) + series - log(factors)
    return result


def _searched(key: Value, shape: Shape, first: Value, ratio: Callable[[Value], Value]) -> Value:
    """Counts by their distribution: how many of their probabilities a uniform number exceeds.

    ``ratio`` of a count is the probability of the next one by its own. Laws of a mean up to 10 are
    searched: a count of 80 is less likely than 2**-64.
    """
    u = _unit(key, shape)

    def goes_on(k: Value, found: Value, term: Value, total: Value) -> Value:
        return (k < 80.0) & any_(u >= total)

    def body(k: Value, found: Value, term: Value, total: Value) -> tuple[Value, ...]:
        following = term * ratio(k)
        return k + 1.0, where(u >= total, k + 1.0, found), following, total + following

    start = broadcast_to(first, shape)
    began = [as_value(np.float64(0), key), zeros(shape, float64), start, start]
    counted: Value = while_loop(goes_on, body, began)[1]
    return counted


def poisson(key: Any, lam: Any, shape: Any = None, dtype: DTypeLike = "int64") -> Value:
    """Poisson draws of mean ``lam``; -1 where that is negative or NaN.

    Args:
        key: a key.
        lam: means, up to 1e15.
        shape: of the result, to which lam broadcasts; that of lam by default.
        dtype: an integer dtype.

    Means below 10 are searched by their distribution; others are Hörmann's PTRS, which refuses at
    most one half. Source: Hörmann, "The transformed rejection method for generating Poisson random
    variables", 1993.
    """
    element = element_type(dtype, "int uint", "poisson")
    source, ((mean,), _) = key_of(key, "poisson"), _wide(lam)
    dims, (mean,) = fitted(shape, "poisson", mean)
    is_law = (mean >= 0) & (mean <= 1e15)
    is_small = is_law & (mean < 10)
    few = where(is_small, mean, 0.0)
    one, two = split(source)
    counted = _searched(one, dims, exp(-few), lambda k: few / (k + 1.0))

    many = where(is_law & ~is_small, mean, 10.0)
    log_mean = log(many)
    b = 0.931 + 2.53 * sqrt(many)
    a = -0.059 + 0.02483 * b
    log_alpha = log(1.1239 + 1.1328 / (b - 3.4))
    inside = 0.9277 - 3.6224 / (b - 2.0)

    def proposal(key: Value) -> tuple[Value, Value]:
        k, size, v = _transformed(key, dims, a, b, many + 0.43)
        least = log(v) + log_alpha - log(a / (size * size) + b)
        bound = maximum(k, 0.0)
        fits = least <= bound * log_mean - many - _log_factorial(bound)
        sure = (size >= 0.07) & (v <= inside)
        return k, sure | (fits & (k >= 0) & ~((size < 0.013) & (v > size)))

    settled, start = broadcast_to(is_small | ~is_law, dims), where(is_law, counted, -1.0)
    draws = _until_accepted(two, settled, start, _rounds(0.5), proposal)
    return converted(draws, element)


def _counts(draws: Value, element: DType) -> Value:
    """Whole numbers, in a dtype in which NaN is -1 if it has none; of them the slope is 0."""
    if element.is_integer:
        return converted(where(draws >= 0, draws, -1.0), element)
    return converted(floor(draws), element)


def _transformed(
    key: Value, shape: Shape, a: Value, b: Value, centre: Value
) -> tuple[Value, Value, Value]:
    """Hörmann's transformation of a uniform number, how far it is from the ends, and another."""
    one, two = split(key)
    u, v = _unit(one, shape) - 0.5, _unit(two, shape) + 2.0**-54
    size = 0.5 - abs_(u) + 2.0**-55
    return floor((2.0 * a / size + b) * u + centre), size, v


def binomial(
    key: Any, n: Any, p: Any, shape: Any = None, dtype: DTypeLike | None = None
) -> Value:
    """Binomial draws: how many of n trials succeed, each with probability p.

    Args:
        key: a key.
        n: whole numbers from 0 to 1e15.
        p: from 0 to 1.
        shape: of the result, to which n and p broadcast; by default what they broadcast to.
        dtype: of the result, of floats or integers; float32 by default, or float64 if n or p are.

    Where n, p or both make no distribution the result is NaN, or -1 as an integer. Means below 10,
    of successes or of failures, are searched by their distribution; others are Hörmann's BTRS,
    which refuses at most one half. Source: Hörmann, "The generation of binomial random variates",
    1993.
    """
    source, ((count, chance), own) = key_of(key, "binomial"), _wide(n, p)
    element = own if dtype is None else element_type(dtype, "float int uint", "binomial")
    dims, (count, chance) = fitted(shape, "binomial", count, chance)
    draws = _binomial(source, count, chance, dims)
    return _counts(draws, element)


def _binomial(key: Value, count: Value, chance: Value, dims: Shape) -> Value:
    """Binomial draws in float64, NaN where there is no distribution."""
    is_law = (count >= 0) & (count <= 1e15) & (count == floor(count))
    is_law = is_law & (chance >= 0) & (chance <= 1)
    n, given = where(is_law, count, 0.0), where(is_law, chance, 0.0)
    is_turned = given > 0.5
    p = where(is_turned, 1.0 - given, given)
    q = 1.0 - p
    ratio = p / q
    is_small = n * p < 10
    one, two = split(key)
    few = where(is_small, n, 0.0)
    counted = _searched(
        one, dims, exp(few * log(q)), lambda k: ratio * maximum(few - k, 0.0) / (k + 1.0)
    )

    many = where(is_small, 1e6, n)
    p, q = where(is_small, 0.5, p), where(is_small, 0.5, q)
    spread = sqrt(many * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * spread
    inside = 0.92 - 4.2 / b
    log_odds = log(p / q)
    mode = floor((many + 1.0) * p)
    height = _log_factorial(mode) + _log_factorial(many - mode)

    def proposal(key: Value) -> tuple[Value, Value]:
        k, size, v = _transformed(key, dims, a, b, many * p + 0.5)
        bound = maximum(minimum(k, many), 0.0)
        least = log(v * alpha / (a / (size * size) + b))
        fits = least <= (
            height - _log_factorial(bound) - _log_factorial(many - bound)
            + (bound - mode) * log_odds
        )  # fmt: skip
        sure = (size >= 0.07) & (v <= inside)
        return k, sure | (fits & (k == bound))

    settled = broadcast_to(is_small, dims)
    draws = _until_accepted(two, settled, counted, _rounds(0.5), proposal)
    return where(is_law, where(is_turned, n - draws, draws), np.nan)


def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: DTypeLike | None = None
) -> Value:
    """Multinomial draws: how many of n trials have each outcome.

    Args:
        key: a key.
        n: numbers of trials, which broadcast to the result without its last axis.
        p: probabilities along the last axis, divided by their sum.
        shape: of the result, with the last axis of p; by default what n and p broadcast to.
        dtype: as for ``binomial``.

    Outcomes are drawn one after the other, each by a binomial of what is left.
    """
    source, ((count, chance), own) = key_of(key, "multinomial"), _wide(n, p)
    element = own if dtype is None else element_type(dtype, "float int uint", "multinomial")
    dims, (trials, weights) = fitted(
        shape, "multinomial", expand_dims(count, -1), chance
    )
    if not dims:
        raise ShapeError("multinomial: p is a scalar", where=caller(), hint="give a vector")
    batch, outcomes = dims[:-1], dims[-1]
    place = iota_beside(dims, len(dims) - 1, float64, weights)

    def goes_on(j: Value, left: Value, mass: Value, drawn: Value) -> Value:
        return j < as_value(outcomes, weights).astype("int64")

    def body(j: Value, left: Value, mass: Value, drawn: Value) -> tuple[Value, ...]:
        is_here = place == converted(j, float64)
        weight = sum_(where(is_here, weights, 0.0), axis=-1)
        share = where(mass > 0, minimum(weight / where(mass > 0, mass, 1.0), 1.0), 1.0)
        taken = _binomial(fold_in(source, j), left, share, batch)
        drawn = where(is_here, expand_dims(taken, -1), drawn)
        following = sum_(where(place > converted(j, float64), weights, 0.0), axis=-1)
        return j + 1, left - taken, following, drawn

    began = [0, trials[..., 0], sum_(weights, axis=-1), zeros(dims, float64)]
    draws: Value = while_loop(goes_on, body, began)[3]
    return _counts(draws, element)


__all__ = [
    "beta", "binomial", "dirichlet", "gamma", "multinomial", "poisson", "truncated_normal",
]  # fmt: skip
