"""Products of one row, which are a matter of reading B: rows of B stream through once.

What a row of C adds up waits in the first-level cache. Each element is one ascending chain over k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from graphc.codegen.caches import prefetch
from graphc.codegen.emitter import ModuleEmitter, Reg
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.build import Builder, edge_mask, masked_load, masked_store

# Vectors in a tile, and rows of B that are read side by side: what was read fastest.
_VECTORS = 2
_DEPTH = 4
# what is asked for is spread over the tiles of a row, if there are so many
_LONG_TILES = 16


def row_width(sizes: Blocking) -> int:
    """Columns of a tile."""
    return _VECTORS * sizes.lanes


def emit_row_stream(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines the kernel that adds to one row of C; returns its name.

    Signature: (a, a_col, b, b_row, c, first, end, k, next, asked), B with unit column stride. Only
    columns from ``first`` to ``end`` are touched; tiles begin at 0. Where the target has no masked
    loads, only whole tiles are computed. ``next`` is the matrix that is read next, with rows like
    those of B. Of each row that comes next its beginning is asked for, as much as ``asked`` tiles
    of all rows read.
    """
    name = f"gemm_row_stream_{sizes.suffix}"
    if not module.has(name):
        _Kernel(module, sizes, name).emit()
    return name


Steps: TypeAlias = Sequence[tuple[Reg, Reg]]


class _Kernel:
    """The kernel under emission."""

    def __init__(self, module: ModuleEmitter, sizes: Blocking, name: str) -> None:
        names = "*a a_col *b b_row *c first end k *next asked"
        self.f = f = Builder(module, name, names)
        self.sizes, self.width = sizes, row_width(sizes)
        self.a, self.a_col, self.b, self.b_row = f.parameter("a", "a_col", "b", "b_row")
        self.c, self.k, self.next, self.asked = f.parameter("c", "k", "next", "asked")
        begin, self.end = f.parameter("first", "end")
        self.begin = begin
        # columns of whole tiles
        self.low = f.minimum(f.rounded_up(begin, self.width), self.end)
        whole = f.rounded_down(f.sub(self.end, self.low), self.width)
        self.high = f.add(self.low, whole)
        self.tiles = f.quotient(whole, self.width)

    def emit(self) -> None:
        """Defines the function."""
        f, element = self.f, self.sizes.element
        deep = f.rounded_down(self.k, _DEPTH)
        is_short = f.compare("slt", self.tiles, _LONG_TILES)
        parts = f.select(is_short, f.i64(1), f.i64(_DEPTH))
        length = f.quotient(f.add(self.tiles, f.sub(parts, 1)), parts)
        with f.loop(f.i64(0), deep, _DEPTH) as loop:
            steps = self._steps(loop.index, _DEPTH)
            after = f.add(loop.index, _DEPTH)
            below = f.at(self.b, element, f.mul(after, self.b_row))
            target = f.select(f.compare("eq", after, self.k), self.next, below)
            with f.loop(f.i64(0), parts, 1) as part:
                # each part of the tiles asks for one of the rows, in the order in which it lies
                first = f.mul(part.index, length)
                last = f.minimum(f.add(first, length), self.tiles)
                middle = f.minimum(f.add(first, self.asked), last)
                beginning = f.at(target, element, f.mul(part.index, self.b_row), self.low)
                with f.loop(first, middle, 1) as tile:
                    place = f.mul(f.sub(tile.index, first), self.width * _DEPTH)
                    self._tile(steps, tile.index, f.at(beginning, element, place))
                with f.loop(middle, last, 1) as tile:
                    self._tile(steps, tile.index, None)
            self._edges(steps)
        with f.loop(deep, self.k, 1) as loop:
            steps = self._steps(loop.index, 1)
            with f.loop(f.i64(0), self.tiles, 1) as tile:
                self._tile(steps, tile.index, None)
            self._edges(steps)
        f.finish()

    def _steps(self, start: Reg, depth: int) -> list[tuple[Reg, Reg]]:
        """So many factors and the rows of B they belong to."""
        f, sizes = self.f, self.sizes
        result = []
        for number in range(depth):
            step = f.add(start, number)
            place = f.at(self.a, sizes.element, f.mul(step, self.a_col))
            factor = f.splat(f.load(place, sizes.scalar, sizes.size), sizes.lanes)
            result.append((factor, f.at(self.b, sizes.element, f.mul(step, self.b_row))))
        return result

    def _tile(self, steps: Steps, tile: Reg, wanted: Reg | None) -> None:
        """All steps for a whole tile; asks for as much as they read from ``wanted`` on."""
        f, read = self.f, self.width * self.sizes.size
        column = f.add(self.low, f.mul(tile, self.width))
        if wanted is not None:
            prefetch(f, wanted, len(steps) * read, near=False)
        self._add(steps, [(f.add(column, v * self.sizes.lanes), None) for v in range(_VECTORS)])

    def _edges(self, steps: Steps) -> None:
        """All steps for the columns before and behind whole tiles."""
        f, lanes = self.f, self.sizes.lanes
        if not self.sizes.masked:
            return
        for first, end in ((self.begin, self.low), (self.high, self.end)):
            with f.when(f.compare("slt", first, end)):
                columns = [f.add(first, v * lanes) for v in range(_VECTORS)]
                masks = [edge_mask(f, f.sub(end, column), lanes) for column in columns]
                self._add(steps, list(zip(columns, masks, strict=True)))

    def _add(self, steps: Steps, columns: Sequence[tuple[Reg, Reg | None]]) -> None:
        """All steps for vectors at these columns, with their masks."""
        f, sizes = self.f, self.sizes
        for column, mask in columns:
            place = f.at(self.c, sizes.element, column)
            total = masked_load(f, place, sizes.vector, mask)
            for factor, row in steps:
                right = masked_load(f, f.at(row, sizes.element, column), sizes.vector, mask)
                total = f.fma(factor, right, total)
            masked_store(f, total, place, mask)
