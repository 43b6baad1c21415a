"""Pointwise work that the backward part reads: the same bits with fewer bytes kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memory_programs import Step, dag, mlp, transformer
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.tuning.fusion import FUSION
from graphc.session.inspection import Inspected
from passes.recompute import late_pointwise as late

NAME = "late_pointwise"


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the small arrays of tests."""
    monkeypatch.setattr(late, "FUSION", FUSION._replace(late_bytes=0))


def both(step: Step, **options: Any) -> tuple[Inspected, Inspected]:
    """The program and that without late work; both give the same bits."""
    program, bits = step.ran(off=frozenset(), **options)
    plain, same = step.ran(off={NAME}, **options)
    assert bits == same
    assert not moved(plain)
    return program, plain


def moved(program: Inspected) -> int:
    """Of how many values something is computed late."""
    return sum(d.rule == NAME and d.number > 0 for r in program.passes for d in r.decisions)


def descent(
    activation: Callable[[gx.Value], gx.Value], layers: int = 6, rows: int | str = 64
) -> Step:
    random = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((rows, 64), name="x")
        weights = [
            gx.variable(random.normal(0, 0.1, (64, 64)).astype(np.float32)) for _ in range(layers)
        ]
        h = x
        for w in weights:
            h = activation(h @ w)
        loss = gx.mean(gx.square(h))
        slopes = gx.gradients(loss, weights)
        updates = [w.assign_sub(0.1 * slope) for w, slope in zip(weights, slopes, strict=True)]
    return Step(graph, [loss, *updates], [x], [random.normal(size=(64, 64)).astype(np.float32)])


@pytest.mark.parametrize("threads", [1, 2])
def test_of_a_gelu_its_operand_is_kept(threads: int) -> None:
    program, plain = both(mlp(layers=32), threads=threads)
    assert moved(program) == 31  # the last one's derivative is read at once
    assert program.memory.peak_bytes < 0.35 * plain.memory.peak_bytes


def test_of_a_tanh_its_result_is_kept() -> None:
    program, plain = both(descent(gx.tanh))
    assert moved(program) == 5
    assert program.memory.peak_bytes < 0.7 * plain.memory.peak_bytes
    for node in program.graph.walk():
        late_tanh = node.op.name == "tanh" and node.provenance.waits
        assert not late_tanh, "the derivative follows from the result"


def test_a_relu_is_left_alone() -> None:
    """Its result and a bool of each element are kept, which are less than twice its operand."""
    program, _ = both(descent(gx.nn.relu))
    assert not moved(program)


def test_small_values_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    program, _ = both(mlp(layers=3, rows=16, fed=16))
    assert not moved(program)


def test_of_a_norm_its_operand_is_kept() -> None:
    program, plain = both(transformer())
    assert moved(program)
    assert program.memory.peak_bytes < 0.7 * plain.memory.peak_bytes


def test_symbolic_sizes() -> None:
    program, plain = both(mlp(rows="batch"))
    assert moved(program) == 5
    assert program.memory_at(batch=64).peak_bytes < 0.6 * plain.memory_at(batch=64).peak_bytes


def test_under_a_limit() -> None:
    step = mlp(layers=16)
    plain, bits = step.ran()
    program, same = step.ran(off=frozenset(), memory_limit=plain.memory.peak_bytes // 4)
    assert bits == same
    assert moved(program) and program.memory.peak_bytes <= plain.memory.peak_bytes // 4


def test_gradients_that_are_clipped_together() -> None:
    """Every product of weights is read before any update, and none of them by the way back."""
    random = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((64, 32), name="x")
        weights = [
            gx.variable(random.normal(0, 0.2, (32, 32)).astype(np.float32)) for _ in range(6)
        ]
        h = x
        for w in weights:
            h = gx.nn.gelu(h @ w)
        slopes = gx.gradients(gx.mean(h), weights)
        total = slopes[0].sum()
        for slope in slopes[1:]:
            total = total + gx.sum(slope * slope)
        updates = [w.assign_sub(s / total) for w, s in zip(weights, slopes, strict=True)]
    step = Step(graph, [*updates], [x], [random.normal(size=(64, 32)).astype(np.float32)])
    program, plain = both(step)
    assert moved(program) == 5
    assert program.memory.peak_bytes < 0.6 * plain.memory.peak_bytes


def test_what_is_fetched_is_not_computed_again() -> None:
    random = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((64, 32), name="x")
        w = gx.variable(random.normal(size=(32, 32)).astype(np.float32))
        v = gx.variable(random.normal(size=(32, 32)).astype(np.float32))
        h = x @ w
        y = gx.tanh(h)
        slopes = gx.gradients(gx.mean(gx.nn.gelu(y @ v)), [w, v])
    step = Step(graph, [y, *slopes], [x], [random.normal(size=(64, 32)).astype(np.float32)])
    program, _ = both(step)
    for node in program.graph.walk():
        assert not (node.op.name == "tanh" and node.provenance.waits)


def test_second_derivatives() -> None:
    random = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((64, 32), "float64", name="x")
        w = gx.variable(random.normal(0, 0.2, (32, 32)))
        v = gx.variable(random.normal(0, 0.2, (32, 32)))
        loss = gx.mean(gx.nn.gelu(gx.nn.gelu(x @ w) @ v))
        (slope,) = gx.gradients(loss, [w])
        twice = gx.gradients(gx.sum(slope * slope), [w, v])
    step = Step(graph, [loss, slope, *twice], [x], [random.normal(size=(64, 32))])
    program, _ = both(step)
    assert moved(program)


def test_fuel_ends_it() -> None:
    step = mlp()
    program, bits = step.ran(off=frozenset())
    numbers = [d.number for r in program.passes for d in r.decisions if d.rule == NAME]
    part, same = step.ran(off=frozenset(), fuel=numbers[1])
    assert 0 < moved(part) < moved(program)
    assert bits == same


@slow_unless(lambda count: count == 4)
@pytest.mark.parametrize("count", [4, 8])
def test_random_programs(count: int) -> None:
    found = [moved(both(dag(24, seed))[0]) for seed in range(count)]
    assert sum(map(bool, found)) >= count // 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 200))
def test_more_random_programs(seed: int) -> None:
    both(dag(10 + seed % 60, seed))
