"""Unstable spellings of softmax and logsumexp, and their gradients, for huge logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from check import check_pass, same_meaning

import graphc as gx
from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.graph import Graph
from passes.graph.canonicalize import canonicalize
from passes.graph.cse import cse
from passes.graph.dce import dce
from passes.graph.fold import fold
from passes.graph.simplify import simplify
from passes.infra.base import PassContext
from passes.infra.manager import Step, run_pipeline
from passes.stability.stabilize import PARTS, stabilize

pytestmark = pytest.mark.check_mode

SURFACE = (canonicalize, cse, fold, simplify, stabilize, dce)


def optimised(graph: Graph, **options: Any) -> tuple[Graph, list[str]]:
    """The graph after the passes on surface ops, and which rewrites of stabilize fired."""
    context = PassContext(Options(verify=True, **options))
    result, records = run_pipeline(graph, [Step(pass_) for pass_ in SURFACE], context)
    (record,) = (record for record in records if record.name == "stabilize#1")
    return result, [decision.rule for decision in record.decisions]


def test_logsumexp_over_any_axes() -> None:
    check_pass(
        stabilize,
        """
        graph "g" (%x: float32[2, n, 3]) {
          %a = exp(%x) : float32[2, n, 3]
          %b = sum(%a) {axes = (0, 2), keepdims = False} : float32[n]
          %c = log(%b) : float32[n]
          return %c
        }
        """,
        """
        graph "g" (%0: float32[2, n, 3]) {
          %1 = exp(%0) : float32[2, n, 3]
          %2 = sum(%1) {axes = (0, 2), keepdims = False} : float32[n]
          %3 = logsumexp(%0) {axes = (0, 2), keepdims = True} : float32[1, n, 1]
          %4 = reshape(%3) {shape = (dim(n),)} : float32[n]
          return %4
        }
        """,
        tolerance=1e-5,
    )


def test_softmax() -> None:
    check_pass(
        stabilize,
        """
        graph "g" (%x: float32[n, 3]) {
          %a = exp(%x) : float32[n, 3]
          %b = sum(%a) {axes = (1,), keepdims = True} : float32[n, 1]
          %c = divide(%a, %b) : float32[n, 3]
          return %c
        }
        """,
        """
        graph "g" (%0: float32[n, 3]) {
          %1 = exp(%0) : float32[n, 3]
          %2 = sum(%1) {axes = (1,), keepdims = True} : float32[n, 1]
          %3 = softmax(%0) {axes = (1,)} : float32[n, 3]
          %4 = logsumexp(%0) {axes = (1,), keepdims = True} : float32[n, 1]
          return %3
        }
        """,
        tolerance=1e-5,
    )


# --- -log softmax(s)[k], spelled by hand ---------------------------------------------------------

K = 3
LOGITS = np.array([1e4, -3e3, 9.999e3, -1e4, 0.0])


def exact(logits: Any) -> tuple[float, Any]:
    """Value and gradient in high precision."""
    with mpmath.workdps(50):
        powers = [mpmath.exp(mpmath.mpf(float(v)) - max(logits)) for v in logits]
        total = sum(powers)
        value = max(logits) + mpmath.log(total) - logits[K]
        shares = np.array([float(power / total) for power in powers])
    return float(value), shares - np.eye(len(logits))[K]


def _shares(s: gx.Value) -> gx.Value:
    powers = gx.exp(s)
    return powers / powers.sum()


SPELLINGS: dict[str, Callable[[gx.Value], gx.Value]] = {
    "exp twice": lambda s: -gx.log((gx.exp(s) / gx.sum(gx.exp(s)))[K]),
    "exp once": lambda s: -gx.log(_shares(s)[K]),
    "picked powers": lambda s: -gx.log(gx.exp(s)[K] / gx.exp(s).sum()),
    "picked logits": lambda s: -gx.log(gx.exp(s[K]) / gx.exp(s).sum()),
    "log of sum": lambda s: gx.log(gx.exp(s).sum()) - s[K],
    "log first": lambda s: -gx.log(_shares(s))[K],
    "kept axis": lambda s: -gx.log(gx.exp(s) / gx.exp(s).sum(keepdims=True))[K],
    "one-hot": lambda s: -(np.eye(5)[K] * gx.log(_shares(s))).sum(),
    "take": lambda s: -gx.log(gx.take(_shares(s), K, axis=0)),
    "take many": lambda s: -gx.log(gx.take(_shares(s), np.array([K]), axis=0)).sum(),
    "reversed": lambda s: -gx.log(_shares(s)[::-1][1]),
    "slice": lambda s: -gx.log(_shares(s)[K : K + 1]).sum(),
    "scaled": lambda s: gx.log(1 / _shares(s)[K]),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_cross_entropy_by_hand(name: str) -> None:
    with gx.Graph() as g:
        s = gx.placeholder((5,), "float64", name="s")
        loss = SPELLINGS[name](s)
        gradient = gx.gradients(loss, s)
    graph = extract(g, [loss, gradient]).graph
    result, fired = optimised(graph)
    value, slope = exact(LOGITS)
    got_value, got_slope = evaluate(result, [LOGITS])
    np.testing.assert_allclose(got_value, value, rtol=1e-12)
    np.testing.assert_allclose(got_slope, slope, rtol=1e-12, atol=0)
    same_meaning(graph, result, 1e-10)
    assert stabilize(result, PassContext()) is result
    assert len(result.nodes) <= len(graph.nodes)

    with np.errstate(all="ignore"):
        strict, none = optimised(graph, numerics="strict")
        assert none == []
        naive = evaluate(strict, [LOGITS])
        assert not (np.isfinite(naive[0]) and np.isfinite(naive[1]).all())
    assert set(fired) <= PARTS
    assert optimised(graph, off=frozenset())[1] == fired


ROWS: dict[str, Callable[[gx.Value, gx.Value], gx.Value]] = {
    "take along axis": lambda p, i: gx.take_along_axis(p, i[:, None], 1),
    "column": lambda p, i: p[:, 2],
    "index pairs": lambda p, i: p[gx.arange(p.shape[0]), i],
    "one element": lambda p, i: p[0, 1],
    "transposed": lambda p, i: p.T[2],
}
SUMS: dict[str, Callable[[gx.Value], gx.Value]] = {
    "kept": lambda e: e / e.sum(-1, keepdims=True),
    "expanded": lambda e: e / e.sum(-1)[:, None],
    "all": lambda e: e / e.sum(),
    "columns": lambda e: e / e.sum(0),
    "transposed": lambda e: (e.T / e.sum(1)).T,
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("shape", [(4, 5), ("n", 5), ("n", "k")])
def test_rows(rows: str, sums: str, shape: tuple[Any, ...]) -> None:
    with gx.Graph() as g:
        x = gx.placeholder(shape, "float64", name="x")
        i = gx.placeholder(shape[:1], "int64", name="i")
        loss = -gx.log(ROWS[rows](SUMS[sums](gx.exp(x)), i)).mean()
        gradient = gx.gradients(loss, x)
    graph = extract(g, [loss, gradient]).graph
    result, _ = optimised(graph)
    rng = np.random.default_rng(0)
    indices = np.array([0, 4, 2, 2])

    def feeds(scale: float) -> list[Any]:
        logits = rng.uniform(-1, 1, (4, 5)) * scale
        return [logits if value.dtype.is_float else indices for value in graph.inputs]

    ordinary = feeds(1.0)
    for expected, given in zip(evaluate(graph, ordinary), evaluate(result, ordinary), strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-10, atol=1e-15)
    huge = feeds(1e4)
    with np.errstate(all="ignore"):
        assert not all(np.isfinite(array).all() for array in evaluate(graph, huge))
    assert all(np.isfinite(array).all() for array in evaluate(result, huge))


# --- what must stay ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda x: gx.log(gx.exp(x)) + gx.exp(gx.log(x)),
        lambda x: gx.log(gx.exp(x) * gx.exp(-x)),
        lambda x: gx.exp(x) / 3.0,
        lambda x: gx.exp(x).sum(),
        lambda x: x / gx.sum(x),
        lambda x: gx.exp(x) / gx.sum(gx.exp(x * 2)),
        lambda x: gx.exp(x) / (gx.exp(x).sum() + 1e-9),
        lambda x: gx.log(gx.sigmoid(x) + 1e-9),
        lambda x: gx.sigmoid(x) * gx.log(x),
        lambda x: gx.gradients(gx.sigmoid(x), x) / 3.0,
        lambda x: gx.log(gx.nn.softmax(x).sum()),
        lambda x: gx.sigmoid(x) / gx.sigmoid(x),
        lambda x: gx.sqrt(x * x - 2.0) + gx.log(x * x),
        lambda x: gx.max(x) + gx.log(gx.exp(x - gx.max(x)).sum()),
    ],
)
def test_other_graphs_are_left_alone(build: Any) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4,), "float64")
        y = build(x)
    graph = extract(g, [y]).graph
    assert stabilize(graph, PassContext()) is graph


def test_misaligned_sums_are_no_softmax() -> None:
    """A square matrix divided by its row sums along the wrong axis."""
    with gx.Graph() as g:
        x = gx.placeholder((4, 4), "float64")
        e = gx.exp(x)
        y = e / e.sum(axis=1)
        z = gx.log(e[:, 1] / e.sum(axis=0))
        slope = gx.gradients(y * y + z, x)
    graph = extract(g, [y, z, slope]).graph
    result, _ = optimised(graph)
    same_meaning(graph, result, 1e-9)


def random_graph(seed: int) -> Graph:
    """Products, quotients, sums and views of exponentials, and a gradient through them."""
    rng = np.random.default_rng(seed)
    with gx.Graph() as g:
        x = gx.placeholder((3, 3), "float64", name="x")
        pool = [gx.exp(x), gx.exp(x.T), gx.exp(x * 0.5), x * x + 1.0]
        for _ in range(10):
            a, b = (pool[int(k)] for k in rng.integers(0, len(pool), 2))
            axis = int(rng.integers(2))
            made = [
                lambda a=a, b=b: a / b,
                lambda a=a, b=b: a * b,
                lambda a=a, b=b: a + b,
                lambda a=a, axis=axis: a / a.sum(axis, keepdims=True),
                lambda a=a, axis=axis: a / a.sum(axis),
                lambda a=a: a / a.sum(),
                lambda a=a: a.T,
                lambda a=a: a[::-1],
                lambda a=a, axis=axis: a * a.sum(axis),
                lambda a=a: gx.take(a, np.array([2, 0, 2]), axis=1),
                lambda a=a: gx.log(a) * 0.1 + 2.0,
                lambda a=a: gx.broadcast_to((a[:, 1] / a.sum(1))[:, None], (3, 3)),
                lambda a=a: gx.broadcast_to(a.sum(1, keepdims=True), (3, 3)),
            ][int(rng.integers(13))]()
            pool.append(made)
        y = gx.log(gx.abs(pool[-1])) + pool[-2]
        outputs = [y, gx.gradients(y, x)]
    return extract(g, outputs).graph


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_keep_their_meaning(seed: int) -> None:
    graph = random_graph(seed)
    result, _ = optimised(graph)
    rng = np.random.default_rng(seed)
    inputs = [rng.uniform(-1, 1, (3, 3))]
    with np.errstate(all="ignore"):
        expected, given = evaluate(graph, inputs), evaluate(result, inputs)
    for one, other in zip(expected, given, strict=True):
        ordinary = np.isfinite(one)
        scale = np.abs(one[ordinary]).max(initial=1.0)
        np.testing.assert_allclose(other[ordinary], one[ordinary], rtol=1e-8, atol=1e-10 * scale)
