"""Reducing graphs: what is left is small, valid and still shows what it shall."""

from __future__ import annotations

from typing import Any

import numpy as np
import planted
import pytest

import graphc as gx
from graphc.debug.case import Case, case_of, differs
from graphc.debug.reducing import reduce, with_size
from graphc.ir.verify import verify

pytestmark = pytest.mark.check_mode

X = np.random.default_rng(0).uniform(0.5, 2, (6, 4)).astype("float32")


def has(name: str) -> Any:
    def shows(case: Case) -> bool:
        verify(case.graph)
        outcome = case.interpreted()
        assert not isinstance(outcome, Exception)
        return any(node.op.name == name for node in case.graph.walk())

    return shows


def case(build: Any, shape: tuple[Any, ...] = (6, 4)) -> Case:
    with gx.Graph():
        x = gx.placeholder(shape, name="x")
        return case_of(build(x), {x: X})


def test_a_long_chain_shrinks_to_one_node() -> None:
    def build(x: Any) -> Any:
        for n in range(200):
            x = x + 1.0 if n != 120 else gx.tanh(x)
        return [x, x * 2.0, gx.exp(x)]

    whole = case(build)
    tried: list[Case] = []

    def shows(candidate: Case) -> bool:
        tried.append(candidate)
        return has("tanh")(candidate)

    small = reduce(whole, shows)
    assert [node.op.name for node in small.graph.nodes] == ["tanh"]
    assert [array.shape for array in small.arrays] == [(1, 1)]
    assert len(tried) < 100


def test_symbols_and_states_shrink_too() -> None:
    with gx.Graph():
        x = gx.placeholder(("n", 4), name="x")
        w = gx.variable(np.ones((4, 4), "float32"), name="w")
        unused = gx.variable(np.ones(5, "float32"), name="unused")
        whole = case_of([gx.sin(x @ w + 1.0), unused * 2.0], {x: X})
    assert whole.states == 2
    small = reduce(whole, has("contract"))
    assert len(small.graph.nodes) == 1 and small.states == 1
    assert [value.name for value in small.graph.inputs] == ["x", "w"]
    assert [array.shape for array in small.arrays] == [(1, 1), (1, 1)]


def test_loops_are_kept_whole() -> None:
    def build(x: Any) -> Any:
        y = gx.while_loop(lambda v: gx.sum(v) < 300.0, lambda v: v * 2.0, gx.exp(x))
        return gx.cos(y)

    small = reduce(case(build, (None, 4)), has("while"))
    assert [node.op.name for node in small.graph.nodes] == ["while"]
    assert small.arrays[0].size == 4


def test_tries_are_limited() -> None:
    count = 0

    def shows(candidate: Case) -> bool:
        nonlocal count
        count += 1
        return False

    whole = case(lambda x: gx.exp(x) + gx.sin(x) * 2.0)
    assert reduce(whole, shows, 5) is whole
    assert count == 5


def test_sizes_that_do_not_fit_are_no_graph() -> None:
    whole = case(lambda x: gx.reshape(x, (3, 8)) + 1.0)
    assert with_size(whole, 6, 1) is None
    fits = with_size(case(lambda x: x + gx.sum(x, axis=0)), 6, 2)
    assert fits is not None and fits.arrays[0].shape == (2, 4)
    verify(fits.graph)


def test_a_difference_is_kept(kernel_watch: Any) -> None:
    def build(x: Any) -> Any:
        y = gx.sinh(gx.exp(-x)) * (x + 1.0)
        return gx.sum(gx.tanh(y), axis=1) * 3.0

    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.wrong_rule(patch)

        def shows(candidate: Case) -> bool:
            given = candidate.native()[0]
            return differs(candidate, candidate.interpreted(), given) is not None

        small = reduce(case(build), shows)
    assert sorted(node.op.name for node in small.graph.nodes) == ["multiply", "sinh"]
    assert all(array.size == 1 for array in small.arrays)


def test_a_failing_compilation_of_symbolic_sizes_is_reduced(kernel_watch: Any) -> None:
    """Fault 6: what is left had ``n`` in expressions only, or a number of them made smaller."""
    with gx.Graph():
        x = gx.placeholder(("n", 8, 4), name="x")
        w = gx.placeholder((4, 16), name="w")
        y = gx.nn.relu(gx.tanh(gx.sin(x) @ w).reshape((x.shape[0] * 4, 2, 16))) + 1.0
        z = gx.sum(y.reshape((x.shape[0], -1)), axis=1)
    feeds = {x: np.ones((5, 8, 4), "float32"), w: np.ones((4, 16), "float32")}
    whole = case_of(z, feeds, None)

    def shows(candidate: Case) -> bool:
        return isinstance(candidate.native()[0], RuntimeError) and not isinstance(
            candidate.interpreted(), Exception
        )

    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.failing_products(patch)
        small = reduce(whole, shows)
    assert len(small.graph.nodes) <= 3
    assert len(small.interpreted()) == 1
