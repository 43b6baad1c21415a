"""The core transforms of real rows, and back: lengths, ends, accuracy, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_harness import TARGETS
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target
from graphc.ir.dims.expressions import evaluate
from graphc.ir.dtypes import COMPUTED_FLOATS, DType, float32, float64
from graphc.kernel.routines import routine
from graphc.kernel.routines.fourier_plan import room_size, table_size
from graphc.ops.fft.real import pairs_to_real, real_to_pairs

LENGTHS = (*range(1, 301), 1000, 1024, 1009, 2310, 4096, 4099, 10007, 20014, 1 << 16)


def transforms(element: DType, target: Target | None = None) -> Any:
    """An executable of sizes that are not known: forward, and back."""
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), element.name, name="x")
        forward = real_to_pairs(x, "none", "rfft")
        again = pairs_to_real(forward, x.shape[-1], "length", "irfft")
        unit = real_to_pairs(x, "root", "rfft")
    return gx.Session(graph, target=target).compile([forward, again, unit], [x])


def error(array: Any, right: Any) -> float:
    """The root of the mean square of what is wrong, in units of that of what is right."""
    eps = float(np.finfo(array.dtype).eps)
    if array.ndim == 3:
        array = array[..., 0] + 1j * array[..., 1].astype(np.longdouble)
    return float(np.linalg.norm(array - right) / np.linalg.norm(right) / eps)


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_any_length_is_as_accurate_as_numpy_s(element: DType) -> None:
    rng = np.random.default_rng(0)
    exe = transforms(element)
    for length in LENGTHS:
        array = rng.normal(size=(2, length)).astype(element.numpy)
        forward, again, unit = exe(array)
        right = np.fft.rfft(array.astype(np.longdouble))
        assert forward.shape == (2, length // 2 + 1, 2)
        assert error(forward, right) < 3, length
        assert error(unit, right / np.sqrt(length)) < 3.5, length
        assert error(again, array.astype(np.longdouble)) < 5, length
        # sums of real numbers have no imaginary part
        assert not forward[:, 0, 1].any()
        if length % 2 == 0:
            assert not forward[:, -1, 1].any()


@pytest.mark.parametrize("length", [1, 2, 3, 8, 33, 37, 74, 100])
def test_what_comes_back_ignores_the_imaginary_ends(length: int) -> None:
    rng = np.random.default_rng(1)
    half = rng.normal(size=(2, length // 2 + 1, 2))
    with gx.Graph() as graph:
        x = gx.placeholder(half.shape, "float64", name="x")
        y = pairs_to_real(x, length, "length", "irfft")
    got = gx.Session(graph).run(y, {x: half})
    np.testing.assert_allclose(got, np.fft.irfft(half[..., 0] + 1j * half[..., 1], length))
    half[:, 0, 1] = np.nan
    if length % 2 == 0:
        half[:, -1, 1] = np.inf
    np.testing.assert_array_equal(gx.Session(graph).run(y, {x: half}), got)


@pytest.mark.parametrize("length", [1, 2, 5, 12, 37, 74])
def test_gradients(length: int) -> None:
    rng = np.random.default_rng(2)
    rows, half = rng.normal(size=(2, length)), rng.normal(size=(2, length // 2 + 1, 2))
    with gx.Graph() as graph:
        x = gx.placeholder(rows.shape, "float64", name="x")
        u = gx.placeholder((2, None, 2), "float64", name="u")
        y, v = real_to_pairs(x, "none", "rfft"), pairs_to_real(u, length, "root", "irfft")
        fetched = []
        for result, source, given in ((y, x, rows), (v, u, half)):
            slope = gx.gradients(gx.sum(result * result * result), source)
            second = gx.gradients(gx.sum(slope * given), source)
            fetched += [result, slope, second, gx.jvp(result, source, given)]
    results = gx.Session(graph).run(fetched, {x: rows, u: half})
    units = np.eye(rows.size // 2), np.eye(half.size // 2).reshape(-1, *half.shape[1:])
    made = np.fft.rfft(units[0])
    matrices = (
        np.stack([made.real, made.imag], -1).reshape(length, -1),
        np.fft.irfft(units[1][..., 0] + 1j * units[1][..., 1], length) * np.sqrt(length),
    )
    for number, (matrix, given) in enumerate(zip(matrices, (rows, half), strict=True)):
        flat = given.reshape(2, -1)
        result, slope, second, pushed = (
            a.reshape(2, -1) for a in results[4 * number : 4 * number + 4]
        )
        value = flat @ matrix
        np.testing.assert_allclose(result, value, atol=1e-11)
        np.testing.assert_allclose(slope, 3 * value**2 @ matrix.T, rtol=1e-9, atol=1e-9)
        curved = 6 * value * (flat @ matrix) @ matrix.T
        np.testing.assert_allclose(second, curved, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(pushed, value, atol=1e-11)


@slow_unless(lambda element: element is float32)
@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_bits_are_those_of_any_width_of_vectors_and_of_known_sizes(element: DType) -> None:
    made: dict[bool, list[Any]] = {}
    for target in TARGETS.values():
        exe, results = transforms(element, target), []
        for length in (1, 12, 37, 74, 210, 512, 1000):
            array = np.random.default_rng(length).normal(size=(2, length)).astype(element.numpy)
            results += exe(array)
        for result, known in zip(results, made.setdefault(target.has_fma, results), strict=True):
            np.testing.assert_array_equal(result, known)
    with gx.Graph() as graph:
        x = gx.placeholder(array.shape, element.name, name="x")
        y = real_to_pairs(x, "none", "rfft")
    exe = gx.Session(graph).compile(y, [x])
    assert len(exe.kernels) == 1
    np.testing.assert_array_equal(exe(array), transforms(element)(array)[0])


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_tables_and_rooms_fit_the_bound_of_unknown_lengths(element: DType) -> None:
    table = routine("fft_table")
    with gx.Graph():
        size = gx.placeholder((None,), name="x").shape[0]
    for length in LENGTHS:
        known: list[int] = []
        for dim in (length, size):
            sizes = (
                table_size(dim, element, True),
                room_size(dim, element, True),
                table.room([element] * 2, [dim, 0, 1]),
            )
            known += [int(evaluate(each, {str(size): length})) for each in sizes]
        assert all(one <= bound for one, bound in zip(known[:3], known[3:], strict=True)), length


def test_numbers_that_do_not_fit_are_refused() -> None:
    with gx.Graph() as graph:
        x, u = (gx.placeholder((2, None), "float64", name=name) for name in "xu")
        y = real_to_pairs(x, "none", "rfft")
        assert y.dtype is float64
        with pytest.raises(gx.ShapeError, match="irfft of 9 elements"):
            pairs_to_real(gx.stack([u[:, :4], u[:, :4]], -1), 9, "none", "irfft")
    with pytest.raises(gx.ShapeError, match="rfft: a transform of 0 numbers"):
        gx.Session(graph).run(y, {x: np.zeros((2, 0))})
