"""Generated code of every primitive and conversion against NumPy, extended precision and mpmath.

float32 functions are compared with NumPy's float64 ones at more than 10^5 points each; float64
functions with the C library's 80-bit ones at as many, and with mpmath at 10^4, which vouches for
the C library too. Exact primitives must match NumPy to the bit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from slow_parameters import slow_unless
from vector_math_harness import (
    APPROXIMATE,
    Array,
    function_errors,
    functions,
    targets,
    wide_reference,
)

from graphc.checking.levels.loops import FUNCTIONS, Loops, operand_dtypes
from graphc.codegen.kernels.primitives import emit_cast, emit_primitive
from graphc.codegen.math.common import MAX_ULP
from graphc.ir.dtypes import ALL, COMPUTED_FLOATS, INTEGERS, DType, float32, float64, floating
from graphc.kernel.scalar import PRIMITIVES, cast, stop_between
from graphc.ops.special.declared import CALLED

EXACT = tuple(name for name, primitive in PRIMITIVES.items() if primitive.exact)
TARGETS = tuple(targets())
LANES = {"float32": (1, 8, 16, 32), "float64": (1, 8, 16)}
PADDING = 32

# arguments next to which some function changes its method or range
_EDGES = (
    0.25, 0.4375, 0.5, 0.625, 2 / 3, 0.70710678118, 0.8, 0.927734375, 1.0, 4 / 3, 1.41421356237,
    2.4375, 4.0, 4.5, 5.9, 5.95, 6.0, 9.0, 9.1, 10.0, 17.5, 19.06, 22.0, 37.0, 38.0, 60.0, 87.3366,
    88.0, 88.3763, 88.7228, 89.0, 89.4160, 90.0, 103.2789, 103.9721, 104.5, 126.0, 127.0, 128.0,
    128.5, 149.0, 150.0, 150.5, 708.3964, 709.0896, 709.782712893384, 710.0, 710.475860073944,
    711.0, 744.4400719213812, 745.1332191019412, 746.0, 1022.0, 1024.0, 1025.0, 1074.0, 1075.0,
    1076.0, 2.0**20, 2.0**23, 2.0**24, 2.0**30, 2.0**31, 2.0**52, 2.0**53, 2.0**63,
)  # fmt: skip


def _special(dtype: DType) -> Array:
    form = dtype.format
    whole = 2.0**form.fraction
    positive = [
        0.0, form.smallest, 3 * form.smallest, form.smallest_normal,
        form.smallest_normal - form.smallest, 1e-30, 1e-10, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0,
        2.5, 3.0, 7.0, 1e10, form.largest, np.inf, whole - 1, whole, whole + 1, 2 * whole - 1,
        1 - form.spacing / 2, 1 + form.spacing,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        values = np.array(positive).astype(dtype.numpy)
    return np.concatenate([values, -values, np.array([np.nan], dtype.numpy)])


def _patterns(dtype: DType, count: int, generator: np.random.Generator) -> Array:
    """Floats of uniformly random bits."""
    words = generator.integers(0, 2**dtype.bits, count, dtype=np.uint64)
    return words.astype(f"u{dtype.bytes}").view(dtype.numpy)


def _around(centres: Array, steps: int) -> Array:
    """Floats a few steps to either side of each centre."""
    word = centres.dtype.str.replace("f", "i")
    return (centres.view(word)[:, None] + np.arange(-steps, steps + 1).astype(word)).ravel().view(
        centres.dtype
    )


def _padded(*arrays: Array) -> tuple[Array, ...]:
    """Repeats some elements so that every lane count divides the length."""
    missing = -arrays[0].size % PADDING
    return tuple(np.ascontiguousarray(np.concatenate([a, a[:missing]])) for a in arrays)


@cache
def unary_points(dtype: DType) -> Array:
    """At least 10^5 arguments: special, random patterns, logarithmic, in usual ranges, at edges."""
    generator = np.random.default_rng(20)
    info = np.finfo(dtype.numpy)  # type: ignore[type-var]
    low, high = np.log10(float(info.tiny)) - 5, np.log10(float(info.max))
    logarithmic = (10.0 ** np.linspace(low, high - 1e-9, 15_000)).astype(dtype.numpy)
    edges = _around(np.array(_EDGES, dtype.numpy), 40)
    turns = np.concatenate([np.arange(1, 1000), 2 ** np.arange(10, 60)]).astype(np.longdouble)
    angles = _around((turns * (np.longdouble(np.pi) / 4)).astype(dtype.numpy), 2)
    # the double closest to a multiple of pi/2, relative to its size
    worst = np.array([6381956970095103.0 * 2.0 ** (797 if dtype is float64 else 60)], dtype.numpy)
    ranges = [
        generator.uniform(-size, size, count).astype(dtype.numpy)
        for size, count in ((1, 20_000), (4, 10_000), (20, 10_000), (110, 8_000), (760, 6_000))
    ]
    one = (1 + generator.normal(size=4_000) * 1e-3).astype(dtype.numpy)
    signed = np.concatenate([logarithmic, edges, angles, worst])
    patterns = _patterns(dtype, 20_000, generator)
    return _padded(
        np.concatenate([_special(dtype), signed, -signed, patterns, *ranges, one])
    )[0]


@cache
def power_points(dtype: DType) -> tuple[Array, Array]:
    """Pairs of base and exponent, many with finite results."""
    generator = np.random.default_rng(21)
    special = _special(dtype)
    count = 25_000
    limit = float(np.log(np.finfo(dtype.numpy).max))  # type: ignore[type-var]
    base = np.abs(_patterns(dtype, count, generator))
    near_one = (1 + generator.normal(size=count) * 10.0 ** -generator.integers(1, 7, count)).astype(
        dtype.numpy
    )
    with np.errstate(all="ignore"):
        # exponents that lead to any size of result, and just past either end
        exponents = [
            (generator.uniform(-1.1, 1.05, count) * limit / np.log(x.astype(np.float64))).astype(
                dtype.numpy
            )
            for x in (base, near_one)
        ]
    small = generator.uniform(0, 10, count).astype(dtype.numpy)
    whole = generator.integers(-40, 40, count).astype(dtype.numpy)
    usual = (generator.normal(size=count) * 5).astype(dtype.numpy)
    bases = [np.repeat(special, special.size), base, near_one, small, -small]
    powers = [np.tile(special, special.size), *exponents, usual, whole]
    return _padded(
        np.concatenate([*bases, _patterns(dtype, 10_000, generator)]),
        np.concatenate([*powers, _patterns(dtype, 10_000, generator)]),
    )


@cache
def arguments(name: str, dtype: DType) -> tuple[Array, ...]:
    return power_points(dtype) if name == "power" else (unary_points(dtype),)


@cache
def expected(name: str, dtype: DType) -> Array:
    return wide_reference(name, *arguments(name, dtype))


def _lane_counts(target: str, dtype: DType) -> tuple[int, ...]:
    """All of them on the machine itself, one lane and the most elsewhere."""
    lanes = LANES[dtype.name]
    return lanes if target == "host" else (lanes[0], lanes[-1])


@cache
def compiled(target: str, dtype: DType) -> Loops:
    return functions(targets()[target], dtype, _lane_counts(target, dtype))


@pytest.mark.parametrize("dtype", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_keep_their_accuracy_everywhere(name: str, dtype: DType) -> None:
    points = arguments(name, dtype)
    assert points[0].size >= 100_000
    for target in TARGETS:
        got = compiled(target, dtype)(f"loop_{name}_{dtype}_{LANES[dtype.name][-1]}", *points)
        errors = function_errors(name, got, expected(name, dtype))
        worst = int(np.argmax(errors))
        assert errors[worst] <= MAX_ULP[name][dtype.name], (
            f"{target}: {name}({', '.join(repr(p[worst]) for p in points)}) = {got[worst]!r}, "
            f"not {expected(name, dtype)[worst]!r}: {errors[worst]:.2f} ulp"
        )


@pytest.mark.parametrize("dtype", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_same_bits_for_any_lane_count(name: str, dtype: DType) -> None:
    points = arguments(name, dtype)
    word = f"u{dtype.bytes}"
    results: dict[str, Array] = {}
    for target in TARGETS:
        loops = compiled(target, dtype)
        first, *others = _lane_counts(target, dtype)
        results[target] = scalar = loops(f"loop_{name}_{dtype}_{first}", *points)
        for lanes in others:
            vector = loops(f"loop_{name}_{dtype}_{lanes}", *points)
            different = (scalar.view(word) != vector.view(word)) & ~np.isnan(scalar)
            assert not different.any(), (target, lanes, [p[different][:3] for p in points])
            assert (np.isnan(scalar) == np.isnan(vector)).all()
    # only FMA makes a difference
    assert np.array_equal(results["host-without-fma"], results["x86-64-v2"], equal_nan=True)
    if "x86-64-v3" in results:
        assert np.array_equal(results["host"], results["x86-64-v3"], equal_nan=True)


@pytest.mark.parametrize("dtype", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("name", ("tanh", "erf", "sin", "cos", "sigmoid"))
def test_results_stay_in_range(name: str, dtype: DType) -> None:
    for function in (name, name + APPROXIMATE):
        for target in TARGETS:
            symbol = f"loop_{function}_{dtype}_{LANES[dtype.name][-1]}"
            got = compiled(target, dtype)(symbol, *arguments(function, dtype))
            numbers = got[~np.isnan(got)]
            assert numbers.min() >= (0 if name == "sigmoid" else -1) and numbers.max() <= 1


def _mpmath_reference(name: str, values: tuple[float, ...]) -> Any:
    x = mpmath.mpf(values[0])
    name = name.removesuffix(APPROXIMATE)
    if name == "power":
        return x ** mpmath.mpf(values[1])
    if name == "sigmoid":
        return 1 / (1 + mpmath.exp(-x))
    if name == "exp2":
        return mpmath.mpf(2) ** x
    if name == "log2":
        return mpmath.log(x) / mpmath.log(2)
    if name == "cbrt":
        return mpmath.sign(x) * mpmath.cbrt(abs(x))
    return getattr(mpmath, name.replace("arc", "a"))(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_agree_with_mpmath(name: str) -> None:
    generator = np.random.default_rng(22)
    points = arguments(name, float64)
    finite = np.logical_and.reduce([np.isfinite(p) for p in points])
    wide = expected(name, float64)
    # results that overflow or vanish cost mpmath most and are covered by the other test
    with np.errstate(all="ignore"):
        usual = (np.abs(wide) < 1e305) & (np.abs(wide) > 1e-305)
    chosen = generator.choice(np.nonzero(finite & usual)[0], 2_000)
    samples = tuple(np.ascontiguousarray(np.resize(p[chosen], 2_016)) for p in points)
    results = [
        (target, compiled(target, float64)(f"loop_{name}_float64_16", *samples))
        for target in TARGETS[:2]
    ]
    bound = MAX_ULP[name]["float64"]
    with mpmath.workprec(80):
        for index in range(2_000):
            exact = _mpmath_reference(name, tuple(float(p[index]) for p in samples))
            # mpmath's 1075-bit exponents are unlimited, so the unit is that of a normal number
            unit = mpmath.ldexp(1, max(mpmath.mag(exact) - 1, -1022) - 52)
            for target, got in results:
                error = abs(mpmath.mpf(float(got[index])) - exact) / unit
                assert error <= bound, (target, [p[index] for p in samples], got[index])


# --- exact primitives ----------------------------------------------------------------------------


def _values(dtype: DType) -> Array:
    generator = np.random.default_rng(23)
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.is_float:
        usual = generator.normal(size=20) * 10
        return np.concatenate(
            [_special(dtype), usual.astype(dtype.numpy), _patterns(dtype, 40, generator)]
        )
    info = np.iinfo(dtype.numpy)  # type: ignore[type-var]
    marks = (info.min, info.min + 1, info.max - 1, info.max, *range(-9, 10), 31, 32, 33, 63, 64)
    inside = [v for v in marks if info.min <= v <= info.max]
    return np.concatenate(
        [np.array(inside, dtype.numpy), generator.integers(info.min, info.max, 60, dtype.numpy)]
    )


def _operands(name: str, dtype: DType) -> tuple[Array, ...]:
    values = _values(dtype)
    if PRIMITIVES[name].arity == 1:
        return _padded(values)
    left, right = (side.ravel() for side in np.meshgrid(values, values))
    if name == "select":
        return _padded(np.arange(left.size) % 3 == 0, left, right)
    if name == "fma":
        return _padded(left, right, np.resize(np.roll(values, 7), left.size))
    return _padded(left, right)


def _differ(got: Array, wanted: Array) -> Array:
    """Where bits differ, NaN of any payload being one value."""
    if not floating(got.dtype):
        return np.asarray(got != wanted)
    word = f"u{got.dtype.itemsize}"
    return (got.view(word) != wanted.view(word)) & ~(np.isnan(got) & np.isnan(wanted))


def tells_most(target: str, lanes: int) -> bool:
    """One lane and many here; many for short vectors without FMA."""
    return target == "host" or (target == "x86-64-v2" and lanes > 1)


CASES = tuple(
    (name, dtype) for name in EXACT for dtype in ALL if PRIMITIVES[name].takes(dtype)
)


@slow_unless(tells_most)
@pytest.mark.parametrize("lanes", (1, 16))
@pytest.mark.parametrize("target", TARGETS)
def test_exact_primitives_equal_numpy(target: str, lanes: int) -> None:
    loops = Loops(targets()[target])
    symbols = {case: loops.add_primitive(*case, lanes) for case in CASES}
    for (name, dtype), symbol in symbols.items():
        operands = _operands(name, dtype)
        wanted = PRIMITIVES[name].reference(*operands)
        got = loops(symbol, *operands)
        assert wanted.dtype == PRIMITIVES[name].result_dtype(operand_dtypes(name, dtype)).numpy
        wrong = _differ(got, wanted)
        assert not wrong.any(), (
            f"{name} of {dtype}: {[o[wrong][:3] for o in operands]} gave {got[wrong][:3]}, "
            f"not {wanted[wrong][:3]}"
        )


@slow_unless(lambda target: tells_most(target, 16))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", COMPUTED_FLOATS, ids=str)
def test_float_division_is_exact_for_random_and_near_integer_quotients(
    dtype: DType, target: str
) -> None:
    generator = np.random.default_rng(24)
    count = 1 << 14
    base = _patterns(dtype, count, generator)
    factor = generator.integers(1, 1 << 40, count).astype(dtype.numpy)
    with np.errstate(all="ignore"):
        pairs = (
            (base, _patterns(dtype, count, generator)),
            (base, (base / factor).astype(dtype.numpy)),
            ((base * (factor % 100)).astype(dtype.numpy), np.abs(base)),
            (np.nextafter(base, -base), base),
            (generator.normal(size=count).astype(dtype.numpy) * 1000,
             generator.normal(size=count).astype(dtype.numpy)),
        )  # fmt: skip
    loops = Loops(targets()[target])
    symbols = {n: loops.add_primitive(n, dtype, 16) for n in ("fmod", "mod", "floor_divide")}
    for name, symbol in symbols.items():
        for pair in pairs:
            wrong = _differ(loops(symbol, *pair), PRIMITIVES[name].reference(*pair))
            assert not wrong.any(), (name, [p[wrong][:3] for p in pair])


@pytest.mark.parametrize("lanes", (1, 16))
def test_integer_power_of_known_exponents_is_unrolled_and_equal(lanes: int) -> None:
    loops = Loops(targets()["host"])
    exponents = (0, 1, 2, 3, 10, 63)
    for dtype in INTEGERS:
        for exponent in exponents:
            loops.add(
                f"loop_{dtype}_{exponent}", [dtype], dtype, lanes,
                lambda e, x, d=dtype, k=exponent: _power_by_literal(e, x[0], d, k),
            )  # fmt: skip
    for dtype in INTEGERS:
        (base,) = _padded(_values(dtype))
        for exponent in exponents:
            wanted = np.power(base, np.array(exponent, dtype.numpy))
            assert np.array_equal(loops(f"loop_{dtype}_{exponent}", base), wanted)


def _power_by_literal(e: Any, base: Any, dtype: DType, exponent: int) -> Any:
    before = e.block
    result = emit_primitive(e, "integer_power", (base, e.const(exponent, base.type)), dtype)
    assert e.block == before
    return result


def _cast_loop(loops: Loops, source: DType, target: DType, lanes: int) -> str:
    """A loop over a conversion; its symbol."""
    symbol = f"loop_cast_{source}_{target}_{lanes}"
    loops.add(symbol, [source], target, lanes, lambda e, x: emit_cast(e, x[0], source, target))
    return symbol


@slow_unless(tells_most)
@pytest.mark.parametrize("lanes", (1, 16))
@pytest.mark.parametrize("target", TARGETS)
def test_casts_equal_the_reference(target: str, lanes: int) -> None:
    loops = Loops(targets()[target])
    steps = [(a, b) for a in ALL for b in ALL if a is not b and stop_between(a, b) is None]
    symbols = {(a, b): _cast_loop(loops, a, b, lanes) for a, b in steps}
    bounds = [
        sign * (2.0**bits + step)
        for bits in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)
        for step in (-1, -0.5, 0, 0.5, 1)
        for sign in (1, -1)
    ]
    for (source, wanted_dtype), symbol in symbols.items():
        values = _values(source)
        if source.is_float:
            values = np.concatenate([values, np.array(bounds, source.numpy)])
        (values,) = _padded(np.tile(values, PADDING))
        wanted = cast(values, wanted_dtype)
        wrong = _differ(loops(symbol, values), wanted)
        assert not wrong.any(), (source, wanted_dtype, values[wrong][:4], wanted[wrong][:4])


def test_every_primitive_has_code() -> None:
    covered = {name for name, _ in CASES} | set(FUNCTIONS)
    # formulas that kernels call have tests of their own
    assert covered == set(PRIMITIVES) - set(CALLED)
    assert set(MAX_ULP) == set(FUNCTIONS)
    assert all(set(bounds) == {float32.name, float64.name} for bounds in MAX_ULP.values())
