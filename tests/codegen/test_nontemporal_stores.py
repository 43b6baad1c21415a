"""Results written past the caches: the same values, whatever the sizes and wherever they start."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from schedules import schedules_of
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target, host, named
from graphc.base.tuning.machine import Tuning
from graphc.base.tuning.tasks import TaskTuning

pytestmark = pytest.mark.check_mode

TARGETS = {"host": host(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}


def sample(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 50).astype(dtype)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result counts as large."""
    monkeypatch.setattr(Tuning, "stream_bytes", 1)
    monkeypatch.setattr(Tuning, "stream_row_bytes", 64)


def program(
    function: Any, *arrays: Any, known: bool, target: Target | None = None, threads: int = 1
) -> Any:
    with gx.Graph() as graph:
        shapes = [a.shape if known else (None,) * a.ndim for a in arrays]
        inputs = [gx.placeholder(s, a.dtype) for s, a in zip(shapes, arrays, strict=True)]
        result = function(*inputs)
    return gx.Session(graph, target=target, threads=threads).compile(result, inputs)


def placed(shape: tuple[int, ...], dtype: str, offset: int) -> Any:
    """An array that starts so many elements behind a cache line."""
    size = int(np.prod(shape))
    room = np.empty(size + 128, dtype)
    start = -room.ctypes.data % 64 // room.itemsize + offset
    return room[start : start + size].reshape(shape)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_results_that_start_anywhere(dtype: str, known: bool, target: Target) -> None:
    for size in (1, 15, 16, 17, 63, 64, 100, 1003):
        x = sample((size,), dtype)
        compiled = program(lambda v: [v.astype("float64"), v != 0], x, known=known, target=target)
        if size > 64:
            assert "streaming" in schedules_of(compiled) and "sfence" in compiled.llvm_ir()
        for offset in (0, 1, 3):
            into = {0: placed(x.shape, "float64", offset), 1: placed(x.shape, "bool", 5 * offset)}
            compiled.compiled.program.run([x], into=into)
            assert np.array_equal(into[0], x.astype("float64"))
            assert np.array_equal(into[1], x != 0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_rows_that_start_anywhere(known: bool) -> None:
    for shape in ((5, 77), (4, 64), (9, 130)):
        x, row = sample(shape), sample((shape[0], 1))
        compiled = program(lambda v, r: (v + 1) * r, x, row, known=known)
        softmax = program(lambda v: gx.nn.softmax(v), x, known=known)
        expected = program(lambda v: gx.nn.softmax(v), x[:1], known=False)
        for offset in (0, 1, 7):
            into = {0: placed(shape, "float32", offset)}
            compiled.compiled.program.run([x, row], into=into)
            assert np.array_equal(into[0], (x + 1) * row)
            softmax.compiled.program.run([x], into=into)
            for line, given in zip(into[0], x, strict=True):
                assert np.array_equal(line, expected(given[None])[0])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_tiles_that_start_anywhere(known: bool) -> None:
    for shape in ((33, 70), (48, 64), (128, 40)):
        x = sample(shape)
        compiled = program(lambda v: gx.transpose(v) * 2, x, known=known)
        for offset in (0, 1, 8, 15):
            into = {0: placed(shape[::-1], "float32", offset)}
            compiled.compiled.program.run([x], into=into)
            assert np.array_equal(into[0], x.T * 2)


@slow_unless(
    lambda dtype, target: dtype in ("float32", "int8") and target is not TARGETS["v3"]
)
@pytest.mark.usefixtures("eager", "small_tasks")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16"])
def test_tiles_of_rows_that_are_no_whole_lines(dtype: str, target: Target) -> None:
    """Each row is written from its own first line on, and nothing beside the result."""
    for shape in ((1001, 70), (450, 200), (450, 9), (67, 40)):
        x, row = sample(shape, dtype), sample((shape[0],), dtype)
        for function, given, results in (
            (gx.transpose, [x], [x.T]),
            (lambda v, r: [gx.transpose(v) + r, gx.transpose(v)], [x, row], [x.T + row, x.T]),
            (lambda v, r: [gx.transpose(v), gx.transpose(v) > r], [x, row], [x.T, row < x.T]),
        ):
            compiled = program(function, *given, known=True, target=target, threads=2)
            if shape == (1001, 70) and results[-1].dtype == x.dtype:
                assert "streaming" in schedules_of(compiled)
            for offset in (0, 1, 5):
                rooms = [np.zeros(x.size + 512, r.dtype) for r in results]
                starts = [-room.ctypes.data % 64 // room.itemsize + 64 + offset for room in rooms]
                into = {
                    n: room[start : start + x.size].reshape(x.T.shape)
                    for n, (room, start) in enumerate(zip(rooms, starts, strict=True))
                }
                compiled.compiled.program.run(given, into=into)
                for n, (room, start) in enumerate(zip(rooms, starts, strict=True)):
                    assert np.array_equal(into[n], results[n])
                    assert not room[:start].any() and not room[start + x.size :].any()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_tiles_write_no_parts_of_lines_past_the_caches(known: bool) -> None:
    """Of results of short elements, beside others or not, so many are written together."""
    for shape in ((150, 70), (448, 70), (1024, 40), (960, 5)):
        x = sample(shape)
        for function, results in (
            (lambda v: gx.transpose(v) > 0, [x.T > 0]),
            (
                lambda v: [gx.transpose(v) > 0, gx.transpose(v).astype("int16"), gx.transpose(v)],
                [x.T > 0, x.T.astype("int16"), x.T],
            ),
        ):
            compiled = program(function, x, known=known)
            streams = re.findall(r"store <(\d+) x (i?\w+)> .*!nontemporal", compiled.llvm_ir())
            widths = {"i8": 1, "i16": 2, "float": 4}
            assert all(int(count) * widths[kind] % 64 == 0 for count, kind in streams)
            assert streams or (known and shape[0] % 64)
            for offset in (0, 1, 8):
                into = {n: placed(r.shape, str(r.dtype), offset) for n, r in enumerate(results)}
                compiled.compiled.program.run([x], into=into)
                assert all(np.array_equal(into[n], r) for n, r in enumerate(results))


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share even tiny kernels."""
    monkeypatch.setattr(TaskTuning, "serial_work", 1)
    monkeypatch.setattr(TaskTuning, "task_work", 1)


@slow_unless(
    lambda dtype, known, target: dtype in ("float32", "int8")
    and (target is TARGETS["host"] or (target is TARGETS["v2"] and not known))
)
@pytest.mark.usefixtures("eager", "small_tasks")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16"])
def test_tiles_by_blocks_of_columns(dtype: str, known: bool, target: Target) -> None:
    """Whatever the sources' and the results' first lines are, and however rows are cut."""
    for shape in ((448, 200), (448, 67), (512, 9), (448, 16), (448, 40)):
        x, y = sample(shape, dtype), sample(shape[::-1], dtype)
        for function in (gx.transpose, lambda v, w: gx.transpose(v) + w):
            given = [x] if function is gx.transpose else [x, y]
            compiled = program(function, *given, known=known, target=target, threads=2)
            assert {"tiled", "streaming"} <= schedules_of(compiled).keys()
            expected = x.T if len(given) == 1 else x.T + y
            for offset in (0, 1, 4, 13):
                moved = placed(shape, dtype, offset)
                moved[...] = x
                room = np.zeros(x.size + 512, dtype)
                start = -room.ctypes.data % 64 // room.itemsize + 64 + (offset if offset < 4 else 0)
                into = {0: room[start : start + x.size].reshape(expected.shape)}
                compiled.compiled.program.run([moved, *given[1:]], into=into)
                assert np.array_equal(into[0], expected)
                assert not room[:start].any() and not room[start + x.size :].any()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_tiles_of_short_rows_are_streamed_where_they_begin_with_a_line(
    dtype: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tuning, "stream_row_bytes", 1 << 20)
    for shape in ((2, 64, 5, 7), (1, 16, 40, 3), (2, 48, 33, 1), (3, 20, 4, 9)):
        x = sample(shape, dtype)

        def function(v: Any) -> Any:
            turned = gx.transpose(v, (0, 2, 3, 1))
            return [turned, turned.astype("float64")]

        compiled = program(function, x, known=known)
        assert "streaming" in schedules_of(compiled) or shape[1] % 16
        expected = x.transpose(0, 2, 3, 1)
        for offset in (0, 1, 8):
            into = {n: placed(expected.shape, d, offset) for n, d in enumerate((dtype, "f8"))}
            compiled.compiled.program.run([x], into=into)
            assert all(np.array_equal(result, expected) for result in into.values())


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_parts_of_a_result_that_start_anywhere(known: bool) -> None:
    for shape, axis in (((5, 77), 0), ((4, 130), 1), ((203,), 0)):
        x, y = sample(shape), sample(shape) + 1
        compiled = program(
            lambda v, w, axis=axis: gx.concatenate([gx.tanh(v), w * 2], axis), x, y, known=known
        )
        assert "streaming" in schedules_of(compiled)
        expected = np.concatenate([compiled(x, y).take(range(shape[axis]), axis), y * 2], axis)
        assert np.allclose(expected.take(range(shape[axis]), axis), np.tanh(x), rtol=1e-6)
        for offset in (0, 3, 9):
            into = {0: placed(expected.shape, "float32", offset)}
            compiled.compiled.program.run([x, y], into=into)
            assert np.array_equal(into[0], expected)


def test_only_large_results_are_streamed() -> None:
    small = program(lambda v: v + 1, sample((4096,)), known=True)
    assert "streaming" not in schedules_of(small)
    large = program(lambda v: v + 1, np.zeros(5 << 20, np.float32), known=True)
    assert "streaming" in schedules_of(large)
    assert "streaming" in schedules_of(program(lambda v: v + 1, sample((9,)), known=False))


@pytest.mark.usefixtures("eager", "small_tasks")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("shape", [(2, 256), (8, 272), (37, 400), (20, 960)])
def test_rows_that_read_the_same_vectors(
    shape: tuple[int, int], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows at a time, whatever the first lines are; rows and borders get the same values."""
    x, row, bias, column = (sample(s) for s in (shape, (shape[0], 1), shape[1:], shape[1:]))
    expected = (x + bias) * row * column
    texts = []
    for shared in (1 << 30, 0):
        monkeypatch.setattr(Tuning, "row_block_shared_bytes", shared)
        compiled = program(
            lambda v, r, b, c: [(v + b) * r * c, v + c],
            *(x, row, bias, column),
            known=True,
            target=target,
            threads=2,
        )
        texts.append(compiled.llvm_ir())
        for offset in (0, 1, 7):
            into = {n: placed(shape, "float32", n * 3 + offset) for n in range(2)}
            compiled.compiled.program.run([x, row, bias, column], into=into)
            assert np.array_equal(into[0], expected)
            assert np.array_equal(into[1], x + column)
    assert texts[0] != texts[1]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_what_is_read_once_from_memory_is_asked_for_ahead(known: bool) -> None:
    """Arrays as long as the result are; rows that all rows of it read are not, nor what is again
    read from a cache.
    """
    x, row = sample((70, 130)), sample((130,))
    both = program(lambda v, r: (v * v + v) * r, x, row, known=known)
    assert schedules_of(both)["prefetched"] == 1
    assert np.array_equal(both(x, row), (x * x + x) * row)
    centred = program(lambda v: v - gx.max(v, -1, keepdims=True), x, known=known)
    assert "prefetched" not in schedules_of(centred)
    assert np.array_equal(centred(x), x - x.max(-1, keepdims=True))
