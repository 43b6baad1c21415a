"""The complement of the error function and what rests on it: accurate where 1 - erf(x) cancels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import graphc as gx

GELUS: dict[str, Callable[[Any], Any]] = {
    "gelu": gx.nn.gelu,
    "quotient": lambda v: 0.5 * v * (1 + gx.erf(v / math.sqrt(2))),
    "product": lambda v: v * 0.5 * (gx.erf(v * math.sqrt(0.5)) + 1.0),
    "complement": lambda v: 0.5 * v * gx.erfc(-v * math.sqrt(0.5)),
}


def run(function: Callable[[Any], Any], x: Any, **options: Any) -> Any:
    with gx.Graph() as graph:
        given = gx.placeholder(x.shape, x.dtype, name="x")
        result = function(given)
    return gx.Session(graph, **options).run(result, {given: x})


def exact(function: Callable[[Any], Any], x: Any) -> Any:
    with mpmath.workdps(40):
        return np.array([float(function(mpmath.mpf(float(v)))) for v in x])


def relative(got: Any, expected: Any) -> float:
    return float(np.max(np.abs(got.astype(np.float64) / expected - 1)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_whole_tail_is_accurate(dtype: str) -> None:
    top = 9.0 if dtype == "float32" else 26.5
    x = np.linspace(-6, top, 2003).astype(dtype)
    unit = np.finfo(dtype).eps
    assert relative(run(gx.erfc, x), exact(mpmath.erfc, x)) < 5 * unit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 30.0, -30.0], dtype)
    result = run(gx.erfc, x)
    assert np.array_equal(result, [np.nan, 0, 2, 1, 1, 0, 2], equal_nan=True)
    assert not np.signbit(result[1])
    tiny = np.finfo(dtype).smallest_subnormal
    edge = np.linspace(*((9.2, 10.05) if dtype == "float32" else (26.6, 27.2)), 500).astype(dtype)
    got = run(gx.erfc, edge).astype(np.float64)
    assert np.all(np.abs(got - exact(mpmath.erfc, edge)) <= 6 * float(tiny) + got * 1e-6)


@pytest.mark.parametrize("name", GELUS)
def test_gelu_far_below_zero(name: str) -> None:
    """What remains is the rounding of x / sqrt(2), which counts x² / 2 times."""
    x = np.linspace(-30, 5, 1402)
    expected = exact(lambda v: v / 2 * mpmath.erfc(-v / mpmath.sqrt(2)), x)
    got = run(GELUS[name], x)
    unit = np.finfo(np.float64).eps
    nonzero = expected != 0
    bound = (8 + 1.5 * x**2) * unit
    assert np.all(np.abs(got[nonzero] / expected[nonzero] - 1) < bound[nonzero])


def test_the_gradient_of_gelu_far_below_zero() -> None:
    x = np.linspace(-12, 4, 333)
    expected = exact(
        lambda v: mpmath.erfc(-v / mpmath.sqrt(2)) / 2 + v * mpmath.npdf(v),
        x,
    )

    def gradient(v: Any) -> Any:
        return gx.gradients(gx.sum(gx.nn.gelu(v)), v)

    got = run(gradient, x)
    # it changes its sign near -0.75
    assert np.all(np.abs(got - expected) < 1e-15 + 1e-12 * np.abs(expected))
    far = x < -2
    assert relative(got[far], expected[far]) < 1e-12


def test_spellings_with_erf_are_made_accurate() -> None:
    x = np.linspace(0.5, 20, 200)
    expected = exact(mpmath.erfc, x)
    assert relative(run(lambda v: 1 - gx.erf(v), x), expected) < 2e-15
    assert relative(run(lambda v: gx.erf(v) - 1, x), -expected) < 2e-15
    assert relative(run(lambda v: gx.erf(-v) + 1, x), expected) < 2e-15
    small = 10.0 ** np.linspace(-200, -1, 100)
    assert relative(run(lambda v: 1 - gx.erfc(v), small), exact(mpmath.erf, small)) < 2e-15
    plain = run(lambda v: 1 - gx.erf(v), x, options=gx.Options(numerics="strict"))
    assert plain[-1] == 0
