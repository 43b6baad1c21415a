"""What moves out of control flow: invariants of loops, and what is computed outside already."""

from __future__ import annotations

import numpy as np
import pytest
from check import check_pass

import graphc as gx
from graphc.ir.text.parser import parse_graph
from passes.control_flow.loop_invariants import loop_invariants
from passes.graph.cse import cse
from passes.infra.base import PassContext

pytestmark = pytest.mark.check_mode

# --- invariants ----------------------------------------------------------------------------------


def test_hoist_moves_what_pays_with_what_it_reads() -> None:
    """The product moves with its transposed operand, exp and what follows it; scalars stay."""
    context = check_pass(
        loop_invariants,
        """
        graph "g" (%n: int64[], %x: float32[3, 3], %w: float32[3, 3], %s: float32[]) {
          %z = constant() {value = int64[] 0} : int64[]
          %i, %y = while(%z, %x, %n, %w, %s) {carried = 2} : int64[], float32[3, 3] {
            region "condition" (%i: int64[], %y: float32[3, 3], %n: int64[], %w: float32[3, 3],
                %s: float32[]) {
              %one = constant() {value = int64[] 1} : int64[]
              %m = minimum(%n, %one) : int64[]
              %u = less(%i, %m) : bool[]
              return %u
            }
            region "body" (%i: int64[], %y: float32[3, 3], %n: int64[], %w: float32[3, 3],
                %s: float32[]) {
              %one = constant() {value = int64[] 1} : int64[]
              %t = add(%i, %one) : int64[]
              %v = transpose(%w) {axes = (1, 0)} : float32[3, 3]
              %a = contract(%v, %w) {transpose_a = False, transpose_b = False} : float32[3, 3]
              %r = multiply(%s, %s) : float32[]
              %b = multiply(%a, %r) : float32[3, 3]
              %e = exp(%w) : float32[3, 3]
              %c = add(%b, %e) : float32[3, 3]
              %d = add(%y, %c) : float32[3, 3]
              %f = subtract(%d, %v) : float32[3, 3]
              %o = broadcast_to(%s) {shape = (3, 3)} : float32[3, 3]
              %h = add(%f, %o) : float32[3, 3]
              return %t, %h
            }
          }
          return %y
        }
        """,
        """
        graph "g" (%0: int64[], %1: float32[3, 3], %2: float32[3, 3], %3: float32[]) {
          %4 = constant() {value = int64[] 0} : int64[]
          %5 = transpose(%2) {axes = (1, 0)} : float32[3, 3]
          %6 = contract(%5, %2) {transpose_a = False, transpose_b = False} : float32[3, 3]
          %7 = multiply(%3, %3) : float32[]
          %8 = multiply(%6, %7) : float32[3, 3]
          %9 = exp(%2) : float32[3, 3]
          %10 = add(%8, %9) : float32[3, 3]
          %11, %12 = while(%4, %1, %0, %2, %3, %5, %10) {carried = 2} : int64[], float32[3, 3] {
            region "condition" (%0: int64[], %1: float32[3, 3], %2: int64[], %3: float32[3, 3],
                %4: float32[], %5: float32[3, 3], %6: float32[3, 3]) {
              %7 = constant() {value = int64[] 1} : int64[]
              %8 = minimum(%2, %7) : int64[]
              %9 = less(%0, %8) : bool[]
              return %9
            }
            region "body" (%0: int64[], %1: float32[3, 3], %2: int64[], %3: float32[3, 3], %4:
                float32[], %5: float32[3, 3], %6: float32[3, 3]) {
              %7 = constant() {value = int64[] 1} : int64[]
              %8 = add(%0, %7) : int64[]
              %9 = multiply(%4, %4) : float32[]
              %10 = add(%1, %6) : float32[3, 3]
              %11 = subtract(%10, %5) : float32[3, 3]
              %12 = broadcast_to(%4) {shape = (3, 3)} : float32[3, 3]
              %13 = add(%11, %12) : float32[3, 3]
              return %8, %13
            }
          }
          return %12
        }
        """,
    )
    assert {decision.rule for decision in context.decisions} == {"loop_invariants"}


def test_hoist_leaves_what_may_fail_and_what_would_grow() -> None:
    text = """
        graph "g" (%n: int64[], %x: float32[4], %w: float32[4, 1], %k: int64[4]) {
          %i, %y = while(%n, %x, %w, %k, %x) {carried = 2} : int64[], float32[4] {
            region "condition" (%i: int64[], %y: float32[4], %w: float32[4, 1], %k: int64[4],
                %x: float32[4]) {
              %z = constant() {value = int64[] 0} : int64[]
              %u = greater(%i, %z) : bool[]
              return %u
            }
            region "body" (%i: int64[], %y: float32[4], %w: float32[4, 1], %k: int64[4],
                %x: float32[4]) {
              %one = constant() {value = int64[] 1} : int64[]
              %t = subtract(%i, %one) : int64[]
              %a = take(%x, %k) {axis = 0} : float32[4]
              %b = add(%w, %x) : float32[4, 4]
              %v = transpose(%b) {axes = (1, 0)} : float32[4, 4]
              %c = multiply(%v, %y) : float32[4, 4]
              %d = reduce_sum(%c) {axis = 1, order = "lanes"} : float32[4]
              %e = add(%d, %a) : float32[4]
              return %t, %e
            }
          }
          return %y
        }
        """
    graph = parse_graph(text)
    assert loop_invariants(graph, PassContext()) is graph


def test_hoist_moves_through_nested_loops_and_with_branches() -> None:
    check_pass(
        loop_invariants,
        """
        graph "g" (%x: float32[4], %w: float32[4], %p: bool[]) {
          %three = constant() {value = int64[] 3} : int64[]
          %i, %y = while(%three, %x, %w, %p) {carried = 2} : int64[], float32[4] {
            region "condition" (%i: int64[], %y: float32[4], %w: float32[4], %p: bool[]) {
              %z = constant() {value = int64[] 0} : int64[]
              %u = greater(%i, %z) : bool[]
              return %u
            }
            region "body" (%i: int64[], %y: float32[4], %w: float32[4], %p: bool[]) {
              %one = constant() {value = int64[] 1} : int64[]
              %t = subtract(%i, %one) : int64[]
              %j, %v = while(%t, %y, %w, %p) {carried = 2} : int64[], float32[4] {
                region "condition" (%i: int64[], %y: float32[4], %w: float32[4], %p: bool[]) {
                  %z = constant() {value = int64[] 0} : int64[]
                  %u = greater(%i, %z) : bool[]
                  return %u
                }
                region "body" (%i: int64[], %y: float32[4], %w: float32[4], %p: bool[]) {
                  %one = constant() {value = int64[] 1} : int64[]
                  %t = subtract(%i, %one) : int64[]
                  %c = cond(%p, %w) : float32[4] {
                    region "then" (%w: float32[4]) { %e = exp(%w) : float32[4] return %e }
                    region "else" (%w: float32[4]) { return %w }
                  }
                  %v = add(%y, %c) : float32[4]
                  return %t, %v
                }
              }
              return %t, %v
            }
          }
          return %y
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[4], %2: bool[]) {
          %3 = constant() {value = int64[] 3} : int64[]
          %4 = cond(%2, %1) : float32[4] {
            region "then" (%0: float32[4]) {
              %1 = exp(%0) : float32[4]
              return %1
            }
            region "else" (%0: float32[4]) {
              return %0
            }
          }
          %5, %6 = while(%3, %0, %1, %2, %4) {carried = 2} : int64[], float32[4] {
            region "condition" (%0: int64[], %1: float32[4], %2: float32[4], %3: bool[], %4:
                float32[4]) {
              %5 = constant() {value = int64[] 0} : int64[]
              %6 = greater(%0, %5) : bool[]
              return %6
            }
            region "body" (%0: int64[], %1: float32[4], %2: float32[4], %3: bool[], %4:
                float32[4]) {
              %5 = constant() {value = int64[] 1} : int64[]
              %6 = subtract(%0, %5) : int64[]
              %7, %8 = while(%6, %1, %2, %3, %4) {carried = 2} : int64[], float32[4] {
                region "condition" (%0: int64[], %1: float32[4], %2: float32[4], %3: bool[], %4:
                    float32[4]) {
                  %5 = constant() {value = int64[] 0} : int64[]
                  %6 = greater(%0, %5) : bool[]
                  return %6
                }
                region "body" (%0: int64[], %1: float32[4], %2: float32[4], %3: bool[], %4:
                    float32[4]) {
                  %5 = constant() {value = int64[] 1} : int64[]
                  %6 = subtract(%0, %5) : int64[]
                  %7 = add(%1, %4) : float32[4]
                  return %6, %7
                }
              }
              return %6, %8
            }
          }
          return %6
        }
        """,
    )


# --- what is computed inside and outside ---------------------------------------------------------


def test_cse_takes_costly_values_from_outside() -> None:
    """exp(2x) is had from outside, though it is computed after the cond; 2x is cheaper made."""
    check_pass(
        cse,
        """
        graph "g" (%p: bool[], %x: float32[4]) {
          %two = constant() {value = float32[] 0x1p+1} : float32[]
          %a = cond(%p, %x, %two) : float32[4] {
            region "then" (%x: float32[4], %t: float32[]) {
              %m = multiply(%t, %x) : float32[4]
              %e = exp(%m) : float32[4]
              %f = log(%m) : float32[4]
              %g = add(%e, %f) : float32[4]
              return %g
            }
            region "else" (%x: float32[4], %t: float32[]) {
              %m = multiply(%x, %t) : float32[4]
              return %m
            }
          }
          %m = multiply(%x, %two) : float32[4]
          %e = exp(%m) : float32[4]
          return %a, %e
        }
        """,
        """
        graph "g" (%0: bool[], %1: float32[4]) {
          %2 = constant() {value = float32[] 0x1p+1} : float32[]
          %3 = multiply(%1, %2) : float32[4]
          %4 = exp(%3) : float32[4]
          %5 = cond(%0, %1, %2, %4) : float32[4] {
            region "then" (%0: float32[4], %1: float32[], %2: float32[4]) {
              %3 = multiply(%1, %0) : float32[4]
              %4 = log(%3) : float32[4]
              %5 = add(%2, %4) : float32[4]
              return %5
            }
            region "else" (%0: float32[4], %1: float32[], %2: float32[4]) {
              %3 = multiply(%0, %1) : float32[4]
              return %3
            }
          }
          return %5, %4
        }
        """,
    )


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_invariants_leave_a_compiled_loop_and_fail_only_inside(trips: int) -> None:
    """exp is computed before the loop; the element out of range is an error only if it is read."""
    with gx.Graph() as graph:
        n, k = (gx.placeholder((), "int64", name=name) for name in "nk")
        x, w = (gx.placeholder((4,), name=name) for name in "xw")
        scale = gx.constant(2.0)
        _, y, same, _ = gx.while_loop(
            lambda i, *_: i < n,
            lambda i, y, same, unread: (
                i + 1, y * scale + gx.exp(w) + gx.take(w, k), same, unread + y
            ),
            (0, x, w, x),
        )  # fmt: skip
    session = gx.Session(graph)
    executable = session.compile([y, same])
    (loop,) = (node for node in executable.graph.nodes if node.op.name == "while")
    assert loop.attrs["carried"] == 2
    assert "exp" not in {node.op.name for region in loop.regions for node in region.walk()}
    start, weights = np.arange(4, dtype=np.float32), np.array([1, -1, 0.5, 0], np.float32)
    expected = start
    for _ in range(trips):
        expected = expected * 2 + np.exp(weights) + weights[1]
    feeds = {n: trips, k: 1, x: start, w: weights}
    got = session.run([y, same], feeds)
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(got[1], weights)
    if trips:
        with pytest.raises(gx.IndexRangeError):
            session.run(y, {**feeds, k: 9})
    else:
        np.testing.assert_array_equal(session.run(y, {**feeds, k: 9}), start)
