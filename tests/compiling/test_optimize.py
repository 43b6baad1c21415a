"""Levels of ``optimize``: all give the same bits, and leave out what comes last."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from effort import assert_linear
from op_contract import cases, is_pointwise, sample, special_values, trace
from slow_parameters import slow_unless
from tier_harness import assert_same, chain, large

import graphc as gx
import graphc.compiling.compiler
from graphc.base.errors import GraphError, IndexRangeError
from graphc.base.target import Target, host, named
from graphc.codegen.math.calls import calls_of
from graphc.codegen.native.plan_walker import emit_program
from graphc.compiling.extraction import extract
from graphc.ir.dtypes import ALL, DType, bool_, complex64, float32, int64, uint8
from graphc.runtime.jit import compile_object
from passes.pipeline import PIPELINE, SHARED

pytestmark = pytest.mark.check_mode

LEVELS = (0, 1, 2, 3)


# --- bits ----------------------------------------------------------------------------------------


def zoo(
    element: DType, panels: bool = True, part: slice = slice(None)
) -> tuple[gx.Graph, list[gx.Value], dict[gx.Value, Any]]:
    """Every operation of a dtype, on its samples and with what may fuse with it on both sides.

    Samples with ``panels`` are for this machine. A part is a part of all cases.
    """
    graph = gx.Graph()
    fetches: list[gx.Value] = []
    feeds: dict[gx.Value, Any] = {}
    for op, own in cases()[part]:
        if own is not element or op.effect != "pure" or (not panels and "panels" in op.name):
            continue
        arrays, attrs = sample(op, element, 1)
        if is_pointwise(op):
            row = np.resize(special_values(element), arrays[0].size)
            arrays = [row.reshape(arrays[0].shape) if a.dtype == row.dtype else a for a in arrays]
        traced = trace(op, arrays, attrs, recorder=graph)
        feeds.update(zip(traced.inputs, arrays, strict=True))
        with graph:
            for value in traced.outputs:
                fetches.append(value)
                if value.dtype.is_float and value.type.rank:
                    fetches.append(gx.sum(gx.tanh(value) * value, axis=-1))
    return graph, fetches, feeds


@slow_unless(lambda element: element in (bool_, int64, uint8, float32, complex64))
@pytest.mark.parametrize("element", ALL, ids=str)
def test_all_operations_have_the_same_bits_at_each_level(element: DType) -> None:
    graph, fetches, feeds = zoo(element)
    results = [
        gx.Session(graph, threads=threads, options=gx.Options(optimize=level)).run(fetches, feeds)
        for level, threads in ((0, 1), (0, 2), (1, 1), (3, 1))
    ]
    for other in results[1:]:
        assert_same(results[0], other)


NARROW = {"without_fma": host().without_fma(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}


@slow_unless(lambda target, every: target is NARROW["v2"] and every > 1)
@pytest.mark.parametrize("every", [3, 1])
@pytest.mark.parametrize("target", NARROW.values(), ids=NARROW)
def test_levels_agree_on_every_target(target: Target, every: int) -> None:
    graph, fetches, feeds = zoo(float32, panels=False, part=slice(None, None, every))
    results = [
        gx.Session(graph, target=target, options=gx.Options(optimize=level)).run(fetches, feeds)
        for level in (0, 1, 3)
    ]
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


@pytest.mark.parametrize("name", ["aarch64", "wasm32"])
def test_single_kernels_are_translated_for_other_processors(name: str) -> None:
    graph, fetches, _ = zoo(float32, panels=False)
    target = named(name)
    plan = graphc.compiling.compiler.levels_of(
        extract(graph, fetches), gx.Options(optimize=0), target
    ).plan
    text = emit_program(plan, target, calls_of(plan.kernels, quick=True))
    for module in text.modules:
        assert compile_object(module.text, target, module.glue)


@pytest.mark.without_check_mode("it compiles the full program at once")
def test_control_flow_and_reductions() -> None:
    """A program with loops does not begin small: there may be many trips."""
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 8), name="x")

        def body(i: gx.Value, h: gx.Value) -> list[gx.Value]:
            return [i + 1, chain(h, 150) @ gx.transpose(h) @ h]

        _, h = gx.while_loop(lambda i, h: i < 3, body, [gx.constant(0), x])
        y = gx.cond(gx.sum(h) > 0, lambda: chain(h, 150), lambda: gx.softmax(h) - chain(h, 60))
        z = gx.cumsum(y, axis=0)[::2, ::-1]
    given = np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)
    small = gx.Session(graph, options=gx.Options(optimize=0)).compile([y, z], [x])
    exe = gx.Session(graph).compile([y, z], [x])
    assert exe.tier == "full"
    assert_same(small(given), exe(given))


def test_errors_name_the_same_lines_at_each_level() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        index = gx.placeholder((2,), "int64", name="index")
        y = chain(gx.take(x, index))
    told = []
    for level in (0, 3):
        session = gx.Session(graph, options=gx.Options(optimize=level))
        with pytest.raises(IndexRangeError) as caught:
            session.run(y, {x: np.ones(4, np.float32), index: np.array([0, 7])})
        told.append((caught.value.message, caught.value.where))
    assert told[0] == told[1]


# --- levels --------------------------------------------------------------------------------------


def test_levels_leave_out_what_comes_last() -> None:
    graph, x, y = large()
    names = []
    for level in LEVELS:
        exe = gx.Session(graph, options=gx.Options(optimize=level)).compile(y, [x])
        names.append([record.name for record in exe.passes])
        assert exe.tier == ("baseline" if level == 2 else "full") or exe.wait()
    assert "fusion#1" not in names[0] and "fusion#1" in names[1]
    assert "layout#1" not in names[1] and "layout#1" in names[2]
    assert names[2] == names[3]
    shared = [step.name for step in PIPELINE[:SHARED]]
    for given in names:
        assert [name.partition("#")[0] for name in given[:SHARED]] == shared


def test_kernels_are_shared_by_operations_that_are_alike() -> None:
    graph, x, y = large()
    exe = gx.Session(graph, options=gx.Options(optimize=0)).compile(y, [x])
    assert len(exe.compiled.plan.steps) > 300
    assert len(exe.kernels) < 8


def test_memory_is_used_again() -> None:
    graph, x, y = large()
    exe = gx.Session(graph, options=gx.Options(optimize=0, verify=True)).compile(y, [x])
    memory = exe.memory_at(n=1000)
    assert memory.peak_bytes <= 8 * (5 * 4 * 1000 + 64)
    assert memory.unplanned_bytes > 200 * 5 * 4 * 1000


@pytest.mark.parametrize("given", [-1, 4, True, "2", None])
def test_levels_that_are_none(given: Any) -> None:
    with pytest.raises(GraphError, match="optimize is"):
        gx.Options(optimize=given)


def test_the_environment_sets_the_level() -> None:
    assert gx.Options.from_environment({"GRAPHC": "optimize=0"}).optimize == 0
    assert gx.Options.resolved(gx.Options(), {"GRAPHC": "optimize=1"}).optimize == 1


@pytest.mark.parametrize(
    "options",
    [gx.Options(optimize=3), gx.Options(verify=True), gx.Options(fuel=10), gx.Options(time=True)],
    ids=["optimize", "verify", "fuel", "time"],
)
def test_what_shows_the_passes_waits_for_the_program(options: gx.Options) -> None:
    graph, x, y = large()
    assert gx.Session(graph, options=options).compile(y, [x]).tier == "full"


def test_small_programs_are_compiled_at_once() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,))
        y = chain(x, 60)
    exe = gx.Session(graph).compile(y, [x])
    assert exe.tier == "full" and exe.wait(0)


# --- scale ---------------------------------------------------------------------------------------


def test_single_kernels_take_linear_time() -> None:
    def compiling(length: int) -> Callable[[], object]:
        with gx.Graph() as graph:
            x = gx.placeholder((4,), name="x")
            y = chain(x, length)
        extraction = extract(graph, [y])
        return partial(
            graphc.compiling.compiler.compile_graph, extraction, gx.Options(optimize=0), host()
        )

    compiling(20_000)()
    assert_linear(compiling, 250)
