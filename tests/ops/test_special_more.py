"""Distributions, Bessel functions of the second kind, Dawson's integral, transforms and losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from slow_parameters import slow_unless
from test_special import TARGETS, run, tiny, units

import graphc as gx
from graphc.ir.op import lookup

S = gx.special


def dawson(x: Any) -> Any:
    if abs(x) < 30:
        return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)
    return sum(mpmath.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(12)) / (2 * x)


EXACT: dict[str, tuple[Callable[..., Any], Any]] = {
    "k0": (lambda x: mpmath.besselk(0, x), np.linspace(0.01, 700, 150)),
    "k0e": (lambda x: mpmath.besselk(0, x) * mpmath.exp(x), np.linspace(0.01, 30, 150)),
    "k1": (lambda x: mpmath.besselk(1, x), np.linspace(0.01, 700, 150)),
    "k1e": (lambda x: mpmath.besselk(1, x) * mpmath.exp(x), np.linspace(0.01, 30, 150)),
    "dawsn": (dawson, np.linspace(-12, 12, 150)),
    "erfi": (mpmath.erfi, np.linspace(-26, 26, 151)),
}


@cache
def accurate(name: str, every: int) -> tuple[Any, list[Any]]:
    """Some of the places, and the numbers there."""
    exact, middle = EXACT[name]
    x = np.concatenate([middle, tiny(1e-300, 1, 30), tiny(0.5, 12, 80)])[::every]
    with mpmath.workdps(40):
        return x, [exact(mpmath.mpf(float(number))) for number in x]


@slow_unless(
    lambda name, target, every: every > 1 and (target == "host" or name in ("k0", "dawsn"))
)
@pytest.mark.parametrize("every", [4, 1])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_as_accurate_as_they_say(name: str, target: str, every: int) -> None:
    x, wanted = accurate(name, every)
    with mpmath.workdps(40):
        inside = np.array([1e-300 < abs(number) < 1e300 for number in wanted])
        got = run(getattr(S, name), x, target=TARGETS[target])
        errors = units(got[inside], [w for w, there in zip(wanted, inside, strict=True) if there])
        assert np.max(errors) <= lookup(name).max_ulp, (x[inside][np.argmax(errors)], max(errors))


@pytest.mark.parametrize("name", EXACT)
def test_ends_and_derivatives(name: str) -> None:
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324, 1e300])
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(ends)
    got = run(getattr(S, name), ends)
    np.testing.assert_allclose(got, wanted, rtol=1e-13)
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(wanted[got == 0]))
    x = np.array([0.3, 0.9, 1.1, 2.5, 6.0])

    def both(v: Any) -> Any:
        slope = gx.gradients(gx.sum(getattr(S, name)(v)), v)
        return [slope, gx.gradients(gx.sum(slope), v)]

    first, second = run(both, x)
    with mpmath.workdps(30):
        for number, one, two in zip(x, first, second, strict=True):
            for order, found in ((1, one), (2, two)):
                exact = float(mpmath.diff(EXACT[name][0], mpmath.mpf(number), order))
                assert abs(found - exact) <= 1e-12 * max(1.0, abs(exact)), (number, order)


def grid(*parts: Any) -> list[Any]:
    return [part.ravel() for part in np.meshgrid(*map(np.array, parts))]


COUNTS = [0.0, 1.0, 2.7, 10.0, 40.0]
SHARES = [0.0, 1e-9, 0.2, 0.5, 0.97, 1.0, -0.1, 1.5, np.nan]
ENDS = [0.0, 1e-3, 0.7, 3.0, 25.0, 400.0, np.inf, -1.0, np.nan]
SHAPES = [0.3, 1.0, 4.5, 60.0]
DISTRIBUTIONS = {
    "chdtr": (SHAPES, ENDS), "chdtrc": (SHAPES, ENDS), "gdtr": ([0.5, 2.0], SHAPES, ENDS),
    "gdtrc": ([0.5, 2.0], SHAPES, ENDS), "pdtr": ([*COUNTS, -1.0], [0.0, 0.4, 9.0, 80.0]),
    "pdtrc": ([*COUNTS, -1.0], [0.0, 0.4, 9.0, 80.0]),
    "bdtr": ([*COUNTS, -1.0], [1.0, 10.0, 40.0], SHARES),
    "bdtrc": ([*COUNTS, -1.0], [1.0, 10.0, 40.0], SHARES),
    "nbdtr": ([*COUNTS, -1.0], [1.0, 10.0, 40.0], SHARES),
    "nbdtrc": ([*COUNTS, -1.0], [1.0, 10.0, 40.0], SHARES),
    "fdtr": (SHAPES, SHAPES, ENDS), "fdtrc": (SHAPES, SHAPES, ENDS),
    "stdtr": ([*SHAPES, 1e10, np.inf, 0.0, -1.0], [0.0, 0.3, -0.3, 4.0, -4.0, -40.0, 1e3]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:floating point number truncated", "ignore:non-integer arg n")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_are_scipy_s(name: str) -> None:
    operands = grid(*DISTRIBUTIONS[name])
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(*operands)
    np.testing.assert_allclose(run(getattr(S, name), *operands), wanted, rtol=2e-13, atol=1e-300)
    function = getattr(S, name)
    inside = [np.array([operand]) for operand in {
        "stdtr": (4.5, -1.3), "chdtr": (4.5, 3.0), "chdtrc": (4.5, 3.0), "pdtr": (3.0, 4.0),
        "pdtrc": (3.0, 4.0), "gdtr": (2.0, 3.0, 1.5), "gdtrc": (2.0, 3.0, 1.5),
        "fdtr": (4.5, 6.0, 2.0), "fdtrc": (4.5, 6.0, 2.0),
    }.get(name, (3.0, 10.0, 0.4))]  # fmt: skip
    slope = run(lambda *v: gx.gradients(gx.sum(function(*v)), v[-1]), *inside)
    step = 1e-6 * inside[-1]
    ends = [run(function, *inside[:-1], inside[-1] + sign * step) for sign in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-7)


NUMBERS = [0.0, 1e-300, 1e-12, 0.02, 0.5, 1.0, 3.0, 1e5, 1e200, np.inf, -0.5, -3.0, np.nan]
POWERS = [0.0, 1e-12, 0.5, 1.0, -1.0, 2.5, -0.3]
PAIRS = {
    "boxcox": (NUMBERS, POWERS), "boxcox1p": (NUMBERS, POWERS),
    "inv_boxcox": ([0.0, 1e-300, 1e-12, 0.4, 3.0, -0.3, np.nan], POWERS),
    "inv_boxcox1p": ([0.0, 1e-300, 1e-12, 0.4, 3.0, -0.3, np.nan], POWERS),
    "huber": ([0.0, 0.5, 2.0, -1.0, np.nan], [0.0, 0.3, -0.5, 7.0, -1e5, np.nan]),
    "pseudo_huber": ([0.0, 0.5, 2.0, -1.0], [0.0, 1e-9, -0.5, 7.0, -1e5, np.nan]),
    "cosm1": (NUMBERS[:8],), "exprel": ([*NUMBERS, -40.0, -np.inf, 700.0, -0.0301, 0.0299],),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_transforms_and_losses_are_scipy_s(name: str) -> None:
    operands = grid(*PAIRS[name])
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(*operands)
    got = run(getattr(S, name), *operands)
    np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_slopes_of_transforms() -> None:
    x, power = grid([0.3, 1.0, 2.5], [0.0, 0.5, -1.2])
    slopes = run(lambda v, p: gx.gradients(gx.sum(S.boxcox(v, p)), v), x, power)
    np.testing.assert_allclose(slopes, x ** (power - 1), rtol=1e-13)
    back = run(lambda v, p: gx.gradients(gx.sum(S.inv_boxcox(S.boxcox(v, p), p)), v), x, power)
    np.testing.assert_allclose(back, np.ones(9), rtol=1e-12)
    by_power = run(lambda v, p: gx.gradients(gx.sum(S.boxcox(v, p)), p), x, power * 0)
    np.testing.assert_allclose(by_power, np.log(x) ** 2 / 2, rtol=1e-13)
    near = np.array([0.0, 1e-9, 0.0299, 0.0301, -0.5, 3.0])
    slopes = run(lambda v: gx.gradients(gx.sum(S.exprel(v)), v), near)
    with mpmath.workdps(120):
        for number, slope in zip(near, slopes, strict=True):
            at = mpmath.mpf(float(number)) + mpmath.mpf(10) ** -30
            exact = (mpmath.exp(at) * (at - 1) + 1) / at**2
            assert abs(slope / exact - 1) < 2e-11, number
    residual = np.array([-3.0, -0.2, 0.0, 0.4, 9.0])
    slopes = run(lambda v: gx.gradients(gx.sum(S.huber(0.5, v)), v), residual)
    np.testing.assert_allclose(slopes, np.clip(residual, -0.5, 0.5))
    slopes = run(lambda v: gx.gradients(gx.sum(S.pseudo_huber(0.5, v)), v), residual)
    np.testing.assert_allclose(slopes, residual / np.sqrt(1 + (residual / 0.5) ** 2), rtol=1e-14)
