"""Rows of a batch that are transformed side by side: the bits of each are those it has alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_harness import TARGETS
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target
from graphc.ir.dtypes import COMPUTED_FLOATS, DType
from graphc.kernel.routines.fourier_plan import fills_few

SHORT = (
    1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 23, 24, 32, 37, 48, 61, 64, 74, 77, 100, 128, 200, 243,
    250, 331, 500, 512,
)  # fmt: skip
COMPLEX = {"float32": "complex64", "float64": "complex128"}


def transforms(
    element: DType, length: Any, *batch: Any, target: Target | None = None, threads: int = 0
) -> Any:
    """Transforms of complex rows, there and back, and of real ones, of so many rows each."""
    half = None if length is None else length // 2 + 1
    with gx.Graph() as graph:
        x = gx.placeholder((*batch, length), COMPLEX[element.name], name="x")
        y = gx.placeholder((*batch, length), element, name="y")
        z = gx.placeholder((*batch, half), COMPLEX[element.name], name="z")
        fetched = [gx.fft.fft(x), gx.fft.ifft(x, norm="ortho"), gx.fft.rfft(y)]
        fetched.append(gx.fft.irfft(z, y.shape[-1]))
    options = gx.Options(threads=threads) if threads else None
    return gx.Session(graph, target=target, options=options).compile(fetched, [x, y, z])


def rows(element: DType, length: int, count: int) -> list[Any]:
    rng = np.random.default_rng(length)
    shape, half = (count, length), length // 2 + 1
    made = [rng.normal(size=shape) + 1j * rng.normal(size=shape), rng.normal(size=shape)]
    made.append(rng.normal(size=(count, half)) + 1j * rng.normal(size=(count, half)))
    kinds = COMPLEX[element.name], element.name, COMPLEX[element.name]
    return [array.astype(kind) for array, kind in zip(made, kinds, strict=True)]


def assert_same_bits(one: Any, other: Any) -> None:
    parts = [array.reshape(-1).view(array.real.dtype) for array in (one, other)]
    np.testing.assert_array_equal(*parts)
    is_number = ~np.isnan(parts[0])
    np.testing.assert_array_equal(*[np.signbit(part[is_number]) for part in parts])


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_rows_have_the_bits_that_they_have_alone(element: DType) -> None:
    exe = transforms(element, None, None)
    for length in SHORT:
        arrays = rows(element, length, 21)
        # zeros of both signs, and numbers that are none, stay in their row
        arrays[0][3], arrays[1][3], arrays[2][3] = 0.0, -0.0, -0.0
        for array, special in zip(arrays, (np.inf, np.nan, -np.inf), strict=True):
            array[7, array.shape[1] // 2] = special
        results = exe(*arrays)
        for place in (0, 3, 6, 7, 8, 15, 16, 20):
            alone = exe(*[array[place : place + 1] for array in arrays])
            for result, right in zip(results, alone, strict=True):
                assert_same_bits(result[place], right[0])


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 37, 100, 500, 1000, 1155])
def test_known_lengths_have_them_too(element: DType, length: int) -> None:
    arrays = rows(element, length, 19)
    known, alone = transforms(element, length, 19), transforms(element, None, None)
    results = known(*arrays)
    for place in (0, 15, 18):
        rights = alone(*[array[place : place + 1] for array in arrays])
        for result, right in zip(results, rights, strict=True):
            assert_same_bits(result[place], right[0])
    wide = arrays[0].astype(complex)
    np.testing.assert_allclose(results[0], np.fft.fft(wide), atol=1e-3, rtol=1e-4)


def test_any_number_of_rows_and_of_threads() -> None:
    (element, _) = COMPUTED_FLOATS
    arrays = rows(element, 60, 4100)
    exe = transforms(element, 60, None)
    wanted = exe(*arrays)
    for count in (1, 2, 4, 7, 8, 9, 15, 16, 17, 31, 33):
        results = exe(*[array[:count] for array in arrays])
        for result, right in zip(results, wanted, strict=True):
            assert_same_bits(result, right[:count])
    for threads in (1, 2, 3):
        results = transforms(element, 60, None, threads=threads)(*arrays)
        for result, right in zip(results, wanted, strict=True):
            assert_same_bits(result, right)


@slow_unless(lambda element: str(element) == "float32")
@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_vectors_of_any_width_give_them(element: DType) -> None:
    made: dict[tuple[bool, int], Any] = {}
    for target in TARGETS.values():
        exe = transforms(element, None, None, target=target)
        for length in (6, 37, 75):
            results = exe(*rows(element, length, 18))
            known = made.setdefault((target.has_fma, length), results)
            for result, right in zip(results, known, strict=True):
                assert_same_bits(result, right)


def test_which_rows_go_side_by_side() -> None:
    single, double = COMPUTED_FLOATS
    # few columns, or few parts
    assert all(fills_few(length, single) for length in (1, 8, 64, 100, 128, 1000, 1155))
    assert all(fills_few(length, double) for length in (1, 8, 64, 100, 500))
    # rows that fill all lanes, and long ones
    assert not any(fills_few(length, single) for length in (256, 1024, 2048, 3000))
    assert not any(fills_few(length, double) for length in (128, 1000, 1024, 5000))
