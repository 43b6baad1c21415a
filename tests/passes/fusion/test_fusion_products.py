"""What fusion makes of matrix products and what is computed from them, text in, text out."""

from __future__ import annotations

from fusion_reasons import check_fusion

from graphc.ops.fusion_contract import ONE_PRODUCT, OPERANDS, ORDER
from passes.fusion.fusion import FUSE, MERGE
from passes.fusion.groups import PAIR


def test_bias_and_activation_join_a_product() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 3], %b: float32[3]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 3]
          %s = add(%p, %b) : float32[4, 3]
          %t = tanh(%s) : float32[4, 3]
          return %t
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[3]) {
          %3 = fused(%0, %1, %2) : float32[4, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[3]) {
              %3 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              %4 = add(%3, %2) : float32[4, 3]
              %5 = tanh(%4) : float32[4, 3]
              return %5
            }
          }
          return %3
        }
        """,
        made=[FUSE] * 2,
    )


def test_what_a_product_reads_is_stored() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 3]) {
          %e = exp(%x) : float32[4, 8]
          %p = contract(%e, %w) {transpose_a = False, transpose_b = False} : float32[4, 3]
          return %p
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 3]) {
          %2 = fused(%0) : float32[4, 8] {
            region "body" (%0: float32[4, 8]) {
              %1 = exp(%0) : float32[4, 8]
              return %1
            }
          }
          %3 = fused(%2, %1) : float32[4, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3]) {
              %2 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              return %2
            }
          }
          return %3
        }
        """,
        refused=[OPERANDS],
    )


def test_a_residual_joins_the_product_that_it_is_added_to() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 3], %r: float32[4, 3]) {
          %a = sin(%r) : float32[4, 3]
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 3]
          %s = add(%p, %a) : float32[4, 3]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[4, 3]) {
          %3 = fused(%0, %1, %2) : float32[4, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[4, 3]) {
              %3 = sin(%2) : float32[4, 3]
              %4 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              %5 = add(%4, %3) : float32[4, 3]
              return %5
            }
          }
          return %3
        }
        """,
        made=[FUSE, MERGE],
    )


def test_two_products_stay_apart() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 3], %v: float32[8, 3]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 3]
          %q = contract(%x, %v) {transpose_a = False, transpose_b = False} : float32[4, 3]
          %s = add(%p, %q) : float32[4, 3]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[8, 3]) {
          %3 = fused(%0, %2) : float32[4, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3]) {
              %2 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              return %2
            }
          }
          %4 = fused(%0, %1, %3) : float32[4, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[4, 3]) {
              %3 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              %4 = add(%3, %2) : float32[4, 3]
              return %4
            }
          }
          return %4
        }
        """,
        made=[FUSE],
        refused=[ONE_PRODUCT],
    )


def test_a_reshape_that_leaves_the_last_axis_joins_a_product() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 3], %y: float32[2, 2, 3]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 3]
          %r = reshape(%p) {shape = (2, 2, 3)} : float32[2, 2, 3]
          %s = multiply(%r, %y) : float32[2, 2, 3]
          return %s
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[2, 2, 3]) {
          %3 = fused(%0, %1, %2) : float32[2, 2, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3], %2: float32[2, 2, 3]) {
              %3 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              %4 = reshape(%3) {shape = (2, 2, 3)} : float32[2, 2, 3]
              %5 = multiply(%4, %2) : float32[2, 2, 3]
              return %5
            }
          }
          return %3
        }
        """,
        made=[FUSE] * 2,
    )


def test_a_transpose_of_a_product_begins_a_kernel() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 3]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 3]
          %t = transpose(%p) {axes = (1, 0)} : float32[3, 4]
          %n = negative(%t) : float32[3, 4]
          return %n
        }
        """,
        """
        graph "g" (%0: float32[4, 8], %1: float32[8, 3]) {
          %2 = fused(%0, %1) : float32[4, 3] {
            region "body" (%0: float32[4, 8], %1: float32[8, 3]) {
              %2 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[4, 3]
              return %2
            }
          }
          %3 = fused(%2) : float32[3, 4] {
            region "body" (%0: float32[4, 3]) {
              %1 = transpose(%0) {axes = (1, 0)} : float32[3, 4]
              %2 = negative(%1) : float32[3, 4]
              return %2
            }
          }
          return %3
        }
        """,
        made=[FUSE],
        refused=[ORDER],
    )


def test_reductions_join_a_shallow_product_of_many_rows() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[40, 8], %w: float32[8, 30]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[40, 30]
          %m = reduce_max(%p) {axis = 1, order = "lanes"} : float32[40]
          return %m
        }
        """,
        """
        graph "g" (%0: float32[40, 8], %1: float32[8, 30]) {
          %2 = fused(%0, %1) : float32[40] {
            region "body" (%0: float32[40, 8], %1: float32[8, 30]) {
              %2 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[40, 30]
              %3 = reduce_max(%2) {axis = 1, order = "lanes"} : float32[40]
              return %3
            }
          }
          return %2
        }
        """,
        made=[FUSE],
    )


def test_reductions_do_not_join_a_product_of_few_rows() -> None:
    check_fusion(
        """
        graph "g" (%x: float32[5, 8], %w: float32[8, 30]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[5, 30]
          %m = reduce_max(%p) {axis = 1, order = "lanes"} : float32[5]
          return %m
        }
        """,
        """
        graph "g" (%0: float32[5, 8], %1: float32[8, 30]) {
          %2 = fused(%0, %1) : float32[5, 30] {
            region "body" (%0: float32[5, 8], %1: float32[8, 30]) {
              %2 = contract(%0, %1) {transpose_a = False, transpose_b = False} : float32[5, 30]
              return %2
            }
          }
          %3 = fused(%2) : float32[5] {
            region "body" (%0: float32[5, 30]) {
              %1 = reduce_max(%0) {axis = 1, order = "lanes"} : float32[5]
              return %1
            }
          }
          return %3
        }
        """,
        refused=[
            "only of products of depth up to 256, length up to 16384 and at least 32 rows do whole "
            "rows stay in the cache; here these are 8, 30 and 5"
        ],
    )


def test_a_product_of_rows_of_a_product_completes_a_kernel() -> None:
    """Attention in short; what follows begins a kernel."""
    check_fusion(
        """
        graph "g" (%q: float32[40, 8], %k: float32[30, 8], %v: float32[30, 8]) {
          %p = contract(%q, %k) {transpose_a = False, transpose_b = True} : float32[40, 30]
          %m = reduce_max(%p) {axis = 1, order = "lanes"} : float32[40]
          %r = reshape(%m) {shape = (40, 1)} : float32[40, 1]
          %w = subtract(%p, %r) : float32[40, 30]
          %a = contract(%w, %v) {transpose_a = False, transpose_b = False} : float32[40, 8]
          %n = negative(%a) : float32[40, 8]
          return %n
        }
        """,
        """
        graph "g" (%0: float32[40, 8], %1: float32[30, 8], %2: float32[30, 8]) {
          %3 = fused(%0, %1, %2) : float32[40, 8] {
            region "body" (%0: float32[40, 8], %1: float32[30, 8], %2: float32[30, 8]) {
              %3 = contract(%0, %1) {transpose_a = False, transpose_b = True} : float32[40, 30]
              %4 = reduce_max(%3) {axis = 1, order = "lanes"} : float32[40]
              %5 = reshape(%4) {shape = (40, 1)} : float32[40, 1]
              %6 = subtract(%3, %5) : float32[40, 30]
              %7 = contract(%6, %2) {transpose_a = False, transpose_b = False} : float32[40, 8]
              return %7
            }
          }
          %4 = fused(%3) : float32[40, 8] {
            region "body" (%0: float32[40, 8]) {
              %1 = negative(%0) : float32[40, 8]
              return %1
            }
          }
          return %4
        }
        """,
        made=[FUSE] * 4,
        refused=[PAIR],
    )
