"""The pointwise functions as users call them: promotion, NumPy's names and semantics, errors."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from op_contract import run, special_values

import graphc as gx
from graphc.base.errors import DTypeError, ShapeError, UnsupportedError
from graphc.ir.dtypes import COMPUTED, COMPUTED_FLOATS, INTEGERS, DType, float32, float64
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function

pytestmark = pytest.mark.check_mode

PAIRS = list(itertools.product(COMPUTED, COMPUTED))
PAIR_IDS = [f"{a}-{b}" for a, b in PAIRS]
EXACT = ["add", "multiply", "subtract", "divide", "floor_divide", "mod", "fmod"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
FUNCTIONS = ["sqrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh",
             "sinh", "cosh", "arctan"]  # fmt: skip


def surfaced(name: str) -> Callable[..., Any]:
    return lambda *operands: surface_function(name)(*operands)


def grid(a: DType, b: DType) -> tuple[Any, Any]:
    left, right = special_values(a), special_values(b)
    return left[:, None], right[None, :]


def test_a_number_beyond_float32_is_compared_in_silence() -> None:
    x = np.array([1e300, 1e302, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        above = run(lambda x: x > 1e301, x)
    assert above.tolist() == [False, True, True]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=PAIR_IDS)
def test_arithmetic_is_numpy_s(name: str, a: DType, b: DType) -> None:
    x, y = grid(a, b)
    with np.errstate(all="ignore"):
        try:
            wanted = getattr(np, name)(x, y)
        except TypeError:
            with pytest.raises(DTypeError):
                run(surfaced(name), x, y)
            return
    assert_same_bits(run(surfaced(name), x, y), wanted)


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=PAIR_IDS)
def test_comparisons_are_exact(name: str, a: DType, b: DType) -> None:
    x, y = grid(a, b)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    assert_same_bits(run(surfaced(name), x, y), wanted)


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("number", [-1, 300, -129, 2**70])
@pytest.mark.parametrize("flipped", [False, True])
def test_comparison_with_a_python_int_out_of_range(name: str, number: int, flipped: bool) -> None:
    x = np.array([-128, 0, 127], np.int8)
    compare = getattr(np, name)
    wanted = compare(number, x) if flipped else compare(x, number)
    function = surface_function(name)
    assert_same_bits(
        run(lambda v: function(number, v) if flipped else function(v, number), x), wanted
    )


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("element", [e for e in COMPUTED if not e.is_float], ids=str)
def test_bits(name: str, element: DType) -> None:
    x, y = grid(element, element)
    assert_same_bits(run(surfaced(name), x, y), getattr(np, name)(x, y))
    assert_same_bits(run(lambda v: ~v, x), ~x)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=PAIR_IDS)
def test_logic_takes_the_truth_of_numbers(name: str, a: DType, b: DType) -> None:
    x, y = grid(a, b)
    assert_same_bits(run(surfaced(name), x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_shifts_by_any_amount(name: str, element: DType) -> None:
    x = special_values(element)[:, None]
    amounts = np.array([0, 1, element.bits - 1, element.bits, element.bits + 5], element.numpy)
    assert_same_bits(run(surfaced(name), x, amounts), getattr(np, name)(x, amounts))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", COMPUTED, ids=str)
def test_functions_promote(name: str, element: DType) -> None:
    x = np.array([0, 1, 1], element.numpy)
    got = run(surfaced(name), x)
    wide = np.float32 if element is float32 or element.bits <= 16 else np.float64
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x.astype(np.float64)).astype(wide)
    assert got.dtype == wide
    np.testing.assert_allclose(got, wanted, rtol=3e-16 if wide is np.float64 else 1e-7)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("element", COMPUTED, ids=str)
def test_rounding(name: str, element: DType) -> None:
    x = special_values(element)
    wanted = getattr(np, name)(x) if element.is_float else x
    assert_same_bits(run(surfaced(name), x), wanted)


def test_round_to_decimals() -> None:
    x = np.array([1.2345, -2.5, 125.0])
    for decimals in (2, 0, -1):
        got = run(lambda v, d=decimals: surface_function("round")(v, d), x)
        assert_same_bits(got, np.round(x, decimals))
    with pytest.raises(UnsupportedError):
        run(lambda v: surface_function("round")(v, -1), np.array([15]))


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_integer_power_wraps(element: DType) -> None:
    base = special_values(element)[:, None]
    exponent = np.array([0, 1, 2, 3, 7, 63], element.numpy)
    assert_same_bits(run(surfaced("power"), base, exponent), np.power(base, exponent))


def test_negative_integer_exponents() -> None:
    """Fault 33: those that are known are refused, however they are written."""
    for known in (-1, np.int64(-1), np.int8(-1), np.array([3, -1]), [-1], np.array(-1)):
        with pytest.raises(DTypeError, match="to the power -1 is not an integer"):
            run(lambda v, n=known: surface_function("power")(v, n), np.array([2, 3]))
    with pytest.raises(DTypeError, match="to the power -2 is not an integer"):
        run(lambda v: v ** surface_function("constant")(np.int64(-2)), np.array([2]))
    for known in (np.int64(2), np.array([0, 3]), np.array([], np.int64)[:, None], np.uint8(7)):
        base = np.array([2, 3])
        assert_same_bits(run(lambda v, n=known: v**n, base), base**known)
    base, exponent = np.array([1, -1, -1, 0, 5]), np.array([-3, -3, -2, -1, -1])
    assert_same_bits(run(surfaced("power"), base, exponent), np.array([1, -1, 1, 0, 0]))
    bases = np.array([1, -1, 5])
    assert_same_bits(run(lambda v: v**-2.0, bases), np.power(bases, -2.0))


def test_float_power_is_ieee_s() -> None:
    x = np.array([-0.0, 0.0, -np.inf, np.inf, 4.0, -4.0, np.nan])
    for exponent in (0.5, -0.5, 0.0, 1.0, 2.0, 3.0, -1.0, 1 / 3):
        with np.errstate(all="ignore"):
            wanted = np.power(x, np.full_like(x, exponent))
        assert_same_bits(run(lambda v, n=exponent: v**n, x), wanted)


@pytest.mark.parametrize("element", COMPUTED, ids=str)
def test_clip_and_extremes(element: DType) -> None:
    x, low, high = (np.array(values, element.numpy) for values in ([0, 1, 5, 9], [1], [7]))
    clip = surface_function("clip")
    assert_same_bits(run(clip, x, low, high), np.clip(x, low, high))
    assert_same_bits(run(lambda v: clip(v, None, None), x), x)
    y = x[::-1].copy()
    for name in ("maximum", "minimum"):
        assert_same_bits(run(surfaced(name), x, y), getattr(np, name)(x, y))


def test_extremes_of_zeros_and_nan() -> None:
    x, y = np.array([0.0, -0.0, np.nan, 1.0]), np.array([-0.0, 0.0, 1.0, np.nan])
    assert_same_bits(run(surfaced("maximum"), x, y), np.array([0.0, 0.0, np.nan, np.nan]))
    assert_same_bits(run(surfaced("minimum"), x, y), np.array([-0.0, -0.0, np.nan, np.nan]))


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=PAIR_IDS)
def test_where_promotes(a: DType, b: DType) -> None:
    condition = np.array([True, False, True, False])
    x, y = np.array([0, 1, 1, 0], a.numpy), np.array([1, 0, 1, 0], b.numpy)
    where = surface_function("where")
    assert_same_bits(run(where, condition, x, y), np.where(condition, x, y))
    # any number is a condition
    assert_same_bits(run(where, x, x, y), np.where(x, x, y))


def test_where_of_scalars() -> None:
    condition = np.array([True, False])
    where = surface_function("where")
    assert_same_bits(run(lambda c: where(c, 1.0, 0.0), condition), np.array([1, 0], np.float32))
    assert_same_bits(run(lambda c: where(c, 2, 3), condition), np.array([2, 3]))
    assert_same_bits(
        run(lambda c: where(c, np.float64(2), 3), condition), np.array([2.0, 3.0])
    )


@pytest.mark.parametrize("element", COMPUTED, ids=str)
def test_classification(element: DType) -> None:
    x = special_values(element)
    for name in ("isnan", "isinf", "isfinite"):
        assert_same_bits(run(surfaced(name), x), getattr(np, name)(x))


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=PAIR_IDS)
def test_astype_in_range(a: DType, b: DType) -> None:
    x = np.array([0, 1, 1, 7, 100], a.numpy)
    assert_same_bits(run(lambda v: v.astype(b), x), x.astype(b.numpy))


@pytest.mark.parametrize("source", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_astype_saturates(source: DType, target: DType) -> None:
    info = np.iinfo(target.name)
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -0.9], source.numpy)
    wanted = np.array([0, info.max, info.min, info.max, info.min, 2, 0], target.numpy)
    assert_same_bits(run(lambda v: v.astype(target), x), wanted)


def test_guarded_multiply_is_zero_where_its_first_factor_is() -> None:
    x = np.array([0.0, -0.0, 0.0, 2.0, np.nan])
    y = np.array([np.inf, np.nan, 3.0, np.inf, 0.0])
    wanted = np.array([0.0, 0.0, 0.0, np.inf, np.nan])
    assert_same_bits(run(surfaced("guarded_multiply"), x, y), wanted)


def test_logaddexp_at_infinity() -> None:
    x = np.array([-np.inf, -np.inf, np.inf, np.inf, 1000.0, np.nan])
    y = np.array([-np.inf, 1.0, np.inf, -np.inf, 1000.0, 1.0])
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp(x, y)
    np.testing.assert_allclose(run(surfaced("logaddexp"), x, y), wanted, rtol=1e-15)


def test_python_scalars_are_weak_and_numpy_scalars_strong() -> None:
    x = np.array([1, 2], np.float32)
    assert run(lambda v: v * 2.0, x).dtype == np.float32
    assert run(lambda v: np.float64(2) * v, x).dtype == np.float64
    assert run(lambda v: v + 1, np.array([1], np.int8)).dtype == np.int8
    assert run(lambda v: v + 0.5, np.array([1], np.int8)).dtype == np.float64
    with pytest.raises(DTypeError, match="out of bounds"):
        run(lambda v: v + 300, np.array([1], np.uint8))


def test_numpy_functions_build_nodes() -> None:
    x = np.array([0.5, -1.5])
    assert_same_bits(run(lambda v: np.abs(v), x), np.abs(x))
    assert_same_bits(run(lambda v: np.where(v > 0, v, -v), x), np.abs(x))
    assert_same_bits(run(lambda v: np.array([1.0, 2.0]) + v, x), x + np.array([1.0, 2.0]))
    np.testing.assert_allclose(run(lambda v: np.exp(v), x), np.exp(x), rtol=1e-15)


@pytest.mark.parametrize("name", ["subtract", "negative", "sign"])
def test_bools_are_refused_as_in_numpy(name: str) -> None:
    x = np.array([True, False])
    operands = (x, x) if name == "subtract" else (x,)
    with pytest.raises(DTypeError, match="does not take bool"):
        run(surfaced(name), *operands)


def test_errors_name_the_shapes_and_dtypes() -> None:
    with pytest.raises(ShapeError, match=r"\[2\] and \[3\]"):
        run(surfaced("add"), np.zeros(2), np.zeros(3))
    with pytest.raises(DTypeError, match="bitwise_and does not take float64"):
        run(surfaced("bitwise_and"), np.zeros(2), np.zeros(2))


# --- derivatives where care is needed ------------------------------------------------------------


def slope(function: Callable[..., Any], *arrays: Any, order: int = 1) -> Any:
    """The derivative of the sum of a function by its first argument."""

    def derived(*values: Any) -> Any:
        result = function(*values)
        for _ in range(order):
            result = gx.gradients(result, values[0], unconnected="zeros")
        return result

    return run(derived, *arrays)


def test_a_masked_branch_leaks_nothing() -> None:
    x = np.array([-1.0, 0.0, 4.0, np.nan])
    where = surface_function("where")
    for name, wanted in (("sqrt", 0.25), ("log", 0.25), ("rsqrt", -0.0625)):
        got = slope(lambda v, f=name: where(v > 0, surface_function(f)(v), 0), x)
        np.testing.assert_allclose(got, [0, 0, wanted, 0], rtol=1e-15)
    big = np.array([1.0, 1000.0])
    got = slope(lambda v: where(v < 2, v * np.exp(v), 0), big)
    np.testing.assert_allclose(got, [2 * np.e, 0], rtol=1e-15)


def test_second_order_where_the_first_is_zero() -> None:
    x = np.array([1.0])
    log = surface_function("log")
    assert slope(lambda v: log(v) * log(v), x) == 0
    np.testing.assert_allclose(slope(lambda v: log(v) * log(v), x, order=2), [2.0])
    zero = np.array([0.0])
    np.testing.assert_allclose(slope(lambda v: v * v * v, zero, order=2), [0.0])
    np.testing.assert_allclose(slope(lambda v: v**3, zero, order=3), [6.0])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3])
def test_slope_of_powers_at_zero(exponent: int) -> None:
    x = np.array([0.0, -2.0, 3.0])
    wanted = exponent * x ** max(exponent - 1, 0)
    fed = np.array(float(exponent))
    for got in (
        slope(lambda v: v**exponent, x),
        slope(lambda v: v ** float(exponent), x),
        slope(lambda v, n: v**n, x, fed),
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-15)
    base = np.array([0.0, 2.0])
    got = slope(lambda n, v: v**n, np.full(2, exponent + 1.0), base)
    np.testing.assert_allclose(got, [0, 2 ** (exponent + 1) * np.log(2)], rtol=1e-15)


def test_slopes_at_kinks() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    maximum, clip = surface_function("maximum"), surface_function("clip")
    assert slope(abs, x).tolist() == [-1, 0, 1]
    assert slope(lambda v: maximum(v, 0), x).tolist() == [0, 0.5, 1]
    assert slope(lambda v: clip(v, 0, 2), x).tolist() == [0, 1, 1]
    for name in ("floor", "ceil", "round", "trunc", "sign"):
        assert slope(surfaced(name), x).tolist() == [0, 0, 0]


def test_slope_of_logaddexp_at_infinity() -> None:
    inf = np.inf
    x, y = np.array([-inf, 0.0, -inf, inf, 3.0]), np.array([-inf, -inf, 0.0, 0.0, 3.0])
    assert slope(surfaced("logaddexp"), x, y).tolist() == [0, 1, 0, 1, 0.5]


# --- creation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [(5,), (0,), (-3,), (2, 9), (2, 9, 3), (9, 2, -2), (9, 2), (-5, 6, 4)]
)
def test_integer_ranges(arguments: tuple[int, ...]) -> None:
    assert_same_bits(run(lambda: surface_function("arange")(*arguments)), np.arange(*arguments))


def test_float_ranges() -> None:
    arange = surface_function("arange")
    wanted = np.arange(0.0, 1.0, 0.1)
    assert_same_bits(run(lambda: arange(0.0, 1.0, 0.1, dtype="float64")), wanted)
    assert_same_bits(run(lambda: arange(0.0, 1.0, 0.1)), wanted.astype(np.float32))
    with pytest.raises(DTypeError, match="no length"):
        run(lambda: arange(0.0, 1.0, 0.0))


def test_symbolic_ranges_and_fills() -> None:
    x = np.zeros((3, 4))
    arange, like = surface_function("arange"), surface_function("zeros_like")
    assert_same_bits(run(lambda v: arange(v.shape[1]), x, symbolic=True), np.arange(4))
    assert_same_bits(run(lambda v: arange(1, v.shape[1], 2), x, symbolic=True), np.arange(1, 4, 2))
    assert_same_bits(run(lambda v: like(v) + 1, x, symbolic=True), np.ones((3, 4)))
    assert_same_bits(run(lambda v: surface_function("dim")(v.shape[0]), x), np.array(3))


def test_fills() -> None:
    assert_same_bits(run(lambda: surface_function("zeros")((2, 3))), np.zeros((2, 3), np.float32))
    assert_same_bits(run(lambda: surface_function("ones")(2, "int8")), np.ones(2, np.int8))
    assert_same_bits(run(lambda: surface_function("full")((), 2.5)), np.float32(2.5))
    x = np.zeros((2, 0), np.int16)
    for name in ("zeros_like", "ones_like"):
        assert_same_bits(run(surfaced(name), x), getattr(np, name)(x))
    assert_same_bits(run(lambda v: surface_function("full_like")(v, 7), x), np.full_like(x, 7))


def test_constants_join_the_graph_of_their_operand() -> None:
    first = Recorder("first")
    with first:
        value = surface_function("placeholder")((2,), "float64")
    outside = value * 2.0 + surface_function("zeros_like")(value)
    assert outside.graph is first
    assert all(made.graph is first for node in first.nodes for made in node.outputs)
    assert outside.dtype is float64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arctan2_in_every_quadrant_and_at_every_special_value(dtype: str) -> None:
    info = np.finfo(dtype)
    odd = [0.0, 1.0, 3.0, np.inf, info.max, info.tiny, info.smallest_subnormal]
    values = np.array([*odd, *(-value for value in odd), np.nan], dtype)
    y, x = (grid.ravel() for grid in np.meshgrid(values, values))
    with gx.Graph() as graph:
        up, right = gx.placeholder((None,), dtype), gx.placeholder((None,), dtype)
        angle = gx.arctan2(up, right)
        slopes = gx.gradients(angle.sum(), [up, right])
    session = gx.Session(graph)
    found = session.run(angle, {up: y, right: x})
    expected = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    np.testing.assert_allclose(found, expected.astype(dtype), rtol=2 * info.eps)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[~nan], np.signbit(expected)[~nan])
    # r² would overflow and underflow here
    large = np.array([info.max / 4, info.tiny * 4], dtype)
    for given in session.run(slopes, {up: large, right: large}):
        np.testing.assert_allclose(np.abs(given), 0.5 / large, rtol=8 * info.eps)
