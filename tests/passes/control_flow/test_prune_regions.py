"""Values that need no control flow: what is dropped of it, and what is led around it."""

from __future__ import annotations

from check import check_pass

from graphc.ir.text.parser import parse_graph
from passes.control_flow.prune_regions import prune_regions
from passes.graph.dce import dce
from passes.infra.base import PassContext

# --- dead results, carries and captures ----------------------------------------------------------


def test_dce_drops_results_of_branches_and_what_they_captured() -> None:
    check_pass(
        dce,
        """
        graph "g" (%p: bool[], %x: float32[4], %y: float32[4]) {
          %l = log(%y) : float32[4]
          %a, %b = cond(%p, %x, %l) : float32[4], float32[4] {
            region "then" (%s: float32[4], %t: float32[4]) {
              %u = exp(%t) : float32[4]
              return %s, %u
            }
            region "else" (%s: float32[4], %t: float32[4]) {
              %v = negative(%s) : float32[4]
              return %v, %t
            }
          }
          return %a
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
          return %3
        }
        """,
    )


def test_dce_drops_carries_that_only_feed_themselves() -> None:
    """c feeds only itself and d, which nobody reads; e is read by the condition."""
    check_pass(
        dce,
        """
        graph "g" (%n: int64[], %x: float32[4]) {
          %z = constant() {value = int64[] 0} : int64[]
          %a, %b, %c, %d, %e = while(%z, %x, %x, %x, %n, %x) {carried = 5} :
              int64[], float32[4], float32[4], float32[4], int64[] {
            region "condition" (%a: int64[], %b: float32[4], %c: float32[4], %d: float32[4],
                                %e: int64[], %k: float32[4]) {
              %u = less(%a, %e) : bool[]
              return %u
            }
            region "body" (%a: int64[], %b: float32[4], %c: float32[4], %d: float32[4],
                           %e: int64[], %k: float32[4]) {
              %one = constant() {value = int64[] 1} : int64[]
              %t = add(%a, %one) : int64[]
              %v = negative(%b) : float32[4]
              %w = multiply(%c, %k) : float32[4]
              %r = add(%d, %c) : float32[4]
              %m = subtract(%e, %one) : int64[]
              return %t, %v, %w, %r, %m
            }
          }
          return %b
        }
        """,
        """
        graph "g" (%0: int64[], %1: float32[4]) {
          %2 = constant() {value = int64[] 0} : int64[]
          %3, %4, %5 = while(%2, %1, %0) {carried = 3} : int64[], float32[4], int64[] {
            region "condition" (%0: int64[], %1: float32[4], %2: int64[]) {
              %3 = less(%0, %2) : bool[]
              return %3
            }
            region "body" (%0: int64[], %1: float32[4], %2: int64[]) {
              %3 = constant() {value = int64[] 1} : int64[]
              %4 = add(%0, %3) : int64[]
              %5 = negative(%1) : float32[4]
              %6 = subtract(%2, %3) : int64[]
              return %4, %5, %6
            }
          }
          return %4
        }
        """,
    )


# --- values that pass through --------------------------------------------------------------------


def test_carries_that_stand_still_or_change_places_become_captures() -> None:
    """a stands still, b and c start equal and swap, d swaps with e, f ends as it began."""
    context = check_pass(
        prune_regions,
        """
        graph "g" (%n: int64[], %x: float32[4], %y: float32[4]) {
          %z = constant() {value = int64[] 0} : int64[]
          %i, %a, %b, %c, %d, %e, %f = while(%z, %x, %y, %y, %x, %y, %x, %n, %x) {carried = 7} :
              int64[], float32[4], float32[4], float32[4], float32[4], float32[4], float32[4] {
            region "condition" (%i: int64[], %a: float32[4], %b: float32[4], %c: float32[4],
                %d: float32[4], %e: float32[4], %f: float32[4], %n: int64[], %k: float32[4]) {
              %u = less(%i, %n) : bool[]
              return %u
            }
            region "body" (%i: int64[], %a: float32[4], %b: float32[4], %c: float32[4],
                %d: float32[4], %e: float32[4], %f: float32[4], %n: int64[], %k: float32[4]) {
              %one = constant() {value = int64[] 1} : int64[]
              %t = add(%i, %one) : int64[]
              %s = add(%a, %c) : float32[4]
              %v = add(%s, %d) : float32[4]
              return %t, %a, %c, %b, %e, %v, %k
            }
          }
          return %a, %b, %c, %d, %e, %f
        }
        """,
        """
        graph "g" (%0: int64[], %1: float32[4], %2: float32[4]) {
          %3 = constant() {value = int64[] 0} : int64[]
          %4, %5, %6 = while(%3, %1, %2, %0, %1, %2) {carried = 3} : int64[], float32[4],
              float32[4] {
            region "condition" (%0: int64[], %1: float32[4], %2: float32[4], %3: int64[], %4:
                float32[4], %5: float32[4]) {
              %6 = less(%0, %3) : bool[]
              return %6
            }
            region "body" (%0: int64[], %1: float32[4], %2: float32[4], %3: int64[], %4:
                float32[4], %5: float32[4]) {
              %6 = constant() {value = int64[] 1} : int64[]
              %7 = add(%0, %6) : int64[]
              %8 = add(%4, %5) : float32[4]
              %9 = add(%8, %1) : float32[4]
              return %7, %2, %9
            }
          }
          return %1, %2, %2, %5, %6, %1
        }
        """,
    )
    assert [decision.number for decision in context.decisions] == [1]


def test_results_that_branches_share_and_captures_given_twice() -> None:
    check_pass(
        prune_regions,
        """
        graph "g" (%p: bool[], %x: float32[4], %y: float32[4]) {
          %a, %b, %c, %d = cond(%p, %x, %x, %y) : float32[4], float32[4], float32[4], bool[] {
            region "then" (%s: float32[4], %t: float32[4], %r: float32[4]) {
              %v = add(%s, %t) : float32[4]
              %w = constant() {value = bool[] True} : bool[]
              return %s, %v, %v, %w
            }
            region "else" (%s: float32[4], %t: float32[4], %r: float32[4]) {
              %v = subtract(%r, %t) : float32[4]
              %w = constant() {value = bool[] True} : bool[]
              return %t, %v, %v, %w
            }
          }
          return %a, %b, %c, %d
        }
        """,
        """
        graph "g" (%0: bool[], %1: float32[4], %2: float32[4]) {
          %3 = constant() {value = bool[] True} : bool[]
          %4 = cond(%0, %1, %2) : float32[4] {
            region "then" (%0: float32[4], %1: float32[4]) {
              %2 = add(%0, %0) : float32[4]
              %3 = constant() {value = bool[] True} : bool[]
              return %2
            }
            region "else" (%0: float32[4], %1: float32[4]) {
              %2 = subtract(%1, %0) : float32[4]
              %3 = constant() {value = bool[] True} : bool[]
              return %2
            }
          }
          return %1, %4, %4, %3
        }
        """,
    )


def test_zeros_of_both_signs_are_not_one_result() -> None:
    text = """
        graph "g" (%p: bool[]) {
          %a, %b = cond(%p) : float32[], float32[] {
            region "then" () {
              %v = constant() {value = float32[] 0x0p+0} : float32[]
              %w = constant() {value = float32[] nan:0x7fc00000} : float32[]
              return %v, %w
            }
            region "else" () {
              %v = constant() {value = float32[] -0x0p+0} : float32[]
              %w = constant() {value = float32[] nan:0x7fc00001} : float32[]
              return %v, %w
            }
          }
          return %a, %b
        }
        """
    graph = parse_graph(text)
    assert prune_regions(graph, PassContext()) is graph


def test_constants_are_made_inside_at_every_depth() -> None:
    check_pass(
        prune_regions,
        """
        graph "g" (%p: bool[], %x: float32[n]) {
          %c = constant() {value = float32[] 0x1p+1} : float32[]
          %b = broadcast_to(%c) {shape = (dim(n),)} : float32[n]
          %a = cond(%p, %x, %b, %p) : float32[n] {
            region "then" (%x: float32[n], %b: float32[n], %p: bool[]) {
              %a = cond(%p, %x, %b) : float32[n] {
                region "then" (%x: float32[n], %b: float32[n]) {
                  %v = multiply(%x, %b) : float32[n]
                  return %v
                }
                region "else" (%x: float32[n], %b: float32[n]) { return %b }
              }
              return %a
            }
            region "else" (%x: float32[n], %b: float32[n], %p: bool[]) { return %x }
          }
          return %a
        }
        """,
        """
        graph "g" (%0: bool[], %1: float32[n]) {
          %2 = constant() {value = float32[] 0x1p+1} : float32[]
          %3 = broadcast_to(%2) {shape = (dim(n),)} : float32[n]
          %4 = cond(%0, %1, %0) : float32[n] {
            region "then" (%0: float32[n], %1: bool[]) {
              %2 = constant() {value = float32[] 0x1p+1} : float32[]
              %3 = broadcast_to(%2) {shape = (dim(n),)} : float32[n]
              %4 = cond(%1, %0) : float32[n] {
                region "then" (%0: float32[n]) {
                  %1 = constant() {value = float32[] 0x1p+1} : float32[]
                  %2 = broadcast_to(%1) {shape = (dim(n),)} : float32[n]
                  %3 = multiply(%0, %2) : float32[n]
                  return %3
                }
                region "else" (%0: float32[n]) {
                  %1 = constant() {value = float32[] 0x1p+1} : float32[]
                  %2 = broadcast_to(%1) {shape = (dim(n),)} : float32[n]
                  return %2
                }
              }
              return %4
            }
            region "else" (%0: float32[n], %1: bool[]) {
              return %0
            }
          }
          return %4
        }
        """,
    )


def test_loops_inside_loops_hand_values_down() -> None:
    """The inner loop gives back its own carry, so both loops hold x still."""
    check_pass(
        prune_regions,
        """
        graph "g" (%n: int64[], %x: float32[4]) {
          %i, %a, %b = while(%n, %x, %x) {carried = 3} : int64[], float32[4], float32[4] {
            region "condition" (%i: int64[], %a: float32[4], %b: float32[4]) {
              %z = constant() {value = int64[] 0} : int64[]
              %u = greater(%i, %z) : bool[]
              return %u
            }
            region "body" (%i: int64[], %a: float32[4], %b: float32[4]) {
              %one = constant() {value = int64[] 1} : int64[]
              %t = subtract(%i, %one) : int64[]
              %j, %c, %d = while(%t, %a, %b) {carried = 3} : int64[], float32[4], float32[4] {
                region "condition" (%i: int64[], %a: float32[4], %b: float32[4]) {
                  %z = constant() {value = int64[] 0} : int64[]
                  %u = greater(%i, %z) : bool[]
                  return %u
                }
                region "body" (%i: int64[], %a: float32[4], %b: float32[4]) {
                  %one = constant() {value = int64[] 2} : int64[]
                  %t = subtract(%i, %one) : int64[]
                  %w = add(%a, %b) : float32[4]
                  return %t, %a, %w
                }
              }
              return %t, %c, %d
            }
          }
          return %a, %b
        }
        """,
        """
        graph "g" (%0: int64[], %1: float32[4]) {
          %2, %3 = while(%0, %1, %1) {carried = 2} : int64[], float32[4] {
            region "condition" (%0: int64[], %1: float32[4], %2: float32[4]) {
              %3 = constant() {value = int64[] 0} : int64[]
              %4 = greater(%0, %3) : bool[]
              return %4
            }
            region "body" (%0: int64[], %1: float32[4], %2: float32[4]) {
              %3 = constant() {value = int64[] 1} : int64[]
              %4 = subtract(%0, %3) : int64[]
              %5, %6 = while(%4, %1, %2) {carried = 2} : int64[], float32[4] {
                region "condition" (%0: int64[], %1: float32[4], %2: float32[4]) {
                  %3 = constant() {value = int64[] 0} : int64[]
                  %4 = greater(%0, %3) : bool[]
                  return %4
                }
                region "body" (%0: int64[], %1: float32[4], %2: float32[4]) {
                  %3 = constant() {value = int64[] 2} : int64[]
                  %4 = subtract(%0, %3) : int64[]
                  %5 = add(%2, %1) : float32[4]
                  return %4, %5
                }
              }
              return %4, %6
            }
          }
          return %1, %3
        }
        """,
    )
