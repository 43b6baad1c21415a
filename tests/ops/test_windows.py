"""Windows that slide over axes, and their reductions, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx

X = np.random.default_rng(0).normal(size=(6, 7, 5)).astype(np.float32)
sliding = np.lib.stride_tricks.sliding_window_view


def run(function: Callable[..., Any], *arrays: Any, unknown: bool = False) -> Any:
    with gx.Graph() as graph:
        operands = [
            gx.placeholder((None,) * array.ndim if unknown else array.shape, array.dtype)
            for array in arrays
        ]
        result = function(*operands)
    return gx.Session(graph).run(result, dict(zip(operands, arrays, strict=True)))


@pytest.mark.parametrize("unknown", [False, True])
def test_windows_are_numpy_s(unknown: bool) -> None:
    cases: list[tuple[Any, Any]] = [
        ((3, 2), (1, 2)), ((3, 2, 2), None), (3, 0), ((2, 3), (0, 0)), ((1,), -1), ((6, 7, 5), None)
    ]  # fmt: skip
    results = run(
        lambda x: [gx.sliding_window_view(x, *case) for case in cases], X, unknown=unknown
    )
    for case, got in zip(cases, results, strict=True):
        np.testing.assert_array_equal(got, sliding(X, *case))


def _margins(padding: Any, sizes: Any, steps: Any) -> Any:
    if padding == "VALID":
        return [(0, 0)] * 3
    if padding != "SAME":
        return padding
    margins = []
    for length, size, step in zip(X.shape, sizes, steps, strict=True):
        missing = max((-(-length // step) - 1) * step + size - length, 0)
        margins.append((missing // 2, missing - missing // 2))
    return margins


@slow_unless(lambda padding, unknown: unknown == (padding == "same"))
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("padding", ["VALID", "same", ((0, 0), (1, 2), (3, 0))], ids=str)
def test_reductions_of_windows(padding: Any, unknown: bool) -> None:
    window = (1, 3, 2)
    kinds: list[tuple[Any, float, Any]] = [
        (gx.add, 0, np.sum), (gx.maximum, -np.inf, np.max), (gx.minimum, np.inf, np.min),
        (gx.multiply, 1, np.prod), (gx.add, 1.5, lambda w, axis: w.sum(axis) + np.float32(1.5)),
    ]  # fmt: skip
    for steps in ((1, 1, 1), (1, 2, 3)):
        for dilation in ((1, 1, 1), (1, 2, 1)):
            results = run(
                lambda x, steps=steps, dilation=dilation: [
                    gx.reduce_window(x, init, computation, window, steps, padding, dilation)
                    for computation, init, _ in kinds
                ],
                X,
                unknown=unknown,
            )
            spans = [(size - 1) * gap + 1 for size, gap in zip(window, dilation, strict=True)]
            name = padding.upper() if isinstance(padding, str) else padding
            for (_, init, reference), got in zip(kinds, results, strict=True):
                whole = np.pad(X, _margins(name, spans, steps), constant_values=init)
                at = [slice(None, None, n) for n in (*steps, *dilation)]
                wanted = reference(sliding(whole, spans)[tuple(at)], axis=(3, 4, 5))
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_other_dtypes_and_combinations() -> None:
    i = np.random.default_rng(0).integers(-9, 9, (5, 6)).astype(np.int32)
    pairs = sliding(i, (2, 2)).reshape(4, 5, 4)
    got = run(
        lambda i: [
            gx.reduce_window(i, 0, gx.bitwise_xor, (2, 2)),
            gx.reduce_window(i, -1, gx.bitwise_and, (2, 2)),
            gx.reduce_window(i, 0, gx.add, (2, 2)),
            gx.reduce_window(i > 0, False, gx.logical_or, (2, 2)),
        ],
        i,
    )
    np.testing.assert_array_equal(got[0], np.bitwise_xor.reduce(pairs, 2))
    np.testing.assert_array_equal(got[1], np.bitwise_and.reduce(pairs, 2))
    np.testing.assert_array_equal(got[2], pairs.sum(2))
    assert got[2].dtype == np.int32
    np.testing.assert_array_equal(got[3], (pairs > 0).any(2))


@pytest.mark.parametrize("dtype", ["float8_e5m2", "int4", "bfloat16", "bool", "float64"])
def test_windows_of_constants_are_folded(dtype: str) -> None:
    with gx.Graph() as graph:
        x = gx.constant(np.arange(5)).astype(dtype)
        made = gx.sliding_window_view(x, 3).astype("float32")
    wanted = np.lib.stride_tricks.sliding_window_view(np.arange(5), 3)
    wanted = wanted != 0 if dtype == "bool" else wanted
    assert np.array_equal(gx.Session(graph).run(made), wanted)


def test_gradients_of_windows() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64")
        largest = gx.reduce_window(x, -np.inf, gx.maximum, (2, 3), (1, 2), "SAME")
        summed = gx.reduce_window(x, 0, gx.add, (2, 3), (1, 2))
        loss = gx.sum(largest**2) + gx.sum(summed**2)
        (slope,) = gx.gradients(loss, [x])
    session = gx.Session(graph)
    given = np.random.default_rng(0).normal(size=(4, 6))
    found = np.zeros_like(given)
    for place in np.ndindex(given.shape):
        step = np.zeros_like(given)
        step[place] = 1e-6
        sides = [session.run(loss, {x: given + sign * step}) for sign in (1, -1)]
        found[place] = (sides[0] - sides[1]) / 2e-6
    np.testing.assert_allclose(session.run(slope, {x: given}), found, rtol=1e-6, atol=1e-6)
    with pytest.raises(gx.ShapeError, match="reduce_window of windows"):
        session.run(loss, {x: given[:1]})


def test_refusals() -> None:
    with gx.Graph():
        x = gx.placeholder((4, 6))
        with pytest.raises(gx.UnsupportedError, match="reduce_window by"):
            gx.reduce_window(x, 0, lambda a, b: a, (2, 2))
        with pytest.raises(gx.ShapeError, match=r"windows of \[5, 1\] places in \[4, 6\]"):
            gx.reduce_window(x, 0, gx.add, (5, 1))
        for bad in ((2,), (0, 1), (True, 1), "ab"):
            with pytest.raises(gx.ShapeError):
                gx.reduce_window(x, 0, gx.add, bad)
        with pytest.raises(gx.ShapeError, match="padding is"):
            gx.reduce_window(x, 0, gx.add, (2, 2), None, "FULL")
        with pytest.raises(gx.ShapeError, match="windows of"):
            gx.sliding_window_view(x, (2,), (0, 1))
        with pytest.raises(gx.ShapeError, match="windows of"):
            gx.sliding_window_view(x, 7, 1)
