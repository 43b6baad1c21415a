"""Each simple pass on small graphs, text in, text out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from check import check_pass
from effort import assert_linear

import graphc as gx
from graphc.compiling.extraction import extract
from graphc.ir.graph import Graph
from graphc.ir.text.parser import parse_graph
from passes.graph.canonicalize import canonicalize
from passes.graph.cse import cse
from passes.graph.dce import dce
from passes.graph.decompose import decompose, is_core
from passes.graph.fold import SMALL_BYTES, fold
from passes.graph.simplify import simplify
from passes.infra.base import PassContext, PassFunction
from passes.infra.manager import Step, run_pipeline
from passes.stability.stabilize import stabilize

# --- dce -----------------------------------------------------------------------------------------


def test_dce_drops_what_nobody_needs() -> None:
    check_pass(
        dce,
        """
        graph "g" (%x: float32[4], %unused: float32[2]) {
          %a = exp(%x) : float32[4]
          %b = log(%x) : float32[4]
          %c = negative(%b) : float32[4]
          return %a, %x
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[2]) {
          %2 = exp(%0) : float32[4]
          return %2, %0
        }
        """,
    )


def test_dce_enters_regions() -> None:
    check_pass(
        dce,
        """
        graph "g" (%p: bool[], %x: float32[4]) {
          %a = cond(%p, %x) : float32[4] {
            region "then" (%y: float32[4]) { %u = log(%y) : float32[4] return %y }
            region "else" (%z: float32[4]) { %v = negative(%z) : float32[4] return %v }
          }
          return %a
        }
        """,
        """
        graph "g" (%0: bool[], %1: float32[4]) {
          %2 = cond(%0, %1) : float32[4] {
            region "then" (%0: float32[4]) {
              return %0
            }
            region "else" (%0: float32[4]) {
              %1 = negative(%0) : float32[4]
              return %1
            }
          }
          return %2
        }
        """,
    )


# --- cse -----------------------------------------------------------------------------------------


def test_cse_merges_equal_nodes_and_swapped_operands() -> None:
    context = check_pass(
        cse,
        """
        graph "g" (%x: float32[4], %y: float32[4]) {
          %a = add(%x, %y) : float32[4]
          %b = add(%y, %x) : float32[4]
          %c = subtract(%x, %y) : float32[4]
          %d = subtract(%y, %x) : float32[4]
          %e = multiply(%a, %b) : float32[4]
          return %e, %c, %d
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[4]) {
          %2 = add(%0, %1) : float32[4]
          %3 = subtract(%0, %1) : float32[4]
          %4 = subtract(%1, %0) : float32[4]
          %5 = multiply(%2, %2) : float32[4]
          return %5, %3, %4
        }
        """,
    )
    assert [decision.rule for decision in context.decisions] == ["cse"]


def test_cse_tells_attributes_apart() -> None:
    text = """
        graph "g" (%x: float32[4]) {
          %a = constant() {value = float32[] 0x0p+0} : float32[]
          %b = constant() {value = float32[] -0x0p+0} : float32[]
          %c = constant() {value = int64[] 1} : int64[]
          %d = constant() {value = bool[] True} : bool[]
          %e = sum(%x) {axes = (0,), keepdims = False} : float32[]
          %f = sum(%x) {axes = (0,), keepdims = True} : float32[1]
          return %a, %b, %c, %d, %e, %f
        }
        """
    graph = parse_graph(text)
    assert cse(graph, PassContext()) is graph


def test_cse_merges_equal_control_flow() -> None:
    branch = """cond(%p, %x) : float32[4] {
            region "then" (%y: float32[4]) { return %y }
            region "else" (%z: float32[4]) { %v = negative(%z) : float32[4] return %v }
          }"""
    graph = parse_graph(
        f"""
        graph "g" (%p: bool[], %x: float32[4]) {{
          %a = {branch}
          %b = {branch}
          return %a, %b
        }}
        """
    )
    result = cse(graph, PassContext())
    assert len(result.nodes) == 1
    assert result.outputs[0] is result.outputs[1]


# --- canonicalize --------------------------------------------------------------------------------


def test_canonical_operands_and_moves() -> None:
    check_pass(
        canonicalize,
        """
        graph "g" (%x: float32[2, 3]) {
          %c = constant() {value = float32[] 0x1p+1} : float32[]
          %a = multiply(%c, %x) : float32[2, 3]
          %b = less(%c, %a) : bool[2, 3]
          %d = transpose(%a) {axes = (1, 0)} : float32[3, 2]
          %e = transpose(%d) {axes = (1, 0)} : float32[2, 3]
          %f = reshape(%e) {shape = (6,)} : float32[6]
          %g = reshape(%f) {shape = (3, 2)} : float32[3, 2]
          %h = astype(%g) {dtype = @float32} : float32[3, 2]
          %i = transpose(%h) {axes = (0, 1)} : float32[3, 2]
          return %b, %i
        }
        """,
        """
        graph "g" (%0: float32[2, 3]) {
          %1 = constant() {value = float32[] 0x1p+1} : float32[]
          %2 = multiply(%0, %1) : float32[2, 3]
          %3 = greater(%2, %1) : bool[2, 3]
          %4 = reshape(%2) {shape = (6,)} : float32[6]
          %5 = reshape(%2) {shape = (3, 2)} : float32[3, 2]
          return %3, %5
        }
        """,
    )


def test_canonical_single_elements() -> None:
    check_pass(
        canonicalize,
        """
        graph "g" (%x: float32[n, 3]) {
          %c = constant() {value = float32[] 0x1p+1} : float32[]
          %a = broadcast_to(%c) {shape = (dim(n), 3)} : float32[n, 3]
          %b = transpose(%a) {axes = (1, 0)} : float32[3, n]
          %d = add(%a, %x) : float32[n, 3]
          return %b, %d
        }
        """,
        """
        graph "g" (%0: float32[n, 3]) {
          %1 = constant() {value = float32[] 0x1p+1} : float32[]
          %2 = broadcast_to(%1) {shape = (dim(n), 3)} : float32[n, 3]
          %3 = broadcast_to(%1) {shape = (3, dim(n))} : float32[3, n]
          %4 = add(%0, %2) : float32[n, 3]
          return %3, %4
        }
        """,
    )


# --- fold ----------------------------------------------------------------------------------------


def test_fold_computes_exact_constants() -> None:
    check_pass(
        fold,
        """
        graph "g" (%x: float32[2]) {
          %a = constant() {value = float32[2] (0x1p+0, -0x0p+0)} : float32[2]
          %b = constant() {value = float32[] 0x1.8p+1} : float32[]
          %c = multiply(%a, %b) : float32[2]
          %d = exp(%c) : float32[2]
          %e = add(%x, %c) : float32[2]
          %f = astype(%c) {dtype = @int8} : int8[2]
          %g = sum(%f) {axes = (0,), keepdims = False} : int8[]
          return %d, %e, %g
        }
        """,
        """
        graph "g" (%0: float32[2]) {
          %1 = constant() {value = float32[2] (0x1p+0, -0x0p+0)} : float32[2]
          %2 = constant() {value = float32[] 0x1.8p+1} : float32[]
          %3 = constant() {value = float32[2] (0x1.8p+1, -0x0p+0)} : float32[2]
          %4 = exp(%3) : float32[2]
          %5 = add(%0, %3) : float32[2]
          %6 = constant() {value = int8[2] (3, 0)} : int8[2]
          %7 = constant() {value = int8[] 3} : int8[]
          return %4, %5, %7
        }
        """,
    )


def test_fold_keeps_broadcasts_lazy_in_any_shape() -> None:
    context = check_pass(
        fold,
        """
        graph "g" (%x: float32[n]) {
          %a = constant() {value = float32[] 0x1p+1} : float32[]
          %b = broadcast_to(%a) {shape = (dim(n),)} : float32[n]
          %c = multiply(%b, %a) : float32[n]
          %d = negative(%c) : float32[n]
          return %d
        }
        """,
        """
        graph "g" (%0: float32[n]) {
          %1 = constant() {value = float32[] 0x1p+1} : float32[]
          %2 = broadcast_to(%1) {shape = (dim(n),)} : float32[n]
          %3 = constant() {value = float32[] 0x1p+2} : float32[]
          %4 = broadcast_to(%3) {shape = (dim(n),)} : float32[n]
          %5 = constant() {value = float32[] -0x1p+2} : float32[]
          %6 = broadcast_to(%5) {shape = (dim(n),)} : float32[n]
          return %6
        }
        """,
    )
    assert [decision.number for decision in context.decisions] == [1, 2]


def reasons(graph: Graph) -> list[str]:
    context = PassContext()
    assert fold(graph, context) is graph
    return [decision.reason for decision in context.decisions if decision.reason]


def test_fold_says_what_it_leaves() -> None:
    with gx.Graph() as g:
        big = gx.constant(np.arange(2000, dtype="float32"))
        table = gx.constant(np.arange(4))
        column = gx.reshape(gx.constant(np.ones(2000, "float32")), (2000, 1))
        values = [
            gx.exp(big),
            gx.take(table, gx.constant(np.array(7))),
            big + column,
            gx.zeros((1000, 1000)),
        ]
    context = PassContext()
    graph = extract(g, values).graph
    result = fold(graph, context)
    left = [decision.reason for decision in context.decisions if decision.reason]
    assert any("not exact" in reason for reason in left)
    assert any("would fail when the graph runs" in reason for reason in left)
    assert any("16000000 bytes would be made of 16000" in reason for reason in left)
    assert {"take", "add", "exp"} <= {node.op.name for node in result.nodes}


def test_fold_raises_nothing_and_divides_integers_by_zero() -> None:
    with gx.Graph() as g:
        y = gx.constant(np.array([1, -3])) // gx.constant(np.array([0, 2]))
    (node,) = dce(fold(extract(g, [y]).graph, PassContext()), PassContext()).nodes
    assert node.attrs["value"].array.tolist() == [0, -2]


def test_fold_does_not_double_without_end() -> None:
    """Each joint holds two constants of its own size, which were made of eight bytes in the end."""
    with gx.Graph() as g:
        y = gx.constant(np.array([1.0]))
        for _ in range(60):
            y = gx.concatenate([y, -y])
    context = PassContext()
    result = fold(extract(g, [y[:1]]).graph, context)
    sizes = [n.attrs["value"].array.nbytes for n in result.nodes if n.op.name == "constant"]
    assert max(sizes) == SMALL_BYTES
    assert any("8192 bytes would be made of 8" in decision.reason for decision in context.decisions)


def test_fold_declines_in_linear_time() -> None:
    """Every one of many nodes over constants says why it stays."""

    def declining(count: int) -> Callable[[], None]:
        with gx.Graph() as g:
            y = gx.constant(np.arange(3.0))
            values = [gx.exp(y) for _ in range(count)]
        graph = extract(g, values).graph

        def run() -> None:
            context = PassContext()
            assert fold(graph, context) is graph
            assert len(context.decisions) == count

        return run

    assert_linear(declining, 2500)


def test_cse_tells_nan_bits_and_types_apart() -> None:
    values = [
        np.array(bits, np.uint32).view(np.float32)
        for bits in (0x7FC00000, 0x7FC00001, 0xFFC00000, 0x00000000, 0x80000000)
    ]
    values += [np.array(1, dtype) for dtype in ("bool", "int8", "int64", "float32", "float64")]
    with gx.Graph() as g:
        constants = [gx.constant(value) for value in (*values, *values)]
    result = cse(extract(g, constants).graph, PassContext())
    assert len(result.nodes) == len(values)
    for value, output in zip((*values, *values), result.outputs, strict=True):
        array = result.producers[output].attrs["value"].array
        assert array.dtype == value.dtype and array.tobytes() == value.tobytes()
    first, second = result.outputs[: len(values)], result.outputs[len(values) :]
    assert all(a is b for a, b in zip(first, second, strict=True))


# --- decompose -----------------------------------------------------------------------------------


def test_decompose_leaves_core_ops() -> None:
    context = check_pass(
        decompose,
        """
        graph "g" (%x: float32[2, 3]) {
          %a "y" = relu(%x) : float32[2, 3]
          %b = max(%a) {axes = (0, 1), keepdims = True} : float32[1, 1]
          return %b, %a
        }
        """,
        """
        graph "g" (%0: float32[2, 3]) {
          %1 = constant() {value = float32[] 0x0p+0} : float32[]
          %2 "y" = maximum(%0, %1) : float32[2, 3]
          %3 = reshape(%2) {shape = (6,)} : float32[6]
          %4 = reduce_max(%3) {axis = 0, order = "lanes"} : float32[]
          %5 = reshape(%4) {shape = (1, 1)} : float32[1, 1]
          return %5, %2
        }
        """,
    )
    assert not context.decisions, "a required pass decides nothing"


def test_decompose_keeps_lines_and_splits_joints() -> None:
    with gx.Graph() as g:
        x = gx.placeholder(("n", 3), "float32")
        y = gx.concatenate([x * float(number) for number in range(70)], axis=1)
        z = gx.nn.softmax(y)
    graph = extract(g, [z]).graph
    result = decompose(graph, PassContext())
    assert all(is_core(node) for node in result.nodes)
    assert all(
        node.provenance.where is not None and node.provenance.where.filename == __file__
        for node in result.nodes
    )
    joints = [node for node in result.nodes if node.op.name == "concatenate"]
    assert max(len(node.inputs) for node in joints) <= 8
    assert min(len(node.inputs) for node in joints) > 1
    assert result.outputs[0].type == graph.outputs[0].type


# --- all of them ---------------------------------------------------------------------------------

ALL_STEPS: tuple[PassFunction, ...] = (
    canonicalize, cse, fold, simplify, stabilize, dce,
    decompose, canonicalize, fold, simplify, cse, dce,
)  # fmt: skip
CHAINS: dict[str, Callable[[gx.Value, gx.Value], gx.Value]] = {
    "add": lambda x, y: y + x,
    "negative": lambda x, y: -y,
    "one": lambda x, y: y * 1,
    "constant left": lambda x, y: 2 + y,
    "same operand": lambda x, y: y + x * 1,
    "transpose": lambda x, y: y.T,
    "product of exponentials": lambda x, y: y * gx.exp(x),
}


@pytest.mark.parametrize("name", CHAINS)
def test_linear(name: str) -> None:
    """Eight times the nodes take no more than about eight times the work."""

    def passing(length: int) -> Callable[[], object]:
        with gx.Graph() as g:
            x = gx.placeholder((4, 4), "float32")
            y = x
            for _ in range(length):
                y = CHAINS[name](x, y)
            y = gx.log(y) / x
        graph = extract(g, [y]).graph
        return partial(run_pipeline, graph, [Step(pass_) for pass_ in ALL_STEPS], PassContext())

    assert_linear(passing, 250)
