"""The special functions: against mpmath for accuracy, against SciPy for special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import host
from graphc.ir.op import lookup

TARGETS = {"host": host(), "without_fma": host().without_fma()}


def run(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    with gx.Graph() as graph:
        operands = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        result = function(*operands)
    return gx.Session(graph, **options).run(result, dict(zip(operands, arrays, strict=True)))


def units(got: Any, exact: list[Any]) -> Any:
    """Errors in units in the last place of the exact numbers."""
    nearest = np.array([float(number) for number in exact], np.float64).astype(got.dtype)
    spacing = np.maximum(np.spacing(np.abs(nearest)), np.finfo(got.dtype).smallest_subnormal)
    return np.array(
        [
            abs(float((mpmath.mpf(float(one)) - other) / mpmath.mpf(float(unit))))
            for one, other, unit in zip(got, exact, spacing, strict=True)
        ]
    )


def tiny(low: float, high: float, count: int = 60) -> Any:
    return 10.0 ** np.linspace(np.log10(low), np.log10(high), count)


def inverse_of_erfc(x: Any) -> Any:
    with mpmath.workdps(60):
        return mpmath.erfinv(1 - mpmath.mpf(x))


def quantile(p: Any) -> Any:
    with mpmath.workdps(80):
        return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)


def log_ndtr(x: Any) -> Any:
    if x > 0:
        return mpmath.log1p(-mpmath.erfc(x / mpmath.sqrt(2)) / 2)
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


EXACT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gammaln": (
        lambda x: mpmath.re(mpmath.loggamma(x)),
        (np.linspace(0.01, 60, 400), tiny(1e-300, 1e300), -np.linspace(0.01, 1.99, 50)),
    ),
    "gamma": (
        mpmath.gamma,
        (np.linspace(0.01, 171.5, 400), -np.linspace(0.013, 159.7, 200), tiny(1e-300, 0.5)),
    ),
    "digamma": (mpmath.digamma, (np.linspace(0.01, 8, 300), tiny(1e-300, 1e300))),
    "erfcx": (
        lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
        (np.linspace(-26, 30, 400), tiny(30, 80)),
    ),
    "erfinv": (mpmath.erfinv, (np.linspace(-0.999, 0.999, 150), 1 - tiny(1e-15, 1e-3))),
    "erfcinv": (inverse_of_erfc, (np.linspace(0.01, 1.99, 150), tiny(1e-18, 1e-3))),
    "ndtr": (
        lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
        (np.linspace(-37, 8, 400), np.linspace(-1, 1, 100)),
    ),
    "log_ndtr": (log_ndtr, (np.linspace(-60, 37, 400), np.linspace(-2, 1, 100))),
    "ndtri": (quantile, (np.linspace(0.01, 0.99, 150), tiny(1e-30, 1e-3))),
    "i0": (lambda x: mpmath.besseli(0, x), (np.linspace(-40, 40, 301), np.linspace(40, 710, 50))),
    "i0e": (
        lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
        (np.linspace(-40, 40, 301), tiny(40, 1e4)),
    ),
    "i1": (lambda x: mpmath.besseli(1, x), (np.linspace(-40, 40, 300), np.linspace(40, 710, 50))),
    "i1e": (
        lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
        (np.linspace(-40, 40, 300), tiny(40, 1e4)),
    ),
    "exp1": (mpmath.e1, (np.linspace(0.01, 6, 300), np.linspace(6, 700, 80), tiny(1e-300, 1))),
    "expi": (
        mpmath.ei,
        (np.linspace(0.01, 60, 400), np.linspace(-700, 710, 81), np.linspace(0.36, 0.39, 50)),
    ),
    "spence": (
        lambda x: mpmath.re(mpmath.polylog(2, 1 - x)),
        (np.linspace(0.01, 5, 200), tiny(5, 1e5, 30), tiny(1e-300, 0.1, 30)),
    ),
}  # fmt: skip


@slow_unless(lambda every: every > 1)
@pytest.mark.parametrize("every", [4, 1])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_as_accurate_as_they_say(name: str, target: str, every: int) -> None:
    exact, parts = EXACT[name]
    function, bound = getattr(gx.special, name), lookup(name).max_ulp
    x = np.concatenate(parts)
    x = x[:: every if target == "host" else 5 * every]
    with mpmath.workdps(40):
        wanted = [exact(mpmath.mpf(float(number))) for number in x]
        errors = units(run(function, x, target=TARGETS[target]), wanted)
        assert np.max(errors) <= bound, (x[np.argmax(errors)], np.max(errors))
        single = x[(np.abs(x) < 1e30) & (np.abs(x) > 1e-30)][::3].astype(np.float32)
        wanted = [exact(mpmath.mpf(float(number))) for number in single]
        inside = np.array([1e-37 < abs(number) < 3e38 for number in wanted])
        errors = units(run(function, single, target=TARGETS[target]), wanted)[inside]
        assert np.max(errors) <= 0.51, np.max(errors)


def hurwitz(s: Any, q: Any) -> Any:
    """mpmath's loses digits for large q, so it is asked for the rest of a sum."""
    with mpmath.workdps(60):
        total = sum((q + k) ** -s for k in range(60))
        a = q + 60
        total += a ** (1 - s) / (s - 1) + a**-s / 2
        factor = s / a
        for j in range(1, 16):
            total += mpmath.bernoulli(2 * j) / mpmath.factorial(2 * j) * factor * a**-s
            factor *= (s + 2 * j - 1) * (s + 2 * j) / a**2
        return total


def pairs(first: Any, second: Any) -> list[Any]:
    return [part.ravel() for part in np.meshgrid(first, second)]


PAIRS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "zeta": (hurwitz, np.linspace(1.05, 40, 12), np.concatenate([tiny(0.1, 1e3, 12)])),
    "beta": (mpmath.beta, tiny(0.01, 80, 15), tiny(0.02, 75, 15)),
    "betaln": (lambda a, b: mpmath.log(mpmath.beta(a, b)), tiny(2, 1e6, 14), tiny(2, 3e5, 14)),
    "comb": (
        lambda n, k: mpmath.binomial(n, k),
        np.arange(20.0, 160.0, 17), np.arange(20.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_are_as_accurate_as_they_say(name: str) -> None:
    exact, first, second = PAIRS[name]
    x, y = pairs(first, second)
    with mpmath.workdps(40):
        wanted = [exact(*map(mpmath.mpf, map(float, pair))) for pair in zip(x, y, strict=True)]
        errors = units(run(getattr(gx.special, name), x, y), wanted)
    assert np.max(errors) <= lookup(name).max_ulp, (np.max(errors), np.argmax(errors))


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1e300, -1e300, 5e-324, 1e-300]
)
DIFFERENT = {
    "gammaln": [-np.inf, -5e-324, 5e-324],  # SciPy has infinities, C's lgamma inf and 744.4
    "i0": [np.inf, -np.inf], "i1": [np.inf, -np.inf],  # SciPy has NaN
    "spence": [np.inf],  # SciPy has NaN, the limit is -inf
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*EXACT, "gammasgn", "log_expit", "factorial"])
def test_special_values_are_scipy_s(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = SPECIAL.astype(dtype)
        wide = getattr(scipy.special, name)(x.astype(np.float64))
        wanted = wide.astype(dtype)
    keep = ~np.isin(x, DIFFERENT.get(name, []))
    got = run(getattr(gx.special, name), x)
    assert got.dtype == wanted.dtype
    unit = 64 * np.finfo(dtype).eps
    np.testing.assert_allclose(got[keep], wanted[keep], rtol=unit, atol=1e-322)


def test_what_differs_from_scipy() -> None:
    ends = np.array([np.inf, -np.inf])
    assert np.array_equal(run(gx.special.gammaln, ends), [np.inf, np.inf])
    far = -np.array([1e300, 1.7e308])  # whole, too far for log gamma of their absolute values
    assert np.array_equal(run(gx.special.gammaln, far), [np.inf, np.inf])
    assert np.array_equal(run(gx.special.i0, ends), [np.inf, np.inf])
    assert np.array_equal(run(gx.special.i1, ends), [np.inf, -np.inf])
    assert np.array_equal(run(gx.special.spence, ends), [-np.inf, np.nan], equal_nan=True)


@pytest.mark.parametrize("name", ["rel_entr", "kl_div", "comb", "beta", "betaln", "zeta"])
def test_special_values_of_two_are_scipy_s(name: str) -> None:
    numbers = np.array([0.0, 1.0, 2.0, 0.5, 7.0, 25.0])
    if name in ("rel_entr", "kl_div", "comb"):
        numbers = np.concatenate([numbers, [-1.0, -2.5]])
    x, y = pairs(numbers, numbers)
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(x, y)
    got = run(getattr(gx.special, name), x, y)
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-14)
    # SciPy overlooks NaN beside some numbers
    x, y = np.append(numbers, [np.nan] * len(numbers)), np.append([np.nan] * len(numbers), numbers)
    assert np.isnan(run(getattr(gx.special, name), x, y)).all()


def log_beta(a: float, b: float) -> Any:
    """log |B(a, b)| and its sign, with as many digits as the sum has."""
    with mpmath.workdps(40 + int(np.log10(max(abs(a), abs(b), 1.0)))):
        operands = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(a) + mpmath.mpf(b)
        logs, sign = [], 1
        for x in operands:
            if x > 0:
                logs.append(mpmath.re(mpmath.loggamma(x)))
            else:
                sine = abs(mpmath.sin(mpmath.pi * x))
                if sine < 1e-30:
                    logs.append(mpmath.inf)
                    continue
                logs.append(
                    mpmath.log(mpmath.pi) - mpmath.log(sine) - mpmath.re(mpmath.loggamma(1 - x))
                )
                sign *= (-1) ** int(mpmath.floor(x))
        return logs[0] + logs[1] - logs[2], sign


def test_beta_of_extremes() -> None:
    numbers = np.array(
        [5e-324, 1e-300, 1e-10, 0.5, 1.5, 7.0, 85.0, 171.5, 172.0, 1e5, 1e10, 1e300, -1e-10, -0.5,
         -1.5, -2.5, -10.5, -100.5, -171.5, -1e5 - 0.5, -1e10 - 0.5]
    )  # fmt: skip
    a, b = pairs(numbers, numbers)
    logs, values = run(gx.special.betaln, a, b), run(gx.special.beta, a, b)
    for first, second, log, value in zip(a, b, logs, values, strict=True):
        exact, sign = log_beta(first, second)
        assert log == exact or abs(log - exact) <= 1e-12 * max(abs(exact), 1), (first, second)
        if abs(exact) < 700:
            wanted = sign * mpmath.exp(exact)
            bound = 4e-13 + 1e-14 * abs(exact)
            assert abs(value / wanted - 1) < bound, (first, second, value, wanted)
        elif exact < -745:
            assert value == 0, (first, second)
    # a pole, a limit where both are whole, infinities
    assert np.array_equal(
        run(gx.special.beta, np.array([-1.0, -2.0, -2.0, -1.0, np.inf, -np.inf, -1e300]),
            np.array([1.0, 1.0, 2.0, 1.5, 2.0, 2.0, 0.5])),
        [-1.0, -0.5, 0.5, np.inf, 0.0, np.inf, np.inf],
    )  # fmt: skip


def test_zeta_of_huge_numbers() -> None:
    q = np.array([1e100, 1e155, 1e200, 1e300, 1.7e308])
    for s in (1.5, 2.0, 2.5):
        exact = [float(mpmath.mpf(x) ** (1 - s) / (s - 1)) for x in q]
        np.testing.assert_allclose(run(gx.special.zeta, q * 0 + s, q), exact, rtol=1e-15)
    np.testing.assert_allclose(run(lambda x: gx.special.polygamma(1, x), q), 1 / q, rtol=1e-15)
    slope = run(lambda s, q: gx.gradients(gx.sum(gx.special.zeta(s, q)), s), q * 0 + 2, q)
    np.testing.assert_allclose(slope, -(np.log(q) + 1) / q, rtol=1e-14)


def test_entropies_of_extremes_and_neighbours() -> None:
    numbers = [5e-324, 1e-310, 1e-300, 1e-154, 0.3, 1.0, 2.5, 1e10, 1e154, 1e300, 1.7e308]
    x, y = pairs(np.array(numbers), np.array(numbers))
    near = np.linspace(0.1, 9.0, 30)
    x = np.concatenate([x, near, near, near])
    y = np.concatenate([y, near * (1 + 1e-8), near * 0.9, near * 1.7])
    entropy, divergence = run(gx.special.rel_entr, x, y), run(gx.special.kl_div, x, y)
    with mpmath.workdps(40):
        for name, got in (("rel_entr", entropy), ("kl_div", divergence)):
            wanted = []
            for first, second in zip(map(mpmath.mpf, x), map(mpmath.mpf, y), strict=True):
                exact = first * mpmath.log(first / second)
                wanted.append(exact if name == "rel_entr" else exact - first + second)
            inside = np.array([1e-300 < abs(exact) < 1.7e308 for exact in wanted])
            chosen = [exact for exact, there in zip(wanted, inside, strict=True) if there]
            assert np.max(units(got[inside], chosen)) <= lookup(name).max_ulp
            assert np.isfinite(got[~inside & (np.abs(got) < 1.7e308)]).all()


def test_erfcinv_of_the_least_number_below_zero() -> None:
    x = np.array([-5e-324, 5e-324, 0.0, -0.0])
    got = run(gx.special.erfcinv, x)
    np.testing.assert_allclose(got, scipy.special.erfcinv(x))


def test_factorials_and_choices_are_whole_numbers() -> None:
    n = np.arange(18.0)
    exact = np.array([float(mpmath.factorial(int(number))) for number in n])
    assert np.array_equal(run(gx.special.factorial, n), exact)
    assert np.array_equal(run(gx.special.gamma, n + 1), exact)
    things, chosen = pairs(np.arange(50), np.arange(50))
    got = run(gx.special.comb, things, chosen)
    exact = scipy.special.comb(things, chosen).round()
    assert np.array_equal(got[exact < 2.0**46], exact[exact < 2.0**46])
    huge = run(gx.special.comb, np.array([1e300, 1e300, np.inf]), np.array([1.0, 2.5, 1.0]))
    assert abs(huge[0] / 1e300 - 1) < 1e-12 and np.isinf(huge[1])
    again = run(lambda a, b: gx.special.comb(a, b, repetition=True), things[1:9], chosen[1:9])
    assert np.array_equal(again, scipy.special.comb(things[1:9], chosen[1:9], repetition=True))


def test_polygamma_and_multigammaln() -> None:
    x = np.linspace(0.2, 30, 50)
    for n in (0, 1, 2, 5, 30):
        got = run(lambda v, n=n: gx.special.polygamma(n, v), x)
        np.testing.assert_allclose(got, scipy.special.polygamma(n, x), rtol=3e-14)
    a = np.linspace(2.1, 30, 20)
    for d in (1, 2, 5):
        got = run(lambda v, d=d: gx.special.multigammaln(v, d), a)
        np.testing.assert_allclose(got, scipy.special.multigammaln(a, d), rtol=1e-13, atol=1e-13)
    with gx.Graph():
        v = gx.placeholder(())
        for wrong in (-1, 1.5, 170, v):
            with pytest.raises(gx.DTypeError, match="number of a derivative"):
                gx.special.polygamma(wrong, v)
        with pytest.raises(gx.DTypeError, match="from 1 to 100"):
            gx.special.multigammaln(v, 0)


SECOND = {
    "gammaln": (0.7, 5.0), "gamma": (0.7, 5.0), "digamma": (0.7, 5.0), "erfcx": (0.1, 2.0),
    "erfinv": (-0.8, 0.8), "erfcinv": (0.2, 1.8), "ndtr": (-3.0, 3.0), "log_ndtr": (-9.0, 3.0),
    "ndtri": (0.1, 0.9), "i0": (0.2, 9.0), "i0e": (0.2, 9.0), "i1": (0.2, 9.0), "i1e": (0.2, 9.0),
    "exp1": (0.3, 4.0), "expi": (0.3, 4.0), "spence": (0.2, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_derivatives_of_both_orders(name: str) -> None:
    x = np.linspace(*SECOND[name], 7)
    function = getattr(gx.special, name)

    def both(v: Any) -> Any:
        slope = gx.gradients(gx.sum(function(v)), v)
        return [slope, gx.gradients(gx.sum(slope), v)]

    first, second = run(both, x)
    exact = EXACT[name][0] if name != "erfcinv" else lambda v: mpmath.erfinv(1 - v)
    with mpmath.workdps(30):
        for number, one, two in zip(x, first, second, strict=True):
            for order, got in ((1, one), (2, two)):
                wanted = float(mpmath.diff(exact, mpmath.mpf(number), order))
                assert abs(got - wanted) <= 1e-11 * max(1.0, abs(wanted)), (name, number, order)


def test_derivatives_at_zero() -> None:
    zero = np.zeros(1)
    slopes = run(
        lambda v: [
            gx.gradients(gx.sum(f(v)), v) for f in (gx.special.i0, gx.special.i1, gx.special.i1e)
        ],
        zero,
    )
    assert [float(slope[0]) for slope in slopes] == [0.0, 0.5, 0.5]
    (at_one,) = run(lambda v: [gx.gradients(gx.sum(gx.special.spence(v)), v)], zero + 1)
    assert at_one[0] == -1.0


def test_zeta_has_slopes_of_both_operands() -> None:
    s, q = np.array([1.5, 3.0, 8.0]), np.array([0.4, 2.0, 11.0])
    by_s, by_q = run(lambda a, b: gx.gradients(gx.sum(gx.special.zeta(a, b)), [a, b]), s, q)
    for number, (a, b) in enumerate(zip(s, q, strict=True)):
        assert abs(by_s[number] / float(mpmath.zeta(a, b, 1)) - 1) < 1e-13
        assert abs(by_q[number] / float(-a * mpmath.zeta(a + 1, b)) - 1) < 1e-13
    with gx.Graph():
        a = gx.placeholder(())
        slope = gx.gradients(gx.special.zeta(a), a)
        with pytest.raises(gx.GradientError, match="second derivative of zeta"):
            gx.gradients(slope, a)


def test_integers_and_numpy_s_function() -> None:
    assert run(gx.special.gamma, np.arange(1, 6)).dtype == np.float64
    assert run(gx.special.ndtr, np.arange(3, dtype=np.int8)).dtype == np.float32
    x = np.linspace(-9, 9, 19)
    np.testing.assert_allclose(run(lambda v: np.i0(v), x), np.i0(x), rtol=1e-14)
    with pytest.raises(AttributeError, match=r"gx\.special\.gammaln"):
        gx.special.gamaln  # noqa: B018
