"""The core transforms, of pairs: lengths, accuracy, sizes of run time, tables, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_harness import TARGETS
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target
from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import evaluate
from graphc.ir.dtypes import COMPUTED_FLOATS, DType, float32, float64
from graphc.kernel.routines.fourier import table_of
from graphc.kernel.routines.fourier_plan import plan_of, room_size, table_size
from graphc.ops.fft.core import transform_pairs

PRIMES = (331, 1009, 4099, 10007)
LONG = (1000, 1024, 1155, 2187, 3125, 4096, 17 * 64, 19 * 16 * 9, 16384, 1 << 17)


def pairs(rng: np.random.Generator, *shape: int, kind: Any = np.float64) -> Any:
    return rng.normal(size=(*shape, 2)).astype(kind)


def numbers(array: Any) -> Any:
    """Pairs as complex numbers, wider where the machine has such."""
    wide = array.astype(np.longdouble)
    return wide[..., 0] + 1j * wide[..., 1]


def error(array: Any, right: Any) -> float:
    """The root of the mean square of what is wrong, in units of that of what is right."""
    eps = float(np.finfo(array.dtype).eps)
    norms = (np.linalg.norm(x) for x in (numbers(array) - right, right))
    return next(norms) / next(norms) / eps


def transforms(element: DType, target: Target | None = None) -> Any:
    """An executable of sizes that are not known: forward, inverse, and both."""
    with gx.Graph() as graph:
        x = gx.placeholder((None, None, 2), element.name, name="x")
        forward = transform_pairs(x, False, "none", "fft")
        inverse = transform_pairs(x, True, "length", "ifft")
        again = transform_pairs(forward, True, "length", "ifft")
        unit = transform_pairs(x, False, "root", "fft")
    return gx.Session(graph, target=target).compile([forward, inverse, again, unit], [x])


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_any_length_is_as_accurate_as_numpy_s(element: DType) -> None:
    rng = np.random.default_rng(0)
    exe = transforms(element)
    for length in (*range(1, 301), *PRIMES, *LONG):
        array = pairs(rng, 2, length, kind=element.numpy)
        forward, inverse, again, unit = exe(array)
        right = np.fft.fft(numbers(array))
        units = 1.0 + 0.12 * np.log2(length) if not plan_of(length, element).odd else 3.0
        assert error(forward, right) < units, length
        assert error(inverse, np.fft.ifft(numbers(array))) < units, length
        assert error(unit, right / np.sqrt(length)) < units + 0.5, length
        assert error(again, numbers(array)) < 2 * units, length
        # Parseval
        power = np.square(unit, dtype=np.float64).sum()
        np.testing.assert_allclose(power, np.square(array, dtype=np.float64).sum(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_powers_of_two(element: DType) -> None:
    rng = np.random.default_rng(1)
    exe = transforms(element)
    for power in range(21):
        array = pairs(rng, 1, 1 << power, kind=element.numpy)
        assert error(exe(array)[0], np.fft.fft(numbers(array))) < 1.0 + 0.06 * power


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 12, 13, 31, 37, 128, 289, 1024])
def test_known_and_unknown_sizes_have_the_same_bits(element: DType, length: int) -> None:
    array = pairs(np.random.default_rng(2), 3, length, kind=element.numpy)
    with gx.Graph() as graph:
        x = gx.placeholder((3, length, 2), element.name, name="x")
        u = gx.placeholder((None, None, 2), element.name, name="u")
        fetched = [transform_pairs(value, False, "none", "fft") for value in (x, u)]
        fetched.append(transform_pairs(x[1], False, "none", "fft"))
    known, unknown, alone = gx.Session(graph).run(fetched, {x: array, u: array})
    np.testing.assert_array_equal(known, unknown)
    np.testing.assert_array_equal(known[1], alone)


def test_the_table_of_a_known_length_is_made_once() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 1 << 12, 2), name="x")
        y = transform_pairs(x, False, "none", "fft")
    exe = gx.Session(graph).compile(y, [x])
    assert len(exe.kernels) == 1
    off = gx.Session(graph, options=gx.Options(off=("precompute",))).compile(y, [x])
    assert len(off.kernels) == 2
    array = pairs(np.random.default_rng(3), 2, 1 << 12, kind=np.float32)
    np.testing.assert_array_equal(exe(array), off(array))


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_tables_fit_the_bound_of_unknown_lengths(element: DType) -> None:
    with gx.Graph():
        size = gx.placeholder((None,), name="x").shape[0]
    for elements in (table_size, room_size):
        dim = elements(size, element)
        for length in (*range(1, 2000), *PRIMES, *LONG, 99991, 1 << 20, 3 << 19, (1 << 20) + 7):
            bound = evaluate(dim, {str(size): length})
            if elements is room_size and length > ROUTINES.unknown_side_by_side:
                # long ones go one by one
                assert 4 * plan_of(length, element).length <= bound, length
            else:
                assert elements(length, element) <= bound, (elements, length)
    for length in (1, 7, 90, 97, 1000):
        table = table_of(length, int(table_size(length, element)), element)
        assert np.isfinite(table).all()


def test_numbers_that_are_none_go_everywhere_and_stay_in_their_row() -> None:
    exe = transforms(float64)
    rng = np.random.default_rng(4)
    for length in (1, 2, 16, 24, 37, 100, 256, 331):
        for special in (np.nan, np.inf, -np.inf):
            array = pairs(rng, 3, length)
            clean = exe(array)[0]
            array[1, length // 2, 0] = special
            result = exe(array)[0]
            assert not np.isfinite(result[1]).all(axis=-1).any(), (length, special)
            np.testing.assert_array_equal(result[[0, 2]], clean[[0, 2]])


def test_empty_batches_and_rows() -> None:
    exe = transforms(float32)
    assert exe(np.zeros((0, 8, 2), np.float32))[0].shape == (0, 8, 2)
    with pytest.raises(gx.ShapeError, match="fft: a transform of 0 numbers"):
        exe(np.zeros((3, 0, 2), np.float32))
    with gx.Graph():
        x = gx.placeholder((3, 0, 2), name="x")
        with pytest.raises(gx.ShapeError, match="fft: a transform of 0 numbers"):
            transform_pairs(x, False, "none", "fft")


@pytest.mark.parametrize("length", [1, 6, 17, 37, 48])
@pytest.mark.parametrize("inverse", [False, True])
def test_gradients_are_transforms(length: int, inverse: bool) -> None:
    rng = np.random.default_rng(5)
    array, weights, tangent = (pairs(rng, 2, length) for _ in range(3))
    with gx.Graph() as graph:
        x = gx.placeholder((2, length, 2), "float64", name="x")
        y = transform_pairs(x, inverse, "root", "fft")
        slope = gx.gradients(gx.sum(y * y * y * weights), x)
        second = gx.gradients(gx.sum(slope * tangent), x)
        forward = gx.jvp(y, x, tangent)
    result, got, curved, pushed = gx.Session(graph).run([y, slope, second, forward], {x: array})
    rows = np.eye(2 * length).reshape(-1, length, 2)
    made = np.fft.ifft(numbers(rows)) * length if inverse else np.fft.fft(numbers(rows))
    made /= np.sqrt(length)
    matrix = np.stack([made.real, made.imag], -1).reshape(2 * length, 2 * length)
    flat = [a.reshape(2, -1) for a in (result, weights, tangent)]
    np.testing.assert_allclose(flat[0], array.reshape(2, -1) @ matrix, atol=1e-12)
    expected = 3 * flat[0] ** 2 * flat[1] @ matrix.T
    np.testing.assert_allclose(got.reshape(2, -1), expected, atol=1e-10)
    curvature = 6 * flat[0] * flat[1] * (flat[2] @ matrix) @ matrix.T
    np.testing.assert_allclose(curved.reshape(2, -1), curvature, atol=1e-10)
    np.testing.assert_allclose(pushed.reshape(2, -1), flat[2] @ matrix, atol=1e-12)


@slow_unless(lambda element: element is float32)
@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_bits_are_those_of_any_width_of_vectors(element: DType) -> None:
    made: dict[bool, list[Any]] = {}
    for target in TARGETS.values():
        exe = transforms(element, target)
        results = []
        for length in (1, 12, 37, 105, 256, 289, 1000, 1018):
            array = pairs(np.random.default_rng(length), 2, length, kind=element.numpy)
            results += exe(array)
            assert error(results[-4], np.fft.fft(numbers(array))) < 3.5
        for result, known in zip(results, made.setdefault(target.has_fma, results), strict=True):
            np.testing.assert_array_equal(result, known)
