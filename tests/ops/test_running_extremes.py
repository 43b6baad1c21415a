"""``cummax`` and ``cummin``: their values, and where their gradients go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

NAN, INF = np.nan, np.inf

ROWS = [
    [1, 3, 2, 3, 5, 4],
    [-0.0, 0.0, -1, -INF, INF, 2],
    [2, NAN, 9, INF, -1, NAN],
    [-INF, -INF, 1e-45, 0, 3e38, 3e38],
]


def slopes(x: np.ndarray[Any, Any], weights: np.ndarray[Any, Any], greatest: bool) -> Any:
    """Each weight goes to the first element that is the extreme so far."""
    result = np.zeros_like(weights)
    for row in range(len(x)):
        holder = 0
        for n in range(x.shape[1]):
            a, b = x[row, n], x[row, holder]
            if not np.isnan(b) and (np.isnan(a) or (a > b if greatest else a < b)):
                holder = n
            result[row, holder] += weights[row, n]
    return result


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_values_and_gradients(name: str, count: int) -> None:
    x = np.array(ROWS, np.float32)[:, :count]
    weights = np.arange(1, x.size + 1, dtype=np.float32).reshape(x.shape)
    with gx.Graph() as graph:
        value = gx.placeholder((None, None), name="x")
        weight = gx.placeholder((None, None), name="w")
        running = getattr(gx, name)(value, 1)
        slope = gx.gradients(gx.sum(running * weight), value)
    got, gradient = gx.Session(graph).run([running, slope], {value: x, weight: weights})
    numpy = np.maximum if name == "cummax" else np.minimum
    np.testing.assert_array_equal(got, numpy.accumulate(x, axis=1))
    np.testing.assert_array_equal(gradient, slopes(x, weights, name == "cummax"))


def test_the_gradient_goes_to_the_first_of_equal_ones_and_to_the_first_nan() -> None:
    x = np.array([[1, 3, 3, 2, 4], [2, NAN, 9, NAN, 1]], np.float32)
    with gx.Graph() as graph:
        value = gx.placeholder((2, 5), name="x")
        running = gx.cummax(value, axis=1)
        slope = gx.gradients(running, value)
    np.testing.assert_array_equal(
        gx.Session(graph).run(slope, {value: x}), [[1, 3, 0, 0, 1], [1, 4, 0, 0, 0]]
    )


def test_integers_keep_their_dtype_and_all_elements_run_in_order() -> None:
    x = np.array([[3, -128, 7], [127, 0, 1]], np.int8)
    with gx.Graph() as graph:
        value = gx.placeholder((2, None), "int8", name="x")
        results = [gx.cummax(value), gx.cummin(value, 0), gx.cummin(value, -1)]
    flat, down, along = gx.Session(graph).run(results, {value: x})
    np.testing.assert_array_equal(flat, np.maximum.accumulate(x.reshape(-1)))
    np.testing.assert_array_equal(down, np.minimum.accumulate(x, 0))
    np.testing.assert_array_equal(along, np.minimum.accumulate(x, 1))
    assert flat.dtype == down.dtype == np.int8


def test_logcosh_neither_overflows_nor_cancels() -> None:
    x = np.array([0, 1e-20, 1e-4, 0.5, 0.999, 1, 1.001, 5, 100, -100, 3e38, INF, NAN], np.float32)
    with gx.Graph() as graph:
        value = gx.placeholder((None,), name="x")
        y = gx.nn.logcosh(value)
        slope = gx.gradients(y, value)
    got, gradient = gx.Session(graph).run([y, slope], {value: x})
    wide = np.abs(x.astype(np.float64))
    small = np.log1p(2 * np.sinh(np.minimum(wide, 1) / 2) ** 2)
    wanted = np.where(wide < 1, small, wide + np.log1p(np.exp(-2 * wide)) - np.log(2))
    np.testing.assert_allclose(got, wanted, rtol=5e-7, atol=2e-45)
    np.testing.assert_allclose(gradient, np.tanh(x), rtol=1e-6)
