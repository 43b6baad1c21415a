"""Constant subgraphs of rounding operations run once, when the graph is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

OFF = gx.Options(off=("precompute",))


def compiled(build: Any, options: gx.Options | None = None) -> tuple[gx.Executable, Any]:
    with gx.Graph() as graph:
        x, fetches = build()
    session = gx.Session(graph, options=options)
    return session.compile(fetches, [x]), x


def weights(rows: int = 30, columns: int = 40) -> Any:
    rng = np.random.default_rng(0)
    return gx.constant(rng.normal(size=(rows, columns)).astype(np.float32))


def normalised() -> tuple[Any, Any]:
    x = gx.placeholder((None, 30))
    return x, x @ gx.nn.softmax(weights())


def fired(executable: gx.Executable) -> int:
    made = [d for r in executable.passes for d in r.decisions if d.rule == "precompute"]
    return sum(1 for decision in made if decision.number)


def test_the_result_is_what_every_run_would_compute() -> None:
    (once, _), (each, _) = compiled(normalised), compiled(normalised, OFF)
    given = np.random.default_rng(1).normal(size=(5, 30))
    assert once(given).tobytes() == each(given).tobytes()
    assert fired(once) == 1
    assert len(once.compiled.plan.steps) == 1 < len(each.compiled.plan.steps)


def test_precomputed_weights_are_packed() -> None:
    executable, _ = compiled(normalised)
    assert "contract_panels" in str(executable.graph)


def test_several_results_and_shared_parts_run_once() -> None:
    def build() -> tuple[Any, Any]:
        x, e = gx.placeholder((30, 40)), gx.exp(weights())
        return x, [x + e, x * gx.sin(e), e.sum(), e]

    (once, _), (each, _) = compiled(build), compiled(build, OFF)
    given = np.random.default_rng(1).normal(size=(30, 40))
    for one, other in zip(once(given), each(given), strict=True):
        assert one.tobytes() == other.tobytes()
    assert fired(once) == 3


def test_large_results_are_not_stored_but_what_they_are_made_of_is() -> None:
    def build() -> tuple[Any, Any]:
        x = gx.placeholder((2000, 40))
        return x, x + gx.broadcast_to(gx.exp(weights(1, 40)), (2000, 40)) * gx.exp(
            gx.broadcast_to(weights(1, 40), (2000, 40))
        )

    executable, _ = compiled(build)
    stored = [a.nbytes for a in executable.compiled.plan.constants.values()]
    assert sum(stored) <= 1000
    declined = [d.reason for r in executable.passes for d in r.decisions if d.rule == "precompute"]
    assert any("bytes would be made of" in reason for reason in declined)


def test_errors_and_control_flow_belong_to_the_run() -> None:
    with gx.Graph() as graph:
        table = gx.exp(weights())
        bad = gx.take(table, gx.constant(np.array([99])), axis=0)
        endless = gx.while_loop(lambda v: v >= 0.0, lambda v: gx.exp(v), gx.constant(0.0))
    session = gx.Session(graph)
    session.compile(endless)
    executable = session.compile(bad)
    with pytest.raises(gx.IndexRangeError, match="99"):
        executable()


def test_nothing_to_precompute_leaves_the_graph_alone() -> None:
    executable, _ = compiled(lambda: (x := gx.placeholder((3,)), gx.exp(x) + 1.0))
    record = next(r for r in executable.passes if r.name == "precompute#1")
    assert record.nodes_before == record.nodes_after
    assert not record.decisions


def test_special_values() -> None:
    def build() -> tuple[Any, Any]:
        x = gx.placeholder((6,))
        odd = gx.constant(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45], np.float32))
        return x, [x + f(odd) for f in (gx.exp, gx.tanh, gx.log, gx.sqrt)]

    (once, _), (each, _) = compiled(build), compiled(build, OFF)
    zero = np.zeros(6)
    for one, other in zip(once(zero), each(zero), strict=True):
        np.testing.assert_array_equal(one, other)
