"""What programs allocate: arenas near their lower bound, and in a run nothing but results.

NumPy reports the memory of arrays to tracemalloc, Python that of everything else, so their peak
during a run counts whatever lives for a moment too. Native code is judged by the
functions it could call.
"""

from __future__ import annotations

import gc
import runpy
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from object_symbols import undefined_symbols
from slow_parameters import slow_unless
from tools import ROOT

import graphc as gx
import graphc.session.session
from benchmarks.peers.graphc import Graphc
from benchmarks.workloads import Workload, workloads
from graphc.base.target import host
from graphc.codegen.native.plan_walker import emit_program, emit_walker
from graphc.compiling.compiled import Compiled
from graphc.compiling.tiers import Tiers
from graphc.runtime.jit import compile_object
from passes.memory.arena import bytes_at

NEAR = 1.02
"""How much more than the lower bound an arena may take."""

FAR = 1.05 if host().masks else 1.1
"""The same for batches that are many times what the plan was made for. Scratch of products depends
on the target: digits_step takes 1.096 of its bound with AVX2."""

OBJECTS = 6_000
"""Bytes of Python objects that a run may make: tuples, views of results, bookkeeping."""

WARM = 3
"""Runs after which all that is kept is made: frames, and two blocks for each variable."""


# --- peaks ---------------------------------------------------------------------------------------


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Compiled]:
    """All programs that sessions compile."""
    found: list[Compiled] = []
    compiled_program = graphc.session.session.compiled_program

    def recorded(*arguments: Any) -> Tiers:
        tiers = compiled_program(*arguments)
        found.append(tiers.full)
        return tiers

    monkeypatch.setattr(graphc.session.session, "compiled_program", recorded)
    # scratch for one thread, so that arenas are the same on every machine
    monkeypatch.setenv("GRAPHC", "threads=1")
    return found


def assert_near_the_bound(
    compiled: Compiled, dims: dict[str, int] | None = None, near: float = NEAR
) -> None:
    peak, unplanned, bound = bytes_at(compiled.plan, dims or {})
    assert bound <= peak <= max(unplanned, near * bound), compiled.plan.name
    assert peak <= near * bound, f"{compiled.plan.name}: {peak:,} bytes, the bound is {bound:,}"


def prepare(workload: Workload) -> Any:
    """graphc's program of a workload, compiled but not run."""
    inputs = workload.inputs()
    weights = {name: inputs.pop(name) for name in sorted(workload.weights)}
    return Graphc.builders[workload.kind](Graphc(), inputs, weights)


LARGE = ("first_dag", "train_step", "matmul_2048", "matmul_8x4096x4096")
"""Workloads that are others in large."""


@slow_unless(lambda workload: workload.name not in LARGE)
@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.name)
def test_benchmarks_are_near_the_bound(workload: Workload, programs: list[Compiled]) -> None:
    prepare(workload).call()
    assert programs
    for compiled in programs:
        symbolic = "batch" in {str(dim) for slot in compiled.plan.slots for dim in slot.type.shape}
        if not symbolic:
            assert_near_the_bound(compiled)
            continue
        for batch in (1, 7, 32, 128):
            assert_near_the_bound(compiled, {"batch": batch})
        for batch in (256, 512, 1000, 2048, 5000):
            assert_near_the_bound(compiled, {"batch": batch}, FAR)


@pytest.mark.parametrize(
    ("example", "arguments", "least"),
    [
        ("chain_rule", [], 5),
        ("heat", ["--quick"], 1),
        ("logistic", [], 2),
        ("digits", ["--epochs", "1"], 2),
    ],
)
def test_examples_are_near_the_bound(
    example: str,
    arguments: list[str],
    least: int,
    programs: list[Compiled],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = ROOT / "examples" / f"{example}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    runpy.run_path(str(path), run_name="__main__")
    assert len(programs) >= least
    for compiled in programs:
        layout = compiled.plan.layout
        assert layout is not None
        peak, bound = layout.solution.peak, layout.solution.lower_bound
        assert bound <= peak <= NEAR * bound, f"{compiled.plan.name}: {peak:,}, bound {bound:,}"


def test_an_arena_takes_its_peak_and_a_cache_line() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        y = gx.tanh(x @ x) @ x
    executable = gx.Session(graph).compile(y, [x])
    executable(np.ones((64, 64), np.float32))
    (frame,) = executable.compiled.program.idle_frames
    peak = executable.memory.peak_bytes
    assert peak > 0
    assert frame.arena.nbytes == peak
    assert frame.arena.base is not None and frame.arena.base.nbytes <= peak + 64


# --- runs ----------------------------------------------------------------------------------------


def pointwise() -> tuple[gx.Graph, Any, dict[Any, Any]]:
    with gx.Graph() as graph:
        x = gx.placeholder((300, 200), name="x")
        fetches = gx.tanh(x) * x, gx.sum(x * x, axis=1)
    return graph, fetches, {x: np.ones((300, 200), np.float32)}


def products() -> tuple[gx.Graph, Any, dict[Any, Any]]:
    with gx.Graph() as graph:
        x = h = gx.placeholder(("n", 128), name="x")
        for _ in range(4):
            h = gx.nn.softmax(h @ gx.constant(np.eye(128, dtype=np.float32)) + 1.0)
        fetches = {"last": h, "mean": h.mean(), "order": gx.argmax(h, axis=1)}
    return graph, fetches, {x: np.ones((100, 128), np.float32)}


def control_flow() -> tuple[gx.Graph, Any, dict[Any, Any]]:
    with gx.Graph() as graph:
        x = gx.placeholder((150, 150), name="x")
        big, turns = gx.while_loop(
            lambda value, turn: turn < 5, lambda value, turn: (value @ x * 0.1, turn + 1), (x, 0)
        )
        fetches = gx.cond(gx.sum(big) > 0.0, lambda: big + 1.0, lambda: big.T), turns
    return graph, fetches, {x: np.ones((150, 150), np.float32)}


def training() -> tuple[gx.Graph, Any, dict[Any, Any]]:
    random = np.random.default_rng(0)
    with gx.Graph() as graph:
        x, t = gx.placeholder(("n", 64), name="x"), gx.placeholder(("n",), "int64", name="t")
        w = gx.variable(random.normal(size=(64, 256)).astype(np.float32))
        v = gx.variable(random.normal(size=(256, 10)).astype(np.float32))
        loss = gx.nn.softmax_cross_entropy(gx.nn.relu(x @ w) @ v, t).mean()
        step = gx.optim.Adam(1e-2).minimize(loss, [w, v])
        fetches = [step, loss]
    return graph, fetches, {x: np.ones((64, 64), np.float32), t: np.zeros(64, np.int64)}


def result_bytes(results: Any) -> list[int]:
    """Sizes of all arrays in a nested structure."""
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, list | tuple):
        return [size for item in results for size in result_bytes(item)]
    return [] if results is None else [results.nbytes]


def traced(call: Callable[[], Any]) -> tuple[list[int], list[int], int]:
    """Bytes of a call's results, of all NumPy blocks it leaves, and the most it held at once."""
    for _ in range(WARM):
        call()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        # once under the trace, so that what the first run replaces is known to it
        for _ in range(WARM):
            call()
        numpy_only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        before = tracemalloc.take_snapshot().filter_traces([numpy_only]).traces
        tracemalloc.reset_peak()
        held, _ = tracemalloc.get_traced_memory()
        results = call()
        _, peak = tracemalloc.get_traced_memory()
        after = tracemalloc.take_snapshot().filter_traces([numpy_only]).traces
    finally:
        tracemalloc.stop()
        gc.enable()
    made = sorted(trace.size for trace in after)
    for trace in before:
        made.remove(trace.size)
    return result_bytes(results), made, peak - held


@slow_unless(lambda build, way: way == "run" or build is pointwise)
@pytest.mark.parametrize("build", [pointwise, products, control_flow, training])
@pytest.mark.parametrize("way", ["run", "compiled"])
def test_a_run_allocates_its_results_and_nothing_else(
    build: Callable[[], tuple[gx.Graph, Any, dict[Any, Any]]], way: str
) -> None:
    graph, fetches, feeds = build()
    session = gx.Session(graph)
    program = session.compile(fetches, list(feeds))
    arrays = list(feeds.values())
    calls = {"run": lambda: session.run(fetches, feeds), "compiled": lambda: program(*arrays)}
    results, made, peak = traced(calls[way])
    assert program.memory.peak_bytes > OBJECTS or build is pointwise
    assert made == sorted(results)
    assert peak <= sum(results) + OBJECTS


def test_the_count_sees_what_lives_for_a_moment() -> None:
    kept, made, peak = traced(lambda: np.ones(5_000) + np.ones(5_000) * 2.0)
    assert kept == made == [40_000]
    assert peak >= 2 * 40_000


# --- native code ---------------------------------------------------------------------------------

WITHOUT_MEMORY = {"memcpy", "memmove", "memset"}
"""Functions of C that code may call; they allocate nothing."""


@pytest.mark.parametrize("build", [pointwise, products, control_flow, training])
def test_native_code_cannot_allocate(
    build: Callable[[], tuple[gx.Graph, Any, dict[Any, Any]]],
) -> None:
    graph, fetches, feeds = build()
    compiled = gx.Session(graph).compile(fetches, list(feeds)).compiled
    text = emit_program(compiled.plan, compiled.target)
    called = undefined_symbols(compile_object(text.kernels, compiled.target))
    assert called <= WITHOUT_MEMORY | text.libraries.keys()
    for module in text.libraries.values():
        assert undefined_symbols(compile_object(module.text, compiled.target)) <= WITHOUT_MEMORY
    # making a thread, once, takes a stack for it
    called = undefined_symbols(compile_object(emit_walker(compiled.target).text, compiled.target))
    assert called <= WITHOUT_MEMORY | {
        "getpid", "pthread_create", "pthread_detach", "pthread_self", "pthread_setaffinity_np",
        "pthread_sigmask", "sched_getaffinity", "sched_getcpu", "syscall",
    }  # fmt: skip
    assert text.libraries or build is pointwise


def test_undefined_symbols_are_found() -> None:
    text = """
    declare ptr @malloc(i64)
    define ptr @f(i64 %n) { %p = call ptr @malloc(i64 %n) ret ptr %p }
    """
    assert undefined_symbols(compile_object(text)) == {"malloc"}
