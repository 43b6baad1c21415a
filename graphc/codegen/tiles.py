"""Loops "across" the vector loop inside them, tile by tile: transposes and what is fused with them.

Along the vector loop such a kernel would read single elements of lines that lie far apart. A tile
is read along the outer loop instead, where they are neighbours, transposed in registers and kept in
a small array on the stack, from which the body takes whole vectors. Tiles are walked along the
outer loop first: sources are then read in streams, and whole lines are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphc.codegen.binding import Linear, storage
from graphc.codegen.emitter import I64, FunctionEmitter, Reg, ltype
from graphc.codegen.streaming import LINE, both, element_at, start_of_lines
from graphc.ir.dims import Dim
from graphc.kernel.index_range import loads_across
from graphc.kernel.ir import Load, Loop, Reduce, Statement, Var

if TYPE_CHECKING:
    from graphc.codegen.kernel import KernelEmitter

MAX_TILE = 16
"""Rows and columns of a tile; elements of eight bytes fill a line with half as many."""


def emit_across(k: KernelEmitter, statement: Loop) -> bool:
    """Emits the loop by tiles, or nothing and False where its body has nothing to gain."""
    *before, inner = statement.body
    if not isinstance(inner, Loop) or inner.kind != "vector" or k.lanes != 1:
        return False
    height, width = statement.extent, inner.extent
    if isinstance(height, Var) or isinstance(width, Var):
        return False
    if any(isinstance(other, (Loop, Reduce)) for other in (*before, *inner.body)):
        return False
    loads = loads_across(k.forms, inner.body, statement.index, inner.index)
    if not loads:
        return False
    size = max(load.result.dtype.bytes for load in loads)
    rows, columns = (_tile_extent(n, min(MAX_TILE, LINE // size)) for n in (height, width))
    if min(rows, columns) < 2:
        return False
    _Tiling(k, statement, inner, before, loads, (height, width), (rows, columns)).emit()
    return True


def _tile_extent(extent: Dim, most: int) -> int:
    while isinstance(extent, int) and most > extent:
        most //= 2
    return most


class _Tiling:
    """The code of one loop across another."""

    def __init__(
        self,
        k: KernelEmitter,
        outer: Loop,
        inner: Loop,
        before: Sequence[Statement],
        loads: Sequence[Load],
        extents: tuple[Dim, Dim],
        tile: tuple[int, int],
    ) -> None:
        self.k = k
        self.outer = outer
        self.inner = inner
        self.before = before
        self.body = (*before, *inner.body)
        self.loads = loads
        self.height, self.width = extents
        self.rows, self.columns = tile

    def emit(self) -> None:
        """Tiles first, then what is left at the borders, element by element."""
        k, e = self.k, self.k.e
        zero, right = e.const(0, I64), k.dim(self.width)
        lower, upper = k.bounds(self.outer)
        room = [
            e.alloca(ltype(storage(load.result.dtype)), self.rows * self.columns)
            for load in self.loads
        ]
        left = self._left(right)
        below = self._last(self.height, upper, lower, self.rows)
        beyond = self._last(self.width, right, left or zero, self.columns)
        columns = e.loop(left or zero, beyond, self.columns)
        with columns as column, e.loop(lower, below, self.rows) as row:
            for load, tile in zip(self.loads, room, strict=True):
                self._fill(load, tile, row.index, column.index)
            self._tile(room, row.index, column.index)
        k.streaming.clear()
        whole = left is None and all(
            isinstance(extent, int) and extent % size == 0
            for extent, size in (
                (self.height, self.rows), (self.width, self.columns)
            )
        )  # fmt: skip
        if not whole:
            self._borders((lower, below, upper), right, left or zero, beyond)

    def _left(self, right: Reg) -> Reg | None:
        """Where tiles start so that they write whole lines past the caches; None if they don't."""
        k, e = self.k, self.k.e
        k.streaming.clear()
        k.bind(self.outer.index, e.const(0, I64))
        zero = e.const(0, I64)
        left = start_of_lines(k, self.body, self.inner.index, self.width, zero, short=True)
        for store, condition in list(k.streaming.items()):
            # all rows must start alike
            form = k.forms.get(store.index)
            pitch = None if form is None else form.coefficient(self.outer.index)
            size = store.buffer.type.dtype.bytes
            if pitch is None or (isinstance(pitch, int) and pitch * size % LINE):
                del k.streaming[store]
            elif not isinstance(pitch, int):
                rest = e.binary("and", k.dim(pitch * size), e.const(LINE - 1, I64))
                aligned = e.icmp("eq", rest, e.const(0, I64))
                k.streaming[store] = both(k, condition, aligned)
        if left is None or not k.streaming:
            return None
        return e.intrinsic("smin", I64, left, right)

    def _last(self, extent: Dim, upper: Reg, lower: Reg, size: int) -> Reg:
        """The end of the whole tiles that start at ``lower``."""
        e = self.k.e
        if isinstance(extent, int) and lower.text == "0":
            return e.const(extent - extent % size, I64)
        count = e.binary("and", e.binary("sub", upper, lower), e.const(-size, I64))
        return e.binary("add", lower, count)

    def _enter(self, row: Reg) -> None:
        self.k.bind(self.outer.index, row)
        self.k.statements(self.before)

    def _fill(self, load: Load, tile: Reg, row: Reg, column: Reg) -> None:
        """Reads a tile along the outer loop and writes it to the stack along the inner one."""
        k, e = self.k, self.k.e
        element, align = storage(load.result.dtype), load.result.dtype.bytes
        k.bind(self.outer.index, row)
        first = element_at(k, self.body, self.inner.index, column, load.index)
        assert first is not None, "affine indices are made of indices"
        stride = k.dim(k.forms[load.index].coefficient(self.inner.index))
        side = min(self.rows, self.columns, max(2, k.target.vector_bits // (8 * align)))
        vector = ltype(element, side)
        for left in range(0, self.columns, side):
            for top in range(0, self.rows, side):
                lines = []
                for line in range(left, left + side):
                    place = e.binary("add", first, e.binary("mul", stride, e.const(line, I64)))
                    place = e.binary("add", place, e.const(top, I64))
                    pointer = e.element_pointer(k.pointer(load.buffer), place, element)
                    lines.append(e.load(pointer, vector, align))
                for line, register in enumerate(_transposed(e, lines)):
                    place = e.const((top + line) * self.columns + left, I64)
                    e.store(register, e.element_pointer(tile, place, element), align)

    def _tile(self, room: Sequence[Reg], row: Reg, column: Reg) -> None:
        """The body for each row of a tile."""
        k, e = self.k, self.k.e
        with e.loop(e.const(0, I64), e.const(self.rows, I64), 1) as line:
            self._enter(e.binary("add", row, line.index))
            start = e.binary("mul", line.index, e.const(self.columns, I64))
            for load, tile in zip(self.loads, room, strict=True):
                k.tiles[load] = e.element_pointer(tile, start, storage(load.result.dtype))
            k.lanes = self.columns
            k.bind(self.inner.index, Linear(column, e.const(1, I64)))
            k.statements(self.inner.body)
            k.lanes = 1
            k.tiles.clear()

    def _borders(self, rows: tuple[Reg, Reg, Reg], right: Reg, left: Reg, beyond: Reg) -> None:
        """What lies left of the tiles, right of them and below, by one piece of code.

        ``rows`` are the first one of the tiles, the one past their last, and the end.
        """
        lower, below, upper = rows
        k, e, zero = self.k, self.k.e, self.k.e.const(0, I64)
        with e.loop(zero, e.const(3, I64), 1) as part:
            is_left, is_below = (
                e.icmp("eq", part.index, e.const(number, I64)) for number in (0, 2)
            )
            top, bottom = e.select(is_below, below, lower), e.select(is_below, upper, below)
            start = e.select(e.binary("or", is_left, is_below), zero, beyond)
            end = e.select(is_left, left, right)
            with e.loop(top, bottom, 1) as row:
                self._enter(row.index)
                with e.loop(start, end, 1) as column:
                    k.bind(self.inner.index, column.index)
                    k.statements(self.inner.body)


def _transposed(e: FunctionEmitter, lines: Sequence[Reg]) -> list[Reg]:
    """A square of as many vectors as each has lanes, a power of two.

    Each step interleaves line i with line i + half, which moves one bit of an element's place from
    the number of its line to that of its lane; after as many steps as there are bits, lines and
    lanes have changed places.
    """
    count = len(lines)
    half = count // 2
    orders = [
        ", ".join(f"i32 {lane}, i32 {lane + count}" for lane in range(start, start + half))
        for start in (0, half)
    ]
    current = list(lines)
    for _ in range(count.bit_length() - 1):
        current = [
            e.assign(a.type, f"shufflevector {a}, {b}, <{count} x i32> <{order}>")
            for a, b in zip(current[:half], current[half:], strict=True)
            for order in orders
        ]
    return current
