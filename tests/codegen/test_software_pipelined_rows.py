"""Stages of rows that run side by side: the bits of row after row, for any rows and targets."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from schedules import schedules_of
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import PAGE, Target, host, named
from graphc.base.tuning.machine import Tuning
from graphc.codegen.kernels import aliasing_4k
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64
from graphc.runtime.jit import load

pytestmark = pytest.mark.check_mode

TARGETS = {"host": host(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}
ROWS = (1, 2, 3, 6)


def _statistics(x: gx.Value) -> Any:
    mean = gx.mean(x, axis=-1, keepdims=True)
    return [mean, gx.mean(gx.square(x - mean), axis=-1)]


def _scaled(x: gx.Value) -> Any:
    """Three stages, a factor of each row that the last of them needs, and results once a row."""
    largest = gx.max(gx.abs(x), axis=-1, keepdims=True)
    size = gx.sqrt(gx.sum(gx.square(x / largest), axis=-1, keepdims=True))
    return [x / (size * largest), largest, size]


def _signs(x: gx.Value) -> Any:
    """What is handed on is a truth value."""
    falls = gx.sum(x, axis=-1, keepdims=True) < 0
    return gx.where(falls, -x, x)


def _residual(x: gx.Value) -> gx.Value:
    """What the first stage leaves is read by the second, and some columns are read before both."""
    h = x + gx.tanh(x)
    centred = h - gx.mean(h, axis=-1, keepdims=True)
    return centred / gx.sqrt(gx.var(h, axis=-1, keepdims=True) + 1)


def _gradient(x: gx.Value) -> gx.Value:
    """Four stages."""
    weights = gx.arange(x.shape[-1], dtype=x.dtype)
    (result,) = gx.gradients(gx.sum(gx.nn.softmax(x) * weights), [x])
    return result


FUNCTIONS: dict[str, Callable[[gx.Value], Any]] = {
    "softmax": lambda x: gx.nn.softmax(x),
    "log_softmax": lambda x: gx.nn.log_softmax(x),
    "logsumexp": lambda x: gx.logsumexp(x, axis=-1),
    "statistics": _statistics,
    "scaled": _scaled,
    "signs": _signs,
    "residual": _residual,
    "gradient": _gradient,
    "turned": lambda x: gx.nn.softmax(gx.flip(x, axis=(0, 1))),
    "centred": lambda x: x - gx.mean(x, axis=-1, keepdims=True),
}


def compiled(function: Any, array: Any, known: bool = True, **options: Any) -> Any:
    shape = array.shape if known else (None, *array.shape[1:])
    with gx.Graph() as graph:
        x = gx.placeholder(shape, array.dtype, name="x")
        result = function(x)
    return gx.Session(graph, **options).compile(result, [x])


def bits(results: Any) -> list[bytes]:
    return [np.asarray(r).tobytes() for r in (results if isinstance(results, list) else [results])]


def is_staggered(program: Any) -> bool:
    return "pipelined" in schedules_of(program)


def sample(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def row_by_row(*arguments: Any, **options: Any) -> Any:
    program = compiled(*arguments, options=gx.Options(off={"pipeline_rows"}), **options)
    assert not is_staggered(program)
    return program


@slow_unless(
    lambda name, target: target is TARGETS["host"] or name in ("softmax", "gradient")
)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_of_row_after_row(
    name: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_room = name != "gradient" or target.vector_bits == 512
    for known, columns in ((True, 544), (False, 544), (True, 301), (False, 528)):
        for number, rows in enumerate(ROWS if target == host() else (1, 4)):
            x = sample(rows, columns)
            x[rows // 2, 5] = -np.inf
            if known or number == 0:
                arguments = (FUNCTIONS[name], x, known)
                program, plain = (way(*arguments, target=target) for way in (compiled, row_by_row))
                assert is_staggered(program) == has_room or (rows == 1 and known)
            assert bits(program(x)) == bits(plain(x))


def test_the_same_code_each_time() -> None:
    """What is handed on is in one order, wherever the scalars of a kernel lie in memory."""
    array, options = sample(64, 256), gx.Options(cache="off")
    for function in (_scaled, _residual, _gradient):
        programs = [compiled(function, array, options=options) for _ in range(8)]
        # the stages of the gradient have enough registers with AVX-512 alone
        assert is_staggered(programs[0]) or (function is _gradient and not host().masks)
        assert len({program.llvm_ir() for program in programs}) == 1


def test_no_rows_and_several_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((0, 256), (3, 0, 256), (2, 5, 256), (4, 1, 3, 512)):
        x = sample(*shape)
        for known in (True, False):
            program = compiled(FUNCTIONS["softmax"], x, known)
            assert bits(program(x)) == bits(row_by_row(gx.nn.softmax, x)(x))


def test_wider_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sample(9, 128, dtype="float64")
    for name in ("softmax", "statistics", "scaled"):
        program = compiled(FUNCTIONS[name], x)
        assert is_staggered(program)
        assert bits(program(x)) == bits(row_by_row(FUNCTIONS[name], x)(x))


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((5, 96), "rows are short"),
        ((5, 1 << 14), "rows are long"),
    ],
)
def test_left_alone(shape: tuple[int, ...], why: str) -> None:
    assert not is_staggered(compiled(gx.nn.softmax, sample(*shape))), why


def test_left_alone_where_memory_is_waited_for() -> None:
    for rows, is_far in ((2000, False), (20_000, True)):
        with gx.Graph() as graph:
            x = gx.placeholder((rows, 512), name="x")
            results = [_statistics(x), gx.nn.softmax(x)]
        for function, costly in zip(results, (False, True), strict=True):
            program = gx.Session(graph).compile(function, [x])
            assert is_staggered(program) == (costly or not is_far)


def test_left_alone_where_written_lines_are_waited_for() -> None:
    """Rows that are no whole lines, and results that are neither near nor go past the caches."""
    for rows, columns, expected in (
        (500, 1000, (True, True)),
        (5000, 1000, (False, False)),
        (1500, 1024, (True, False)),
        (2500, 1024, (True, True)),
    ):
        with gx.Graph() as graph:
            x = gx.placeholder((rows, columns), name="x")
            results = gx.nn.softmax(x), FUNCTIONS["centred"](x)
        for function, is_done in zip(results, expected, strict=True):
            assert is_staggered(gx.Session(graph).compile(function, [x])) == is_done


def test_left_alone_for_what_they_read() -> None:
    """Positions of extremes lead to other places; a row of another row's number may not exist."""

    def taken(x: gx.Value) -> gx.Value:
        best = gx.argmax(x, axis=-1)
        return gx.sum(x * gx.take(gx.constant(sample(512)), best)[:, None], axis=-1)

    assert not is_staggered(compiled(taken, sample(5, 512)))


def test_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result takes the place of what dies: rows further on read theirs before."""
    x = sample(64, 1024)

    def between(v: gx.Value) -> gx.Value:
        weights = gx.constant(sample(1024, 1024))
        return gx.nn.softmax(v @ weights) @ weights

    program = compiled(between, x)
    assert is_staggered(program)
    gx.testing.expect(program, fired=["inplace"])
    assert bits(program(x)) == bits(row_by_row(between, x)(x))


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sample(3000, 1024)
    program = compiled(gx.nn.softmax, x, threads=2)
    assert is_staggered(program)
    assert bits(program(x)) == bits(row_by_row(gx.nn.softmax, x, threads=1)(x))


def test_streamed_from_the_first_line_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tuning, "reducing_stream_bytes", 1)
    monkeypatch.setattr(Tuning, "stream_row_bytes", 64)
    for known, columns in ((True, 512), (False, 512), (True, 520), (True, 499), (False, 528)):
        x = sample(20, columns)
        program = compiled(gx.nn.softmax, x, known)
        assert is_staggered(program)
        assert "streaming" in schedules_of(program)
        wanted = bits(row_by_row(gx.nn.softmax, x)(x))
        room = np.empty(x.size + 64, np.float32)
        first = -room.ctypes.data % 64 // 4
        for offset in (0, 1, 5, 15):
            into = room[first + offset : first + offset + x.size].reshape(x.shape)
            program.compiled.program.run([x], into={0: into})
            assert bits(into) == wanted


def test_anywhere_in_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are read and written decides where those in scratch lie, and changes no bit."""
    for columns in (256, 544, 700, 1024):
        x = sample(9, columns)
        program = compiled(gx.nn.softmax, x)
        wanted = bits(row_by_row(gx.nn.softmax, x)(x))
        given, room = (np.empty(x.size + 1024, np.float32) for _ in range(2))
        for start in range(0, 1024, 93):
            shifted = given[start : start + x.size].reshape(x.shape)
            shifted[...] = x
            for offset in range(0, 1024, 117):
                into = room[offset : offset + x.size].reshape(x.shape)
                program(shifted, out=into)
                assert bits(into) == wanted


@pytest.mark.parametrize("row_bytes", [1024, 1792, 2176, 4096, 7680, 8192])
def test_loads_do_not_wait_for_stores(row_bytes: int) -> None:
    """Whatever lies between the two, no store is shortly ahead of a load in its page."""
    steps = row_bytes // 128
    module = ModuleEmitter(host())
    for name, choose in (
        ("begin", lambda e: aliasing_4k.beginning(e, row_bytes, e.parameter("gap"))),
        ("ahead", lambda e: aliasing_4k.turn(e, row_bytes, 128, steps, 2, e.parameter("gap"))),
    ):
        e = FunctionEmitter(module, name, {"gap": I64}, I64)
        e.finish(choose(e))
    library = load(module.text(), ("begin", "ahead"), host())
    begin, ahead = (
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.addresses[name])
        for name in ("begin", "ahead")
    )
    clear = Tuning.of(host()).alias_free_bytes
    for between in range(-8192, 8192, 16):
        before = begin(between)
        assert (row_bytes + before) % PAGE < clear
        assert (between - before) % PAGE < clear
        turned = ahead(between)
        assert 0 < turned < steps
        if row_bytes % PAGE == 0:
            assert (between - 128 * turned) % PAGE < clear
            assert 128 <= 128 * turned < clear


def test_lines_are_asked_for_where_caches_are_small() -> None:
    for rows, asks in ((64, False), (4096, True), (None, True)):
        with gx.Graph() as graph:
            x = gx.placeholder((rows, 1024), name="x")
            y = gx.nn.softmax(x)
        assert ("prefetched" in schedules_of(gx.Session(graph).compile(y, [x]))) == asks
