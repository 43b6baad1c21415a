"""Rows of a batch transformed side by side, a row in each lane of a vector.

A short row does not fill vectors with its columns. So as many rows as there are lanes are brought
into lanes by transposing squares of elements, and back at the end. In between each complex element
of a row is a vector of real parts and one of imaginary parts. The plan, and every operation on an
element, are those of a row by itself, so a row has the same bits alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.base.tuning.routines import ROUTINES
from graphc.codegen.gemm.builder import Builder, edge_mask, masked_load, masked_store
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Cell
from graphc.codegen.llvm.transpose import transposed
from graphc.codegen.llvm.types import PTR
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.straight import Complex, times, transform
from graphc.codegen.routines.fourier.transforms import (
    Passes,
    convolution,
    head,
)
from graphc.kernel.routines.fourier_plan import (
    HEAD,
    ODD_AT,
    PARTS,
    PARTS_AT,
    POWER_AT,
    RADICES,
    fixed_room,
)

_ROWS = "size count spacing swap"
"""The parameters of moves into lanes and out of them: each of ``count`` rows has ``size`` elements,
which go to vectors ``spacing`` apart; with ``swap`` real and imaginary parts change places."""


# --- into lanes and out of them ------------------------------------------------------------------


def emit_gather(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (source, target, …): packed rows become vectors, one for each element."""
    f = Builder(module, name, f"*source *target {_ROWS}")
    source, target = f.given("source", "target")
    rows = _rows(f, v, source)

    def move(start: Reg, mask: Reg | None) -> None:
        lines = [masked_load(f, v.at(f, row, start), v.vector, mask) for row in rows]
        for number, line in enumerate(transposed(f, lines)):
            f.store(line, _vector(f, v, target, start, number), v.dtype.bytes)

    _squares(f, v, move)
    f.finish()
    return name


def emit_scatter(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (source, target, …): vectors become packed rows."""
    f = Builder(module, name, f"*source *target {_ROWS}")
    source, target = f.given("source", "target")
    rows = _rows(f, v, target)

    def move(start: Reg, mask: Reg | None) -> None:
        places = [_vector(f, v, source, start, number) for number in range(v.lanes)]
        lines = [f.load(place, v.vector, v.dtype.bytes) for place in places]
        for row, line in zip(rows, transposed(f, lines), strict=True):
            masked_store(f, line, v.at(f, row, start), mask)

    _squares(f, v, move)
    f.finish()
    return name


def _rows(f: Builder, v: Vectors, base: Reg) -> list[Reg]:
    """The address of each lane's row; lanes without one have the last."""
    size, count = f.given("size", "count")
    return [v.at(f, base, f.least(f.const(lane), count - 1) * size) for lane in range(v.lanes)]


def _vector(f: Builder, v: Vectors, base: Reg, start: Reg, number: int) -> Reg:
    """The address of the vector of an element, ``number`` behind one at an even place."""
    spacing, swap = f.given("spacing", "swap")
    return v.at(f, base, start * spacing * v.lanes, ((spacing * number) ^ swap) * v.lanes)


def _squares(f: Builder, v: Vectors, move: Callable[[Reg, Reg | None], None]) -> None:
    """Squares of elements and rows; the last one overlaps, or has too few elements."""
    (size,) = f.given("size")
    fills = size >= v.lanes
    with f.when(fills), f.loop(0, size, v.lanes) as loop:
        move(f.least(loop.index, size - v.lanes), None)
    with f.when(~fills):
        move(f.const(0), edge_mask(f, size, v.lanes))


# --- transforms ----------------------------------------------------------------------------------


def emit_twiddles(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (roots, starts, parts, target, *factor): for each part but the first the twiddle
    factors of a block of columns, times the factor, as ``rows.emit_rows`` has them."""
    f = Builder(module, name, "*roots *starts parts *target *factor")
    roots, starts, parts, target, factor = f.given("roots", "starts", "parts", "target", "factor")
    size = v.dtype.bytes
    scale = f.load(factor, v.element, size)
    with f.loop(1, parts) as loop:
        place = v.at(f, starts, loop.index * 2)
        real = f.load(place, v.element, size) * scale
        imaginary = f.load(v.at(f, place, 1), v.element, size) * scale
        start = f.splat(real, v.lanes), f.splat(imaginary, v.lanes)
        twiddle = times(f, v.read(f, v.complexes(f, roots, loop.index)), start)
        v.write(f, twiddle, v.complexes(f, target, loop.index))
    f.finish()
    return name


def emit_last(module: ModuleEmitter, name: str, v: Vectors, parts: int, twiddled: str) -> str:
    """Defines (source, target, roots, columns, *factor): the last step, across the parts;
    ``rows.emit_rows`` for rows in lanes. A function ``twiddled`` makes twiddle factors."""
    f = Builder(module, name, "*source *target *roots columns *factor")
    source, target, roots, columns, factor = f.given(
        "source", "target", "roots", "columns", "factor"
    )
    lanes, size = v.lanes, v.dtype.bytes
    scales = f.splat(f.load(factor, v.element, size), lanes)
    starts = v.at(f, roots, 2 * lanes * parts)
    padded = f.most(columns, lanes)
    blocks = (padded + (lanes - 1)).udiv(lanes)
    twiddles, products = f.alloca(v.vector, 2 * parts), f.alloca(v.vector, 2 * parts)
    with f.each(blocks) as block:
        first = f.least(block * lanes, padded - lanes)
        begins = v.at(f, starts, block * (2 * parts))
        f.call(twiddled, None, roots, begins, parts, twiddles, factor)
        with f.each(f.least(columns, lanes)) as lane:
            column = first + lane
            begin = v.complexes(f, source, column * parts)
            number = v.read(f, begin)
            # a loop, because code for every part takes long to compile
            with f.loop(1, parts) as loop:
                twiddle = _spread(f, v, v.at(f, v.complexes(f, twiddles, loop.index), lane), lanes)
                product = times(f, v.read(f, v.complexes(f, begin, loop.index)), twiddle)
                v.write(f, product, v.complexes(f, products, loop.index))
            numbers = [(number[0] * scales, number[1] * scales)]
            numbers += [v.read(f, v.complexes(f, products, part)) for part in range(1, parts)]
            for part, result in enumerate(transform(f, numbers)):
                v.write(f, result, v.complexes(f, target, column + columns * part))
    f.finish()
    return name


def _spread(f: Builder, v: Vectors, place: Reg, apart: int) -> Complex:
    """A complex element, whose parts stand apart, in every lane."""
    parts = (f.load(v.at(f, place, n), v.element, v.dtype.bytes) for n in (0, apart))
    real, imaginary = (f.splat(part, v.lanes) for part in parts)
    return real, imaginary


def emit_product(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (target, roots, count, before, after, factor): multiplies elements, in place, by
    packed pairs. Their parts change places ``before`` that, those of results ``after``."""
    f = Builder(module, name, "*target *roots count before after *factor")
    target, roots, count, before, after, factor = f.given(
        "target", "roots", "count", "before", "after", "factor"
    )
    size, lanes = v.dtype.bytes, v.lanes
    scales = f.splat(f.load(factor, v.element, size), lanes)
    with f.each(count) as n:
        place = v.complexes(f, target, n)
        x = _swapped(f, v, place, before)
        real, imaginary = times(f, (f.load(x[0], v.vector, size), f.load(x[1], v.vector, size)),
                                v.root(f, roots, n))  # fmt: skip
        y = _swapped(f, v, place, after)
        f.store(real * scales, y[0], size)
        f.store(imaginary * scales, y[1], size)
    f.finish()
    return name


def _swapped(f: Builder, v: Vectors, place: Reg, swap: Reg) -> tuple[Reg, Reg]:
    """Where the real part of an element is, and where the imaginary one."""
    return v.at(f, place, swap * v.lanes), v.at(f, place, (swap ^ 1) * v.lanes)


def emit_transform(module: ModuleEmitter, name: str, v: Vectors, passes: Passes) -> str:
    """Defines (here, there, table, length, factor, one, room): transforms of rows in lanes, from
    one copy to the other and back; gives the one with results. ``one`` is the factor 1."""
    direct = _emit_direct(module, f"{name}_direct", v, passes)
    product = emit_product(module, f"{name}_product", v)
    f = Builder(module, name, "*here *there *table length *factor *one *room", result=PTR)
    here, there, table, length, factor, one, room = f.given(
        "here", "there", "table", "length", "factor", "one", "room"
    )
    is_direct = head(f, v, table, ODD_AT).equals(0)
    with f.when(is_direct):
        f.give(f.call(direct, PTR, here, there, table, length, factor, room))
    found = convolution(f, v, table, length)
    whole = found.length
    f.call(product, None, here, found.chirp, length, 0, 0, one)
    zeros = f.zeros(v.vector)
    with f.loop(length, whole) as loop:
        v.write(f, (zeros, zeros), v.complexes(f, here, loop.index))
    first = f.call(direct, PTR, here, there, table, whole, one, room)
    f.call(product, None, first, found.filter, whole, 0, 1, one)
    second = other(f, first, here, there)
    last = f.call(direct, PTR, first, second, table, whole, one, room)
    f.call(product, None, last, found.chirp, length, 1, 0, factor)
    f.finish(last)
    return name


def other(f: Builder, place: Reg, one: Reg, another: Reg) -> Reg:
    """Of two addresses the one that a place is not."""
    return f.select(f.icmp("eq", place, one), another, one)


def _emit_direct(module: ModuleEmitter, name: str, v: Vectors, passes: Passes) -> str:
    """Defines (here, there, table, length, factor, room): a transform that is no convolution."""
    twiddled = emit_twiddles(module, f"{name}_twiddles", v)
    last = {n: emit_last(module, f"{name}_last{n}", v, n, twiddled) for n in PARTS if n <= v.lanes}
    f = Builder(module, name, "*here *there *table length *factor *room", result=PTR)
    here, there, table, length, factor, room = f.given(
        "here", "there", "table", "length", "factor", "room"
    )
    parts = head(f, v, table, PARTS_AT)
    columns = length.udiv(parts)
    roots = v.at(f, table, HEAD)
    source, target = Cell(here), Cell(there)
    # a first radix of 1 says of rows by themselves that they are loaded by a pass of its own
    is_loaded = head(f, v, table, RADICES).equals(1)
    place = Cell(f.select(is_loaded, f.const(RADICES + 1), f.const(RADICES)))
    passes.emit(f, v, table, roots, source, target, columns, f.const(1), place, parts, room)
    after, result = v.at(f, roots, columns * 2), target.value
    with f.switch(parts) as case:
        for each, function in last.items():
            with case(each):
                f.call(function, None, source.value, result, after, columns, factor)
    f.finish(result)
    return name


@dataclass(frozen=True, slots=True)
class Batches:
    """The functions for rows in lanes, by name."""

    gather: str
    scatter: str
    transform: str

    def begin(
        self, f: Builder, v: Vectors, table: Reg, length: Reg, given: Reg, count: Reg, room: Reg
    ) -> Batch:
        """Whether rows go into lanes, and where; of ``given`` elements of scratch.

        With rows in half of the lanes it takes about the time that these take one by one.
        """
        parts, odd, power = (head(f, v, table, at) for at in (PARTS_AT, ODD_AT, POWER_AT))
        whole = f.select(odd.equals(0), length, odd << power)
        columns, longest = whole.udiv(parts), f.most(whole, length + 1)
        copy = (longest * 2 + 2 * v.lanes) * v.lanes
        taken = copy * 2 + fixed_room(v.dtype)
        fits = (count >= v.lanes // 2) & (taken <= given)
        fits = fits & ((parts < v.lanes) | (columns < ROUTINES.few_columns))
        there = v.at(f, room, copy)
        one = f.alloca(v.element, 1, 8)
        f.store(f.const(1.0, v.element), one, v.dtype.bytes)
        return Batch(self, f, fits, room, there, v.at(f, there, copy), one)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one call in lanes.

    Attributes:
        fits: whether it pays, and there is room.
        here, there: two copies of the rows.
        room: scratch behind them.
        one: the address of the factor 1.
    """

    functions: Batches
    f: Builder
    fits: Reg
    here: Reg
    there: Reg
    room: Reg
    one: Reg

    def gather(
        self, source: Reg, size: Reg, count: Reg, spacing: int = 1, swap: Reg | int = 0
    ) -> None:
        """Brings rows of so many elements ``here``."""
        name = self.functions.gather
        self.f.call(name, None, source, self.here, size, count, spacing, swap)

    def scatter(
        self, made: Reg, target: Reg, size: Reg, count: Reg, spacing: int = 1, swap: Reg | int = 0
    ) -> None:
        """Brings what a place has to rows of so many elements."""
        self.f.call(self.functions.scatter, None, made, target, size, count, spacing, swap)

    def transform(self, begin: Reg, table: Reg, length: Reg, factor: Reg) -> Reg:
        """Transforms what is at one of the copies; gives the one that has results."""
        operands = begin, self.other(begin), table, length, factor, self.one, self.room
        return self.f.call(self.functions.transform, PTR, *operands)

    def other(self, place: Reg) -> Reg:
        """The other copy."""
        return other(self.f, place, self.here, self.there)


def emit_batches(module: ModuleEmitter, name: str, v: Vectors, passes: Passes) -> Batches:
    """Defines them."""
    return Batches(
        emit_gather(module, f"{name}_gather", v),
        emit_scatter(module, f"{name}_scatter", v),
        emit_transform(module, f"{name}_transform", v, passes),
    )


@dataclass(frozen=True, slots=True)
class Kit:
    """What the routines of a dtype share, by name of its functions.

    Attributes:
        scaled: the transform of one row.
        checked: whether a table is one for rows of a length.
        batches: rows in lanes.
    """

    scaled: str
    checked: str
    batches: Batches


__all__ = ["Batch", "Batches", "Kit", "emit_batches"]
