"""Scans, scatters and native routines, graph text in, kernel text out."""

from __future__ import annotations

from check import check_kernels

from graphc.ops.fused import AHEAD


def test_a_scan_is_serial_along_its_axis_and_a_vector_across_it() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[3, 4, 40]) {
          %c = cumsum(%x) {axis = 1} : float32[3, 4, 40]
          return %c
        }
        """,
        """
        kernel "cumsum" (in %x0: float32[3, 4, 40], out %y0: float32[3, 4, 40]) {
          %0 = const float32 -0x0p+0
          %1 = const int64 0
          %2 = const int64 4
          %3 = const int64 40
          parallel %4 < 3 {
            %5 = multiply %4, %2
            vector %6 < 40 {
              %7 = serial %8 < 4 carry (%9 = %0) {
                %10 = add %5, %8
                %11 = multiply %10, %3
                %12 = add %11, %6
                %13 = load %x0[%12]
                %14 = add %9, %13
                store %y0[%12], %14
                yield %14
              }
            }
          }
        }
        """,
    )


def test_a_scatter_updates_a_copy_of_its_base_in_order() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[200, 40], %i: int8[3], %u: float32[3, 40]) {
          %s = scatter_add(%x, %i, %u) {axis = 0} : float32[200, 40]
          return %s
        }
        """,
        """
        kernel "scatter_add" (in %x1: int8[3], in %x2: float32[3, 40], update %y0: float32[200, 40]) sites (axis 0 of "scatter_add") {
          %0 = const int64 0
          %1 = const int64 3
          %2 = const int64 40
          %3 = const int64 200
          serial %4 < 3 {
            %5 = load %x1[%4]
            %6 = cast int64 %5
            %7 = check 0 %6 < 200
            %8 = multiply %4, %2
            %9 = multiply %7, %2
            vector %10 < 40 {
              %11 = add %8, %10
              %12 = add %9, %10
              %13 = load %x2[%11]
              %14 = load %y0[%12]
              %15 = add %14, %13
              store %y0[%12], %15
            }
          }
        }
        """,
    )


def test_a_scatter_that_is_checked_ahead_has_a_launch_for_that() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[200, 40], %i: int8[3], %u: float32[3, 40]) {
          %s = scatter_add(%x, %i, %u) {axis = 0} : float32[200, 40]
          return %s
        }
        """,
        """
        kernel "scatter_add" (in %x1: int8[3], out %places: int64[3]) sites (axis 0 of "scatter_add") {
          vector %0 < 3 {
            %1 = load %x1[%0]
            %2 = cast int64 %1
            %3 = check 0 %2 < 200
            store %places[%0], %3
          }
        }
        kernel "scatter_add" (in %x2: float32[3, 40], update %y0: float32[200, 40], in %places: int64[3]) {
          %0 = const int64 0
          %1 = const int64 200
          %2 = const int64 1
          %3 = const int64 199
          %4 = const int64 3
          %5 = const int64 40
          serial %6 < 3 {
            %7 = load %places[%6]
            %8 = minimum %7, %3
            %9 = maximum %8, %0
            %10 = multiply %6, %5
            %11 = multiply %9, %5
            vector %12 < 40 {
              %13 = add %10, %12
              %14 = add %11, %12
              %15 = load %x2[%13]
              %16 = load %y0[%14]
              %17 = add %16, %15
              store %y0[%14], %17
            }
          }
        }
        """,
        attrs=AHEAD,
    )


def test_rows_are_handed_to_a_routine() -> None:
    check_kernels(
        """
        graph "g" (%x: float32[2, 30, 40]) {
          %s = argsort(%x) {descending = True} : int64[2, 30, 40]
          return %s
        }
        """,
        """
        kernel "argsort" split 2 (in %x0: float32[2, 30, 40], out %y0: int64[2, 30, 40], scratch %room: int8[10880]) {
          %0 = const int64 0
          %1 = const int64 30
          %2 = const int64 40
          parallel %3 < 2 {
            %4 = multiply %3, %1
            parallel %5 < 30 {
              %6 = add %4, %5
              %7 = multiply %6, %2
              call argsort [40, 1] %y0[%7, 40] = %x0[%7, 40] workspace %room
            }
          }
        }
        """,
    )
