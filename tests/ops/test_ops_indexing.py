"""Indexing against NumPy, with dims known when the graph is built and dims that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops_harness import Run, agrees, placeholder

import graphc as gx
from graphc.base.errors import DTypeError, IndexRangeError, ShapeError, UnsupportedError
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function

pytestmark = pytest.mark.check_mode

RANDOM = np.random.default_rng(1)
X = RANDOM.integers(-9, 9, (3, 4, 2)).astype(np.float64)
LARGEST = 2**63 - 1

constant, take, along, scatter_add, one_hot = map(
    surface_function, ("constant", "take", "take_along_axis", "scatter_add", "one_hot")
)

BASIC = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(-2, None), slice(5, 2),
    slice(None, -1), slice(LARGEST, None, -2), slice(-100, 100, 3), None, Ellipsis,
    (slice(None), 1), (Ellipsis, 1), (0, 1, 1),
    (None, 0, Ellipsis, None), (1, slice(None, None, -3)),
    (slice(None), slice(2, 0, -1), slice(1, 1)), (Ellipsis, slice(None, None, -1), None), (),
    slice(LARGEST + 1, None, -1), slice(None, -(2**70), -1), slice(-(2**70), 2**70),
    slice(None, None, 2**64), slice(None, None, -(2**64)),
]  # fmt: skip


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_basic(key: Any) -> None:
    agrees(lambda x: x[key], X[key], X)


def test_bounds_of_slices_need_not_fit_in_64_bits() -> None:
    """A kernel computes with them where the length is unknown."""
    array = np.arange(7.0)
    keys = [slice(far, None, -1) for far in (LARGEST, LARGEST + 1, 2**64 + 2)]
    keys += [slice(-(2**64) + 2, 2**64 + 2, 3), slice(None, -(2**64) + 2, -2)]
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64")
        parts = [x[key] for key in keys]
    for got, key in zip(gx.Session(graph).run(parts, {x: array}), keys, strict=True):
        np.testing.assert_array_equal(got, array[key], err_msg=str(key))


def test_slices_of_every_length() -> None:
    ends = (None, -7, -3, -1, 0, 1, 2, 4, 9)
    for length in (0, 1, 4):
        array = np.arange(1.0, length + 1)
        keys = [slice(a, b, s) for a in ends for b in ends for s in (None, 3, -1, -2)]
        keys = [keys[place] for place in RANDOM.permutation(len(keys))[:40]]
        agrees(lambda x, keys=keys: [x[key] for key in keys], [array[key] for key in keys], array)


def test_slices_of_slices() -> None:
    x = np.arange(20.0)

    def chains(x: Any) -> list[Any]:
        return [
            x[::-1][1:5:2], x[::-1][::-2][1:], x[2:15:3][-1:0:-1], x[5:2], x[-1850:-1849],
            x[-1850:LARGEST:43], x[10:-30:-4], x[::-7][::-1], x[3:3][::-1], x[-3:][:-1],
            x[:100:100], x[19::-1][:0],
        ]  # fmt: skip

    agrees(chains, chains(x), x)


def test_slices_that_look_like_nothing() -> None:
    y = np.arange(4.0).reshape(4, 1)
    agrees(
        lambda y: [y[:, ::-1], y[::-1], y[0 : y.shape[0] : 1], y[: y.shape[0] - 1]],
        [y[:, ::-1], y[::-1], y, y[:3]],
        y,
    )
    with Recorder():
        x = placeholder(("n",))
        assert x[0 : x.shape[0]] is x
        assert x[:] is x


def test_ints_out_of_range() -> None:
    with Recorder() as graph:
        x = placeholder((3, None), "float64")
        for key in (3, -4, (0, 0, 0), ([0, 3],)):
            with pytest.raises(IndexRangeError) as raised:
                x[key]
            assert __file__ in str(raised.value)
        first, last = x[:, 1], x[:, -2]
    array = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(Run(graph, {x: array})[first], array[:, 1])
    np.testing.assert_array_equal(Run(graph, {x: array})[last], array[:, 0])
    for fetch in (first, last):
        with pytest.raises(ShapeError):
            Run(graph, {x: array[:, :1]})[fetch]


MASK = np.array([True, False, True])
ADVANCED = [
    [0, 2], [2, -1, 0, 0], ([0, 2], slice(None), [1, 1]), ([0, 2], [1, 3]), (Ellipsis, [1, 0, 1]),
    (slice(None), [[0, 1], [2, -3]]), (slice(None), [3, 0], [1, 0]), ([[0], [1]], [2, 3]),
    (0, slice(None), [1, 0]), (slice(None), 1, [1, 0, 1]), ([0], Ellipsis, [1]),
    ([1, 0], None, [2]), (None, [1, 0]), MASK, (MASK, 1),
    (slice(None, None, -1), [0, 1], slice(None, None, -1)),
    (MASK, slice(None), [0]), (slice(None), X[0, :, 0] > 0), X > 0, X[:, :, 0] > 0,
    np.array([], int), [], np.array(1), (np.int8(1), np.array([0, 1], np.uint8)),
    (slice(None), [0, 1], Ellipsis, 1), ([1, 0], 0, 1), [True, False, True],
    # truth values: axes of as many elements as they are
    True, False, np.True_, np.array(False), (True, 0), (False, slice(1, 3)), (slice(None), True),
    (Ellipsis, False), (True, [0, 1]), (slice(None), True, [0, 1]), (True, slice(None), True),
    ([0, 2], True, [1, 1]), (True, None, Ellipsis, 1), (MASK, True), (0, False, [1]),
    np.zeros((0, 0, 0), bool),
]  # fmt: skip


@pytest.mark.parametrize("key", ADVANCED, ids=range(len(ADVANCED)))
def test_advanced(key: Any) -> None:
    agrees(lambda x: x[key], X[key], X)


def test_indices_that_are_fed() -> None:
    i, j = np.array([2, -1, 0, 2]), np.array([[0], [3]], np.int32)
    s = np.array(-2)
    agrees(
        lambda x, i, j, s: [x[i], x[i, j], x[:, j], x[i, :, s], x[s], x[:, s, None], x[0, s, 1]],
        [X[i], X[i, j], X[:, j], X[i, :, s], X[s], X[:, s, None], X[0, s, 1]],
        X, i, j, s,
    )  # fmt: skip


def test_what_is_no_index() -> None:
    with Recorder() as graph:
        x, mask = placeholder((3, 4)), placeholder((3,), "bool")
        with pytest.raises(UnsupportedError, match="size of the result is unknown"):
            x[mask]
        with pytest.raises(UnsupportedError, match="slice bound"):
            x[: placeholder((), "int64")]
        for key in ([0.5], placeholder((2,)), "a", 1.0):
            with pytest.raises(DTypeError):
                x[key]
        with pytest.raises(ShapeError, match="zero"):
            x[::0]
        for key in (np.array([True, False]), (Ellipsis, Ellipsis), ([0, 1], [0, 1, 2])):
            with pytest.raises(IndexRangeError):
                x[key]
        with pytest.raises(IndexRangeError, match="broadcast"):
            x[False, [0, 1]]
        known = x[constant(MASK)]
        unknown = placeholder((None,), "float64")
        picked = unknown[MASK]
    assert known.shape == (2, 4)
    np.testing.assert_array_equal(Run(graph, {unknown: np.arange(3.0)})[picked], [0.0, 2.0])
    with pytest.raises(ShapeError):
        Run(graph, {unknown: np.arange(4.0)})[picked]


def test_take() -> None:
    i = np.array([[1, -1], [0, 1]])
    for axis in (None, 0, 1, -1):
        wanted = np.take(X, i, axis)
        agrees(lambda x, i, axis=axis: take(x, i, axis), wanted, X, i)
        agrees(lambda x, axis=axis: take(x, i, axis=axis), wanted, X)
        agrees(lambda x, axis=axis: take(x, 1, axis=axis), np.take(X, 1, axis), X)
    with Recorder() as graph:
        x, at = placeholder((3,), "float64"), placeholder((2,), "int64")
        with pytest.raises(IndexRangeError, match="index 3 at position"):
            take(x, [0, 3], axis=0)
        taken = take(x, at, axis=0)
    with pytest.raises(IndexRangeError, match="index -4 at position"):
        Run(graph, {x: np.zeros(3), at: np.array([0, -4])})[taken]


def test_take_along_axis() -> None:
    for axis in (0, 1, -1):
        i = X.argsort(axis)[:, ::-1]
        agrees(lambda x, i, a=axis: along(x, i, a), np.take_along_axis(X, i, axis), X, i)
    one = np.array([[[1], [-1]]])
    agrees(lambda x, i: along(x, i, 1), np.take_along_axis(X, np.swapaxes(one, 1, 2)[:, [0, 0]], 1),
           X, np.swapaxes(one, 1, 2)[:, [0, 0]])  # fmt: skip
    agrees(lambda x, i: along(x, i, None), X.ravel()[[3, -2]], X, np.array([3, -2]))
    with Recorder(), pytest.raises(ShapeError, match=r"\[3, 4\].*\[2\]"):
        along(placeholder((3, 4)), placeholder((2,), "int64"), 0)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("symbolic", [False, True])
def test_scatter_along_an_axis_keeps_the_order_of_the_updates(axis: int, symbolic: bool) -> None:
    shape, picked = (5, 7, 6), [5, 7, 6]
    picked[axis] = 40
    random = np.random.default_rng(axis)
    updates = random.normal(size=picked).astype(np.float32)
    indices = random.integers(-shape[axis], shape[axis], picked)
    with gx.Graph() as graph:
        x = gx.placeholder((None, *shape[1:]) if symbolic and axis else shape)
        i, u = gx.placeholder(picked, "int64"), gx.placeholder(picked)
        loss = gx.sum(gx.take_along_axis(x, i, axis=axis) * u)
        (gradient,) = gx.gradients([loss], [x])
    array = np.zeros(shape, np.float32)
    wanted = array.copy()
    places = list(np.ogrid[tuple(slice(size) for size in picked)])
    places[axis] = indices % shape[axis]
    np.add.at(wanted, tuple(places), updates)
    session = gx.Session(graph)
    got = session.run(gradient, {x: array, i: indices, u: updates})
    assert got.tobytes() == wanted.tobytes()
    indices[(0,) * 3] = shape[axis]
    with pytest.raises(IndexRangeError, match=f"axis {axis} of size {shape[axis]}"):
        session.run(gradient, {x: array, i: indices, u: updates})


def test_scatter_add() -> None:
    i, updates = np.array([1, -1, 1]), RANDOM.integers(0, 9, (3, 3, 2)).astype(np.float64)
    wanted = X.copy()
    np.add.at(wanted, (slice(None), i), updates)
    agrees(lambda x, i, u: scatter_add(x, i, u, axis=1), wanted, X, i, updates)
    counts = np.array([0, 2, 0, 1])
    agrees(lambda x: scatter_add(x, [1, 1, 3], 1), counts, np.zeros(4, np.int64))
    with Recorder(), pytest.raises(ShapeError):
        scatter_add(placeholder((4,)), [0, 1], placeholder((3,)))


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("axis_0", [3, None])
@pytest.mark.parametrize(
    "build",
    [
        lambda x, i: gx.take(x, i, axis=0),
        lambda x, i: gx.take_along_axis(x, i[:, None], axis=0),
        lambda x, i: x[i, i],
        lambda x, i: gx.gradients(gx.sum(gx.take(x, i, axis=0) ** 2), x),
        lambda x, i: gx.gradients(gx.sum(gx.take_along_axis(x, i[:, None], axis=0)), x),
        lambda x, i: gx.nn.softmax_cross_entropy(x, i),
        lambda x, i: gx.take(x[:, :0], i, axis=0),
    ],
)
def test_unsigned_indices_that_int64_does_not_hold(build: Any, axis_0: Any, level: int) -> None:
    """They are out of range, and no negative numbers."""
    with gx.Graph() as g:
        x, i = gx.placeholder((axis_0, 3), name="x"), gx.placeholder((3,), "uint64", name="i")
        y = build(x, i)
    session = gx.Session(g, options=gx.Options(optimize=level))
    array = np.arange(9, dtype=np.float32).reshape(3, 3)
    right = session.run(y, {x: array, i: np.array([2, 0, 1], np.uint64)})
    assert np.isfinite(right).all()
    for wrong in (2**64 - 1, 2**64 - 3, 2**63, 2**63 - 1, 3):
        with pytest.raises(IndexRangeError, match="out of range"):
            session.run(y, {x: array, i: np.array([0, 1, wrong], np.uint64)})


def test_one_hot() -> None:
    i = np.array([[0, 2], [3, -1]])
    wanted = (i[..., None] == np.arange(3)).astype(np.float32)
    agrees(lambda i: one_hot(i, 3), wanted, i)
    agrees(lambda i: one_hot(i, 3, "bool"), wanted.astype(bool), i)
    agrees(lambda i, x: one_hot(i, x.shape[0]), wanted, i, np.zeros(3))
    with Recorder(), pytest.raises(DTypeError):
        one_hot(placeholder((2,)), 3)
