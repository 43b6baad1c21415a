"""Views moved, cancelled and joined, as text in and text out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from check import check_pass

import graphc as gx
from graphc.base.options import Options
from passes.graph.move_views import move_views
from passes.infra.base import PassContext

pytestmark = pytest.mark.check_mode


def fired(context: PassContext) -> list[str]:
    return [decision.rule for decision in context.decisions]


def test_transposes_cancel_across_work() -> None:
    context = check_pass(
        move_views,
        """
        graph "g" (%0 "x": float32[2, n], %1: float32[2, n], %2: float32[]) {
          %3 = transpose(%0) {axes = (1, 0)} : float32[n, 2]
          %4 = transpose(%1) {axes = (1, 0)} : float32[n, 2]
          %5 = multiply(%3, %2) : float32[n, 2]
          %6 = add(%5, %4) : float32[n, 2]
          %7 = exp(%6) : float32[n, 2]
          %8 = transpose(%7) {axes = (1, 0)} : float32[2, n]
          return %8
        }
        """,
        """
        graph "g" (%0 "x": float32[2, n], %1: float32[2, n], %2: float32[]) {
          %3 = multiply(%0, %2) : float32[2, n]
          %4 = add(%3, %1) : float32[2, n]
          %5 = exp(%4) : float32[2, n]
          return %5
        }
        """,
        tolerance=1e-6,
    )
    assert fired(context) == ["transposes-cancel"]


@pytest.mark.parametrize(
    ("axes", "output"),
    [("(2, 0, 1)", "%3"), ("(1, 2, 0)", "%3, %2")],
)
def test_transposes_that_stay(axes: str, output: str) -> None:
    """Another permutation, and work that somebody else reads."""
    text = f"""
        graph "g" (%0: float32[2, 2, 2]) {{
          %1 = transpose(%0) {{axes = (2, 0, 1)}} : float32[2, 2, 2]
          %2 = sqrt(%1) : float32[2, 2, 2]
          %3 = transpose(%2) {{axes = {axes}}} : float32[2, 2, 2]
          return {output}
        }}
        """
    check_pass(move_views, text, text)


def test_slice_before_work() -> None:
    context = check_pass(
        move_views,
        """
        graph "g" (%0: float32[4, n], %1: float32[n], %2: float32[4, 1]) {
          %3 = add(%0, %1) : float32[4, n]
          %4 = multiply(%3, %2) : float32[4, n]
          %5 = slice(%4) {start = (3, 0), step = (-2, 1), size = (2, dim(n))} : float32[2, n]
          return %5
        }
        """,
        """
        graph "g" (%0: float32[4, n], %1: float32[n], %2: float32[4, 1]) {
          %3 = slice(%0) {size = (2, dim(n)), start = (3, 0), step = (-2, 1)} : float32[2, n]
          %4 = add(%3, %1) : float32[2, n]
          %5 = slice(%2) {size = (2, 1), start = (3, 0), step = (-2, 1)} : float32[2, 1]
          %6 = multiply(%4, %5) : float32[2, n]
          return %6
        }
        """,
    )
    assert fired(context) == ["slice-first", "slice-first"]


def test_slices_that_stay() -> None:
    """Where all of it is needed, nothing is left out, or an operand may be repeated."""
    text = """
        graph "g" (%0: float32[4], %1: float32[n], %2: float32[m]) {
          %3 = sqrt(%0) : float32[4]
          %4 = slice(%3) {start = (0,), step = (1,), size = (2,)} : float32[2]
          %5 = sqrt(%1) : float32[n]
          %6 = slice(%5) {start = (dim(n - 1),), step = (-1,), size = (dim(n),)} : float32[n]
          %7 = add(%1, %2) : float32[broadcast(m, n)]
          %8 = slice(%7) {start = (0,), step = (1,), size = (0,)} : float32[0]
          return %3, %4, %6, %8
        }
        """
    check_pass(move_views, text, text)


def test_slice_of_a_piece() -> None:
    context = check_pass(
        move_views,
        """
        graph "g" (%0: int32[2, 3], %1: int32[2, n], %2: int32[2, 4]) {
          %3 = concatenate(%0, %1, %2) {axis = 1} : int32[2, n + 7]
          %4 = slice(%3) {start = (0, 0), step = (1, 1), size = (2, 3)} : int32[2, 3]
          %5 = slice(%3) {start = (1, dim(n + 6)), step = (1, -2), size = (1, 2)} : int32[1, 2]
          %6 = slice(%3) {start = (0, 3), step = (1, 1), size = (2, dim(n))} : int32[2, n]
          %7 = slice(%3) {start = (0, 2), step = (1, 1), size = (2, 2)} : int32[2, 2]
          return %4, %5, %6, %7
        }
        """,
        """
        graph "g" (%0: int32[2, 3], %1: int32[2, n], %2: int32[2, 4]) {
          %3 = concatenate(%0, %1, %2) {axis = 1} : int32[2, n + 7]
          %4 = slice(%2) {size = (1, 2), start = (1, 3), step = (1, -2)} : int32[1, 2]
          %5 = slice(%3) {size = (2, 2), start = (0, 2), step = (1, 1)} : int32[2, 2]
          return %0, %4, %1, %5
        }
        """,
    )
    assert fired(context) == ["slice-of-piece"] * 3


def test_slices_are_joined() -> None:
    context = check_pass(
        move_views,
        """
        graph "g" (%0: int32[n, 7], %1: int32[n, 2], %2: int32[n, 0]) {
          %3 = slice(%0) {start = (0, 0), step = (1, 1), size = (dim(n), 3)} : int32[n, 3]
          %4 = slice(%0) {start = (0, 3), step = (1, 1), size = (dim(n), 4)} : int32[n, 4]
          %5 = concatenate(%3, %2, %4) {axis = 1} : int32[n, 7]
          %6 = slice(%0) {start = (0, 4), step = (1, 1), size = (dim(n), 1)} : int32[n, 1]
          %7 = slice(%0) {start = (0, 5), step = (1, 1), size = (dim(n), 1)} : int32[n, 1]
          %8 = concatenate(%1, %6, %7, %6) {axis = 1} : int32[n, 5]
          return %5, %8
        }
        """,
        """
        graph "g" (%0: int32[n, 7], %1: int32[n, 2], %2: int32[n, 0]) {
          %3 = slice(%0) {size = (dim(n), 2), start = (0, 4), step = (1, 1)} : int32[n, 2]
          %4 = slice(%0) {size = (dim(n), 1), start = (0, 4), step = (1, 1)} : int32[n, 1]
          %5 = concatenate(%1, %3, %4) {axis = 1} : int32[n, 5]
          return %0, %5
        }
        """,
    )
    assert fired(context) == ["slices-joined"] * 2


def test_work_on_what_is_repeated() -> None:
    context = check_pass(
        move_views,
        """
        graph "g" (%0: float32[n, 1], %1: float32[n, 1], %2: float32[n, 4]) {
          %3 = broadcast_to(%0) {shape = (dim(n), 4)} : float32[n, 4]
          %4 = broadcast_to(%1) {shape = (dim(n), 4)} : float32[n, 4]
          %5 = divide(%3, %4) : float32[n, 4]
          %6 = negative(%5) : float32[n, 4]
          %7 = add(%6, %2) : float32[n, 4]
          return %6, %7
        }
        """,
        """
        graph "g" (%0: float32[n, 1], %1: float32[n, 1], %2: float32[n, 4]) {
          %3 = divide(%0, %1) : float32[n, 1]
          %4 = negative(%3) : float32[n, 1]
          %5 = broadcast_to(%4) {shape = (dim(n), 4)} : float32[n, 4]
          %6 = add(%5, %2) : float32[n, 4]
          return %5, %6
        }
        """,
    )
    assert fired(context) == ["repeat-last"] * 2


def test_switches_and_fuel() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4, 3))
        y = gx.transpose(gx.sqrt(gx.transpose(x)))
    source = gx.Session(graph).compile(y, [x]).source
    for options in (Options(off={"transposes-cancel"}), Options(fuel=0)):
        assert move_views(source, PassContext(options)) is source
    assert move_views(source, PassContext()) is not source


def kernels(outputs: Any, inputs: Any, **options: Any) -> int:
    """How many kernels run."""
    session = gx.Session(inputs[0].graph, options=gx.Options(**options))
    graph = session.compile(outputs, inputs).graph
    return sum(node.op.name in ("fused", "contract") for node in graph.nodes)


def test_kernels() -> None:
    """One each: products with a vector, statistics of one value, products of what is transposed."""
    with gx.Graph():
        x, v, w = gx.placeholder((64, 32)), gx.placeholder((32,)), gx.placeholder((16, 32))
        assert kernels(x @ v, [x, v]) == 1
        assert kernels(v @ x.T, [x, v]) == 1
        assert kernels([gx.mean(x, 1), gx.var(x, 1)], [x]) == 1
        assert kernels(x @ w.T, [x, w]) == 1
        assert kernels((w @ x.T).T, [x, w]) == 1
        assert kernels(gx.einsum("ij,j->i", x, v), [x, v]) == 1
        assert kernels(gx.transpose(gx.exp(gx.transpose(x)) * 2.0), [x]) == 1
        assert kernels(x @ w.T, [x, w], off={"contract-transposed-right"}) == 2


def test_results_are_numpys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((4, 3))
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, 4), "float64"), gx.placeholder((4, 3), "float64")
        halves = gx.split(gx.concatenate([x, x * 2.0], axis=1), 2, axis=1)
        found = [gx.tanh(x + y.T)[:1], (x.T @ y.T).T, gx.concatenate(halves, 0), (x * 2.0)[::-1][0]]
    results = gx.Session(graph).run(found, {x: a, y: b})
    np.testing.assert_allclose(results[0], np.tanh(a + b.T)[:1], rtol=1e-14)
    np.testing.assert_allclose(results[1], (a.T @ b.T).T, rtol=1e-14)
    np.testing.assert_array_equal(results[2], np.concatenate([a, a * 2], 0))
    np.testing.assert_array_equal(results[3], (a * 2)[::-1][0])
