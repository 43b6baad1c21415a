"""``sort``, ``argsort`` and ``top_k``: the order of special values, ties, lengths, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.ir.dtypes import ALL, DType
from graphc.ir.dtypes import dtype as as_dtype
from graphc.kernel.routines.sorting import ordered

pytestmark = pytest.mark.check_mode

LENGTHS = (0, 1, 2, 7, 16, 33, 100, 129, 257, 1000)


def rows(rng: np.random.Generator, element: DType, shape: tuple[int, ...]) -> Any:
    """Rows with ties and special values; every other row is of ordinary numbers."""
    kind = element.numpy
    if element.kind == "bool":
        return rng.integers(0, 2, shape).astype(kind)
    if element.kind != "float":
        ends = np.iinfo(kind)
        values = rng.integers(ends.min, ends.max, shape, kind, endpoint=True)
        values[1::2] %= 5
        return values
    ends = np.finfo(kind)
    specials = [0.0, -0.0, 1, -1, np.nan, -np.nan, np.inf, -np.inf, ends.max, ends.min,
                ends.smallest_subnormal, -ends.smallest_subnormal]  # fmt: skip
    values = rng.normal(size=shape).astype(kind)
    values[1::2] = rng.choice(np.array(specials, kind), values[1::2].shape)
    return values


def places_of(array: Any, down: bool) -> Any:
    if not down:
        return np.argsort(array, axis=-1, kind="stable")
    flipped = np.argsort(np.flip(array, -1), axis=-1, kind="stable")
    return array.shape[-1] - 1 - np.flip(flipped, -1)


@slow_unless(lambda element: str(element) not in ("int8", "int32", "uint16", "uint64", "float16"))
@pytest.mark.parametrize("element", [e for e in ALL if e.numpy.isbuiltin == 1], ids=str)
def test_rows_of_any_length_are_sorted_as_numpy_does(element: DType) -> None:
    rng = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), element.name, name="x")
        fetched = [f(x, descending=down) for f in (gx.sort, gx.argsort) for down in (False, True)]
        fetched += list(gx.top_k(gx.pad(x, ((0, 0), (0, 3)), constant_values=1), 3))
    exe = gx.Session(graph).compile(fetched, [x])
    for length in LENGTHS:
        array = rows(rng, element, (6, length))
        up, down, places_up, places_down, largest, places = exe(array)
        for got, going_down in ((up, False), (down, True)):
            wanted = np.take_along_axis(array, places_of(array, going_down), -1)
            np.testing.assert_array_equal(got, wanted)
            keys = ordered(got, zeros_differ=True)
            keys = ~keys if going_down else keys
            assert (keys[:, 1:] >= keys[:, :-1]).all()
        np.testing.assert_array_equal(places_up, places_of(array, False))
        np.testing.assert_array_equal(places_down, places_of(array, True))
        padded = np.pad(array, ((0, 0), (0, 3)), constant_values=1)
        np.testing.assert_array_equal(places, places_of(padded, True)[:, :3])
        np.testing.assert_array_equal(largest, np.take_along_axis(padded, places, -1))


def test_any_axis_and_strided_feeds() -> None:
    array = np.random.default_rng(1).normal(size=(6, 5, 8)).astype(np.float32)[::2, ::-1, 1::3]
    with gx.Graph() as graph:
        x = gx.placeholder((3, None, None), name="x")
        fetched = [f(x, axis) for axis in (0, 1, -1, None) for f in (gx.sort, gx.argsort)]
    got = gx.Session(graph).run(fetched, {x: array})
    for axis, values, places in zip((0, 1, -1, None), got[::2], got[1::2], strict=True):
        np.testing.assert_array_equal(values, np.sort(array, axis))
        np.testing.assert_array_equal(places, np.argsort(array, axis, kind="stable"))


def test_gradients_follow_the_elements() -> None:
    array = np.array([[3, 1, 2, 1], [np.nan, -1, np.inf, 0]], np.float32)
    weight = np.arange(8, dtype=np.float32).reshape(2, 4)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), name="x")
        down = gx.sort(x, descending=True)
        slope = gx.gradients(down, x, grad_ys=weight)
        largest = gx.gradients(gx.top_k(x, 2)[0], x, grad_ys=weight[:, :2])
        tangent = gx.jvp(gx.sort(x, axis=0), x, weight)
    got = gx.Session(graph).run([slope, largest, tangent], {x: array})
    np.testing.assert_array_equal(got[0], [[0, 2, 1, 3], [4, 7, 5, 6]])
    np.testing.assert_array_equal(got[1], [[0, 0, 1, 0], [4, 0, 5, 0]])
    np.testing.assert_array_equal(got[2], [[0, 5, 2, 7], [4, 1, 6, 3]])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_rows_and_make_no_difference(threads: int) -> None:
    array = np.random.default_rng(2).normal(size=(2000, 300)).astype(np.float32)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), name="x")
        places = gx.argsort(x)
    exe = gx.Session(graph, options=gx.Options(threads=threads)).compile(places, [x])
    (kernel,) = exe.kernels
    assert kernel.split is not None
    np.testing.assert_array_equal(exe(array), np.argsort(array, kind="stable"))


def test_what_does_not_fit_is_told() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), name="x")
        y = gx.placeholder((None,), name="y")
        with pytest.raises(gx.ShapeError, match="4 largest elements of an axis of 3"):
            gx.top_k(x, 4)
        with pytest.raises(gx.ShapeError, match="top_k of a scalar"):
            gx.top_k(1.0, 1)
        with pytest.raises(gx.ShapeError, match="top_k of -1"):
            gx.top_k(x, -1)
        with pytest.raises(gx.ShapeError, match="axis 2 is out of range"):
            gx.sort(x, axis=2)
        with pytest.raises(gx.DTypeError, match="descending"):
            gx.sort(x, descending="yes")  # type: ignore[arg-type]
        with pytest.raises(gx.UnsupportedError, match="places of 4294967296 elements"):
            gx.argsort(gx.zeros((2**32,), as_dtype("int8")))
        largest, _ = gx.top_k(y, 2)
    with pytest.raises(gx.ShapeError, match="top_k: the 2 largest elements of an axis of 1"):
        gx.Session(graph).run(largest, {y: [1.0]})


@pytest.mark.parametrize("name", ["float32", "int64"])
def test_long_rows_of_every_kind_are_parted(name: str) -> None:
    rng = np.random.default_rng(3)
    length = 70_001
    kinds = [
        rng.normal(size=length) * 1e4, np.arange(length), np.arange(length)[::-1],
        np.zeros(length), rng.integers(0, 3, length), np.minimum(np.arange(length), 40_000),
        rng.integers(0, 2, length) * 1e9 - np.arange(length) % 7,
    ]  # fmt: skip
    array = np.stack(kinds).astype(name)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), name, name="x")
        fetched = [gx.sort(x), gx.sort(x, descending=True), gx.argsort(x)]
    exe = gx.Session(graph).compile(fetched, [x])
    for count in (length, 2049, 4100):
        rows_ = array[:, :count]
        up, down, places = exe(rows_)
        np.testing.assert_array_equal(up, np.sort(rows_))
        np.testing.assert_array_equal(down, np.sort(rows_)[:, ::-1])
        np.testing.assert_array_equal(places, np.argsort(rows_, kind="stable"))


@pytest.mark.parametrize("name", ["float32", "uint8", "float64"])
def test_few_and_many_largest_of_rows_in_any_order(name: str) -> None:
    rng = np.random.default_rng(5)
    array = np.stack([np.arange(500), np.arange(500)[::-1], rng.integers(0, 9, 500),
                      np.zeros(500)]).astype(name)  # fmt: skip
    if name != "uint8":
        array[2, 100:130], array[3, 70] = np.nan, -0.0
    counts = (0, 1, 16, 17, 40)
    with gx.Graph() as graph:
        x = gx.placeholder((None, 500), name, name="x")
        fetched = [gx.top_k(x, count)[1] for count in counts]
    for count, places in zip(counts, gx.Session(graph).run(fetched, {x: array}), strict=True):
        np.testing.assert_array_equal(places, places_of(array, True)[:, :count])
