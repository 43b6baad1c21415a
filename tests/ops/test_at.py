"""``x.at[key]`` against NumPy's assignment and ``ufunc.at``, with random keys, shapes and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

Array = np.ndarray


def draw(rng: np.random.Generator) -> tuple[list[int], list[Any]]:
    """A shape and a key for it: arrays stand for index arrays and for masks that are known."""
    rank = int(rng.integers(1, 5))
    shape = [int(size) for size in rng.integers(1, 6, rank)]
    broadcast = [int(size) for size in rng.integers(1, 4, rng.integers(0, 3))]
    key: list[Any] = []
    axis = 0
    while axis < rank:
        size, kind = shape[axis], rng.random()
        if kind < 0.12:
            key.append(None)
            continue
        if kind < 0.2 and Ellipsis not in [part for part in key if part is Ellipsis]:
            key.append(Ellipsis)
            axis += int(rng.integers(0, rank - axis + 1))
            continue
        if kind < 0.4:
            ends = [None if rng.random() < 0.3 else int(rng.integers(-6, 7)) for _ in range(2)]
            key.append(slice(*ends, [None, 1, 2, -1, -2][rng.integers(5)]))
        elif kind < 0.6:
            key.append(int(rng.integers(-size, size)))
        elif kind < 0.7:
            covered = int(rng.integers(1, min(3, rank - axis) + 1))
            key.append(rng.random(shape[axis : axis + covered]) < 0.5)
            axis += covered
            continue
        else:
            dims = [dim if rng.random() < 0.7 else 1 for dim in broadcast]
            key.append(rng.integers(-size, size, dims[rng.integers(0, len(dims) + 1) :]))
        axis += 1
    return shape, key


METHODS: dict[str, Callable[[Array, Any, Array], None]] = {
    "set": lambda y, key, v: y.__setitem__(key, v),
    "add": np.add.at, "subtract": np.subtract.at, "multiply": np.multiply.at, "min": np.minimum.at,
    "max": np.maximum.at, "divide": np.divide.at, "power": np.power.at,
}  # fmt: skip


def updated(method: str, x: Array, key: Any, v: Array) -> Array:
    result = x.copy()
    with np.errstate(all="ignore"):
        METHODS[method](result, key, v)
    return result


def loss_of(results: list[Array]) -> float:
    weights = [np.cos(np.arange(y.size)).reshape(y.shape) for y in results]
    return float(sum(np.sum(np.sin(y) * w) for y, w in zip(results, weights, strict=True)))


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, parts = draw(rng)
    array, is_symbolic = rng.integers(-9, 9, shape).astype(np.float64), bool(rng.random() < 0.5)
    key = tuple(parts)
    try:
        chosen = array[key]
    except IndexError:  # index arrays that do not broadcast
        return
    dims = [size if rng.random() < 0.8 else 1 for size in chosen.shape]
    values = np.asarray(rng.uniform(1, 5, dims[rng.integers(0, len(dims) + 1) :]))
    with gx.Graph() as graph:
        x = gx.placeholder([None if is_symbolic else size for size in shape], "float64", name="x")
        v = gx.placeholder(
            [None if is_symbolic and size != 1 else size for size in values.shape], "float64"
        )
        feeds = {x: array, v: values}
        own = list(parts)
        for place, part in enumerate(parts):
            if isinstance(part, Array) and part.dtype != bool and rng.random() < 0.6:
                own[place] = gx.placeholder(
                    [None if is_symbolic and size != 1 else size for size in part.shape], "int64"
                )
                feeds[own[place]] = part
        at = x.at[tuple(own)]
        results = [getattr(at, method)(v) for method in METHODS]
        others = [at.get(), at.get(mode="fill"), at.set(v, mode="drop"), at.add(v, mode="clip")]
        smooth = [results[n] for n in (0, 1, 3)]
        loss = sum(gx.sum(gx.sin(y) * gx.cos(gx.arange(y.size).reshape(y.shape))) for y in smooth)
        slopes = gx.gradients(loss, [x, v])
    got, rest, found = gx.Session(graph).run([results, others, slopes], feeds)
    for method, result in zip(METHODS, got, strict=True):
        close = 1e-12 if method in ("divide", "power") else 0
        wanted = updated(method, array, key, values)
        np.testing.assert_allclose(result, wanted, rtol=close, err_msg=f"{method} {shape} {key}")
    sums = [updated(method, array, key, values) for method in ("set", "add")]
    for result, wanted in zip(rest, (chosen, chosen, *sums), strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=f"{shape} {key}", strict=True)

    def numeric(moved: Array, other: Array) -> float:
        return loss_of([updated(m, moved, key, other) for m in ("set", "add", "multiply")])

    for operand, slope in enumerate(found):
        places = list(np.ndindex(slope.shape))
        for place in places[:: max(1, len(places) // 6)]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = [array.copy(), values.copy()]
                moved[operand][place] += step
                ends.append(numeric(*moved))
            wanted = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(slope[place], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_random_keys(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_keys(part: int) -> None:
    for seed in range(1000 + part * 20, 1020 + part * 20):
        check(seed)


MASKS: list[tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]] = [
    ((3,), (), ()), ((3, 4), (), ()), ((4,), (slice(None),), ()), ((4, 5), (slice(1, None),), ()),
    ((4,), (0,), ()), ((5,), (0, slice(None)), ()), ((3,), (None,), (None,)),
    ((4,), (slice(None, None, -1),), (slice(0, 3),)), ((4,), (Ellipsis,), (1,)),
    ((3, 4, 5), (), ()), ((5,), (Ellipsis,), ()),
]  # fmt: skip


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_masks_that_are_fed(is_symbolic: bool) -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3, 4, 5))
    with gx.Graph() as graph:
        x = gx.placeholder((None,) * 3 if is_symbolic else (3, 4, 5), "float64", name="x")
        feeds, fetches, wanted = {x: array}, [], []
        for dims, before, behind in MASKS:
            mask = rng.random(dims) < 0.5
            fed = gx.placeholder((None,) * len(dims) if is_symbolic else dims, "bool")
            feeds[fed] = mask
            at = x.at[(*before, fed, *behind)]
            key = (*before, mask, *behind)
            fetches += [at.set(2.5), at.divide(4.0), at.apply(gx.exp)]
            for function in (lambda t: 2.5, lambda t: t / 4, np.exp):
                new = array.copy()
                new[key] = function(new[key])
                wanted.append(new)
    for got, expected in zip(gx.Session(graph).run(fetches, feeds), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
    if is_symbolic:
        with pytest.raises(gx.IndexRangeError, match=r"a mask of shape \[4\] for axes of shape"):
            gx.Session(graph).run(fetches[0], {**feeds, fed: np.ones(5), **{
                value: np.ones(4, bool) for value in list(feeds)[1:2]
            }})  # fmt: skip


@pytest.mark.parametrize("truth", [True, False])
def test_truth_values(truth: bool) -> None:
    array = np.arange(12.0).reshape(3, 4)
    keys: list[Any] = [truth, (truth, 1), (slice(None), truth, [2]), (Ellipsis, np.array(truth))]
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64")
        scalar = gx.placeholder((), "float64")
        asked = gx.placeholder((), "bool")
        known = gx.constant(np.array(truth))
        got = [[x.at[key].set(-1), x.at[key].add(2), x.at[key].divide(4)] for key in keys]
        ones = [scalar.at[key].set(3) for key in (truth, known, asked)]
        slope = gx.gradients(gx.sum(x.at[keys[1]].multiply(5)), x)
    results = gx.Session(graph).run([got, ones, slope], {x: array, scalar: 7, asked: truth})
    for key, (changed, more, less) in zip(keys, results[0], strict=True):
        np.testing.assert_array_equal(changed, updated("set", array, key, np.array(-1.0)))
        np.testing.assert_array_equal(more, updated("add", array, key, np.array(2.0)))
        np.testing.assert_array_equal(less, updated("divide", array, key, np.array(4.0)))
    assert results[1] == [3 if truth else 7] * 3
    np.testing.assert_array_equal(results[2], updated("set", np.ones((3, 4)), (truth, 1), 5.0))


def test_modes_of_what_is_out_of_range() -> None:
    array, numbers = np.arange(12.0).reshape(4, 3), np.array([5, -1, -9, 2, 4])
    values = np.arange(1.0, 6.0)[:, None] * np.ones(3)
    with gx.Graph() as graph:
        x, i = gx.placeholder((None, 3), "float64", name="x"), gx.placeholder((5,), "int64")
        u = gx.placeholder((5,), "uint64")
        v = gx.placeholder((5, 3), "float64")
        fetches = [
            x.at[i].get(mode="clip"), x.at[i].get(mode="wrap"), x.at[i].get(mode="fill"),
            x.at[i].set(v, mode="clip"), x.at[i].set(v, mode="drop"), x.at[i].add(v, mode="wrap"),
            x.at[u].add(v, mode="drop"), x.at[u].get(mode="fill", fill_value=-2),
            x.at[7].set(9.0, mode="drop"), x.at[7, -1].set(9.0, mode="clip"),
            gx.take(x, i, 0, "clip"), gx.take(x, i, 0, "fill", 0.5), gx.take(x, i, mode="wrap"),
            x.astype("int8").at[i, 0].get(mode="fill"), x.at[i, 1].add(v[:, 0], mode="drop"),
        ]  # fmt: skip
        slopes = gx.gradients(sum(gx.sum(gx.sin(y)) for y in fetches[2:7:2]), [x, v])
    clipped, wrapped = np.array([3, 3, 0, 2, 3]), numbers % 4
    unsigned = np.array([2**64 - 1, 2, 4, 0, 2**63], np.uint64)
    known, inside = np.array([1, 3]), np.array([3, 2])
    there = np.isin(np.arange(5), known)[:, None]
    assigned = array.copy()
    assigned[clipped] = values
    dropped, added, few = array.copy(), array.copy(), array.copy()
    dropped[inside] = values[known]
    np.add.at(added, wrapped, values)
    few[[2, 0]] += values[[1, 3]]
    read = np.where(np.isin(np.arange(5), [1, 3])[:, None], array[[0, 2, 0, 0, 0]], -2)
    last, column = array.copy(), array.copy()
    last[3, 2] = 9
    np.add.at(column, (inside, 1), values[known, 0])
    results = [
        array[clipped], array[wrapped], np.where(there, array[[0, 3, 0, 2, 0]], np.nan),
        assigned, dropped, added, few, read, array, last, array[[3, 0, 0, 2, 3]],
        np.where(there, array[[0, 3, 0, 2, 0]], 0.5), array.ravel()[numbers % 12],
        np.where(there[:, 0], array[[0, 3, 0, 2, 0], 0], -128).astype(np.int8), column,
    ]  # fmt: skip
    session, feeds = gx.Session(graph), {x: array, i: numbers, u: unsigned, v: values}
    got, found = session.run([fetches, slopes], feeds)
    for number, (result, wanted) in enumerate(zip(got, results, strict=True)):
        np.testing.assert_array_equal(result, wanted, err_msg=str(number))
    assert np.isfinite(found[1]).all()
    empty = {**feeds, x: np.zeros((0, 3))}
    for number in (2, 4, 6, 7, 8, 14):
        shape = got[number].shape if number in (2, 7) else (0, 3)
        assert session.run(fetches[number], empty).shape == shape
    with pytest.raises(gx.IndexRangeError, match="0"):
        session.run(fetches[0], empty)


def test_slices_that_begin_at_a_value() -> None:
    array = np.random.default_rng(0).normal(size=(6, 4))
    with gx.Graph() as graph:
        x, i = gx.placeholder((None, 4), "float64", name="x"), gx.placeholder((), "int64")
        fetches = [
            x[i : i + 2], x[i - 1 : i + 1], x[i : i + 2, 1:], x[2 * i : 2 * i + 2, [0, 1]],
            x.at[i : i + 2].set(7.0), x.at[i : i + 2, 0].add(1.0), x[i:i], x[i : i + 4 : 3],
        ]  # fmt: skip
        slope = gx.gradients(gx.sum(gx.sin(fetches[1])), x)
        for key in (slice(None, i), slice(i, 3), slice(i, i * 2), slice(i + 1, i - 1, -1)):
            with pytest.raises(gx.UnsupportedError, match="slice bound") as raised:
                x[key]
            assert "gx.dynamic_slice" in str(raised.value.hint)
    session = gx.Session(graph)
    for n in (1, 2):
        one, two = array.copy(), array.copy()
        one[n : n + 2] = 7
        two[n : n + 2, 0] += 1
        wanted = [
            array[n : n + 2], array[n - 1 : n + 1], array[n : n + 2, 1:],
            array[2 * n : 2 * n + 2, [0, 1]], one, two, array[n:n], array[n : n + 4 : 3],
        ]  # fmt: skip
        got, found = session.run([fetches, slope], {x: array, i: n})
        for result, expected in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(result, expected)
        expected = np.zeros_like(array)
        expected[n - 1 : n + 1] = np.cos(array[n - 1 : n + 1])
        np.testing.assert_allclose(found, expected)
    for n in (-1, 5):
        for fetch in (fetches[0], fetches[4]):
            with pytest.raises(gx.IndexRangeError, match="out of range for axis 0 of size 6"):
                session.run(fetch, {x: array, i: n})


def test_updates_that_do_not_fit_say_so() -> None:
    with gx.Graph():
        x, mask = gx.placeholder((3, 4), name="x"), gx.placeholder((3,), "bool")
        for build, error, text in [
            (lambda: x.at[0].set(1, mode="near"), gx.UnsupportedError, "mode 'near'"),
            (lambda: x.at[0].set(np.ones(7)), gx.ShapeError, "broadcast"),
            (lambda: x.at[[3]].set(1), gx.IndexRangeError, "out of range for axis 0 of size 3"),
            (lambda: x.at[mask, [0, 0]].set(1), gx.UnsupportedError, "mask beside index arrays"),
            (lambda: x.at[mask].set(np.ones((3, 4))), gx.ShapeError, "symbolic mask"),
            (lambda: x.at[[0, 1]].apply(gx.exp), gx.UnsupportedError, "named twice"),
            (lambda: x.astype("int8").at[0].set(0.5), gx.DTypeError, "Python float"),
            (lambda: x.astype("int8").at[0].set(x[0]), gx.DTypeError, "float32"),
            (lambda: x[mask], gx.UnsupportedError, "symbolic mask"),
            (lambda: x.__setitem__(0, 1), gx.UnsupportedError, "immutable"),
        ]:
            with pytest.raises(error, match=text) as raised:
                build()
            assert raised.value.where is not None and raised.value.where.filename == __file__


def test_updates_keep_the_old_value_and_write_where_it_dies() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        i = gx.placeholder((None,), "int32", name="i")
        made = [x.at[i].set(gx.arange(1, 6) * 1.0), x, x.at[1:].set(x[:-1]), x.at[::-1].set(x)]
        _, filled = gx.while_loop(
            lambda n, y: n < 3, lambda n, y: (n + 1, y.at[n].set(y[n - 1] + 1.0)), (0, x)
        )
    exe = gx.Session(graph).compile(filled, [x])
    np.testing.assert_array_equal(exe(np.array([0.0, 0, 0, 5])), [6, 7, 8, 5])
    array = np.array([3.0, 4, 5, 6])
    got = gx.Session(graph).run(made, {x: array, i: np.array([0, 1, 0, 1, 0], np.int32)})
    for result, wanted in zip(
        got, ([5, 4, 5, 6], array, [3, 3, 4, 5], [6, 5, 4, 3]), strict=True
    ):
        np.testing.assert_array_equal(result, wanted)


def test_products_at_one_place_have_derivatives_at_zeros() -> None:
    """Of a product only the element that is 0 has a slope, and of two only their second one."""
    with gx.Graph() as graph:
        x = gx.placeholder((2,), "float64", name="x")
        v = gx.placeholder((4,), "float64", name="v")
        y = gx.sum(x.at[[0, 0, 1, 0]].multiply(v))
        (slope,) = gx.gradients([y], [v])
        second = [gx.gradients(slope[n], v) for n in range(4)]
    base = np.array([2.0, 3.0])
    for values in ([2.0, 5.0, 7.0, 3.0], [0.0, 5.0, 7.0, 3.0], [0.0, 0.0, 7.0, 3.0]):
        got, curved = gx.Session(graph).run([slope, second], {x: base, v: np.array(values)})
        a, b, _, d = values
        np.testing.assert_allclose(got, [2 * b * d, 2 * a * d, 3, 2 * a * b])
        wanted = np.array([[0, d, 0, b], [d, 0, 0, a], [0, 0, 0, 0], [b, a, 0, 0]]) * 2
        np.testing.assert_allclose(np.array(curved), wanted)
