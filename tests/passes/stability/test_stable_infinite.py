"""Infinite logits: nothing that a spelling gets right, or finite, is NaN after the rewriting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx

pytestmark = pytest.mark.check_mode

E = gx.exp
INF = np.inf

ROWS = np.array([
    [-1, INF, 88], [1, INF, 2], [INF, INF, 1], [-INF, 1, 2], [-INF, -INF, -INF], [1, 2, 3],
    [INF, -INF, 0], [100, INF, 1], [-INF, INF, INF], [1e4, INF, 0], [INF, INF, INF],
])  # fmt: skip


def spelled_softmax(x: gx.Value) -> gx.Value:
    return E(x) / gx.sum(E(x), axis=-1, keepdims=True)


def shift(x: gx.Value) -> gx.Value:
    return x - gx.max(x, axis=-1, keepdims=True)


SPELLINGS: dict[str, Callable[[gx.Value], gx.Value]] = {
    "log-sum-exp": lambda x: gx.log(gx.sum(E(x), axis=-1)),
    "logsumexp": lambda x: gx.logsumexp(x, axis=-1),
    "log of mean": lambda x: gx.log(gx.mean(E(x), axis=-1)),
    "softmax": spelled_softmax,
    "log of softmax": lambda x: gx.log(spelled_softmax(x)),
    "shifted": lambda x: spelled_softmax(shift(x)),
    "shifted log": lambda x: gx.max(x, axis=-1) + gx.log(gx.sum(E(shift(x)), axis=-1)),
    "one element": lambda x: -gx.log(spelled_softmax(x))[:, 0],
    "sigmoid": lambda x: 1 / (1 + E(-x)),
    "log of sigmoid": lambda x: gx.log(1 / (1 + E(-x))),
    "softplus": lambda x: gx.log(1 + E(x)),
    "pair": lambda x: gx.log(E(x) + E(x * 2)),
    "share of a pair": lambda x: E(x) / (E(x) + E(x * 0.5)),
    "columns": lambda x: gx.log(E(x[:, 0]) + E(x[:, 1])),
}


@slow_unless(lambda dtype: dtype == "float32")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_no_element_is_lost_to_nan(name: str, dtype: str) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((None, 3), dtype, name="x")
        value = SPELLINGS[name](x)
        slope = gx.gradients(value, x)
        weighted = gx.gradients(gx.sum(value * -0.75), x)
    results = [value, slope, weighted]
    feeds = {x: ROWS.astype(dtype)}
    given = gx.Session(g).run(results, feeds)
    strict = gx.Session(g, options=gx.Options(numerics="strict")).run(results, feeds)
    for one, other in zip(given, strict, strict=True):
        lost = np.isnan(one) & ~np.isnan(other)
        assert not lost.any(), f"{one[lost.any(-1)]} and not {other[lost.any(-1)]}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["log-sum-exp", "logsumexp", "log of mean"])
def test_the_slope_of_a_log_sum_exp_goes_to_infinite_elements(name: str, dtype: str) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((None, 3), dtype, name="x")
        slope = gx.gradients(SPELLINGS[name](x), x)
    infinite = np.isposinf(ROWS)
    rows = infinite.any(axis=1)
    found = gx.Session(g).run(slope, {x: ROWS.astype(dtype)})[rows]
    wanted = infinite[rows] / infinite[rows].sum(axis=1, keepdims=True)
    assert np.array_equal(found, wanted.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_finite_elements_have_no_share_beside_an_infinite_one(dtype: str) -> None:
    top = float(np.finfo(dtype).max)
    rows: Any = np.array([[1e4, INF, 0], [top, INF, -top], [100, INF, -INF]], dtype)
    with gx.Graph() as g:
        x = gx.placeholder((None, 3), dtype, name="x")
        results = [gx.nn.softmax(x), gx.nn.log_softmax(x), gx.logsumexp(x, axis=-1)]
    shares, logs, totals = gx.Session(g).run(results, {x: rows})
    assert (shares[:, [0, 2]] == 0).all() and np.isnan(shares[:, 1]).all()
    assert (logs[:, [0, 2]] == -INF).all() and np.isnan(logs[:, 1]).all()
    assert (totals == INF).all()
