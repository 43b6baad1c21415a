"""Graphs of the cases about shapes, broadcasting, slices, fusion and the reuse of memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from cases.measure import MEGABYTE
from cases.registry import CaseRun, case


@case("red-empty-axis")
def reduce_empty_axes(run: CaseRun) -> list[Any]:
    x, e, z = run.input("x"), run.input("e"), run.input("z")
    return run.fetch(
        [
            gx.sum(x, axis=1),
            gx.sum(x, axis=1, keepdims=True),
            gx.prod(x, axis=1),
            gx.mean(x, axis=1),
            gx.any(x > 0, axis=1),
            gx.all(x > 0, axis=1),
            gx.sum(e),
            gx.prod(e),
            gx.sum(z, axis=0),
            gx.sum(z),
            gx.sum(x, axis=(0, 2)),
        ]
    )


@case("red-no-axes")
def reduce_no_axes(run: CaseRun) -> list[Any]:
    x, s = run.input("x"), run.input("s")
    return run.fetch(
        [
            gx.sum(x, axis=()),
            gx.max(x, axis=()),
            gx.sum(s),
            gx.max(s),
            gx.argmax(s),
            gx.sum(x, axis=1),
            gx.sum(x, axis=1, keepdims=True),
            gx.mean(x, axis=(0, -1)),
            gx.mean(s, keepdims=True),
        ]
    )


@case("bc-runtime-one", feeds_only=True)
def broadcast_at_run_time(run: CaseRun) -> list[Any]:
    one, five = run.inputs["x"], run.inputs["y"]
    x = gx.placeholder((None,), "float64", name="x")
    y = gx.placeholder((None,), "float64", name="y")
    total = x + y
    with gx.Session() as session:
        pairs = [(one, five), (five, one), (one, one), (five, five)]
        outputs = [session.run(total, {x: first, y: second}) for first, second in pairs]
        with pytest.raises(gx.GraphcError) as raised:
            session.run(total, {x: np.zeros(2), y: np.zeros(3)})
        assert isinstance(raised.value, ValueError)
        message = str(raised.value)
        assert "2" in message and "3" in message
        assert Path(__file__).name in message, "the error does not name the user's line"
        run.agree([session.run(total, {x: one, y: five})], run.expected[:1])
        assert session.compile_count == 1
    return outputs


@case("sh-reshape-zero")
def reshape_with_zero(run: CaseRun) -> list[Any]:
    z, x, s = run.input("z"), run.input("x"), run.input("s")
    outputs = run.fetch(
        [
            gx.reshape(z, (-1, 3)),
            gx.reshape(z, (3, 0)),
            gx.reshape(x, (-1,)),
            gx.reshape(s, (1, 1)),
            gx.reshape(x, (3, -1, 1)),
        ]
    )
    for value, shape in ((z, (0, -1)), (x, (4, -1)), (x, (-1, -1))):
        with pytest.raises(gx.ShapeError) as raised:
            gx.reshape(value, shape)
        message = str(raised.value)
        assert "reshape" in message and Path(__file__).name in message
        assert "-1" in message
    unknown = gx.placeholder((None, None), "float64")
    with gx.Session() as session:
        with pytest.raises(gx.GraphcError) as raised:
            session.run(gx.reshape(unknown, (4, -1)), {unknown: run.inputs["x"]})
        assert isinstance(raised.value, ValueError)
        assert "reshape" in str(raised.value) and Path(__file__).name in str(raised.value)
        fits = session.run(gx.reshape(unknown, (4, -1)), {unknown: np.zeros((2, 6))})
        run.agree([fits], [np.zeros((4, 3))])
    return outputs


@case("sh-transpose-size1")
def transpose_around_size_one(run: CaseRun) -> list[Any]:
    x, w = run.input("x"), run.input("w")
    channels_first = gx.transpose(x, (0, 3, 1, 2))
    first, second = gx.split(channels_first, 2, axis=1)
    return run.fetch(
        [
            channels_first,
            first,
            gx.transpose(second, (0, 2, 3, 1)),
            gx.mean(channels_first, axis=(2, 3)) @ w,
            gx.reshape(channels_first, (2, 8)) @ w,
            gx.squeeze(channels_first, axis=(2, 3)),
        ]
    )


@case("sh-stack-axis")
def stack_on_every_axis(run: CaseRun) -> list[Any]:
    a, b, s, t, z = (run.input(name) for name in "abstz")
    axes = (0, 1, -1, -2)
    return run.fetch(
        [
            *(gx.stack([a, b], axis=axis) for axis in axes),
            *(gx.take(gx.stack([a, b], axis=axis), 0, axis=axis) for axis in axes),
            gx.stack([s, t]),
            gx.stack([s, t])[1],
            gx.concatenate([a, z, b]),
            gx.concatenate([z, z]),
        ]
    )


@case("sl-merge")
def slices_of_slices(run: CaseRun) -> list[Any]:
    x = run.input("x")
    largest = 2**63 - 1
    return run.fetch(
        [
            x[::-1][1:5:2],
            x[::-1][::-2][1:],
            x[2:15:3][-1:0:-1],
            x[5:2],
            x[-1850:-1849],
            x[-1850:largest:43],
            x[10:-30:-4],
            x[::-7][::-1],
            x[3:3][::-1],
            x[-3:][:-1],
            x[:100:100],
            x[19::-1][:0],
        ]
    )


@case("sl-stack-math")
def column_through_three_formulas(run: CaseRun) -> list[Any]:
    c, y, a, b = run.input("c"), run.input("y"), run.input("a"), run.input("b")
    x = c[..., 16]

    def softplus(value: Any) -> Any:
        return gx.maximum(value, 0) + gx.log1p(gx.exp(-gx.abs(value)))

    formulas = [softplus(x) + a[None], gx.tanh(x * b[None]), softplus(x) * gx.log(softplus(y))]
    return run.fetch([gx.stack(formulas, axis=-1)])


@case("sh-einsum-ellipsis")
def normalise_by_the_rest(run: CaseRun) -> list[Any]:
    x, scale = run.input("x"), run.input("L")
    weights = gx.exp(-(x * scale[:, None, None, None]))
    total = gx.sum(weights, axis=(1, 2, 3))
    return run.fetch([weights / total[:, None, None, None], total])


@case("sh-int64-dims", feeds_only=True)
def dims_beyond_32_bits(run: CaseRun) -> list[Any]:
    tracemalloc.start()
    try:
        pieces = [gx.placeholder((2**30,), "float32") for _ in range(4)]
        joined = gx.concatenate(pieces)
        row, column = gx.placeholder((2**16,)), gx.placeholder((2**16,))
        product = gx.outer(row, column)
        with pytest.raises(gx.GraphcError) as raised:
            gx.outer(gx.placeholder((2**32,)), gx.placeholder((2**32,)))
        assert isinstance(raised.value, ValueError | OverflowError)
        assert str(2**32) in str(raised.value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * MEGABYTE
    return [np.array(joined.shape), np.array(product.shape), np.array(product.size)]


@case("ix-index-add-scale")
def index_add_to_zeros(run: CaseRun) -> list[Any]:
    s = run.input("s")
    base = gx.constant(np.zeros(1))
    # The gradient of picking elements adds the incoming gradient at their places.
    picked = gx.take(base, gx.constant(np.array([0])), axis=0)
    added = base + gx.gradients(picked, base, grad_ys=2.0 * s)
    outputs = run.fetch([added / 2.0, s])
    run.agree(outputs[:1], outputs[1:])
    return outputs


@case("sl-useless")
def slices_to_fed_bounds(run: CaseRun) -> list[Any]:
    x, y = run.input("x"), run.input("y")
    # a bound that is fed is a size: that of a placeholder, which nothing else reads
    bound = gx.placeholder(("n",), "bool")
    n = bound.shape[0]
    ahead, behind = x[0:n], x[0:-n]
    fetches = [ahead, behind, x[::-1], x[0 : x.shape[0] : 1], y[:, ::-1], y[::-1]]
    with gx.Session() as session:
        first, last = ([], [])
        for size in (3, 5, 9, 0, 2):
            arrays = session.run(fetches, {**run.feeds, bound: np.zeros(size, bool)})
            first.append(arrays[0])
            last.append(arrays[1])
    # of a number that is computed the length is unknown: the error shows what there is
    number = gx.placeholder((), "int64")
    with pytest.raises(gx.UnsupportedError) as raised:
        x[0:number]
    assert "gx.dynamic_slice" in str(raised.value) and "gx.where" in str(raised.value)
    return [*first[:4], last[4], *arrays[2:]]


@case("sh-overlap-set")
def set_slices_from_themselves(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([x.at[1:].set(x[:-1]), x.at[:-1].set(x[1:]), x.at[:].set(x[::-1]), x])


@case("ix-adv-mixed")
def mixed_advanced_indexing(run: CaseRun) -> list[Any]:
    x, m, o = run.input("x"), run.input("m"), run.input("o")
    if run.constants:
        chosen = x[m]
    else:
        with pytest.raises(gx.UnsupportedError) as raised:
            x[m]
        assert "gx.where" in str(raised.value) and "gx.compress" in str(raised.value)
        chosen = gx.compress(m, x, axis=0, size=2)
    return run.fetch(
        [
            x[[0, 2], :, [1, 1]],
            x[..., None],
            chosen,
            gx.sum(gx.where(m[:, None, None], x, 0.0), axis=0),
            gx.take_along_axis(x[:, :, 0], o, 1),
            x[np.array([], int)],
        ]
    )


@case("ix-scatter-set-dup")
def set_places_named_twice(run: CaseRun) -> list[Any]:
    x, i, v = run.input("x"), run.input("i"), run.input("v")
    return run.fetch([x.at[i].set(v), x])


@case("mem-aliased-feeds", feeds_only=True)
def feeds_that_share_memory(run: CaseRun) -> list[Any]:
    x, y, a, b = (run.input(name) for name in "xyab")
    assert np.shares_memory(run.feeds[x], run.feeds[y])
    assert np.shares_memory(run.feeds[a], run.feeds[b])
    outputs = run.fetch([x * 2, y * 2, a - b, a + b, y])
    run.agree([run.inputs["y"]], [np.ones((2, 5))])
    array = np.asarray(run.inputs["a"])
    with gx.Session() as session:
        same = session.run([a - b, a + b], {a: array, b: array})
    run.agree(same, [np.zeros(9), 2 * np.arange(9.0)])
    return outputs


@case("mem-reduce-then-use")
def reduce_then_use(run: CaseRun) -> list[Any]:
    x = run.input("x")
    y = x @ x.T
    a = x - gx.max(x, axis=1, keepdims=True)
    b = (x - gx.mean(x, axis=0)) / gx.std(x, axis=0)
    return run.fetch([a, b, x / gx.sum(x), y - gx.max(y), a @ b + y])


@case("mem-concat-reuse")
def pieces_used_after_concatenation(run: CaseRun) -> list[Any]:
    x = run.input("x")
    a, b = x + 1, x * 2
    c = gx.concatenate([a, b, a])
    return run.fetch([c, a * c[:5], c[5:10] - b, gx.concatenate([a]), a])


@case("mem-garbage", feeds_only=True)
def poisoned_arena(run: CaseRun) -> list[Any]:
    a, v = run.input("a"), run.input("v")
    left = gx.placeholder((8, None), "float64", name="left")
    right = gx.placeholder((None, 8), "float64", name="right")
    scattered = gx.gradients(gx.take(v, gx.constant(np.array([1, 1, 3])), axis=0), v)
    fetches = [a @ a, a @ v, gx.outer(v, v), a[:, :0] @ a[:0, :], gx.pad(a, 1)]
    fetches += [left @ right, scattered]

    def feeds(fill: float, depth: int) -> dict[Any, Any]:
        shapes = {a: (8, 8), v: (8,), left: (8, depth), right: (depth, 8)}
        return {value: np.full(shape, fill) for value, shape in shapes.items()}

    with gx.Session() as session:
        poisoned = session.run(fetches, feeds(np.nan, 8))
        assert np.isnan(poisoned[0]).all() and np.isnan(poisoned[5]).all()
        outputs = session.run(fetches, feeds(1.0, 0) | run.feeds)
    counts = np.array([0.0, 2, 0, 1, 0, 0, 0, 0])
    run.agree(outputs[5:], [np.zeros((8, 8)), counts])
    return list(outputs[:5])


@case("fus-blowup")
def deep_diamond(run: CaseRun) -> list[Any]:
    x = run.input("x")

    def build(doublings: int, blends: int) -> list[Any]:
        doubled, blended = x, x
        for _ in range(doublings):
            doubled = doubled + doubled
        for _ in range(blends):
            blended = gx.tanh(blended) * 0.5 + blended * 0.5
        return [doubled, blended]

    if not run.constants:
        with gx.Session() as session:
            half, whole = (
                len(session.compile(build(depth + depth // 5, depth), [x]).llvm_ir())
                for depth in (25, 50)
            )
        assert whole < 3 * half, "the size of the code is not linear in the depth"
    return run.fetch(build(60, 50))


@case("nn-pad")
def pad_modes(run: CaseRun) -> list[Any]:
    x, widths = run.input("x"), ((0, 1), (2, 0))
    return run.fetch(
        [
            gx.pad(x, widths),
            gx.pad(x, widths, constant_values=-np.inf),
            gx.pad(x, widths, mode="edge"),
            gx.pad(x, widths, mode="reflect"),
            gx.pad(x, ((0, 0), (-1, 0))),
            gx.pad(x.astype("int8"), 1, constant_values=-7),
        ]
    )
