"""Passes over control flow: what is dropped, passed through, folded away and hoisted."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from check import check_pass, same_meaning

import graphc as gx
from graphc.base.options import Options
from graphc.extract import extract
from graphc.interp import evaluate
from graphc.ir.parser import parse_graph
from passes.base import PassContext
from passes.branches import PARTS, branches
from passes.cse import cse
from passes.dce import dce
from passes.hoist import hoist
from passes.manager import run_pipeline
from passes.pipeline import PIPELINE
from passes.prune_regions import prune_regions

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


# --- known ways ----------------------------------------------------------------------------------


def test_branches_with_a_known_predicate_are_taken() -> None:
    """The second cond is in a branch of the first, which gives a capture, and a value twice."""
    context = check_pass(
        branches,
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
        branches,
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
        branches,
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
        branches,
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


# --- invariants ----------------------------------------------------------------------------------


def test_hoist_moves_what_pays_with_what_it_reads() -> None:
    """The product moves with its transposed operand, exp and what follows it; scalars stay."""
    context = check_pass(
        hoist,
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
    assert {decision.rule for decision in context.decisions} == {"hoist"}


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
    assert hoist(graph, PassContext()) is graph


def test_hoist_moves_through_nested_loops_and_with_branches() -> None:
    check_pass(
        hoist,
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


# --- all together, at random and at scale --------------------------------------------------------

ALL_STEPS = [step for step in PIPELINE if step.name not in ("fusion", "schedule")]


def random_program(seed: int) -> tuple[gx.Graph, list[gx.Value], list[gx.Value]]:
    """Control flow of random nesting whose values are exchanged, dropped, repeated and fixed."""
    choose = random.Random(seed)
    with gx.Graph() as graph:
        p, q = (gx.placeholder((), "bool", name=name) for name in "pq")
        x, y = (gx.placeholder((3,), name=name) for name in "xy")

        def predicate(pool: list[gx.Value]) -> gx.Value:
            return choose.choice(
                [p, q, ~p, p & q, p | ~q, gx.constant(True), pool[-1].sum() > 0.0]
            )

        def block(pool: list[gx.Value], depth: int) -> list[gx.Value]:
            """Some values more; the pool is what is in scope."""
            pool = list(pool)
            for _ in range(choose.randint(1, 4)):
                a, b = choose.choice(pool), choose.choice(pool)
                kinds = ["add", "exp", "two", "where"] + ["cond", "loop"] * 2 * (depth > 0)
                kind = choose.choice(kinds)
                if kind == "add":
                    pool.append(a + b)
                elif kind == "exp":
                    pool.append(gx.tanh(gx.exp(a) * b))
                elif kind == "two":
                    pool.append(a * gx.constant(choose.choice([1.0, 2.0, -0.0])))
                elif kind == "where":
                    pool.append(gx.where(predicate(pool), a, b))
                elif kind == "cond":
                    count = choose.randint(1, 3)

                    def branch(pool: list[gx.Value] = pool, count: int = count) -> list[gx.Value]:
                        return choose.choices(block(pool, depth - 1), k=count)

                    pool += gx.cond(predicate(pool), branch, branch)
                else:
                    start = choose.choices(pool, k=choose.randint(1, 4))
                    trips = choose.randint(0, 3)

                    def body(
                        trip: gx.Value, *values: gx.Value, pool: list[gx.Value] = pool
                    ) -> list[gx.Value]:
                        inside = block([*pool, *values], depth - 1)
                        mine = [*values, *values, *inside[-2:]]
                        return [trip + 1, *(choose.choice(mine) for _ in values)]

                    last = gx.while_loop(
                        lambda trip, *values, trips=trips: trip < trips,
                        body,
                        [gx.constant(0), *start],
                    )
                    pool += choose.sample(last[1:], k=choose.randint(1, len(last) - 1))
            return pool

        results = block([x, y, x * 0.5], 3)
    return graph, [p, q, x, y], choose.sample(results, k=min(3, len(results)))


@pytest.mark.parametrize("seed", range(40))
def test_random_control_flow_keeps_its_meaning(seed: int) -> None:
    graph, feeds, fetches = random_program(seed)
    source = extract(graph, fetches, (), dict.fromkeys(feeds)).graph
    for shuffle in (None, seed):
        options = Options(verify=True, numerics="strict", shuffle_seed=shuffle)
        result, _ = run_pipeline(source, ALL_STEPS, PassContext(options))
        same_meaning(source, result)
    fuel = random.Random(seed).randrange(40)
    result, _ = run_pipeline(source, ALL_STEPS, PassContext(Options(verify=True, fuel=fuel)))
    same_meaning(source, result)
    if seed < 8:
        data = np.array([0.5, -0.0, -2.0], np.float32), np.array([1.0, 3.0, -1.0], np.float32)
        for taken in (True, False):
            fed = dict(zip(feeds, (np.array(taken), np.array(True), *data), strict=True))
            got = gx.Session(graph).run(fetches, fed)
            expected = evaluate(source, [fed[value] for value in source.inputs])
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


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


def test_constant_weights_of_a_loop_are_packed_and_stored_once() -> None:
    weights = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32) / 8
    with gx.Graph() as graph:
        x = gx.placeholder((2, 32), name="x")
        w = gx.constant(weights)
        first, second = (
            gx.while_loop(
                lambda i, y, n=n: i < n, lambda i, y: (i + 1, gx.tanh(y @ w)), (0, x)
            )[1]
            for n in (3, 2)
        )
    executable = gx.Session(graph).compile([first, second], [x])
    names = [node.op.name for node in executable.graph.walk()]
    assert names.count("contract_panels") == 2 and "contract" not in names
    stored = [a for a in executable.compiled.plan.constants.values() if a.nbytes >= weights.nbytes]
    assert len(stored) == 1
    given = np.ones((2, 32), np.float32)
    for got, trips in zip(executable(given), (3, 2), strict=True):
        expected = given
        for _ in range(trips):
            expected = np.tanh(expected @ weights)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_what_can_be_switched_off() -> None:
    graph = parse_graph(
        """
        graph "g" (%p: bool[], %x: float32[4]) {
          %t = constant() {value = bool[] True} : bool[]
          %a = cond(%t, %x) : float32[4] {
            region "then" (%x: float32[4]) { %e = exp(%x) : float32[4] return %e }
            region "else" (%x: float32[4]) { return %x }
          }
          return %a
        }
        """
    )
    for rewrite in PARTS:
        result, _ = run_pipeline(graph, PIPELINE, PassContext(Options(off=frozenset({rewrite}))))
        kept = any(node.op.name == "cond" for node in result.nodes)
        assert kept is (rewrite == "known-branch")


def test_forty_levels_of_loops_take_linear_time() -> None:
    """The carry that is exchanged at every level stands still at all of them."""

    def nest(depth: int, a: gx.Value, b: gx.Value, w: gx.Value) -> list[gx.Value]:
        if depth == 0:
            return [b, a, a + gx.exp(w)]

        def body(trip: gx.Value, a: gx.Value, b: gx.Value, c: gx.Value) -> list[gx.Value]:
            first, second, third = nest(depth - 1, a, b, w)
            return [trip + 1, second, first, third + c]

        return list(gx.while_loop(lambda trip, *rest: trip < 1, body, [0, a, b, a])[1:])

    with gx.Graph() as graph:
        x, w = gx.placeholder((3,), name="x"), gx.placeholder((3,), name="w")
        values = nest(40, x, x, w)
    source = extract(graph, values).graph
    started = time.process_time()
    result, _ = run_pipeline(source, ALL_STEPS, PassContext())
    assert time.process_time() - started < 5
    assert [value is x for value in result.outputs] == [True, True, False]
    assert [node.op.name for node in result.nodes].count("exp") == 1
    same_meaning(source, result)


@pytest.mark.parametrize("kind", ["conds", "loops", "wide", "long"])
def test_passes_over_regions_are_linear(kind: str) -> None:
    def seconds(length: int) -> float:
        with gx.Graph() as graph:
            p = gx.placeholder((), "bool", name="p")
            x = gx.placeholder((3,), name="x")
            if kind == "conds":
                y = x
                for number in range(length // 8):
                    y = gx.cond(p, lambda y=y: (y + x, y)[0], lambda y=y, n=number: y * float(n))
                values = [y]
            elif kind == "loops":
                y = x
                for _ in range(length // 8):
                    y = gx.while_loop(
                        lambda i, y: i < 3, lambda i, y: [i + 1, y + gx.exp(x)], [0, y]
                    )[1]
                values = [y]
            else:
                many = [x * float(number) for number in range(length // 4 if kind == "wide" else 1)]

                def body(i: gx.Value, *values: gx.Value) -> list[gx.Value]:
                    if kind == "long":
                        y = values[0]
                        for _ in range(length):
                            y = y + x
                        return [i + 1, y]
                    return [i + 1, *values[1:], values[0]]

                values = list(gx.while_loop(lambda i, *_: i < 3, body, [0, *many])[1:])
        source = extract(graph, values).graph
        started = time.process_time()
        run_pipeline(source, ALL_STEPS, PassContext())
        return time.process_time() - started

    seconds(80)
    few, many = seconds(1000), seconds(8000)
    assert many < 8 * 4 * few + 0.5
