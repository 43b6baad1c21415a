"""Sizes that do not fit are an error, and nothing is read beyond an array (fault 1).

So are indices where nothing is written or given (fault 4); what is in a branch that doesn't run, or
in a loop without a trip, is no error (fault 29). ``guard_sweep`` draws the programs.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from guard_arrays import GuardedArray, guarded
from guard_calls import CALLS, MADE_BY_PASSES, NO_OPERANDS, OTHER_THINGS
from guard_programs import CARRIERS, CORES, WRAPPERS, draw, feeds, unknown
from guard_sweep import RUNS, Report, sweep
from slow_parameters import slow_unless
from tools import SUPPORT

import graphc as gx
from graphc.compiling.extraction import extract
from graphc.frontend.structure import leaves
from graphc.ir.guard import Guard
from graphc.ir.lowering import Structural
from graphc.ir.op import all_ops
from graphc.ir.surface import other_names, surface_names


def _public() -> Iterator[str]:
    """The functions that users call."""
    for module in (gx, gx.fft, gx.linalg, gx.nn, gx.random, gx.special):
        names = dir(module) if module is gx else module.__all__
        for name in names:
            if callable(getattr(module, name)) and not isinstance(getattr(module, name), type):
                yield name
    yield from surface_names()


def _called() -> set[str]:
    """What needs no call of its own: the calls there are, and second names of functions."""
    return {call.name for call in CALLS} | other_names().keys()


def test_every_public_function_is_called() -> None:
    missing = set(_public()) - _called() - NO_OPERANDS - OTHER_THINGS
    assert not missing, f"guard_calls has no call of {sorted(missing)}"


def test_every_operation_is_called() -> None:
    seen = set()
    for call in CALLS:
        with gx.Graph() as graph:
            operands = []
            for word in call.operands:
                kind, _, axes = word.rpartition(":")
                dtype = {"": "float64", "b": "bool", "i": "int64"}[kind[:1]]
                shape = (None,) * len(axes.replace(".", ""))
                operands.append(gx.placeholder(shape, dtype))
            made = call.function(*operands)
            floats = [v for v in leaves(made) if v.dtype.is_float]
            moving = [v for v in operands if v.dtype.is_float]
            if floats and moving and call.name not in ("cond", "while_loop"):
                gx.gradients(floats, moving, unconnected="zeros")
        seen |= {node.op.name for node in graph.nodes}
    public = {op.name for op in all_ops() if not isinstance(op.lowering, Structural)}
    missing = public - seen - MADE_BY_PASSES
    assert not missing, f"no call of guard_calls makes {sorted(missing)}"


def test_programs_are_of_every_kind() -> None:
    programs = [draw(seed) for seed in range(400)]
    assert {program.core for program in programs} == set(CORES)
    assert {program.wrapper for program in programs} == set(WRAPPERS)
    assert {program.carrier for program in programs} == set(CARRIERS)
    assert {program.level for program in programs} == {0, 1, 2, 3}
    assert {program.edge for program in programs} == {"begin", "end"}
    assert str(feeds(programs[0], 1)) == str(feeds(draw(0), 1))


def _holds(guard: Guard, sizes: dict[str, int]) -> bool:
    try:
        return guard.failure(sizes) is None
    except ZeroDivisionError:
        return False


def test_each_result_alone_needs_what_all_need() -> None:
    """Over known sizes a call is refused as a whole: none of its results may do with less."""
    rng = np.random.default_rng(3)
    compared = 0
    for call in CALLS:
        with gx.Graph() as graph:
            axes = unknown(call, "forward", "plain", "call").operands
            operands = [gx.placeholder((None,) * len(o.axes), o.dtype) for o in axes]
            results = [*leaves(call.function(*operands))]
        if len(results) < 2:
            continue
        given = frozenset(operands)
        of_all, *of_each = (
            extract(graph, fetches, (), given).graph.guards
            for fetches in (results, *([result] for result in results))
        )
        names = sorted({str(symbol) for guard in of_all for symbol in guard.symbols})
        for _ in range(40 if names else 0):
            drawn = rng.choice((0, 1, 2, 2, 3, 3, 4, 5, 6, 8), len(names))
            if rng.random() < 0.5:
                drawn[rng.integers(2, size=len(names)) > 0] = drawn[0]
            sizes = dict(zip(names, map(int, drawn), strict=True))
            fit = all(_holds(guard, sizes) for guard in of_all)
            for place, guards in enumerate(of_each):
                alone = all(_holds(guard, sizes) for guard in guards)
                assert alone == fit, f"result {place} of {call} for {sizes}"
                compared += 1
    assert compared > 5000


@pytest.mark.parametrize(("edge", "index"), [("end", 6), ("begin", -1)])
def test_a_read_beside_a_guarded_array_ends_the_process(edge: str, index: int) -> None:
    text = (
        "import ctypes, numpy, guard_arrays as g\n"
        f"kept = g.guarded(numpy.ones((2, 3)), {edge!r})\n"
        "start = kept.array.ctypes.data\n"
        "assert all(ctypes.c_double.from_address(start + 8 * i).value == 1 for i in range(6))\n"
        "print('so far', flush=True)\n"
        f"ctypes.c_double.from_address(start + 8 * {index}).value\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", text], cwd=SUPPORT, capture_output=True
    )
    assert (ended.stdout, ended.returncode) == (b"so far\n", -signal.SIGSEGV)


def test_a_write_beside_a_guarded_array_is_noticed() -> None:
    kept = guarded(np.zeros(3, np.float32), "end")
    assert not kept.touched
    ctypes.c_uint8.from_address(kept.array.ctypes.data - 1).value = 0
    assert kept.touched
    assert GuardedArray((0, 4), np.int64, "begin").array.shape == (0, 4)


def _check(report: Report, raised: float) -> None:
    """Programs run, nearly all of them, and none gets anything wrong."""
    assert not report.faults, report.table()
    assert report.refused < 0.1 * report.programs, report.table()
    assert report.runs > 0.85 * RUNS * report.programs and report.raised > raised * report.runs


@slow_unless(lambda seed: seed == 0)
@pytest.mark.parametrize("seed", [0, 19])
def test_sizes_that_do_not_fit(seed: int) -> None:
    # which few programs these are changes with every call that is added
    _check(sweep(seed, 19 * RUNS), 0.08)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10_000, 16_000, 1000))
def test_fuzz_sizes_that_do_not_fit(seed: int) -> None:
    _check(sweep(seed, 2000), 0.13)
