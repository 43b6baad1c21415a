"""The prefetch plan of a tile: which lines it prefetches while it computes.

Few requests can be under way at once, so prefetches stand between the steps of a tile, not all at
its beginning. A prefetched address is never read: it need not be valid.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.emitter import I64, PTR, Reg
from graphc.codegen.llvm.prefetch import prefetch
from graphc.kernel.statements.products import MAX_NEAR

# Numbers of an entry.
_WORDS = 4

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
    """Writes the table of what tiles ask for: of the next panel their share, and what is near.

    An entry has an address and a stride in bytes, and stands for as many rows as a tile has, each
    as wide as a panel. A third number is how far it moves from one tile to the next below it, and a
    fourth the last address.
    """

    def __init__(
        self, f: Builder, sizes: Blocking, shape: tuple[Reg, Reg, Reg], b_row: Reg, near: Near
    ) -> None:
        """``shape`` holds m, n and k of the block that is swept; made before its loops."""
        m, n, k = shape
        rows = sizes.tile_rows
        self.f, self.sizes, self.near = f, sizes, near
        self.table = f.alloca(I64, _WORDS * (PRODUCTS.panel_requests + MAX_NEAR))
        pieces = f.quotient(f.add(k, rows - 1), rows)
        tiles = f.quotient(f.add(m, rows - 1), rows)
        share = f.quotient(f.add(pieces, f.sub(tiles, 1)), tiles)
        self._share = f.minimum(share, f.i64(PRODUCTS.panel_requests))
        self._stride = f.mul(b_row, sizes.size)
        self._piece = f.mul(self._stride, rows)
        self._last = f.mul(self._piece, f.sub(pieces, 1))
        is_far = f.compare("sge", f.mul(k, n), PRODUCTS.kept_bytes // sizes.size)
        # panels that were packed just now are near, others follow each other in memory
        self._is_apart = f.both(is_far, f.compare("ne", b_row, sizes.tile_columns))
        self._n = n

    def write(self, column: Reg, next_panel: Reg) -> Reg:
        """Fills the table for the first tile of the panel from a column on; gives the number of
        entries."""
        f, near = self.f, self.near
        has_next = f.compare("sle", f.add(column, 2 * self.sizes.tile_columns), self._n)
        share = f.select(f.both(self._is_apart, has_next), self._share, f.i64(0))
        panel = f.convert("ptrtoint", next_panel, "i64")
        last, step = f.add(panel, self._last), f.mul(self._piece, share)
        with f.loop(f.i64(0), share, 1) as loop:
            first = f.add(panel, f.mul(loop.index, self._piece))
            self._store(loop.index, first, self._stride, step, last)
        across = f.mul(f.add(near.column, column), self.sizes.size)
        with f.loop(f.i64(0), near.count, 1) as loop:
            place = f.mul(loop.index, 2)
            base = f.load(f.element_pointer(near.table, place, "i64"), PTR, 8)
            stride = f.load(f.element_pointer(near.table, f.add(place, 1), "i64"), I64, 8)
            down = f.mul(near.row, stride)
            first = f.convert("ptrtoint", f.at(base, "i8", down, across), "i64")
            step = f.mul(stride, self.sizes.tile_rows)
            self._store(f.add(share, loop.index), first, stride, step, f.i64(-1))
        return f.add(share, near.count)

    def _store(self, entry: Reg, *words: Reg) -> None:
        f, place = self.f, self.f.mul(entry, _WORDS)
        for number, word in enumerate(words):
            f.store(word, f.element_pointer(self.table, f.add(place, number), "i64"), 8)


def emit_request(f: Builder, sizes: Blocking, table: Reg, entry: Reg) -> None:
    """Asks for all rows of an entry, into the second cache, and moves it to the tile below."""
    first = f.mul(entry, _WORDS)
    places = [f.element_pointer(table, f.add(first, word), "i64") for word in range(_WORDS)]
    start, stride, step, last = (f.load(place, I64, 8) for place in places)
    address = f.convert("inttoptr", start, "ptr")
    for _ in range(sizes.tile_rows):
        prefetch(f, address, sizes.tile_columns * sizes.size, near=False)
        address = f.at(address, "i8", stride)
    following = f.intrinsic("umin", I64, f.add(start, step), last)
    f.store(following, places[0], 8)
