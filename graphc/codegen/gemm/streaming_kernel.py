"""The streaming micro-kernel: rows of B stream through once, sums of C wait in a near cache.

It serves products of few rows, and of integers. Each element of C is still one ascending chain
over k.

Some rows of B are read side by side. From memory the next lines are prefetched in the order in
which they lie, which gives the full bandwidth of memory. The hardware prefetcher doesn't serve
there, because rows tend to lie powers of two apart. In nearer caches it does, except where rows
begin: there it is a few lines late each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.gemm.builder import Builder, edge_mask, masked_load, masked_store
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.prefetch import LINE, prefetch
from graphc.codegen.llvm.types import LType, ltype

Asks: TypeAlias = Literal["nothing", "all", "starts"]
"""What a kernel asks for while it goes through some rows of B: of those that follow nothing, all in
the order in which they lie, or how each of them begins."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What a kernel of few rows is like.

    Attributes:
        element, lanes: of a vector.
        rows: of C.
        vectors: side by side in a tile.
        side: tiles side by side that are computed together while there are so many.
        depth: rows of B for each load and store of C.
        single_depth: the same if all tiles are computed together; only for one row, and not for
            one that asks for all.
        asks: for what of what comes next: worth it if that is far.
        boolean: whether "and" and "or" stand for product and sum.
        masked: whether rows end with masked vectors in place of scalars, where the target has such
            loads and stores.
    """

    element: str
    lanes: int
    rows: int
    vectors: int = 1
    side: int = 1
    depth: int = 8
    single_depth: int | None = None
    asks: Asks = "nothing"
    boolean: bool = False
    masked: bool = False

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def name(self) -> str:
        """What its function is called; what it leaves out follows from the rest on a target."""
        kind = "bool" if self.boolean else ltype(self.element, self.lanes).suffix
        asking = "" if self.asks == "nothing" else f"_{self.asks}"
        shape = f"{self.rows}x{self.vectors}x{self.side}"
        return f"gemm_stream{shape}_{self.depth}{asking}_{kind}"


def emit_stream(module: ModuleEmitter, stream: Stream) -> str:
    """Defines the kernel that adds to rows of C; returns its name.

    Signature: (a, a_row, a_col, b, b_row, c, c_row, c_step, first, end, k, count), B with unit
    column stride. Only columns from ``first``, in the first tile or the one before, to ``end`` are
    touched. Tiles of C lie ``c_step`` apart, of their rows each is contiguous and ``c_row`` from
    the one before. The rows from ``count`` (at least 1) on repeat the last one, the same numbers to
    the same place.

    One that asks takes ``next`` as well, the matrix that is read next, with rows like those of B.
    If it is null, one that asks for starts asks for nothing.
    """
    if module.has(stream.name):
        return stream.name
    return _Kernel(module, stream).emit()


@dataclass(frozen=True, slots=True)
class _Steps:
    """Some steps of k: their number, where rows of B begin, and factors, so many apart."""

    count: Reg
    right: Reg
    left: Reg
    left_step: Reg


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked for with some steps: a tile's width for each, so many elements apart."""

    place: Reg
    step: Reg
    near: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """Columns that are computed together: the first, its sums, and how wide they are."""

    column: Reg
    sums: Reg
    vectors: int
    type: LType
    mask: Reg | None


class _Kernel:
    """The kernel under emission."""

    def __init__(self, module: ModuleEmitter, stream: Stream) -> None:
        more = "" if stream.asks == "nothing" else " *next"
        names = f"*a a_row a_col *b b_row *c c_row c_step first end k count{more}"
        self.f = f = Builder(module, stream.name, names)
        self.stream = stream
        self.scalar = ltype(stream.element)
        self.vector = ltype(stream.element, stream.lanes)
        self.size = self.scalar.bits // 8
        a, a_row, self.a_col, self.b, self.b_row = f.given("a", "a_row", "a_col", "b", "b_row")
        self.c, c_row, self.c_step = f.given("c", "c_row", "c_step")
        self.first, self.end, self.k, count = f.given("first", "end", "k", "count")
        # the whole tiles
        low = (self.first + (stream.width - 1)).udiv(stream.width)
        self.high = self.end.udiv(stream.width)
        self.low = f.least(low, self.high)
        last = count - 1
        clamped = [f.least(f.const(row), last) for row in range(stream.rows)]
        self.a_rows = [f.at(a, stream.element, row * a_row) for row in clamped]
        self.c_rows = [row * c_row for row in clamped]
        self.depth = f.const(stream.depth)
        if stream.single_depth is not None:
            is_single = self.high - self.low <= stream.side
            self.depth = f.select(is_single, stream.single_depth, self.depth)
        self.held = f.alloca(self.scalar, stream.rows * stream.depth) if stream.rows > 1 else None

    def emit(self) -> str:
        """Defines the function and returns its name."""
        f, stream = self.f, self.stream
        with f.blocks(self.k, self.depth) as (start, depth):
            base = f.at(self.b, stream.element, start * self.b_row)
            steps = _Steps(depth, base, *self._left(start, depth))
            if stream.asks == "nothing":
                self._tiles(steps, self.low, self.high)
            elif stream.asks == "all":
                self._asking(steps, self._following(start, base))
            else:
                self._asking_for_starts(steps, self._following(start, base))
            self._edges(steps)
        f.finish()
        return stream.name

    def _following(self, start: Reg, base: Reg) -> Reg:
        """The rows of B behind those from ``start`` on."""
        f, stream = self.f, self.stream
        is_last = start + self.depth >= self.k
        following = f.at(base, stream.element, self.b_row * self.depth)
        return f.select(is_last, f.given("next")[0], following)

    def _left(self, start: Reg, depth: Reg) -> tuple[Reg, Reg]:
        """Where steps find their factors, and how far apart: of several rows in a small copy."""
        f, stream = self.f, self.stream
        offset = start * self.a_col
        if self.held is None:
            return f.at(self.a_rows[0], stream.element, offset), self.a_col
        with f.loop(0, depth) as step:
            across = offset + step.index * self.a_col
            to = f.at(self.held, stream.element, step.index * stream.rows)
            for row in range(stream.rows):
                place = f.at(self.a_rows[row], stream.element, across)
                value = f.load(place, self.scalar, self.size)
                f.store(value, f.at(to, stream.element, row), self.size)
        return self.held, f.const(stream.rows)

    def _asking(self, steps: _Steps, following: Reg) -> None:
        """All tiles; each part of them asks for one of the rows that follow, in its order."""
        f, stream = self.f, self.stream
        tiles = self.high - self.low
        is_short = tiles < stream.depth
        parts = f.select(is_short, 1, stream.depth)
        length = (tiles + (parts - 1)).udiv(parts)
        with f.loop(0, parts) as part:
            first = self.low + part.index * length
            last = f.least(first + length, self.high)
            row = f.at(following, stream.element, part.index * self.b_row)
            with f.loop(first, last) as tile:
                place = (tile.index - first) * (stream.width * stream.depth)
                here = f.at(row, stream.element, place)
                self._tile(steps, tile.index, _Wanted(here, f.const(stream.width), near=False))

    def _asking_for_starts(self, steps: _Steps, following: Reg) -> None:
        """All tiles; each of the last ones asks for one of the first of the rows that follow."""
        f, stream = self.f, self.stream
        wide = stream.side * stream.width
        count = max(1, PRODUCTS.next_rows_bytes // (wide * self.size)) * stream.side
        (after,) = f.given("next")
        is_asking = f.convert("ptrtoint", after, "i64").differs(0)
        whole = self.low + (self.high - self.low).down_to(stream.side)
        before = whole - f.select(is_asking, count, 0)
        middle = f.most(self.low, before)
        self._tiles(steps, self.low, middle)
        first = middle - self.low
        with f.loop(middle, whole, stream.side) as tile:
            place = (tile.index - first) * stream.width
            here = f.at(following, stream.element, place)
            self._tile(steps, tile.index, _Wanted(here, self.b_row, near=True), stream.side)
        with f.loop(whole, self.high) as tile:
            self._tile(steps, tile.index, None)

    def _tiles(self, steps: _Steps, first: Reg, past: Reg) -> None:
        """All steps for some whole tiles, as many as are computed together or a multiple."""
        side = self.stream.side
        with self.f.loop(first, past, side) as tile:
            self._tile(steps, tile.index, None, side)

    def _tile(self, steps: _Steps, tile: Reg, wanted: _Wanted | None, side: int = 1) -> None:
        """All steps for a whole tile, or for several side by side."""
        f, stream = self.f, self.stream
        sums_at = f.at(self.c, stream.element, tile * self.c_step)
        vectors = side * stream.vectors
        span = _Span(tile * stream.width, sums_at, vectors, self.vector, None)
        self._add(steps, span, wanted)

    def _edges(self, steps: _Steps) -> None:
        """All steps for the columns before and behind whole tiles, which are parts of one tile."""
        f, stream = self.f, self.stream
        low, high = (tile * stream.width for tile in (self.low, self.high))
        with f.loop(0, 2) as side:
            is_behind = side.index.differs(0)
            behind = f.most(high, self.first)
            begin = f.select(is_behind, behind, f.least(self.first, low))
            end = f.select(is_behind, self.end, low)
            outside = begin.down_to(stream.width)
            tile, inside = outside // stream.width, begin - outside
            base = f.at(self.c, stream.element, tile * self.c_step, inside)
            with self._spans(end - begin) as (column, type_, mask):
                sums_at = f.at(base, stream.element, column)
                self._add(steps, _Span(begin + column, sums_at, 1, type_, mask), None)

    @contextmanager
    def _spans(self, rest: Reg) -> Iterator[tuple[Reg, LType, Reg | None]]:
        """Of so many columns: where to begin, the type to work in, and its mask."""
        f, lanes = self.f, self.stream.lanes
        if self.stream.masked:
            with f.blocks(rest, lanes) as (column, columns):
                yield column, self.vector, edge_mask(f, columns, lanes)
        else:
            with f.loop(0, rest) as loop:
                yield loop.index, self.scalar, None

    def _add(self, steps: _Steps, span: _Span, wanted: _Wanted | None) -> None:
        """All steps for some columns."""
        f, stream, element = self.f, self.stream, self.stream.element
        type_, mask = span.type, span.mask
        vectors = [f.const(v * stream.lanes) for v in range(span.vectors)]
        places = [f.at(span.sums, element, row, v) for row in self.c_rows for v in vectors]
        sums = [masked_load(f, place, type_, mask) for place in places]
        pointers = [f.at(steps.right, element, span.column), steps.left]
        strides = [self.b_row, steps.left_step]
        if wanted is not None:
            pointers.append(wanted.place)
            strides.append(wanted.step)
        with f.loop(0, steps.count, 1, [*sums, *pointers]) as loop:
            sums, pointers = list(loop.carries[: len(places)]), list(loop.carries[len(places) :])
            right_at, left_at, *wanted_at = pointers
            right: list[Reg] = []
            for row in range(stream.rows):
                factor = f.load(f.at(left_at, element, row), self.scalar, self.size)
                left = f.splat(factor, type_.lanes)
                for number, offset in enumerate(vectors):
                    if row == 0:
                        place = f.at(right_at, element, offset)
                        right.append(masked_load(f, place, type_, mask))
                        if wanted is not None:
                            self._ask(wanted_at[0], number, wanted.near)
                    n = row * span.vectors + number
                    sums[n] = self._accumulate(left, right[number], sums[n])
            moved = [f.at(at, element, by) for at, by in zip(pointers, strides, strict=True)]
            loop.yields = [*sums, *moved]
        for place, value in zip(places, loop.results, strict=False):
            masked_store(f, value, place, mask)

    def _ask(self, first: Reg, number: int, near: bool) -> None:
        """Asks for the line that begins with a vector, counted from ``first`` on, if any does."""
        offset = number * self.stream.lanes * self.size
        if offset % LINE == 0:
            place = self.f.at(first, "i8", self.f.const(offset))
            prefetch(self.f, place, self.stream.lanes * self.size, near=near)

    def _accumulate(self, left: Reg, right: Reg, total: Reg) -> Reg:
        if self.stream.boolean:
            return total | (left & right)
        if total.type.is_float:
            return self.f.fma(left, right, total)
        return total + left * right
