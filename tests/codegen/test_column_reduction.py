"""Reductions down columns by stripes: the bits of the order that kernels define, at all sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from schedules import schedules_of

import graphc as gx
from graphc.base.target import Target, host, named
from graphc.base.tuning.machine import Tuning
from graphc.ir.dtypes import dtype as as_dtype
from graphc.kernel.reference_reductions import combine_terms

pytestmark = pytest.mark.check_mode

TARGETS = {"host": host(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}
SHAPES = [(65, 64), (256, 100), (257, 128), (300, 33), (4097, 70), (66_000, 65), (100, 9000)]


def sample(shape: tuple[int, ...], dtype: str) -> Any:
    values = np.random.default_rng(sum(shape)).standard_normal(shape) * 50
    return values.astype(dtype)


def run(function: Any, x: Any, known: bool, target: Target | None = None) -> Any:
    with gx.Graph() as graph:
        given = gx.placeholder(x.shape if known else (None,) * x.ndim, x.dtype)
        result = function(given)
    return gx.Session(graph, target=target).run(result, {given: x})


@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_and_products_have_the_bits_of_the_chain(dtype: str, known: bool) -> None:
    for shape in SHAPES:
        x = sample(shape, dtype)
        expected = combine_terms("add", x.T, as_dtype(dtype), "chain")
        assert np.array_equal(run(lambda v: gx.sum(v, axis=0), x, known), expected), shape
        near_one = 1 + x / 1e5
        expected = combine_terms("multiply", near_one.T, as_dtype(dtype), "chain")
        assert np.array_equal(run(lambda v: gx.prod(v, axis=0), near_one, known), expected)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_target_gives_the_same_bits(target: Target) -> None:
    x = sample((333, 77), "float32")
    expected = combine_terms("add", x.T, as_dtype("float32"), "chain")
    assert np.array_equal(run(lambda v: gx.sum(v, axis=0), x, True, target), expected)


@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_reductions_that_do_not_round(known: bool) -> None:
    for shape in ((65, 64), (300, 131)):
        x = sample(shape, "int32")
        assert np.array_equal(run(lambda v: gx.sum(v, axis=0), x, known), x.sum(0))
        assert np.array_equal(run(lambda v: gx.max(v, axis=0), x, known), x.max(0))
        y = sample(shape, "float32")
        y[7, 3] = np.nan
        assert np.array_equal(run(lambda v: gx.min(v, axis=0), y, known), y.min(0), equal_nan=True)
        assert np.array_equal(run(lambda v: gx.any(v > 60, axis=0), y, known), (y > 60).any(0))
        assert np.array_equal(run(lambda v: gx.argmax(v, axis=0), x, known), x.argmax(0))


@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_stages_that_follow_each_other(known: bool) -> None:
    for shape in ((70, 64), (1000, 95), (3, 300, 80)):
        x = sample(shape, "float64")

        def statistics(v: Any) -> Any:
            return [gx.mean(v, -2), gx.var(v, -2), gx.max(v, -2)]

        mean, variance, most = run(statistics, x, known)
        assert np.allclose(mean, x.mean(-2), rtol=1e-12)
        assert np.allclose(variance, x.var(-2), rtol=1e-12)
        assert np.array_equal(most, x.max(-2))


def test_zeros_keep_their_sign_and_nothing_sums_to_zero() -> None:
    total = run(lambda v: gx.sum(v, axis=0), np.full((100, 70), -0.0, np.float32), False)
    assert np.signbit(total).all()
    total = run(lambda v: gx.sum(v, axis=0), np.empty((0, 70), np.float32), False)
    assert np.array_equal(total, np.zeros(70, np.float32)) and not np.signbit(total).any()


def test_the_stack_that_stripes_take_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tuning, "column_stack_bytes", 4096)
    x = sample((400, 1111), "float32")
    expected = combine_terms("add", x.T, as_dtype("float32"), "chain")
    assert np.array_equal(run(lambda v: gx.sum(v, axis=0), x, False), expected)


def test_only_what_lies_in_memory_is_asked_for_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits are the same."""
    x = sample((300, 128), "float32")
    for far, asked in ((x.nbytes, False), (x.nbytes - 1, True)):
        monkeypatch.setattr(Tuning, "far_bytes", far)
        with gx.Graph() as graph:
            given = gx.placeholder(x.shape)
            total = gx.sum(given, axis=0)
        program = gx.Session(graph).compile(total, [given])
        assert ("prefetched" in schedules_of(program)) is asked
        expected = combine_terms("add", x.T, as_dtype("float32"), "chain")
        assert np.array_equal(program(x), expected)
