"""Maxima and minima of floats: NaN of either sign wins, zeros are ordered, whatever the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target, host, named
from graphc.ir.dtypes import dtype as as_dtype
from graphc.kernel.reference_reductions import combine_terms

pytestmark = pytest.mark.check_mode

TARGETS = {"host": host(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}
LENGTHS = (1, 2, 31, 33, 64, 100, 515)


def awkward(shape: tuple[int, int], dtype: str) -> Any:
    """Rows of a few values each, so that zeros, infinities and NaN are often the extreme."""
    information = np.finfo(dtype)
    generator = np.random.default_rng(shape)
    tiny, largest = information.smallest_subnormal, information.max
    pools = [
        [0.0, -0.0], [-0.0, -1.0, -tiny], [0.0, 1.0, tiny], [np.inf, largest], [-np.inf, -largest],
        [np.nan, np.inf, -np.inf], [1.0, -1.0], [-np.inf], [np.nan, 0.0],
    ]  # fmt: skip
    rows = [generator.choice(pools[n % len(pools)], shape[1]) for n in range(shape[0])]
    values = np.array(rows).astype(dtype)
    word = values.view(f"i{information.bits // 8}")
    # half of the NaNs negative
    flipped = np.isnan(values) & (generator.random(shape) < 0.5)
    word[flipped] ^= np.array(-1, word.dtype) << (information.bits - 1)
    return values


def check(dtype: str, known: bool, axis: int, target: Target) -> None:
    exe = None
    for length in LENGTHS:
        values = awkward((63, length), dtype)
        if axis == 0:
            values = np.ascontiguousarray(values.T)
        if exe is None or known:
            with gx.Graph() as graph:
                x = gx.placeholder(values.shape if known else (None, None), dtype, name="x")
                fetches = [gx.max(x, axis), gx.min(x, axis), gx.max(x * 2.0, axis)]
            exe = gx.Session(graph, target=target).compile(fetches, [x])
        results = exe(values)
        terms = np.moveaxis(values, axis, -1)
        with np.errstate(over="ignore"):
            wanted = [("maximum", terms), ("minimum", terms), ("maximum", terms * 2)]
        for (combine, of), result in zip(wanted, results, strict=True):
            expected = combine_terms(combine, of, as_dtype(dtype), "lanes")  # type: ignore[arg-type]
            assert np.array_equal(result, expected, equal_nan=True), (combine, length)
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


@slow_unless(
    lambda dtype, axis, target: dtype == "float32" or (axis == 0 and target is TARGETS["host"])
)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str, axis: int, target: Target) -> None:
    for known in (True, False):
        check(dtype, known, axis, target)
