"""Conversions of floats of 8 and 16 bits and of integers of 2 and 4: instructions and integer code
have the same bits.

The reference is NumPy's own conversion, and ``ml_dtypes``' for what it adds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from vector_math_harness import Array, targets

from graphc.checking.compare import same_bits
from graphc.checking.levels.loops import Loops
from graphc.codegen.kernels.primitives import emit_cast
from graphc.ir.dtypes import (
    ALL,
    NARROW_FLOATS,
    STORAGE,
    DType,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from graphc.kernel.scalar import cast, stop_between

TARGETS = tuple(targets())
LANES = (1, 16)
each_target = pytest.mark.parametrize("target", TARGETS)
FLOATS = (*NARROW_FLOATS, *(element for element in STORAGE if element.is_float))
STORED_INTEGERS = [element for element in STORAGE if element.is_integer]
each_dtype = pytest.mark.parametrize("element", FLOATS, ids=str)
each_integer = pytest.mark.parametrize("element", STORED_INTEGERS, ids=str)


def words(element: DType) -> Array:
    """Every word of a narrow dtype."""
    return np.arange(2**element.bits, dtype=f"u{element.bytes}").view(element.numpy)


def singles(element: DType) -> Array:
    """float32: all values of the narrow float, what lies in the middle of two, and next to both;
    and every 16411th of all words."""
    with np.errstate(all="ignore"):
        values = words(element).astype(np.float32)
        middles = (values[:-1] / 2 + values[1:] / 2).astype(np.float32)
    centres = np.concatenate([values, middles]).view(np.uint32)
    near = [centres, centres + np.uint32(1), centres - np.uint32(1)]
    everywhere = np.arange(0, 2**32, 16411, dtype=np.uint64).astype(np.uint32)
    found = np.concatenate([*near, everywhere])
    return found[: len(found) // 32 * 32].view(np.float32)


def converted(target: str, source: DType, result: DType, values: Array, lanes: int) -> Any:
    """What the code for a target makes of the values."""
    loops = Loops(targets()[target])
    loops.add("convert", [source], result, lanes, lambda e, x: emit_cast(e, x[0], source, result))
    return loops("convert", np.ascontiguousarray(values))


@pytest.mark.parametrize("lanes", LANES)
@each_target
@each_dtype
def test_every_narrow_float_widens_exactly(element: DType, target: str, lanes: int) -> None:
    values = words(element)
    got = converted(target, element, float32, values, lanes)
    assert same_bits(values.astype(np.float32), got).all()


@pytest.mark.parametrize("lanes", LANES)
@each_target
@each_dtype
def test_float32_rounds_to_nearest(element: DType, target: str, lanes: int) -> None:
    values = singles(element)
    got = converted(target, float32, element, values, lanes)
    with np.errstate(all="ignore"):
        assert same_bits(values.astype(element.numpy), got).all()


@pytest.mark.parametrize("lanes", LANES)
@each_target
@each_dtype
def test_float64_rounds_once(element: DType, target: str, lanes: int) -> None:
    with np.errstate(all="ignore"):
        wide = singles(element).astype(np.float64)
        moved = [wide * (1 + step) for step in (0.0, 2.0**-40, -(2.0**-40))]
        extremes = [1e300, -1e300, 5e-324, 65519.999999999, 65520.0, 2.0**-25, 2.0**-25 + 2.0**-77]
        values = np.concatenate([*moved, np.resize(extremes, 32)])
        got = converted(target, float64, element, values, lanes)
        assert same_bits(values.astype(element.numpy), got).all()
        # by way of float32 some would differ
        assert not same_bits(values.astype(np.float32).astype(element.numpy), got).all()


@cache
def _integers(source: DType, element: DType) -> tuple[Array, Array]:
    """Next to what lies in the middle of two numbers, at all scales; and what they round to."""
    digits = element.format.significand
    middles = [((2 << digits - 1) + 2 * k + 1) for k in range(0, 1 << digits - 1, 3)]
    scaled = [m << shift for m in middles for shift in range(64 - digits)]
    near = [n + step for n in scaled for step in (-1, 0, 1)]
    near += [0, 2**53 + 1, 2**63 - 1, 2**64 - 1]
    near += [-n for n in near]
    fitting = [n for n in near if source.least <= n <= source.greatest]
    values = np.array(fitting[: len(fitting) // 16 * 16], source.numpy)
    wanted = np.array([_nearest(int(n), element) for n in values], np.float64)
    with np.errstate(all="ignore"):
        return values, wanted.astype(np.float32).astype(element.numpy)


@pytest.mark.parametrize("lanes", LANES)
@each_target
@pytest.mark.parametrize("source", [int32, uint32, int64, uint64], ids=str)
def test_integers_round_once(source: DType, target: str, lanes: int) -> None:
    """Exact sums are Python's."""
    for element in FLOATS:
        values, wanted = _integers(source, element)
        step = source if stop_between(source, element) is None else float32
        got = converted(target, step, element, values.astype(step.numpy), lanes)
        assert same_bits(wanted, got).all(), element


def _nearest(number: int, element: DType) -> float:
    """The nearest number of a float dtype, at a tie the even one, by arithmetic of integers."""
    magnitude = abs(number)
    shift = max(magnitude.bit_length() - element.format.significand, 0)
    kept, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
    half = 1 << shift >> 1
    kept += shift > 0 and (rest > half or (rest == half and kept & 1))
    return float(kept << shift) * (-1 if number < 0 else 1)


@each_dtype
def test_formats_are_those_of_ml_dtypes(element: DType) -> None:
    known, ours = ml_dtypes.finfo(element.numpy), element.format
    limits = (known.max, known.smallest_normal, known.smallest_subnormal, known.eps)
    assert tuple(map(float, limits)) == (
        ours.largest, ours.smallest_normal, ours.smallest, ours.spacing,
    )  # fmt: skip
    values = words(element)
    is_nan = np.isnan(values.astype(np.float32)).tolist()
    assert [ours.is_nan(word) for word in range(2**element.bits)] == is_nan
    assert is_nan[ours.nan]


def test_a_format_holds_another_if_all_its_numbers_are_there() -> None:
    for one in FLOATS:
        for other in FLOATS:
            with np.errstate(all="ignore"):
                values = words(other).astype(np.float32)
                values = values[~np.isnan(values)]
                back = values.astype(one.numpy).astype(np.float32)
            assert one.format.holds(other.format) == same_bits(values, back).all(), (one, other)


@pytest.mark.parametrize("lanes", LANES)
@each_target
@each_integer
def test_integers_of_few_bits(element: DType, target: str, lanes: int) -> None:
    """Bits above those of the number are not read, and are written as 0."""
    values = words(element)
    got = converted(target, element, element.computed, values, lanes)
    np.testing.assert_array_equal(got, values.astype(element.computed.numpy))
    wide = np.arange(256, dtype=np.uint8).view(element.computed.numpy)
    got = converted(target, element.computed, element, wide, lanes)
    np.testing.assert_array_equal(got.view(np.uint8), wide.astype(element.numpy).view(np.uint8))
    edges = [element.least, element.greatest, -0.0, 1e30, np.inf, 127, 128, -129, 255, 256]
    near = np.resize([x + d for x in edges for d in (-1, -0.5, 0, 0.25, 1)], 64)
    for source in (float32, float64):
        numbers = np.concatenate([near, -near, np.full(32, np.nan)]).astype(source.numpy)
        got = converted(target, source, element, numbers, lanes)
        np.testing.assert_array_equal(got.view(np.uint8), cast(numbers, element).view(np.uint8))
        inside = (np.trunc(numbers) >= element.least) & (np.trunc(numbers) <= element.greatest)
        numpys = numbers[inside].astype(element.numpy)
        np.testing.assert_array_equal(got[inside], numpys)
        clipped = np.clip(np.nan_to_num(np.trunc(numbers)), element.least, element.greatest)
        np.testing.assert_array_equal(got, clipped.astype(np.int8).astype(element.numpy))


@pytest.mark.parametrize("element", STORAGE, ids=str)
def test_ways_between_dtypes_are_those_of_ml_dtypes(element: DType) -> None:
    """What ``stop_between`` says is by which way ``ml_dtypes`` converts."""
    everything = words(element)
    with np.errstate(all="ignore"):
        exact = np.arange(-70_000, 70_000)
        large = np.array([2**n + d for n in range(60) for d in (-1, 0, 1)])
        integers = np.concatenate([exact, large])
        for other in ALL:
            if not (element.is_float and other.is_integer):
                assert same_bits(everything.astype(other.numpy), cast(everything, other)).all()
            if other.is_float:
                values = singles(element if element.is_float else float16).astype(other.numpy)
                values = np.concatenate([values, (values * (1 + 2.0**-40)).astype(other.numpy)])
                if element.is_integer:
                    values = values[(values > element.least - 1) & (values < element.greatest + 1)]
            else:
                values = integers.astype(other.numpy)
            wanted, got = values.astype(element.numpy), cast(values, element)
            assert same_bits(wanted, got).all(), other
