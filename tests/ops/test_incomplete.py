"""The incomplete gamma and beta functions: against mpmath over their parameters, SciPy at ends."""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import graphc as gx
from graphc.base.target import host
from graphc.ir.op import lookup


def run(function: Any, *arrays: Any, **options: Any) -> Any:
    with gx.Graph() as graph:
        operands = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        result = function(*operands)
    return gx.Session(graph, **options).run(result, dict(zip(operands, arrays, strict=True)))


# --- exact values --------------------------------------------------------------------------------


def gamma_parts(a: Any, x: Any) -> tuple[Any, Any]:
    """Both functions; the smaller one is computed."""
    a, x = mpmath.mpf(a), mpmath.mpf(x)
    if a > 1000:
        scale = mpmath.exp(a * mpmath.log(a) - a - mpmath.loggamma(a))

        def density(t: Any) -> Any:
            return mpmath.exp(a * (mpmath.log(t / a) - (t - a) / a)) / t

        step = mpmath.sqrt(a) * (2 if x <= a else -2)
        ends = [max(mpmath.mpf(0), x - k * step) for k in range(16)]
        part = scale * abs(mpmath.quad(density, ends, method="gauss-legendre"))
        return (part, 1 - part) if x <= a else (1 - part, part)
    if x <= a:
        lower = mpmath.gammainc(a, 0, x, regularized=True)
        return lower, 1 - lower
    upper = mpmath.gammainc(a, x, mpmath.inf, regularized=True)
    return 1 - upper, upper


def beta_parts(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Both functions; the smaller one by a series of positive terms, or an integral."""
    a, b, x = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
    if x > a / (a + b):
        above, below = beta_parts(b, a, 1 - x)
        return below, above
    whole = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
    scale = mpmath.exp(a * mpmath.log(x) + b * mpmath.log1p(-x) - whole)
    if a + b > 2000:

        def density(u: Any) -> Any:
            return mpmath.exp(a * u - (a + b) * mpmath.log1p(x * mpmath.expm1(u)))

        step = mpmath.mpf(2) / mpmath.sqrt((a + b) * x * (1 - x))
        ends = [-k * step for k in range(16, -1, -1)]
        below = scale * mpmath.quad(density, ends, method="gauss-legendre")
    else:
        below = scale / a * mpmath.hyp2f1(a + b, 1, a + 1, x)
    return below, 1 - below


@cache
def exact_parts(*operands: float) -> tuple[Any, Any]:
    """Either pair, to 30 digits; once for all targets."""
    with mpmath.workdps(30):
        return (gamma_parts if len(operands) == 2 else beta_parts)(*operands)


def units_but_for_the_logarithm(got: float, exact: Any) -> float:
    """The error in ulp, less what the logarithm of the result excuses."""
    error = abs((mpmath.mpf(got) - exact) / exact) * 2**53
    return float(error) - 3 * abs(float(mpmath.log(exact)))


def shapes(rng: Any, count: int) -> Any:
    return 10 ** rng.uniform(-6, 3, count)


TARGETS = {"host": host(), "without_fma": host().without_fma()}


@pytest.mark.parametrize("target", TARGETS)
def test_gammas_are_as_accurate_as_they_say(target: str) -> None:
    rng = np.random.default_rng(0)
    a = shapes(rng, 120)
    x = np.where(
        np.arange(120) % 3 == 0,
        a * 10 ** rng.uniform(-3, 1, 120),
        np.where(
            np.arange(120) % 3 == 1,
            np.maximum(a + 4 * np.sqrt(a) * rng.standard_normal(120), 1e-3),
            10 ** rng.uniform(-3, 1.3, 120),
        ),
    )
    huge = np.array([3e3, 1e5, 1e7, 1e10])
    a = np.concatenate([a, np.repeat(huge, 4)])
    deviations = np.tile([-6.0, -0.5, 0.01, 5.0], 4)
    x = np.concatenate([x, np.repeat(huge, 4) + deviations * np.sqrt(np.repeat(huge, 4))])
    lower = run(gx.special.gammainc, a, x, target=TARGETS[target])
    upper = run(gx.special.gammaincc, a, x, target=TARGETS[target])
    with mpmath.workdps(30):
        for place, (shape, end) in enumerate(zip(a, x, strict=True)):
            for name, got, exact in zip(
                ("gammainc", "gammaincc"),
                (lower[place], upper[place]), exact_parts(shape, end), strict=True,
            ):  # fmt: skip
                if exact > 1e-290:
                    units = units_but_for_the_logarithm(got, exact)
                    assert units <= lookup(name).max_ulp, (name, shape, end, units)


@pytest.mark.parametrize("target", TARGETS)
def test_betas_are_as_accurate_as_they_say(target: str) -> None:
    rng = np.random.default_rng(1)
    count = 160
    a, b = shapes(rng, count), shapes(rng, count)
    mean, place = a / (a + b), np.arange(count) % 4
    deviation = np.sqrt(mean * (1 - mean) / (a + b + 1))
    x = np.choose(
        place,
        [
            rng.uniform(size=count), mean + 2 * deviation * rng.standard_normal(count),
            10 ** rng.uniform(-8, 0, count), 1 - 10 ** rng.uniform(-8, 0, count),
        ],
    )  # fmt: skip
    inside = (x > 0) & (x < 1)
    a, b, x = a[inside], b[inside], x[inside]
    huge, other = (part.ravel() for part in np.meshgrid([3e3, 1e6, 1e10], [20.0, 4e3, 1e10]))
    mean = huge / (huge + other)
    deviation = np.sqrt(mean * (1 - mean) / (huge + other))
    a, b = np.concatenate([a, huge, huge]), np.concatenate([b, other, other])
    x = np.concatenate([x, mean - 3 * deviation, mean + 0.3 * deviation])
    below = run(gx.special.betainc, a, b, x, target=TARGETS[target])
    above = run(gx.special.betaincc, a, b, x, target=TARGETS[target])
    with mpmath.workdps(30):
        for place, operands in enumerate(zip(a, b, x, strict=True)):
            for name, got, exact in zip(
                ("betainc", "betaincc"),
                (below[place], above[place]), exact_parts(*operands), strict=True,
            ):  # fmt: skip
                if exact > 1e-290:
                    units = units_but_for_the_logarithm(got, exact)
                    assert units <= lookup(name).max_ulp, (name, operands, units)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrower_floats_are_rounded_once(dtype: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (10 ** rng.uniform(-2, 2, 200) for _ in range(2))
    x = rng.uniform(0, 1, 200)
    a, b, x = (part.astype(dtype) for part in (a, b, x))
    wide = [part.astype(np.float64) for part in (a, b, x)]
    for name, operands in (("gammainc", (0, 1)), ("gammaincc", (0, 1)), ("betainc", (0, 1, 2))):
        function = getattr(gx.special, name)
        got = run(function, *((a, b, x)[k] for k in operands))
        exact = run(function, *(wide[k] for k in operands))
        assert got.dtype == dtype
        assert np.array_equal(got, exact.astype(dtype)), name


# --- ends ----------------------------------------------------------------------------------------

ENDS = np.array([0.0, 1.0, 2.5, 1e-300, 1e300, np.inf, -1.0, -np.inf, np.nan])
SHARES = np.array([0.0, 0.3, 0.5, 1.0, -0.1, 1.1, 1e-300, 1 - 2**-53, np.nan])


def grids(*parts: Any) -> list[Any]:
    return [part.ravel() for part in np.meshgrid(*parts)]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_ends_of_gammas_are_scipy_s(name: str) -> None:
    a, x = grids(ENDS, ENDS)
    # SciPy has NaN where both are huge; half of the distribution lies below its mean
    keep = ~((a == 1e300) & (x == 1e300))
    got = run(getattr(gx.special, name), a, x)
    wanted = getattr(scipy.special, name)(a, x)
    np.testing.assert_allclose(got[keep], wanted[keep], rtol=1e-13, atol=1e-299)
    np.testing.assert_allclose(got[~keep], 0.5, rtol=1e-12)


@pytest.mark.parametrize("name", ["betainc", "betaincc"])
def test_ends_of_betas_are_scipy_s(name: str) -> None:
    a, b, x = grids(ENDS, ENDS, SHARES)
    keep = ~((a == 1e300) | (b == 1e300) | ((a == 1e-300) & (b == 1e-300)))
    got = run(getattr(gx.special, name), a, b, x)
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(a, b, x)
    np.testing.assert_allclose(got[keep], wanted[keep], rtol=1e-12, atol=1e-299)
    finite = np.isfinite(a) & np.isfinite(b) & (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)
    got = got[finite & ~((a == 0) & (b == 0))]
    assert np.all((got >= 0) & (got <= 1))


# --- derivatives ---------------------------------------------------------------------------------


def slopes(function: Any, *arrays: Any) -> list[Any]:
    return list(run(lambda *v: gx.gradients(gx.sum(function(*v)), list(v)), *arrays))


def test_gammas_have_slopes_of_both_operands() -> None:
    a = np.array([1e-4, 0.3, 0.9, 2.0, 7.5, 15.9, 16.1, 80.0, 300.0, 5e3, 0.5, 40.0, 3.0])
    x = np.array([0.4, 1.0, 2.5, 0.1, 9.0, 12.0, 20.0, 75.0, 310.0, 4.9e3, 30.0, 20.0, 1e-3])
    by_a, by_x = slopes(gx.special.gammainc, a, x)
    upper = slopes(gx.special.gammaincc, a, x)
    assert np.array_equal(upper[0], -by_a) and np.array_equal(upper[1], -by_x)
    # differences are taken with twice as many digits
    with mpmath.workdps(20):
        for place, (shape, end) in enumerate(zip(a, x, strict=True)):
            shape, end = mpmath.mpf(shape), mpmath.mpf(end)
            part = 0 if end <= shape else 1
            exact = mpmath.diff(lambda s, e=end, p=part: gamma_parts(s, e)[p], shape)
            exact = exact if part == 0 else -exact
            assert abs(by_a[place] / float(exact) - 1) < 2e-12, (shape, end)
            exact = mpmath.exp((shape - 1) * mpmath.log(end) - end - mpmath.loggamma(shape))
            assert abs(by_x[place] / float(exact) - 1) < 1e-13 * (1 + float(shape) / 50)


def test_betas_have_slopes_of_all_operands() -> None:
    a = np.array([1e-2, 0.3, 0.9, 2.0, 7.5, 15.9, 16.1, 80.0, 300.0, 2e3, 0.5, 40.0, 3.0])
    b = np.array([0.2, 5.0, 0.4, 90.0, 7.5, 0.1, 17.0, 30.0, 900.0, 1e3, 0.6, 0.2, 1e-2])
    x = np.array([0.1, 0.2, 0.7, 0.03, 0.6, 0.9, 0.4, 0.75, 0.26, 0.67, 0.5, 0.99, 0.4])
    by_a, by_b, by_x = slopes(gx.special.betainc, a, b, x)
    upper = slopes(gx.special.betaincc, a, b, x)
    for lower, other in zip((by_a, by_b, by_x), upper, strict=True):
        assert np.array_equal(lower, -other)
    # differences are taken with twice as many digits
    with mpmath.workdps(20):
        for place, operands in enumerate(zip(a, b, x, strict=True)):
            first, second, share = (mpmath.mpf(operand) for operand in operands)
            # away from a side that is 1 less the other one
            part = 0 if share <= first / (first + second) else 1
            sign = 1 - 2 * part
            exact = sign * mpmath.diff(
                lambda s, o=second, e=share, p=part: beta_parts(s, o, e)[p], first
            )
            assert abs(by_a[place] - float(exact)) < 1e-11 * abs(float(exact)) + 1e-15, operands
            exact = sign * mpmath.diff(
                lambda s, o=first, e=share, p=part: beta_parts(o, s, e)[p], second
            )
            assert abs(by_b[place] - float(exact)) < 1e-11 * abs(float(exact)) + 1e-15, operands
            whole = mpmath.beta(first, second)
            exact = share ** (first - 1) * (1 - share) ** (second - 1) / whole
            assert abs(by_x[place] / float(exact) - 1) < 1e-12, operands


def test_slopes_at_ends() -> None:
    a = np.array([0.5, 1.0, 2.0, 2.0, 0.0, np.inf])
    x = np.array([0.0, 0.0, 0.0, np.inf, 1.0, 1.0])
    _, by_x = slopes(gx.special.gammainc, a, x)
    assert np.array_equal(by_x, [np.inf, 1.0, 0.0, 0.0, 0.0, 0.0])
    a, b = np.array([0.5, 1.0, 2.0, 3.0, 3.0, 0.0]), np.array([3.0, 3.0, 3.0, 0.5, 1.0, 1.0])
    x = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.5])
    by_a, by_b, by_x = slopes(gx.special.betainc, a, b, x)
    assert np.array_equal(by_x, [np.inf, 3.0, 0.0, np.inf, 3.0, 0.0])
    assert not by_a.any() and not by_b.any()


def test_second_derivatives() -> None:
    x = np.linspace(0.1, 0.9, 5)

    def twice(function: Any) -> Any:
        def both(v: Any) -> Any:
            return gx.gradients(gx.sum(gx.gradients(gx.sum(function(v)), v)), v)

        return run(both, x)

    got = twice(lambda v: gx.special.gammainc(2.5, v))
    density = x**1.5 * np.exp(-x) / scipy.special.gamma(2.5)
    np.testing.assert_allclose(got, density * (1.5 / x - 1), rtol=1e-13)
    got = twice(lambda v: gx.special.betainc(2.5, 3.0, v))
    density = x**1.5 * (1 - x) ** 2 / scipy.special.beta(2.5, 3.0)
    np.testing.assert_allclose(got, density * (1.5 / x - 2 / (1 - x)), rtol=1e-12)
    with gx.Graph():
        v = gx.placeholder(())
        for first in (gx.special.gammainc(v, 1.0), gx.special.betainc(v, 1.0, 0.5)):
            with pytest.raises(gx.GradientError, match="second derivative"):
                gx.gradients(gx.gradients(first, v), v)
