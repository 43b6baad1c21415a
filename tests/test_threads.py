"""Threads: bits that don't depend on them, ranges of iterations, the pool, errors, forks, exits."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base import threads as base_threads
from graphc.base.errors import VerifyError
from graphc.base.target import Target, host, named
from graphc.base.threads import usable_threads
from graphc.ir.dims import evaluate
from graphc.ir.dtypes import dtype
from graphc.kernel import grains, split
from graphc.kernel.combine import combine_terms
from graphc.kernel.parser import parse_kernel
from graphc.kernel.text import print_kernel
from graphc.kernel.verify import verify_kernel
from graphc.plan.table import LAUNCH, PARALLEL, PARALLEL_REST
from graphc.plan.text import constants_of, parse_plan, print_plan
from graphc.plan.verify import verify_plan
from graphc.runtime.program import Program
from graphc.runtime.tasks import write_cuts

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]

THREADS = (1, 2, 3, 8)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels that can be split are, in as many tasks as possible."""
    for module in (grains, split):
        monkeypatch.setattr(module, "SERIAL_WORK", 1)
    monkeypatch.setattr(grains, "TASK_WORK", 1)
    monkeypatch.setattr(grains, "TASKS_PER_THREAD", 13)
    monkeypatch.setattr(split, "_LONG", 1)
    monkeypatch.setattr(split, "COLUMNS", 1)


def normal(*shape: int, dtype: str = "float32") -> Array:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return (values * 9 if dtype.startswith("int") else values).astype(dtype)


# --- programs ------------------------------------------------------------------------------------

Build = Callable[..., Any]

PROGRAMS: dict[str, tuple[Build, list[Array]]] = {
    "map": (lambda x: gx.tanh(x) * x, [normal(1000)]),
    "map of bytes": (lambda x: x ^ (x + 3), [normal(777, dtype="int8")]),
    "columns and rows": (lambda x, r, c: x * r + c, [normal(37, 129), normal(129), normal(37, 1)]),
    "three axes": (lambda x, y: x + y, [normal(5, 6, 300), normal(1, 6, 1)]),
    "transpose": (lambda x: gx.transpose(x) * 2.0, [normal(70, 131)]),
    "batch of transposes": (
        lambda x: gx.transpose(x, (0, 2, 1)) + 1.0, [normal(3, 65, 140, dtype="int8")]
    ),
    "large transpose": (lambda x: gx.transpose(x), [normal(2050, 2064)]),
    "channels last": (lambda x: gx.transpose(x, (0, 2, 3, 1)), [normal(2, 32, 17, 9)]),
    "flip and slice": (lambda x: x[::-1, 3:90] + 1.0, [normal(41, 100)]),
    "softmax": (gx.softmax, [normal(53, 301)]),
    "softmax f64": (gx.softmax, [normal(53, 301, dtype="float64")]),
    "layer norm": (
        lambda x, g, b: gx.layer_norm(x, g, b), [normal(29, 96), normal(96), normal(96)]
    ),
    "row sums": (lambda x: (x.sum(axis=1), x.max(axis=1)), [normal(90, 70)]),
    "sum of a long row": (gx.sum, [normal(262_144 + 8191)]),
    "sums and extremes of a long row": (
        lambda x: (gx.sum(x * x), gx.max(x, axis=(0, 1)), gx.exp(gx.mean(x))),
        [normal(700, 431, dtype="float64")],
    ),
    "column sums": (lambda x: x.sum(axis=0), [normal(90, 333)]),
    "sums down long columns": (
        lambda x, y: (gx.sum(x * y, axis=0) * 2.0, gx.max(x, axis=0)),
        [normal(4100, 70), normal(4100, 1)],
    ),
    "middle sums": (lambda x: x.sum(axis=1), [normal(7, 40, 65)]),
    "running sums": (lambda x: gx.cumsum(x, axis=0), [normal(30, 200)]),
    "running sums of rows": (lambda x: gx.cumsum(x, axis=1), [normal(30, 20)]),
    "rows by index": (
        lambda x, i: gx.take(x, i, axis=0), [normal(50, 70), normal(200, dtype="int64") % 50]
    ),
    "scatter": (
        lambda x, i, u: gx.scatter_add(x, i, u),
        [normal(50, 20), normal(99, dtype="int64") % 50, normal(99, 20)],
    ),
    "product": (lambda a, b: a @ b, [normal(100, 60), normal(60, 500)]),
    "product of few columns": (lambda a, b: a @ b, [normal(500, 60), normal(60, 33)]),
    "product of one row": (lambda a, b: a @ b, [normal(1, 70), normal(70, 999)]),
    "product with a vector": (lambda a, b: a @ b, [normal(999, 70), normal(70)]),
    "product f64": (
        lambda a, b: a @ b, [normal(100, 60, dtype="float64"), normal(60, 500, dtype="float64")]
    ),
    "product of ints": (
        lambda a, b: a @ b, [normal(60, 30, dtype="int32"), normal(30, 300, dtype="int32")]
    ),
    "product of transposes": (
        lambda a, b: gx.transpose(a) @ gx.transpose(b), [normal(60, 300), normal(260, 60)]
    ),
    "constant weights": (
        lambda a: a @ gx.constant(normal(700, 500)), [normal(100, 700)]
    ),
    "constant weights, one row": (
        lambda a: a @ gx.constant(normal(700, 500)), [normal(1, 700)]
    ),
    "batch of products": (lambda a, b: a @ b, [normal(5, 20, 30), normal(5, 30, 300)]),
    "linear layer": (
        lambda x, w, c: gx.relu(x @ w + c), [normal(300, 70), normal(70, 700), normal(700)]
    ),
    "residual and gelu": (
        lambda x, w, r: gx.gelu(x @ w) + r, [normal(90, 70), normal(70, 900), normal(90, 900)]
    ),
    "attention": (
        lambda q, k, v: gx.softmax(q @ gx.swapaxes(k, -1, -2) * 0.2) @ v,
        [normal(3, 90, 16), normal(3, 80, 16), normal(3, 80, 16)],
    ),
    "network": (
        lambda x, w, v: gx.softmax(gx.relu(x @ w) @ v),
        [normal(64, 100), normal(100, 300), normal(300, 10)],
    ),
}  # fmt: skip


def results(
    build: Build, arrays: Sequence[Array], threads: int, target: Target, symbolic: bool
) -> tuple[list[Array], Program]:
    with gx.Graph() as graph:
        values = [
            gx.placeholder((None, *a.shape[1:]) if symbolic and n == 0 else a.shape, a.dtype.name)
            for n, a in enumerate(arrays)
        ]
        built = build(*values)
    session = gx.Session(graph, threads=threads, target=target)
    fetches = list(built) if isinstance(built, tuple) else [built]
    exe = session.compile(fetches, values)
    return exe(*arrays), exe.compiled.program


def same(first: Sequence[Array], second: Sequence[Array]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_one_thread(name: str, request: pytest.FixtureRequest) -> None:
    build, arrays = PROGRAMS[name]
    expected, _ = results(build, arrays, 1, host(), False)
    request.getfixturevalue("small_tasks")
    for symbolic in (False, True) if arrays[0].ndim > 1 and "const" not in name else (False,):
        for threads in THREADS:
            got, program = results(build, arrays, threads, host(), symbolic)
            assert same(expected, got), (threads, symbolic)
            if threads > 1 and name != "scatter":
                kinds = set(program.table.steps[:, 0])
                assert symbolic or kinds & {PARALLEL, PARALLEL_REST}, "nothing ran in tasks"


@pytest.mark.parametrize("name", ["softmax", "product", "map", "constant weights", "network"])
@pytest.mark.usefixtures("small_tasks")
def test_targets_without_wide_vectors(name: str) -> None:
    build, arrays = PROGRAMS[name]
    for target in (named("x86-64-v2"), host().without_fma()):
        expected, _ = results(build, arrays, 1, target, False)
        assert same(expected, results(build, arrays, 3, target, False)[0])


def test_large_kernels_are_cut_and_small_ones_not() -> None:
    def steps(size: int, threads: int) -> Array:
        arrays = [normal(size)]
        _, program = results(lambda x: gx.tanh(x) * x, arrays, threads, host(), False)
        return program.table.steps[0]

    assert steps(16, 2)[0] == steps(1_000_000, 1)[0] == LAUNCH
    kind, *_, extent, grain, seats, pool = steps(1_000_000, 2)
    assert kind == PARALLEL and extent == 1_000_000 and seats == 2 and pool
    assert extent / (4 * 2) <= grain < extent / 2


def test_symbolic_dims_decide_at_run_time() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float32")
        y = gx.exp(x) + 1.0
    exe = gx.Session(graph, threads=2).compile(y, [x])
    for size in (0, 1, 16, 1_000_000):
        array = normal(size)
        alone = gx.Session(graph, threads=1).run(y, {x: array})
        assert exe(array).tobytes() == alone.tobytes()


def tasks_of(program: Program, arrays: Sequence[Array]) -> list[int]:
    """Into how many tasks each launch is cut for the sizes of these arrays, 1 if it is not."""
    steps, binding = program.table.steps.copy(), program.bind(arrays)
    write_cuts(steps, program.table.cuts, lambda dim: evaluate(dim, binding), 0)
    return [-(-row[4] // row[5]) if row[0] == PARALLEL else 1 for row in steps]


def test_products_of_symbolic_batches_are_cut_by_their_size() -> None:
    def layer(x: Any, w: Any) -> Any:
        return gx.relu(x @ w)

    weights = normal(784, 512)
    for batch, tasks in ((1, 1), (20, 2), (128, 2), (1000, 4)):
        arrays = [normal(batch, 784), weights]
        got, program = results(layer, arrays, 2, host(), True)
        assert tasks_of(program, arrays) == [tasks], batch
        assert same(got, results(layer, arrays, 1, host(), False)[0])
    small = [normal(8, 64), normal(64, 512)]
    assert tasks_of(results(layer, small, 2, host(), True)[1], small) == [1]


def test_products_with_epilogues_have_tasks_for_two_threads() -> None:
    for columns in (256, 512, 700, 768, 1280, 3072):
        arrays = [normal(500, 300)]
        layer = partial(lambda w, x: gx.relu(x @ gx.constant(w)) * 2.0, normal(300, columns))
        (tasks,) = tasks_of(results(layer, arrays, 2, host(), False)[1], arrays)
        assert tasks > 1 and tasks % 2 == 0, columns


# --- ranges --------------------------------------------------------------------------------------

_ENTRY = ctypes.CFUNCTYPE(None, *3 * [ctypes.c_void_p], *3 * [ctypes.c_int64])


@pytest.mark.parametrize(
    "name", ["map", "columns and rows", "three axes", "softmax", "column sums", "product",
             "product of few columns", "batch of products", "running sums", "sum of a long row",
             "transpose", "batch of transposes"],
)  # fmt: skip
@pytest.mark.usefixtures("small_tasks")
def test_any_ranges_write_what_one_run_writes(name: str) -> None:
    """Machine code of one kernel, its iterations cut at random places, in random order."""
    build, arrays = PROGRAMS[name]
    random = np.random.default_rng(1)
    one_kernel = not name.startswith(("columns and rows", "three axes", "batch of"))
    for symbolic in (False, True) if one_kernel and "long" not in name else (False,):
        expected, program = results(build, arrays, 1, host(), symbolic)
        (kernel,), (entry,) = program.plan.kernels, program.entries
        binding = program.bind(arrays)
        assert kernel.split is not None
        extent = evaluate(kernel.split.extent, binding)
        assert extent > 1
        dims = np.array([*(binding[d] for d in kernel.dims), 0], np.int64)
        for _ in range(5):
            cuts = np.unique(np.r_[0, random.integers(0, extent + 1, 6), extent])
            ranges = list(pairwise(cuts))
            random.shuffle(ranges)
            outputs = [np.full_like(array, 7) for array in expected]
            scratch = [np.zeros(1 << 22, np.uint8) for b in kernel.buffers if b.is_room]
            given = [*arrays, *outputs, *scratch]
            pointers = np.array([array.ctypes.data for array in given], np.uint64)
            status = np.zeros(4, np.int64)
            if kernel.split.has_rest:
                ranges.append((extent, extent + 1))
            for begin, end in ranges:
                tables = (pointers.ctypes.data, dims.ctypes.data, status.ctypes.data)
                _ENTRY(entry)(*tables, int(begin), int(end), int(random.integers(2)))
            assert same(expected, outputs), (symbolic, ranges)
            assert not status.any()


LENGTHS = {
    "float32": (262_143, 262_144, 262_175, 1 << 20, (1 << 22) + 12_345, (1 << 25) + 77),
    "float64": (262_144, 300_001, (1 << 21) + 15),
    "int16": (262_145,),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_long_rows_are_reduced_in_the_defined_order(name: str) -> None:
    """Groups that threads share, of every level of the cascade, and a length that has none."""
    for length in LENGTHS[name]:
        array = normal(length, dtype=name)
        array[::97] = 0
        for combine, function in (("add", gx.sum), ("minimum", gx.min)):
            for threads in (1, 2):
                (got,), program = results(
                    lambda x, f=function: f(x), [array], threads, host(), False
                )
                wanted = combine_terms(combine, array.astype(got.dtype), dtype(got.dtype), "lanes")
                assert got.tobytes() == wanted.tobytes(), (length, combine, threads)
                cut = program.plan.kernels[0].split
                assert (cut is not None) == (length >= 1 << 18)


COLUMNS = ((1024, 300), (1500, 20, 11), (4096, 64), (5000, 77), (70_000, 5), (300_000, 1))


@pytest.mark.parametrize("shape", COLUMNS)
def test_long_columns_are_reduced_in_the_defined_order(shape: tuple[int, ...]) -> None:
    array = normal(*shape)
    chains = np.ascontiguousarray(np.moveaxis(array, 0, -1))
    for combine, function in (("add", gx.sum), ("maximum", gx.max), ("multiply", gx.prod)):
        wanted = combine_terms(combine, chains, dtype("float32"), "chain")
        for threads in (1, 2):
            (got,), program = results(
                lambda x, f=function: f(x, axis=0), [array], threads, host(), False
            )
            assert got.tobytes() == wanted.tobytes(), (combine, threads)
            assert (PARALLEL_REST in program.table.steps[:, 0]) == (threads > 1)


def test_sums_of_negative_zeros_keep_their_sign() -> None:
    for length in (262_144, 262_145):
        (got,), _ = results(gx.sum, [np.full(length, -0.0, np.float32)], 2, host(), False)
        assert np.signbit(got)


def test_tasks_are_even_and_worth_their_while() -> None:
    assert grains.grain_of(grains.SERIAL_WORK - 1, 1000, 8) == 0
    assert grains.grain_of(10**12, 1000, 1) == 0
    assert grains.grain_of(10**12, 1, 8) == 0
    assert grains.grain_of(10**12, 1000, 8) == -(-1000 // (8 * grains.TASKS_PER_THREAD))
    assert grains.grain_of(3 * grains.TASK_WORK, 999, 8) == 333
    assert grains.grain_of(10**12, 3, 8) == 1
    assert grains.grain_of(10**12, 10, 2) == 1
    assert grains.grain_of(10**12, 20, 2) == 2
    assert grains.grain_of(10**12, 4096, 2, least=2048) == 2048
    assert grains.grain_of(10**12, 5000, 2, least=2048) == 2500


def test_kernels_say_how_they_are_split() -> None:
    _, program = results(*PROGRAMS["softmax"], 2, host(), True)
    (kernel,) = program.plan.kernels
    text = print_kernel(kernel)
    assert " split 1 (" in text
    assert kernel.split is not None and kernel.split.levels == 1
    assert parse_kernel(text).split is not None
    verify_kernel(parse_kernel(text))
    with pytest.raises(VerifyError, match="ranges go over 2 levels, of which there are 1"):
        verify_kernel(parse_kernel(text.replace(" split 1 ", " split 2 ", 1)))


def test_scratch_has_a_copy_for_each_thread() -> None:
    build, arrays = PROGRAMS["constant weights"][0], [normal(4000, 700)]
    plans = {n: results(build, arrays, n, host(), False)[1].plan for n in (1, 2)}
    rooms = {n: [s for s in plan.slots if s.kind == "scratch"] for n, plan in plans.items()}
    assert rooms[1] and rooms[2]
    for one, two in zip(rooms[1], rooms[2], strict=True):
        assert (one.copies, two.copies) == (1, 2)
        assert two.bytes == 2 * -(-one.bytes // 64) * 64
    text = print_plan(plans[2])
    assert " copies 2" in text
    again = parse_plan(text, constants_of(plans[2]))
    assert print_plan(again) == text
    verify_plan(again)
    with pytest.raises(VerifyError, match="has 0 copies"):
        verify_plan(parse_plan(text.replace(" copies 2", " copies 0"), constants_of(plans[2])))


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_tasks")
def test_the_first_wrong_index_is_reported() -> None:
    with gx.Graph() as graph:
        table = gx.placeholder((50, 40), "float32")
        index = gx.placeholder((3000,), "int64")
        y = gx.take(table, index, axis=0) * 2.0
    places = np.zeros(3000, np.int64)
    for wrong in (2999, 1700, 903, 64, 5):
        places[wrong] = 1000 + wrong
        for threads in THREADS:
            exe = gx.Session(graph, threads=threads).compile(y, [table, index])
            for _ in range(10):
                with pytest.raises(gx.IndexRangeError, match=f"index {1000 + wrong} is out"):
                    exe(normal(50, 40), places)
        good = np.zeros(3000, np.int64)
        assert np.array_equal(exe(normal(50, 40), good)[7], normal(50, 40)[0] * 2)


@pytest.mark.usefixtures("small_tasks")
def test_the_first_of_several_checks_is_reported() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((500,), "float32")
        i, j = (gx.placeholder((2000,), "int64") for _ in range(2))
        y = gx.take(x, i, axis=0) + gx.take(x, j, axis=0)
    random = np.random.default_rng(3)
    for _ in range(5):
        a, b = random.integers(0, 503, (2, 2000))
        messages = set()
        for threads in THREADS:
            with pytest.raises(gx.IndexRangeError) as caught:
                gx.Session(graph, threads=threads).run(y, {x: normal(500), i: a, j: b})
            messages.add(caught.value.message)
        assert len(messages) == 1


# --- the pool ------------------------------------------------------------------------------------


def loop_program(trips: int, size: int, threads: int) -> tuple[Any, Array]:
    """Adds 1 to an array once a trip, in a launch of its own; and its result."""
    with gx.Graph() as graph:
        x = gx.placeholder((size,), "float32")
        _, y = gx.while_loop(
            lambda i, v: i < trips, lambda i, v: (i + 1, v + 1.0), (gx.constant(0), x)
        )
    exe = gx.Session(graph, threads=threads).compile(y, [x])
    return exe, np.full(size, trips, np.float32)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("threads", [2, 8])
def test_a_hundred_thousand_small_launches(threads: int) -> None:
    trips = 100_000 if threads == 2 else 10_000
    exe, expected = loop_program(trips, 640, threads)
    assert PARALLEL in exe.compiled.program.table.steps[:, 0]
    assert np.array_equal(exe(np.zeros(640, np.float32)), expected)


@pytest.mark.usefixtures("small_tasks")
def test_sessions_run_at_once() -> None:
    programs = [loop_program(trips, 640, 3) for trips in (900, 1100, 1300)]
    wrong: list[int] = []

    def work(number: int) -> None:
        exe, expected = programs[number]
        for _ in range(5):
            if not np.array_equal(exe(np.zeros(640, np.float32)), expected):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(n % 3,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.usefixtures("small_tasks")
def test_after_a_pause_threads_are_woken() -> None:
    exe, expected = loop_program(20, 640, 4)
    for pause in (0.0, 0.001, 0.05):
        time.sleep(pause)
        assert np.array_equal(exe(np.zeros(640, np.float32)), expected)


def test_short_launches_wake_nobody_at_once() -> None:
    """Single calls with rests in between run alone; the ninth in a row has its threads woken."""
    done = run_script("""
        import ctypes
        from graphc.codegen.pool import PATIENCE
        run = program(1, threads=2)
        run()
        (worker,) = {int(t) for t in os.listdir("/proc/self/task")} - {os.getpid()}

        def switches():
            with open(f"/proc/self/task/{worker}/status") as status:
                return int(status.read().split("\\nvoluntary_ctxt_switches:")[1].split()[0])

        for trial in range(20):
            time.sleep(0.02)
            before = switches()
            for call in range(3 * (PATIENCE + 1)):
                assert run() == 1
                time.sleep(0.005)
            if 0 < switches() - before <= 6:
                sys.exit(0)
        sys.exit("it was woken too often, or not at all")
        """, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.returncode, done.stderr) == (0, "")


def run_script(text: str, **options: Any) -> subprocess.CompletedProcess[str]:
    head = """
        import os, signal, sys, threading, time
        import numpy as np
        import graphc as gx
        from graphc.kernel import grains, split
        split.SERIAL_WORK = grains.SERIAL_WORK = grains.TASK_WORK = 1

        def program(trips, threads=3, size=640):
            with gx.Graph() as graph:
                x = gx.placeholder((size,), "float32")
                _, y = gx.while_loop(
                    lambda i, v: i < trips, lambda i, v: (i + 1, v + 1.0), (gx.constant(0), x)
                )
            exe = gx.Session(graph, threads=threads).compile(y, [x])
            return lambda: exe(np.zeros(size, np.float32))[0]
    """
    script = textwrap.dedent(head) + textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, **options
    )


def test_a_forked_child_makes_threads_of_its_own() -> None:
    done = run_script("""
        def threads():
            return len(os.listdir("/proc/self/task"))

        run = program(200)
        before = threads()
        assert run() == 200 and threads() == before + 2
        for round in range(3):
            child = os.fork()
            if not child:
                ok = threads() == 1 and run() == 200 and threads() == 3
                os._exit(0 if ok else 7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert run() == 200
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_while_another_thread_runs() -> None:
    done = run_script("""
        run, other = program(200), program(100_000)
        stop = []
        def busy():
            while not stop:
                assert other() == 100_000
        thread = threading.Thread(target=busy)
        thread.start()
        for round in range(5):
            child = os.fork()
            if not child:
                os._exit(0 if run() == 200 else 7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop.append(1)
        thread.join()
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_interpreter_ends_with_threads_asleep_or_busy() -> None:
    for last in ("time.sleep(0.1)", "", "threading.Thread(target=run, daemon=True).start()"):
        done = run_script(f"run = program(20_000)\nassert run() == 20_000\n{last}\n")
        assert (done.returncode, done.stderr) == (0, ""), last


def test_control_c_stops_a_run_in_threads() -> None:
    done = run_script("""
        run = program(10**9)
        signal.signal(signal.SIGALRM, lambda *_: None)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            run()
        except KeyboardInterrupt:
            assert program(50)() == 50
            print("stopped")
        """)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


@pytest.mark.skipif(usable_threads() < 2, reason="needs two CPUs")
def test_idle_threads_keep_off_the_callers_cpu_and_busy_ones_may_run_anywhere() -> None:
    """So that the system does not wake a thread where its caller runs, and leave it there."""
    done = run_script("""
        import ctypes
        present_cpu = ctypes.CDLL(None).sched_getcpu
        run, longer, everywhere = program(50), program(10**5), os.sched_getaffinity(0)
        main = threading.get_native_id()

        def masks():
            tasks = map(int, os.listdir("/proc/self/task"))
            return [os.sched_getaffinity(t) for t in tasks if t not in (main, caller)]

        def kept_off():
            # on a busy machine a caller may move at any time, and threads be late to sleep
            apart = 0
            for trial in range(400):
                before = present_cpu()
                run()
                time.sleep(0.02)
                apart += present_cpu() == before and masks() == 2 * [everywhere - {before}]
                if apart == 5:
                    return True
            return False

        caller = main
        run()
        assert kept_off()

        seen = []
        while 2 * [everywhere] not in seen:
            thread = threading.Thread(target=longer)
            thread.start()
            caller = thread.native_id
            while thread.is_alive():
                seen.append(masks())
            thread.join()
            assert len(seen) < 10**6
        # that caller is gone, and its number with it
        caller = main
        assert kept_off()
        """, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(usable_threads() < 2, reason="needs two CPUs")
def test_callers_that_move_and_callers_with_one_cpu() -> None:
    done = run_script("""
        run, everywhere = program(50), os.sched_getaffinity(0)
        for trial in range(4):
            for cpu in everywhere:
                os.sched_setaffinity(0, {cpu})
                assert run() == 50
                os.sched_setaffinity(0, everywhere)
                assert run() == 50
                time.sleep(0.001 * trial)
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_thread_makes_none() -> None:
    done = run_script("""
        assert program(1000, threads=1)() == 1000
        print(len(os.listdir("/proc/self/task")))
        run = program(1000, threads=3)
        print(len(os.listdir("/proc/self/task")))
        """, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.stdout, done.stderr) == ("1\n1\n", "")


# --- how many ------------------------------------------------------------------------------------


def test_default_is_what_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHC", raising=False)
    with gx.Graph() as graph:
        gx.placeholder((3,), "float32")
    assert gx.Session(graph).threads == usable_threads() >= 1
    assert gx.Session(graph, threads=5).threads == 5
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    for quota, expected in ((None, 6), (2.5, 2), (0.3, 1), (64.0, 6)):
        monkeypatch.setattr(base_threads, "_quota", lambda quota=quota: quota)
        assert usable_threads() == expected


def test_quotas_of_both_versions(tmp_path: Path) -> None:
    unified = tmp_path / "cpu.max"
    for text, expected in (("250000 100000\n", 2.5), ("max 100000\n", None), ("nonsense", None)):
        unified.write_text(text)
        assert base_threads._read_limit(unified) == expected
    legacy = tmp_path / "cpu.cfs_quota_us"
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    for text, expected in (("150000\n", 1.5), ("-1\n", None)):
        legacy.write_text(text)
        assert base_threads._read_limit(legacy) == expected
    assert base_threads._read_limit(tmp_path / "absent" / "cpu.max") is None


def test_libraries_run_in_threads(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("small_tasks")
    build, arrays = PROGRAMS["network"]
    with gx.Graph() as graph:
        values = [gx.placeholder(array.shape, "float32") for array in arrays]
        y = build(*values)
    exe = gx.Session(graph, threads=3).compile(y, values)
    gx.aot.compile(exe, tmp_path / "p")
    expected = exe(*arrays)
    for threads in (None, *THREADS):
        loaded = gx.aot.load(tmp_path / "p", threads=threads)
        assert loaded(*arrays).tobytes() == expected.tobytes()
    with pytest.raises(gx.GraphError, match="threads is 0"):
        gx.aot.load(tmp_path / "p", threads=0)


def test_sessions_in_threads_of_python_and_signals_are_left_alone() -> None:
    """A thread that runs in tasks has the signals it had."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    exe, expected = loop_program(3, 4_000_000, 2)
    assert np.array_equal(exe(np.zeros(4_000_000, np.float32)), expected)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
