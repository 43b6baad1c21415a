"""Native matrix products: accuracy, exact bits on every path, all strides, and no stray access."""

from __future__ import annotations

import ctypes
import itertools
import mmap

import numpy as np
import pytest
from bits import assert_same_bits
from gemm_harness import (
    LAYOUTS,
    TARGETS,
    Array,
    every_float,
    every_target,
    laid_out,
    matrix,
    products,
)
from slow_parameters import slow_unless

from graphc.base.target import host
from graphc.base.tuning.machine import Tuning
from graphc.codegen.gemm import gemm_workspace_bytes
from graphc.ir.dtypes import COMPUTED, DType, float32, float64
from graphc.kernel.panels import depth_limit

SIZES = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33, 64, 100)


@every_target
@every_float
def test_small_products_are_the_chain_to_the_bit(dtype: DType, target: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(1)
    for m in SIZES:
        for n in SIZES:
            k = SIZES[(m * 7 + n) % len(SIZES)]
            a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
            expected = made.chain(a, b)
            assert_same_bits(made.product(a, b), expected)
            assert_same_bits(made.packed_product(a, b), expected)


def all_pairs_or_each(dtype: DType, target: str, left: str, right: str) -> bool:
    """All pairs of layouts for one kernel, and each on both sides for the others."""
    names = [*LAYOUTS]
    after = (names.index(left) + 1) % len(names)
    return (dtype is float32 and target == "host") or names.index(right) == after


@slow_unless(all_pairs_or_each)
@every_target
@every_float
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_every_layout(dtype: DType, target: str, left: str, right: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(2)
    sizes = ((1, 65, 40), (1, 300, 70), (4, 33, 9), (37, 1, 70), (13, 70, 33), (65, 131, 66))
    for m, n, k in sizes:
        a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
        expected = made.chain(a, b)
        a, b = laid_out(a, left), laid_out(b, right)
        assert_same_bits(made.product(a, b, gap=3), expected)
        assert_same_bits(made.packed_product(a, b, gap=3), expected)


@every_target
@every_float
@pytest.mark.parametrize(
    "sizes",
    [
        (9, 257, 1100),
        (1, 530, 2200),
        (130, 513, 600),
        (24, 2100, 70),
        (8, 4100, 40),
        (300, 1, 1100),
        (257, 30, 530),
    ],
)
def test_blocked_products(dtype: DType, target: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    made, generator = products(dtype, target), np.random.default_rng(3)
    a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
    expected = made.chain(a, b)
    for left in ("plain", "transposed"):
        for right in ("plain", "transposed"):
            x, y = laid_out(a, left), laid_out(b, right)
            assert_same_bits(made.product(x, y), expected)
            assert_same_bits(made.packed_product(x, y), expected)


def askew(array: Array, elements: int, gap: int = 0) -> Array:
    """A copy that begins so many elements behind a cache line, with a gap behind each row."""
    (k, n), size = array.shape, array.dtype.itemsize
    whole = np.full(k * (n + gap) + 64 // size + elements, np.nan, array.dtype)
    start = -whole.ctypes.data % 64 // size + elements
    view = whole[start : start + k * (n + gap)].reshape(k, n + gap)[:, :n]
    view[...] = array
    return view


@every_target
@every_float
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 2112, 70),
        (1, 1000, 131),
        (1, 27000, 9),
        (2, 256, 67),
        (5, 2080, 66),
        (8, 4096, 64),
        (23, 3072, 65),
    ],
)
def test_few_rows_wherever_the_right_operand_lies(
    dtype: DType, target: str, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    made, generator = products(dtype, target), np.random.default_rng(10)
    a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
    expected = made.chain(a, b)
    for elements in (0, 1, 4, 7):
        for gap in (0, 16, 5):
            assert_same_bits(made.product(a, askew(b, elements, gap), gap=3), expected)


@every_target
@every_float
def test_one_row_wherever_pages_of_the_right_operand_begin(dtype: DType, target: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(13)
    page = 4096 // dtype.bytes
    # rows of whole pages, rows that are parts of such, and both large enough to ask ahead
    for n, gap, k in ((2 * page, 0, 19), (3 * page - 7, 7, 9), (3 * page, page, 90)):
        a, b = matrix(generator, (1, k), dtype), matrix(generator, (k, n), dtype)
        b[:, ::3] = 0  # to which the least that was there before would show
        expected = made.chain(a, b)
        whole = np.empty(k * (n + gap) + 2 * page, b.dtype)
        first = -whole.ctypes.data % 4096 // dtype.bytes
        for elements in (0, 4, 16, page // 2, page // 2 + 5, page - 16, page - 1):
            start = first + elements
            placed = whole[start : start + k * (n + gap)].reshape(k, n + gap)[:, :n]
            placed[...] = b
            assert_same_bits(made.product(a, placed), expected)


@every_target
@every_float
@pytest.mark.parametrize(
    "sizes", [(1, 40, 1043), (2, 37, 1052), (5, 16, 1041), (6, 33, 1027), (1, 33, 131)]
)
def test_few_rows_wherever_contiguous_columns_lie(
    dtype: DType, target: str, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    made, generator = products(dtype, target), np.random.default_rng(12)
    a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
    expected = made.chain(a, b)
    for elements in (0, 1, 4, 7):
        for gap in (0, -k % 16, 5):
            assert_same_bits(made.product(a, askew(b.T, elements, gap).T, gap=3), expected)


@every_float
@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_of_what_no_cache_holds(dtype: DType, rows: int) -> None:
    made, generator = products(dtype, "host"), np.random.default_rng(11)
    n = 2500
    k = Tuning.of(host()).far_bytes // dtype.bytes // n + 1
    a, b = matrix(generator, (rows, k), dtype), matrix(generator, (k, n), dtype)
    assert_same_bits(made.product(a, askew(b, 4, 12)), made.chain(a, b))


@every_float
@pytest.mark.parametrize("k", [1100, 150])
def test_transposed_left_operand_packed_and_in_place(dtype: DType, k: int) -> None:
    made, generator = products(dtype, "host"), np.random.default_rng(4)
    a = laid_out(matrix(generator, (900, k), dtype), "transposed")
    b = matrix(generator, (k, 300), dtype)
    expected = made.chain(a, b)
    assert_same_bits(made.product(a, b), expected)
    assert_same_bits(made.packed_product(a, b), expected)


@every_target
@every_float
def test_a_row_has_the_same_bits_in_every_batch(dtype: DType, target: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(5)
    a, b = matrix(generator, (1000, 700), dtype), matrix(generator, (700, 65), dtype)
    whole = made.product(a, b)
    for m in (1, 2, 3, 4, 5, 6, 7, 8, 9, 64):
        assert_same_bits(made.product(a[-m:], b), whole[-m:])
        assert_same_bits(made.packed_product(a[-m:], b), whole[-m:])
    for n in (1, 2, 16, 17):
        assert_same_bits(made.product(a, b[:, :n]), whole[:, :n])


@every_target
@every_float
def test_accuracy(dtype: DType, target: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(6)
    for m, n, k in ((1, 100, 2000), (65, 70, 513), (100, 1, 300)):
        a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
        x, y = a.astype(np.longdouble), b.astype(np.longdouble)
        bound = 2 * k * np.finfo(dtype.numpy).eps * (np.abs(x) @ np.abs(y))
        assert (np.abs(made.product(a, b) - x @ y) <= bound).all()


@every_target
@every_float
def test_special_values_pass_as_in_sums(dtype: DType, target: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(7)
    for m, n, k in ((1, 37, 20), (5, 70, 31), (33, 67, 45), (40, 1, 20)):
        a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
        a[-1, 3], a[0, 5], b[7, -1], b[9, 0] = np.nan, np.inf, -np.inf, 0.0
        expected = made.chain(a, b)
        assert np.isnan(expected[-1]).all()
        for got in (made.product(a, b), made.packed_product(a, b)):
            assert_same_bits(got, expected)


@every_float
def test_a_sum_of_negative_zeros_is_positive_zero(dtype: DType) -> None:
    made = products(dtype, "host")
    for m, n in ((1, 40), (9, 40), (9, 1)):
        a, b = np.full((m, 3), -0.0, dtype.numpy), np.ones((3, n), dtype.numpy)
        for got in (made.product(a, b), made.packed_product(a, b)):
            assert not np.signbit(got).any()


@every_target
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_empty_products(dtype: DType, target: str) -> None:
    made = products(dtype, target)
    for m, n, k in ((0, 5, 3), (5, 0, 3), (0, 0, 0), (0, 3, 0), (3, 0, 0)):
        a, b = np.ones((m, k), dtype.numpy), np.ones((k, n), dtype.numpy)
        assert made.product(a, b).shape == (m, n)
        if dtype.is_float:
            assert made.packed_product(a, b).shape == (m, n)
    for m, n in ((1, 1), (3, 5), (1, 40), (40, 1), (20, 70)):
        a, b = np.ones((m, 0), dtype.numpy), np.ones((0, n), dtype.numpy)
        zeros = np.zeros((m, n), dtype.numpy)
        assert_same_bits(made.product(a, b, gap=2), zeros)
        if dtype.is_float:
            assert_same_bits(made.packed_product(a, b, gap=2), zeros)


@every_target
@pytest.mark.parametrize("dtype", [d for d in COMPUTED if not d.is_float], ids=str)
def test_integers_and_bools(dtype: DType, target: str) -> None:
    made, generator = products(dtype, target), np.random.default_rng(8)
    for m, n, k in ((1, 1, 1), (3, 70, 17), (9, 33, 40), (2, 5000, 3), (17, 1, 33)):
        a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
        expected = np.matmul(a, b)
        for left in LAYOUTS:
            for right in LAYOUTS:
                x, y = laid_out(a, left), laid_out(b, right)
                assert_same_bits(made.product(x, y, gap=1), expected)


def test_operands_at_the_end_of_a_page() -> None:
    """Nothing past the operands is read: the page that follows them is unreadable."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE
    made, generator = products(float32, "host"), np.random.default_rng(9)

    def at_end(array: Array) -> Array:
        size = -(-array.nbytes // page) * page
        block = mmap.mmap(-1, size + page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        assert libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(page), 0) == 0
        view = np.frombuffer(block, np.float32, array.size, size - array.nbytes)
        view = view.reshape(array.shape)
        view[...] = array
        return view

    for m, n, k in ((1, 33, 9), (8, 100, 17), (30, 45, 33), (50, 7, 21), (40, 1, 33), (9, 70, 600)):
        a, b = matrix(generator, (m, k), float32), matrix(generator, (k, n), float32)
        expected = made.chain(a, b)
        for left in (False, True):
            for right in (False, True):
                x = at_end(np.ascontiguousarray(a.T) if left else a)
                y = at_end(np.ascontiguousarray(b.T) if right else b)
                got = made.product(x.T if left else x, y.T if right else y)
                assert_same_bits(got, expected)


@every_target
@every_float
@pytest.mark.parametrize("sizes", [(1, 70, 9), (40, 100, 70), (200, 520, 30), (100, 300, 1100)])
def test_what_is_brought_near_is_not_read(
    sizes: tuple[int, int, int], dtype: DType, target: str
) -> None:
    # an address is only asked for, so it may lie anywhere, in memory or not
    m, n, k = sizes
    run = products(dtype, target)
    generator = np.random.default_rng(7)
    a, b = matrix(generator, (m, k), dtype), matrix(generator, (k, n), dtype)
    beside = matrix(generator, (m, n), dtype)
    places = [beside.ctypes.data, 0, 8, 2**46]
    near = np.array([(place, n * dtype.bytes) for place in places], np.int64)
    for left in (a, laid_out(a, "transposed")):
        expected = run.chain(left, b)
        assert_same_bits(run.product(left, b, near=near), expected)
        assert_same_bits(run.packed_product(left, b, near=near), expected)


def test_workspace_bound_grows_with_every_size() -> None:
    for dtype in (float32, float64):
        sizes = (1, 5, 30, 300, 600, 5000)
        for target in TARGETS.values():
            for small, large in itertools.pairwise(sizes):
                for others in ((7, 7), (700, 700)):
                    for place in range(3):
                        low, high = list(others), list(others)
                        low.insert(place, small)
                        high.insert(place, large)
                        assert gemm_workspace_bytes(dtype, target, *low) <= (
                            gemm_workspace_bytes(dtype, target, *high)
                        )
    assert gemm_workspace_bytes(float32, host(), 0, 4, 4) == 0


@pytest.mark.parametrize("packs", [*itertools.product((False, True), repeat=2)])
def test_workspace_is_convex_in_the_depth(packs: tuple[bool, bool]) -> None:
    for target in TARGETS.values():
        limit = depth_limit(float32, target)
        for m, n in ((3, 900), (20, 5000), (88, 512), (700, 7)):
            sizes = [
                gemm_workspace_bytes(
                    float32, target, m, n, k, packs_left=packs[0], packs_right=packs[1]
                )
                for k in (1, *range(limit // 8, limit + 1, limit // 8), limit + 5)
            ]
            assert sizes[-1] == sizes[-2]
            for k, size in zip(range(limit // 8, limit, limit // 8), sizes[1:-2], strict=True):
                chord = sizes[0] + (sizes[-1] - sizes[0]) * (k - 1) / (limit - 1)
                assert size <= chord + 64  # what rounding up to a line may add
