"""Draws that are made by rejection or by search follow their laws; what is no law is told apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import host

Array = Any
SIZE = 20_000
MANY = 10_000_000


def drawn(function: Callable[..., Any], *arguments: Any, seed: int = 0, **options: Any) -> Array:
    """What a function of ``gx.random`` gives for the key of a seed."""
    with gx.Graph() as graph:
        value = function(gx.random.key(seed), *arguments, **options)
    return gx.Session(graph).run(value)


def kolmogorov(sample: Array, cdf: Callable[[Array], Array]) -> float:
    """The distance of a sample from a distribution, times the root of its size."""
    ordered = cdf(np.sort(sample.astype(np.float64).ravel()))
    ranks = np.arange(ordered.size + 1) / ordered.size
    return float(
        max(np.max(ordered - ranks[:-1]), np.max(ranks[1:] - ordered)) * math.sqrt(ordered.size)
    )


def gamma_cdf(a: float) -> Callable[[Array], Array]:
    """By its series, which is fine up to a mean of some tens."""

    def cdf(x: Array) -> Array:
        term = np.exp(a * np.log(np.maximum(x, 1e-300)) - x - math.lgamma(a + 1))
        total = term.copy()
        for step in range(1, 200):
            term = term * x / (a + step)
            total += term
        return np.minimum(total, 1.0)

    return cdf


def upper(x: Array) -> Array:
    """The probability of a normal number above x."""
    return 0.5 * np.vectorize(math.erfc)(np.asarray(x, np.float64) / math.sqrt(2))


def between(low: float, high: float) -> Callable[[Array], Array]:
    """The distribution of a normal number between bounds; of those below 0, by the other side."""
    if low < 0 and high < 3:
        flipped = between(-high, -low) if high < 0 else None
        if flipped is not None:
            return lambda x: 1 - flipped(-x)
    return lambda x: (upper(low) - upper(x)) / (upper(low) - upper(high))


CONTINUOUS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[[Array], Array]]] = {
    "gamma of 0.3": (gx.random.gamma, (0.3,), gamma_cdf(0.3)),
    "gamma of 1": (gx.random.gamma, (1.0,), lambda x: -np.expm1(-x)),
    "gamma of 25": (gx.random.gamma, (25.0,), gamma_cdf(25.0)),
    "beta of halves": (gx.random.beta, (0.5, 0.5), lambda x: np.arcsin(np.sqrt(x)) * 2 / np.pi),
    "beta of 2, 3": (gx.random.beta, (2.0, 3.0), lambda x: x * x * (6 - 8 * x + 3 * x * x)),
    "normal": (gx.random.truncated_normal, (-np.inf, np.inf), between(-np.inf, np.inf)),
    "normal near 0": (gx.random.truncated_normal, (-0.2, 0.5), between(-0.2, 0.5)),
    "normal on one side": (gx.random.truncated_normal, (-0.5, 9.0), between(-0.5, 9.0)),
    "normal far out": (gx.random.truncated_normal, (7.0, np.inf), between(7.0, np.inf)),
    "normal far below": (gx.random.truncated_normal, (-5.0, -4.9), between(-5.0, -4.9)),
}


def of_float64(name: str, size: int, seed: int) -> Array:
    function, parameters, _ = CONTINUOUS[name]
    first, *rest = parameters
    return drawn(function, np.float64(first), *rest, shape=(size,), seed=seed)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_draws_follow_their_law(name: str) -> None:
    sample = of_float64(name, SIZE, 2)
    assert sample.dtype == np.float64 and kolmogorov(sample, CONTINUOUS[name][2]) < 2.2


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTINUOUS)
def test_ten_million_draws_follow_their_law(name: str) -> None:
    assert kolmogorov(of_float64(name, MANY, 5), CONTINUOUS[name][2]) < 2.2


def poisson_chances(mean: float, counts: Array) -> Array:
    logs = np.array([k * math.log(mean) - mean - math.lgamma(k + 1) for k in counts.tolist()])
    return np.exp(logs)


def binomial_chances(n: int, p: float, counts: Array) -> Array:
    return np.exp(
        [
            math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
            + k * math.log(p) + (n - k) * math.log1p(-p)
            for k in counts.tolist()
        ]
    )  # fmt: skip


COUNTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float, Callable[[Array], Array]]] = {
    f"poisson of {mean}": (
        gx.random.poisson, (mean,), mean, lambda k, mean=mean: poisson_chances(mean, k),
    )
    for mean in (0.7, 9.5, 10.5, 400.0)
} | {
    f"binomial of {n}, {p}": (
        gx.random.binomial, (n, p), n * p, lambda k, n=n, p=p: binomial_chances(n, p, k),
    )
    for n, p in ((9, 0.4), (60, 0.9), (50, 0.4), (3000, 0.7))
}  # fmt: skip


def surprise(sample: Array, mean: float, chances: Callable[[Array], Array]) -> float:
    """How far chi-square is from its mean, in deviations; counts of few draws are put together."""
    values, bins = np.unique(sample, return_counts=True)
    expected = chances(values.astype(np.int64)) * sample.size
    often = expected >= 20
    seen = np.append(bins[often], sample.size - bins[often].sum())
    wanted = np.append(expected[often], max(sample.size - expected[often].sum(), 1e-9))
    if wanted[-1] < 5:
        seen, wanted = seen[:-1], wanted[:-1]
    freedom = seen.size - 1
    return float((np.sum((seen - wanted) ** 2 / wanted) - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize("name", COUNTS)
def test_counts_follow_their_law(name: str) -> None:
    function, parameters, mean, chances = COUNTS[name]
    sample = drawn(function, *parameters, shape=(SIZE,), dtype="int32", seed=4)
    assert sample.dtype == np.int32 and surprise(sample, mean, chances) < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_ten_million_counts_follow_their_law(name: str) -> None:
    function, parameters, mean, chances = COUNTS[name]
    sample = drawn(function, *parameters, shape=(MANY,), dtype="int32", seed=6)
    assert surprise(sample, mean, chances) < 4.5


def test_rows_that_sum_to_a_whole() -> None:
    alpha = np.array([0.2, 1.0, 3.0])
    rows = drawn(gx.random.dirichlet, alpha, (SIZE,))
    assert rows.shape == (SIZE, 3) and np.allclose(rows.sum(1), 1)
    share = alpha / alpha.sum()
    deviation = np.sqrt(share * (1 - share) / (alpha.sum() + 1))
    assert (np.abs(rows.mean(0) - share) < 5 * deviation / math.sqrt(SIZE)).all()
    assert np.allclose(rows.std(0), deviation, rtol=0.05)
    tiny = drawn(gx.random.dirichlet, np.full(3, 1e-4), (200,))
    assert np.isfinite(tiny).all() and np.allclose(tiny.sum(1), 1)

    p = np.array([2.0, 3.0, 0.0, 5.0])
    trials = np.arange(SIZE) % 40
    counts = drawn(gx.random.multinomial, trials, p, dtype="int64")
    assert np.array_equal(counts.sum(1), trials) and not counts[:, 2].any()
    total = trials.sum()
    spread = np.sqrt(total * p / 10 * (1 - p / 10))
    assert (np.abs(counts.sum(0) - total * p / 10) <= 5 * spread).all()


def test_parameters_broadcast_and_keep_to_themselves() -> None:
    """An element depends on its own parameters: not on how long others take."""
    with gx.Graph() as graph:
        key = gx.random.key(3)
        a = gx.placeholder((None,), "float64")
        draws = [
            gx.random.gamma(key, a, (5, a.shape[0])),
            gx.random.poisson(key, a, (5, a.shape[0])),
            gx.random.binomial(key, gx.floor(a), 0.3, (5, a.shape[0])),
            gx.random.truncated_normal(key, -1.0, a, (5, a.shape[0])),
        ]
    session = gx.Session(graph, threads=2)
    first = np.array([0.1, 2.0, 30.0, 700.0])
    wanted = session.run(draws, {a: first})
    changed = session.run(draws, {a: np.array([0.1, 1.0, 30.0, 3.0])})
    for one, other in zip(wanted, changed, strict=True):
        assert np.array_equal(one[:, [0, 2]], other[:, [0, 2]])
    assert np.array_equal(session.run(draws[0], {a: first}), wanted[0])
    other = gx.Session(graph, target=host().without_fma(), options=gx.Options(optimize=1))
    for one, same in zip(wanted, other.run(draws, {a: first}), strict=True):
        assert np.array_equal(one, same)


def test_what_is_no_law() -> None:
    odd = np.array([-1.0, np.nan, 0.0, np.inf])
    assert np.array_equal(drawn(gx.random.gamma, odd), [np.nan, np.nan, 0, np.inf], equal_nan=True)
    assert drawn(gx.random.poisson, odd).tolist() == [-1, -1, 0, -1]
    with np.errstate(invalid="ignore"):
        counts = drawn(gx.random.binomial, odd, 0.5)
    assert np.array_equal(counts, [np.nan, np.nan, 0, np.nan], equal_nan=True)
    whole = drawn(gx.random.binomial, 3, np.array([0.0, 1.0, 1.5]), dtype="int8")
    assert whole.tolist() == [0, 3, -1]
    low, high = np.array([2.0, 3.0, np.nan]), np.array([2.0, 1.0, 1.0])
    bounds = drawn(gx.random.truncated_normal, low, high)
    assert np.array_equal(bounds, [2.0, np.nan, np.nan], equal_nan=True)
    assert drawn(gx.random.gamma, np.ones(0)).shape == (0,)
    single = drawn(gx.random.gamma, np.float32(2))
    assert single.dtype == np.float32 and single.shape == ()


def test_gradients_are_refused_with_a_reason() -> None:
    with gx.Graph():
        a = gx.placeholder((3,))
        for y in (gx.random.gamma(gx.random.key(0), a), gx.random.beta(gx.random.key(0), a, 1.0)):
            with pytest.raises(gx.GradientError, match="rejection"):
                gx.gradients(gx.sum(y), a)
        p = gx.placeholder((3,))
        count = gx.gradients(gx.sum(gx.random.binomial(gx.random.key(0), 9, p) + p), p)
        # of what does not depend on them there are
        scale = gx.gradients(gx.sum(a * gx.random.gamma(gx.random.key(0), 2.0, (3,))), a)
        assert scale.shape == (3,)
        assert gx.Session().run(count, {p: np.ones(3)}).tolist() == [1, 1, 1]
