"""Accuracy of sums and products: the bounds of the numerics contract, on both kinds of target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import Target, host

pytestmark = pytest.mark.check_mode

TARGETS = [host(), host().without_fma()]
SIZES = (1, 7, 31, 32, 33, 1000, 2048, 4097, 131_073, 1_000_003)
KINDS = ("positive", "signed", "cancelling", "one value")


def terms(kind: str, shape: tuple[int, ...], dtype: str) -> Any:
    generator = np.random.default_rng(sum(shape))
    if kind == "positive":
        x = generator.random(shape)
    elif kind == "signed":
        x = generator.standard_normal(shape)
    elif kind == "cancelling":
        x = generator.standard_normal(shape) * 10.0 ** generator.integers(-6, 6, shape)
        x.reshape(-1)[1::2] = -x.reshape(-1)[: x.size // 2 * 2 : 2]
    else:
        x = np.full(shape, 0.1)
    return x.astype(dtype)


def summed(x: Any, axis: int | None, target: Target) -> Any:
    with gx.Graph() as graph:
        value = gx.placeholder((None,) * x.ndim, x.dtype)
        total = gx.sum(value, axis=axis)
    return gx.Session(graph, target=target).run(total, {value: x})


def assert_within(result: Any, x: Any, axis: int | None, factor: float) -> None:
    exact = x.astype(np.longdouble).sum(axis=axis)
    size = np.abs(x.astype(np.longdouble)).sum(axis=axis)
    room = factor * np.finfo(x.dtype).eps * size
    assert np.all(np.abs(result - exact) <= room)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "without_fma"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_within_four_ulps_of_the_terms(kind: str, dtype: str, target: Target) -> None:
    for size in SIZES:
        x = terms(kind, (size,), dtype)
        assert_within(summed(x, None, target), x, None, 4.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis"), [((40_000, 5), 0), ((3, 50_001), 1), ((9, 700, 33), 1)])
def test_sums_along_any_axis(
    kind: str, dtype: str, shape: tuple[int, ...], axis: int
) -> None:
    x = terms(kind, shape, dtype)
    assert_within(summed(x, axis, host()), x, axis, 4.0)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "without_fma"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 700, 3), (64, 64, 64), (1, 4000, 33), (33, 9, 1)])
def test_matrix_products(dtype: str, shape: tuple[int, int, int], target: Target) -> None:
    m, k, n = shape
    a, b = terms("signed", (m, k), dtype), terms("cancelling", (k, n), dtype)
    with gx.Graph() as graph:
        x, y = gx.placeholder((m, k), dtype), gx.placeholder((k, n), dtype)
        product = x @ y
    result = gx.Session(graph, target=target).run(product, {x: a, y: b})
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    room = 2 * k * np.finfo(dtype).eps * (np.abs(wide_a) @ np.abs(wide_b))
    assert np.all(np.abs(result - wide_a @ wide_b) <= room)


@pytest.mark.parametrize("shape", [(1,), (33,), (5, 9)])
def test_signs_of_zero_and_empty_sums(shape: tuple[int, ...]) -> None:
    zeros = np.full(shape, -0.0, np.float32)
    assert np.signbit(summed(zeros, None, host()))
    assert not np.signbit(summed(zeros[:0], None, host()))
