"""Loops of pointwise work and views, graph text in, kernel text out."""

from __future__ import annotations

from check import check_kernels


def test_axes_that_all_accesses_run_through_as_one_are_one_loop() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40], %y: float32[4, 40]) {
          %e = add(%x, %y) : float32[4, 40]
          return %e
        }
        """,
        """
        kernel "add" (in %x0: float32[4, 40], in %x1: float32[4, 40], out %y0: float32[4, 40]) {
          %0 = const int64 0
          %1 = const int64 40
          vector %2 < 160 {
            %3 = load %x1[%2]
            %4 = load %x0[%2]
            %5 = add %4, %3
            store %y0[%2], %5
          }
        }
        """,
    )


def test_an_axis_that_a_row_does_not_have_is_a_loop_of_its_own() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[5, 4, 40], %r: float32[40]) {
          %m = multiply(%x, %r) : float32[5, 4, 40]
          return %m
        }
        """,
        """
        kernel "multiply" (in %x0: float32[5, 4, 40], in %x1: float32[40], out %y0: float32[5, 4, 40]) {
          %0 = const int64 0
          %1 = const int64 4
          %2 = const int64 40
          parallel %3 < 20 {
            %4 = multiply %3, %2
            vector %5 < 40 {
              %6 = load %x1[%5]
              %7 = add %4, %5
              %8 = load %x0[%7]
              %9 = multiply %8, %6
              store %y0[%7], %9
            }
          }
        }
        """,
    )


def test_what_does_not_change_in_a_loop_is_computed_before_it() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40], %c: float32[4, 1]) {
          %m = multiply(%x, %c) : float32[4, 40]
          return %m
        }
        """,
        """
        kernel "multiply" (in %x0: float32[4, 40], in %x1: float32[4, 1], out %y0: float32[4, 40]) {
          %0 = const int64 0
          %1 = const int64 1
          %2 = const int64 40
          parallel %3 < 4 {
            %4 = load %x1[%3]
            %5 = multiply %3, %2
            vector %6 < 40 {
              %7 = add %5, %6
              %8 = load %x0[%7]
              %9 = multiply %8, %4
              store %y0[%7], %9
            }
          }
        }
        """,
    )


def test_equal_scalars_are_computed_once() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[40]) {
          %a = exp(%x) : float32[40]
          %b = exp(%x) : float32[40]
          %m = multiply(%a, %b) : float32[40]
          return %m, %a
        }
        """,
        """
        kernel "exp_exp_multiply" (in %x0: float32[40], out %y0: float32[40], out %y1: float32[40]) {
          %0 = const int64 0
          vector %1 < 40 {
            %2 = load %x0[%1]
            %3 = exp %2
            %4 = multiply %3, %3
            store %y0[%1], %4
            store %y1[%1], %3
          }
        }
        """,
    )


def test_a_view_changes_the_index_and_nothing_else() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %s = slice(%x) {size = (2, 10), start = (3, 39), step = (-1, -3)} : float32[2, 10]
          %e = exp(%s) : float32[2, 10]
          return %e
        }
        """,
        """
        kernel "slice_exp" (in %x0: float32[4, 40], out %y0: float32[2, 10]) {
          %0 = const int64 0
          %1 = const int64 -1
          %2 = const int64 3
          %3 = const int64 -3
          %4 = const int64 39
          %5 = const int64 40
          %6 = const int64 10
          parallel %7 < 2 {
            %8 = multiply %7, %1
            %9 = add %8, %2
            %10 = multiply %9, %5
            %11 = multiply %7, %6
            vector %12 < 10 {
              %13 = multiply %12, %3
              %14 = add %13, %4
              %15 = add %10, %14
              %16 = load %x0[%15]
              %17 = exp %16
              %18 = add %11, %12
              store %y0[%18], %17
            }
          }
        }
        """,
    )


def test_a_transpose_goes_across_the_vector_loop() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[40, 4], %y: float32[4, 40]) {
          %t = transpose(%x) {axes = (1, 0)} : float32[4, 40]
          %a = add(%t, %y) : float32[4, 40]
          return %a
        }
        """,
        """
        kernel "transpose_add" (in %x0: float32[40, 4], in %x1: float32[4, 40], out %y0: float32[4, 40]) {
          %0 = const int64 0
          %1 = const int64 40
          %2 = const int64 4
          across %3 < 4 {
            %4 = multiply %3, %1
            vector %5 < 40 {
              %6 = add %4, %5
              %7 = load %x1[%6]
              %8 = multiply %5, %2
              %9 = add %8, %3
              %10 = load %x0[%9]
              %11 = add %10, %7
              store %y0[%6], %11
            }
          }
        }
        """,
    )


def test_a_reshape_reads_at_the_same_row_major_place() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[6, 4, 40], %y: float32[40]) {
          %r = reshape(%x) {shape = (8, 3, 40)} : float32[8, 3, 40]
          %a = add(%r, %y) : float32[8, 3, 40]
          return %a
        }
        """,
        """
        kernel "reshape_add" (in %x0: float32[6, 4, 40], in %x1: float32[40], out %y0: float32[8, 3, 40]) {
          %0 = const int64 0
          %1 = const int64 3
          %2 = const int64 4
          %3 = const int64 40
          parallel %4 < 24 {
            %5 = mod %4, %2
            %6 = floor_divide %4, %2
            %7 = multiply %6, %2
            %8 = multiply %4, %3
            vector %9 < 40 {
              %10 = load %x1[%9]
              %11 = add %8, %9
              %12 = load %x0[%11]
              %13 = add %12, %10
              store %y0[%11], %13
            }
          }
        }
        """,
    )


def test_a_margin_is_a_load_under_a_condition() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[40]) {
          %p = pad(%x) {after = (2,), before = (1,), interior = (0,), mode = "constant", value = 0x0p+0} : float32[43]
          return %p
        }
        """,
        """
        kernel "pad" (in %x0: float32[40], out %y0: float32[43]) {
          %0 = const int64 0
          %1 = const int64 -1
          %2 = const int64 40
          %3 = const float32 0x0p+0
          vector %4 < 43 {
            %5 = add %4, %1
            %6 = less_equal %0, %5
            %7 = less %5, %2
            %8 = and %6, %7
            %9 = load %x0[%5] if %8 else %3
            store %y0[%4], %9
          }
        }
        """,
    )


def test_unknown_sizes_broadcast_by_a_stride_of_0_or_1() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[n], %y: float32[m]) {
          %a = add(%x, %y) : float32[broadcast(m, n)]
          return %a
        }
        """,
        """
        kernel "add" split 1 (in %x0: float32[n], in %x1: float32[m], out %y0: float32[broadcast(m, n)]) {
          %0 = const int64 0
          %1 = dim select(n == 1, 0, 1)
          %2 = dim select(m == 1, 0, 1)
          vector %3 < broadcast(m, n) {
            %4 = multiply %3, %1
            %5 = multiply %3, %2
            %6 = load %x1[%5]
            %7 = load %x0[%4]
            %8 = add %7, %6
            store %y0[%3], %8
          }
        }
        """,
    )


def test_an_index_from_memory_is_checked_once_a_row() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[200, 40], %i: int8[3]) {
          %p = take(%x, %i) {axis = 0} : float32[3, 40]
          %n = negative(%p) : float32[3, 40]
          return %n
        }
        """,
        """
        kernel "take_negative" (in %x0: float32[200, 40], in %x1: int8[3], out %y0: float32[3, 40]) sites (axis 0 of "take") {
          %0 = const int64 0
          %1 = const int64 40
          parallel %2 < 3 {
            %3 = load %x1[%2]
            %4 = cast int64 %3
            %5 = check 0 %4 < 200
            %6 = multiply %5, %1
            %7 = multiply %2, %1
            vector %8 < 40 {
              %9 = add %6, %8
              %10 = load %x0[%9]
              %11 = negative %10
              %12 = add %7, %8
              store %y0[%12], %11
            }
          }
        }
        """,
    )


def test_a_concatenation_has_a_nest_for_each_piece() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 30], %y: float32[4, 10], %r: float32[40]) {
          %c = concatenate(%x, %y) {axis = 1} : float32[4, 40]
          %a = add(%c, %r) : float32[4, 40]
          return %a
        }
        """,
        """
        kernel "concatenate_add" (in %x0: float32[4, 30], in %x1: float32[4, 10], in %x2: float32[40], out %y0: float32[4, 40]) {
          %0 = const int64 0
          %1 = const int64 30
          %2 = const int64 40
          parallel %3 < 4 {
            %4 = multiply %3, %1
            %5 = multiply %3, %2
            vector %6 < 30 {
              %7 = load %x2[%6]
              %8 = add %4, %6
              %9 = load %x0[%8]
              %10 = add %9, %7
              %11 = add %5, %6
              store %y0[%11], %10
            }
          }
          %12 = const int64 10
          parallel %13 < 4 {
            %14 = multiply %13, %12
            %15 = multiply %13, %2
            %16 = add %15, %1
            vector %17 < 10 {
              %18 = add %17, %1
              %19 = load %x2[%18]
              %20 = add %14, %17
              %21 = load %x1[%20]
              %22 = add %21, %19
              %23 = add %16, %17
              store %y0[%23], %22
            }
          }
        }
        """,
    )


def test_a_piece_is_stored_where_its_slice_begins() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 30]) {
          %e = exp(%x) : float32[4, 30]
          %p = place_slice(%e) {shape = (4, 40), starts = (0, 10)} : float32[4, 40]
          return %p
        }
        """,
        """
        kernel "exp" (in %x0: float32[4, 30], part %y0: float32[4, 40]) {
          %0 = const int64 0
          %1 = const int64 30
          %2 = const int64 40
          %3 = const int64 10
          parallel %4 < 4 {
            %5 = multiply %4, %1
            %6 = multiply %4, %2
            %7 = add %6, %3
            vector %8 < 30 {
              %9 = add %5, %8
              %10 = load %x0[%9]
              %11 = exp %10
              %12 = add %7, %8
              store %y0[%12], %11
            }
          }
        }
        """,
    )
