"""Matrix products and what is computed from them, graph text in, kernel text out."""

from __future__ import annotations

from check import check_kernels


def test_a_product_alone_is_one_statement_a_matrix() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[5, 4, 8], %w: float32[5, 8, 30]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[5, 4, 30]
          return %p
        }
        """,
        """
        kernel "contract" (in %x0: float32[5, 4, 8], in %x1: float32[5, 8, 30], out %y0: float32[5, 4, 30], scratch %room: int8[1152]) {
          %0 = const int64 0
          %1 = const int64 120
          %2 = const int64 32
          %3 = const int64 8
          %4 = const int64 240
          %5 = const int64 1
          parallel %6 < 5 {
            %7 = multiply %6, %1
            %8 = multiply %6, %2
            %9 = multiply %6, %4
            contract panel [4, 30, 8] %y0[%7, 30, 1] = %x0[%8, 8, 1] * %x1[%9, 30, 1] workspace %room
          }
        }
        """,
    )


def test_transposed_operands_are_read_by_other_strides() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[8, 4], %w: float32[30, 8]) {
          %p = contract(%x, %w) {transpose_a = True, transpose_b = True} : float32[4, 30]
          return %p
        }
        """,
        """
        kernel "contract" (in %x0: float32[8, 4], in %x1: float32[30, 8], out %y0: float32[4, 30], scratch %room: int8[1152]) {
          %0 = const int64 0
          %1 = const int64 120
          %2 = const int64 32
          %3 = const int64 1
          %4 = const int64 240
          %5 = const int64 8
          contract panel [4, 30, 8] %y0[%0, 30, 1] = %x0[%0, 1, 4] * %x1[%0, 1, 8] workspace %room
        }
        """,
    )


def test_work_behind_a_product_is_done_on_a_block_in_scratch() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 30], %b: float32[30]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 30]
          %s = add(%p, %b) : float32[4, 30]
          return %s
        }
        """,
        """
        kernel "contract_add" (in %x0: float32[4, 8], in %x1: float32[8, 30], in %x2: float32[30], out %y0: float32[4, 30], scratch %room: int8[1152], scratch %block: float32[120]) {
          %0 = const int64 0
          %1 = const int64 30
          %2 = const int64 4
          %3 = const int64 32
          %4 = const int64 8
          %5 = const int64 240
          %6 = const int64 1
          contract panel [4, 30, 8] %block[%0, 30, 1] = %x0[%0, 8, 1] * %x1[%0, 30, 1] workspace %room
          parallel %7 < 4 {
            %8 = multiply %7, %1
            vector %9 < 30 {
              %10 = add %8, %9
              %11 = load %block[%10]
              %12 = load %x2[%9]
              %13 = add %11, %12
              store %y0[%10], %13
            }
          }
        }
        """,
    )


def test_a_product_that_is_wanted_is_its_own_block() -> None:
    """What it is added to is brought near while it computes."""
    check_kernels(
        """
        graph "g" (%x: float32[4, 8], %w: float32[8, 30], %r: float32[4, 30]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[4, 30]
          %s = add(%p, %r) : float32[4, 30]
          return %p, %s
        }
        """,
        """
        kernel "contract_add" (in %x0: float32[4, 8], in %x1: float32[8, 30], in %x2: float32[4, 30], out %y0: float32[4, 30], out %y1: float32[4, 30], scratch %room: int8[1152]) {
          %0 = const int64 0
          %1 = const int64 30
          %2 = const int64 4
          %3 = const int64 32
          %4 = const int64 8
          %5 = const int64 240
          %6 = const int64 1
          contract panel [4, 30, 8] %y0[%0, 30, 1] = %x0[%0, 8, 1] * %x1[%0, 30, 1] workspace %room near %x2[%0, 30, 1]
          parallel %7 < 4 {
            %8 = multiply %7, %1
            vector %9 < 30 {
              %10 = add %8, %9
              %11 = load %y0[%10]
              %12 = load %x2[%10]
              %13 = add %11, %12
              store %y1[%10], %13
            }
          }
        }
        """,
    )


def test_a_large_product_goes_by_blocks_of_columns_and_rows() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[700, 8], %w: float32[8, 600]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[700, 600]
          %s = tanh(%p) : float32[700, 600]
          return %s
        }
        """,
        """
        kernel "contract_tanh" split 2 (in %x0: float32[700, 8], in %x1: float32[8, 600], out %y0: float32[700, 600], scratch %room: int8[58368], scratch %block: float32[78848]) {
          %0 = const int64 0
          %1 = const int64 224
          %2 = const int64 352
          %3 = const int64 700
          %4 = const int64 600
          %5 = const int64 5600
          %6 = const int64 8
          %7 = const int64 4800
          %8 = const int64 1
          parallel %9 < 3 {
            %10 = multiply %9, %1
            %11 = subtract %4, %10
            %12 = minimum %1, %11
            parallel %13 < 2 {
              %14 = multiply %13, %2
              %15 = subtract %3, %14
              %16 = minimum %2, %15
              %17 = multiply %14, %4
              %18 = add %17, %10
              %19 = multiply %14, %6
              contract panel [%16, %12, 8] %block[%0, 224, 1] = %x0[%19, 8, 1] * %x1[%10, 600, 1] workspace %room
              parallel %20 < %16 {
                %21 = add %14, %20
                %22 = multiply %21, %4
                %23 = multiply %20, %1
                vector %24 < %12 {
                  %25 = add %10, %24
                  %26 = add %22, %25
                  %27 = add %23, %24
                  %28 = load %block[%27]
                  %29 = tanh %28
                  store %y0[%26], %29
                }
              }
            }
          }
        }
        """,
        # NumPy's BLAS rounds the sums in an order that depends on the machine
        atol=1e-5,
    )


def test_reductions_of_rows_follow_a_product_of_a_block_of_rows() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[40, 8], %w: float32[8, 30]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : float32[40, 30]
          %m = reduce_max(%p) {axis = 1, order = "lanes"} : float32[40]
          return %m
        }
        """,
        """
        kernel "contract_reduce_max" (in %x0: float32[40, 8], in %x1: float32[8, 30], out %y0: float32[40], scratch %panels: float32[1, 2, 8, 16], scratch %block: float32[40, 30], scratch %room: int8[4608]) {
          %0 = const int64 0
          %1 = const int64 16
          %2 = const int64 240
          %3 = const int64 1
          %4 = const int64 30
          %5 = const float32 0x0p+0
          %6 = const int64 2
          %7 = const int64 8
          parallel %8 < 2 {
            %9 = multiply %8, %1
            %10 = multiply %8, %7
            across %11 < 8 {
              %12 = multiply %11, %4
              %13 = add %10, %11
              %14 = multiply %13, %1
              vector %15 < 16 {
                %16 = add %9, %15
                %17 = add %12, %16
                %18 = less %16, %4
                %19 = load %x1[%17] if %18 else %5
                %20 = add %14, %15
                store %panels[%20], %19
              }
            }
          }
          %21 = const int64 40
          %22 = const int64 320
          contract packed [40, 30, 8] %block[%0, 30, 1] = %x0[%0, 8, 1] * %panels[%0, 16, 1] workspace %room
          parallel %23 < 40 {
            %24 = multiply %23, %4
            %25 = reduce lanes %26 < 30 {
              %27 = add %24, %26
              %28 = load %block[%27]
              yield maximum %28
            }
            store %y0[%23], %25
          }
        }
        """,
    )


def test_a_product_of_integers_needs_no_workspace() -> None:
    check_kernels(
        """
        graph "g" (%x: int32[4, 8], %w: int32[8, 3]) {
          %p = contract(%x, %w) {transpose_a = False, transpose_b = False} : int32[4, 3]
          return %p
        }
        """,
        """
        kernel "contract" (in %x0: int32[4, 8], in %x1: int32[8, 3], out %y0: int32[4, 3], scratch %room: int8[0]) {
          %0 = const int64 0
          %1 = const int64 12
          %2 = const int64 32
          %3 = const int64 8
          %4 = const int64 24
          %5 = const int64 1
          contract panel [4, 3, 8] %y0[%0, 3, 1] = %x0[%0, 8, 1] * %x1[%0, 3, 1] workspace %room
        }
        """,
    )
