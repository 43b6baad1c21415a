"""Stages of reductions and of what is computed around them, graph text in, kernel text out."""

from __future__ import annotations

from check import check_kernels


def test_a_reduction_along_rows_is_a_loop_of_lanes() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %e = exp(%x) : float32[4, 40]
          %s = reduce_sum(%e) {axis = 1, order = "lanes"} : float32[4]
          return %s
        }
        """,
        """
        kernel "exp_reduce_sum" (in %x0: float32[4, 40], out %y0: float32[4]) {
          %0 = const int64 0
          %1 = const int64 40
          parallel %2 < 4 {
            %3 = multiply %2, %1
            %4 = reduce lanes %5 < 40 {
              %6 = add %3, %5
              %7 = load %x0[%6]
              %8 = exp %7
              yield add %8
            }
            store %y0[%2], %4
          }
        }
        """,
    )


def test_a_reduction_down_columns_is_a_chain_in_each_lane() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %s = reduce_sum(%x) {axis = 0, order = "chain"} : float32[40]
          return %s
        }
        """,
        """
        kernel "reduce_sum" (in %x0: float32[4, 40], out %y0: float32[40]) {
          %0 = const int64 0
          %1 = const int64 40
          vector %2 < 40 {
            %3 = reduce chain %4 < 4 {
              %5 = multiply %4, %1
              %6 = add %5, %2
              %7 = load %x0[%6]
              yield add %7
            }
            store %y0[%2], %3
          }
        }
        """,
    )


def test_reductions_that_wait_for_the_same_share_a_loop() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %s = reduce_sum(%x) {axis = 1, order = "lanes"} : float32[4]
          %m = reduce_max(%x) {axis = 1, order = "lanes"} : float32[4]
          %d = subtract(%m, %s) : float32[4]
          return %d
        }
        """,
        """
        kernel "reduce_sum_reduce_max_subtract" (in %x0: float32[4, 40], out %y0: float32[4]) {
          %0 = const int64 0
          %1 = const int64 40
          parallel %2 < 4 {
            %3 = multiply %2, %1
            %4, %5 = reduce lanes %6 < 40 {
              %7 = add %3, %6
              %8 = load %x0[%7]
              yield add %8, maximum %8
            }
            %9 = subtract %5, %4
            store %y0[%2], %9
          }
        }
        """,
    )


def test_a_costly_value_of_two_stages_is_kept_for_the_row() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %e = exp(%x) : float32[4, 40]
          %s = reduce_sum(%e) {axis = 1, order = "lanes"} : float32[4]
          %r = reshape(%s) {shape = (4, 1)} : float32[4, 1]
          %q = divide(%e, %r) : float32[4, 40]
          return %q
        }
        """,
        """
        kernel "exp_reduce_sum_reshape_divide" (in %x0: float32[4, 40], out %y0: float32[4, 40], scratch %row0: float32[40]) {
          %0 = const int64 0
          %1 = const int64 40
          parallel %2 < 4 {
            %3 = multiply %2, %1
            %4 = reduce lanes %5 < 40 {
              %6 = add %3, %5
              %7 = load %x0[%6]
              %8 = exp %7
              store %row0[%5], %8
              yield add %8
            }
            vector %9 < 40 {
              %10 = load %row0[%9]
              %11 = divide %10, %4
              %12 = add %3, %9
              store %y0[%12], %11
            }
          }
        }
        """,
    )


def test_a_cheap_value_of_two_stages_is_computed_again() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %e = negative(%x) : float32[4, 40]
          %s = reduce_sum(%e) {axis = 1, order = "lanes"} : float32[4]
          %r = reshape(%s) {shape = (4, 1)} : float32[4, 1]
          %q = divide(%e, %r) : float32[4, 40]
          return %q
        }
        """,
        """
        kernel "negative_reduce_sum_reshape_divide" (in %x0: float32[4, 40], out %y0: float32[4, 40]) {
          %0 = const int64 0
          %1 = const int64 40
          parallel %2 < 4 {
            %3 = multiply %2, %1
            %4 = reduce lanes %5 < 40 {
              %6 = add %3, %5
              %7 = load %x0[%6]
              %8 = negative %7
              yield add %8
            }
            vector %9 < 40 {
              %10 = add %3, %9
              %11 = load %x0[%10]
              %12 = negative %11
              %13 = divide %12, %4
              store %y0[%10], %13
            }
          }
        }
        """,
    )


def test_deviations_of_few_terms_are_taken_from_their_mean() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %d = reduce_deviations(%x) {axis = 1, order = "lanes"} : float32[4]
          return %d
        }
        """,
        """
        kernel "reduce_deviations" (in %x0: float32[4, 40], out %y0: float32[4]) {
          %0 = const int64 0
          %1 = const int64 40
          %2 = const float32 0x1.99999ap-6
          parallel %3 < 4 {
            %4 = multiply %3, %1
            %5 = reduce lanes %6 < 40 {
              %7 = add %4, %6
              %8 = load %x0[%7]
              %9 = multiply %8, %2
              yield add %9
            }
            %10 = reduce lanes %11 < 40 {
              %12 = add %4, %11
              %13 = load %x0[%12]
              %14 = subtract %13, %5
              yield squares %14
            }
            store %y0[%3], %10
          }
        }
        """,
    )


def test_deviations_of_many_terms_are_two_sums_from_the_mean_of_what_leads() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 1000]) {
          %d = reduce_deviations(%x) {axis = 1, order = "lanes"} : float32[4]
          return %d
        }
        """,
        """
        kernel "reduce_deviations" (in %x0: float32[4, 1000], out %y0: float32[4]) {
          %0 = const int64 0
          %1 = const int64 1000
          %2 = const float32 0x1p-6
          %3 = const float32 inf
          %4 = const float32 0x1.0624dep-10
          %5 = const float32 0x0p+0
          parallel %6 < 4 {
            %7 = multiply %6, %1
            %8 = reduce lanes %9 < 64 {
              %10 = add %7, %9
              %11 = load %x0[%10]
              %12 = multiply %11, %2
              yield add %12
            }
            %13, %14 = reduce lanes %15 < 1000 {
              %16 = add %7, %15
              %17 = load %x0[%16]
              %18 = subtract %17, %8
              yield add %18, squares %18
            }
            %19 = multiply %13, %4
            %20 = multiply %13, %19
            %21 = subtract %14, %20
            %22 = maximum %21, %5
            %23 = equal %14, %3
            %24 = isfinite %13
            %25 = and %23, %24
            %26 = select %25, %3, %22
            store %y0[%6], %26
          }
        }
        """,
    )


def test_what_few_rows_need_is_reduced_under_a_condition() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[4, 40]) {
          %i = constant() {value = float32[] inf} : float32[]
          %h = constant() {value = float32[] 0x1p-10} : float32[]
          %p = multiply(%x, %x) : float32[4, 40]
          %s = reduce_sum(%p) {axis = 1, order = "lanes"} : float32[4]
          %l = equal(%s, %i) : bool[4]
          %y = multiply(%x, %h) : float32[4, 40]
          %q = multiply(%y, %y) : float32[4, 40]
          %t = reduce_sum(%q) {axis = 1, order = "lanes"} : float32[4]
          %w = where(%l, %t, %s) {seldom = True} : float32[4]
          return %w
        }
        """,
        """
        kernel "multiply_reduce_sum_equal_4_more" (in %x0: float32[4, 40], out %y0: float32[4]) {
          %0 = const int64 0
          %1 = const int64 40
          %2 = const float32 inf
          %3 = const float32 0x1p-10
          parallel %4 < 4 {
            %5 = multiply %4, %1
            %6 = reduce lanes %7 < 40 {
              %8 = add %5, %7
              %9 = load %x0[%8]
              %10 = multiply %9, %9
              yield add %10
            }
            %11 = equal %6, %2
            %12 = reduce lanes %13 < 40, if %11 {
              %14 = add %5, %13
              %15 = load %x0[%14]
              %16 = multiply %15, %3
              %17 = multiply %16, %16
              yield add %17
            }
            %18 = select %11, %12, %6
            store %y0[%4], %18
          }
        }
        """,
    )


def test_a_long_row_is_reduced_in_groups_that_are_launches() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[600000]) {
          %s = reduce_sum(%x) {axis = 0, order = "lanes"} : float32[]
          return %s
        }
        """,
        """
        kernel "reduce_sum 1" split 1 (in %x0: float32[600000], part %part0_0: float32[2368]) {
          %0 = const int64 256
          %1 = const int64 32
          parallel %2 < 73 {
            %3 = multiply %2, %0
            %4 = multiply %2, %1
            vector %5 < 32 {
              %6 = reduce chain %7 < 256 {
                %8 = add %3, %7
                %9 = multiply %8, %1
                %10 = add %9, %5
                %11 = load %x0[%10]
                yield add %11
              }
              %12 = add %4, %5
              store %part0_0[%12], %6
            }
          }
        }
        kernel "reduce_sum 2" (in %x0: float32[600000], out %y0: float32[], part %part0_0: float32[2368], scratch %sum0_0: float32[32]) {
          %0 = const int64 0
          %1 = const int64 32
          %2 = const int64 18688
          %3 = const int64 2336
          vector %4 < 32 {
            %5 = reduce chain %6 < 62 {
              %7 = add %2, %6
              %8 = multiply %7, %1
              %9 = add %8, %4
              %10 = load %x0[%9]
              yield add %10
            }
            %11 = add %3, %4
            store %part0_0[%11], %5
          }
          %12 = const float32 -0x0p+0
          vector %13 < 32 {
            %14 = reduce chain %15 < 74 {
              %16 = multiply %15, %1
              %17 = add %16, %13
              %18 = load %part0_0[%17]
              yield add %18
            }
            %19 = add %12, %14
            store %sum0_0[%13], %19
          }
          %20 = const int64 599968
          %21 = reduce lanes %22 < 32 {
            %23 = less %22, %1
            %24 = add %20, %22
            %25 = load %sum0_0[%22]
            yield add %25
          }
          store %y0[%0], %21
        }
        """,
    )
