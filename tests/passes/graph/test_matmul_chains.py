"""Chains of matrix products are computed in the cheapest order, where that is allowed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from check import check_pass

import graphc as gx
from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.graph import Graph
from passes.graph.canonicalize import canonicalize
from passes.graph.dce import dce
from passes.graph.decompose import decompose
from passes.graph.matmul_chains import LONGEST, matmul_chains
from passes.graph.shapes import shapes
from passes.infra.base import PassContext

pytestmark = pytest.mark.check_mode

REASSOC = Options(fast_math={"reassoc"})


def core(values: Any) -> Graph:
    graph = extract(values[0].graph, list(values)).graph
    context = PassContext()
    for step in (shapes, decompose, canonicalize, shapes):
        graph = step(graph, context)
    return graph


def work(graph: Graph) -> int:
    """Multiplications of all products, vectors included."""
    total = 0
    for node in graph.nodes:
        if node.op.name == "contract":
            inner = node.inputs[0].shape[-2 if node.attrs["transpose_a"] else -1]
            total += int(node.output.size * inner)  # type: ignore[arg-type]
        elif node.op.name == "multiply":
            total += int(node.output.size)  # type: ignore[arg-type]
    return total


def parenthesised(sizes: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, tuple[int, int]]]:
    """The work of every order, with the size of the result."""
    if len(sizes) == 1:
        yield 0, sizes[0]
    for middle in range(1, len(sizes)):
        for (one, a), (other, b) in itertools.product(
            parenthesised(sizes[:middle]), list(parenthesised(sizes[middle:]))
        ):
            yield one + other + a[0] * a[1] * b[1], (a[0], b[1])


@pytest.mark.parametrize("seed", range(6))
def test_the_order_is_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dims = [int(dim) for dim in rng.integers(1, 20, 6)]
    shapes = tuple(itertools.pairwise(dims))
    with gx.Graph():
        factors = [gx.placeholder(shape, "float64") for shape in shapes]
        product = factors[0]
        for factor in factors[1:]:
            product = product @ factor
    graph = core([product])
    result = dce(matmul_chains(graph, PassContext(REASSOC)), PassContext())
    assert work(result) == min(cost for cost, _ in parenthesised(shapes))
    arrays = [rng.standard_normal(shape) for shape in shapes]
    wanted, found = (evaluate(g, arrays)[0] for g in (graph, result))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert matmul_chains(graph, PassContext()) is graph


def test_a_vector_comes_first() -> None:
    with gx.Graph():
        a, b = gx.placeholder((30, 40)), gx.placeholder((40, 50))
        v, u = gx.placeholder((50,)), gx.placeholder((30,))
        graph = core([(a @ b) @ v, u @ (a @ b), (b.T @ a.T).T @ v])
    result = dce(matmul_chains(graph, PassContext(REASSOC)), PassContext())
    assert work(result) <= 3 * (30 * 40 + 40 * 50)


def test_integers_and_transposes() -> None:
    """Integers are reordered without a flag, and keep every bit."""
    context = check_pass(
        matmul_chains,
        """
        graph "g" (%0: int8[9, 7], %1: int8[7, 9], %2: int8[9, 1]) {
          %3 = contract(%0, %1) {transpose_a = True, transpose_b = True} : int8[7, 7]
          %4 = contract(%3, %0) {transpose_a = True, transpose_b = True} : int8[7, 9]
          %5 = contract(%4, %2) {transpose_a = False, transpose_b = False} : int8[7, 1]
          return %5
        }
        """,
        """
        graph "g" (%0: int8[9, 7], %1: int8[7, 9], %2: int8[9, 1]) {
          %3 = contract(%0, %1) {transpose_a = True, transpose_b = True} : int8[7, 7]
          %4 = contract(%3, %0) {transpose_a = True, transpose_b = True} : int8[7, 9]
          %5 = contract(%0, %2) {transpose_a = True, transpose_b = False} : int8[7, 1]
          %6 = contract(%0, %5) {transpose_a = False, transpose_b = False} : int8[9, 1]
          %7 = contract(%1, %6) {transpose_a = False, transpose_b = False} : int8[7, 1]
          return %7
        }
        """,
    )
    assert [decision.rule for decision in context.decisions] == ["matmul_chains"]


def test_what_is_read_elsewhere_does_not_change_the_order() -> None:
    shapes = ((20, 30), (30, 20), (20, 1))
    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
    with gx.Graph():
        a, b, c = (gx.placeholder(shape, "float64") for shape in shapes)
        inner = a @ b
        outer = inner @ c
        alone, both = core([outer]), core([outer, inner])
    bits = []
    for graph in (alone, both):
        result = matmul_chains(graph, PassContext(REASSOC))
        bits.append(evaluate(result, arrays)[0].tobytes())
    assert bits[0] == bits[1]


def test_long_chains_and_stacks() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((3, 4, 4)) for _ in range(2 * LONGEST)]
    arrays.append(rng.standard_normal((3, 4, 1)))
    with gx.Graph():
        factors = [gx.placeholder(array.shape, "float64") for array in arrays]
        product = factors[0]
        for factor in factors[1:]:
            product = product @ factor
        graph = core([product])
    result = dce(matmul_chains(graph, PassContext(REASSOC)), PassContext())
    assert work(result) < work(graph)
    np.testing.assert_allclose(evaluate(result, arrays)[0], evaluate(graph, arrays)[0], rtol=1e-9)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_symbolic_rows_through_a_session(rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 50))
    v, w = np.ones((50, 40)), np.ones((40, 2))
    with gx.Graph() as graph:
        given = gx.placeholder((None, 50), "float64")
        product = given @ v @ w
    session = gx.Session(graph, options=gx.Options(fast_math={"reassoc"}))
    np.testing.assert_allclose(session.run(product, {given: x}), x @ v @ w, rtol=1e-12)
