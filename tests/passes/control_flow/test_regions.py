"""The passes over control flow together: at random, switched off, and at scale."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from check import same_meaning
from effort import assert_linear

import graphc as gx
from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.text.parser import parse_graph
from passes.control_flow.known_branches import PARTS
from passes.infra.base import PassContext
from passes.infra.manager import run_pipeline
from passes.pipeline import PIPELINE

# --- all together, at random and at scale --------------------------------------------------------

ALL_STEPS = [step for step in PIPELINE if step.name not in ("fusion", "schedule")]


def random_program(seed: int) -> tuple[gx.Graph, list[gx.Value], list[gx.Value]]:
    """Control flow of random nesting whose values are exchanged, dropped, repeated and fixed."""
    choose = random.Random(seed)
    with gx.Graph() as graph:
        p, q = (gx.placeholder((), "bool", name=name) for name in "pq")
        x, y = (gx.placeholder((3,), name=name) for name in "xy")

        def predicate(pool: list[gx.Value]) -> gx.Value:
            return choose.choice(
                [p, q, ~p, p & q, p | ~q, gx.constant(True), pool[-1].sum() > 0.0]
            )

        def block(pool: list[gx.Value], depth: int) -> list[gx.Value]:
            """Some values more; the pool is what is in scope."""
            pool = list(pool)
            for _ in range(choose.randint(1, 4)):
                a, b = choose.choice(pool), choose.choice(pool)
                kinds = ["add", "exp", "two", "where"] + ["cond", "loop"] * 2 * (depth > 0)
                kind = choose.choice(kinds)
                if kind == "add":
                    pool.append(a + b)
                elif kind == "exp":
                    pool.append(gx.tanh(gx.exp(a) * b))
                elif kind == "two":
                    pool.append(a * gx.constant(choose.choice([1.0, 2.0, -0.0])))
                elif kind == "where":
                    pool.append(gx.where(predicate(pool), a, b))
                elif kind == "cond":
                    count = choose.randint(1, 3)

                    def branch(pool: list[gx.Value] = pool, count: int = count) -> list[gx.Value]:
                        return choose.choices(block(pool, depth - 1), k=count)

                    pool += gx.cond(predicate(pool), branch, branch)
                else:
                    start = choose.choices(pool, k=choose.randint(1, 4))
                    trips = choose.randint(0, 3)

                    def body(
                        trip: gx.Value, *values: gx.Value, pool: list[gx.Value] = pool
                    ) -> list[gx.Value]:
                        inside = block([*pool, *values], depth - 1)
                        mine = [*values, *values, *inside[-2:]]
                        return [trip + 1, *(choose.choice(mine) for _ in values)]

                    last = gx.while_loop(
                        lambda trip, *values, trips=trips: trip < trips,
                        body,
                        [gx.constant(0), *start],
                    )
                    pool += choose.sample(last[1:], k=choose.randint(1, len(last) - 1))
            return pool

        results = block([x, y, x * 0.5], 3)
    return graph, [p, q, x, y], choose.sample(results, k=min(3, len(results)))


@pytest.mark.parametrize("seed", range(40))
def test_random_control_flow_keeps_its_meaning(seed: int) -> None:
    graph, feeds, fetches = random_program(seed)
    source = extract(graph, fetches, (), dict.fromkeys(feeds)).graph
    for shuffle in (None, seed):
        options = Options(verify=True, numerics="strict", shuffle_seed=shuffle)
        result, _ = run_pipeline(source, ALL_STEPS, PassContext(options))
        same_meaning(source, result)
    fuel = random.Random(seed).randrange(40)
    result, _ = run_pipeline(source, ALL_STEPS, PassContext(Options(verify=True, fuel=fuel)))
    same_meaning(source, result)
    if seed < 8:
        data = np.array([0.5, -0.0, -2.0], np.float32), np.array([1.0, 3.0, -1.0], np.float32)
        for taken in (True, False):
            fed = dict(zip(feeds, (np.array(taken), np.array(True), *data), strict=True))
            got = gx.Session(graph).run(fetches, fed)
            expected = evaluate(source, [fed[value] for value in source.inputs])
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_constant_weights_of_a_loop_are_packed_and_stored_once() -> None:
    weights = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32) / 8
    with gx.Graph() as graph:
        x = gx.placeholder((2, 32), name="x")
        w = gx.constant(weights)
        first, second = (
            gx.while_loop(
                lambda i, y, n=n: i < n, lambda i, y: (i + 1, gx.tanh(y @ w)), (0, x)
            )[1]
            for n in (3, 2)
        )
    executable = gx.Session(graph).compile([first, second], [x])
    names = [node.op.name for node in executable.graph.walk()]
    assert names.count("contract_panels") == 2 and "contract" not in names
    stored = [a for a in executable.compiled.plan.constants.values() if a.nbytes >= weights.nbytes]
    assert len(stored) == 1
    given = np.ones((2, 32), np.float32)
    for got, trips in zip(executable(given), (3, 2), strict=True):
        expected = given
        for _ in range(trips):
            expected = np.tanh(expected @ weights)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_what_can_be_switched_off() -> None:
    graph = parse_graph(
        """
        graph "g" (%p: bool[], %x: float32[4]) {
          %t = constant() {value = bool[] True} : bool[]
          %a = cond(%t, %x) : float32[4] {
            region "then" (%x: float32[4]) { %e = exp(%x) : float32[4] return %e }
            region "else" (%x: float32[4]) { return %x }
          }
          return %a
        }
        """
    )
    for rewrite in PARTS:
        result, _ = run_pipeline(graph, PIPELINE, PassContext(Options(off=frozenset({rewrite}))))
        kept = any(node.op.name == "cond" for node in result.nodes)
        assert kept is (rewrite == "known-branch")


def test_forty_levels_of_loops_are_left_by_what_stands_still() -> None:
    """The carry that is exchanged at every level stands still at all of them; no work doubles."""

    def nest(depth: int, a: gx.Value, b: gx.Value, w: gx.Value) -> list[gx.Value]:
        if depth == 0:
            return [b, a, a + gx.exp(w)]

        def body(trip: gx.Value, a: gx.Value, b: gx.Value, c: gx.Value) -> list[gx.Value]:
            first, second, third = nest(depth - 1, a, b, w)
            return [trip + 1, second, first, third + c]

        return list(gx.while_loop(lambda trip, *rest: trip < 1, body, [0, a, b, a])[1:])

    def nested(depth: int) -> gx.Graph:
        with gx.Graph() as graph:
            x, w = gx.placeholder((3,), name="x"), gx.placeholder((3,), name="w")
            values = nest(depth, x, x, w)
        return extract(graph, values).graph

    source = nested(40)
    result, _ = run_pipeline(source, ALL_STEPS, PassContext())
    assert [value is source.inputs[0] for value in result.outputs] == [True, True, False]
    assert [node.op.name for node in result.nodes].count("exp") == 1
    same_meaning(source, result)
    # Each loop is asked once about all that is inside: a little more than linear in the depth.
    assert_linear(
        lambda depth: partial(run_pipeline, nested(depth), ALL_STEPS, PassContext()),
        few=20, times=2, slack=1.5,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["conds", "loops", "wide", "long"])
def test_passes_over_regions_are_linear(kind: str) -> None:
    def passing(length: int) -> Callable[[], object]:
        with gx.Graph() as graph:
            p = gx.placeholder((), "bool", name="p")
            x = gx.placeholder((3,), name="x")
            if kind == "conds":
                y = x
                for number in range(length // 8):
                    y = gx.cond(p, lambda y=y: (y + x, y)[0], lambda y=y, n=number: y * float(n))
                values = [y]
            elif kind == "loops":
                y = x
                for _ in range(length // 8):
                    y = gx.while_loop(
                        lambda i, y: i < 3, lambda i, y: [i + 1, y + gx.exp(x)], [0, y]
                    )[1]
                values = [y]
            else:
                many = [x * float(number) for number in range(length // 4 if kind == "wide" else 1)]

                def body(i: gx.Value, *values: gx.Value) -> list[gx.Value]:
                    if kind == "long":
                        y = values[0]
                        for _ in range(length):
                            y = y + x
                        return [i + 1, y]
                    return [i + 1, *values[1:], values[0]]

                values = list(gx.while_loop(lambda i, *_: i < 3, body, [0, *many])[1:])
        source = extract(graph, values).graph
        return partial(run_pipeline, source, ALL_STEPS, PassContext())

    assert_linear(passing, 400)
