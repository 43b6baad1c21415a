"""Bisecting: planted errors are traced to the decision, the user's line and a small graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import planted
import pytest

import graphc as gx
from graphc.debug.bisecting import first_bad
from graphc.debug.case import differs

Plant = Callable[[pytest.MonkeyPatch], None]
RANDOM = np.random.default_rng(0)
SQUARE = RANDOM.uniform(0.5, 2, (6, 6)).astype("float32")


def line() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def rule_program(x: Any) -> tuple[Any, int]:
    for n in range(3):
        x = gx.tanh(x - 0.25 * n) * 1.0 + gx.exp(-x)
    y, where = gx.sinh(x) * (x + 1.0), line()
    return gx.cos(y) + gx.sum(y, axis=1, keepdims=True), where


def fusion_program(x: Any) -> tuple[Any, int]:
    x = gx.exp(gx.sin(x) * 2.0)
    rows = gx.sum(x, axis=1, keepdims=True)
    columns, where = gx.sum(x, axis=0), line()
    return gx.tanh(rows * 0.125) + gx.cos(columns), where


def refused_program(x: Any) -> tuple[Any, int]:
    x = gx.exp(gx.sin(x) * 2.0)
    total = gx.sum(x, axis=1)
    y, where = x + total, line()
    return gx.tanh(y * 0.25) + gx.cos(x), where


def reuse_program(x: Any) -> tuple[Any, int]:
    product = gx.tanh(x @ x) @ x
    y, where = product[::-1] * 0.125, line()
    return gx.sin(y @ x), where


def tiled_program(x: Any) -> tuple[Any, int]:
    x = gx.exp(gx.sin(x) * 2.0)
    y, where = gx.transpose(x) * 0.5, line()
    return gx.cos(y @ x), where


PLANTED: dict[str, tuple[Plant, Any, str, str]] = {
    "rule": (planted.wrong_rule, rule_program, planted.WRONG_RULE, "sinh"),
    "fusion": (planted.wrong_fusion, fusion_program, "fuse", "sum"),
    "refused fusion": (planted.refused_fusion, refused_program, "fuse", "add"),
    "schedule": (planted.wrong_tile, tiled_program, "tile", "transpose"),
    "reuse": (planted.wrong_reuse, reuse_program, "inplace", "slice"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(name: str, kernel_watch: Any) -> None:
    plant, program, rule, op = PLANTED[name]
    with gx.Graph() as g:
        x = gx.placeholder((6, 6), name="x")
        y, where = program(x)
    sound = len(gx.Session(g).compile(y).source.nodes)
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        plant(patch)
        finding = gx.debug.bisect(y, {x: SQUARE})
        assert finding.decision.rule == rule
        assert finding.decision.where is not None and finding.decision.where.line == where
        assert 1 <= finding.decision.number <= finding.total
        nodes = finding.case.graph.nodes
        assert len(nodes) <= 4 < sound
        assert op in {node.op.name for node in nodes}
        assert any(node.provenance.where.line == where for node in nodes if node.op.name == op)
        case = finding.case
        assert differs(case, case.interpreted(), case.native(0)[0]) is None
        assert differs(case, case.interpreted(), case.native()[0]) is not None
    text = str(finding)
    assert f"test_bisect.py:{where}, #{finding.decision.number} of {finding.total}" in text
    assert "instead of" in text and "graph " in text


def test_a_compiler_that_breaks_down_on_symbolic_sizes_is_bisected(kernel_watch: Any) -> None:
    """Fault 6: dims of cut values are expressions of symbols, which only other inputs tell."""
    with gx.Graph():
        x = gx.placeholder(("n", 8, 4), name="x")
        w = gx.placeholder((4, 16), name="w")
        y = gx.tanh(gx.sin(x) @ w)
        z = gx.nn.relu(y.reshape((x.shape[0] * 4, 2, 16))) + 1.0
        result = z.reshape((x.shape[0], -1)) * 3.0
    feeds = {x: np.ones((5, 8, 4), "float32"), w: np.ones((4, 16), "float32")}
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.failing_products(patch)
        finding = gx.debug.bisect(result, feeds)
    assert finding.decision.rule == "fuse" and "RuntimeError (planted)" in finding.problem
    names = {node.op.name for node in finding.case.graph.nodes}
    assert names <= {"contract", "reshape", "tanh"} and "contract" in names


def test_what_cannot_be_bisected() -> None:
    with gx.Graph():
        x = gx.placeholder((6, 6), name="x")
        y = gx.tanh(x + 1.0)
        z = gx.placeholder((2,), name="z")
    with pytest.raises(gx.GraphError, match="gives what the reference gives"):
        gx.debug.bisect(y, {x: SQUARE})
    with pytest.raises(gx.FeedError, match="is needed but not fed"):
        gx.debug.bisect([y, z * 2.0], {"x": SQUARE})
    with pytest.raises(gx.GraphError, match="reference='gold'"):
        gx.debug.bisect(y, {x: SQUARE}, reference="gold")


def test_errors_below_decisions_are_told_apart(kernel_watch: Any) -> None:
    with gx.Graph():
        x = gx.placeholder((6, 6), name="x")
        y = gx.tanh(x + 1.0) * gx.exp(x)
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.wrong_code(patch)
        with pytest.raises(gx.GraphError, match="without any optional decision"):
            gx.debug.bisect(y, {x: SQUARE})
        # against its own unoptimised code nothing is wrong
        with pytest.raises(gx.GraphError, match="gives what the reference gives"):
            gx.debug.bisect(y, {x: SQUARE}, reference="unoptimised")


def test_variables_and_symbols(kernel_watch: Any) -> None:
    with gx.Graph():
        x = gx.placeholder((None, 3), name="x")
        w = gx.variable(np.ones((3, 3), "float32"), name="w")
        y = gx.sinh(x @ w) * (x + 1.0)
        step = w.assign_add(gx.reshape(gx.sum(y), (1, 1)))
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.wrong_rule(patch)
        finding = gx.debug.bisect([y, gx.group(step)], {"x": np.ones((5, 3), "float32")})
    assert finding.decision.rule == planted.WRONG_RULE
    assert len(finding.case.graph.nodes) == 2


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_the_search_ends_at_a_change(limit: int) -> None:
    tried: list[int] = []

    def is_bad(number: int) -> bool:
        tried.append(number)
        return number >= limit

    assert first_bad(is_bad, 0, 100) == limit
    assert len(tried) <= 7
