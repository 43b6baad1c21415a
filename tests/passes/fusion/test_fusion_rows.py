"""What fusion makes of reductions, and of scans, scatters and concatenations, text in, text out."""

from __future__ import annotations

from fusion_reasons import check_fusion

from graphc.ops.fusion_contract import ALL_ROWS, AXIS, OTHER_ROWS
from passes.fusion.fusion import FUSE, MERGE, SIBLINGS
from passes.fusion.groups import CHOICE, CLOSED

# --- rows ----------------------------------------------------------------------------------------


def test_a_reduction_and_what_elements_do_with_it_are_one_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %e = exp(%x) : float32[4, 8]
          %s = reduce_sum(%e) {axis = 1, order = "lanes"} : float32[4]
          %r = reshape(%s) {shape = (4, 1)} : float32[4, 1]
          %q = divide(%e, %r) : float32[4, 8]
          return %q
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              %2 = reduce_sum(%1) {axis = 1, order = "lanes"} : float32[4]
              %3 = reshape(%2) {shape = (4, 1)} : float32[4, 1]
              %4 = divide(%1, %3) : float32[4, 8]
              return %4
            }
          }
          return %1
        }
        """,
        made=[FUSE] * 3,
    )


def test_a_reduction_of_a_reduction_is_a_stage_more() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %m = reduce_max(%x) {axis = 1, order = "lanes"} : float32[4]
          %r = reshape(%m) {shape = (4, 1)} : float32[4, 1]
          %d = subtract(%x, %r) : float32[4, 8]
          %e = exp(%d) : float32[4, 8]
          %s = reduce_sum(%e) {axis = 1, order = "lanes"} : float32[4]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1 = fused(%0) : float32[4] {
            region "body" (%0: float32[4, 8]) {
              %1 = reduce_max(%0) {axis = 1, order = "lanes"} : float32[4]
              %2 = reshape(%1) {shape = (4, 1)} : float32[4, 1]
              %3 = subtract(%0, %2) : float32[4, 8]
              %4 = exp(%3) : float32[4, 8]
              %5 = reduce_sum(%4) {axis = 1, order = "lanes"} : float32[4]
              return %5
            }
          }
          return %1
        }
        """,
        made=[FUSE] * 4,
    )


def test_reductions_of_other_axes_are_kernels_of_their_own() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %s = reduce_sum(%x) {axis = 1, order = "lanes"} : float32[4]
          %r = reshape(%s) {shape = (4, 1)} : float32[4, 1]
          %d = subtract(%x, %r) : float32[4, 8]
          %t = reduce_sum(%d) {axis = 0, order = "chain"} : float32[8]
          return %t
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = reduce_sum(%0) {axis = 1, order = "lanes"} : float32[4]
              %2 = reshape(%1) {shape = (4, 1)} : float32[4, 1]
              %3 = subtract(%0, %2) : float32[4, 8]
              return %3
            }
          }
          %2 = fused(%1) : float32[8] {
            region "body" (%0: float32[4, 8]) {
              %1 = reduce_sum(%0) {axis = 0, order = "chain"} : float32[8]
              return %1
            }
          }
          return %2
        }
        """,
        made=[FUSE] * 2,
        refused=[AXIS],
    )


def test_reductions_of_the_same_rows_become_one_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %s = reduce_sum(%x) {axis = 1, order = "lanes"} : float32[4]
          %m = reduce_max(%x) {axis = 1, order = "lanes"} : float32[4]
          return %s, %m
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1, %2 = fused(%0) : float32[4], float32[4] {
            region "body" (%0: float32[4, 8]) {
              %1 = reduce_sum(%0) {axis = 1, order = "lanes"} : float32[4]
              %2 = reduce_max(%0) {axis = 1, order = "lanes"} : float32[4]
              return %1, %2
            }
          }
          return %1, %2
        }
        """,
        made=[SIBLINGS],
    )


def test_reductions_of_several_values_stay_apart() -> None:
    """Both operands would be kept alive for nothing."""
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4, 8]) {
          %s = reduce_sum(%x) {axis = 1, order = "lanes"} : float32[4]
          %t = reduce_sum(%y) {axis = 1, order = "lanes"} : float32[4]
          %d = subtract(%s, %t) : float32[4]
          return %d
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4, 8]) {
          %2 = fused(%1) : float32[4] {
            region "body" (%0: float32[4, 8]) {
              %1 = reduce_sum(%0) {axis = 1, order = "lanes"} : float32[4]
              return %1
            }
          }
          %3 = fused(%0, %2) : float32[4] {
            region "body" (%0: float32[4, 8], %1: float32[4]) {
              %2 = reduce_sum(%0) {axis = 1, order = "lanes"} : float32[4]
              %3 = subtract(%2, %1) : float32[4]
              return %3
            }
          }
          return %3
        }
        """,
        made=[FUSE],
        refused=["they read nothing in common, so both operands would be kept alive for nothing"],
    )


def test_work_on_one_element_a_row_joins_the_rows() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4]) {
          %a = tanh(%y) : float32[4]
          %s = reduce_sum(%x) {axis = 1, order = "lanes"} : float32[4]
          %b = add(%s, %a) : float32[4]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4]) {
          %2 = fused(%1, %0) : float32[4] {
            region "body" (%0: float32[4], %1: float32[4, 8]) {
              %2 = tanh(%0) : float32[4]
              %3 = reduce_sum(%1) {axis = 1, order = "lanes"} : float32[4]
              %4 = add(%3, %2) : float32[4]
              return %4
            }
          }
          return %2
        }
        """,
        made=[FUSE, MERGE],
    )


def test_elements_can_not_use_the_reductions_of_other_rows() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[8, 8]) {
          %s = reduce_sum(%x) {axis = 1, order = "lanes"} : float32[8]
          %d = subtract(%x, %s) : float32[8, 8]
          return %d
        }
        """,
        """
        graph "g" (%0: float32[8, 8]) {
          %1 = fused(%0) : float32[8] {
            region "body" (%0: float32[8, 8]) {
              %1 = reduce_sum(%0) {axis = 1, order = "lanes"} : float32[8]
              return %1
            }
          }
          %2 = fused(%0, %1) : float32[8, 8] {
            region "body" (%0: float32[8, 8], %1: float32[8]) {
              %2 = subtract(%0, %1) : float32[8, 8]
              return %2
            }
          }
          return %2
        }
        """,
        refused=[OTHER_ROWS],
    )


def test_a_view_of_all_rows_is_no_part_of_a_row() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %m = reduce_max(%x) {axis = 1, order = "lanes"} : float32[4]
          %r = reshape(%m) {shape = (4, 1)} : float32[4, 1]
          %d = subtract(%x, %r) : float32[4, 8]
          %t = transpose(%d) {axes = (1, 0)} : float32[8, 4]
          return %t
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = reduce_max(%0) {axis = 1, order = "lanes"} : float32[4]
              %2 = reshape(%1) {shape = (4, 1)} : float32[4, 1]
              %3 = subtract(%0, %2) : float32[4, 8]
              return %3
            }
          }
          %2 = fused(%1) : float32[8, 4] {
            region "body" (%0: float32[4, 8]) {
              %1 = transpose(%0) {axes = (1, 0)} : float32[8, 4]
              return %1
            }
          }
          return %2
        }
        """,
        made=[FUSE] * 2,
        refused=[ALL_ROWS],
    )


# --- scans, scatters, concatenations -------------------------------------------------------------


def test_a_scan_stands_alone() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %e = exp(%x) : float32[4, 8]
          %c = cumsum(%e) {axis = 1} : float32[4, 8]
          %n = negative(%c) : float32[4, 8]
          return %n
        }
        """,
        """
        graph "g" (%0: float32[4, 8]) {
          %1 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              return %1
            }
          }
          %2 = fused(%1) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = cumsum(%0) {axis = 1} : float32[4, 8]
              return %1
            }
          }
          %3 = fused(%2) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = negative(%0) : float32[4, 8]
              return %1
            }
          }
          return %3
        }
        """,
        refused=[CLOSED],
    )


def test_work_joins_a_concatenation_and_a_reduction_does_not() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4, 3]) {
          %c = concatenate(%x, %y) {axis = 1} : float32[4, 11]
          %e = exp(%c) : float32[4, 11]
          %s = reduce_sum(%e) {axis = 1, order = "lanes"} : float32[4]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4, 3]) {
          %2 = fused(%0, %1) : float32[4, 11] {
            region "body" (%0: float32[4, 8], %1: float32[4, 3]) {
              %2 = concatenate(%0, %1) {axis = 1} : float32[4, 11]
              %3 = exp(%2) : float32[4, 11]
              return %3
            }
          }
          %3 = fused(%2) : float32[4] {
            region "body" (%0: float32[4, 11]) {
              %1 = reduce_sum(%0) {axis = 1, order = "lanes"} : float32[4]
              return %1
            }
          }
          return %3
        }
        """,
        made=[FUSE],
        refused=[CHOICE],
    )


def test_a_piece_is_put_in_its_slice_by_the_kernel_that_makes_it() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[4, 3]) {
          %e = exp(%x) : float32[4, 8]
          %p = place_slice(%e) {shape = (4, 11), starts = (0, 0)} : float32[4, 11]
          %q = place_slice(%y) {shape = (4, 11), starts = (0, 8)} : float32[4, 11]
          %j = join_slices(%p, %q) {axis = 1, starts = (0, 8)} : float32[4, 11]
          return %j
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[4, 3]) {
          %2 = fused(%0) : float32[4, 11] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              %2 = place_slice(%1) {shape = (4, 11), starts = (0, 0)} : float32[4, 11]
              return %2
            }
          }
          %3 = fused(%1) : float32[4, 11] {
            region "body" (%0: float32[4, 3]) {
              %1 = place_slice(%0) {shape = (4, 11), starts = (0, 8)} : float32[4, 11]
              return %1
            }
          }
          %4 = join_slices(%2, %3) {axis = 1, starts = (0, 8)} : float32[4, 11]
          return %4
        }
        """,
        made=[FUSE],
    )


def test_a_scatter_puts_nothing_in_a_slice() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[200], %i: int8[3], %u: float32[3]) {
          %s = scatter_add(%x, %i, %u) {axis = 0} : float32[200]
          %p = place_slice(%s) {shape = (200,), starts = (0,)} : float32[200]
          %j = join_slices(%p) {axis = 0, starts = (0,)} : float32[200]
          return %j
        }
        """,
        """
        graph "g" (%0: float32[200], %1: int8[3], %2: float32[3]) {
          %3 = fused(%0, %1, %2) : float32[200] {
            region "body" (%0: float32[200], %1: int8[3], %2: float32[3]) {
              %3 = scatter_add(%0, %1, %2) {axis = 0} : float32[200]
              return %3
            }
          }
          %4 = fused(%3) : float32[200] {
            region "body" (%0: float32[200]) {
              %1 = place_slice(%0) {shape = (200,), starts = (0,)} : float32[200]
              %2 = join_slices(%1) {axis = 0, starts = (0,)} : float32[200]
              return %2
            }
          }
          return %4
        }
        """,
        made=["fuse-join"],
        refused=["scatters write to memory of their own"],
    )
