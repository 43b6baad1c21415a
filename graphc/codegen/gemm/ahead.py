"""What a tile asks for while it computes, since it will be needed soon.

Few requests can be under way at once, so they are made in between the steps of a tile, not all at
its beginning. An address is only asked for, never read: it need not be valid.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.codegen.caches import prefetch
from graphc.codegen.emitter import I64, PTR, Reg
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.build import Builder
from graphc.kernel.ir import MAX_NEAR

# Of the next panel a tile asks for so many times as many rows as it has itself, at most.
_MAX_PIECES = 8
# A block of the right operand of fewer bytes is in the second cache, if it was used of late.
_KEPT_BYTES = 320 * 1024


@dataclass(frozen=True, slots=True)
class Near:
    """Matrices that lie as the result does and are read next.

    Attributes:
        table: of pairs, an address and the bytes between rows.
        count: of them, at most ``MAX_NEAR``.
        row, column: where in them the block that is computed begins.
    """

    table: Reg
    count: Reg
    row: Reg
    column: Reg


class Requests:
    """Writes the table of what a tile asks for: of the next panel its share, and what is near.

    An entry is an address and a stride in bytes, and stands for as many rows as a tile has, each
    as wide as a panel.
    """

    def __init__(
        self, f: Builder, sizes: Blocking, shape: tuple[Reg, Reg, Reg], b_row: Reg, near: Near
    ) -> None:
        """``shape`` holds m, n and k of the block that is swept; made before its loops."""
        m, n, k = shape
        rows = sizes.tile_rows
        self.f, self.sizes, self.near = f, sizes, near
        self.table = f.alloca(I64, 2 * (_MAX_PIECES + MAX_NEAR))
        self._pieces = f.quotient(f.add(k, rows - 1), rows)
        tiles = f.quotient(f.add(m, rows - 1), rows)
        share = f.quotient(f.add(self._pieces, f.sub(tiles, 1)), tiles)
        self._share = f.minimum(share, f.i64(_MAX_PIECES))
        self._piece = f.mul(b_row, rows)
        self._stride = f.mul(b_row, sizes.size)
        is_far = f.compare("sge", f.mul(k, n), _KEPT_BYTES // sizes.size)
        # panels that were packed just now are near, others follow each other in memory
        self._is_apart = f.both(is_far, f.compare("ne", b_row, sizes.tile_columns))
        self._n = n

    def any_at(self, column: Reg) -> Reg:
        """Whether the tiles of the panel from a column on ask for anything."""
        return self.f.either(self._has_next(column), self.f.compare("ne", self.near.count, 0))

    def write(self, row: Reg, column: Reg, next_panel: Reg) -> Reg:
        """Fills the table for the tile from a row and column on; gives the number of entries."""
        f, near = self.f, self.near
        first = f.mul(f.quotient(row, self.sizes.tile_rows), self._share)
        rest = f.sub(self._pieces, f.minimum(first, self._pieces))
        share = f.select(self._has_next(column), f.minimum(self._share, rest), f.i64(0))
        with f.loop(f.i64(0), share, 1) as loop:
            offset = f.mul(f.add(first, loop.index), self._piece)
            self._store(loop.index, f.at(next_panel, self.sizes.element, offset), self._stride)
        across = f.mul(f.add(near.column, column), self.sizes.size)
        with f.loop(f.i64(0), near.count, 1) as loop:
            base, stride = load_request(f, near.table, loop.index)
            down = f.mul(f.add(near.row, row), stride)
            self._store(f.add(share, loop.index), f.at(base, "i8", down, across), stride)
        return f.add(share, near.count)

    def _has_next(self, column: Reg) -> Reg:
        f, width = self.f, self.sizes.tile_columns
        return f.both(self._is_apart, f.compare("sle", f.add(column, 2 * width), self._n))

    def _store(self, entry: Reg, address: Reg, stride: Reg) -> None:
        f, place = self.f, self.f.mul(entry, 2)
        f.store(address, f.element_pointer(self.table, place, "i64"), 8)
        f.store(stride, f.element_pointer(self.table, f.add(place, 1), "i64"), 8)


def load_request(f: Builder, table: Reg, entry: Reg) -> tuple[Reg, Reg]:
    """The address and the stride of an entry."""
    place = f.mul(entry, 2)
    address = f.load(f.element_pointer(table, place, "i64"), PTR, 8)
    return address, f.load(f.element_pointer(table, f.add(place, 1), "i64"), I64, 8)


def emit_request(f: Builder, sizes: Blocking, table: Reg, entry: Reg) -> None:
    """Asks for all rows of an entry, into the second cache."""
    address, stride = load_request(f, table, entry)
    for _ in range(sizes.tile_rows):
        prefetch(f, address, sizes.tile_columns * sizes.size, near=False)
        address = f.at(address, "i8", stride)
