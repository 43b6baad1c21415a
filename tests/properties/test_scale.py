"""Long and wide graphs: nothing recurses over a graph and nothing grows faster than it."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from effort import assert_linear

import graphc as gx
from graphc.base.options import Options
from graphc.base.target import host
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import extract
from graphc.ir.equal import structural_hash
from graphc.plan.ir import Launch, Plan
from passes.plan.liveness import live_intervals

LENGTH = 20_000


@pytest.fixture(scope="module")
def chain() -> tuple[Any, Any, Any]:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), "float64", name="x")
        y = x
        for _ in range(LENGTH):
            y = y + x
    return graph, x, y


def test_a_long_chain_runs(chain: tuple[Any, Any, Any]) -> None:
    graph, _, y = chain
    session = gx.Session(graph)
    executable = session.compile(y)
    np.testing.assert_array_equal(executable([1, 2, 3, 4]), (LENGTH + 1) * np.arange(1, 5))
    assert len(executable.source.nodes) == LENGTH
    assert len(executable.compiled.plan.steps) <= LENGTH // 50
    assert len(executable.kernels) <= 4, "equal groups are one kernel"


def test_a_long_chain_differentiates(chain: tuple[Any, Any, Any]) -> None:
    graph, x, y = chain
    with graph:
        before = len(graph.nodes)
        gradient = gx.gradients(y.sum(), x)
        assert len(graph.nodes) - before <= 3 * LENGTH
    got = gx.Session(graph).run(gradient, {x: [1, 2, 3, 4]})
    np.testing.assert_array_equal(got, np.full(4, LENGTH + 1))


def test_a_long_chain_prints_and_hashes(chain: tuple[Any, Any, Any]) -> None:
    graph, _, y = chain
    executable = gx.Session(graph).compile(y)
    text = str(executable.source)
    assert text.count("add(") == LENGTH and repr(graph) and repr(y)
    again = gx.Session(graph).compile([y]).source
    assert structural_hash(executable.source) == structural_hash(again)
    assert str(executable.graph)


def test_a_long_chain_pickles_and_copies(chain: tuple[Any, Any, Any]) -> None:
    _, x, y = chain
    for value, fed in (pickle.loads(pickle.dumps((y, x))), copy.deepcopy((y, x))):
        assert value.graph is fed.graph and value.graph is not y.graph
        assert len(value.graph.nodes) >= LENGTH
        assert value.graph.producer(value).op is y.graph.producer(y).op


def test_a_long_chain_saves_and_loads(chain: tuple[Any, Any, Any], tmp_path: Any) -> None:
    _, _, y = chain
    gx.save(tmp_path / "chain.gir", y)
    loaded = gx.load(tmp_path / "chain.gir")
    got = gx.Session(loaded.graph).run(loaded, {"x": [1, 2, 3, 4]})
    np.testing.assert_array_equal(got, (LENGTH + 1) * np.arange(1, 5))


def test_a_long_chain_of_different_steps() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3, 3), "float64", name="x")
        y = x
        for step in range(500):
            y = (y.T if step % 3 else y[::-1]) * 0.5 + x
            if step % 10 == 0:
                y = y - y.mean(axis=1, keepdims=True)
        gradient = gx.gradients(y.sum(), x)
    session = gx.Session(graph)
    executable = session.compile([y, gradient])
    given = np.arange(9.0).reshape(3, 3)
    expected = given
    for step in range(500):
        expected = (expected.T if step % 3 else expected[::-1]) * 0.5 + given
        if step % 10 == 0:
            expected = expected - expected.mean(axis=1, keepdims=True)
    got = executable(given)
    np.testing.assert_allclose(got[0], expected, rtol=1e-9)
    assert got[1].shape == (3, 3) and np.isfinite(got[1]).all()


def test_wide_graphs() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        scale = gx.placeholder((1000,), name="scale")
        branches = [x * scale[n] for n in range(1000)]
        joined = gx.concatenate(branches)
        level = branches
        while len(level) > 1:
            odd = level[len(level) // 2 * 2 :]
            level = [level[n] + level[n + 1] for n in range(0, len(level) - 1, 2)] + odd
        (total,) = level
    session = gx.Session(graph)
    feeds = {x: [1, 2], scale: np.arange(1000)}
    got = session.run([joined, total], feeds)
    np.testing.assert_array_equal(got[0].reshape(1000, 2), np.outer(np.arange(1000), [1, 2]))
    np.testing.assert_array_equal(got[1], [499500, 999000])


def plan_of_loops(count: int, inner: int = 0) -> Plan:
    """The plan of ``count`` loops after each other, each with ``inner`` loops inside."""
    with gx.Graph() as graph:
        x = gx.placeholder((8,), name="x")
        value = x * 2.0

        def step(i: Any, carried: Any) -> Any:
            for _ in range(inner):
                carried = gx.while_loop(
                    lambda j, v: j < 2, lambda j, v: (j + 1, gx.sin(v) + value), (i * 0, carried)
                )[1]
            return i + 1, carried * 0.5 + x

        result = x
        for _ in range(count):
            result = gx.while_loop(lambda i, v: i < 2, step, (gx.constant(0), result))[1]
    # what plans do with loops, not kernels with loops inside
    options = Options(off=frozenset({"fuse_loops"}))
    return levels_of(extract(graph, (result,)), options, host()).plan


def test_many_loops_have_the_liveness_that_their_definition_gives() -> None:
    plan = plan_of_loops(5, inner=2)
    assert len(plan.loops) == 15
    touched: dict[int, list[int]] = {}
    for position, step in enumerate(plan.steps):
        for slot, _ in plan.accesses(step):
            if plan.slots[slot].kind in ("temporary", "scratch"):
                touched.setdefault(slot, []).append(position)
    expected = {slot: (places[0], places[-1] + 1) for slot, places in touched.items()}
    for start, end in sorted(plan.loops, key=lambda loop: loop[1] - loop[0]):
        for slot, (born, dead) in expected.items():
            if born < start and any(start <= place < end for place in touched[slot]):
                expected[slot] = (born, max(dead, end))
    assert live_intervals(plan) == expected


def test_liveness_takes_time_in_proportion_to_the_number_of_loops() -> None:
    assert_linear(lambda count: partial(live_intervals, plan_of_loops(count)), 40, times=16)


def test_wide_structures_of_feeds_and_fetches() -> None:
    with gx.Graph() as graph:
        feeds = [gx.placeholder((2,), name=f"x{n}") for n in range(500)]
        values = {n: feed * 2.0 for n, feed in enumerate(feeds)}
    session = gx.Session(graph)
    executable = session.compile(values)
    assert len(executable.kernels) == 1
    assert all(isinstance(step, Launch) for step in executable.compiled.plan.steps)
    got = executable(*[np.full(2, n) for n in range(500)])
    assert all((got[n] == 2 * n).all() for n in range(500))


def test_many_variables() -> None:
    with gx.Graph() as graph:
        variables = [gx.variable(np.full(3, n, np.float32)) for n in range(300)]
        loss = gx.concatenate([(v * v)[None] for v in variables]).sum()
        step = gx.optim.SGD(0.25).minimize(loss)
    session = gx.Session(graph)
    session.run(step)
    for number, array in enumerate(session.get(variables)):
        np.testing.assert_array_equal(array, np.full(3, number / 2))


def test_large_constants_are_no_text() -> None:
    with gx.Graph() as graph:
        c = gx.constant(np.arange(2_000_000, dtype=np.float32))
        x = gx.placeholder((1,), name="x")
        y = (c + x)[::-1]
    executable = gx.Session(graph).compile(y)
    assert len(executable.llvm_ir()) < 100_000
    assert executable([1])[0] == 2_000_000
