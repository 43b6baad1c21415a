"""Scales and shifts around products of constant weights, against the truth and its bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from check import check_pass

import graphc as gx
from graphc.base.options import Options
from graphc.compiling.extraction import extract
from graphc.ir.graph import Graph
from passes.graph.fold_scales_into_weights import fold_scales_into_weights
from passes.infra.base import PassContext
from passes.infra.manager import run_pipeline
from passes.pipeline import PIPELINE

pytestmark = pytest.mark.check_mode

BEFORE = PIPELINE[: [step.name for step in PIPELINE].index("fold_scales_into_weights") + 1]
K, N = 20, 6
rng = np.random.default_rng(0)


def array(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> Any:
    return rng.uniform(low, high, shape).astype(dtype)


def folded(graph: Graph, **options: Any) -> tuple[Graph, list[str]]:
    """The graph as the pass leaves it in the pipeline, and what it said."""
    result, records = run_pipeline(graph, BEFORE, PassContext(Options(verify=True, **options)))
    return result, [str(d) for d in records[-1].decisions]


def test_text() -> None:
    check_pass(
        fold_scales_into_weights,
        """
        graph "g" (%x: float32[n, 2]) {
          %w = constant() {value = float32[2, 2] (0x1p+0, 0x1p+1, 0x1.8p+1, 0x1p+2)} : float32[2, 2]
          %b = constant() {value = float32[2] (0x1p+0, 0x1p+1)} : float32[2]
          %s = constant() {value = float32[2] (0x1p+1, 0x1p+2)} : float32[2]
          %1 = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[n, 2]
          %2 = subtract(%1, %b) : float32[n, 2]
          %3 = multiply(%2, %s) : float32[n, 2]
          return %3
        }
        """,
        """
        graph "g" (%0: float32[n, 2]) {
          %1 = constant() {value = float32[2, 2] (0x1p+1, 0x1p+3, 0x1.8p+2, 0x1p+4)} : float32[2, 2]
          %2 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[n, 2]
          %3 = constant() {value = float32[2] (-0x1p+1, -0x1p+3)} : float32[2]
          %4 = add(%2, %3) : float32[n, 2]
          return %4
        }
        """,
        tolerance=1e-6,
    )


def test_batch_norm_after_a_layer() -> None:
    """Zero variance, and gains that are zero or negative."""
    w, b = array(K, N), array(N)
    mean, beta = array(N), array(N)
    variance = np.array([0.0, 1.0, 1e-6, 100.0, 0.0, 2.0], "float32")
    gamma = np.array([1.0, 0.0, -2.0, 0.5, 0.0, 3.0], "float32")
    spellings: dict[str, Callable[[gx.Value], gx.Value]] = {
        "divide": lambda y: (y - mean) / gx.sqrt(gx.constant(variance) + 1e-5) * gamma + beta,
        "gain first": lambda y: gamma * (y - mean) / gx.sqrt(gx.constant(variance) + 1e-5) + beta,
        "rsqrt": lambda y: (y - mean) * gx.rsqrt(gx.constant(variance) + 1e-5) * gamma + beta,
        "rows": lambda y: (y - mean[None]) / np.sqrt(variance + 1e-5)[None] * gamma + beta[None],
    }
    for shape in [(None, K), (None, 3, K), (4, K)]:
        for spelled in spellings.values():
            with gx.Graph() as g:
                x = gx.placeholder(shape, name="x")
                y = spelled(x @ w + b)
            graph = extract(g, [y]).graph
            result, said = folded(graph)
            ops = [node.op.name for node in result.nodes]
            assert ops.count("contract") == 1 and ops.count("add") == 1, result
            assert not {"multiply", "divide", "subtract", "sqrt"} & set(ops), result
            assert len(said) == 1 and "scale-into-weights" in said[0]

            size = [5 if dim is None else dim for dim in shape]
            data = array(*size)
            (got,) = gx.Session(g).run([y], {x: data})
            scale = gamma.astype("float64") / np.sqrt(np.float64(np.float32(1e-5)) + variance)
            wide = data.astype("float64")
            truth = (wide @ w.astype("float64") + b - mean) * scale + beta
            shifts = np.abs(b * scale) + np.abs(mean * scale) + np.abs(beta)
            size_of = np.abs(wide) @ np.abs(w * scale) + shifts
            assert (np.abs(got - truth) <= (2 * K + 8) * np.finfo("float32").eps * size_of).all()

            if shape[0] is None:
                rows = [gx.Session(g).run([y], {x: data[i : i + 1]})[0] for i in range(2)]
                assert np.array_equal(np.concatenate(rows), got[:2])


CHAINS: dict[str, Callable[[gx.Value, gx.Value], gx.Value]] = {
    "scalar": lambda x, w: (x @ w) * 0.125,
    "scalar before": lambda x, w: (x * 3.0) @ w,
    "rows before": lambda x, w: (x * np.linspace(1, 2, K)) @ w,
    "divided before": lambda x, w: (x / np.linspace(1, 2, K)) @ w,
    "both": lambda x, w: ((x * np.linspace(1, 2, K)) @ w) / np.linspace(2, 5, N),
    "negative": lambda x, w: -(x @ w + 1.0) * 2.0,
    "turned": lambda x, w: 1.0 - (x @ w),
    "twice before": lambda x, w: (x * 3.0 / np.linspace(1, 2, K)) @ w,
    "scale, shift, scale": lambda x, w: ((x @ w) * 3.0 + np.arange(N)) * np.linspace(-1, 1, N),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
def test_chains(name: str, dtype: str, transposed: bool) -> None:
    weights = array(K, N, dtype=dtype)
    with gx.Graph() as g:
        x = gx.placeholder((None, K), dtype, name="x")
        with_weights = gx.constant(weights.T.copy()).T if transposed else gx.constant(weights)
        y = CHAINS[name](x, with_weights).astype(dtype)
    _, said = folded(extract(g, [y]).graph)
    assert len(said) == 1 and "not done" not in said[0]
    data = array(7, K, dtype=dtype)
    (got,) = gx.Session(g).run([y], {x: data})
    (exact,) = gx.Session(g, options=Options(numerics="strict")).run([y], {x: data})
    eps = float(np.finfo(dtype).eps)
    bound = (2 * K + 8) * eps * 6 * (np.abs(data) @ np.abs(weights) + N)
    assert (np.abs(got - exact) <= bound).all()


def graph_of(build: Callable[[gx.Value], Any], shape: Any = (None, K)) -> Graph:
    with gx.Graph() as g:
        outputs = build(gx.placeholder(shape, name="x"))
    return extract(g, list(outputs) if isinstance(outputs, tuple) else [outputs]).graph


W = array(K, N)
LARGE = array(64, 64)


def variable_weights(x: gx.Value) -> gx.Value:
    return (x @ gx.variable(W, name="w")) * 2.0


def fetched(x: gx.Value) -> Any:
    y = x @ W
    return y, y * 2.0


def read_twice(x: gx.Value) -> Any:
    y = x @ W
    return y * 2.0 + gx.exp(y)


LEFT: dict[str, Callable[[gx.Value], Any]] = {
    "weights are a variable": variable_weights,
    "the product is fetched": fetched,
    "the product is read twice": read_twice,
    "no scale": lambda x: x @ W + 1.0,
    "another op between": lambda x: gx.nn.relu(x @ W) * 2.0,
    "a scale per row": lambda x: (x @ W) * gx.sum(x, axis=1, keepdims=True),
    "divisor": lambda x: 2.0 / (x @ W),
    "shift before": lambda x: (x - 3.0) @ W,
    "integers": lambda x: (x.astype("int32") @ W.astype("int32")) * 2,
}


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    graph = graph_of(LEFT[name])
    _, said = folded(graph)
    assert said == []
    assert fold_scales_into_weights(graph, PassContext()) is graph


@pytest.mark.parametrize(
    ("factor", "reason"),
    [
        (1e38, "range"),
        (1e-38, "range"),
        (np.inf, "range"),
        (np.nan, "range"),
        (np.float32(1e-45), "range"),
    ],
)
def test_weights_stay_normal_numbers(factor: float, reason: str) -> None:
    _, said = folded(graph_of(lambda x: (x @ (W * np.float32(100))) * np.float32(factor)))
    assert len(said) == 1 and reason in said[0]


@pytest.mark.filterwarnings("error")
def test_weights_that_leave_the_range_of_float64_warn_of_nothing() -> None:
    w = np.full((K, N), 1e300)
    _, said = folded(graph_of(lambda x: (x.astype("float64") @ w) * 1e200))
    assert len(said) == 1 and "range" in said[0]


def test_large_weights_are_not_stored_twice() -> None:
    def tied(x: gx.Value) -> Any:
        w = gx.constant(LARGE)
        return (x @ w) * 2.0, gx.exp(x) @ w

    _, said = folded(graph_of(tied, (None, 64)))
    assert len(said) == 1 and "stored twice" in said[0]


def test_switches() -> None:
    graph = graph_of(lambda x: (x @ W) * 2.0)
    assert folded(graph)[1]
    assert folded(graph, numerics="strict")[1] == []
    assert folded(graph, off={"scale-into-weights"})[1] == []
    assert fold_scales_into_weights(graph, PassContext(Options(fuel=0))) is graph


def test_special_values_pass_through() -> None:
    """NaN and infinities of a row come out as they did, and touch no other row."""
    scale = np.array([1.0, -2.0, 0.0, 0.5, 3.0, 1.0], "float32")
    with gx.Graph() as g:
        x = gx.placeholder((None, K), name="x")
        y = (x @ W) * scale + 1.0
    data = np.ones((5, K), "float32")
    data[1, 3], data[2, 4], data[3, :2] = np.nan, np.inf, (np.inf, -np.inf)
    (got,) = gx.Session(g).run([y], {x: data})
    with np.errstate(all="ignore"):
        (exact,) = gx.Session(g, options=Options(numerics="strict")).run([y], {x: data})
    np.testing.assert_allclose(got, exact, rtol=1e-5)


def test_a_product_that_a_loop_reads() -> None:
    """A node of several results is no step."""

    def looped(x: gx.Value) -> Any:
        start = (gx.constant(0), x @ W)
        return gx.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), start)

    assert folded(graph_of(looped))[1] == []
