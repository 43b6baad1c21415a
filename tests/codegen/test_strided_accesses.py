"""Every second, third or fourth element, and parts side by side: vectors and shuffles.

Arrays lie at the edge of pages that nobody may touch. Each kernel's machine code is also held
against the interpreter, as in all tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from guard_arrays import GuardedArray, guarded
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import named, obstacle
from graphc.base.tuning.machine import Tuning
from graphc.kernel.analysis.index_range import index_forms
from graphc.kernel.analysis.periods import Periods
from graphc.kernel.parser import parse_kernel
from graphc.kernel.statements.bodies import accesses_in

LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
TARGETS = [name for name in LEVELS if obstacle(named(name)) is None]
SIZES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 131)
DTYPES = ("bool", "int8", "float16", "float32", "int64")


def draw(dtype: str, *shape: int) -> Any:
    numbers = np.random.default_rng(sum(shape)).integers(-100, 100, shape)
    return numbers > 0 if dtype == "bool" else numbers.astype(dtype)


def tells_most(dtype: str, target: str) -> bool:
    """All widths of elements with the longest vectors, two of them with shorter ones."""
    return target == TARGETS[0] or dtype in ("int8", "float32")


READS: dict[str, Callable[[Any, Any], Any]] = {
    "second": lambda x, xp: x[::2],
    "second from the end": lambda x, xp: x[::-2],
    "third": lambda x, xp: x[1::3],
    "third from the end": lambda x, xp: x[-2::-3],
    "fourth": lambda x, xp: x[3::4],
    "fourth from the end": lambda x, xp: x[::-4],
    "fifth": lambda x, xp: x[::5],
}


@slow_unless(tells_most)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_between_which_others_lie(dtype: str, target: str) -> None:
    for sized in (False, True):
        for size in SIZES if sized else (131,):
            with gx.Graph() as graph:
                x = gx.placeholder((size if sized else None,), dtype)
                results = {name: read(x, gx) for name, read in READS.items()}
            session = gx.Session(graph, target=named(target))
            for count in (size,) if sized else SIZES:
                array = draw(dtype, count)
                for edge in ("begin", "end"):
                    room = guarded(array, edge)
                    found = session.run(list(results.values()), {x: room.array})
                    for (name, read), one in zip(READS.items(), found, strict=True):
                        assert np.array_equal(one, read(array, np)), (name, count, edge)


@slow_unless(tells_most)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_parts_of_a_last_axis(parts: int, dtype: str, target: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, parts), dtype)
        planes = [x[:, n] for n in range(parts)]
        turned = gx.stack(planes[::-1], -1)
        two = gx.stack([planes[0], planes[-1]], -1)
        same = gx.stack([planes[0], planes[0], planes[0]], -1)
        total = gx.sum(x[:, 1].astype("float64"))
    session = gx.Session(graph, target=named(target))
    for size in SIZES:
        array = draw(dtype, size, parts)
        for edge in ("begin", "end"):
            room = guarded(array, edge)
            found = session.run([turned, two, planes[1], total, same], {x: room.array})
            assert np.array_equal(found[0], array[:, ::-1])
            assert np.array_equal(found[1], array[:, [0, -1]])
            assert np.array_equal(found[2], array[:, 1])
            assert found[3] == array[:, 1].sum(dtype="float64")
            assert np.array_equal(found[4], array[:, [0, 0, 0]])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_results_at_the_edges_of_pages(dtype: str, target: str) -> None:
    with gx.Graph() as graph:
        a, b = (gx.placeholder((None,), dtype) for _ in range(2))
        results = [a * b, gx.real(a) + gx.imag(b), gx.conj(a) - b, a * 2]
    executable = gx.Session(graph, target=named(target), threads=1).compile(results, [a, b])
    for size in SIZES:
        one, other = draw("float64", size, 2) @ [1, 1j], draw("float64", size, 3) @ [0, 1, 1j]
        one, other = one.astype(dtype), other.astype(dtype)
        wanted = [one * other, one.real + other.imag, one.conj() - other, one * 2]
        for edge in ("begin", "end"):
            given = [guarded(array, edge) for array in (one, other)]
            rooms = [GuardedArray(array.shape, array.dtype, edge) for array in wanted]
            executable.compiled.program.run(
                [room.array for room in given],
                into={n: room.array for n, room in enumerate(rooms)},
            )
            for room, known in zip(rooms, wanted, strict=True):
                assert np.array_equal(room.array, known)
                assert not room.touched


@pytest.mark.parametrize("target", TARGETS)
def test_results_that_are_written_past_the_caches(target: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Tuning, "stream_bytes", 1)
    monkeypatch.setattr(Tuning, "stream_row_bytes", 64)
    with gx.Graph() as graph:
        a, b = (gx.placeholder((None,), "complex64") for _ in range(2))
        results = [a * b, gx.stack([gx.real(a), gx.imag(b), gx.real(b)], -1)]
    executable = gx.Session(graph, target=named(target), threads=1).compile(results, [a, b])
    assert "sfence" in executable.llvm_ir()
    x, y = (draw("float32", 1000, 2).view("complex64")[:, 0] + n for n in range(2))
    wanted = [x * y, np.stack([x.real, y.imag, y.real], -1)]
    for size in (33, 500, 1000):
        for offset in (0, 1, 2, 4, 8):
            into = {}
            for number, known in enumerate(wanted):
                floats = known[:size].view("float32").reshape(-1)
                room = np.empty(floats.size + 64, np.float32)
                start = -room.ctypes.data % 64 // 4 + offset
                part = room[start : start + floats.size]
                into[number] = part.view(known.dtype).reshape(known[:size].shape)
            executable.compiled.program.run([x[:size], y[:size]], into=into)
            for number, known in enumerate(wanted):
                assert np.array_equal(into[number], known[:size])


def test_parts_are_loaded_and_stored_by_whole_vectors() -> None:
    with gx.Graph() as graph:
        a, b = (gx.placeholder((4096,), "complex64") for _ in range(2))
        product = a * b
    executable = gx.Session(graph, target=named("x86-64-v3")).compile(product, [a, b])
    text = executable.llvm_ir()
    assert "gather" not in text and "scatter" not in text
    assert len(re.findall(r"= load <32 x float>", text)) == 4
    assert len(re.findall(r"store <32 x float>", text)) == 2


KERNEL = """
kernel "k" (in %x: float32[100], in %z: float32[100], out %y: float32[60], out %w: float32[90]) {
  %0 = const int64 2
  %1 = const int64 1
  %2 = const int64 3
  vector %3 < 30 {
    %4 = multiply %3, %0
    %5 = add %4, %1
    %6 = add %5, %0
    %7 = load %x[%4]
    %8 = load %x[%6]
    %9 = load %x[%5]
    %10 = load %z[%5]
    store %y[%5], %7
    store %y[%4], %9
    %11 = multiply %3, %2
    store %w[%11], %8
    %12 = add %11, %0
    store %w[%12], %10
  }
}
"""


def test_periods_of_a_kernel() -> None:
    kernel = parse_kernel(KERNEL)
    periods = Periods(kernel, index_forms(kernel))
    loop = kernel.body[-1]
    x0, x3, x1, z1, y1, y0, w0, w2 = accesses_in(loop.body)
    assert periods.of(x0, 2) is periods.of(x1, 2)
    assert periods.of(x0, 2).members == (x0, x1)
    assert (periods.of(x3, 2).members, periods.of(x3, 2).offset(x3)) == ((x3,), 0)
    assert periods.of(x3, 4).members == (x0, x3, x1)
    assert periods.of(z1, 2).span == 1
    assert periods.of(y1, 2).members == (y1, y0)
    assert (periods.of(w0, 3).members, periods.of(w0, 3).span) == ((w0, w2), 3)


def test_stores_to_what_is_read_are_not_put_off() -> None:
    kernel = parse_kernel(KERNEL.replace("out %w", "scratch %w").replace("load %z", "load %w"))
    periods = Periods(kernel, index_forms(kernel))
    *_, w0, w2 = accesses_in(kernel.body[-1].body)
    assert periods.of(w0, 3).members == (w0,)
    assert periods.of(w2, 3).members == (w2,)
