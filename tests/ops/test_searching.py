"""``searchsorted``, ``digitize``, ``isin``, counts, histograms and sets against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.ir.dtypes import ALL, DType

NAN, INF = np.nan, np.inf


def run(function: Any, *arrays: Any) -> Any:
    """What a function of values gives for arrays of shapes that are not known."""
    with gx.Graph() as graph:
        feeds = [gx.placeholder((None,) * np.ndim(a), np.asarray(a).dtype.name) for a in arrays]
        made = function(*feeds)
    return gx.Session(graph).run(made, dict(zip(feeds, arrays, strict=True)))


def rows(rng: np.random.Generator, element: DType, shape: Any) -> Any:
    if element.is_float:
        pool = np.array([0.0, -0.0, 1, -1, NAN, INF, -INF, 0.5, 3e38, 1e-45], element.numpy)
        return rng.choice(pool, shape)
    if element.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    ends = np.iinfo(element.numpy)
    values = rng.integers(0, 9, shape).astype(element.numpy)
    return np.where(rng.integers(0, 3, shape) == 0, ends.max - values, values + ends.min)


@pytest.mark.parametrize("element", [e for e in ALL if e.numpy.isbuiltin == 1], ids=str)
def test_places_are_those_of_numpy(element: DType) -> None:
    rng = np.random.default_rng(3)
    with gx.Graph() as graph:
        a = gx.placeholder((None,), element.name)
        v = gx.placeholder((None, None), element.name)
        made = [gx.searchsorted(a, v, side) for side in ("left", "right")]
        made.append(gx.isin(v, a))
    exe = gx.Session(graph).compile(made, [a, v])
    for length in (0, 1, 2, 3, 8, 31, 100):
        vector, wanted = np.sort(rows(rng, element, length)), rows(rng, element, (3, 21))
        left, right, hits = exe(vector, wanted)
        np.testing.assert_array_equal(left, np.searchsorted(vector, wanted))
        np.testing.assert_array_equal(right, np.searchsorted(vector, wanted, "right"))
        np.testing.assert_array_equal(hits, np.isin(wanted, vector))


def test_searching_with_a_sorter_a_scalar_and_bins_that_descend() -> None:
    vector, values = np.array([3.0, 1, 2, 5]), np.array([[0, 1, 2.5, 9]])
    order = np.argsort(vector)
    got = run(
        lambda a, v, s: [gx.searchsorted(a, v, "right", s), gx.searchsorted(a, v[0, 2], sorter=s)],
        vector, values, order,
    )  # fmt: skip
    np.testing.assert_array_equal(got[0], np.searchsorted(vector, values, "right", order))
    np.testing.assert_array_equal(got[1], np.searchsorted(vector, 2.5, sorter=order))
    edges = [np.array(bins) for bins in ([0, 1, 2.5], [4.0, 2.5, 1, 0], [1.0], [], [2.0, 2, 1])]
    with gx.Graph() as graph:
        v, b = gx.placeholder((None, None), "float64"), gx.placeholder((None,), "float64")
        computed = [gx.digitize(v, b, right) for right in (False, True)]
        known = [gx.digitize(v, array, True) for array in edges]
    exe = gx.Session(graph).compile([*computed, *known], [v, b])
    for array, number in zip(edges, range(2, 7), strict=True):
        got = exe(values, array)
        np.testing.assert_array_equal(got[0], np.digitize(values, array))
        np.testing.assert_array_equal(got[1], np.digitize(values, array, True))
        np.testing.assert_array_equal(got[number], got[1])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64", "uint64"])
def test_numbers_are_counted(dtype: str) -> None:
    rng = np.random.default_rng(4)
    for count in (0, 5, 64, 1000):
        x = rng.integers(0, 2 if dtype == "bool" else 40, count).astype(dtype)
        x[count // 2 :] = x[:1]
        weights = rng.normal(size=count).astype(np.float32)
        got = run(
            lambda x, w: [gx.bincount(x, length=30), gx.bincount(x, w, length=30)], x, weights
        )
        wanted = np.bincount(x.astype(np.int64), minlength=40)[:30]
        np.testing.assert_array_equal(got[0], wanted)
        sums = np.bincount(x.astype(np.int64), weights, minlength=40)[:30]
        np.testing.assert_array_equal(got[1], sums)
    known = np.array([1, 4, 1])
    got = run(lambda w: [gx.bincount(known, w), gx.bincount([1, 1], minlength=4)], np.ones(3))
    np.testing.assert_array_equal(got[0], [0, 2, 0, 0, 1])
    np.testing.assert_array_equal(got[1], [0, 2, 0, 0])


def test_runs_and_what_is_outside_are_counted() -> None:
    x = np.array([3, 100, 3] * 40 + [3] * 200 + [-1], np.int32)
    with gx.Graph() as graph:
        value = gx.placeholder((None,), "int32")
        counts = gx.bincount(value, length=7)
    exe = gx.Session(graph).compile(counts, [value])
    np.testing.assert_array_equal(exe(x[:-1]), [0, 0, 0, 280, 0, 0, 0])
    with pytest.raises(gx.IndexRangeError, match="index -1 is out of range"):
        exe(x)


def test_a_negative_number_is_no_bin() -> None:
    with pytest.raises(gx.IndexRangeError, match="bincount: index -3 is out of range"):
        run(lambda x: gx.bincount(x, length=4), np.array([1, -3, -2]))
    with pytest.raises(gx.IndexRangeError, match="binsum: index -1"):
        run(lambda x, w: gx.bincount(x, w, length=4), np.array([1, -1], np.int8), np.ones(2))


def test_weights_have_a_gradient() -> None:
    x, weights = np.array([0, 2, 7, 2]), np.array([1.0, 2, 3, 4])
    with gx.Graph() as graph:
        places, value = gx.placeholder((None,), "int64"), gx.placeholder((None,), "float64")
        sums = gx.bincount(places, value, length=3)
        slope = gx.gradients(sums * sums, value)
        tangent = gx.jvp(sums, value, value * 2.0)
    got = gx.Session(graph).run([slope, tangent], {places: x, value: weights})
    np.testing.assert_array_equal(got[0], [2, 12, 0, 12])
    np.testing.assert_array_equal(got[1], [2, 0, 12])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_histograms_have_the_counts_and_edges_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(40, 25)) * 20 + 60).astype(dtype)
    weights = rng.normal(size=x.shape)
    options: list[dict[str, Any]] = [
        {}, {"bins": 7, "range": (40, 75.5)}, {"bins": [30, 50, 50, 61.5, 90]},
        {"bins": 3, "range": (60, 60)}, {"bins": 5, "density": True},
    ]  # fmt: skip
    made = run(
        lambda x, w: [
            *(gx.histogram(x, **option) for option in options),
            gx.histogram(x, 6, weights=w), gx.histogram_bin_edges(x, 4),
        ],
        x, weights,
    )  # fmt: skip
    *counted, weighed, edges = made
    for (counts, ends), option in zip(counted, options, strict=True):
        wanted, wanted_ends = np.histogram(x, **option)
        np.testing.assert_array_equal(ends, wanted_ends)
        np.testing.assert_allclose(counts, wanted, rtol=1e-15)
        assert counts.dtype == wanted.dtype
    np.testing.assert_allclose(weighed[0], np.histogram(x, 6, weights=weights)[0], rtol=1e-11)
    np.testing.assert_array_equal(edges, np.histogram_bin_edges(x, 4))


def test_elements_at_edges_fall_where_numpy_lets_them() -> None:
    edges = np.linspace(0, 1, 11, dtype=np.float32)
    near = [np.nextafter(edges, np.float32(end)) for end in (-1, 2)]
    x = np.concatenate([edges, *near, [NAN, INF, -INF, -0.0]]).astype(np.float32)
    counts, _ = run(lambda x: list(gx.histogram(x, 10, (0, 1))), x)
    np.testing.assert_array_equal(counts, np.histogram(x, 10, (0, 1))[0])
    counts, _ = run(lambda x, e: list(gx.histogram(x, e)), x, edges)
    np.testing.assert_array_equal(counts, np.histogram(x, edges)[0])


def test_distinct_elements() -> None:
    x = np.array([[3, NAN, 1, 3], [-0.0, NAN, 0.0, 1]], np.float32)
    got = run(lambda x: list(gx.unique(x, True, True, True, size=6)), x)
    values, index, inverse, counts = np.unique(x, True, True, True)
    np.testing.assert_array_equal(got[0], [*values, 0, 0])
    np.testing.assert_array_equal(got[1], [*index, 4, 4])
    np.testing.assert_array_equal(got[2], inverse.reshape(x.shape))
    np.testing.assert_array_equal(got[3], [*counts, 0, 0])
    got = run(lambda x: [gx.unique(x, size=2), gx.unique(x, size=5, fill_value=7)], x)
    np.testing.assert_array_equal(got[0], [0, 1])
    np.testing.assert_array_equal(got[1], [0, 1, 3, NAN, 7])
    everything, counts, inverse_, plain = run(
        lambda x: [
            gx.unique_all(x, size=5), gx.unique_counts(x, size=5), gx.unique_inverse(x, size=5),
            gx.unique_values(x, size=5),
        ],
        x,
    )  # fmt: skip
    for got, wanted in zip(everything, np.unique_all(x), strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(counts.counts, everything.counts)
    np.testing.assert_array_equal(inverse_.inverse_indices, everything.inverse_indices)
    np.testing.assert_array_equal(plain, everything.values)
    one, other = np.array([4, 1, 4, 2, 9]), np.array([2, 4, 5, 4])
    got = run(
        lambda a, b: [
            gx.intersect1d(a, b, size=3, fill_value=-1), gx.setdiff1d(a, b, size=3),
            gx.union1d(a, b, size=6),
        ],
        one, other,
    )  # fmt: skip
    np.testing.assert_array_equal(got[0], [2, 4, -1])
    np.testing.assert_array_equal(got[1], [1, 9, 0])
    np.testing.assert_array_equal(got[2], [1, 2, 4, 5, 9, 1])


def test_constants_have_as_many_distinct_elements_as_there_are() -> None:
    one, other = np.array([[3, 1, NAN], [2, NAN, 1]]), np.array([1, 5, NAN], np.float32)
    with gx.Graph() as graph:
        y = gx.constant(other)
        made = [
            gx.unique(one), list(gx.unique_all(one)), gx.unique_values(y),
            gx.union1d(one, y), gx.intersect1d(one, y), gx.setdiff1d(one, y),
            gx.setxor1d(one, y), gx.union1d([1, 2], [2.5]), gx.unique(np.zeros((0, 2))),
        ]  # fmt: skip
        fed = gx.placeholder((3,))
        with pytest.raises(gx.UnsupportedError, match="union1d: how many results"):
            gx.union1d(one, fed)
    got = gx.Session(graph).run(made)
    sets = [np.union1d(one, other), np.array([1.0]), np.setdiff1d(one, other)]
    alone = np.array([2, 3, 5, NAN])
    wanted = [np.unique(one), None, other, *sets, alone, np.array([1, 2, 2.5]), np.zeros(0)]
    for found, right in zip(got, wanted, strict=True):
        if right is not None:
            np.testing.assert_array_equal(found, right)
    for found, right in zip(got[1], np.unique_all(one), strict=True):
        np.testing.assert_array_equal(found, right)


def test_what_cannot_be_is_told() -> None:
    with gx.Graph():
        x = gx.placeholder((None,), "int64")
        y = gx.placeholder((2, 3))
        with pytest.raises(gx.UnsupportedError, match="depend on elements"):
            gx.unique(x)
        with pytest.raises(gx.ShapeError, match="no known length"):
            gx.bincount(x)
        with pytest.raises(gx.DTypeError, match="counts integers, not float32"):
            gx.bincount(y[0], length=3)
        with pytest.raises(gx.ShapeError, match="bincount of 2 axes"):
            gx.bincount(gx.astype(y, "int8"), length=3)
        with pytest.raises(gx.ShapeError, match="a has 2 axes"):
            gx.searchsorted(y, 1.0)
        with pytest.raises(gx.ShapeError, match="side is 'up'"):
            gx.searchsorted(y[0], 1.0, "up")
        with pytest.raises(gx.ShapeError, match="0 bins"):
            gx.histogram(y, 0)
        with pytest.raises(gx.ShapeError, match="'auto'"):
            gx.histogram(y, "auto")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_histograms_of_many_bins_far_from_zero_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(8)
    x = (rng.random(4000) * 3).astype(dtype)
    x[:6] = [NAN, INF, -INF, 0, 3, -1]
    options: list[tuple[int, tuple[float, float]]] = [(999, (0, 3)), (50, (0.1, 0.7)), (1, (1, 2))]
    far = (x + 1000).astype(dtype)
    made = run(
        lambda x, far: [
            *(gx.histogram(x, bins, ends)[0] for bins, ends in options),
            gx.histogram(far, 64, (1000, 1003))[0], gx.histogram(far[6:], 200)[0],
        ],
        x, far,
    )  # fmt: skip
    for counts, (bins, ends) in zip(made, options, strict=False):
        np.testing.assert_array_equal(counts, np.histogram(x, bins, ends)[0])
    np.testing.assert_array_equal(made[3], np.histogram(far, 64, (1000, 1003))[0])
    np.testing.assert_array_equal(made[4], np.histogram(far[6:], 200)[0])
