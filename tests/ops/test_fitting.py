"""Polynomials from zeros, divided and fitted; histograms of several variables: against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.ir.dtypes import DType, bfloat16, float16

RANDOM = np.random.default_rng(0)
unknown_sizes = pytest.mark.parametrize("unknown", [False, True])


def run(function: Callable[..., Any], *arrays: Any, unknown: bool = False) -> Any:
    with gx.Graph() as graph:
        operands = [
            gx.placeholder((None, *array.shape[1:]) if unknown else array.shape, array.dtype)
            for array in arrays
        ]
        result = function(*operands)
    return gx.Session(graph).run(result, dict(zip(operands, arrays, strict=True)))


@pytest.mark.parametrize("zeros", [[2.0, -1.0, 3.5], [], [2, 3, -4], [0.0]])
def test_polynomials_of_zeros(zeros: Any) -> None:
    given = np.array(zeros, float if not zeros else None)
    wanted = np.asarray(np.poly(given)).reshape(-1)
    got = run(gx.poly, given)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("sizes", [(6, 3), (2, 3), (3, 3), (4, 1), (1, 1)])
def test_quotients_of_polynomials(sizes: tuple[int, int]) -> None:
    u, v = (RANDOM.normal(size=size) for size in sizes)
    quotient, rest = run(gx.polydiv, u, v)
    wanted, left = np.polydiv(u, v)
    np.testing.assert_allclose(quotient, wanted)
    np.testing.assert_allclose(rest[rest.size - left.size :], left, atol=1e-12)
    whole = np.polyadd(np.convolve(quotient, v), rest)
    np.testing.assert_allclose(whole[-u.size :], u, atol=1e-12)


@unknown_sizes
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("weighed", [False, True])
def test_fits(columns: bool, weighed: bool, unknown: bool) -> None:
    x, w = np.linspace(0, 3, 20), RANDOM.uniform(0.5, 2, 20) if weighed else None
    y = np.stack([x**3 - 2 * x + RANDOM.normal(size=20) * 0.1, np.sin(x)], 1)
    y = y if columns else y[:, 0]

    def everything(x: Any, y: Any) -> list[Any]:
        plain = gx.polyfit(x, y, 3, w=w)
        both = [gx.polyfit(x, y, 3, w=w, cov=cov) for cov in (True, "unscaled")]
        return [plain, *both, gx.polyfit(x, y, 3, w=w, full=True)[:4]]

    got = run(everything, x, y, unknown=unknown)
    np.testing.assert_allclose(got[0], np.polyfit(x, y, 3, w=w))
    for pair, cov in zip(got[1:3], (True, "unscaled"), strict=True):
        for part, wanted in zip(pair, np.polyfit(x, y, 3, w=w, cov=cov), strict=True):
            np.testing.assert_allclose(part, wanted)
    for part, wanted in zip(got[3], np.polyfit(x, y, 3, w=w, full=True)[:4], strict=True):
        np.testing.assert_allclose(np.ravel(part), np.ravel(wanted))


GRIDS: list[dict[str, Any]] = [
    {}, {"bins": 4}, {"bins": (3, 4, 5)}, {"bins": [np.linspace(-1, 1, 4), [-2, 0, 0.5], 6]},
    {"range": [(-1, 1), (-2, 2), (0, 1)], "bins": 5}, {"density": True, "bins": 3},
    {"weights": RANDOM.uniform(size=500), "bins": 3},
]  # fmt: skip


@unknown_sizes
@pytest.mark.parametrize("given", GRIDS, ids=[", ".join(grid) or "plain" for grid in GRIDS])
def test_histograms_of_several_variables(given: dict[str, Any], unknown: bool) -> None:
    points = RANDOM.normal(size=(500, 3))
    counts, edges = run(lambda x: gx.histogramdd(x, **given), points, unknown=unknown)
    wanted, ends = np.histogramdd(points, **given)
    assert counts.dtype == wanted.dtype
    np.testing.assert_allclose(counts, wanted)
    for one, other in zip(edges, ends, strict=True):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("element", [float16, bfloat16])
def test_fits_of_narrow_floats(element: DType) -> None:
    got = run(lambda x: gx.polyfit(x, 2 * x + 1, 1), np.arange(5).astype(element.numpy))
    np.testing.assert_allclose(got.astype(float), [2, 1], rtol=2e-2)


def test_histograms_of_two_variables() -> None:
    x, y = RANDOM.normal(size=(2, 400))
    x[3] = np.nan
    for given in ({"bins": [3, 4]}, {"bins": np.linspace(-2, 2, 6)}, {"bins": [[-1, 0, 1], 7]}):
        given = {**given, "range": [[-1, 1], [0, 2]]}
        got = run(lambda x, y, given=given: gx.histogram2d(x, y, **given), x, y)
        for one, other in zip(got, np.histogram2d(x, y, **given), strict=True):
            np.testing.assert_allclose(one, other)
    with gx.Graph():
        v, m = gx.placeholder((3,)), gx.placeholder((3, None))
        for bad in (lambda: gx.histogramdd(m), lambda: gx.histogram2d(v, m)):
            with pytest.raises(gx.ShapeError):
                bad()
        with pytest.raises(gx.ShapeError, match="bins for 2 variables"):
            gx.histogramdd([v, v], (1, 2, 3))
