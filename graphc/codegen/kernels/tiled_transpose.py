"""Tiled transposes: ``across`` loops around a vector loop, tile by tile, with their fused work.

Along the vector loop such a kernel would gather single elements of lines that lie far apart. A tile
is read along the outer loop instead, where its elements are neighbours. It is transposed in
registers and kept in a small array on the stack, from which the body takes whole vectors. Tiles are
walked along the outer loop first: sources are then read in streams, and whole lines are written.

Long rows with non-temporal stores are written several cache lines at a time, because alternating
single lines takes memory twice as long. Then tiles are walked by blocks of columns, along the
vector loop first. Each line that is read is far from the line before, which the hardware
prefetcher can't predict. So lines are prefetched some tiles ahead, at the end of a block those of
the next block. Tiles start where they read whole lines: lines at equal distances share few sets of
the nearest cache, and would be evicted before the next tile needs their rest. Where rows are known
to be no whole lines, the tiles of a block and one more are kept, and each row is written from its
own first line on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from graphc.codegen.kernels.lane_values import LinearLanes
from graphc.codegen.kernels.nontemporal_stores import (
    address_at,
    at_least,
    both,
    element_at,
    is_always,
    start_of_lines,
)
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.codegen.llvm.prefetch import LINE, prefetch
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.transpose import transposed
from graphc.codegen.llvm.types import I64, ltype
from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.index_range import loads_across
from graphc.kernel.ir import Block, Var
from graphc.kernel.schedule.nest import tile_extent
from graphc.kernel.schedule.tiled import Tiled
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import stores_in


@emits(Tiled)
def emit_across(k: KernelScope, statement: Block, schedule: Tiled) -> None:
    """Emits the loop and the vector loop inside it by tiles."""
    _Tiling(k, statement, schedule).emit()


@dataclass(frozen=True, slots=True)
class _Skew:
    """Rows in which lines start at another column each.

    Attributes:
        start: the address of the first row.
        pitch: elements from row to row.
        size: of an element in bytes.
    """

    start: Reg
    pitch: int
    size: int

    def first_line(self, e: FunctionEmitter, row: Reg) -> Reg:
        """The column of a row from which on it consists of whole lines."""
        address = self.start + row * (self.pitch * self.size)
        rest = (0 - address) & (LINE - 1)
        return rest.udiv(self.size)


class _Tiling:
    """The code of one loop across another."""

    def __init__(self, k: KernelScope, outer: Block, schedule: Tiled) -> None:
        self.k = k
        self.outer = outer
        *self.before, last = outer.body
        inner = last.block
        assert inner is not None, "so legality says"
        assert not isinstance(outer.extent, Var) and not isinstance(inner.extent, Var)
        self.inner = inner
        self.body = (*self.before, *inner.body)
        self.loads = loads_across(k.forms, inner.body, outer.index, inner.index)
        self.height, self.width = outer.extent, inner.extent
        self.rows, self.columns, self.block = schedule.rows, schedule.columns, schedule.block

    def emit(self) -> None:
        """Tiles first, then what is left at the borders, element by element."""
        k, e = self.k, self.k.e
        zero, right = e.const(0), k.dim(self.width)
        lower, upper = k.bounds(self.outer)
        left, skew = self._left(right)
        first = zero if left is None else left
        far = self._whole_lines()
        past, streaming = self._goes_by_blocks(*far), dict(k.streaming)
        if skew is not None and not is_always(past):
            past = skew = None
            k.streaming.clear()
        most = far[0] * (far[1] if skew is None else self._many + 2 * far[1])
        room = [e.alloca(ltype(storage(load.value.dtype)), most) for load in self.loads]
        below, beyond = upper, right
        if not is_always(past):
            for store in list(k.streaming):
                if store.buffer.type.dtype.bytes * self.columns % LINE:
                    del k.streaming[store]
            whole = e.const(0), e.const(self.rows)
            below = self._last(self.height, upper, lower, self.rows)
            beyond = self._last(self.width, right, first, self.columns)
            with nullcontext() if past is None else e.when(past ^ 1):
                columns = e.loop(first, beyond, self.columns)
                with columns as column, e.loop(lower, below, self.rows) as row:
                    self._ask_beside(row.index, column.index)
                    self._tile(room, row.index, column.index, whole)
        if past is not None:
            self.rows, self.columns = far
            k.streaming.update(streaming)
            end = self._last(self.width, right, first, self.columns)
            with nullcontext() if is_always(past) else e.when(past):
                if skew is not None:
                    end = end - self.columns
                self._by_blocks(room, (lower, upper), (first, end), skew)
            below = upper if is_always(past) else e.select(past, upper, below)
            beyond = end if is_always(past) else e.select(past, end, beyond)
        k.streaming.clear()
        if left is not None or skew is not None or not self._all_fit():
            self._borders((lower, below, upper), right, first, beyond, skew)

    def _whole_lines(self) -> tuple[int, int]:
        """Rows and columns of tiles that read whole lines and write whole lines past the caches."""
        stores = [store.buffer.type.dtype.bytes for store in self.k.streaming]
        if not stores:
            return self.rows, self.columns
        rows = tile_extent(self.height, max(self.rows, LINE // self._size))
        return rows, max(self.columns, LINE // min(stores))

    def _all_fit(self) -> bool:
        """Whether all elements are known to lie in tiles, where no line has to begin one."""
        height, width = self.height, self.width
        if not isinstance(height, int) or not isinstance(width, int):
            return False
        return height % self.rows == 0 and width % self.columns == 0

    def _by_blocks(
        self,
        room: Sequence[Reg],
        rows: tuple[Reg, Reg],
        columns: tuple[Reg, Reg],
        skew: _Skew | None,
    ) -> None:
        """Tiles along the columns of a block, block by block."""
        e, (lower, last), (first, beyond) = self.k.e, rows, columns
        top = self._top(lower, first)
        height = last - top
        with e.loop(first, beyond, self._many) as block:
            past = block.index + self._many
            end = e.least(past, beyond)
            others = beyond - end
            with e.loop(0, height, self.rows) as strip:
                base, lines = self._placed(top + strip.index, lower, last)
                later, shift = self._later(strip.index, height, others)
                asked = self._inside(top + later)
                if skew is not None:
                    self._strip(room, (base, lines), (block.index, end), (asked, shift), skew)
                else:
                    with e.loop(block.index, end, self.columns) as column:
                        self._ask(asked, column.index + shift)
                        self._tile(room, base, column.index, lines)

    def _strip(
        self,
        room: Sequence[Reg],
        rows: tuple[Reg, tuple[Reg, Reg]],
        columns: tuple[Reg, Reg],
        asked: tuple[Reg, Reg],
        skew: _Skew,
    ) -> None:
        """Reads the tiles of a strip and one more, then writes each row from its first line on."""
        e, (base, lines), (begin, end) = self.k.e, rows, columns
        pitch = self._many + self.columns
        with e.loop(begin, end + self.columns, self.columns) as column:
            self._ask(asked[0], column.index + asked[1])
            across = column.index - begin
            for load, tile in zip(self.loads, room, strict=True):
                part = e.at(tile, storage(load.value.dtype), across)
                self._keep(load, base, column.index, part, pitch)
        with e.loop(*lines, 1) as line:
            row = base + line.index
            self._enter(row)
            shift = skew.first_line(e, row)
            start = line.index * pitch + shift
            with e.loop(begin, end, self.columns) as column:
                across = column.index - begin
                place = start + across
                self._write(room, place, column.index + shift)

    def _later(self, strip: Reg, height: Reg, others: Reg) -> tuple[Reg, Reg]:
        """Which strip comes some way after another, and by how many columns further right.

        After the end of a block that is the next one's top, as far as there are ``others``.
        """
        e = self.k.e
        strips = (height + (self.rows - 1)) & -self.rows
        further = strip + self.k.tuning.tile_prefetch_bytes // self._size
        over = further - strips
        starts = over >= 0
        right = e.least(others, self._many)
        return e.select(starts, over, further), e.select(starts, right, 0)

    def _goes_by_blocks(self, rows: int, columns: int) -> Reg | None:
        """The condition under which such tiles go by blocks: results stream, in long rows or from
        more sources than a processor foresees the lines of."""
        k, streams = self.k, next(iter(self.k.streaming.values()), None)
        high = at_least(k, self.height, rows)
        long = at_least(k, self.width, columns if columns > k.tuning.tile_side else self._many + 1)
        if streams is None or high is None or long is None:
            return None
        return both(k, both(k, streams, long), high)

    @property
    def _many(self) -> int:
        """Columns of a block."""
        return max(1, self.block // self._size // self.columns) * self.columns

    @property
    def _size(self) -> int:
        """Bytes of the largest element that is read."""
        return max(load.value.dtype.bytes for load in self.loads)

    def _top(self, lower: Reg, column: Reg) -> Reg:
        """Where tiles start so that they read whole lines, perhaps above the first row."""
        k, e = self.k, self.k.e
        load = self.loads[0]
        size = load.value.dtype.bytes
        k.bind(self.outer.index, lower)
        first = element_at(k, self.body, self.inner.index, column, load.index)
        assert first is not None, "affine indices are made of indices"
        base = e.assign(I64, f"ptrtoint {k.pointer(load.buffer)} to i64")
        place = base.udiv(size) + first
        return lower - (place & (self.rows - 1))

    def _placed(self, row: Reg, lower: Reg, last: Reg) -> tuple[Reg, tuple[Reg, Reg]]:
        """The row at which to read a tile that lies inside, and which of its lines to write."""
        e, base = self.k.e, self._inside(row)
        begin = e.most(row, lower)
        end = e.least(row + self.rows, last)
        return base, (begin - base, end - base)

    def _inside(self, row: Reg) -> Reg:
        """The nearest row whose tile lies inside."""
        k, e = self.k, self.k.e
        lowest = k.dim(self.height) - self.rows
        return e.least(e.most(row, 0), lowest)

    def _left(self, right: Reg) -> tuple[Reg | None, _Skew | None]:
        """Where tiles start so that they write whole lines past the caches; None if they don't.

        And where lines start if that is another column in each row.
        """
        k, e = self.k, self.k.e
        k.streaming.clear()
        k.bind(self.outer.index, e.const(0))
        zero = e.const(0)
        left = start_of_lines(k, self.body, self.inner.index, self.width, zero, short=True)
        skew = self._skew()
        if skew is not None:
            return None, skew
        for store, condition in list(k.streaming.items()):
            # all rows must start alike
            pitch = self._pitch(store)
            size = store.buffer.type.dtype.bytes
            if pitch is None or (isinstance(pitch, int) and pitch * size % LINE):
                del k.streaming[store]
            elif not isinstance(pitch, int):
                rest = k.dim(pitch * size) & (LINE - 1)
                aligned = rest.equals(0)
                k.streaming[store] = both(k, condition, aligned)
        if left is None or not k.streaming:
            return None, None
        return e.least(left, right), None

    def _pitch(self, store: Access) -> Dim | None:
        """By how many elements the rows of a result follow each other."""
        form = self.k.forms.get(store.index)
        return None if form is None else form.coefficient(self.outer.index)

    def _skew(self) -> _Skew | None:
        """Where lines start in long rows that are known to be no whole lines, if all are alike."""
        k = self.k
        if not k.streaming:
            return None
        first, condition = next(iter(k.streaming.items()))
        pitch, size = self._pitch(first), first.buffer.type.dtype.bytes
        if not isinstance(pitch, int) or pitch * size % LINE == 0:
            return None
        if not is_always(condition) and condition is not k.streamed[first.buffer]:
            return None
        for other in k.streaming:
            if self._pitch(other) != pitch or other.buffer.type.dtype.bytes != size:
                return None
        zero = k.e.const(0)
        k.bind(self.outer.index, zero)
        start = address_at(k, self.body, self.inner.index, zero, first)
        return None if start is None else _Skew(start, pitch, size)

    def _last(self, extent: Dim, upper: Reg, lower: Reg, size: int) -> Reg:
        """The end of the whole tiles that start at ``lower``."""
        e = self.k.e
        if isinstance(extent, int) and is_literal(lower, 0):
            return e.const(extent - extent % size)
        count = (upper - lower) & -size
        return lower + count

    def _enter(self, row: Reg) -> None:
        self.k.bind(self.outer.index, row)
        self.k.statements(self.before)

    def _side(self, load: Access) -> int:
        """Rows and columns of what is transposed in registers."""
        most = self.k.target.vector_bits // (8 * load.value.dtype.bytes)
        return min(self.rows, self.columns, self.k.tuning.tile_side, max(2, most))

    def _tile(self, room: Sequence[Reg], row: Reg, column: Reg, lines: tuple[Reg, Reg]) -> None:
        """Reads a tile, and runs the body for some of its rows."""
        e = self.k.e
        for load, tile in zip(self.loads, room, strict=True):
            self._keep(load, row, column, tile, self.columns)
        with e.loop(*lines, 1) as line:
            self._enter(row + line.index)
            self._write(room, line.index * self.columns, column)

    def _write(self, room: Sequence[Reg], place: Reg, column: Reg) -> None:
        """Runs the body for neighbours of a row, whose elements lie at a place of what was read."""
        k, e = self.k, self.k.e
        for load, tile in zip(self.loads, room, strict=True):
            k.tiles[load] = e.at(tile, storage(load.value.dtype), place)
        k.lanes = self.columns
        k.bind(self.inner.index, LinearLanes(column, e.const(1)))
        k.statements(self.inner.body)
        k.lanes = 1
        k.tiles.clear()

    def _place(self, load: Access, row: Reg, column: Reg) -> Reg:
        """The index of a tile's first element."""
        k = self.k
        k.bind(self.outer.index, row)
        first = element_at(k, self.body, self.inner.index, column, load.index)
        assert first is not None, "affine indices are made of indices"
        return first

    def _pointer(self, load: Access, place: Reg, line: int, top: int) -> Reg:
        """Where a line of a tile lies, a column of the loops, from some row on."""
        k, e = self.k, self.k.e
        stride = k.dim(k.forms[load.index].coefficient(self.inner.index))
        place = place + stride * line
        place = place + top
        return e.at(k.pointer(load.buffer), storage(load.value.dtype), place)

    def _ask(self, row: Reg, column: Reg) -> None:
        """Asks for a tile: a line of each source."""
        for load in self.loads:
            with self._parts(self.columns) as part:
                place = self._place(load, row, column + part)
                for line in range(min(self.columns, self.k.tuning.tile_side)):
                    prefetch(self.k.e, self._pointer(load, place, line, 0), near=False)

    @contextmanager
    def _parts(self, extent: int) -> Iterator[Reg]:
        """Where the parts of a large tile start, each by the same code."""
        e, zero, side = self.k.e, self.k.e.const(0), self.k.tuning.tile_side
        if extent <= side:
            yield zero
            return
        with e.loop(zero, extent, side) as part:
            yield part.index

    def _ask_beside(self, row: Reg, column: Reg) -> None:
        """Asks for what is read one tile further along the vector loop, where that may be far and
        what is written is near.

        In attention that takes 0.1 ms of 0.2 off bringing 12 keys of 512 x 64 into panels. Where
        results are written, 64 transposes of 96 x 128 took a tenth longer.
        """
        e = self.k.e
        if any(store.buffer.role != "scratch" for store in stores_in(self.body)):
            return
        for load in self.loads:
            size = load.buffer.type.bytes
            if isinstance(size, int) and size <= self.k.tuning.near_bytes:
                continue
            place = self._place(load, row, column)
            for line in range(self.columns):
                prefetch(e, self._pointer(load, place, self.columns + line, 0), near=False)

    def _square(self, load: Access, place: Reg, left: int, top: int) -> list[Reg]:
        """A square of a tile, transposed."""
        e, side = self.k.e, self._side(load)
        vector, align = ltype(storage(load.value.dtype), side), load.value.dtype.bytes
        pointers = [self._pointer(load, place, left + line, top) for line in range(side)]
        return transposed(e, [e.load(pointer, vector, align) for pointer in pointers])

    def _keep(self, load: Access, row: Reg, column: Reg, tile: Reg, pitch: int) -> None:
        """Reads a tile along the outer loop and writes it to the stack along the inner one."""
        e, side = self.k.e, self._side(load)
        element, align = storage(load.value.dtype), load.value.dtype.bytes
        with self._parts(self.columns) as right, self._parts(self.rows) as down:
            place = self._place(load, row + down, column + right)
            start = down * pitch + right
            part = e.at(tile, element, start)
            for left in range(0, min(self.columns, self.k.tuning.tile_side), side):
                for top in range(0, min(self.rows, self.k.tuning.tile_side), side):
                    for line, register in enumerate(self._square(load, place, left, top)):
                        at = e.const((top + line) * pitch + left)
                        e.store(register, e.at(part, element, at), align)

    def _borders(
        self,
        rows: tuple[Reg, Reg, Reg],
        right: Reg,
        left: Reg,
        beyond: Reg,
        skew: _Skew | None,
    ) -> None:
        """What lies left of the tiles, right of them and below, by one piece of code.

        ``rows`` are the first one, the one past the last that tiles have, and the end. What tiles
        write starts ``skew`` further right in each row.
        """
        lower, below, upper = rows
        k, e, zero = self.k, self.k.e, self.k.e.const(0)
        with e.loop(zero, 3) as part:
            is_left, is_below = (part.index.equals(number) for number in (0, 2))
            top, bottom = e.select(is_below, below, lower), e.select(is_below, upper, below)
            start = e.select(is_left | is_below, zero, beyond)
            end = e.select(is_left, left, right)
            with e.loop(top, bottom) as row:
                self._enter(row.index)
                if skew is not None:
                    shift = skew.first_line(e, row.index)
                    start = e.select(is_left, zero, beyond + shift)
                    end = e.select(is_left, shift, right)
                with e.loop(start, end) as column:
                    k.bind(self.inner.index, column.index)
                    k.statements(self.inner.body)
