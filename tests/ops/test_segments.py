"""Segment reductions, and places as one number or one for each axis, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

KINDS = {
    "sum": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_segments(dtype: str) -> None:
    with gx.Graph() as graph:
        x, i = gx.placeholder((None, 2), dtype, name="x"), gx.placeholder((None,), "int32")
        fetches = [getattr(gx, f"segment_{kind}")(x, i, 4) for kind in KINDS]
        fetches += [gx.segment_sum(x, i, 4, mode="clip"), gx.segment_max(x, i, i.shape[0])]
        strict = gx.segment_sum(x, i, 4, mode="error")
    rng, session = np.random.default_rng(0), gx.Session(graph)
    for length in (9, 1, 0):
        array = rng.integers(-9, 9, (length, 2)).astype(dtype)
        ids = rng.integers(-2, 6, length).astype(np.int32)

        def of(kind: str, count: int, ids: Any, array: Any = array) -> Any:
            ufunc, start = KINDS[kind]
            if dtype == "int8":
                start = {"max": -128, "min": 127}.get(kind, start)
            result = np.full((count, 2), start, dtype)
            inside = (ids >= 0) & (ids < count)
            ufunc.at(result, ids[inside], array[inside])
            return result

        wanted = [of(kind, 4, ids) for kind in KINDS]
        wanted += [of("sum", 4, np.clip(ids, 0, 3)), of("max", length, ids)]
        for got, expected in zip(session.run(fetches, {x: array, i: ids}), wanted, strict=True):
            np.testing.assert_array_equal(got, expected, strict=True)
    with pytest.raises(gx.IndexRangeError, match="index -1"):
        session.run(strict, {x: np.zeros((1, 2), dtype), i: [-1]})
    with graph:
        assert gx.segment_sum(np.ones((3, 2)), [0, 2, 0]).shape == (3, 2)
        with pytest.raises(gx.UnsupportedError, match="number is unknown"):
            gx.segment_sum(x, i)
        with pytest.raises(gx.ShapeError):
            gx.segment_sum(np.ones(3), [0, 1], 2)


def test_places() -> None:
    with gx.Graph() as graph:
        p, x = gx.placeholder((None,), "int16"), gx.placeholder((2, None, 4))
        split = gx.unravel_index(p, x.shape)
        fetches = [
            *split, *gx.unravel_index(p, (2, 3, 4), order="F"),
            gx.ravel_multi_index(split, x.shape),
            gx.ravel_multi_index((p % 2, 2), (2, 3), order="F"),
            gx.ravel_multi_index((p, p), (3, 4), mode=("clip", "wrap")),
        ]  # fmt: skip
        out = gx.ravel_multi_index((p, p), (30, 30))
    places = np.array([0, 23, 7, 11], np.int16)
    session, cube = gx.Session(graph), np.zeros((2, 3, 4), np.float32)
    wanted = [
        *np.unravel_index(places, (2, 3, 4)), *np.unravel_index(places, (2, 3, 4), order="F"),
        places, np.ravel_multi_index((places % 2, 2), (2, 3), order="F"),
        np.ravel_multi_index((places, places), (3, 4), mode=("clip", "wrap")),
    ]  # fmt: skip
    for got, expected in zip(session.run(fetches, {p: places, x: cube}), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)
    for wrong in (-1, 24):
        with pytest.raises(gx.IndexRangeError, match="out of range"):
            session.run(fetches[0], {p: [wrong], x: cube})
    with pytest.raises(gx.IndexRangeError, match="out of range"):
        session.run(out, {p: [-1]})
