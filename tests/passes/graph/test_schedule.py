"""The order of steps, text in, text out: which order keeps the fewest bytes alive."""

from __future__ import annotations

from check import check_pass

from graphc.ir.text.parser import parse_graph
from passes.graph.schedule import schedule
from passes.infra.base import PassContext


def test_what_is_large_is_used_up_before_more_of_it_is_made() -> None:
    check_pass(
        schedule,
        """
        graph "g" (%x: float32[64], %y: float32[64]) {
          %a = exp(%x) : float32[64]
          %b = sin(%y) : float32[64]
          %s = reduce_sum(%a) {axis = 0, order = "lanes"} : float32[]
          %t = reduce_sum(%b) {axis = 0, order = "lanes"} : float32[]
          %r = add(%s, %t) : float32[]
          return %r
        }
        """,
        """
        graph "g" (%0: float32[64], %1: float32[64]) {
          %2 = exp(%0) : float32[64]
          %3 = reduce_sum(%2) {axis = 0, order = "lanes"} : float32[]
          %4 = sin(%1) : float32[64]
          %5 = reduce_sum(%4) {axis = 0, order = "lanes"} : float32[]
          %6 = add(%3, %5) : float32[]
          return %6
        }
        """,
    )


def test_what_is_read_late_is_made_late() -> None:
    check_pass(
        schedule,
        """
        graph "g" (%x: float32[4], %y: float32[128]) {
          %w = broadcast_to(%x) {shape = (16, 4)} : float32[16, 4]
          %a = exp(%y) : float32[128]
          %s = reduce_sum(%a) {axis = 0, order = "lanes"} : float32[]
          %p = multiply(%w, %s) : float32[16, 4]
          %t = reduce_sum(%p) {axis = 0, order = "chain"} : float32[4]
          return %t
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[128]) {
          %2 = exp(%1) : float32[128]
          %3 = reduce_sum(%2) {axis = 0, order = "lanes"} : float32[]
          %4 = broadcast_to(%0) {shape = (16, 4)} : float32[16, 4]
          %5 = multiply(%4, %3) : float32[16, 4]
          %6 = reduce_sum(%5) {axis = 0, order = "chain"} : float32[4]
          return %6
        }
        """,
    )


def test_the_operand_that_needs_most_comes_first() -> None:
    """What it leaves is small while the other one is made."""
    check_pass(
        schedule,
        """
        graph "g" (%x: float32[4], %y: float32[64]) {
          %c = exp(%x) : float32[4]
          %d = sin(%c) : float32[4]
          %a = exp(%y) : float32[64]
          %b = sin(%a) : float32[64]
          %s = reshape(%b) {shape = (16, 4)} : float32[16, 4]
          %t = reduce_max(%s) {axis = 0, order = "chain"} : float32[4]
          %r = add(%d, %t) : float32[4]
          return %r
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[64]) {
          %2 = exp(%1) : float32[64]
          %3 = sin(%2) : float32[64]
          %4 = reshape(%3) {shape = (16, 4)} : float32[16, 4]
          %5 = reduce_max(%4) {axis = 0, order = "chain"} : float32[4]
          %6 = exp(%0) : float32[4]
          %7 = sin(%6) : float32[4]
          %8 = add(%7, %5) : float32[4]
          return %8
        }
        """,
    )


def test_a_reshape_is_the_memory_of_what_it_reshapes() -> None:
    """So it makes nothing, and what it reads is in use until its readers have run."""
    check_pass(
        schedule,
        """
        graph "g" (%x: float32[64], %y: float32[64]) {
          %a = exp(%x) : float32[64]
          %m = reshape(%a) {shape = (8, 8)} : float32[8, 8]
          %b = sin(%y) : float32[64]
          %n = reshape(%b) {shape = (8, 8)} : float32[8, 8]
          %s = reduce_sum(%m) {axis = 0, order = "chain"} : float32[8]
          %t = reduce_sum(%n) {axis = 0, order = "chain"} : float32[8]
          %r = add(%s, %t) : float32[8]
          return %r
        }
        """,
        """
        graph "g" (%0: float32[64], %1: float32[64]) {
          %2 = exp(%0) : float32[64]
          %3 = reshape(%2) {shape = (8, 8)} : float32[8, 8]
          %4 = reduce_sum(%3) {axis = 0, order = "chain"} : float32[8]
          %5 = sin(%1) : float32[64]
          %6 = reshape(%5) {shape = (8, 8)} : float32[8, 8]
          %7 = reduce_sum(%6) {axis = 0, order = "chain"} : float32[8]
          %8 = add(%4, %7) : float32[8]
          return %8
        }
        """,
    )


def test_a_whole_is_there_from_its_first_piece_on() -> None:
    """So the pieces come one after the other, and what is made of %y comes before them."""
    check_pass(
        schedule,
        """
        graph "g" (%x: float32[64], %y: float32[512]) {
          %p = place_slice(%x) {shape = (128,), starts = (0,)} : float32[128]
          %a = exp(%y) : float32[512]
          %m = reshape(%a) {shape = (8, 64)} : float32[8, 64]
          %b = reduce_max(%m) {axis = 0, order = "chain"} : float32[64]
          %q = place_slice(%b) {shape = (128,), starts = (64,)} : float32[128]
          %j = join_slices(%p, %q) {axis = 0, starts = (0, 64)} : float32[128]
          %n = negative(%j) : float32[128]
          return %n
        }
        """,
        """
        graph "g" (%0: float32[64], %1: float32[512]) {
          %2 = exp(%1) : float32[512]
          %3 = reshape(%2) {shape = (8, 64)} : float32[8, 64]
          %4 = reduce_max(%3) {axis = 0, order = "chain"} : float32[64]
          %5 = place_slice(%4) {shape = (128,), starts = (64,)} : float32[128]
          %6 = place_slice(%0) {shape = (128,), starts = (0,)} : float32[128]
          %7 = join_slices(%6, %5) {axis = 0, starts = (0, 64)} : float32[128]
          %8 = negative(%7) : float32[128]
          return %8
        }
        """,
    )


def test_inputs_and_results_are_memory_in_any_order() -> None:
    text = """
        graph "g" (%x: float32[64], %y: float32[64]) {
          %a = exp(%x) : float32[64]
          %b = sin(%y) : float32[64]
          %s = reduce_sum(%a) {axis = 0, order = "lanes"} : float32[]
          %t = reduce_sum(%b) {axis = 0, order = "lanes"} : float32[]
          %r = add(%s, %t) : float32[]
          return %a, %b, %r
        }
        """
    graph = parse_graph(text)
    assert schedule(graph, PassContext()) is graph


def test_an_order_that_no_other_is_better_than_stays() -> None:
    graph = parse_graph(
        """
        graph "g" (%x: float32[64], %y: float32[64]) {
          %b = sin(%y) : float32[64]
          %t = reduce_sum(%b) {axis = 0, order = "lanes"} : float32[]
          %a = exp(%x) : float32[64]
          %s = reduce_sum(%a) {axis = 0, order = "lanes"} : float32[]
          %r = add(%s, %t) : float32[]
          return %r
        }
        """
    )
    assert schedule(graph, PassContext()) is graph
