"""What is made of constants before a program runs: results of inexact operations, and panels."""

from __future__ import annotations

from collections.abc import Sequence

from check import check_pass

from graphc.base.target import named
from graphc.checking.interpreter import evaluate
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph
from graphc.ir.text.parser import parse_graph
from passes.graph.layout import layout
from passes.graph.precompute import precompute
from passes.infra.base import PassContext

TARGET = named("x86-64-v2")
"""Its panels have two vectors of four floats side by side."""


def run(graph: Graph) -> Sequence[Array]:
    """As native code does it, where results are exact."""
    return evaluate(graph, [])


# --- precompute ----------------------------------------------------------------------------------


def test_what_rounds_is_computed_once() -> None:
    context = check_pass(
        precompute,
        """
        graph "g" (%x: float32[3]) {
          %c = constant() {value = float32[3] (0x1p+0, 0x1p+1, 0x1.8p+1)} : float32[3]
          %s = reduce_sum(%c) {axis = 0, order = "lanes"} : float32[]
          %n = negative(%s) : float32[]
          %y = multiply(%x, %n) : float32[3]
          return %y
        }
        """,
        """
        graph "g" (%0: float32[3]) {
          %1 = constant() {value = float32[] -0x1.8p+2} : float32[]
          %2 = multiply(%0, %1) : float32[3]
          return %2
        }
        """,
        execute=run,
    )
    assert [decision.rule for decision in context.decisions] == ["precompute"]


def test_what_is_exact_is_left_to_folding() -> None:
    graph = parse_graph(
        """
        graph "g" (%x: float32[]) {
          %c = constant() {value = float32[] 0x1p+1} : float32[]
          %n = negative(%c) : float32[]
          %y = multiply(%x, %n) : float32[]
          return %y
        }
        """
    )
    assert precompute(graph, PassContext(execute=run)) is graph


def test_all_that_is_read_of_constants_is_computed_in_one_program() -> None:
    programs: list[Graph] = []

    def noted(graph: Graph) -> Sequence[Array]:
        programs.append(graph)
        return run(graph)

    check_pass(
        precompute,
        """
        graph "g" (%x: float32[]) {
          %c = constant() {value = float32[2] (0x1p+0, 0x1p+1)} : float32[2]
          %s = reduce_sum(%c) {axis = 0, order = "lanes"} : float32[]
          %n = negative(%s) : float32[]
          %y = multiply(%x, %s) : float32[]
          return %y, %n
        }
        """,
        """
        graph "g" (%0: float32[]) {
          %1 = constant() {value = float32[] 0x1.8p+1} : float32[]
          %2 = constant() {value = float32[] -0x1.8p+1} : float32[]
          %3 = multiply(%0, %1) : float32[]
          return %3, %2
        }
        """,
        execute=noted,
    )
    assert [len(graph.outputs) for graph in programs] == [2] * 4


def test_what_is_larger_than_its_operands_is_computed_at_each_run() -> None:
    context = check_pass(
        precompute,
        """
        graph "g" (%x: float32[2000]) {
          %c = constant() {value = float32[] 0x0p+0} : float32[]
          %e = exp(%c) : float32[]
          %b = broadcast_to(%e) {shape = (2000,)} : float32[2000]
          %d = exp(%b) : float32[2000]
          %y = add(%x, %d) : float32[2000]
          return %y
        }
        """,
        """
        graph "g" (%0: float32[2000]) {
          %1 = constant() {value = float32[] 0x1p+0} : float32[]
          %2 = broadcast_to(%1) {shape = (2000,)} : float32[2000]
          %3 = exp(%2) : float32[2000]
          %4 = add(%0, %3) : float32[2000]
          return %4
        }
        """,
        execute=run,
    )
    reasons = [decision.reason for decision in context.decisions]
    assert reasons == ["8000 bytes would be made of 4", ""]


def test_what_can_fail_belongs_to_the_run() -> None:
    graph = parse_graph(
        """
        graph "g" () {
          %c = constant() {value = float32[2] (0x1p+0, 0x1p+1)} : float32[2]
          %i = constant() {value = int64[1] (9,)} : int64[1]
          %p = take(%c, %i) {axis = 0} : float32[1]
          %s = reduce_sum(%p) {axis = 0, order = "lanes"} : float32[]
          return %s
        }
        """
    )
    assert precompute(graph, PassContext(execute=run)) is graph


# --- layout --------------------------------------------------------------------------------------


def test_constant_weights_are_stored_in_panels() -> None:
    context = check_pass(
        layout,
        """
        graph "g" (%x: float32[n, 2]) {
          %w = constant() {value = float32[2, 3]
            (0x1p+0, 0x1p+1, 0x1p+2, 0x1p+3, 0x1p+4, 0x1p+5)} : float32[2, 3]
          %y = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[n, 3]
          return %y
        }
        """,
        """
        graph "g" (%0: float32[n, 2]) {
          %1 = constant() {value = float32[1, 1, 2, 8]
            (0x1p+0, 0x1p+1, 0x1p+2, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x1p+3, 0x1p+4,
            0x1p+5, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0)} : float32[1, 1, 2, 8]
          %2 = contract_panels(%0, %1) {k = 2, n = 3, transpose_a = False} : float32[n, 3]
          return %2
        }
        """,
        target=TARGET,
    )
    assert [decision.rule for decision in context.decisions] == ["layout"]


def test_weights_that_are_transposed_lie_as_the_product_reads_them() -> None:
    check_pass(
        layout,
        """
        graph "g" (%x: float32[2, n]) {
          %w = constant() {value = float32[3, 2]
            (0x1p+0, 0x1p+1, 0x1p+2, 0x1p+3, 0x1p+4, 0x1p+5)} : float32[3, 2]
          %y = contract(%x, %w) {transpose_a = True, transpose_b = True} : float32[n, 3]
          return %y
        }
        """,
        """
        graph "g" (%0: float32[2, n]) {
          %1 = constant() {value = float32[1, 1, 2, 8]
            (0x1p+0, 0x1p+2, 0x1p+4, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x1p+1, 0x1p+3,
            0x1p+5, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0)} : float32[1, 1, 2, 8]
          %2 = contract_panels(%0, %1) {k = 2, n = 3, transpose_a = True} : float32[n, 3]
          return %2
        }
        """,
        target=TARGET,
    )


def test_weights_of_two_products_are_packed_once_and_kept_for_other_readers() -> None:
    check_pass(
        layout,
        """
        graph "g" (%x: float32[1, 2]) {
          %w = constant() {value = float32[2, 2] (0x1p+0, 0x1p+1, 0x1p+2, 0x1p+3)} : float32[2, 2]
          %y = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[1, 2]
          %z = contract(%y, %w) {transpose_a = False, transpose_b = False} : float32[1, 2]
          %s = add(%z, %w) : float32[2, 2]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[1, 2]) {
          %1 = constant() {value = float32[2, 2] (0x1p+0, 0x1p+1, 0x1p+2, 0x1p+3)} : float32[2, 2]
          %2 = constant() {value = float32[1, 1, 2, 8]
            (0x1p+0, 0x1p+1, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x1p+2, 0x1p+3,
            0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0, 0x0p+0)} : float32[1, 1, 2, 8]
          %3 = contract_panels(%0, %2) {k = 2, n = 2, transpose_a = False} : float32[1, 2]
          %4 = contract_panels(%3, %2) {k = 2, n = 2, transpose_a = False} : float32[1, 2]
          %5 = add(%4, %1) : float32[2, 2]
          return %5
        }
        """,
        target=TARGET,
    )


def test_what_is_not_packed() -> None:
    """One column would be padded to a panel of eight; integers and stacks have no packed form."""
    graph = parse_graph(
        """
        graph "g" (%x: float32[4, 2], %i: int32[4, 2], %b: float32[1, 4, 2]) {
          %w = constant() {value = float32[2, 1] (0x1p+0, 0x1p+1)} : float32[2, 1]
          %y = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 1]
          %v = constant() {value = int32[2, 2] (1, 2, 3, 4)} : int32[2, 2]
          %z = contract(%i, %v) {transpose_a = False, transpose_b = False} : int32[4, 2]
          %u = constant() {value = float32[1, 2, 2]
            (0x1p+0, 0x1p+1, 0x1p+2, 0x1p+3)} : float32[1, 2, 2]
          %t = contract(%b, %u) {transpose_a = False, transpose_b = False} : float32[1, 4, 2]
          return %y, %z, %t
        }
        """
    )
    assert layout(graph, PassContext(target=TARGET)) is graph
