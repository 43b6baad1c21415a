"""The prefetch plan of a tile: which lines it prefetches while it computes.

Few requests can be under way at once, so prefetches stand between the steps of a tile, not all at
its beginning. A prefetched address is never read: it need not be valid.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.prefetch import prefetch
from graphc.codegen.llvm.types import I64, PTR
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
        pieces = (k + (rows - 1)).udiv(rows)
        tiles = (m + (rows - 1)).udiv(rows)
        share = (pieces + (tiles - 1)).udiv(tiles)
        self._share = f.least(share, PRODUCTS.panel_requests)
        self._stride = b_row * sizes.size
        self._piece = self._stride * rows
        self._last = self._piece * (pieces - 1)
        is_far = k * n >= PRODUCTS.kept_bytes // sizes.size
        # panels that were packed just now are near, others follow each other in memory
        self._is_apart = is_far & b_row.differs(sizes.tile_columns)
        self._n = n

    def write(self, column: Reg, next_panel: Reg) -> Reg:
        """Fills the table for the first tile of the panel from a column on; gives the number of
        entries."""
        f, near = self.f, self.near
        has_next = column + 2 * self.sizes.tile_columns <= self._n
        share = f.select(self._is_apart & has_next, self._share, 0)
        panel = f.convert("ptrtoint", next_panel, "i64")
        last, step = panel + self._last, self._piece * share
        with f.loop(0, share) as loop:
            first = panel + loop.index * self._piece
            self._store(loop.index, first, self._stride, step, last)
        across = (near.column + column) * self.sizes.size
        with f.loop(0, near.count) as loop:
            place = loop.index * 2
            base = f.load(f.at(near.table, "i64", place), PTR, 8)
            stride = f.load(f.at(near.table, "i64", place + 1), I64, 8)
            down = near.row * stride
            first = f.convert("ptrtoint", f.at(base, "i8", down, across), "i64")
            step = stride * self.sizes.tile_rows
            self._store(share + loop.index, first, stride, step, f.const(-1))
        return share + near.count

    def _store(self, entry: Reg, *words: Reg) -> None:
        f, place = self.f, entry * _WORDS
        for number, word in enumerate(words):
            f.store(word, f.at(self.table, "i64", place + number), 8)


def emit_request(f: Builder, sizes: Blocking, table: Reg, entry: Reg) -> None:
    """Asks for all rows of an entry, into the second cache, and moves it to the tile below."""
    first = entry * _WORDS
    places = [f.at(table, "i64", first + word) for word in range(_WORDS)]
    start, stride, step, last = (f.load(place, I64, 8) for place in places)
    address = f.convert("inttoptr", start, "ptr")
    for _ in range(sizes.tile_rows):
        prefetch(f, address, sizes.tile_columns * sizes.size, near=False)
        address = f.at(address, "i8", stride)
    following = f.intrinsic("umin", I64, start + step, last)
    f.store(following, places[0], 8)
