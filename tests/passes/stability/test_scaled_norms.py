"""Roots of sums of squares, spelled by hand: right where the squares leave the range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from slow_parameters import slow_unless

import graphc as gx
from graphc.compiling.extraction import extract
from graphc.ir.verify import verify
from passes.infra.base import PassContext
from passes.stability.scaled_norms import NAME, scale_roots
from passes.stability.stabilize import stabilize

pytestmark = pytest.mark.check_mode

Spelling = Callable[[gx.Value, gx.Value], gx.Value]

PAIRS: dict[str, Spelling] = {
    "products": lambda x, y: gx.sqrt(x * x + y * y),
    "powers": lambda x, y: gx.sqrt(x**2 + y**2.0),
    "half": lambda x, y: (gx.square(x) + gx.square(y)) ** 0.5,
    "quarters": lambda x, y: gx.sqrt(gx.square(x) * 0.25 + gx.square(y) / 4) * 2,
    "stacked": lambda x, y: gx.sqrt(gx.sum(gx.square(gx.stack([x, y])), axis=0)),
    "rows": lambda x, y: gx.sqrt((gx.stack([x, y], axis=1) ** 2).sum(axis=1, keepdims=True))[:, 0],
    "mean": lambda x, y: gx.sqrt(2.0 * gx.mean(gx.stack([x, y], axis=1) ** 2, axis=1)),
    "hypot": lambda x, y: gx.hypot(x, y),
}
INVERSES: dict[str, Spelling] = {
    "rsqrt": lambda x, y: gx.rsqrt(x * x + y * y),
    "minus half": lambda x, y: (x * x + y * y) ** -0.5,
    "quotient": lambda x, y: 1 / gx.sqrt(x * x + y * y),
}
ALL = {**PAIRS, **INVERSES}


def each_spelling(test: Any) -> Any:
    """With every spelling, and some of them in float64, whose limits alone are others."""
    test = pytest.mark.parametrize("name", ALL)(test)
    test = pytest.mark.parametrize("dtype", ["float32", "float64"])(test)
    some = ("products", "rows", "rsqrt", "hypot")
    return slow_unless(lambda name, dtype: dtype == "float32" or name in some)(test)


def magnitudes(dtype: str) -> Any:
    """Pairs of numbers from the smallest to the largest, alike and far apart."""
    info = np.finfo(dtype)
    low, high = int(np.log2(float(info.smallest_subnormal))), info.maxexp - 2
    sizes = [2.0 ** int(power) for power in np.linspace(low, high, 61)]
    rng = np.random.default_rng(7)
    x = np.array([size * rng.uniform(1, 2) for size in sizes], dtype)
    y = np.concatenate([x * dtype_of(dtype)(0.75), rng.permutation(x), 0 * x])
    return np.concatenate([x, x, -x]), y


def dtype_of(dtype: str) -> Any:
    return np.dtype(dtype).type


def run(spelled: Spelling, dtype: str, x: Any, y: Any, **options: Any) -> tuple[Any, Any]:
    """The value and its derivative in x."""
    with gx.Graph() as g:
        a = gx.placeholder((None,), dtype, name="a")
        b = gx.placeholder(a.shape, dtype, name="b")
        value = spelled(a, b)
        slope = gx.gradients(value, a)
    value, slope = gx.Session(g, options=gx.Options(**options)).run([value, slope], {a: x, b: y})
    return value, slope


@each_spelling
def test_values_and_slopes_from_the_smallest_to_the_largest_numbers(name: str, dtype: str) -> None:
    x, y = magnitudes(dtype)
    value, slope = run(ALL[name], dtype, x, y)
    plain, _ = run(ALL[name], dtype, x, y, numerics="strict")
    info = np.finfo(dtype)
    gained = 0
    with mp.workdps(60):
        for a, b, got, steep, strict in zip(x, y, value, slope, plain, strict=True):
            exact = mp.sqrt(mp.mpf(float(a)) ** 2 + mp.mpf(float(b)) ** 2)
            root = exact
            if name in INVERSES:
                exact = 1 / exact
            if exact > float(info.max):
                assert np.isposinf(got)
                continue
            scale = max(exact, mp.mpf(float(info.tiny))) * float(info.eps)
            assert abs(mp.mpf(float(got)) - exact) <= 3 * scale, (a, b, got)
            # The stride of the spelled gradient is 1 / root, which must be a number.
            if name in PAIRS and 4 / float(info.max) < root < float(info.max) / 4:
                direction = mp.mpf(float(a)) / root
                assert abs(mp.mpf(float(steep)) - direction) <= 8 * float(info.eps), (a, b, steep)
            gained += not np.isfinite(strict) or abs(mp.mpf(float(strict)) - exact) > 3 * scale
    assert gained > 50 or name == "hypot"


@each_spelling
def test_nothing_changes_where_the_squares_stay_in_range(name: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    width = 40 if dtype == "float32" else 300
    x, y = ((2.0 ** rng.uniform(-width, width, 500)).astype(dtype) for _ in range(2))
    given, spelled = (run(ALL[name], dtype, x, y, off=off) for off in ((), (NAME,)))
    for one, other in zip(given, spelled, strict=True):
        assert np.array_equal(one, other)
    if name in ("products", "hypot"):
        assert np.array_equal(given[0], np.sqrt(x * x + y * y))


@each_spelling
def test_infinities_and_nan_are_as_spelled(name: str, dtype: str) -> None:
    numbers = [np.inf, -np.inf, np.nan, 0.0, 1.0]
    x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(numbers, numbers))
    given, spelled = (run(ALL[name], dtype, x, y, off=off)[0] for off in ((), (NAME,)))
    assert np.array_equal(given, spelled, equal_nan=True)
    infinite = np.isinf(x) | np.isinf(y)
    undefined = np.isnan(x) | np.isnan(y)
    if name == "hypot":
        assert np.array_equal(given, np.hypot(x, y), equal_nan=True)
    else:
        assert np.isnan(given[undefined]).all()
        limit = 0.0 if name in INVERSES else np.inf
        assert (given[infinite & ~undefined] == limit).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1, (0, 1), None])
def test_norms_of_rows_columns_and_arrays(dtype: str, axis: Any) -> None:
    rng = np.random.default_rng(3)
    huge = float(np.finfo(dtype).max) ** 0.75
    with gx.Graph() as g:
        x = gx.placeholder((None, 37), dtype, name="x")
        length = gx.sqrt(gx.sum(x * x, axis=axis, keepdims=True))
        unit = x / length
        plain = gx.sum(x * x, axis=axis)
    session = gx.Session(g)
    executable = session.compile([length, unit], [x])
    assert len(executable.kernels) == (1 if axis in (0, 1) else 3)
    for scale in (1.0, huge, 1 / huge):
        data = (rng.normal(size=(53, 37)) * scale).astype(dtype)
        wide = data.astype(np.longdouble)
        exact = np.sqrt(np.sum(wide * wide, axis=axis, keepdims=True))
        lengths, units = executable(data)
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(lengths, exact.astype(dtype), rtol=4 * eps)
        np.testing.assert_allclose(units, (wide / exact).astype(dtype), rtol=6 * eps)
        if scale == 1.0:
            summed = session.run(plain, {x: data})
            assert np.array_equal(np.sqrt(summed).ravel(), lengths.ravel())


WEIGHTED: dict[str, Callable[[gx.Value, Any], gx.Value]] = {
    "elements": lambda x, factor: gx.sqrt(x * x * factor).sum(axis=1) / 2,
    "a sum": lambda x, factor: gx.sqrt(gx.sum(x * x, axis=1) * factor),
    "a mean": lambda x, factor: gx.sqrt(4 * gx.mean(x * x, axis=1) * factor),
    "in a sum": lambda x, factor: gx.sqrt(gx.sum(x * x * factor, axis=1)),
    "divided": lambda x, factor: gx.sqrt(gx.sum(x * x, axis=1) / (1 / factor)),
    "part of it": lambda x, factor: gx.sqrt((x[:, :2] * x[:, :2] * factor).sum(1) * 2),
    "reciprocal": lambda x, factor: 1 / gx.rsqrt(gx.sum(x * x, axis=1) * factor),
    "shared": lambda x, factor: gx.sqrt((lambda s: s + s * factor)(gx.sum(x * x, axis=1))),
}


@slow_unless(
    lambda name, power, dtype: power in (-98, 9) or (name == "elements" and dtype == "float32")
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [-98, -60, -30, -9, 8, 9, 60, 100])
@pytest.mark.parametrize("name", WEIGHTED)
def test_factors_of_squares_never_make_it_worse(name: str, power: int, dtype: str) -> None:
    """All four elements of a row are alike, and the root of a row is twice an element's."""
    info = np.finfo(dtype)
    column = 2.0 ** np.arange(info.minexp + 60, info.maxexp - 60, dtype="float64") * 1.25
    factor = dtype_of(dtype)(2.0**power)
    data = np.repeat(column.astype(dtype)[:, None], 4, axis=1)
    with gx.Graph() as g:
        x = gx.placeholder((None, 4), dtype, name="x")
        value = WEIGHTED[name](x, factor)
    strict, got = (
        gx.Session(g, options=options).run(value, {x: data})
        for options in (gx.Options(numerics="strict"), gx.Options())
    )
    total = 1.0 + float(factor) if name == "shared" else float(factor)
    with mp.workdps(60):
        for number, one, plain in zip(column, got, strict, strict=True):
            exact = 2 * mp.mpf(number) * mp.sqrt(mp.mpf(total))
            right = abs(mp.mpf(float(one)) - exact) <= 4 * float(info.eps) * exact
            assert right or one == plain, (number, one, plain, exact)


def test_the_norm_of_a_whole_array_reads_it_once() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((None, 64), name="x")
        y = gx.placeholder((32,), name="y")
        length = gx.sqrt(gx.sum(x * x))
        both = gx.sqrt(gx.sum(gx.square(x - 1.0)) + gx.sum(y * y))
    session = gx.Session(g)
    # threads share the groups of the sum; a launch behind takes what is no whole group
    assert len(session.compile(length, [x]).compiled.launches) == 1
    assert len(session.compile(both, [x, y]).kernels) <= 4
    big = np.full((3, 64), 1e30, "float32")
    assert session.run(length, {x: big}) == pytest.approx(1e30 * 192**0.5, rel=1e-6)
    assert session.run(both, {x: big, y: big[0, :32]}) == pytest.approx(1e30 * 224**0.5, rel=1e-6)


UNTOUCHED: dict[str, Spelling] = {
    "difference": lambda x, y: gx.sqrt(x * x - y * y),
    "discriminant": lambda x, y: gx.sqrt(x * x - 4.0 * y),
    "other term": lambda x, y: gx.sqrt(x * x + y),
    "product": lambda x, y: gx.sqrt(x * y + 1.0),
    "negative": lambda x, y: gx.sqrt(x * x + -1.0),
    "weight": lambda x, y: gx.sqrt(x * x * y + 1.0),
    "negative weight": lambda x, y: gx.sqrt(x * x * -2.0 + 100.0),
    "infinite": lambda x, y: gx.sqrt(x * x + np.inf),
    "no square": lambda x, y: gx.sqrt(gx.sum(x, axis=0)),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_other_roots_are_left_alone(name: str) -> None:
    with gx.Graph() as g:
        x, y = (gx.placeholder((5,), name=label) for label in "xy")
        root = UNTOUCHED[name](x, y)
    source = gx.Session(g).compile(root, [x, y]).source
    assert scale_roots(source, PassContext()) is source


def source_of(spelled: Spelling) -> Any:
    with gx.Graph() as g:
        x, y = (gx.placeholder((5,), name=label) for label in "xy")
        root = spelled(x, y)
    return gx.Session(g).compile(root, [x, y]).source


def test_once_is_enough_and_strict_keeps_the_spelling() -> None:
    source = source_of(PAIRS["products"])
    once = stabilize(source, PassContext())
    verify(once)
    assert once is not source
    assert stabilize(once, PassContext()) is once
    strict = PassContext(gx.Options(numerics="strict"))
    assert stabilize(source, strict) is source
    assert scale_roots(source, PassContext(gx.Options(off=(NAME,)))) is source


def test_a_constant_beside_the_squares_needs_no_sum_for_small_ones() -> None:
    small = scale_roots(source_of(lambda x, y: gx.sqrt(x * x + 1e-6)), PassContext())
    full = scale_roots(source_of(lambda x, y: gx.sqrt(x * x + 1e-36)), PassContext())
    assert sum(node.op.name == "where" for node in small.nodes) == 3
    assert sum(node.op.name == "where" for node in full.nodes) == 6


def test_a_single_square_is_the_absolute_value() -> None:
    numbers = np.array([3.0, -1e30, 1e-30, -0.0, np.inf, -np.inf, np.nan], "float32")
    with gx.Graph() as g:
        x = gx.placeholder((None,), name="x")
        roots = [gx.sqrt(x * x), gx.rsqrt(x * x)]
    absolute, inverse = gx.Session(g).run(roots, {x: numbers})
    assert np.array_equal(absolute, np.abs(numbers), equal_nan=True)
    with np.errstate(divide="ignore"):
        assert np.array_equal(inverse, 1 / np.abs(numbers), equal_nan=True)


def test_long_chains_of_roots_take_linear_time() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4,), name="x")
        length, total = x, x * x
        for _ in range(1500):
            length = gx.sqrt(length * length + x * x)
            total = total + length * length
        ends = [length, gx.sqrt(total)]
    source = extract(g, ends).graph
    result = scale_roots(source, PassContext())
    verify(result)
    assert len(result.nodes) < 14 * len(source.nodes)
