"""What fusion makes of pointwise work, text in, text out: one decision a test."""

from __future__ import annotations

from fusion_reasons import check_fusion

from graphc.ops.fusion_contract import SHAPE
from passes.fusion.fusion import FUSE, MERGE, SIBLINGS
from passes.fusion.groups import CLOSED, CYCLE


def test_a_chain_is_one_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4, 8]) {
          %a = exp(%x) : float32[4, 8]
          %b = add(%a, %y) : float32[4, 8]
          %c = tanh(%b) : float32[4, 8]
          return %c
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4, 8]) {
          %2 = fused(%0, %1) : float32[4, 8] {
            region "body" (%0: float32[4, 8], %1: float32[4, 8]) {
              %2 = exp(%0) : float32[4, 8]
              %3 = add(%2, %1) : float32[4, 8]
              %4 = tanh(%3) : float32[4, 8]
              return %4
            }
          }
          return %2
        }
        """,
        made=[FUSE, FUSE],
    )


def test_what_is_wanted_of_a_chain_is_a_result_of_its_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %a = exp(%x) : float32[4, 8]
          %b = negative(%a) : float32[4, 8]
          return %a, %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1, %2 = fused(%0) : float32[4, 8], float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              %2 = negative(%1) : float32[4, 8]
              return %1, %2
            }
          }
          return %1, %2
        }
        """,
        made=[FUSE],
    )


def test_two_chains_that_meet_become_one_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4, 8]) {
          %a = exp(%x) : float32[4, 8]
          %b = sin(%y) : float32[4, 8]
          %c = multiply(%a, %b) : float32[4, 8]
          return %c
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4, 8]) {
          %2 = fused(%0, %1) : float32[4, 8] {
            region "body" (%0: float32[4, 8], %1: float32[4, 8]) {
              %2 = exp(%0) : float32[4, 8]
              %3 = sin(%1) : float32[4, 8]
              %4 = multiply(%2, %3) : float32[4, 8]
              return %4
            }
          }
          return %2
        }
        """,
        made=[FUSE, MERGE],
    )


def test_work_on_a_row_is_not_repeated_for_each_row() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %row: float32[8]) {
          %a = exp(%row) : float32[8]
          %b = add(%x, %a) : float32[4, 8]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8]) {
          %2 = fused(%1) : float32[8] {
            region "body" (%0: float32[8]) {
              %1 = exp(%0) : float32[8]
              return %1
            }
          }
          %3 = fused(%0, %2) : float32[4, 8] {
            region "body" (%0: float32[4, 8], %1: float32[8]) {
              %2 = add(%0, %1) : float32[4, 8]
              return %2
            }
          }
          return %3
        }
        """,
        refused=[SHAPE],
    )


def test_kernels_that_read_the_same_become_one() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %a = exp(%x) : float32[4, 8]
          %b = sin(%x) : float32[4, 8]
          return %a, %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1, %2 = fused(%0) : float32[4, 8], float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              %2 = sin(%0) : float32[4, 8]
              return %1, %2
            }
          }
          return %1, %2
        }
        """,
        made=[SIBLINGS],
    )


def test_kernels_that_read_nothing_in_common_stay_apart() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4, 8]) {
          %a = exp(%x) : float32[4, 8]
          %b = sin(%y) : float32[4, 8]
          return %a, %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4, 8]) {
          %2 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              return %1
            }
          }
          %3 = fused(%1) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = sin(%0) : float32[4, 8]
              return %1
            }
          }
          return %2, %3
        }
        """,
    )


def test_a_kernel_between_two_keeps_them_apart() -> None:
    """The running sum reads %s and is read by %c, which can't be in one kernel so."""
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[8]) {
          %a = exp(%x) : float32[4, 8]
          %s = reduce_sum(%a) {axis = 0, order = "chain"} : float32[8]
          %t = cumsum(%s) {axis = 0} : float32[8]
          %c = multiply(%a, %t) : float32[4, 8]
          return %c
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8]) {
          %2, %3 = fused(%0) : float32[4, 8], float32[8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              %2 = reduce_sum(%1) {axis = 0, order = "chain"} : float32[8]
              return %1, %2
            }
          }
          %4 = fused(%3) : float32[8] {
            region "body" (%0: float32[8]) {
              %1 = cumsum(%0) {axis = 0} : float32[8]
              return %1
            }
          }
          %5 = fused(%2, %4) : float32[4, 8] {
            region "body" (%0: float32[4, 8], %1: float32[8]) {
              %2 = multiply(%0, %1) : float32[4, 8]
              return %2
            }
          }
          return %5
        }
        """,
        made=[FUSE],
        refused=[CLOSED, CYCLE],
    )


def test_a_number_is_part_of_each_kernel_that_reads_it() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[6]) {
          %c = constant() {value = float32[] 0x1p+1} : float32[]
          %a = multiply(%x, %c) : float32[4, 8]
          %b = multiply(%y, %c) : float32[6]
          return %a, %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[6]) {
          %2 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = constant() {value = float32[] 0x1p+1} : float32[]
              %2 = multiply(%0, %1) : float32[4, 8]
              return %2
            }
          }
          %3 = fused(%1) : float32[6] {
            region "body" (%0: float32[6]) {
              %1 = constant() {value = float32[] 0x1p+1} : float32[]
              %2 = multiply(%0, %1) : float32[6]
              return %2
            }
          }
          return %2, %3
        }
        """,
    )


def test_numbers_in_which_kernels_differ_are_operands() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4], %y: float32[4]) {
          %two = constant() {value = float32[] 0x1p+1} : float32[]
          %three = constant() {value = float32[] 0x1.8p+1} : float32[]
          %a = multiply(%x, %two) : float32[4]
          %b = multiply(%y, %three) : float32[4]
          return %a, %b
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[4]) {
          %2 = constant() {value = float32[] 0x1p+1} : float32[]
          %3 = constant() {value = float32[] 0x1.8p+1} : float32[]
          %4 = fused(%0, %2) : float32[4] {
            region "body" (%0: float32[4], %1: float32[]) {
              %2 = multiply(%0, %1) : float32[4]
              return %2
            }
          }
          %5 = fused(%1, %3) : float32[4] {
            region "body" (%0: float32[4], %1: float32[]) {
              %2 = multiply(%0, %1) : float32[4]
              return %2
            }
          }
          return %4, %5
        }
        """,
    )


def test_counters_are_computed_where_they_are_read() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4], %y: float32[3, 4]) {
          %i = iota() {axis = 0, dtype = @float32, shape = (4,)} : float32[4]
          %a = multiply(%x, %i) : float32[4]
          %b = add(%y, %i) : float32[3, 4]
          return %a, %b
        }
        """,
        """
        graph "g" (%0: float32[4], %1: float32[3, 4]) {
          %2 = fused(%0) : float32[4] {
            region "body" (%0: float32[4]) {
              %1 = iota() {axis = 0, dtype = @float32, shape = (4,)} : float32[4]
              %2 = multiply(%0, %1) : float32[4]
              return %2
            }
          }
          %3 = fused(%1) : float32[3, 4] {
            region "body" (%0: float32[3, 4]) {
              %1 = iota() {axis = 0, dtype = @float32, shape = (4,)} : float32[4]
              %2 = add(%0, %1) : float32[3, 4]
              return %2
            }
          }
          return %2, %3
        }
        """,
    )


def test_of_unknown_sizes_the_smaller_sum_is_computed_at_the_elements_of_the_larger() -> None:
    check_fusion(
        """
        graph "g" (%a: float32[n], %b: float32[m], %c: float32[k]) {
          %d = add(%a, %b) : float32[broadcast(m, n)]
          %e = add(%d, %c) : float32[broadcast(k, m, n)]
          return %e
        }
        """,
        """
        graph "g" (%0: float32[n], %1: float32[m], %2: float32[k]) {
          %3 = fused(%0, %1, %2) : float32[broadcast(k, m, n)] {
            region "body" (%0: float32[n], %1: float32[m], %2: float32[k]) {
              %3 = add(%0, %1) : float32[broadcast(m, n)]
              %4 = add(%3, %2) : float32[broadcast(k, m, n)]
              return %4
            }
          }
          return %3
        }
        """,
        made=[FUSE],
    )


def test_fusion_can_be_switched_off() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4]) {
          %a = exp(%x) : float32[4]
          %b = negative(%a) : float32[4]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[4]) {
          %1 = fused(%0) : float32[4] {
            region "body" (%0: float32[4]) {
              %1 = exp(%0) : float32[4]
              return %1
            }
          }
          %2 = fused(%1) : float32[4] {
            region "body" (%0: float32[4]) {
              %1 = negative(%0) : float32[4]
              return %1
            }
          }
          return %2
        }
        """,
        off={FUSE},
    )
