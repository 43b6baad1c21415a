"""packbits, unpackbits, clz, setxor1d and extract against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.ir.dtypes import INTEGERS


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
