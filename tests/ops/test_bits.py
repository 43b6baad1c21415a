"""Bits: packed, counted, as other dtypes; setxor1d and extract. Against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from slow_parameters import slow_unless

import graphc as gx
from graphc.ir.dtypes import ALL, INTEGERS, STORAGE, DType, bfloat16, bool_, float16


def run(function: Any, *arrays: Any) -> Any:
    with gx.Graph() as graph:
        operands = [gx.placeholder((None,) * array.ndim, array.dtype) for array in arrays]
        result = function(*operands)
    return gx.Session(graph).run(result, dict(zip(operands, arrays, strict=True)))


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("shape", [(0,), (1,), (8,), (19,), (3, 17), (0, 5), (17, 2)])
def test_bits_are_packed_as_in_numpy(shape: tuple[int, ...], bitorder: Any) -> None:
    rng = np.random.default_rng(3)
    bits, words = rng.random(shape) < 0.5, rng.integers(0, 256, shape).astype("uint8")
    for axis in (None, *range(len(shape)), -1):
        got = run(lambda v, axis=axis: gx.packbits(v, axis, bitorder), bits)
        wanted = np.packbits(bits, axis, bitorder)
        assert got.dtype == np.uint8 and np.array_equal(got, wanted)
        got = run(lambda v, axis=axis: gx.unpackbits(v, axis, bitorder=bitorder), words)
        wanted = np.unpackbits(words, axis, bitorder=bitorder)
        assert got.dtype == np.uint8 and np.array_equal(got, wanted)


def test_how_many_bits_are_kept_and_what_is_refused() -> None:
    words = np.arange(40, dtype="uint8").reshape(4, 10)
    for count in (0, 5, 77, -3):
        got = run(lambda v, count=count: gx.unpackbits(v, 1, count), words)
        assert np.array_equal(got, np.unpackbits(words, 1, count))
    assert np.array_equal(run(gx.packbits, np.array([0, -3, 7, 0])), np.packbits([0, 1, 1, 0]))
    with gx.Graph():
        with pytest.raises(gx.DTypeError, match="bools or integers"):
            gx.packbits(gx.placeholder((3,)))
        with pytest.raises(gx.DTypeError, match="takes uint8"):
            gx.unpackbits(gx.placeholder((3,), "int8"))
        with pytest.raises(gx.DTypeError, match="bitorder"):
            gx.packbits(gx.placeholder((3,), "bool"), bitorder="middle")
        with pytest.raises(gx.DTypeError, match="takes integers"):
            gx.clz(gx.placeholder((3,)))


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_leading_zeros(element: Any) -> None:
    bits, info = element.bits, np.iinfo(element.numpy)
    numbers = [0, 1, 2, 3, 100, info.max, info.min, info.max // 2]
    wanted = [bits - (number % 2**bits).bit_length() for number in numbers]
    got = run(gx.clz, np.array(numbers, element.numpy))
    assert got.dtype == element.numpy and list(got) == wanted


def test_what_one_of_two_vectors_has_alone() -> None:
    x, y = np.array([3, 1, 7, 7, 2, -5]), np.array([[2, 9], [3, 9]])
    got = run(lambda a, b: gx.setxor1d(a, b, size=6, fill_value=99), x, y)
    assert list(got) == [*np.setxor1d(x, y), 99, 99]
    assert list(run(lambda a, b: gx.setxor1d(a, b, size=2), x, y)) == [-5, 1]
    lone = run(lambda a, b: gx.setxor1d(a, b, size=3), np.array([np.nan, 1.0]), np.array([1.0, 2]))
    assert np.array_equal(lone, [2, np.nan, 0], equal_nan=True)
    with gx.Graph(), pytest.raises(gx.UnsupportedError, match="setxor1d"):
        gx.setxor1d(gx.placeholder((3,)), [1.0])


def test_extract_of_known_masks_and_of_others() -> None:
    x = np.arange(12.0).reshape(3, 4)
    mask = x % 3 == 1
    assert np.array_equal(run(lambda v: gx.extract(mask, v), x), np.extract(mask, x))
    assert np.array_equal(run(lambda v: gx.extract(mask.tolist(), v), x), np.extract(mask, x))
    assert np.array_equal(run(lambda v: np.extract(mask, v), x), np.extract(mask, x))
    got = run(lambda v: gx.extract(v % 3 == 1, v, size=6, fill_value=-1), x)
    assert np.array_equal(got, [*np.extract(mask, x), -1, -1])
    slope = run(lambda v: gx.gradients(gx.sum(gx.extract(mask, v) ** 2), v), x)
    assert np.array_equal(slope, np.where(mask, 2 * x, 0))
    with gx.Graph():
        v = gx.placeholder((2, 2))
        with pytest.raises(gx.UnsupportedError, match="compress"):
            gx.extract(v > 0, v)


# --- words ---------------------------------------------------------------------------------------

WORDS = [element for element in (*ALL, *STORAGE) if element.width == element.bits]


def words(element: DType, *shape: int) -> Any:
    """Numbers of any bits, but no NaN, whose bits are open."""
    raw = np.random.default_rng(0).integers(0, 256, (*shape, element.bytes)).astype(np.uint8)
    if element is bool_:
        return (raw[..., 0] & 1).astype(bool)
    values = raw.view(element.numpy)[..., 0]
    with np.errstate(invalid="ignore"):
        return np.where(values != values, np.zeros_like(values), values)


@slow_unless(lambda element: str(element) in ("int8", "uint16", "float32", "float64", "bfloat16"))
@pytest.mark.parametrize("element", WORDS, ids=str)
def test_bits_as_another_dtype(element: DType) -> None:
    targets = [target for target in WORDS if target not in (bool_, element)]
    arrays = [
        words(element, 3, 4, target.bytes // element.bytes)
        if target.bytes > element.bytes
        else words(element, 3, 4)
        for target in targets
    ]

    def views(*values: Any) -> list[Any]:
        return [
            gx.bitcast_convert_type(gx.swapaxes(value, 0, 1), target)
            for value, target in zip(values, targets, strict=True)
        ]

    for got, array, target in zip(run(views, *arrays), arrays, targets, strict=True):
        whole = np.ascontiguousarray(np.swapaxes(array, 0, 1))
        if target.bytes < element.bytes:
            wanted = whole[..., None].view(target.numpy)
        elif target.bytes == element.bytes:
            wanted = whole.view(target.numpy)
        else:
            wanted = whole.view(target.numpy)[..., 0]
        assert_same_bits(got, wanted, str(target))


def test_bits_between_kernels() -> None:
    """What is computed before and after reads and writes the same memory."""
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    with gx.Graph() as graph:
        value = gx.placeholder((None, 6))
        state = gx.variable(np.zeros((4, 6), np.int32))
        bits = gx.bitcast_convert_type(value * 2, "int32")
        up = gx.bitcast_convert_type(bits + 1, "float32")
        joined = gx.concatenate([bits, bits & ~0xFF])
        summed = gx.bitcast_convert_type(joined, "float32") @ gx.ones((6, 2))
        written = state.assign(gx.bitcast_convert_type(value[:4] + 1, "int32"))
        as_dtype = gx.bitcast_convert_type
        looped = gx.fori_loop(
            0, 3, lambda n, v: as_dtype(as_dtype(v, "int32") + 1, "float32"), value
        )
    session = gx.Session(graph)
    got = session.run([bits, up, summed, looped, written], {value: x})
    word = (x * 2).view(np.int32)
    assert_same_bits(got[0], word)
    assert_same_bits(got[1], (word + 1).view(np.float32))
    np.testing.assert_allclose(got[2][:4, 0], (x * 2).sum(1), rtol=1e-5, atol=1e-5)
    assert_same_bits(got[3], (x.view(np.int32) + 3).view(np.float32))
    assert_same_bits(session.run(state), (x + 1).view(np.int32))
    with pytest.raises(gx.ShapeError, match="bitcast_convert_type of"):
        run(lambda v: gx.bitcast_convert_type(v, "float64"), x[:, :3])
    with gx.Graph():
        for bad, target in (("complex64", "int64"), ("int8", "bool"), ("int4", "int8")):
            with pytest.raises(gx.DTypeError, match="bitcast_convert_type"):
                gx.bitcast_convert_type(gx.placeholder((2,), bad), target)
        with pytest.raises(gx.ShapeError, match="last axis"):
            gx.bitcast_convert_type(gx.placeholder((3,), "int32"), "int64")


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_bits_of_integers(element: DType) -> None:
    x, y = words(element, 7, 5), words(element, 7, 5)[::-1]
    high, count = run(lambda x, y: [gx.mulhi(x, y), gx.population_count(x)], x, y)
    pairs = zip(x.ravel(), y.ravel(), strict=True)
    wanted = [int(one) * int(other) >> element.bits for one, other in pairs]
    assert high.dtype == element.numpy and high.ravel().tolist() == wanted
    np.testing.assert_array_equal(count, np.bitwise_count(x.view(f"u{element.bytes}")))
    assert count.dtype == element.numpy


@slow_unless(lambda element, name: str(element) in ("bool", "int32") or name == "xor")
@pytest.mark.parametrize("name", ["and", "or", "xor"])
@pytest.mark.parametrize("element", [*INTEGERS, bool_], ids=str)
def test_reductions_of_bits(element: DType, name: str) -> None:
    reduction, ufunc = getattr(gx, f"reduce_{name}"), getattr(np, f"bitwise_{name}")
    axes: list[Any] = [0, 1, -1, (0, 1), None]
    with gx.Graph() as graph:
        value = gx.placeholder((None, None), element)
        made = [reduction(value, axis) for axis in axes]
    exe = gx.Session(graph).compile(made, [value])
    for shape in ((7, 5), (0, 3), (3, 0), (1, 1), (300, 70)):
        x = words(element, *shape)
        for axis, got in zip(axes, exe(x), strict=True):
            wanted = ufunc.reduce(x, axis=(0, 1) if axis is None else axis)
            assert_same_bits(got, wanted, f"{shape} {axis}")
    with gx.Graph(), pytest.raises(gx.DTypeError, match=f"reduce_{name} does not take float32"):
        reduction(gx.placeholder((3,)), 0)


# --- fewer digits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "exponent", "mantissa"), [(bfloat16, 8, 7), (float16, 5, 10), (gx.float8_e5m2, 5, 2)]
)
def test_reduced_precision_is_that_of_a_format(
    stored: DType, exponent: int, mantissa: int
) -> None:
    word = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint64)
    x = word.astype(np.uint32).view(np.float32)
    got = run(lambda x: gx.reduce_precision(x, exponent, mantissa), x)
    with np.errstate(all="ignore"):
        wanted = x.astype(stored.numpy).astype(np.float32)
        is_normal = ~(np.abs(x) < stored.format.smallest_normal)
    assert_same_bits(got[is_normal], wanted[is_normal])
    # there are no subnormal numbers
    if stored is not bfloat16:
        tiny = got[~is_normal]
        assert set(np.abs(tiny).tolist()) <= {0.0, stored.format.smallest_normal}
        np.testing.assert_array_equal(np.signbit(tiny), np.signbit(x[~is_normal]))


def test_reduced_precision_of_other_dtypes() -> None:
    word = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64)
    x = np.concatenate([word.view(np.float64), np.random.default_rng(1).normal(size=10_000)])
    with np.errstate(all="ignore"):
        single = x.astype(np.float32).astype(np.float64)
    is_normal = ~(np.abs(x) < 2.0**-126)
    got = run(lambda x: gx.reduce_precision(x, 8, 23), x)
    assert_same_bits(got[is_normal], single[is_normal])
    x = np.array([6e-8, 3.3, 1e4, 2e-3, -np.inf, np.nan], np.float16)
    got = run(lambda x: gx.reduce_precision(x, 4, 2), x)
    assert_same_bits(got, np.array([0, 3.5, np.inf, 0, -np.inf, np.nan], np.float16))
    assert_same_bits(run(lambda x: gx.reduce_precision(x, 5, 10), x), x)
    wide = x.astype(np.float64)
    assert_same_bits(run(lambda x: gx.reduce_precision(x, 11, 52), wide), wide)
    got = run(lambda x: gx.reduce_precision(x, 8, 0), np.array([np.nan, 3, 1.5], np.float32))
    assert_same_bits(got, np.array([np.inf, 2, 2], np.float32))
    with gx.Graph():
        value = gx.placeholder((2,))
        for bits in ((0, 3), (True, 3), (5, -1), (5, 1.5)):
            with pytest.raises(gx.DTypeError, match="_bits is"):
                gx.reduce_precision(value, *bits)
        with pytest.raises(gx.DTypeError, match="does not take int64"):
            gx.reduce_precision(gx.constant([1]), 5, 3)
