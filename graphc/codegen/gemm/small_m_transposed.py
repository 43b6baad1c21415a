"""Products of few rows with a right operand of contiguous columns, matrix @ vector among them.

Columns lie across the lanes: squares of B are transposed in registers, so that B is read once,
where it is, and each element is still one ascending chain over k.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.gemm.transpose import load_transposed, square_lanes
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.prefetch import LINE


def emit_dots(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines the kernel; returns its name.

    Signature: (a, a_row, a_col, b, b_col, c, c_row, m, n, k), B with unit row stride, n at least a
    vector's lanes. The last columns are taken again with some before them, to the same bits.
    """
    name = f"gemm_dots_{sizes.suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "*a a_row a_col *b b_col *c c_row m n k")
    _Kernel(f, sizes).emit()
    return name


class _Kernel:
    """The kernel under emission. Sums lie in C meanwhile, those of the first row in a register."""

    def __init__(self, f: Builder, sizes: Blocking) -> None:
        self.f, self.sizes = f, sizes
        self.a, self.a_row, self.a_col = f.given("a", "a_row", "a_col")
        self.b, self.b_col, self.c, self.c_row = f.given("b", "b_col", "c", "c_row")
        self.m, self.n, self.k = f.given("m", "n", "k")

    def emit(self) -> None:
        """Defines the function."""
        f, sizes, element = self.f, self.sizes, self.sizes.element
        square = square_lanes(sizes)
        line = max(square, LINE // sizes.size)
        last, askew = self.n - sizes.lanes, self._askew()
        # One vector of columns at a time: columns powers of two apart share a cache set, and of
        # more of them lines are evicted before they have been read.
        with f.blocks(self.n, sizes.lanes) as (start, _):
            first = f.least(start, last)
            right = f.at(self.b, element, first * self.b_col)
            result = f.at(self.c, element, first)
            with f.loop(0, self.m) as row:
                place = f.at(result, element, row.index * self.c_row)
                f.store(f.const(0.0, sizes.vector), place, sizes.size)
            done = askew & (square - 1)
            self._single_steps(right, result, f.const(0), done)
            total = f.load(result, sizes.vector, sizes.size)
            # whole lines, as they may be evicted between two visits, and squares on both sides
            sides = f.select(askew >= square, 2, 1)
            with f.loop(0, sides, 1, [done, total]) as side:
                is_last = (side.index + 1).equals(sides)
                done, total = side.carries
                for steps, before in ((line, done), (square, askew)):
                    end = f.select(is_last, self.k, before)
                    parts = (end - done).udiv(steps)
                    with f.loop(0, parts, 1, [total]) as part:
                        start = done + part.index * steps
                        part.yields = [self._steps(right, start, steps, result, part.carries[0])]
                    done, total = done + parts * steps, part.results[0]
                side.yields = [done, total]
            done, total = side.results
            f.store(total, result, sizes.size)
            self._single_steps(right, result, done, self.k)
        f.finish()

    def _askew(self) -> Reg:
        """Steps before the first whole line of each column, if all columns lie in lines alike."""
        f, size = self.f, self.sizes.size
        before = 0 - f.convert("ptrtoint", self.b, "i64")
        before = before & (LINE - 1)
        stride = (self.b_col * size) & (LINE - 1)
        is_long = self.k >= PRODUCTS.transposed_aligned_steps
        is_alike = stride.equals(0) & is_long
        return f.select(is_alike, before.udiv(size), 0)

    def _steps(self, right: Reg, start: Reg, count: int, result: Reg, total: Reg) -> Reg:
        """Some steps of a vector of columns, for all rows; gives the sum of the first one."""
        f, sizes, square = self.f, self.sizes, square_lanes(self.sizes)
        place = f.at(right, sizes.element, start)
        values = load_transposed(f, place, self.b_col, sizes.vector, square, count // square)
        total = self._sum(values, total, f.const(0), start)
        with f.loop(1, self.m) as row:
            place = f.at(result, sizes.element, row.index * self.c_row)
            other = f.load(place, sizes.vector, sizes.size)
            f.store(self._sum(values, other, row.index, start), place, sizes.size)
        return total

    def _sum(self, values: Sequence[Reg], total: Reg, row: Reg, start: Reg) -> Reg:
        """Some steps of a vector of columns in one row."""
        f, lanes = self.f, self.sizes.lanes
        for step, value in enumerate(values):
            total = f.fma(f.splat(self._factor(row, start + step), lanes), value, total)
        return total

    def _single_steps(self, right: Reg, result: Reg, start: Reg, end: Reg) -> None:
        """Steps of a vector of columns, for all rows, column by column."""
        f, sizes = self.f, self.sizes
        with f.loop(0, self.m) as row, f.loop(start, end) as step:
            factor = self._factor(row.index, step.index)
            sums = f.at(result, sizes.element, row.index * self.c_row)
            with f.loop(0, sizes.lanes) as column:
                place = f.at(right, sizes.element, column.index * self.b_col, step.index)
                value = f.load(place, sizes.scalar, sizes.size)
                place = f.at(sums, sizes.element, column.index)
                total = f.load(place, sizes.scalar, sizes.size)
                f.store(f.fma(factor, value, total), place, sizes.size)

    def _factor(self, row: Reg, step: Reg) -> Reg:
        f, sizes = self.f, self.sizes
        place = f.at(self.a, sizes.element, row * self.a_row, step * self.a_col)
        return f.load(place, sizes.scalar, sizes.size)
