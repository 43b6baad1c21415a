"""``Options(memory_limit=...)``: an arena that fits, with the same bits, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits import same_bits
from memory_programs import PLAIN, Step, dag, mlp, transformer

import graphc as gx
from graphc import aot


def shares(program: Any, *of: int) -> list[int]:
    """Parts of what a program takes, in percent."""
    return [program.memory.peak_bytes * part // 100 for part in of]


def work(program: Any) -> int:
    """How many kernels a run launches."""
    return sum(node.op.name == "fused" for node in program.graph.walk())


@pytest.mark.parametrize(
    ("of", "parts"),
    [(mlp, (60, 30)), (lambda: transformer(3), (50,)), (lambda: dag(16, 1), (80,))],
)
def test_bits_are_equal_and_the_arena_fits(of: Any, parts: tuple[int, ...]) -> None:
    step = of()
    plain, bits = step.ran(verify=False)
    launched = work(plain)
    for limit in shares(plain, *parts):
        program, same = step.ran(memory_limit=limit)
        assert program.memory.peak_bytes <= limit
        assert bits == same
        # a lower limit takes no less work
        assert work(program) >= launched
        launched = work(program)
    assert launched > work(plain)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed: int) -> None:
    step = dag(10 + seed, seed, gx.checkpoint if seed % 3 == 0 else lambda f: f)
    plain, bits = step.ran()
    for limit in shares(plain, 90, 70, 50):
        try:
            program, same = step.ran(memory_limit=limit, threads=1 + seed % 2)
        except gx.GraphError as error:
            assert "least that was found" in error.message
            continue
        assert program.memory.peak_bytes <= limit
        assert bits == same


def test_what_fits_is_left_alone() -> None:
    step = mlp(3)
    plain, _ = step.ran()
    program, _ = step.ran(memory_limit=plain.memory.peak_bytes)
    assert str(program.compiled.plan) == str(plain.compiled.plan)


def test_inference() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        early = [gx.tanh(x @ x + n) for n in range(6)]
        late = early[0]
        for value in early[1:]:
            late = gx.sin(late @ late) * value
        step = Step(graph, [late], [x], [np.full((64, 64), 0.01, np.float32)])
    plain, bits = step.ran()
    (limit,) = shares(plain, 85)
    program, same = step.ran(memory_limit=limit)
    assert bits == same
    assert program.memory.peak_bytes <= limit < plain.memory.peak_bytes


def test_more_is_repeated_than_marks_ask_for_and_never_less() -> None:
    plain, bits = mlp().ran()
    marked, _ = mlp(wrap=gx.checkpoint).ran()
    loose, same = mlp(wrap=gx.checkpoint).ran(memory_limit=2 * plain.memory.peak_bytes)
    assert work(loose) == work(marked) > work(plain) and bits == same
    (limit,) = shares(marked, 70)
    tight, same = mlp(wrap=gx.checkpoint).ran(memory_limit=limit)
    assert tight.memory.peak_bytes <= limit and bits == same
    assert work(tight) > work(marked)


def test_if_nothing_fits() -> None:
    step = mlp(4)
    with pytest.raises(gx.GraphError) as caught:
        step.ran(memory_limit="20KB")
    message = caught.value.message
    assert "the memory limit is 20,000 bytes, and the least that was found is" in message
    assert "memory_programs.py:" in message and "largest step needs" in message
    source = caught.value.where.source_line()
    assert "gelu(h @ w)" in source or "mean" in source


def test_symbolic_sizes_are_those_planned_for() -> None:
    step = mlp(6, rows=None)
    plain, bits = step.ran()
    (limit,) = shares(plain, 60)
    program, same = step.ran(memory_limit=limit)
    assert bits == same
    assert program.memory.peak_bytes <= limit


def test_lower_levels_of_optimize_are_refused_where_they_take_too_much() -> None:
    step = mlp(4)
    for level in (0, 1):
        with pytest.raises(gx.GraphError, match="least that was found") as caught:
            step.ran(memory_limit=100_000, optimize=level)
        assert caught.value.hint == "values are computed again at optimize=2 and 3"
    step.ran(memory_limit="1GB", optimize=0)


def test_a_large_program_is_compiled_at_once_under_a_limit() -> None:
    """So whoever compiles it hears if nothing fits."""
    step = mlp(24)
    full, _ = step.ran(verify=False)
    limit = full.memory.peak_bytes // 2
    for given in (limit, None):
        with gx.Session(step.graph, options=gx.Options(cache="off", memory_limit=given)) as session:
            program = session.compile(step.fetches, step.inputs)
            assert program.tier == ("full" if given else "baseline")
    few = gx.Session(step.graph, options=gx.Options(cache="off", memory_limit=limit // 50))
    with few, pytest.raises(gx.GraphError, match="least that was found"):
        few.compile(step.fetches, step.inputs)


def test_the_limit_belongs_to_the_key_of_the_cache(tmp_path: Path) -> None:
    step = mlp(4)
    options = {**PLAIN, "verify": False, "cache": str(tmp_path)}
    plain, _ = step.ran(**options)
    limit = plain.memory.peak_bytes // 2
    found = [step.ran(**options, memory_limit=limit)[0] for _ in range(2)]
    assert [program.compiled.from_cache for program in found] == [False, True]
    assert all(program.memory.peak_bytes <= limit for program in found)


def test_updates_come_early_and_in_place() -> None:
    """Gradients don't wait for the end, and variables are written where they lie."""
    step = mlp(8, rows=8, width=160, fed=8)
    plain, bits = step.ran()
    assert plain.compiled.plan.commit is not None
    (limit,) = shares(plain, 70)
    program, same = step.ran(memory_limit=limit)
    assert bits == same
    assert program.compiled.plan.commit is not None
    assert program.memory.peak_bytes <= limit


def test_libraries_keep_it(tmp_path: Path) -> None:
    step = mlp(4)
    plain, _ = step.ran()
    limit = plain.memory.peak_bytes // 2
    with gx.Session(step.graph, options=gx.Options(**PLAIN, memory_limit=limit)) as session:
        program = session.compile(step.fetches, step.inputs)
        aot.compile(program, tmp_path / "step")
        loaded = aot.load(tmp_path / "step")
        assert same_bits(loaded(*step.feeds)[0], program(*step.feeds)[0])
    assert loaded.program.plan.layout.solution.peak <= limit


@pytest.mark.parametrize(
    ("given", "number"),
    [(4096, 4096), ("2kB", 2000), ("1.5 MiB", 3 << 19), ("7", 7), ("1GB", 10**9), (None, None)],
)
def test_amounts(given: Any, number: int | None) -> None:
    assert gx.Options(memory_limit=given).most_bytes == number
    if isinstance(given, str):
        text = f"memory_limit={given}"
        assert gx.Options.from_environment({"GRAPHC": text}).most_bytes == number


@pytest.mark.parametrize("given", [0, -1, True, 2.5, "", "many", "3 apples", "0MB", "-1MB"])
def test_what_is_no_amount(given: Any) -> None:
    with pytest.raises(gx.GraphError, match="memory_limit is"):
        gx.Options(memory_limit=given)
