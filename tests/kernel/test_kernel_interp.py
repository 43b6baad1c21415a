"""The interpreter of kernels against NumPy and against the definition of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_samples import (
    GENERATOR,
    N,
    best_places,
    column_sums,
    cumulative_sum,
    first_terms,
    normal,
    packed_product,
    padded,
    pointwise,
    product,
    scatter_add,
    softmax,
    tensor,
    whole,
)

from graphc.base.errors import VerifyError
from graphc.ir.dtypes import ALL, DType, bool_, float32, float64, int32, int64
from graphc.ir.lowering import Combine
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.interp import CheckFailure, run_kernel
from graphc.kernel.ir import CHUNK, LEVELS, Order, lanes, walk
from graphc.kernel.panels import pack
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import print_kernel
from graphc.kernel.scalar import PRIMITIVES
from graphc.kernel.statements.scalars import Check
from graphc.kernel.verify import verify_kernel


@pytest.mark.parametrize("rows", [1, 3, 20_000])
def test_pointwise(rows: int) -> None:
    x, y = normal(rows, 48), np.empty((rows, 48), np.float32)
    assert run_kernel(pointwise(), [x, np.array(2.5, np.float32), y], {"n": rows}) == []
    assert np.array_equal(y, x * np.float32(2.5) + np.float32(0.1))


def test_reductions_of_sizes_that_the_kernel_works_out() -> None:
    x, y = np.ones((70, 70), np.float32), np.empty(70, np.float32)
    assert run_kernel(first_terms(), [x, y], {}) == []
    assert y.tolist() == [*range(68), 68, 68]


@pytest.mark.parametrize("rows", [1, 17, 9000])
def test_softmax_in_stages(rows: int) -> None:
    x, y = normal(rows, 64), np.empty((rows, 64), np.float32)
    assert run_kernel(softmax(), [x, y, None], {"n": rows}) == []
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, wide / wide.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("order", ["chain", "lanes"])
@pytest.mark.parametrize("rows", [1, 64, 70, 5000])
def test_column_sums(order: Order, rows: int) -> None:
    x, y = normal(rows, 5), np.empty(5, np.float32)
    run_kernel(column_sums(order), [x, y], {"n": rows})
    np.testing.assert_allclose(y, x.sum(axis=0, dtype=np.float64), rtol=1e-4, atol=1e-4)
    assert y[2] == cascade(x[:, 2], lanes(float32) if order == "lanes" else 1)


def test_cumulative_sum_wraps() -> None:
    x = GENERATOR.integers(-(2**31), 2**31, (7, 90), dtype=np.int32)
    y, last = np.empty_like(x), np.empty(7, np.int32)
    run_kernel(cumulative_sum(), [x, y, last], {"n": 90})
    expected = np.cumsum(x, axis=1, dtype=np.int32)
    assert np.array_equal(y, expected) and np.array_equal(last, expected[:, -1])


def test_scatter_add_and_its_check() -> None:
    places = np.array([1, 3, 1, -1, 0, 1])
    updates, y = normal(6, 3), np.empty((4, 3), np.float32)
    assert run_kernel(scatter_add(), [updates, places, y], {"n": 6}) == []
    expected = np.zeros((4, 3), np.float32)
    np.add.at(expected, places, updates)
    assert np.array_equal(y, expected)
    places[[2, 4]] = 4, -5
    failures = run_kernel(scatter_add(), [updates, places, y], {"n": 6})
    (site,) = {s.site for s in walk(scatter_add().body) if isinstance(s, Check)}
    assert failures == [CheckFailure(site, 4, 4, (0, 2))]


@pytest.mark.parametrize("dtype", [float32, float64, int32])
def test_product(dtype: DType) -> None:
    x = (GENERATOR.standard_normal((3, 5, 6)) * 1e5).astype(dtype.numpy)
    w = (GENERATOR.standard_normal((4, 6)) * 1e5).astype(dtype.numpy)
    y = np.empty((3, 5, 4), dtype.numpy)
    run_kernel(product(dtype), [x, w, y, None], {"n": 5})
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-3)


@pytest.mark.parametrize("dtype", [float32, float64])
def test_product_of_panels(dtype: DType) -> None:
    x = GENERATOR.standard_normal((5, 7)).astype(dtype.numpy)
    w = GENERATOR.standard_normal((7, 10)).astype(dtype.numpy)
    y = np.empty((5, 10), dtype.numpy)
    kernel = packed_product(dtype)
    verify_kernel(kernel)
    run_kernel(kernel, [x, pack(w, 4, 3), y], {"n": 5})
    np.testing.assert_allclose(y, x @ w, rtol=1e-3)
    text = print_kernel(kernel)
    for right, wrong in (("[3, 3, 3, 4]", "[2, 3, 3, 4]"), ("4, 1]\n", "3, 1]\n")):
        assert right in text
        with pytest.raises(VerifyError):
            verify_kernel(parse_kernel(text.replace(right, wrong)))


@pytest.mark.parametrize("size", [1, 31, 100])
def test_best_places_with_nan(size: int) -> None:
    x = GENERATOR.integers(-3, 3, (4, size)).astype(np.float32)
    x[1, size // 2 :] = np.nan
    x[2] = -np.inf
    x[3] = np.where(np.arange(size) % 2, 0.0, -0.0)
    low, high = np.empty(4, np.int64), np.empty(4, np.int64)
    run_kernel(best_places(), [x, low, high], {"n": size})
    assert np.array_equal(low, x.argmin(axis=1)) and np.array_equal(high, x.argmax(axis=1))
    assert low[1] == high[1] == size // 2


def test_guarded_loads() -> None:
    x, y = np.arange(5.0), np.empty(9)
    run_kernel(padded(), [x, y], {"n": 5})
    assert y.tolist() == [-1.5, -1.5, 0, 1, 2, 3, 4, -1.5, -1.5]


def cascade(terms: Any, width: int) -> Any:
    """The definition, literally, one addition after the other."""
    kind = terms.dtype.type
    steps = len(terms) // width
    totals = []
    for lane in range(width):
        levels = [kind(-0.0) for _ in range(LEVELS)]
        for step in range(steps):
            levels[0] = levels[0] + terms[step * width + lane]
            filled = step + 1
            for level in range(LEVELS - 1):
                if filled % CHUNK:
                    break
                filled //= CHUNK
                levels[level + 1] = levels[level + 1] + levels[level]
                levels[level] = kind(-0.0)
        total = levels[0]
        for level in levels[1:]:
            total = level + total
        totals.append(total)
    while len(totals) > 1:
        half = len(totals) // 2
        totals = [a + b for a, b in zip(totals[:half], totals[half:], strict=True)]
    rest = kind(-0.0)
    for term in terms[steps * width :]:
        rest = rest + term
    return totals[0] + rest if len(terms) else kind(0.0)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(
    ("order", "size"),
    [("chain", n) for n in (0, 1, 63, 64, 65, 4097, 12_400)]
    + [("lanes", n) for n in (0, 1, 15, 16, 33, 2048, 2079, 140_001)],
)
def test_sums_follow_the_definition_to_the_bit(dtype: DType, order: Order, size: int) -> None:
    x = GENERATOR.standard_normal(size).astype(dtype.numpy)
    y = np.empty((), dtype.numpy)
    run_kernel(whole(dtype, "add", N if size else 0, order), [x, y], {"n": size})
    expected = cascade(x, lanes(dtype) if order == "lanes" else 1)
    assert y.tobytes() == expected.tobytes()


def test_signs_of_zero() -> None:
    y = np.empty((), np.float32)
    minus = np.full(3, -0.0, np.float32)
    both = np.array([0.0, -0.0, 0.0], np.float32)
    for combine, x, negative in (
        ("add", minus, True), ("add", both, False), ("minimum", both, True),
        ("maximum", both, False), ("maximum", minus, True),
    ):  # fmt: skip
        run_kernel(whole(float32, combine, 3, "lanes"), [x, y], {})  # type: ignore[arg-type]
        assert y == 0 and bool(np.signbit(y)) is negative, combine


EMPTY: list[tuple[Combine, DType, Any]] = [
    ("add", float32, 0.0), ("multiply", float64, 1.0), ("minimum", float32, np.inf),
    ("maximum", int32, -(2**31)), ("and", int32, -1), ("and", bool_, True), ("or", bool_, False),
    ("minimum", bool_, True),
]  # fmt: skip


@pytest.mark.parametrize(("combine", "dtype", "expected"), EMPTY)
def test_reductions_of_nothing(combine: Combine, dtype: DType, expected: Any) -> None:
    y = np.empty((), dtype.numpy)
    run_kernel(whole(dtype, combine, 0, "chain"), [np.empty(0, dtype.numpy), y], {})
    assert y == expected and not np.signbit(np.float64(y) + 0.0 if expected == 0 else 0.0)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("combine", ["add", "multiply", "minimum", "maximum", "argmax"])
def test_reductions_of_every_dtype(dtype: DType, combine: Combine) -> None:
    x = GENERATOR.integers(0, 4 if dtype.is_float else 100, 50).astype(dtype.numpy)
    result = int64 if combine == "argmax" else dtype
    y = np.empty((), result.numpy)
    run_kernel(whole(dtype, combine, 50, "lanes", result), [x, y], {})
    if combine == "argmax":
        assert y == x.argmax()
    elif not dtype.is_float:
        assert y == getattr(np, combine).reduce(x, dtype=dtype.numpy)
    else:
        np.testing.assert_allclose(y, getattr(np, combine).reduce(x), rtol=1e-6)


def test_scratch_lasts_between_serial_iterations_of_each_row() -> None:
    b = KernelBuilder("recurrence")
    x = b.buffer("x", "in", tensor(float32, N, 6, 4))
    y = b.buffer("y", "out", tensor(float32, N, 4))
    state = b.buffer("state", "scratch", tensor(float32, 4))
    half = b.constant(0.5, float32)
    with b.loop(N, "parallel") as i:
        with b.loop(4, "vector") as j:
            b.store(state, j.index, b.constant(0.0, float32))
        with b.loop(6, "serial") as t, b.loop(4, "vector") as j:
            row = b.apply("add", b.apply("multiply", i.index, b.constant(6, int64)), t.index)
            index = b.apply("add", b.apply("multiply", row, b.constant(4, int64)), j.index)
            old = b.apply("multiply", b.load(state, j.index), half)
            b.store(state, j.index, b.apply("add", old, b.load(x, index)))
        with b.loop(4, "vector") as j:
            place = b.apply("add", b.apply("multiply", i.index, b.constant(4, int64)), j.index)
            b.store(y, place, b.load(state, j.index))
    data, out = normal(9, 6, 4), np.empty((9, 4), np.float32)
    run_kernel(b.finish(), [data, out, None], {"n": 9})
    expected = np.zeros((9, 4), np.float32)
    for step in range(6):
        expected = expected * np.float32(0.5) + data[:, step]
    assert np.array_equal(out, expected)


def test_a_serial_loop_ends_where_its_condition_is_false() -> None:
    b = KernelBuilder("doubling")
    x = b.buffer("x", "in", tensor(int64, 1))
    y = b.buffer("y", "out", tensor(int64, 2))
    zero, one, limit = (b.constant(number, int64) for number in (0, 1, 100))
    first = b.load(x, zero)
    with b.loop(50, "serial", (first, zero, b.apply("less", first, limit))) as trip:
        value, count, lasts = trip.arguments
        value, count = b.apply("add", value, value), b.apply("add", count, one)
        trip.following = (value, count, b.apply("less", value, limit))
        trip.lasts = lasts
    for place, result in zip((zero, one), trip.results, strict=False):
        b.store(y, place, result)
    kernel = b.finish()
    verify_kernel(kernel)
    assert "while %" in str(print_kernel(kernel))
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    for start, expected in ((3, (192, 6)), (100, (100, 0)), (0, (0, 50))):
        out = np.zeros(2, np.int64)
        run_kernel(kernel, [np.array([start]), out], {})
        assert tuple(out) == expected


def test_scratch_is_shared_where_nests_hand_it_on() -> None:
    b = KernelBuilder("partial sums")
    x = b.buffer("x", "in", tensor(int64, 8, 10))
    y = b.buffer("y", "out", tensor(int64))
    partial = b.buffer("partial", "scratch", tensor(int64, 8))
    with b.loop(8, "parallel") as c:
        start = b.apply("multiply", c.index, b.constant(10, int64))
        with b.reduce(10, "chain") as part:
            part.terms.append(("add", b.load(x, b.apply("add", start, part.index))))
        b.store(partial, c.index, part.results[0])
    with b.reduce(8, "chain") as total:
        total.terms.append(("add", b.load(partial, total.index)))
    b.store(y, b.constant(0, int64), total.results[0])
    data, out = np.arange(80).reshape(8, 10), np.empty((), np.int64)
    run_kernel(b.finish(), [data, out, None], {})
    assert out == data.sum()


def test_accesses_outside_a_buffer_are_named() -> None:
    b = KernelBuilder("gather")
    x = b.buffer("x", "in", tensor(float32, 4))
    places = b.buffer("places", "in", tensor(int64, 3))
    y = b.buffer("y", "out", tensor(float32, 3))
    with b.loop(3, "vector") as i:
        b.store(y, i.index, b.load(x, b.load(places, i.index)))
    kernel = b.finish()
    arrays = [normal(4), np.array([0, 7, 1]), np.empty(3, np.float32)]
    with pytest.raises(VerifyError, match="index 7 is outside buffer 'x' of 4 elements"):
        run_kernel(kernel, arrays, {})


def test_arguments_are_checked() -> None:
    kernel = pointwise()
    x, s, y = normal(2, 48), np.array(1, np.float32), np.empty((2, 48), np.float32)
    frozen = y.copy()
    frozen.flags.writeable = False
    for arrays, dims, problem in (
        ([x, s], {"n": 2}, "2 arrays for 3"),
        ([x, s, y], {}, "no value"),
        ([x, s, y], {"n": 3}, "the array is"),
        ([x.astype(np.float64), s, y], {"n": 2}, "the array is"),
        ([np.asfortranarray(x), s, y], {"n": 2}, "not contiguous"),
        ([x, s, frozen], {"n": 2}, "read-only"),
    ):
        with pytest.raises(VerifyError, match=problem):
            run_kernel(kernel, arrays, dims)


def test_empty_loops_do_nothing() -> None:
    x, y = np.empty((7, 0), np.int32), np.empty((7, 0), np.int32)
    kernel = parse_kernel(print_kernel(cumulative_sum()).replace(" dims (n: 1..1000000)", ""))
    last = np.ones(7, np.int32)
    run_kernel(kernel, [x, y, last], {"n": 0})
    assert not last.any()


def test_integer_power_is_total() -> None:
    base = np.array([2, -1, -1, 1, 0, -3, 3], np.int32)
    exponent = np.array([-1, -3, -2, -9, -1, 3, 0], np.int32)
    result = PRIMITIVES["integer_power"].reference(base, exponent)
    assert result.tolist() == [0, -1, 1, 1, 0, -27, 1]
    two, many = np.array([2], np.uint64), np.array([63], np.uint64)
    wide = PRIMITIVES["integer_power"].reference(two, many)
    assert wide.dtype == np.uint64 and wide.tolist() == [2**63]
