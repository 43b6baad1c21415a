"""The numerics audit: its arithmetic against exact fractions, its findings against known cases."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.checking.audit import Audit, native
from graphc.checking.audit.double_double import (
    DoubleDoubleShadow,
    add,
    divide,
    fold,
    multiply,
    pack,
    sqrt,
)
from graphc.checking.audit.measure import ulp_errors
from graphc.checking.audit.shadow import DoubleShadow
from graphc.ir.builder import apply, apply_node
from graphc.ir.dtypes import float64
from graphc.ir.lowering import Element, Pointwise, Reshape, View
from graphc.ir.op import NotDifferentiable, OpDef, all_ops

Built = dict[str, Any]


def audited(
    fetches: Any, feeds: dict[Any, Any], precision: str = "float64", **options: Any
) -> Audit:
    values = list(feeds)
    session = gx.Session(values[0].graph, options=gx.Options(**options))
    report: Audit = session.compile(fetches, values).audit(*feeds.values(), precision=precision)
    return report


def line_here(offset: int = 0) -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno + offset


# --- arithmetic ----------------------------------------------------------------------------------


def fractions(packed: np.ndarray) -> list[Fraction]:
    return [Fraction(float(n.real)) + Fraction(float(n.imag)) for n in packed.ravel()]


def samples(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    high = rng.normal(size=400) * 2.0 ** rng.integers(-40, 40, 400)
    return pack(high, high * rng.uniform(-1, 1, 400) * 2.0**-54)


def test_sums_and_products_of_pairs_have_a_hundred_bits() -> None:
    x, y = samples(0), samples(1)
    close = pack(-x.real * (1 + 2.0**-30), x.imag)  # nearly cancels
    cases = [
        (add, lambda a, b: a + b),
        (multiply, lambda a, b: a * b),
        (divide, lambda a, b: a / b),
    ]
    for other in (y, close):
        for function, exact in cases:
            results = fractions(function(x, other))
            for a, b, result in zip(fractions(x), fractions(other), results, strict=True):
                expected = exact(a, b)
                assert abs(result - expected) <= abs(expected) * Fraction(1, 2**98)


def test_roots_and_sums_along_an_axis_of_pairs() -> None:
    x = samples(2)
    positive = pack(np.abs(x.real), x.imag)
    for a, root in zip(fractions(positive), fractions(sqrt(positive)), strict=True):
        assert abs(root * root - a) <= a * Fraction(1, 2**98)
    (total,) = fractions(fold(add, x, 0, 0.0)[None])
    terms = fractions(x)
    assert abs(total - sum(terms)) <= sum(map(abs, terms)) * Fraction(1, 2**96)


def test_pairs_at_infinity_and_zero() -> None:
    with np.errstate(all="ignore"):
        special = pack(np.array([np.inf, -np.inf, np.nan, 0.0]), np.zeros(4))
        one = pack(np.ones(4), np.zeros(4))
        np.testing.assert_array_equal(add(special, one).real, [np.inf, -np.inf, np.nan, 1])
        np.testing.assert_array_equal(multiply(special, one).real, [np.inf, -np.inf, np.nan, 0])
        np.testing.assert_array_equal(divide(one, special).real, [0, 0, np.nan, np.inf])
        np.testing.assert_array_equal(sqrt(special).real, [np.inf, np.nan, np.nan, 0])


def test_units_of_the_last_place() -> None:
    one, tiny = np.float32(1), np.finfo(np.float32).smallest_subnormal
    up = np.nextafter(one, np.float32(2))
    computed = np.array([1, up, tiny, 0, np.inf, np.inf, np.nan, 1, np.inf], np.float32)
    exact = np.array([1, 1, 0, tiny, np.inf, 1e60, np.nan, np.nan, 1.0])
    expected = [0, 1, 1, 1, 0, 0, 0, np.inf, np.inf]
    np.testing.assert_array_equal(ulp_errors(computed, exact, np.zeros(9)), expected)
    double = np.array([1 + 2.0**-52])
    np.testing.assert_array_equal(ulp_errors(double, np.ones(1), np.array([2.0**-53])), [0.5])


# --- every op ------------------------------------------------------------------------------------


def _auditable(op: OpDef) -> bool:
    # what only the compiler makes is in no graph that is audited
    ours = op.derivative != NotDifferentiable("the compiler makes it after differentiation")
    return ours and op.domain.example is not None and float64 in op.domain.dtypes


WITHOUT = {
    "complex_eigh", "complex_qr", "complex_svd", "eig", "eigh", "eigvals", "eigvalsh", "fft",
    "fft_table", "irfft", "pinv", "qr", "rfft", "svd", "svdvals",
}  # fmt: skip
"""Of what no library has longer numbers than doubles: LAPACK, and Fourier transforms."""


@pytest.mark.parametrize("op", list(filter(_auditable, all_ops())), ids=lambda op: op.name)
def test_every_op_has_a_double_double_shadow_that_native_code_agrees_with(op: OpDef) -> None:
    assert op.domain.example is not None
    arrays, attrs = op.domain.example(np.random.default_rng(0), float64)
    with gx.Graph() as graph:
        feeds = [gx.placeholder(np.shape(array), np.asarray(array).dtype) for array in arrays]
        result = apply_node(op, feeds, attrs).outputs[0]
    if not result.dtype.is_float or not feeds:
        return
    if op.name in WITHOUT:
        with pytest.raises(gx.UnsupportedError, match="double-double audit does not know"):
            gx.Session(graph).compile(result, feeds).audit(*arrays, precision="double-double")
        return
    report = gx.Session(graph).compile(result, feeds).audit(*arrays, precision="double-double")
    assert len(report.results) == 1
    assert report.max_ulp <= max(op.max_ulp, 64.0)
    if op.numerics == "E" and isinstance(op.lowering, (Pointwise, View, Reshape, Element)):
        assert report.max_ulp <= 0.51


# --- findings ------------------------------------------------------------------------------------


def test_errors_are_those_of_each_line_and_cancellation_is_named() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        large = x + 1000.1
        small = large - 1000.0
        first = line_here(-2)
    report = audited(small, {x: np.float32([0.01, 0.02, 0.03])})
    (rounded, cancelled) = report.lines
    assert (rounded.where.line, cancelled.where.line) == (first, first + 1)  # type: ignore[union-attr]
    assert rounded.max_ulp <= 0.5
    assert cancelled.own_ulp == 0 and cancelled.max_ulp > 100
    (event,) = report.events
    assert event.kind == "cancellation" and event.where.line == first + 1  # type: ignore[union-attr]
    assert 12 < event.bits < 15 and event.count == 3
    assert f"test_audit.py:{first + 1}" in str(report)


def test_cancellation_of_exact_operands_is_no_event() -> None:
    with gx.Graph():
        x = gx.placeholder((2,), name="x")
        y = x - 1.0
    report = audited(y, {x: np.float32([1 + 2.0**-20, 1.0])})
    assert report.events == () and report.max_ulp == 0


def test_cancellation_in_sums_and_products() -> None:
    data = np.float32([1e8, 1.1, -1e8, 0.1])
    with gx.Graph():
        x = gx.placeholder((4,), name="x")
        total, product = gx.sum(x * 1.1), (x * 1.1) @ np.ones((4, 2), np.float32)
    kinds = {(e.kind, e.operation) for e in audited([total, product], {x: data}).events}
    assert {("cancellation", "sum"), ("cancellation", "contract")} <= kinds


def test_what_breaks_is_named_where_it_first_appears() -> None:
    with gx.Graph():
        x = gx.placeholder((2,), name="x")
        overflow = gx.exp(x * 100.0) * 2.0
        pole = 1.0 / (x - x)
        invalid = gx.log(-x) + 1.0
        underflow = (x * 1e-30) * 1e-30
    report = audited(
        [overflow, pole, invalid, underflow], {x: np.float32([1.0, 2.0])}, numerics="strict"
    )
    found = [(e.kind, e.operation) for e in report.events]
    assert found == [
        ("overflow", "exp"),
        ("pole", "divide"),
        ("invalid", "log"),
        ("underflow", "multiply"),
    ]


def test_integers_pass_through_and_exact_programs_have_no_error() -> None:
    with gx.Graph():
        n = gx.placeholder((3,), "int32", name="n")
        y = (n * 3 + 1).astype("float32") * 0.5
    report = audited([y, n // 2], {n: np.int32([1, 2, 3])})
    assert [result.max_ulp for result in report.results] == [0.0]


def test_conversions_count() -> None:
    with gx.Graph():
        n = gx.placeholder((), "int64", name="n")
        y = n.astype("float32")
    assert audited(y, {n: 2**24 + 1}).max_ulp == 0.5


def test_the_shadow_takes_the_branches_of_the_program() -> None:
    with gx.Graph():
        x = gx.placeholder((), name="x")
        # 1 + 2**-30 is 1 in float32, so the program takes the second branch
        taken = gx.cond(x + 2.0**-30 > x, lambda: x * 1000.0, lambda: x * 0.1)
        _, total = gx.while_loop(
            lambda i, a: a + 2.0**-30 <= a, lambda i, a: (i + 1, a * 0.1), (gx.constant(0), x)
        )
        masked = gx.where(x + 2.0**-30 > x, x * 1000.0, x * 0.1)
    report = audited([taken, total, masked], {x: 1.0})
    assert all(result.max_ulp < 20 for result in report.results)
    operations = {name for line in report.lines for name in line.operations}
    assert "multiply" in operations


def test_events_name_the_first_trip_and_the_gradient() -> None:
    with gx.Graph():
        x = gx.placeholder((6,), name="x")
        w = gx.variable(np.float32(10), name="w")
        last, _ = gx.scan(lambda c, a: (c * w * gx.exp(a), c), gx.constant(1.0), x)
        slope = gx.gradients(last, w)
    events = audited([last, slope], {x: np.full(6, 15.0)}).events
    forward = [event for event in events if not event.in_gradient]
    backward = [event for event in events if event.in_gradient]
    assert [event.kind for event in forward] == ["overflow"] * len(forward)
    assert {event.trips for event in forward} == {(5,)} and "first in trip 5, " in str(forward[0])
    assert min(event.trips for event in backward) == (0,)
    assert ", the gradient of " in str(backward[0]) and "gradient" not in str(forward[0])


def test_symbolic_sizes_inside_loops() -> None:
    with gx.Graph():
        x = gx.placeholder(("n", "m"), name="x")
        _, y = gx.while_loop(
            lambda i, a: i < 3,
            lambda i, a: (i + 1, a * 0.3 + gx.sum(gx.ones(x.shape)) * 0.0),
            (gx.constant(0), x),
        )
    report = audited(y, {x: np.ones((2, 3), np.float32)})
    assert report.lines[0].elements >= 3 * 6 and report.max_ulp < 10


def test_the_values_are_those_of_the_strict_program() -> None:
    rng = np.random.default_rng(3)
    with gx.Graph() as graph:
        x = gx.placeholder((None, 40), name="x")
        w = gx.constant(rng.normal(size=(40, 40)).astype("float32"))
        y = x
        for _ in range(30):  # several parts
            y = gx.tanh(gx.nn.layer_norm(y @ w) + x) * 0.7
        loss = gx.mean(y * y)
        slope = gx.gradients(loss, x)
    data = rng.normal(size=(7, 40)).astype("float32")
    session = gx.Session(graph, options=gx.Options(numerics="strict"))
    report = session.compile([loss, slope], [x]).audit(data)
    assert report.rewrites == ()
    assert all(result.max_ulp == result.strict_ulp for result in report.results)


def test_what_each_rewrite_contributes() -> None:
    with gx.Graph():
        x = gx.placeholder((4,), name="x")
        stable = gx.log(gx.sum(gx.exp(x)))
        line = line_here(-1)
    report = audited(stable, {x: np.float32([1, 200, 3, 4])})
    (rewrite,) = report.rewrites
    assert rewrite.rewrite == "log-sum-exp" and rewrite.changed == 1
    assert rewrite.max_ulp < 1 and math.isinf(rewrite.without_ulp)
    assert [where.line for where in rewrite.where] == [line]
    assert math.isinf(report.results[0].strict_ulp)


def test_variables_are_read_and_not_written() -> None:
    with gx.Graph() as graph:
        w = gx.variable(np.float32([1.0, 3.0]), name="w")
        update = w.assign(w * 0.1)
    session = gx.Session(graph)
    session.set({w: [2.0, 5.0]})
    report = session.compile(update).audit()
    assert [result.name for result in report.results][-1] == "new value of w"
    np.testing.assert_array_equal(session.get(w), np.float32([2.0, 5.0]))


def test_float64_programs_need_more_digits() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64", name="x")
        y = gx.exp(x) * 0.1
    data = [0.1, 0.2, 0.3]
    plain = audited(y, {x: data})
    assert plain.unmeasured == 2 and not plain.results and math.isnan(plain.max_ulp)
    assert "double-double" in str(plain)
    assert 0 < audited(y, {x: data}, "double-double").max_ulp < 2


def test_unknown_precision() -> None:
    with gx.Graph():
        x = gx.placeholder((), name="x")
    with pytest.raises(gx.GraphError, match="precision='quad'") as caught:
        audited(x + 1.0, {x: 1.0}, "quad")
    assert "double-double" in str(caught.value) and caught.value.where is not None


def test_errors_of_the_program_name_its_line() -> None:
    with gx.Graph():
        x, i = gx.placeholder((3,), name="x"), gx.placeholder((), "int64", name="i")
        y = gx.take(x, i) * 2.0
        line = line_here(-1)
    with pytest.raises(gx.IndexRangeError) as caught:
        audited(y, {x: np.zeros(3, np.float32), i: 7})
    assert caught.value.where is not None and caught.value.where.line == line


def test_a_long_chain() -> None:
    with gx.Graph():
        x = gx.placeholder((4,), name="x")
        y = x
        for _ in range(3000):
            y = y * 0.5 + x
    report = audited(y, {x: np.ones(4, np.float32)})
    assert report.lines[0].elements == 4 * 6000


def test_values_too_large_to_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LARGEST_BYTES", 1000)
    with gx.Graph():
        x = gx.placeholder((), name="x")
        y = gx.sum(gx.broadcast_to(x, (20, 20)) * 0.5)
        line = line_here(-1)
    with pytest.raises(gx.UnsupportedError, match="stores every value") as caught:
        audited(y, {x: 1.0})
    assert caught.value.where is not None and caught.value.where.line == line


def _pointwise_floats(op: OpDef) -> bool:
    return isinstance(op.lowering, Pointwise) and _auditable(op) and op.name != "astype"


@pytest.mark.parametrize("op", list(filter(_pointwise_floats, all_ops())), ids=lambda op: op.name)
def test_pairs_take_special_values_as_the_references_do(op: OpDef) -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e300, -1e300, np.inf, -np.inf, np.nan])
    assert op.domain.example is not None
    examples, attrs = op.domain.example(np.random.default_rng(0), float64)
    grids = iter(np.meshgrid(*[special] * len(examples), indexing="ij"))
    arrays = [
        grid > 0 if np.asarray(example).dtype == bool else grid
        for example, grid in zip(examples, grids, strict=True)
    ]
    with gx.Graph() as graph:
        feeds = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        result = apply(op, *feeds, **attrs)
    if not result.dtype.is_float:
        return
    (node,) = gx.Session(graph).compile(result, feeds).source.nodes
    pairs, plain = DoubleDoubleShadow(), DoubleShadow()
    wide = [a if a.dtype == bool else pairs.widen(a) for a in arrays]
    (found,) = pairs.evaluate(node, wide, {})
    (expected,) = plain.evaluate(node, arrays, {})
    assert found is not None and expected is not None
    np.testing.assert_allclose(found.real, expected, rtol=1e-12)
    if op.name in ("add", "subtract", "multiply", "divide", "negative", "sqrt"):
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(found.real[zero]), np.signbit(expected[zero]))
