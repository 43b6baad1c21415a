"""The run times of sessions and of libraries make the same of the tables of a plan.

One is Python (``graphc.runtime.tables``), the other native (``graphc.aot.native.binding``): at any
sizes and with any number of threads both have the same steps, sizes and places.
"""

from __future__ import annotations

import ctypes
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from libraries import library_of
from random_programs import Recipe, build, recipes

import graphc as gx
from graphc.aot import write
from graphc.aot.native import binding
from graphc.aot.native.records import CONTEXT, WORD
from graphc.base.target import host
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Routine
from graphc.codegen.llvm.types import I64, PTR
from graphc.kernel.analysis.task_size import span_beside
from graphc.plan.abi import GROUP, POOL_THREADS, STEP_WORDS
from graphc.runtime.jit import compile_object, load
from graphc.runtime.program import Program
from graphc.runtime.tables import BoundTables

FEW = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
MANY = settings(FEW, max_examples=300, derandomize=False)

Array = np.ndarray[Any, Any]


def native_tables(library: Any, program: Program) -> BoundTables:
    """What the context of a library is bound to."""
    names = [*CONTEXT.fields]

    def word(name: str) -> int:
        at = library._context + WORD * names.index(name)
        return ctypes.c_int64.from_address(at).value

    def area(name: str, count: int) -> Array:
        block = (ctypes.c_int64 * max(count, 1)).from_address(word(f"{name}_at"))
        return np.array(block, np.int64)[:count]

    assert word("bound"), "the library has run"
    plan, tables = program.plan, program.template.tables
    steps = area("steps", STEP_WORDS * len(plan.steps)).reshape(-1, STEP_WORDS)
    offsets = area("offsets", len(tables.buffers))
    return BoundTables(steps, area("cells", len(tables.cells)), offsets.tolist(), word("peak"))


def comparable(steps: Array) -> list[list[int]]:
    """Steps without addresses."""
    found = []
    for kind, _, *row, _ in steps.tolist():
        # where nothing is shared, nobody reads what sharing would take
        shared = row[3:] if kind not in (0, GROUP) else row[4:] if kind == GROUP else []
        found.append([kind, *row[:3], *shared])
    return found


def agrees(exe: Any, folder: Path, feeds: list[list[Array]], threads: int) -> BoundTables:
    """A library and the same plan loaded into Python are bound alike; gives the last tables."""
    library = library_of(exe, folder, threads)
    loaded = gx.aot.load(folder, threads=threads)
    program = loaded.program
    for arrays in feeds:
        library(*arrays)
        loaded(*arrays)
        mine, other = program.recent[0].tables, native_tables(library, program)
        assert mine.peak == other.peak and list(mine.offsets) == list(other.offsets)
        assert mine.cells[: len(other.cells)].tolist() == other.cells.tolist()
        steps = mine.steps[: len(other.steps)]
        assert comparable(steps) == comparable(other.steps)
    library.close()
    return mine


def check(recipe: Recipe, folder: Path) -> None:
    made = build(recipe)
    placeholders = list(made.feeds)
    exe = gx.Session(made.graph).compile(made.fetches, placeholders)
    arrays = [made.feeds[key] for key in placeholders]
    try:
        exe(*arrays)
    except gx.GraphcError:
        return
    agrees(exe, folder, [arrays], 3)


@FEW
@given(recipes())
def test_random_programs(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> None:
    check(recipe, tmp_path_factory.mktemp("library"))


@pytest.mark.slow
@MANY
@given(recipes())
def test_fuzz_random_programs(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> None:
    check(recipe, tmp_path_factory.mktemp("library"))


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_tasks_at_many_sizes(tmp_path: Path, threads: int) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 128), "float32")
        w = gx.constant(normal(128, 256))
        y = gx.softmax(gx.relu(x @ w) @ gx.transpose(w)).sum(axis=0)
    exe = gx.Session(graph, threads=2).compile([y, gx.cumsum(x, axis=1)], [x])
    agrees(exe, tmp_path / "many", [[normal(n, 128)] for n in (0, 1, 7, 200, 900)], threads)


def test_guards_of_branches(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        x, y = gx.placeholder(("n",), "float32"), gx.placeholder(("m",), "float32")
        flag = gx.placeholder((), "bool")
        z = gx.cond(flag, lambda: gx.sum(x + y), lambda: gx.sum(x * 2.0))
    exe = gx.Session(graph).compile(z, [x, y, flag])
    wrong, right = np.bool_(False), np.bool_(True)
    feeds = [
        [normal(4), normal(4), np.array(right)],
        [normal(4), normal(3), np.array(wrong)],
        [normal(0), normal(3), np.array(wrong)],
    ]
    agrees(exe, tmp_path / "guards", feeds, 2)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_groups_at_many_sizes(tmp_path: Path, threads: int) -> None:
    """Small launches run side by side; large ones are shared one after the other."""
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 64), "float32")
        weights = [gx.constant(normal(64, 32 + n)) for n in range(7)]
        y = [gx.tanh(x @ w).sum(axis=1) for w in weights]
    exe = gx.Session(graph, threads=2).compile(y, [x])
    last = agrees(exe, tmp_path / "small", [[normal(n, 64)] for n in (0, 3, 24, 130)], threads)
    assert (GROUP in last.steps[:, 0]) == (threads > 1)
    assert sum(kind == GROUP for kind, *_ in last.steps) <= 1


def test_the_span_of_tasks_is_that_of_a_session() -> None:
    module = ModuleEmitter(host())
    binding._emit_span(module)
    parameters = {"sizes": PTR, "numbers": PTR, "tasks": I64, "seats": I64}
    routine = Routine(module, "span", parameters, I64, linkage="")
    routine.finish(routine.call("graphc_span", I64, *routine.parameters))
    word, pointer = ctypes.c_int64, ctypes.c_void_p
    library = load(module.text(), ("span",))
    native = library.function("span", pointer, pointer, word, word, result=word)
    random = np.random.default_rng(0)
    for _ in range(500):
        tasks = int(random.integers(2, 150))
        seats = int(random.integers(1, min(tasks, 16) + 1))
        sizes = (10 ** random.uniform(0, 9, 200)).astype(np.int64)
        numbers = random.integers(0, 200, tasks).astype(np.int32)
        expected = span_beside(sizes[numbers].tolist(), seats)
        assert native(sizes.ctypes.data, numbers.ctypes.data, tasks, seats) == expected


def counting(patch: pytest.MonkeyPatch) -> Array:
    """Has libraries count the tasks of groups by the thread that runs them, 0 for the caller."""
    counts = np.zeros(POOL_THREADS, np.int64)
    counted = f"""
    define internal void @graphc_counted(
        ptr %group, ptr %begins, ptr %status, i64 %begin, i64 %end, i64 %seat
    ) {{
      %at = getelementptr i64, ptr inttoptr (i64 {counts.ctypes.data} to ptr), i64 %seat
      %count = sub i64 %end, %begin
      %before = atomicrmw add ptr %at, i64 %count monotonic
      call void @graphc_run_steps(
        ptr %group, ptr %begins, ptr %status, i64 %begin, i64 %end, i64 %seat)
      ret void
    }}
    """

    def compiled(text: str, *arguments: Any) -> bytes:
        code = ", ptr @graphc_run_steps,"
        assert code in text
        text = text.replace(code, ", ptr @graphc_counted,") + textwrap.dedent(counted)
        return compile_object(text, *arguments)

    patch.setattr(write, "compile_object", compiled)
    return counts


def test_threads_of_the_pool_run_tasks_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 64), "float32")
        y = [gx.tanh(x @ gx.constant(normal(64, 64 + n))).sum(axis=1) for n in range(12)]
    exe = gx.Session(graph, threads=2).compile(y, [x])
    counts = counting(monkeypatch)
    one = library_of(exe, tmp_path / "groups", 1)
    feed = normal(64, 64)
    expected = [array.tobytes() for array in exe(feed)]
    assert [array.tobytes() for array in one(feed)] == expected
    assert not counts.any(), "one thread runs no groups"
    two = type(one)(2)
    tasks = 0
    for run in range(1, 50_000):  # on a busy machine the second thread comes late
        assert [array.tobytes() for array in two(feed)] == expected
        tasks = tasks or counts.sum()
        assert tasks > 1 and counts.sum() == run * tasks
        if counts[1]:
            break
    assert counts[1] and not counts[2:].any()
