"""The routine ``histogram``: counts of bins of equal width.

The bin of an element is a product, which rounds. Where it lies so near an edge that this might
count, the element is compared with the edges; elsewhere not, as that takes longer than all else.
"""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder, each_lane
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import I32, LType, ltype
from graphc.codegen.routines.counting import add_to, added
from graphc.ir.dtypes import DType
from graphc.kernel.routines.searching import TABLE_MARGIN, TABLES

_TOGETHER = 256
"""Elements whose bins are found before any is counted: what has just been stored as a vector is not
to be had as a scalar for a while."""

_LANES = 16
_LONGEST = 1 << 30
"""Elements that are counted in 32 bits."""


def emit_histogram(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (row, edges, target, length, bins, room); there are no more bins than tables hold."""
    dtype = dtypes[0]
    f = Builder(module, name, "*row *edges *target length bins *room", internal=False)
    row, target, length, bins, room = f.given("row", "target", "length", "bins", "room")
    with f.each(bins) as i:
        f.store(f.const(0), f.at(target, "i64", i), 8)
    # an overflow bin counts what is in no bin
    each = (bins + TABLE_MARGIN).down_to(8)
    tables = [f.at(room, "i32", each * number) for number in range(TABLES)]
    finder = _Finder(f, dtype, bins)
    found = f.alloca(I32, _TOGETHER)
    zeros = f.zeros(ltype("i32", 8))
    with f.blocks(length, _LONGEST) as (first, count):
        with f.loop(0, each * TABLES, 8) as clearing:
            f.store(zeros, f.at(room, "i32", clearing.index), 4)
        begin = f.at(row, finder.scalar.text, first)
        whole = count.down_to(_TOGETHER)
        with f.loop(0, whole, _TOGETHER) as block:
            here = f.at(begin, finder.scalar.text, block.index)
            with f.loop(0, _TOGETHER, _LANES) as loop:
                finder.find(f.at(here, finder.scalar.text, loop.index),
                            f.at(found, "i32", loop.index))  # fmt: skip
            with f.loop(0, _TOGETHER, 2 * TABLES) as loop:
                for n in range(2 * TABLES):
                    place = f.load(f.at(found, "i32", loop.index, n), I32, 4)
                    wide = f.convert("zext", place, "i64")
                    add_to(f, tables[n % TABLES], wide, f.const(1, I32))
        with f.loop(whole, count) as loop:
            place = finder.exact(f.at(begin, finder.scalar.text, loop.index))
            add_to(f, tables[0], place, f.const(1, I32))
        added(f, tables, target, bins, more=True)
    f.finish()


class _Finder:
    """The bins of elements."""

    def __init__(self, f: Builder, dtype: DType, bins: Reg) -> None:
        self.f, self.bins = f, bins
        self.scalar = ltype(element_of(dtype))
        self.size = self.scalar.bits // 8
        (self.edges,) = f.given("edges")
        self.low, self.high = (self._edge(place) for place in (f.const(0), bins))
        self.width = self.high - self.low
        self.count = f.convert("sitofp", bins, self.scalar.element)
        sizes = [f.intrinsic("fabs", self.scalar, end) for end in (self.low, self.high)]
        # half a unit of each of three roundings in a ratio and of four in an edge, and as much more
        unit = 2.0**-dtype.format.fraction
        self.near = (sizes[0] + sizes[1] + self.width) / self.width * self.count * (4 * unit)

    def _edge(self, place: Reg) -> Reg:
        f = self.f
        return f.load(f.at(self.edges, self.scalar.text, place), self.scalar, self.size)

    def _ratio(self, element: Reg) -> tuple[Reg, Reg]:
        """How many bins an element is behind the first edge, and whether it is in any."""
        f, lanes = self.f, element.type.lanes
        low, high, width, count = (
            f.splat(part, lanes) for part in (self.low, self.high, self.width, self.count)
        )
        inside = (element >= low) & (element <= high)
        return (element - low) / width * count, inside

    def find(self, source: Reg, target: Reg) -> None:
        """Writes the bins of a vector of elements."""
        f = self.f
        vector: LType = ltype(self.scalar.element, _LANES)
        element = f.load(source, vector, self.size)
        ratio, inside = self._ratio(element)
        # elements in no bin count in the overflow bin; fptosi of what is out of range is poison
        outside = f.splat(self.count, _LANES)
        bounded = f.select(inside, ratio, outside)
        is_place = (bounded >= 0.0) & (bounded <= outside)
        bounded = f.select(is_place, bounded, outside)
        place = f.convert("fptosi", bounded, "i32")
        f.store(place, target, 4)
        rest = bounded - f.convert("sitofp", place, self.scalar.element)
        near = f.splat(self.near, _LANES)
        is_far = (rest > near) & (rest < 1.0 - near)
        is_near = inside & ~is_far

        def again(lane: Reg) -> None:
            exact = self.exact(f.at(source, self.scalar.text, lane))
            f.store(f.convert("trunc", exact, "i32"), f.at(target, "i32", lane), 4)

        if f.module.target.packs_conditions:
            each_lane(f, is_near, again)
        else:
            some = any_lane(f, is_near)
            with f.when(some), f.each(_LANES) as lane:
                again(lane)

    def exact(self, source: Reg) -> Reg:
        """The bin of the element at an address."""
        f = self.f
        element = f.load(source, self.scalar, self.size)
        ratio, inside = self._ratio(element)
        last = self.bins - 1
        zero = f.const(0.0, self.scalar)
        # no number is below none: a ratio that is none is the first bin's
        ratio = f.select(ratio > zero, ratio, zero)
        ratio = f.select(ratio < self.count, ratio, self.count)
        place = f.least(f.convert("fptosi", ratio, "i64"), last)
        before = (element < self._edge(place)) & (place > 0)
        place = place - f.convert("zext", before, "i64")
        behind = (element >= self._edge(place + 1)) & (place < last)
        place = place + f.convert("zext", behind, "i64")
        return f.select(inside, place, self.bins)


__all__ = ["emit_histogram"]
