"""Ranges, covariances, interpolation and rounding of complex numbers against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless
from test_complex import OFF, agree, draw, run

import graphc as gx

Z, W = draw(0, 3, dtype=np.complex128), draw(1, 3, dtype=np.complex128)
ROWS, MORE = draw(2, 4, 9, dtype=np.complex128), draw(3, 2, 9, dtype=np.complex128)
POINTS, HEIGHTS = np.array([0.0, 1, 2.5]), draw(4, 3, dtype=np.complex128)
PLACES = np.array([[0.5, 1, 2.4], [-1, 9, np.nan]])
FREQUENCIES, WEIGHTS = np.arange(1, 10), np.linspace(0.5, 1, 9)

# each is a function of the module, gx or NumPy, and of arrays or values
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "linspace": (lambda m, a, b: m.linspace(a, b, 6), (Z, W)),
    "linspace_open": (lambda m, a, b: m.linspace(a, b, 6, endpoint=False, axis=1), (Z, W)),
    "linspace_one": (lambda m, a, b: m.linspace(a, b, 1), (Z, W)),
    "linspace_to_real": (lambda m, a, b: m.linspace(a, b, 6), (Z, W.real)),
    "logspace": (lambda m, a, b: m.logspace(a, b, 6), (Z, W)),
    "geomspace": (lambda m, a, b: m.geomspace(a, b, 6), (Z, W)),
    "geomspace_open": (lambda m, a, b: m.geomspace(a, b, 6, endpoint=False), (Z, W)),
    "geomspace_across": (lambda m, a, b: m.geomspace(a, b, 6), (np.full(3, -1.0), W)),
    "cov": (lambda m, a: m.cov(a), (ROWS,)),
    "cov_beside": (lambda m, a, b: m.cov(a, b, bias=True), (ROWS, MORE)),
    "cov_of_columns": (lambda m, a: m.cov(a, rowvar=False), (ROWS,)),
    "cov_of_one": (lambda m, a: m.cov(a), (ROWS[0],)),
    "cov_of_real_and_complex": (lambda m, a, b: m.cov(a, b), (ROWS.real, MORE)),
    "cov_weighed": (lambda m, a: m.cov(a, fweights=FREQUENCIES, aweights=WEIGHTS), (ROWS,)),
    "corrcoef": (lambda m, a: m.corrcoef(a), (ROWS,)),
    "corrcoef_beside": (lambda m, a, b: m.corrcoef(a, b), (ROWS, MORE)),
    "interp": (lambda m, x, p, f: m.interp(x, p, f), (PLACES, POINTS, HEIGHTS)),
    "interp_ends": (
        lambda m, x, p, f: m.interp(x, p, f, left=1 + 2j, right=0.5), (PLACES, POINTS, HEIGHTS),
    ),
    "interp_around": (
        lambda m, x, p, f: m.interp(x, p, f, period=3.5), (PLACES, POINTS, HEIGHTS),
    ),
    "round": (lambda m, a: m.round(a), (ROWS * 3,)),
    "round_decimals": (lambda m, a: m.round(a, 2), (ROWS * 3,)),
    "rint": (lambda m, a: m.rint(a), (np.array([0.5 - 1.5j, complex(np.inf, 2.5)]),)),
    "median": (lambda m, a: m.median(a, axis=0), (ROWS,)),
}  # fmt: skip


@slow_unless(lambda name, part: part == "float64" or "_" not in name)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("part", ["float64", "float32"])
def test_numbers_are_numpys(name: str, part: str) -> None:
    function, arrays = FUNCTIONS[name]
    wanted = np.asarray(function(np, *arrays))
    if part == "float64":
        agree(run(lambda *values: function(gx, *values), *arrays), wanted, ulp=32)
        return
    narrow = [np.asarray(a, np.complex64 if np.iscomplexobj(a) else np.float32) for a in arrays]
    single = run(lambda *values: function(gx, *values), *narrow)
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, wanted, rtol=3e-5, atol=3e-5)


def test_python_numbers_give_complex64() -> None:
    with gx.Graph() as graph:
        made = [gx.linspace(1j, 2, 5), gx.geomspace(-1, 1j, 5), gx.logspace(1j, 1, 4),
                gx.linspace(0, 1, 3, dtype="complex128")]  # fmt: skip
    got = gx.Session(graph, options=OFF).run(made)
    wanted = [np.linspace(1j, 2, 5), np.geomspace(-1, 1j, 5), np.logspace(1j, 1, 4)]
    for result, right in zip(got, wanted, strict=False):
        assert result.dtype == np.complex64
        np.testing.assert_allclose(result, right, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(got[3], np.array([0, 0.5, 1], np.complex128), strict=True)


def test_sequences_from_or_to_zero_are_nan_or_refused() -> None:
    ends = np.array([0, 1j])
    got = run(lambda a, b: gx.geomspace(a, b, 3), ends, ends[::-1])
    assert np.isnan(got).all()
    for start, stop in ((0, 1j), (1j, 0), (-1, 1)):
        with pytest.raises(gx.DTypeError, match="a geometric sequence"), gx.Graph():
            gx.geomspace(start, stop)


def test_what_is_real_there_is_refused() -> None:
    with gx.Graph():
        z = gx.placeholder((3,), "complex64")
        for call, message in (
            (lambda: gx.interp(z, [0.0, 1], [1.0, 2]), "interp at complex places"),
            (lambda: gx.interp([0.5], z, z), "interp at complex places"),
            (lambda: gx.quantile(z, 0.5), "quantile does not take complex64"),
            (lambda: gx.linspace(z, 1, 3, dtype="float32"), "lose the imaginary parts"),
        ):
            with pytest.raises(gx.DTypeError, match=message) as caught:
                call()
            assert caught.value.where is not None and caught.value.where.filename == __file__
            assert caught.value.hint


@pytest.mark.parametrize("name", ["linspace", "geomspace", "cov", "corrcoef", "interp"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    if name == "interp":
        # between points, at which there is no derivative
        arrays = (np.array([[0.5, 1.3, 2.4], [-1, 9, 0.2]]), *arrays[1:])

    def loss(m: Any, values: Any) -> Any:
        result = function(m, *values)
        return m.sum(m.real(result) * 0.5 - m.imag(result) * m.real(result))

    with gx.Graph() as graph:
        values = [gx.placeholder(np.shape(a), a.dtype) for a in arrays]
        slopes = gx.gradients(loss(gx, values), values)
    feeds = dict(zip(values, arrays, strict=True))
    found = gx.Session(graph, options=OFF).run(slopes, feeds)
    random = np.random.default_rng(7)
    for number, slope in enumerate(found):
        is_complex = np.iscomplexobj(arrays[number])
        way = random.normal(size=slope.shape) + (1j * random.normal(size=slope.shape)) * is_complex
        way = way if is_complex else way.real
        ends = []
        for step in (1e-6, -1e-6):
            moved = list(arrays)
            moved[number] = arrays[number] + step * way
            ends.append(loss(np, moved))
        # JAX's gradient is dL/dx - i dL/dy
        np.testing.assert_allclose(
            np.sum((slope * way).real), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6
        )
