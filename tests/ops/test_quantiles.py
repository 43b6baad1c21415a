"""Medians and quantiles against NumPy, partitions and several keys."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.ops.sorting.quantiles import _PLACES

NAN, INF = np.nan, np.inf


def samples(dtype: str, shape: tuple[int, ...]) -> Any:
    x = (np.random.default_rng(6).normal(size=shape) * 50).astype(dtype)
    if x.dtype.kind == "f":
        x[1, 2], x[3], x[4, 1], x[5, 0] = NAN, NAN, INF, -INF
    return x


@slow_unless(lambda dtype, method: dtype == "float32" or method in ("linear", "inverted_cdf"))
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("method", _PLACES)
def test_quantiles_are_those_of_numpy(dtype: str, method: str) -> None:
    shares: list[Any] = [0, 0.3, [0.0, 0.25, 0.5, 0.77, 1.0]]
    with gx.Graph() as graph:
        value = gx.placeholder((None, None), dtype)
        made = [gx.quantile(value, q, 1, method) for q in shares[:2]]
        made.append(gx.nanquantile(value, shares[2], 1, method, keepdims=True))
        made.append(gx.percentile(value, np.float32([20, 60]), 0, method))
    exe = gx.Session(graph).compile(made, [value])
    for count in (1, 4, 9):
        x = samples(dtype, (7, 9))[:, :count] if count > 2 else samples(dtype, (7, 9))[:, 3:4]
        got = exe(x)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = [np.quantile(x, q, 1, method=method) for q in shares[:2]]
            wanted.append(np.nanquantile(x, shares[2], 1, method=method, keepdims=True))
            wanted.append(np.percentile(x, np.float32([20, 60]), 0, method=method))
        if method == "linear":  # NumPy 2.1 makes NaN of an infinity
            wanted[0] = np.min(x, 1).astype(wanted[0].dtype)
        for one, other in zip(got, wanted, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            rounding = 2e-6 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding)


@slow_unless(lambda dtype: dtype in ("float32", "bool"))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_medians_are_those_of_numpy(dtype: str) -> None:
    x = samples(dtype, (6, 4, 5))
    with gx.Graph() as graph:
        value = gx.placeholder((None, None, None), dtype)
        axes: list[Any] = [None, 0, (0, 2), -1]
        made = [gx.median(value, axis) for axis in axes]
        made += [gx.nanmedian(value, axis, keepdims=True) for axis in axes]
        made.append(gx.nanpercentile(value, 50, (1, 2)))
    got = gx.Session(graph).run(made, {value: x})
    if dtype == "bool":
        x = x.astype(np.float64)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = [np.median(x, axis) for axis in axes]
        wanted += [np.nanmedian(x, axis, keepdims=True) for axis in axes]
        wanted.append(np.nanpercentile(x, 50, (1, 2)))
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_gradients_of_quantiles() -> None:
    x = np.array([[4.0, 1, 3, 2], [5, 8, 6, 7]])
    with gx.Graph() as graph:
        value = gx.placeholder((None, None), "float64")
        made = [
            gx.gradients(gx.median(value, 1), value),
            gx.gradients(gx.quantile(value, 0.25, 1), value),
        ]
    middle, quarter = gx.Session(graph).run(made, {value: x})
    np.testing.assert_allclose(middle, [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]])
    np.testing.assert_allclose(quarter, [[0, 0.25, 0, 0.75], [0.25, 0, 0.75, 0]])


def test_partitions_and_several_keys() -> None:
    rng = np.random.default_rng(7)
    x, keys = rng.normal(size=(3, 8)), rng.integers(0, 3, (3, 2, 9))
    with gx.Graph() as graph:
        value = gx.placeholder((None, None), "float64")
        key = gx.placeholder((3, None, None), "int64")
        made = [
            gx.partition(value, 3), gx.argpartition(value, [0, -1], 0),
            gx.partition(value, 2, None), gx.lexsort(key), gx.lexsort([key[0], key[2]], axis=0),
        ]  # fmt: skip
        with pytest.raises(gx.ShapeError, match="kth 3 of an axis of 3"):
            gx.partition(gx.ones((3, 2)), 3, axis=0)
        with pytest.raises(gx.ShapeError, match="no keys"):
            gx.lexsort([])
        with pytest.raises(gx.ShapeError, match="method is 'best'"):
            gx.quantile(value, 0.5, method="best")
        with pytest.raises(gx.ShapeError, match=r"q is 1\.5"):
            gx.quantile(value, 1.5)
    got = gx.Session(graph).run(made, {value: x, key: keys})
    np.testing.assert_array_equal(got[0], np.sort(x))
    np.testing.assert_array_equal(got[1], np.argsort(x, 0))
    np.testing.assert_array_equal(got[2], np.sort(x, None))
    np.testing.assert_array_equal(got[3], np.lexsort(keys))
    np.testing.assert_array_equal(got[4], np.lexsort([keys[0], keys[2]], 0))


def test_empty_rows_have_no_median() -> None:
    with gx.Graph() as graph:
        value = gx.placeholder((2, None))
        made = gx.median(value, 1)
        with pytest.raises(gx.ShapeError, match="median of an empty axis"):
            gx.median(value[:, :0], 1)
    with pytest.raises(gx.ShapeError, match="median of an empty axis"):
        gx.Session(graph).run(made, {value: np.zeros((2, 0))})


def test_lexsort_takes_keys_of_one_shape() -> None:
    """They don't broadcast, as NumPy's don't."""
    with gx.Graph() as graph:
        a, b = gx.placeholder((None, None), "int64"), gx.placeholder((None, None), "int64")
        order = gx.lexsort([a, b])
    session = gx.Session(graph)
    assert session.run(order, {a: np.ones((2, 7), int), b: np.ones((2, 7), int)}).shape == (2, 7)
    with pytest.raises(gx.ShapeError, match=r"keys of shapes \[2, 1\] and \[2, 7\]"):
        session.run(order, {a: np.ones((2, 1), int), b: np.ones((2, 7), int)})
    with gx.Graph(), pytest.raises(gx.ShapeError, match="keys of shapes"):
        gx.lexsort([gx.placeholder((3,)), gx.placeholder((2, 3))])
