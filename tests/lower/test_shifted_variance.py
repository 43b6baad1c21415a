"""Variances: one pass over the elements, as accurate whatever their mean is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.target import Target, host
from graphc.ir.builder import apply
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.dtypes import float32, int64
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Kernel
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import print_kernel
from graphc.kernel.verify import verify_kernel
from graphc.ops.reduce.core import order_of, reduce_deviations_op
from graphc.ops.reduce.scaled_norms import scales

pytestmark = pytest.mark.check_mode

TARGETS = [host(), host().without_fma()]
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((3, 1), -1), ((3, 2), -1), ((9, 31), -1), ((5, 256), 1), ((5, 257), 1), ((4, 1000), 1),
    ((2, 4099), 1), ((300_007,), None), ((8, 5), 0), ((9, 70), 0), ((1000, 130), 0),
    ((3, 500, 33), 1), ((3, 20, 40), (1, 2)), ((3, 40, 5), (0, 1)), ((30, 3, 40), (0, 2)),
]  # fmt: skip


def _outlier(x: Any) -> Any:
    x[..., :1] += 1e6
    return x


def _cluster(x: Any) -> Any:
    """What leads is far from all others, along any axis."""
    for axis in range(x.ndim):
        part = [slice(None)] * x.ndim
        part[axis] = slice(x.shape[axis] // 16)
        x[tuple(part)] -= 1e3
    return x


KINDS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "plain": (lambda x: x, 8),
    "far from zero": (lambda x: x + 1e4, 8),
    "farther": (lambda x: np.round(x) * 8 + 1e8, 8),
    "ascending": (lambda x: np.sort(x.reshape(-1)).reshape(x.shape), 32),
    "an outlier": (_outlier, 16),
    "a cluster": (_cluster, 64),
}
"""How elements are distributed, and how many eps the variance may be off."""


def variance(
    x: Any, axis: Any = None, ddof: int = 0, known: bool = True, with_mean: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    with gx.Graph() as graph:
        value = gx.placeholder(x.shape if known else (None,) * x.ndim, x.dtype, name="x")
        results: Any = gx.var(value, axis=axis, ddof=ddof)
        if with_mean:
            results = [results, gx.mean(value, axis=axis)]
    return gx.Session(graph, **options).compile(results, [value])(x)


@slow_unless(
    lambda kind, dtype, target: (kind == "plain" and dtype == "float32")
    or (target is TARGETS[0] and (kind == "plain" or dtype == "float32"))
)
@pytest.mark.parametrize("target", TARGETS, ids=["host", "without_fma"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_accurate_whatever_the_mean_is(kind: str, dtype: str, target: Target) -> None:
    arrange, factor = KINDS[kind]
    eps = np.finfo(dtype).eps
    for shape, axis in SHAPES:
        numbers = np.random.default_rng(len(shape)).standard_normal(shape)
        x = arrange(numbers).astype(dtype)
        wide = x.astype(np.longdouble)
        exact = wide.var(axis=axis)
        # the mean of few elements is rounded
        room = factor * eps * exact + (4 * eps * np.abs(wide).mean(axis=axis)) ** 2
        off = np.abs(variance(x, axis, target=target) - exact)
        assert np.all(off <= room), (shape, axis, np.max(off / room))


@pytest.mark.parametrize("columns", [1, 40, 256, 257, 1024, 1025, 300_001])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e15])
def test_constants_vary_no_more_than_their_mean_is_off(columns: int, value: float) -> None:
    x = np.full((2, columns), value, np.float32)
    for axis, given in ((1, x), (0, x.T.copy())):
        result = variance(given, axis)
        bound = (4 * np.finfo(np.float32).eps * np.longdouble(abs(value))) ** 2
        assert np.all((result >= 0) & (result <= bound)), result


@pytest.mark.parametrize("columns", [3, 100, 1000, 300_000])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_elements_that_are_not_finite(columns: int, place: int) -> None:
    for value in (np.inf, -np.inf, np.nan):
        x = np.ones((3, columns), np.float32)
        x[1, place] = value
        for axis, given in ((1, x), (0, x.T.copy())):
            assert np.array_equal(np.isnan(variance(given, axis)), [False, True, False])


@pytest.mark.parametrize("columns", [4, 100, 1000, 300_000])
def test_squares_beyond_the_largest_float(columns: int) -> None:
    x = np.tile(np.array([1e25, -1e25], np.float32), (2, columns // 2))
    assert np.all(variance(x, 1) == np.inf)
    assert np.all(variance(x.T.copy(), 0) == np.inf)
    assert np.allclose(variance(x * np.float32(1e-10), 1), 1e30)


def test_as_numpy_where_there_are_too_few_elements() -> None:
    for known in (True, False):
        for count, ddof in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 3), (3, 1)):
            x = np.arange(2.0 * count).reshape(2, count)
            with np.errstate(all="ignore"), pytest.warns() if ddof >= count else nullcontext():
                expected = x.var(axis=1, ddof=ddof)
            for axis, given in ((1, x), (0, x.T.copy())):
                assert np.allclose(variance(given, axis, ddof, known), expected, equal_nan=True)


@pytest.mark.parametrize(("shape", "axis"), [(s, a) for s, a in SHAPES if s[0] < 1000 or a is None])
def test_bits_depend_on_elements_alone(shape: tuple[int, ...], axis: Any) -> None:
    """Not on how sizes are known, on threads, on fusion, or on what else is computed."""
    x = (np.random.default_rng(1).standard_normal(shape) + 5).astype(np.float32)
    expected = variance(x, axis).tobytes()
    assert variance(x, axis, known=False).tobytes() == expected
    for options in ({"threads": 1}, {"threads": 2}, {"optimize": 0}, {"optimize": 1}):
        result = variance(x, axis, options=gx.Options(**options))  # type: ignore[arg-type]
        assert result.tobytes() == expected
    both, mean = variance(x, axis, with_mean=True)
    assert both.tobytes() == expected
    with gx.Graph() as graph:
        value = gx.placeholder(x.shape, x.dtype)
        alone = gx.mean(value, axis=axis)
    assert mean.tobytes() == np.asarray(gx.Session(graph).run(alone, {value: x})).tobytes()


def test_rows_are_those_of_any_batch() -> None:
    x = (np.random.default_rng(2).standard_normal((64, 1000)) + 5).astype(np.float32)
    together = variance(x, 1, known=False)
    assert all(variance(x[n : n + 1], 1, known=False)[0] == together[n] for n in range(64))


def test_it_is_of_what_is_computed_in_the_same_kernel() -> None:
    x = np.random.default_rng(3).standard_normal((6, 700)).astype(np.float32)
    with gx.Graph() as graph:
        value = gx.placeholder(x.shape, x.dtype)
        h = gx.tanh(value) * 3 + 1
        scaled = (h - gx.mean(h, -1, True)) / gx.std(h, -1, True, ddof=1)
    program = gx.Session(graph).compile([scaled, gx.var(h, 0)], [value])
    wide = np.tanh(x.astype(np.float64)) * 3 + 1
    expected = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True, ddof=1)
    got, columns = program(x)
    assert np.allclose(got, expected, atol=2e-6)
    assert np.allclose(columns, wide.var(0), rtol=1e-5)


def test_derivatives() -> None:
    """d var / d x = 2 (x - mean) / (n - ddof), and of that 2 (I - 1/n) / (n - ddof)."""
    x = np.random.default_rng(4).standard_normal(300) + 2
    direction = np.random.default_rng(5).standard_normal(300)
    with gx.Graph() as graph:
        value = gx.placeholder(x.shape, x.dtype)
        (slope,) = gx.gradients(gx.var(value, ddof=1), [value])
        (curve,) = gx.gradients(gx.sum(slope * direction), [value])
    got, second = gx.Session(graph).run([slope, curve], {value: x})
    assert np.allclose(got, 2 * (x - x.mean()) / 299)
    assert np.allclose(second, 2 * (direction - direction.mean()) / 299)


def squares(dtype: Any) -> Kernel:
    b = KernelBuilder("squares")
    x = b.buffer("x", "in", TensorType(dtype, (40,)))
    y = b.buffer("y", "out", TensorType(dtype, ()))
    with b.reduce(40, "lanes") as scope:
        scope.terms.append(("squares", b.load(x, scope.index)))
    b.store(y, b.dim(0), scope.results[0])
    return b.finish()


@slow_unless(lambda count, dtype, known: dtype == "float32" or (known and count < 5000))
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [5, 20, 300, 5000])
def test_scaled_and_shifted_ones_are_as_their_reference(
    count: int, axis: int, dtype: str, known: bool
) -> None:
    """All shifts count, also those of long rows, whose mean is subtracted after squaring."""
    bounds = scales(as_dtype(dtype))
    for size in (1.0, 1 / bounds.down):
        x = np.random.default_rng(0).standard_normal((3, count) if axis else (count, 3)) * size
        x = x.astype(dtype)
        with gx.Graph() as graph:
            given = gx.placeholder(x.shape if known else (None, None), dtype)
            attrs = {"axis": axis, "order": order_of(2, axis)}
            attrs |= {"scale": bounds.down, "shift": bounds.shift}
            result = apply(reduce_deviations_op, given, **attrs)
        found = gx.Session(graph, options=gx.Options(check=True)).run(result, {given: x})
        wanted = reduce_deviations_op.reference(x, **attrs)
        np.testing.assert_allclose(found, wanted, rtol=200 * np.finfo(dtype).eps)
        assert (found > count * bounds.shift**2 / 2).all()


def test_sums_of_squares_are_text_and_of_floats() -> None:
    text = print_kernel(squares(float32))
    assert "yield squares %" in text
    assert print_kernel(parse_kernel(text)) == text
    with pytest.raises(VerifyError, match="squares of int64"):
        verify_kernel(squares(int64))
