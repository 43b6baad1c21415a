"""Logarithms of sums of exponentials against mpmath's, where the result is near 0 too (fault 5)."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

COUNT = 400


def operands(dtype: str) -> tuple[Any, Any]:
    """Pairs whose exponentials add up to 1, or nearly, besides some at random."""
    random = np.random.default_rng(0)
    second = random.uniform(-3, -0.6, COUNT)
    first = np.log1p(-np.exp(second)) + random.choice([0, 1e-9, 1e-3, 1, 30], COUNT)
    pinned = [(-0.4586755613638522, -1.0), (0.0, -60.0), (0.0, 0.0), (-700.0, 3.0)]
    pairs = np.concatenate([np.stack([first, second], 1), pinned]).astype(dtype)
    return pairs[:, 0], pairs[:, 1]


def units(found: Any, true: Any, least: float) -> float:
    """The largest error, in units in the last place of the true result or of ``least``."""
    worst = 0.0
    for number, exact in zip(found, true, strict=True):
        size = np.array(max(abs(float(exact)), least), found.dtype)
        worst = max(worst, float(abs(mpmath.mpf(float(number)) - exact)) / float(np.spacing(size)))
    return worst


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_within_what_the_guide_says(dtype: str) -> None:
    a, b = operands(dtype)
    with gx.Graph() as graph:
        x, y = gx.placeholder(a.shape, dtype), gx.placeholder(a.shape, dtype)
        rows = gx.stack([x, y], axis=1)
        fetches = [
            gx.logaddexp(x, y), gx.logsumexp(rows, axis=1),
            gx.nn.log_softmax(rows, axis=1)[:, 0], gx.nn.softplus(x), gx.log(gx.sigmoid(x)),
        ]  # fmt: skip
    results = gx.Session(graph).run(fetches, {x: a, y: b})
    with mpmath.workprec(300):
        one = [mpmath.mpf(float(number)) for number in a]
        two = [mpmath.mpf(float(number)) for number in b]
        sums = [mpmath.log(mpmath.exp(p) + mpmath.exp(q)) for p, q in zip(one, two, strict=True)]
        shares = [p - total for p, total in zip(one, sums, strict=True)]
        least = float(mpmath.log(2))
        assert units(results[0], sums, least) <= 4
        assert units(results[1], sums, least) <= 4
        assert units(results[2], shares, least) <= 4
        assert units(results[3], [mpmath.log1p(mpmath.exp(p)) for p in one], 0.0) <= 4
        assert units(results[4], [-mpmath.log1p(mpmath.exp(-p)) for p in one], 0.0) <= 4


# --- running -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_logarithms_of_sums(dtype: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(5, 40)) * np.array([[1], [30], [300], [1], [1]])
    rows[3, :10], rows[4, 20] = -np.inf, np.inf
    array = rows.astype(dtype)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), dtype)
        fetches = [gx.logcumsumexp(x, 1), gx.logcumsumexp(x, axis=0), gx.logcumsumexp(x[1])]
    results = gx.Session(graph).run(fetches, {x: array})
    wide = array.astype(np.float64)
    room = 3e-6 if dtype == "float32" else 1e-13
    with np.errstate(invalid="ignore"):
        for got, wanted in zip(
            results, (np.logaddexp.accumulate(wide, 1), np.logaddexp.accumulate(wide, 0),
                      np.logaddexp.accumulate(wide[1])), strict=True,
        ):  # fmt: skip
            assert got.dtype == dtype
            np.testing.assert_allclose(got, wanted, rtol=room, atol=room)


def test_slopes_of_running_logarithms_stay_in_range() -> None:
    array = np.array([-np.inf, 700.0, -800.0, 703.0, 1e4, 9990.0])
    weights = np.array([2.0, -1.0, 0.5, 0.0, -3.0, 1.0])
    with gx.Graph() as graph:
        x, w = gx.placeholder((None,), "float64"), gx.placeholder((None,), "float64")
        y = gx.logcumsumexp(x)
        fetches = [gx.gradients(y, x, grad_ys=w), gx.jvp(y, x, w)]
    back, ahead = gx.Session(graph).run(fetches, {x: array, w: weights})
    sums = np.logaddexp.accumulate(array)
    with np.errstate(all="ignore"):
        shares = np.exp(array[None, :] - sums[:, None])
    shares = np.where(np.tri(6, dtype=bool), np.nan_to_num(shares), 0)
    np.testing.assert_allclose(back, weights @ shares, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(ahead, shares @ weights, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("shape", [(None, 3), (0, 3)])
@pytest.mark.parametrize("level", [0, 2])
def test_the_logarithm_of_an_empty_sum_is_minus_infinity(
    shape: tuple[int | None, int], level: int
) -> None:
    """Spelled by hand it is made a logsumexp, which must not refuse what the spelling takes."""
    with gx.Graph() as graph:
        x = gx.placeholder(shape)
        found = [gx.logsumexp(x, 0), gx.log(gx.sum(gx.exp(x), 0))]
        slope = gx.gradients(gx.sum(found[0]), x)
    session = gx.Session(graph, options=gx.Options(optimize=level))
    *made, gradient = session.run([*found, slope], {x: np.ones((0, 3))})
    for array in made:
        np.testing.assert_array_equal(array, np.full(3, -np.inf, np.float32))
    assert gradient.shape == (0, 3)
