"""What fusion makes of views and of what is picked, text in, text out: one decision a test."""

from __future__ import annotations

from fusion_reasons import check_fusion

from passes.fusion.fusion import FUSE


def test_a_group_is_computed_at_the_index_of_a_view_that_alone_reads_it() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[8, 4]) {
          %a = exp(%x) : float32[4, 8]
          %t = transpose(%a) {axes = (1, 0)} : float32[8, 4]
          %b = add(%t, %y) : float32[8, 4]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 4]) {
          %2 = fused(%0, %1) : float32[8, 4] {
            region "body" (%0: float32[4, 8], %1: float32[8, 4]) {
              %2 = exp(%0) : float32[4, 8]
              %3 = transpose(%2) {axes = (1, 0)} : float32[8, 4]
              %4 = add(%3, %1) : float32[8, 4]
              return %4
            }
          }
          return %2
        }
        """,
        made=[FUSE, FUSE],
    )


def test_a_view_of_what_others_read_too_begins_a_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8]) {
          %a = exp(%x) : float32[4, 8]
          %t = transpose(%a) {axes = (1, 0)} : float32[8, 4]
          %b = negative(%t) : float32[8, 4]
          return %a, %b
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
          %2 = fused(%1) : float32[8, 4] {
            region "body" (%0: float32[4, 8]) {
              %1 = transpose(%0) {axes = (1, 0)} : float32[8, 4]
              %2 = negative(%1) : float32[8, 4]
              return %2
            }
          }
          return %1, %2
        }
        """,
        made=[FUSE],
        refused=["the group has other readers than the view"],
    )


def test_a_view_that_repeats_elements_begins_a_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[8], %y: float32[4, 8]) {
          %a = exp(%x) : float32[8]
          %w = broadcast_to(%a) {shape = (4, 8)} : float32[4, 8]
          %b = maximum(%w, %y) : float32[4, 8]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[8], %1: float32[4, 8]) {
          %2 = fused(%0) : float32[8] {
            region "body" (%0: float32[8]) {
              %1 = exp(%0) : float32[8]
              return %1
            }
          }
          %3 = fused(%2, %1) : float32[4, 8] {
            region "body" (%0: float32[8], %1: float32[4, 8]) {
              %2 = broadcast_to(%0) {shape = (4, 8)} : float32[4, 8]
              %3 = maximum(%2, %1) : float32[4, 8]
              return %3
            }
          }
          return %3
        }
        """,
        made=[FUSE],
        refused=["a view that repeats elements would repeat the work"],
    )


def test_a_reshape_of_what_is_in_memory_is_no_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %y: float32[32]) {
          %r = reshape(%x) {shape = (32,)} : float32[32]
          %b = add(%r, %y) : float32[32]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[32]) {
          %2 = reshape(%0) {shape = (32,)} : float32[32]
          %3 = fused(%2, %1) : float32[32] {
            region "body" (%0: float32[32], %1: float32[32]) {
              %2 = add(%0, %1) : float32[32]
              return %2
            }
          }
          return %3
        }
        """,
    )


def test_what_is_picked_from_memory_begins_a_kernel_that_work_joins() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[200, 4], %i: int8[3]) {
          %a = exp(%x) : float32[200, 4]
          %p = take(%a, %i) {axis = 0} : float32[3, 4]
          %b = negative(%p) : float32[3, 4]
          return %b
        }
        """,
        """
        graph "g" (%0: float32[200, 4], %1: int8[3]) {
          %2 = fused(%0) : float32[200, 4] {
            region "body" (%0: float32[200, 4]) {
              %1 = exp(%0) : float32[200, 4]
              return %1
            }
          }
          %3 = fused(%2, %1) : float32[3, 4] {
            region "body" (%0: float32[200, 4], %1: int8[3]) {
              %2 = take(%0, %1) {axis = 0} : float32[3, 4]
              %3 = negative(%2) : float32[3, 4]
              return %3
            }
          }
          return %3
        }
        """,
        made=[FUSE],
    )


def test_all_indices_are_checked_whatever_a_view_looks_at() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[200], %i: int8[6]) {
          %p = take(%x, %i) {axis = 0} : float32[6]
          %s = slice(%p) {size = (2,), start = (1,), step = (1,)} : float32[2]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[200], %1: int8[6]) {
          %2 = fused(%0, %1) : float32[6] {
            region "body" (%0: float32[200], %1: int8[6]) {
              %2 = take(%0, %1) {axis = 0} : float32[6]
              return %2
            }
          }
          %3 = fused(%2) : float32[2] {
            region "body" (%0: float32[6]) {
              %1 = slice(%0) {size = (2,), start = (1,), step = (1,)} : float32[2]
              return %1
            }
          }
          return %3
        }
        """,
        refused=["all its indices are checked, whatever part is looked at"],
    )
