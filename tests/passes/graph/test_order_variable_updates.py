"""Updates behind the readers of old values, text in, text out."""

from __future__ import annotations

from functools import partial

from check import check_pass

from graphc.ir.text.parser import parse_graph
from passes.graph.order_variable_updates import order_variable_updates
from passes.infra.base import PassContext

check_updates = partial(check_pass, order_variable_updates, regions=False)

# --- variables -----------------------------------------------------------------------------------


def test_readers_of_an_old_value_come_before_its_update() -> None:
    text = """
        graph "g" (%x: float32[8, 8], %w: float32[8, 8]) {
          %n = add(%w, %x) : float32[8, 8]
          %p = multiply(%x, %w) : float32[8, 8]
          %t = tanh(%p) : float32[8, 8]
          return %t, %n
        }
        """
    check_updates(
        text,
        """
        graph "g" (%0: float32[8, 8], %1: float32[8, 8]) {
          %2 = multiply(%0, %1) : float32[8, 8]
          %3 = add(%1, %0) : float32[8, 8]
          %4 = tanh(%2) : float32[8, 8]
          return %4, %3
        }
        """,
        renewed=((1, 1),),
    )
    graph = parse_graph(text)
    assert order_variable_updates(graph, PassContext()) is graph


def test_what_may_fail_comes_before_all_updates() -> None:
    """Of which one is written without having been read."""
    check_updates(
        """
        graph "g" (%x: float32[200], %w: float32[200], %i: int8[3], %b: float32[3]) {
          %n = add(%w, %x) : float32[200]
          %t = tanh(%x) : float32[200]
          %p = take(%t, %i) {axis = 0} : float32[3]
          %c = add(%b, %p) : float32[3]
          %e = exp(%c) : float32[3]
          return %e, %n, %c
        }
        """,
        """
        graph "g" (%0: float32[200], %1: float32[200], %2: int8[3], %3: float32[3]) {
          %4 = tanh(%0) : float32[200]
          %5 = take(%4, %2) {axis = 0} : float32[3]
          %6 = add(%1, %0) : float32[200]
          %7 = add(%3, %5) : float32[3]
          %8 = exp(%7) : float32[3]
          return %8, %6, %7
        }
        """,
        renewed=((1, 1), (None, 2)),
    )


def test_control_flow_comes_before_all_updates() -> None:
    check_updates(
        """
        graph "g" (%p: bool[], %x: float32[4], %w: float32[4]) {
          %n = add(%w, %x) : float32[4]
          %c = cond(%p, %x) : float32[4] {
            region "then" (%y: float32[4]) { return %y }
            region "else" (%z: float32[4]) { %v = negative(%z) : float32[4] return %v }
          }
          return %c, %n
        }
        """,
        """
        graph "g" (%0: bool[], %1: float32[4], %2: float32[4]) {
          %3 = cond(%0, %1) : float32[4] {
            region "then" (%0: float32[4]) {
              return %0
            }
            region "else" (%0: float32[4]) {
              %1 = negative(%0) : float32[4]
              return %1
            }
          }
          %4 = add(%2, %1) : float32[4]
          return %3, %4
        }
        """,
        renewed=((2, 1),),
    )


def test_a_reader_of_both_values_leaves_the_order() -> None:
    graph = parse_graph(
        """
        graph "g" (%x: float32[8, 8], %w: float32[8, 8]) {
          %n = add(%w, %x) : float32[8, 8]
          %p = multiply(%n, %w) : float32[8, 8]
          return %p, %n
        }
        """
    )
    assert order_variable_updates(graph, PassContext(renewed=((1, 1),))) is graph


def test_what_may_fail_and_needs_a_new_value_leaves_the_order() -> None:
    graph = parse_graph(
        """
        graph "g" (%x: float32[200], %w: float32[200], %i: int8[3]) {
          %n = add(%w, %x) : float32[200]
          %t = tanh(%n) : float32[200]
          %p = take(%t, %i) {axis = 0} : float32[3]
          return %p, %n
        }
        """
    )
    assert order_variable_updates(graph, PassContext(renewed=((1, 1),))) is graph


# --- scatters ------------------------------------------------------------------------------------


def test_readers_of_what_a_scatter_adds_to_come_before_it() -> None:
    check_updates(
        """
        graph "g" (%x: float32[200], %i: int8[3], %u: float32[3]) {
          %s = fused(%x, %i, %u) : float32[200] {
            region "body" (%x: float32[200], %i: int8[3], %u: float32[3]) {
              %0 = scatter_add(%x, %i, %u) {axis = 0} : float32[200]
              return %0
            }
          }
          %n = negative(%x) : float32[200]
          return %s, %n
        }
        """,
        """
        graph "g" (%0: float32[200], %1: int8[3], %2: float32[3]) {
          %3 = negative(%0) : float32[200]
          %4 = fused(%0, %1, %2) : float32[200] {
            region "body" (%0: float32[200], %1: int8[3], %2: float32[3]) {
              %3 = scatter_add(%0, %1, %2) {axis = 0} : float32[200]
              return %3
            }
          }
          return %4, %3
        }
        """,
    )


SCATTER = """
        graph "g" (%w: float32[{size}], %v: float32[{size}], %i: int8[3], %u: float32[3]) {{
          %n = fused(%v) : float32[{size}] {{
            region "body" (%y: float32[{size}]) {{
              %0 = negative(%y) : float32[{size}]
              return %0
            }}
          }}
          %s = fused(%w, %i, %u) : float32[{size}] {{
            region "body" (%x: float32[{size}], %i: int8[3], %u: float32[3]) {{
              %0 = scatter_add(%x, %i, %u) {{axis = 0}} : float32[{size}]
              return %0
            }}
          }}
          return %s, %n
        }}
        """


def test_a_scatter_to_a_large_variable_is_checked_ahead() -> None:
    """So nothing is written where an index is wrong."""
    check_updates(
        SCATTER.format(size=65536),
        """
        graph "g" (%0: float32[65536], %1: float32[65536], %2: int8[3], %3: float32[3]) {
          %4 = fused(%1) : float32[65536] {
            region "body" (%0: float32[65536]) {
              %1 = negative(%0) : float32[65536]
              return %1
            }
          }
          %5 = fused(%0, %2, %3) {ahead = True} : float32[65536] {
            region "body" (%0: float32[65536], %1: int8[3], %2: float32[3]) {
              %3 = scatter_add(%0, %1, %2) {axis = 0} : float32[65536]
              return %3
            }
          }
          return %5, %4
        }
        """,
        renewed=((0, 0), (1, 1)),
    )


def test_a_scatter_to_a_small_variable_is_checked_when_it_runs() -> None:
    check_updates(
        SCATTER.format(size=200),
        """
        graph "g" (%0: float32[200], %1: float32[200], %2: int8[3], %3: float32[3]) {
          %4 = fused(%1) : float32[200] {
            region "body" (%0: float32[200]) {
              %1 = negative(%0) : float32[200]
              return %1
            }
          }
          %5 = fused(%0, %2, %3) : float32[200] {
            region "body" (%0: float32[200], %1: int8[3], %2: float32[3]) {
              %3 = scatter_add(%0, %1, %2) {axis = 0} : float32[200]
              return %3
            }
          }
          return %5, %4
        }
        """,
        renewed=((0, 0), (1, 1)),
    )


# --- loops ---------------------------------------------------------------------------------------


def test_readers_of_a_carried_value_come_before_the_next_one() -> None:
    check_updates(
        """
        graph "g" (%n: int8[], %x: float32[4]) {
          %c, %r = while(%n, %x) {carried = 2} : int8[], float32[4] {
            region "condition" (%i: int8[], %v: float32[4]) {
              %z = constant() {value = int8[] 0} : int8[]
              %p = greater(%i, %z) : bool[]
              return %p
            }
            region "body" (%i: int8[], %v: float32[4]) {
              %d = constant() {value = int8[] 8} : int8[]
              %j = subtract(%i, %d) : int8[]
              %w = negative(%v) : float32[4]
              %f = astype(%i) {dtype = @float32} : float32[]
              %q = multiply(%w, %f) : float32[4]
              return %j, %q
            }
          }
          return %r
        }
        """,
        """
        graph "g" (%0: int8[], %1: float32[4]) {
          %2, %3 = while(%0, %1) {carried = 2} : int8[], float32[4] {
            region "condition" (%0: int8[], %1: float32[4]) {
              %2 = constant() {value = int8[] 0} : int8[]
              %3 = greater(%0, %2) : bool[]
              return %3
            }
            region "body" (%0: int8[], %1: float32[4]) {
              %2 = constant() {value = int8[] 8} : int8[]
              %3 = negative(%1) : float32[4]
              %4 = astype(%0) {dtype = @float32} : float32[]
              %5 = subtract(%0, %2) : int8[]
              %6 = multiply(%3, %4) : float32[4]
              return %5, %6
            }
          }
          return %3
        }
        """,
    )
