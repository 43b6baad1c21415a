"""Products of few rows: rows of B stream through once, sums of C wait in a near cache.

Also the kernel of integer products. Each element of C is still one ascending chain over k.

Some rows of B are read side by side. What is read next is asked for meanwhile, in the order in
which it lies in memory: so memory gives what it can, and there is no waiting for it. The
processor's own guesses don't serve here, where rows tend to lie powers of two apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.codegen.caches import prefetch
from graphc.codegen.emitter import I64, LType, ModuleEmitter, Reg, ltype
from graphc.codegen.gemm.build import Builder, edge_mask, masked_load, masked_store


@dataclass(frozen=True, slots=True)
class Stream:
    """What a kernel of few rows is like.

    Attributes:
        element, lanes: of a vector.
        rows: of C.
        vectors: side by side in a tile.
        depth: rows of B for each load and store of C.
        asks: whether it asks for what comes next.
        boolean: whether "and" and "or" stand for product and sum.
        masked: whether rows end with masked vectors in place of scalars, where the target has such
            loads and stores.
    """

    element: str
    lanes: int
    rows: int
    vectors: int = 1
    depth: int = 8
    asks: bool = False
    boolean: bool = False
    masked: bool = False

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def name(self) -> str:
        """What its function is called."""
        kind = "bool" if self.boolean else ltype(self.element, self.lanes).suffix
        return f"gemm_stream{self.rows}x{self.vectors}_{kind}"


def emit_stream(module: ModuleEmitter, stream: Stream) -> str:
    """Defines the kernel that adds to rows of C; returns its name.

    Signature: (a, a_row, a_col, b, b_row, c, c_row, c_step, first, end, k, count), B with unit
    column stride. Only columns from ``first``, in the first tile, to ``end`` are touched. Tiles of
    C lie ``c_step`` apart, of their rows each is contiguous and ``c_row`` from the one before. The
    rows from ``count`` (at least 1) on repeat the last one, the same numbers to the same place.

    One that asks takes ``next`` as well, the matrix that is read next, with rows like those of B.
    """
    if module.has(stream.name):
        return stream.name
    return _Kernel(module, stream).emit()


class _Kernel:
    """The kernel under emission."""

    def __init__(self, module: ModuleEmitter, stream: Stream) -> None:
        more = " *next" if stream.asks else ""
        names = f"*a a_row a_col *b b_row *c c_row c_step first end k count{more}"
        self.f = f = Builder(module, stream.name, names)
        self.stream = stream
        self.scalar = ltype(stream.element)
        self.vector = ltype(stream.element, stream.lanes)
        self.size = self.scalar.bits // 8
        a, a_row, self.a_col, self.b, self.b_row = f.parameter("a", "a_row", "a_col", "b", "b_row")
        self.c, c_row, self.c_step = f.parameter("c", "c_row", "c_step")
        self.first, self.end, self.k, count = f.parameter("first", "end", "k", "count")
        # the whole tiles
        low = f.quotient(f.add(self.first, stream.width - 1), stream.width)
        self.high = f.quotient(self.end, stream.width)
        self.low = f.minimum(low, self.high)
        self.held = f.alloca(self.scalar, stream.rows * stream.depth)
        last = f.sub(count, 1)
        clamped = [f.minimum(f.i64(row), last) for row in range(stream.rows)]
        self.a_rows = [f.at(a, stream.element, f.mul(row, a_row)) for row in clamped]
        self.c_rows = [f.mul(row, c_row) for row in clamped]

    def emit(self) -> str:
        """Defines the function and returns its name."""
        f, stream = self.f, self.stream
        with f.blocks(self.k, stream.depth) as (start, depth):
            self._hold(start, depth)
            base = f.at(self.b, stream.element, f.mul(start, self.b_row))
            if stream.asks:
                is_last = f.compare("sge", f.add(start, stream.depth), self.k)
                following = f.at(base, stream.element, f.mul(self.b_row, stream.depth))
                following = f.select(is_last, f.parameter("next")[0], following)
                self._asking(base, depth, following)
            else:
                with f.loop(self.low, self.high, 1) as tile:
                    self._tile(base, depth, tile.index, None)
        self._edges()
        f.finish()
        return stream.name

    def _hold(self, start: Reg, depth: Reg) -> None:
        """A small copy of A, in the order in which it is read."""
        f, stream = self.f, self.stream
        with f.loop(f.i64(0), depth, 1) as step:
            offset = f.mul(f.add(start, step.index), self.a_col)
            to = f.at(self.held, stream.element, f.mul(step.index, stream.rows))
            for row in range(stream.rows):
                place = f.at(self.a_rows[row], stream.element, offset)
                value = f.load(place, self.scalar, self.size)
                f.store(value, f.at(to, stream.element, f.i64(row)), self.size)

    def _asking(self, base: Reg, depth: Reg, following: Reg) -> None:
        """All tiles; each part of them asks for one of the rows that follow, in its order."""
        f, stream = self.f, self.stream
        tiles = f.sub(self.high, self.low)
        is_short = f.compare("slt", tiles, stream.depth)
        parts = f.select(is_short, f.i64(1), f.i64(stream.depth))
        length = f.quotient(f.add(tiles, f.sub(parts, 1)), parts)
        with f.loop(f.i64(0), parts, 1) as part:
            first = f.add(self.low, f.mul(part.index, length))
            last = f.minimum(f.add(first, length), self.high)
            row = f.at(following, stream.element, f.mul(part.index, self.b_row))
            with f.loop(first, last, 1) as tile:
                place = f.mul(f.sub(tile.index, first), stream.width * stream.depth)
                self._tile(base, depth, tile.index, f.at(row, stream.element, place))

    def _tile(self, b: Reg, depth: Reg, tile: Reg, wanted: Reg | None) -> None:
        """So many steps from a row of B on; asks for as much as they read from ``wanted`` on."""
        f, stream, element = self.f, self.stream, self.stream.element
        vectors = [f.i64(v * stream.lanes) for v in range(stream.vectors)]
        sums_at = f.at(self.c, element, f.mul(tile, self.c_step))
        places = [f.at(sums_at, element, row, vector) for row in self.c_rows for vector in vectors]
        sums = [f.load(place, self.vector, self.size) for place in places]
        pointers = [f.at(b, element, f.mul(tile, stream.width)), self.held]
        strides = [self.b_row, f.i64(stream.rows)]
        if wanted is not None:
            pointers.append(wanted)
            strides.append(f.i64(stream.width))
        with f.loop(f.i64(0), depth, 1, [*sums, *pointers]) as loop:
            sums, pointers = list(loop.carries[: len(places)]), list(loop.carries[len(places) :])
            right_at, left_at, *wanted_at = pointers
            right = [f.load(f.at(right_at, element, v), self.vector, self.size) for v in vectors]
            for pointer in wanted_at:
                prefetch(f, pointer, stream.width * self.size, near=False)
            for row in range(stream.rows):
                factor = f.load(f.at(left_at, element, f.i64(row)), self.scalar, self.size)
                left = f.splat(factor, stream.lanes)
                for n, value in enumerate(right, row * stream.vectors):
                    sums[n] = self._accumulate(left, value, sums[n])
            moved = [f.at(at, element, by) for at, by in zip(pointers, strides, strict=True)]
            loop.yields = [*sums, *moved]
        for place, value in zip(places, loop.results, strict=False):
            f.store(value, place, self.size)

    def _edges(self) -> None:
        """All steps for the columns before and behind whole tiles."""
        f, stream = self.f, self.stream
        low, high = (f.mul(tile, stream.width) for tile in (self.low, self.high))
        with f.loop(f.i64(0), f.i64(2), 1) as side:
            is_behind = f.compare("ne", side.index, 0)
            behind = f.intrinsic("smax", I64, high, self.first)
            begin = f.select(is_behind, behind, f.minimum(self.first, low))
            self._edge(begin, f.select(is_behind, self.end, low))

    def _edge(self, begin: Reg, end: Reg) -> None:
        """All steps for some columns of one tile."""
        f, stream = self.f, self.stream
        tile = f.quotient(begin, stream.width)
        inside = f.sub(begin, f.mul(tile, stream.width))
        base = f.at(self.c, stream.element, f.mul(tile, self.c_step), inside)
        with self._spans(f.sub(end, begin)) as (column, type_, mask):
            places = [f.at(base, stream.element, row, column) for row in self.c_rows]
            start = [masked_load(f, place, type_, mask) for place in places]
            first = f.at(self.b, stream.element, begin, column)
            with f.loop(f.i64(0), self.k, 1, start) as loop:
                place = f.at(first, stream.element, f.mul(loop.index, self.b_row))
                right = masked_load(f, place, type_, mask)
                offset = f.mul(loop.index, self.a_col)
                lefts = [
                    f.load(f.at(row, stream.element, offset), self.scalar, self.size)
                    for row in self.a_rows
                ]
                loop.yields = [
                    self._accumulate(f.splat(left, type_.lanes), right, total)
                    for left, total in zip(lefts, loop.carries, strict=True)
                ]
            for place, value in zip(places, loop.results, strict=True):
                masked_store(f, value, place, mask)

    @contextmanager
    def _spans(self, rest: Reg) -> Iterator[tuple[Reg, LType, Reg | None]]:
        """Of so many columns: where to begin, the type to work in, and its mask."""
        f, lanes = self.f, self.stream.lanes
        if self.stream.masked:
            with f.blocks(rest, lanes) as (column, columns):
                yield column, self.vector, edge_mask(f, columns, lanes)
        else:
            with f.loop(f.i64(0), rest, 1) as loop:
                yield loop.index, self.scalar, None

    def _accumulate(self, left: Reg, right: Reg, total: Reg) -> Reg:
        if self.stream.boolean:
            return self.f.binary("or", total, self.f.binary("and", left, right))
        if total.type.is_float:
            return self.f.fma(left, right, total)
        return self.f.binary("add", total, self.f.binary("mul", left, right))
