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
