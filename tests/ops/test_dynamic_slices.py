"""Windows that begin at values, against slices of clamped starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

Array = np.ndarray
WEIGHTS = np.arange(1.0, 10)


def _start(given: int, length: int, size: int) -> int:
    return max(min(given + (length if given < 0 else 0), length - size), 0)


def _expected(x: Array, u: Array, s: tuple[int, int], i: int) -> list[Array]:
    a, b = _start(s[0], 4, 2), _start(s[1], 5, 3)
    row, column, wide = _start(i, 4, 2), _start(i, 5, 1), _start(i, 5, 3)
    updated = [x.copy() for _ in range(4)]
    updated[0][a : a + 2, b : b + 3] = u
    updated[1][1:3, wide : wide + 3] = u
    updated[2][_start(i, 4, 1)] = u[0, 0]
    updated[3][:2, wide : wide + 3] = u
    pair = _start(i, 5, 2)
    return [
        x[a : a + 2, b : b + 3], x[row : row + 2], x[:, pair : pair + 2],
        x[:, column : column + 1], x[:, column], *updated,
    ]  # fmt: skip


def _fetches(x: Any, u: Any, s: Any, i: Any) -> list[Any]:
    return [
        gx.dynamic_slice(x, s, (2, 3)), gx.dynamic_slice(x, (i, 0), (2, x.shape[1])),
        gx.dynamic_slice_in_dim(x, i, 2, axis=1), gx.dynamic_index_in_dim(x, i, 1),
        gx.dynamic_index_in_dim(x, i, 1, keepdims=False), gx.dynamic_update_slice(x, u, s),
        gx.dynamic_update_slice(x, u, [1, i]),
        gx.dynamic_update_index_in_dim(x, u[0, 0] * gx.ones_like(x[0]), i, 0),
        gx.dynamic_update_slice_in_dim(x, u, i, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("dims", [(4, 5), (None, None)])
def test_windows_and_their_derivatives(dims: Any) -> None:
    with gx.Graph() as graph:
        x, u = gx.placeholder(dims, "float64", name="x"), gx.placeholder((2, 3), "float64")
        s, i = gx.placeholder((2,), "int32"), gx.placeholder((), "int64")
        fetches = _fetches(x, u, s, i)
        loss = sum(gx.sum(gx.sin(y)) * w for y, w in zip(fetches, WEIGHTS, strict=True))
        slopes = gx.gradients(loss, [x, u])
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 5)), rng.normal(size=(2, 3))]
    session = gx.Session(graph)
    for starts, n in [((0, 0), 0), ((1, 2), 1), ((5, -2), -1), ((-1, 9), 7), ((-9, -9), -8)]:
        feeds = {x: arrays[0], u: arrays[1], s: np.array(starts), i: n}
        got, found = session.run([fetches, slopes], feeds)
        for result, wanted in zip(got, _expected(*arrays, starts, n), strict=True):
            np.testing.assert_array_equal(result, wanted, strict=True)
        for operand, slope in enumerate(found):
            for place in list(np.ndindex(slope.shape))[::3]:
                ends = []
                for step in (1e-6, -1e-6):
                    moved = [array.copy() for array in arrays]
                    moved[operand][place] += step
                    parts = zip(_expected(*moved, starts, n), WEIGHTS, strict=True)
                    ends.append(sum(np.sum(np.sin(y)) * w for y, w in parts))
                np.testing.assert_allclose(slope[place], (ends[0] - ends[1]) / 2e-6, atol=1e-5)


def test_windows_that_do_not_fit() -> None:
    with gx.Graph() as graph:
        x, i = gx.placeholder((3, None), "float64", name="x"), gx.placeholder((), "int64")
        for build, error in [
            (lambda: gx.dynamic_slice(x, (i, i), (4, 1)), gx.ShapeError),
            (lambda: gx.dynamic_slice(x, (i,), (1, 1)), gx.ShapeError),
            (lambda: gx.dynamic_slice(x, (i, 0.5), (1, 1)), gx.DTypeError),
            (lambda: gx.dynamic_update_slice(x, x[0], (i, i)), gx.ShapeError),
        ]:
            with pytest.raises(error):
                build()
        y = gx.dynamic_slice(x, (i, i), (1, 4))
    with pytest.raises(gx.ShapeError, match=r"window of shape \[1, 4\] .* \[3, 2\]"):
        gx.Session(graph).run(y, {x: np.zeros((3, 2)), i: 0})


def test_a_cache_that_a_loop_fills() -> None:
    with gx.Graph() as graph:
        cache = gx.placeholder((2, None, 3), "float64", name="cache")

        def step(n: Any, cache: Any) -> Any:
            new = gx.ones((2, 1, 3), "float64") * (n + 1)
            return n + 1, gx.dynamic_update_slice(cache, new, (0, n, 0))

        _, filled = gx.while_loop(lambda n, c: n < c.shape[1], step, (0, cache))
    got = gx.Session(graph).run(filled, {cache: np.zeros((2, 5, 3))})
    np.testing.assert_array_equal(got, np.ones((2, 1, 3)) * np.arange(1.0, 6)[:, None])
