"""Control flow whose way is known: branches are taken, loops that never run left out."""

from __future__ import annotations

from check import check_pass

from passes.control_flow.known_branches import known_branches

# --- known ways ----------------------------------------------------------------------------------


def test_branches_with_a_known_predicate_are_taken() -> None:
    """The second cond is in a branch of the first, which gives a capture, and a value twice."""
    context = check_pass(
        known_branches,
        """
        graph "g" (%x: float32[4], %y: float32[4]) {
          %t = constant() {value = bool[] True} : bool[]
          %f = constant() {value = bool[] False} : bool[]
          %a "first", %b, %c = cond(%t, %x, %y, %f) : float32[4], float32[4], float32[4] {
            region "then" (%s: float32[4], %r: float32[4], %f: bool[]) {
              %u = exp(%s) : float32[4]
              %v = cond(%f, %u, %r) : float32[4] {
                region "then" (%s: float32[4], %r: float32[4]) { return %s }
                region "else" (%s: float32[4], %r: float32[4]) {
                  %w = add(%s, %r) : float32[4]
                  return %w
                }
              }
              return %v, %r, %v
            }
            region "else" (%s: float32[4], %r: float32[4], %f: bool[]) { return %s, %s, %s }
          }
          return %a, %b, %c
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[4]) {
          %2 = constant() {value = bool[] True} : bool[]
          %3 = constant() {value = bool[] False} : bool[]
          %4 = exp(%0) : float32[4]
          %5 "first" = add(%4, %1) : float32[4]
          return %5, %1, %5
        }
        """,
    )
    assert [decision.rule for decision in context.decisions].count("known-branch") == 2


def test_branches_know_their_predicate() -> None:
    """then: p and q hold, so not p does not; else: nothing is known of p or q alone."""
    check_pass(
        known_branches,
        """
        graph "g" (%p: bool[], %q: bool[], %x: float32[4]) {
          %n = bitwise_not(%p) : bool[]
          %b = bitwise_and(%p, %q) : bool[]
          %a, %m = cond(%b, %x, %p, %n) : float32[4], bool[] {
            region "then" (%x: float32[4], %p: bool[], %n: bool[]) {
              %a = cond(%p, %x) : float32[4] {
                region "then" (%x: float32[4]) { %e = exp(%x) : float32[4] return %e }
                region "else" (%x: float32[4]) { return %x }
              }
              return %a, %n
            }
            region "else" (%x: float32[4], %p: bool[], %n: bool[]) {
              %a = cond(%p, %x) : float32[4] {
                region "then" (%x: float32[4]) { %l = log(%x) : float32[4] return %l }
                region "else" (%x: float32[4]) { return %x }
              }
              return %a, %n
            }
          }
          return %a, %m
        }
        """,
        """
        graph "g" (%0: bool[], %1: bool[], %2: float32[4]) {
          %3 = bitwise_not(%0) : bool[]
          %4 = bitwise_and(%0, %1) : bool[]
          %5, %6 = cond(%4, %2, %0, %3) : float32[4], bool[] {
            region "then" (%0: float32[4], %1: bool[], %2: bool[]) {
              %3 = constant() {value = bool[] True} : bool[]
              %4 = constant() {value = bool[] False} : bool[]
              %5 = exp(%0) : float32[4]
              return %5, %4
            }
            region "else" (%0: float32[4], %1: bool[], %2: bool[]) {
              %3 = cond(%1, %0) : float32[4] {
                region "then" (%0: float32[4]) {
                  %1 = log(%0) : float32[4]
                  return %1
                }
                region "else" (%0: float32[4]) {
                  return %0
                }
              }
              return %3, %2
            }
          }
          return %5, %6
        }
        """,
    )


def test_negated_predicates_swap_branches() -> None:
    check_pass(
        known_branches,
        """
        graph "g" (%p: bool[], %x: float32[4]) {
          %n = bitwise_not(%p) : bool[]
          %a = cond(%n, %x) : float32[4] {
            region "then" (%x: float32[4]) { %e = exp(%x) : float32[4] return %e }
            region "else" (%x: float32[4]) { %l = log(%x) : float32[4] return %l }
          }
          return %a
        }
        """,
        """
        graph "g" (%0: bool[], %1: float32[4]) {
          %2 = bitwise_not(%0) : bool[]
          %3 = cond(%0, %1) : float32[4] {
            region "then" (%0: float32[4]) {
              %1 = log(%0) : float32[4]
              return %1
            }
            region "else" (%0: float32[4]) {
              %1 = exp(%0) : float32[4]
              return %1
            }
          }
          return %3
        }
        """,
    )


def test_loops_that_never_run_give_their_start() -> None:
    check_pass(
        known_branches,
        """
        graph "g" (%x: float32[4]) {
          %three = constant() {value = int64[] 3} : int64[]
          %i, %y = while(%three, %x, %three) {carried = 2} : int64[], float32[4] {
            region "condition" (%i: int64[], %y: float32[4], %n: int64[]) {
              %u = less(%i, %n) : bool[]
              return %u
            }
            region "body" (%i: int64[], %y: float32[4], %n: int64[]) {
              %z = exp(%y) : float32[4]
              return %n, %z
            }
          }
          return %i, %y
        }
        """,
        """
        graph "g" (%0: float32[4]) {
          %1 = constant() {value = int64[] 3} : int64[]
          return %1, %0
        }
        """,
    )
