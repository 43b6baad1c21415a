"""Kernels: building, text and the verifier."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_samples import (
    KERNELS,
    N,
    pointwise,
    product_with_work,
    scatter_add,
    softmax,
    tensor,
)

from graphc.base.errors import GraphcError, ParseError, VerifyError
from graphc.base.source import Location
from graphc.codegen.kernels.kernel import EMITTERS
from graphc.ir.dims.expressions import symbol
from graphc.ir.dtypes import DType, bool_, float32, float64, int64
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.interp import RUNS
from graphc.kernel.ir import Kernel, Site, walk
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import kernel_key, print_kernel
from graphc.kernel.statements.blocks import Loop, Reduce
from graphc.kernel.statements.memory import Load, Store
from graphc.kernel.statements.scalars import Apply
from graphc.kernel.statements.words import STATEMENTS
from graphc.kernel.verify import CHECKS, verify_kernel

# --- the builder ---------------------------------------------------------------------------------


def test_invariant_expressions_leave_the_loop() -> None:
    kernel = pointwise()
    (outer,) = [s for s in kernel.body if isinstance(s, Loop)]
    (inner,) = [s for s in outer.body if isinstance(s, Loop)]
    assert any(isinstance(s, Load) and s.buffer.name == "s" for s in kernel.body)
    assert [s.primitive for s in outer.body if isinstance(s, Apply)] == ["multiply"]
    assert [type(s) for s in inner.body] == [Apply, Load, Apply, Apply, Store]


def test_equal_expressions_are_one() -> None:
    b = KernelBuilder("shared")
    x = b.buffer("x", "in", tensor(float32, 8))
    y = b.buffer("y", "out", tensor(float32, 8))
    with b.loop(8, "vector") as i:
        value = b.load(x, i.index)
        for _ in range(40):
            value = b.apply("add", b.apply("exp", value), b.apply("exp", value))
        b.store(y, i.index, value)
        assert b.load(x, i.index) is b.load(x, i.index)
        assert b.load(y, i.index) is not b.load(y, i.index)
    assert sum(isinstance(s, Apply) for s in walk(b.finish().body)) == 80


def test_constants_are_told_apart_by_bits_and_rounded() -> None:
    b = KernelBuilder("constants")
    assert b.constant(0.0, float32) is not b.constant(-0.0, float32)
    assert b.constant(0.1, float32) is b.constant(float(np.float32(0.1)), float32)
    assert b.constant(0.1, float32) is not b.constant(0.1, float64)
    assert b.constant(True, bool_) is not b.constant(1, int64)


def test_index_arithmetic_is_simplified() -> None:
    b = KernelBuilder("index")
    with b.loop(N, "parallel") as i:
        zero, one = b.constant(0, int64), b.constant(1, int64)
        assert b.apply("add", i.index, zero) is i.index
        assert b.apply("multiply", one, i.index) is i.index
        assert b.apply("multiply", i.index, zero) is zero
        assert b.apply("floor_divide", i.index, one) is i.index
        assert b.apply("add", one, one) is b.constant(2, int64)
    with b.loop(1, "parallel") as once:
        assert b.value_of(once.index) == 0


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_text_round_trip(kernel: Kernel) -> None:
    verify_kernel(kernel)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    verify_kernel(again)
    assert print_kernel(again) == text
    assert kernel_key(again) == kernel_key(kernel)
    assert again.dims == kernel.dims
    assert again.sites == kernel.sites
    before, after = list(walk(kernel.body)), list(walk(again.body))
    assert [type(s) for s in before] == [type(s) for s in after]


def test_text_of_names_and_literals_that_need_care() -> None:
    b = KernelBuilder('a "name"\n\\')
    odd = symbol('carry{ "]é\U0001f600', 2)
    x = b.buffer('0 %"', "in", tensor(float32, odd, symbol("carry")))
    y = b.buffer("y", "out", tensor(float32, odd))
    values: list[tuple[Any, DType]] = [
        (float("nan"), float32), (float("-inf"), float64), (-0.0, float32), (5e-324, float64),
        (1e-45, float32), (True, bool_), (-(2**63), int64), (0.1, float64),
    ]  # fmt: skip
    for value, dtype in values:
        b.constant(value, dtype)
    total = b.constant(0.0, float32)
    with b.loop(odd * symbol("carry") // 3, "serial", [total]) as t:
        b.check(t.index, symbol("carry"), Site(0, "x[%0]", Location("a b.py", 3)))
        t.following = [b.cast(b.cast(t.arguments[0], float64), float32)]
    b.store(y, b.constant(0, int64), b.load(x, b.constant(0, int64)))
    kernel = b.finish()
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert print_kernel(again) == text
    assert again.name == kernel.name and again.dims == kernel.dims
    assert [buffer.type for buffer in again.buffers] == [buffer.type for buffer in kernel.buffers]


def test_key_ignores_names_and_lines_only() -> None:
    text = print_kernel(scatter_add())
    other = text.replace('"scatter"', '"other"').replace("%places", "%where").replace(":12:", ":9:")
    assert other != text
    key = kernel_key(parse_kernel(text))
    assert kernel_key(parse_kernel(other)) == key
    changes = [("float32[4, 3]", "float32[3, 4]"), ("add %", "subtract %"), ("axis 0", "axis 1")]
    for old, new in changes:
        assert kernel_key(parse_kernel(text.replace(old, new))) != key
    assert kernel_key(softmax(64)) != kernel_key(softmax(32))


MINIMAL = 'kernel "k" (in %x: float32[8], out %y: float32[8]) {\n  vector %0 < 8 {\n'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("    %1 = load %z[%0]\n", "no buffer %z"),
        ("    %1 = exp %5\n", "%5 is not defined"),
        ("    %1 = warp %0\n", "unknown primitive 'warp'"),
        ("    %1 = add %0\n", "takes 2 operands"),
        ("    %0 = dim 3\n", "defined already"),
        ("    %1 = const float32 abc\n", "expected a number"),
        ("    %1 = const float99 1\n", "unknown dtype"),
        ("    yield %0\n  }\n", "yields nothing"),
        ("    %1 = dim n n\n", "dimension"),
        ("    %1 = serial %2 < 4 {\n", "carried"),
        ("    %1 = reduce tree %2 < 4 {\n", "lanes or chain"),
        ("    %1 = dim 2 }\n", "dimension"),
        ("", "expected a statement"),
    ],
)
def test_parse_errors_say_what_and_where(body: str, problem: str) -> None:
    with pytest.raises(ParseError, match="line") as caught:
        parse_kernel(MINIMAL + body)
    assert problem in str(caught.value)


def test_parse_refuses_deep_nests() -> None:
    body = "".join(f"serial %{i} < 2 {{\n" for i in range(5000)) + "}\n" * 5001
    with pytest.raises(ParseError, match="nested more than"):
        parse_kernel('kernel "deep" () {\n' + body)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), kernel=st.sampled_from(KERNELS))
def test_damaged_text_raises_only_own_errors(seed: int, kernel: Kernel) -> None:
    chance = random.Random(seed)
    text = print_kernel(kernel)
    pieces = [
        "%0", "%9", "{", "}", "[", "]", "(", ")", "\n", " ", '"', ",", "<", "=", "-1", "n", "//",
        "carry", "vector", "float64", "0x1p+9", "store", "\\", "é", "yield", "%y", "int64",
    ]  # fmt: skip
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(text) + 1)
        action = chance.randrange(3)
        length = chance.choice([1, 1, 3, 20])
        if action == 0:
            text = text[:place] + text[place + length :]
        elif action == 1:
            text = text[:place] + chance.choice(pieces) + text[place:]
        else:
            text = text[:place] + chance.choice(pieces) + text[place + length :]
    try:
        parsed = parse_kernel(text)
        printed = print_kernel(parsed)
        verify_kernel(parsed)
        assert print_kernel(parse_kernel(printed)) == printed
    except GraphcError:
        pass


# --- the verifier --------------------------------------------------------------------------------

VALID = """kernel "k" dims (n: 1..) (in %x: float32[8], out %y: float32[8], in %i: int64[n]) \
sites (axis 0 of "take") {
  %0 = const float32 0x0p+0
  %1 = const int64 1
  %2 = const bool True
  vector %3 < 8 {
    %4 = load %x[%3]
    %5 = add %4, %0
    store %y[%3], %5
  }
  %6 = serial %7 < n carry (%8 = %0) {
    %9 = load %i[%7]
    %10 = check 0 %9 < 8
    %11 = load %x[%10]
    %12 = add %8, %11
    yield %12
  }
  %13 = reduce lanes %14 < 8 {
    %15 = load %x[%14]
    yield add %15
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("%5 = add %4, %0", "%5 = add %4, %1", "an operand is int64, not float32"),
        ("%5 = add %4, %0", "%5 = add %4, %0\n    %16 = sqrt %3", "does not take int64"),
        ("%5 = add %4, %0", "%5 = select %4, %4, %0", "condition is float32"),
        ("%4 = load %x[%3]", "%4 = load %x[%0]", "index is float32"),
        ("%4 = load %x[%3]", "%4 = load %x[%3] if %2", "guarded load"),
        ("%4 = load %x[%3]", "%4 = load %x[%3] if %1 else %0", "condition is int64"),
        ("%4 = load %x[%3]", "%4 = load %x[%3] if %2 else %1", "other value is int64"),
        ("store %y[%3], %5", "store %x[%3], %5", "input 'x' is written"),
        ("store %y[%3], %5", "store %y[%3], %3", "value is int64"),
        ("vector %3 < 8", "vector %3 < 9", "index 8 is outside buffer 'x' of 8 elements"),
        ("%4 = load %x[%3]", "%16 = subtract %3, %1\n    %4 = load %x[%16]", "index -1 is outside"),
        ("%9 = load %i[%7]", "%16 = add %7, %1\n    %9 = load %i[%16]", "index n is outside"),
        ("vector %3 < 8 {", "vector %16 < 2 {\n  vector %3 < 8 {", "inside a vector loop"),
        ("%6 = serial", "%6 = parallel", None),
        ("check 0", "check 1", "no site 1"),
        ("(%8 = %0)", "(%8 = %1)", "an operand is float32, not int64"),
        ("yield %12", "yield %9", "carried value is int64"),
        ("(%8 = %0) {", "(%8 = %0) while %8 {", "a loop goes on by what is no bool"),
        ("yield add %15", "yield and %15", "and of float32"),
        ("%15 = load %x[%14]", "vector %16 < 8 {\n}\n%15 = load %x[%14]", "inside a vector loop"),
        ("vector %3 < 8 {", "vector %3 < -1 {", "extent -1"),
        (
            "%5 = add %4, %0",
            "%16 = reduce chain %17 < %3 {\n%18 = load %x[%17]\nyield add %18\n}\n"
            "%5 = add %4, %16",
            "would differ in an extent",
        ),
        ("%1 = const int64 1", "%1 = const int64 9223372036854775808", "not a literal"),
        ("float32 0x0p+0", "float32 0x1.999999999999ap-4", "not a literal"),
    ],
)
def test_verifier_catches(old: str, new: str, problem: str | None) -> None:
    verify_kernel(parse_kernel(VALID))
    assert old in VALID
    text = VALID.replace(old, new, 1)
    if "vector %16 < 2" in new:
        text = text.replace("%5\n  }\n", "%5\n  }\n  }\n", 1)
    if problem is None:
        with pytest.raises(ParseError):
            parse_kernel(text)
        return
    kernel = parse_kernel(text)
    with pytest.raises(VerifyError) as caught:
        verify_kernel(kernel)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("near %r[", "near %y[", "'y' is no operand with elements as large"),
        ("in %r: float32", "in %r: float64", "'r' is no operand with elements as large"),
        ("near %r[%0, 5, 1]", "near %r[%0, 5, 2]", "brought near are not adjacent"),
        ("near %r[%0, 5, 1]", "near " + ", ".join(["%r[%0, 5, 1]"] * 5), "more than 4 matrices"),
    ],
)
def test_verifier_knows_what_may_be_near(old: str, new: str, problem: str) -> None:
    text = print_kernel(product_with_work())
    assert old in text
    with pytest.raises(VerifyError, match=problem):
        verify_kernel(parse_kernel(text.replace(old, new, 1)))


def test_verifier_knows_scopes() -> None:
    kernel = parse_kernel(VALID)
    loop = next(s for s in kernel.body if isinstance(s, Loop))
    reduce = next(s for s in kernel.body if isinstance(s, Reduce))
    load, add, store = loop.body
    assert isinstance(load, Load) and isinstance(add, Apply) and isinstance(store, Store)
    planted: list[tuple[Any, str]] = [
        ((*kernel.body, Store(store.buffer, loop.index, add.result)), "read outside its block"),
        ((*kernel.body[:3], Loop(loop.index, 8, "vector", (add, load)), reduce), "before it is"),
        ((*kernel.body, loop), "defined twice"),
        ((*kernel.body, Loop(store.index, 8, "vector", ())), "defined twice"),
    ]
    for body, problem in planted:
        broken = Kernel("broken", kernel.buffers, body, kernel.sites)
        with pytest.raises(VerifyError, match=problem):
            verify_kernel(broken)
        assert print_kernel(broken)


def test_verifier_wants_lanes_that_agree() -> None:
    b = KernelBuilder("mixed")
    x = b.buffer("x", "in", tensor(float32, 40))
    with b.reduce(40, "lanes") as total:
        value = b.load(x, total.index)
        total.terms += [("add", value), ("add", b.cast(value, float64))]
    with pytest.raises(VerifyError, match="beside one that has 32 lanes"):
        verify_kernel(b.finish())


def test_verifier_wants_one_meaning_of_a_symbol() -> None:
    b = KernelBuilder("symbols")
    b.buffer("x", "in", tensor(float32, symbol("n", 1)))
    b.buffer("y", "out", tensor(float32, symbol("n", 2)))
    with pytest.raises(VerifyError, match="two bounds"):
        verify_kernel(b.finish())


# --- the tables by class -------------------------------------------------------------------------


def test_every_statement_has_a_function_in_each_table() -> None:
    assert len(STATEMENTS) == 11
    for table in (CHECKS, RUNS, EMITTERS.statements):
        assert set(table) == set(STATEMENTS)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_statements_say_what_they_are(kernel: Kernel) -> None:
    for statement in walk(kernel.body):
        assert (statement.block is not None) == bool(statement.body)
        assert statement.is_scalar == (not statement.writes and statement.block is None)
        touched = {touch.buffer for touch in statement.touches}
        assert touched <= {*statement.reads, *statement.writes}
