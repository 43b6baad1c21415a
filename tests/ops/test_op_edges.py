"""Every op at the edges of floats, compiled against its reference: zeros of both signs, infinities,
NaN of both signs and several payloads, denormals and extremes (faults 2 and 3).

The tests walk the registry as those of the op contract do. There pointwise ops meet every
combination of special values; here all ops do, reductions, scans and views too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from op_contract import cases, sample, trace
from slow_parameters import slow_unless

import graphc as gx
from graphc.checking.interpreter import evaluate
from graphc.ir.dtypes import DType, dtype, float16, float32, float64
from graphc.ir.op import OpDef
from graphc.ir.recorder import Recorder

pytestmark = pytest.mark.check_mode

WITH_TABLES = {"fft", "irfft", "rfft"}
"""One of their operands says how they work, so that it has to be what fft_table gives."""

CASES = [
    (op, element)
    for op, element in cases()
    if element.is_float and op.name not in WITH_TABLES
]
EACH = pytest.mark.parametrize(
    ("op", "element"), CASES, ids=[f"{op.name}-{element}" for op, element in CASES]
)
SEEDS = range(4)


def differs(op: OpDef, element: DType) -> bool:
    """Whether code for these elements is like no other of the op: exact float64 is as float32,
    and what rounds is compiled for float16 by the op contract."""
    return element is float32 or element is (float16 if op.numerics == "E" else float64)


def pools(element: DType) -> list[Any]:
    """Small sets of numbers, so that zeros, infinities and NaN are often what decides."""
    info = element.format
    tiny = info.smallest
    return [
        [0.0, -0.0], [0.0, -0.0, -1.0, -tiny], [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan],
        [tiny, -tiny, 2.0, info.smallest_normal, -1.5, 0.0, -0.0],
    ]  # fmt: skip


def edges(op: OpDef, element: DType, seed: int) -> tuple[list[Any], dict[str, Any]]:
    """A sample of an op, whose floats are replaced."""
    random = np.random.default_rng(seed)
    arrays, attrs = sample(op, element, seed)
    chosen = pools(element)[seed % 4]
    if op.numerics == "E" and seed % 4 == 3:
        chosen = [*chosen, element.format.largest]
    return [
        random.choice(chosen, array.shape).astype(array.dtype) if is_float(array) else array
        for array in arrays
    ], attrs


def with_other_nans(array: Any) -> Any:
    """The same numbers; each NaN is negative, and has another payload."""
    if not is_float(array):
        return array
    other = array.copy()
    word = other.view(f"i{array.dtype.itemsize}")
    word[np.isnan(array)] = -1 - np.arange(np.isnan(array).sum(), dtype=word.dtype) % 999
    assert np.array_equal(np.isnan(array), np.isnan(other))
    return other


def runs(op: OpDef, *several: list[tuple[list[Any], dict[str, Any]]]) -> list[Any]:
    """What one program gives for each of several feeds, which differ in their numbers alone."""
    recorder = Recorder("edges")
    traced = [trace(op, arrays, attrs, recorder=recorder) for arrays, attrs in several[0]]
    feeds = [
        {
            value: array
            for trace_, (arrays, _) in zip(traced, fed, strict=True)
            for value, array in zip(trace_.inputs, arrays, strict=True)
        }
        for fed in several
    ]
    fetches = [list(trace_.outputs) for trace_ in traced]
    session = gx.Session(recorder, options=gx.Options(optimize=1))
    try:
        return [session.run(fetches, each) for each in feeds]
    except gx.LinAlgError as error:
        pytest.skip(f"such matrices are refused: {error.message}")


def is_float(array: Any) -> bool:
    return dtype(array.dtype).is_float


READ_SIGNS = {"bitcast_convert_type", "copysign", "signbit"}


@slow_unless(differs)
@EACH
def test_compiled_is_the_reference_at_edges(op: OpDef, element: DType) -> None:
    """Fault 2: references of maxima and minima gave a zero of either sign."""
    fed = [edges(op, element, seed) for seed in SEEDS]
    for (arrays, attrs), results in zip(fed, *runs(op, fed), strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(trace(op, arrays, attrs).graph, arrays)
        for got, reference in zip(results, wanted, strict=True):
            if op.numerics == "E" or not is_float(got):
                assert_same_bits(got, reference)
                continue
            assert np.array_equal(np.isnan(got), np.isnan(reference))
            infinite = np.isinf(reference)
            assert np.array_equal(got[infinite], reference[infinite])
            assert np.isfinite(got[np.isfinite(reference)]).all()


@slow_unless(lambda op, element: element is float32)
@EACH
def test_no_op_tells_one_nan_from_another(op: OpDef, element: DType) -> None:
    """Fault 3: sign and payload of a NaN are open, which nothing else in a graph can see."""
    if op.name in READ_SIGNS:
        pytest.skip("it reads the sign bit, of a NaN too, as NumPy's does")
    fed = [edges(op, element, 4 * seed + 2) for seed in SEEDS]
    others = [([with_other_nans(array) for array in arrays], attrs) for arrays, attrs in fed]
    for one, other in zip(*runs(op, fed, others), strict=True):
        for got, same in zip(one, other, strict=True):
            assert_same_bits(got, same)


@pytest.mark.parametrize("seed", range(4))
def test_levels_differ_in_nothing_but_which_nan_there_is(seed: int) -> None:
    """Fault 3: a comparison / 0.0 is a NaN of another sign where the machine code is optimised."""
    random = np.random.default_rng(seed)
    size = int(random.choice([1, 3, 16, 33, 100]))
    count, weight = random.integers(0, 3, size), random.integers(0, 3, size)
    with gx.Graph() as graph:
        u = gx.placeholder((size,), "uint16")
        f = gx.placeholder((size,), ["float32", "float64"][seed % 2])
        masks = [u < f, u == f, u >= f]
        fetches = [mask / 0.0 for mask in masks]
        fetches += [mask.astype("float32") * np.float32(np.inf) for mask in masks]
        fetches += [gx.where(mask, f, -f) % 0.0 - f / 0.0 for mask in masks]
        fetches += [gx.sqrt(gx.maximum(quotient, -f) - np.inf) for quotient in fetches]
    results = [
        gx.Session(graph, options=gx.Options(optimize=level)).run(fetches, {u: count, f: weight})
        for level in range(4)
    ]
    assert any(np.isnan(found).any() for found in results[0])
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("element", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_constants_are_those_of_feeds(name: str, element: str) -> None:
    """Fault 2: 1 / max([0, -0]) was inf where it is fed and -inf as a constant."""
    random = np.random.default_rng(0)
    away = -1.0 if name == "max" else 1.0
    array = random.choice(np.array([0.0, -0.0, away], element), (3, 40, 5))
    function = getattr(gx, name)
    with gx.Graph() as graph:
        x = gx.placeholder(array.shape, element)
        c = gx.constant(array)
        axes = [0, 1, 2, None, (0, 2)]
        pairs = [[1 / function(value, axis) for value in (x, c)] for axis in axes]
    for fed, folded in gx.Session(graph).run(pairs, {x: array}):
        assert np.isinf(fed).any()
        assert_same_bits(fed, folded)
