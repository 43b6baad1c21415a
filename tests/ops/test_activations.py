"""Activations by the names of ``jax.nn``: their formulas, their ends, their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    with gx.Graph() as graph:
        operands = [gx.placeholder((None,) * array.ndim, array.dtype) for array in arrays]
        result = function(*operands)
    return gx.Session(graph).run(result, dict(zip(operands, arrays, strict=True)))


def logsumexp(x: Any) -> Any:
    return np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))


FORMULAS: dict[str, Callable[[Any], Any]] = {
    "celu": lambda x: np.maximum(x, 0) + np.minimum(np.expm1(np.minimum(x, 0)), 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "logmeanexp": lambda x: logsumexp(x) - np.log(len(x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "standardize": lambda x: (x - x.mean()) / np.sqrt(x.var() + 1e-5),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_are_their_formulas_with_slopes(name: str) -> None:
    x, function = np.linspace(-7.3, 8.1, 41), getattr(gx.nn, name)
    np.testing.assert_allclose(run(function, x), FORMULAS[name](x), rtol=1e-13, atol=1e-15)
    assert run(function, x.astype("float32")).dtype == np.float32
    got = run(lambda v: gx.gradients(gx.sum(function(v) * np.arange(41.0)), v), x)
    for place in (0, 13, 20, 40):
        step = np.zeros(41)
        step[place] = 1e-6
        ends = [FORMULAS[name](x + step), FORMULAS[name](x - step)]
        slope = np.sum((ends[0] - ends[1]) * np.arange(41.0)) / 2e-6
        assert abs(got[place] - slope) < 1e-6 * max(1, abs(slope)), place


@pytest.mark.parametrize("name", ["celu", "elu", "selu", "mish", "log_sigmoid", "swish"])
def test_far_numbers_give_numbers_and_slopes(name: str) -> None:
    x = np.array([-1e4, 1e4, -800.0, 800.0])
    function = getattr(gx.nn, name)
    values, slopes = run(lambda v: [function(v), gx.gradients(gx.sum(function(v)), v)], x)
    assert np.isfinite(values).all() and np.isfinite(slopes).all()
    assert np.isnan(run(function, np.array([np.nan]))).all()


def test_scales_and_halves() -> None:
    x = np.linspace(-3, 3, 12).reshape(2, 6)
    low = -np.abs(x)
    np.testing.assert_allclose(run(lambda v: gx.nn.elu(v, 2.0), low), 2 * np.expm1(low))
    np.testing.assert_allclose(run(lambda v: gx.nn.celu(v, 2.0), low), 2 * np.expm1(low / 2))
    with gx.Graph() as graph:
        v = gx.placeholder((2, 6), "float64")
        halves = [gx.nn.glu(v), gx.nn.glu(v, axis=0)]
        with pytest.raises(gx.ShapeError, match="glu of"):
            gx.nn.glu(gx.placeholder((None, 3)))
        with pytest.raises(gx.ShapeError, match="glu of"):
            gx.nn.glu(gx.placeholder((3,)))
    last, first = gx.Session(graph).run(halves, {v: x})
    np.testing.assert_allclose(last, x[:, :3] / (1 + np.exp(-x[:, 3:])))
    np.testing.assert_allclose(first, x[:1] / (1 + np.exp(-x[1:])))


def test_log1mexp_is_accurate_at_both_ends() -> None:
    x = np.array([1e-300, 1e-17, 0.1, 0.69, 0.7, 5.0, 50.0, 700.0])
    wanted = np.where(x < 0.69, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))
    got = run(gx.nn.log1mexp, x)
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    assert run(gx.nn.log1mexp, np.zeros(1))[0] == -np.inf
    slopes = run(lambda v: gx.gradients(gx.sum(gx.nn.log1mexp(v)), v), x)
    np.testing.assert_allclose(slopes, 1 / np.expm1(x), rtol=1e-14)


# --- windows that taper, and arrays of indices ---------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 51])
def test_tapers_are_numpy_s_at_sizes_known_at_the_run(size: int) -> None:
    x = np.zeros(size)
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        got = run(lambda v, name=name: getattr(gx, name)(v.shape[0]) + v, x)
        np.testing.assert_allclose(got, getattr(np, name)(size), atol=2e-16)
        with gx.Graph() as graph:
            fixed = getattr(gx, name)(size, dtype="float32")
        single = gx.Session(graph).run(fixed)
        np.testing.assert_allclose(single, getattr(np, name)(size), atol=2e-7)
        assert single.dtype == np.float32
    got = run(lambda v: gx.kaiser(v.shape[0], 8.6) + v, x)
    np.testing.assert_allclose(got, np.kaiser(size, 8.6), rtol=1e-12)


def test_arrays_of_indices_are_numpy_s() -> None:
    x = np.arange(20.0).reshape(4, 5)
    square = np.arange(27.0).reshape(3, 3, 3)
    with gx.Graph() as graph:
        v, w = gx.placeholder((4, 5), "float64"), gx.placeholder((3, 3, 3), "float64")
        found = [
            v[gx.tril_indices(4, -1, 5)], v[gx.triu_indices(4, 1, 5)], v[gx.tril_indices_from(v)],
            v[gx.triu_indices_from(v, 2)], w[gx.diag_indices_from(w)], w[gx.diag_indices(2, 3)],
            v[gx.ix_([0, 2], [1, 3, 4])], v[np.ix_([0, 2], [1, 3, 4])],
        ]  # fmt: skip
    got = gx.Session(graph).run(found, {v: x, w: square})
    wanted = [
        x[np.tril_indices(4, -1, 5)], x[np.triu_indices(4, 1, 5)], x[np.tril_indices_from(x)],
        x[np.triu_indices_from(x, 2)], square[np.diag_indices(3, 3)], square[np.diag_indices(2, 3)],
        x[np.ix_([0, 2], [1, 3, 4])], x[np.ix_([0, 2], [1, 3, 4])],
    ]  # fmt: skip
    for one, other in zip(got, wanted, strict=True):
        assert np.array_equal(one, other)


def test_indices_of_sizes_that_are_not_known_are_refused() -> None:
    with gx.Graph():
        v = gx.placeholder((None, 4))
        for function in (gx.tril_indices_from, gx.triu_indices_from, gx.diag_indices_from):
            with pytest.raises(gx.ShapeError, match="when the graph is built"):
                function(v)
        with pytest.raises(gx.ShapeError, match="equal sizes"):
            gx.diag_indices_from(gx.placeholder((3, 4)))
        with pytest.raises(gx.ShapeError, match="indices"):
            gx.tril_indices(10**6)
        with pytest.raises(gx.ShapeError, match="vectors of integers"):
            gx.ix_(v)
