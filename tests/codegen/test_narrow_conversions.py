"""Conversions of float16 and bfloat16: instructions and integer code have the same bits.

The reference is NumPy's own conversion, and ``ml_dtypes``' for bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from vector_math_harness import Array, targets

from graphc.checking.compare import same_bits
from graphc.checking.levels.loops import Loops
from graphc.codegen.kernels.primitives import emit_cast
from graphc.ir.dtypes import NARROW_FLOATS, DType, float16, float32, float64

TARGETS = tuple(targets())
LANES = (1, 16)
each_target = pytest.mark.parametrize("target", TARGETS)
each_dtype = pytest.mark.parametrize("element", NARROW_FLOATS, ids=str)


def words(element: DType) -> Array:
    """Every value of a narrow float."""
    return np.arange(2**16, dtype=np.uint16).view(element.numpy)


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
def test_float64_rounds_to_float16_once(target: str, lanes: int) -> None:
    wide = singles(float16).astype(np.float64)
    moved = [wide * (1 + step) for step in (0.0, 2.0**-40, -(2.0**-40))]
    extremes = [1e300, -1e300, 5e-324, 65519.999999999, 65520.0, 2.0**-25, 2.0**-25 + 2.0**-77]
    values = np.concatenate([*moved, np.resize(extremes, 32)])
    got = converted(target, float64, float16, values, lanes)
    with np.errstate(all="ignore"):
        assert same_bits(values.astype(np.float16), got).all()
        # by way of float32 some would differ
        assert not same_bits(values.astype(np.float32).astype(np.float16), got).all()
