"""Kernels in tasks: any number of threads gives the same bits and the same errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.target import Target, host, named
from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import evaluate
from graphc.ir.dtypes import dtype
from graphc.kernel.analysis import task_size
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import print_kernel
from graphc.kernel.reference_reductions import combine_terms
from graphc.kernel.verify import verify_kernel
from graphc.plan.abi import LAUNCH, PARALLEL
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.verify import verify_plan
from graphc.runtime.program import Program

Array = np.ndarray[Any, Any]

THREADS = (1, 2, 3, 8)
ALIKE = {
    "batch of transposes", "large transpose", "softmax f64", "softmax of one long row",
    "standard scores of a long row", "product f64", "positions down columns",
    "greatest of what meets", "constant weights, one row", "residual and gelu",
}  # fmt: skip
"""Programs whose kernels are cut as those of another one are, of another dtype or of more steps."""


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
    "softmax of one long row": (gx.softmax, [normal(262_144 + 1003)]),
    "standard scores of a long row": (
        lambda x: ((x - gx.mean(x)) / gx.std(x), gx.var(x)), [normal(300, 1000, dtype="float64")]
    ),
    "positions of extremes": (
        lambda x: (gx.argmax(x), gx.argmin(x * 2.0), gx.sum(x)),
        [np.round(normal(270, 1000))],
    ),
    "pieces side by side": (
        lambda x, y: gx.concatenate([x, y * 2.0], axis=1) + 1.0, [normal(40, 65), normal(40, 130)]
    ),
    "one head": (
        lambda q, k, v: gx.softmax(q @ k.T) @ v, [normal(200, 16), normal(300, 16), normal(300, 16)]
    ),
    "softmax of columns": (lambda x: gx.softmax(x, axis=0), [normal(40, 333)]),
    "positions down columns": (lambda x: gx.argmax(x, axis=0), [np.round(normal(40, 333))]),
    "scatter along the last axis": (
        lambda x, i, u: gx.scatter_add(x, i, u, axis=1),
        [normal(20, 50), normal(99, dtype="int64") % 50, normal(20, 99)],
    ),
    "greatest of what meets": (
        lambda x, i, u: (x.at[:, i].max(u, mode="clip"), x.at[:, i].set(u, mode="drop")),
        [normal(20, 50), normal(99, dtype="int64") % 60, normal(20, 99)],
    ),
    "scatter with indices of their own": (
        lambda x, i, u: gx.gradients([gx.sum(gx.take_along_axis(x, i, axis=1) * u)], [x])[0],
        [normal(20, 50), normal(20, 30, dtype="int64") % 50, normal(20, 30)],
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
    "product of few rows": (lambda a, b: a @ b, [normal(5, 70), normal(70, 999)]),
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


def steps_of(program: Program) -> Array:
    """The steps of the run that was last, as ``graphc.plan.abi`` says."""
    return program.recent[0].tables.steps


def same(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@slow_unless(lambda name, counts: name not in ALIKE and 3 in counts)
@pytest.mark.parametrize("counts", [(1, 3), (2, 8)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_one_thread(name: str, counts: tuple[int, ...], request: Any) -> None:
    build, arrays = PROGRAMS[name]
    expected, _ = results(build, arrays, 1, host(), False)
    request.getfixturevalue("small_tasks")
    for symbolic in (False, True) if arrays[0].ndim > 1 and "const" not in name else (False,):
        for threads in counts:
            got, program = results(build, arrays, threads, host(), symbolic)
            assert same(expected, got), (threads, symbolic)
            if threads > 1 and name != "scatter":
                kinds = set(steps_of(program)[:, 0])
                assert symbolic or PARALLEL in kinds, "nothing ran in tasks"


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
        return steps_of(program)[0]

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
    steps = program.template.at(program.bind(arrays)).steps
    return [-(-row[4] // row[5]) if row[0] == PARALLEL else 1 for row in steps]


def test_products_of_symbolic_batches_are_cut_by_their_size() -> None:
    def layer(x: Any, w: Any) -> Any:
        return gx.relu(x @ w)

    weights = normal(784, 512)
    for batch, tasks in ((1, 2), (20, 2), (128, 2), (1000, 4)):
        arrays = [normal(batch, 784), weights]
        got, program = results(layer, arrays, 2, host(), True)
        assert tasks_of(program, arrays) == [tasks], batch
        assert same(got, results(layer, arrays, 1, host(), False)[0])
    small = [normal(8, 64), normal(64, 512)]
    assert tasks_of(results(layer, small, 2, host(), True)[1], small) == [1]


def test_few_rows_share_long_runs_of_what_they_stream_through() -> None:
    for columns, tasks in ((4096, 4), (1000, 2), (512, 2)):
        arrays = [normal(1, 1024), normal(1024, columns)]
        got, program = results(lambda x, w: x @ w, arrays, 2, host(), False)
        assert tasks_of(program, arrays) == [tasks], columns
        assert same(got, results(lambda x, w: x @ w, arrays, 1, host(), False)[0])


@pytest.mark.parametrize("kind", ["float32", "float64", "int8"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.usefixtures("small_tasks")
def test_few_rows_are_cut_wherever_what_they_stream_through_lies(kind: str, rows: int) -> None:
    """Cuts move to where a line or a page begins, which threads have to agree on."""
    left, right = normal(rows, 9, dtype=kind), normal(9, 2048, dtype=kind)
    expected, _ = results(lambda x, w: x @ w, [left, right], 1, host(), False)
    with gx.Graph() as graph:
        x, w = gx.placeholder(left.shape, kind), gx.placeholder(right.shape, kind)
    exe = gx.Session(graph, threads=3).compile(x @ w, [x, w])
    assert PARALLEL in exe.compiled.program.template.at({}).steps[:, 0]
    room = np.empty(right.nbytes + 2 * 4096, np.uint8)
    for offset in (0, 16, 48, 64, 256, 2048, 4032, 4088):
        start = -room.ctypes.data % 4096 + offset
        placed = room[start : start + right.nbytes].view(kind).reshape(right.shape)
        placed[...] = right
        out = np.full_like(expected[0], 7)
        exe(left, placed, out=out)
        assert same(expected, [out]), offset


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
             "product of few columns", "product of one row", "product of few rows",
             "batch of products", "running sums",
             "transpose", "batch of transposes"],
)  # fmt: skip
@pytest.mark.usefixtures("small_tasks")
def test_any_ranges_write_what_one_run_writes(name: str) -> None:
    """Machine code of one kernel, its iterations cut at random places, in random order."""
    build, arrays = PROGRAMS[name]
    random = np.random.default_rng(1)
    one_kernel = not name.startswith(("columns and", "column sums", "three axes", "batch of"))
    for symbolic in (False, True) if one_kernel else (False,):
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
            for begin, end in ranges:
                tables = (pointers.ctypes.data, dims.ctypes.data, status.ctypes.data)
                _ENTRY(entry)(*tables, int(begin), int(end), int(random.integers(2)))
            assert same(expected, outputs), (symbolic, ranges)
            assert not status.any()


LENGTHS = {
    "float32": (262_143, 262_144, 262_175, 1 << 20),
    "millions of float32": ((1 << 22) + 12_345, (1 << 25) + 77),
    "float64": (262_144, 300_001, (1 << 21) + 15),
    "int16": (262_145,),
}


@slow_unless(lambda name: not name.startswith("millions"))
@pytest.mark.parametrize("name", LENGTHS)
def test_long_rows_are_reduced_in_the_defined_order(name: str) -> None:
    """Groups that threads share, of every level of the cascade, and a length that has none."""
    for length in LENGTHS[name]:
        array = normal(length, dtype=name.split()[-1])
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
            assert (PARALLEL in steps_of(program)[:, 0]) == (threads > 1)


REDUCED: dict[str, Build] = {
    "sum": gx.sum,
    "product": gx.prod,
    "largest": gx.max,
    "down columns": lambda x: gx.sum(x, axis=0),
    "standard scores": lambda x: (x - gx.mean(x)) / gx.std(x),
    "position": lambda x: gx.argmax(gx.ravel(x), axis=0),
}


@slow_unless(lambda name, kind: kind == "float32" or (kind == "int32" and name == "sum"))
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in REDUCED for kind in ("float32", "float64", "int32")
     if name != "standard scores" or kind == "float32"],
)  # fmt: skip
def test_lengths_known_at_run_time_only_change_no_bit(name: str, kind: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 500), kind)
        fetched = REDUCED[name](x)
    exe = gx.Session(graph, threads=2).compile([fetched], [x])
    assert len(exe.kernels) > 1
    for rows in (0, 1, 3, 17, 263, 1030, 3000):
        array = normal(rows, 500, dtype=kind)
        if not rows and name not in ("sum", "product", "down columns"):
            continue
        wanted, _ = results(REDUCED[name], [array], 1, host(), False)
        assert same(wanted, exe(array)), rows
    zeros = np.full((600, 500), -0.0).astype(kind)
    assert same(results(REDUCED[name], [zeros], 1, host(), False)[0], exe(zeros))


def test_sums_of_negative_zeros_keep_their_sign() -> None:
    for length in (262_144, 262_145):
        (got,), _ = results(gx.sum, [np.full(length, -0.0, np.float32)], 2, host(), False)
        assert np.signbit(got)


def test_tasks_are_even_and_worth_their_while() -> None:
    assert task_size.grain_of(TASKS.serial_work - 1, 1000, 8) == 0
    assert task_size.grain_of(10**12, 1000, 1) == 0
    assert task_size.grain_of(10**12, 1, 8) == 0
    assert task_size.grain_of(10**12, 1000, 8) == -(-1000 // (8 * TASKS.tasks_per_thread))
    assert task_size.grain_of(3 * TASKS.task_work, 999, 8) == 333
    assert task_size.grain_of(10**12, 3, 8) == 1
    assert task_size.grain_of(10**12, 10, 2) == 1
    assert task_size.grain_of(10**12, 20, 2) == 2
    assert task_size.grain_of(10**12, 4096, 2, least=2048) == 2048
    assert task_size.grain_of(10**12, 5000, 2, least=2048) == 2500


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
