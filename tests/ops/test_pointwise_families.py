"""The pointwise functions beyond arithmetic against NumPy, and against mpmath where they round.

Each sweep is one graph: all functions over all special values of a dtype, compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from bits import assert_same_bits
from op_contract import special_values

import graphc as gx
from graphc.ir.dtypes import COMPUTED, COMPUTED_FLOATS, INTEGERS, DType, bool_, float64
from graphc.ir.op import lookup
from graphc.ops.declare import float_dtype

pytestmark = pytest.mark.check_mode


def outputs(names: list[str], element: DType, *arrays: Any, **options: Any) -> list[Any]:
    """The functions of the arrays as compiled in one graph; those of two results give both."""
    with gx.Graph() as graph:
        operands = [gx.placeholder((None,) * a.ndim, element) for a in arrays]
        fetches = [getattr(gx, name)(*operands, **options) for name in names]
    fed = dict(zip(operands, arrays, strict=True))
    return list(gx.Session(graph).run(fetches, fed))


def pairs(element: DType) -> tuple[Any, Any]:
    values = special_values(element)
    left, right = np.meshgrid(values, values)
    return left.ravel(), right.ravel()


EXACT = ["isposinf", "isneginf", "spacing", "frexp", "modf", "rint", "fix", "fabs", "signbit"]
EXACT_OF_TWO = ["copysign", "nextafter", "fmax", "fmin", "heaviside", "isclose"]


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_exact_functions_of_floats_are_numpy_s(element: DType) -> None:
    values = special_values(element)
    with np.errstate(all="ignore"):
        for name, got in zip(EXACT, outputs(EXACT, element, values), strict=True):
            wanted = getattr(np, name)(values)
            keep = ~np.isnan(values) if name == "signbit" else slice(None)
            several = isinstance(wanted, tuple)
            for one, other in zip(got, wanted, strict=True) if several else [(got, wanted)]:
                assert_same_bits(one[keep], other[keep], name)
        x, y = pairs(element)
        for name, got in zip(EXACT_OF_TWO, outputs(EXACT_OF_TWO, element, x, y), strict=True):
            wanted = getattr(np, name)(x, y)
            if name in ("fmax", "fmin"):
                # which of two zeros is the greater one is fixed here, and open in NumPy
                got, wanted = got + 0.0, wanted + 0.0
            if name == "copysign":
                got, wanted = got[~np.isnan(y)], wanted[~np.isnan(y)]
            assert_same_bits(got, wanted, name)
        (close,) = outputs(["isclose"], element, x, y, equal_nan=True)
        assert_same_bits(close, np.isclose(x, y, equal_nan=True), "isclose")


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_functions_of_integers_are_numpy_s(element: DType) -> None:
    x, y = pairs(element)
    names = ["gcd", "lcm", "divmod"]
    with np.errstate(all="ignore"):
        for name, got in zip(names, outputs(names, element, x, y), strict=True):
            wanted = getattr(np, name)(x, y)
            several = zip(got, wanted, strict=True) if name == "divmod" else [(got, wanted)]
            for one, other in several:
                assert_same_bits(one, other, name)
        names = ["bitwise_count", "isposinf", "isneginf", "signbit", "positive", "fix"]
        for name, got in zip(names, outputs(names, element, x), strict=True):
            function = np.isinf if name.startswith("is") else getattr(np, name)
            wanted = np.less(x, 0) if name == "signbit" else function(x)
            assert_same_bits(got, wanted.astype(got.dtype) if name == "fix" else wanted, name)


def test_ldexp_rounds_once_at_any_exponent() -> None:
    for element in COMPUTED_FLOATS:
        values, exponents = special_values(element), np.arange(-2300, 2300, 7)
        x, n = (part.ravel() for part in np.meshgrid(values, exponents))
        with np.errstate(over="ignore"):
            x = np.concatenate([x, x * element.numpy.type(1.375)])
        n = np.concatenate([n, n]).astype(np.int32)
        with gx.Graph() as graph:
            value, power = gx.placeholder((None,), element), gx.placeholder((None,), "int32")
            scaled = gx.ldexp(value, power)
        with np.errstate(all="ignore"):
            got = gx.Session(graph).run(scaled, {value: x, power: n})
            assert_same_bits(got, np.ldexp(x, n), "ldexp")


UNARY: dict[str, Callable[[Any], Any]] = {
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh, "arctanh": mpmath.atanh, "cbrt": lambda x: mpmath.sign(x)
    * mpmath.cbrt(abs(x)), "log10": mpmath.log10, "logit": lambda x: mpmath.log(x / (1 - x)),
    "sinc": mpmath.sincpi, "entr": lambda x: -x * mpmath.log(x),
}  # fmt: skip
DOMAINS = {
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-1, 1), "logit": (0, 1), "arccosh": (1, 1e3),
    "log10": (0, 1e3), "entr": (0, 1e3),
}  # fmt: skip


def arguments(name: str, element: DType, random: np.random.Generator) -> Any:
    """Uniform in the domain, near its ends and near 0, and far out."""
    low, high = DOMAINS.get(name, (-60, 60))
    count, span = 60, high - low
    small = 10.0 ** random.uniform(-12, 0, count)
    points = [random.uniform(low, high, 4 * count), low + small * span, high - small * span]
    if low < 0 < high:
        points += [small, -small]
    if name not in ("arcsin", "arccos", "arctanh", "logit", "sinc"):
        huge = 10.0 ** random.uniform(3, float(np.log10(element.format.largest)) - 1, count)
        points.append(huge if low >= 0 else np.concatenate([huge, -huge]))
    values = np.concatenate(points).astype(element.numpy)
    return values[(values > low) & ((values < high) | (values > 1e3))]


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
def test_functions_are_within_their_ulp(element: DType) -> None:
    random = np.random.default_rng(5)
    with gx.Graph() as graph:
        operands = {name: gx.placeholder((None,), element) for name in UNARY}
        fetches = [getattr(gx, name)(operand) for name, operand in operands.items()]
    given = {name: arguments(name, element, random) for name in UNARY}
    results = gx.Session(graph).run(fetches, {operands[name]: given[name] for name in UNARY})
    with mpmath.workprec(200):
        for (name, true), got in zip(UNARY.items(), results, strict=True):
            exact = [true(mpmath.mpf(float(number))) for number in given[name]]
            size = np.abs(np.array([float(number) for number in exact])).astype(element.numpy)
            unit = np.spacing(size).astype(np.float64)
            errors = [
                float(abs(mpmath.mpf(float(one)) - other)) / step
                for one, other, step in zip(got, exact, unit, strict=True)
            ]
            place = int(np.argmax(errors))
            bound = lookup(name).max_ulp
            assert errors[place] <= bound, (name, given[name][place], errors[place])


SPECIAL: dict[str, Callable[[Any], Any]] = {
    "arcsin": np.arcsin, "arccos": np.arccos, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh, "cbrt": np.cbrt, "log10": np.log10, "degrees": np.degrees,
    "radians": np.radians, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
}  # fmt: skip


@pytest.mark.parametrize("element", COMPUTED, ids=str)
def test_functions_at_special_values_are_numpy_s(element: DType) -> None:
    values = special_values(element)
    wide = values.astype(float_dtype(element).numpy)
    for (name, function), got in zip(
        SPECIAL.items(), outputs(list(SPECIAL), element, values), strict=True
    ):
        with np.errstate(all="ignore"):
            wanted = function(wide)
        assert got.dtype == wide.dtype
        # NumPy's own float32 functions are off by more than an ulp
        room = 1e-6 if wide.dtype == np.float32 else 1e-15
        np.testing.assert_allclose(got, wanted, rtol=room, atol=0, err_msg=name)
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(wanted)[number], name)


def test_entropies_and_odds_at_special_values() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 0.5])
    names = ["entr", "logit", "sinc", "expit"]
    entr, logit, sinc, expit = outputs(names, float64, x)
    with np.errstate(all="ignore"):
        half = 0.5 * np.log(2)
        np.testing.assert_allclose(entr, [0, 0, 0, -inf, -inf, -inf, nan, half], atol=1e-16)
        np.testing.assert_array_equal(logit, [-inf, -inf, inf, nan, nan, nan, nan, 0])
        np.testing.assert_allclose(sinc, [1, 1, 0, 0, nan, nan, nan, 2 / np.pi])
        np.testing.assert_allclose(expit, 1 / (1 + np.exp(-x)))
    y = np.array([0.0, nan, inf, 2.0, 0.0, -1.0])
    z = np.array([0.0, 0.0, 0.0, 0.0, 3.0, 0.0])
    logy, log1py = outputs(["xlogy", "xlog1py"], float64, z, y)
    np.testing.assert_array_equal(logy, [0, nan, 0, 0, -inf, 0])
    np.testing.assert_array_equal(log1py, [0, nan, 0, 0, 0, 0])


def test_logaddexp2() -> None:
    a = np.array([0.0, 1000.0, -np.inf, np.inf, -np.inf, np.nan, -3.0, 2.5])
    b = np.array([0.0, 1001.0, -np.inf, np.inf, 4.0, 1.0, -0.19, 2.5])
    (got,) = outputs(["logaddexp2"], float64, a, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got, np.logaddexp2(a, b), rtol=1e-15, atol=2e-16)


def test_other_numbers_in_the_place_of_nan() -> None:
    for element in COMPUTED:
        values = special_values(element)
        for options in ({}, {"nan": 2.0, "posinf": 1e30, "neginf": -5}):
            (got,) = outputs(["nan_to_num"], element, values, **options)
            assert_same_bits(got, np.nan_to_num(values, **options), "nan_to_num")


def test_float_power_computes_in_float64() -> None:
    x, y = np.array([2, 3, 5], np.int8), np.array([-1, 0, 3], np.int8)
    (got,) = outputs(["float_power"], gx.int8, x, y)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.float_power(x, y), rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "element"),
    [("gcd", "float32"), ("lcm", "bool"), ("bitwise_count", "float64"), ("positive", "bool"),
     ("ldexp", "float32")],
)  # fmt: skip
def test_dtypes_that_numpy_refuses(name: str, element: str) -> None:
    with gx.Graph():
        x = gx.placeholder((3,), element)
        operands = (x,) if name in ("bitwise_count", "positive") else (x, x)
        with pytest.raises(gx.DTypeError, match=name) as caught:
            getattr(gx, name)(*operands)
    assert caught.value.where is not None and caught.value.where.filename == __file__


def test_equality_of_arrays_whose_sizes_a_run_tells() -> None:
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, 2)), gx.placeholder((None, None))
        fetches = [gx.array_equal(x, y), gx.array_equal(x, y, equal_nan=True)]
        known = [gx.array_equal(x, gx.placeholder((3, 3))), gx.array_equal(x, gx.placeholder(()))]
        bools = gx.array_equal(gx.constant([True]), np.array([1]))
        close = gx.allclose(x, x + 1e-9), gx.allclose(x, x + 1)
    session = gx.Session(graph)
    one, nan = np.ones((3, 2)), np.full((3, 2), np.nan)
    for a, b in ((one, one), (one, one[:2]), (one[:0], one[:0]), (one, one * 2), (nan, nan),
                 (one, np.ones((3, 3))), (one[:0], one)):  # fmt: skip
        wanted = [np.array_equal(a, b), np.array_equal(a, b, equal_nan=True)]
        assert session.run(fetches, {x: a, y: b}) == wanted, (a, b)
    assert session.run(known, {x: one}) == [False, False]
    assert session.run(bools)
    assert session.run(list(close), {x: one}) == [True, False]


def test_nothing_is_differentiated_through_neighbours() -> None:
    with gx.Graph():
        x = gx.placeholder((3,))
        with pytest.raises(gx.GradientError, match="next float"):
            gx.gradients(gx.nextafter(x, 1.0), x)


@pytest.mark.parametrize("element", [bool_, gx.int32], ids=str)
def test_integers_become_floats(element: DType) -> None:
    values = np.array([0, 1], element.numpy)
    for got in outputs(["arcsin", "cbrt", "log10", "sinc", "rint", "fabs"], element, values):
        assert got.dtype == float_dtype(element).numpy
