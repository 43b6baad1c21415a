"""Transforms of one row by the plan of its table (``graphc.kernel.routines.fourier_plan``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from graphc.base.target import CACHE_LINE
from graphc.codegen.gemm.builder import Builder, each_span
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Cell
from graphc.codegen.llvm.types import I64, PTR
from graphc.codegen.routines.fourier.columns import (
    Vectors,
    emit_first,
    emit_load,
    emit_pass,
    emit_prime,
)
from graphc.codegen.routines.fourier.rows import emit_rows, emit_short, emit_squares
from graphc.codegen.routines.fourier.straight import times
from graphc.kernel.routines.fourier_plan import (
    HEAD,
    LOADING,
    ODD_AT,
    PARTS,
    PARTS_AT,
    POWER_AT,
    RADICES,
    STRAIGHT,
)


def aligned(f: Builder, room: Reg) -> Reg:
    """The first line of a cache in a room."""
    number = f.assign(I64, f"ptrtoint {room} to i64").up_to(CACHE_LINE)
    return f.assign(PTR, f"inttoptr {number} to ptr")


def clear(f: Builder, v: Vectors, base: Reg, count: Reg, value: float = 0.0) -> None:
    """Fills ``count`` elements with a value. Not by memset, for which some systems have a function
    of their own."""
    for index, type_, _ in each_span(f, count, v.vector, masked=False):
        f.store(f.const(value, type_), v.at(f, base, index), v.dtype.bytes)


def head(f: Builder, v: Vectors, table: Reg, place: Reg | int) -> Reg:
    """An integer of a table's head."""
    return f.convert("fptosi", f.load(v.at(f, table, place), v.element, v.dtype.bytes), "i64")


@dataclass(frozen=True, slots=True)
class Passes:
    """The functions of passes by their radices, and that of any odd radix."""

    straight: Mapping[int, str]
    prime: str

    def emit(
        self, f: Builder, v: Vectors, table: Reg, roots: Reg, here: Cell, there: Cell,
        groups: Reg, step: Reg, place: Cell, width: Reg | int, room: Reg,
    ) -> None:  # fmt: skip
        """Emits the passes by the radices of a table from a place on, until no group is left.

        Args:
            here, there: the copies, from one to the other; in the end ``here`` has the results.
            groups: the length that is left to transform.
            step: the product of the radices before.
            width: vectors of each column.
            room: what a large radix needs.
        """
        left, done = Cell(groups), Cell(step)
        with f.repeat() as leave_if:
            leave_if(left.value <= 1)
            radix = head(f, v, table, place.value)
            left.value = left.value.udiv(radix)
            now = done.value
            operands = here.value, there.value, roots, left.value, now * width, now
            with f.switch(radix) as case:
                for each, function in self.straight.items():
                    with case(each):
                        f.call(function, None, *operands)
            with f.when(radix > max(STRAIGHT)):
                f.call(self.prime, None, *operands, radix, room)
            before = here.value
            here.value = there.value
            there.value = before
            done.value = now * radix
            place.value = place.value + 1


def emit_passes(module: ModuleEmitter, name: str, v: Vectors) -> Passes:
    """Defines all passes."""
    straight = {n: emit_pass(module, f"{name}_pass{n}", v, n) for n in STRAIGHT}
    return Passes(straight, emit_prime(module, f"{name}_prime", v))


def emit_direct(module: ModuleEmitter, name: str, v: Vectors, passes: Passes) -> str:
    """Defines (source, target, table, length, swap, factor, room): a transform that is no
    convolution, of packed pairs. Results are multiplied by the factor; with ``swap`` the parts of
    elements change places, on both sides: that makes it the inverse."""
    load = emit_load(module, f"{name}_load", v)
    firsts = {n: emit_first(module, f"{name}_first{n}", v, n) for n in LOADING}
    squares = emit_squares(module, f"{name}_squares", v)
    rows = {
        n: emit_rows(module, f"{name}_rows{n}", v, n, squares if n < v.lanes else None)
        for n in PARTS
        if n <= v.lanes
    }
    short = emit_short(module, f"{name}_short", v)
    f = Builder(module, name, "*source *target *table length swap *factor *room")
    source, target, table, length, swap, factor, room = f.given(
        "source", "target", "table", "length", "swap", "factor", "room"
    )
    parts = head(f, v, table, PARTS_AT)
    columns = length.udiv(parts)
    roots = v.at(f, table, HEAD)
    here = Cell(room)
    spare = v.complexes(f, room, f.most(columns, v.lanes))
    there = Cell(spare)
    after = v.complexes(f, spare, f.most(columns, v.lanes))
    radix = head(f, v, table, RADICES)
    groups = Cell(columns)
    with f.switch(radix) as case:
        with case(1):
            f.call(load, None, source, room, parts, columns, swap)
        for number, function in firsts.items():
            with case(number):
                left = columns.udiv(number)
                f.call(function, None, source, room, roots, left, swap)
                groups.value = left
    place = Cell(f.const(RADICES + 1))
    passes.emit(f, v, table, roots, here, there, groups.value, radix, place, 1, after)
    behind = v.at(f, roots, columns * 2)
    is_short = columns < v.lanes
    final = f.select(is_short, after, target)
    apart = f.most(columns, v.lanes)
    with f.switch(parts) as case:
        for each, function in rows.items():
            with case(each):
                f.call(function, None, here.value, final, behind, apart, apart, swap, factor)
    with f.when(is_short):
        f.call(short, None, after, target, parts, columns)
    f.finish()
    return name


def emit_product(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (target, a, b, count, before, after, factor): products of packed pairs. Real and
    imaginary parts of ``a`` change places ``before``, those of the result ``after``."""
    f = Builder(module, name, "*target *a *b count before after *factor")
    target, a, b, count, before, after, factor = f.given(
        "target", "a", "b", "count", "before", "after", "factor"
    )
    size = v.dtype.bytes
    scale = f.load(factor, v.element, size)
    for index, type_, _ in each_span(f, count, v.vector, masked=False):
        lanes = type_.lanes
        swaps = [v.swaps(f, swap, lanes) for swap in (before, f.const(0), after)]
        places = [v.at(f, base, index * 2) for base in (a, b, target)]
        x, w = (
            v.deinterleaved(
                f, f.load(place, type_, size), f.load(v.at(f, place, lanes), type_, size), mask
            )
            for place, mask in zip(places[:2], swaps[:2], strict=True)
        )
        real, imaginary = times(f, x, w)
        spread = f.splat(scale, lanes)
        pairs = v.interleaved(f, (real * spread, imaginary * spread), swaps[2])
        for n, pair in enumerate(pairs):
            f.store(pair, v.at(f, places[2], n * lanes), size)
    f.finish()
    return name


@dataclass(frozen=True, slots=True)
class Convolution:
    """Where a table has what Bluestein's convolution takes.

    Attributes:
        length: of the convolution.
        chirp: the address of the chirp, as pairs.
        filter: that of the transform of its conjugate.
    """

    length: Reg
    chirp: Reg
    filter: Reg


def convolution(f: Builder, v: Vectors, table: Reg, length: Reg) -> Convolution:
    """That of rows of a length; of a table that has one."""
    parts, odd, power = (head(f, v, table, at) for at in (PARTS_AT, ODD_AT, POWER_AT))
    whole = odd << power
    columns = whole.udiv(parts)
    blocks = (columns + (v.lanes - 1)).udiv(v.lanes)
    behind = columns * 2 + parts * (blocks + v.lanes) * 2
    chirp = v.at(f, table, HEAD, behind)
    return Convolution(whole, chirp, v.at(f, chirp, length * 2))


def emit_convolved(module: ModuleEmitter, name: str, v: Vectors, direct: str) -> str:
    """Defines (source, target, table, length, swap, factor, room): a transform as a convolution
    with a chirp (Bluestein 1970), by a function of direct ones."""
    product = emit_product(module, f"{name}_product", v)
    f = Builder(module, name, "*source *target *table length swap *factor *room")
    source, target, table, length, swap, factor, room = f.given(
        "source", "target", "table", "length", "swap", "factor", "room"
    )
    found = convolution(f, v, table, length)
    whole = found.length
    first = room
    second = v.at(f, first, whole * 2)
    rest = v.at(f, second, whole * 2)
    one = f.alloca(v.element, 1, 8)
    f.store(f.const(1.0, v.element), one, v.dtype.bytes)
    f.call(product, None, first, source, found.chirp, length, swap, 0, one)
    clear(f, v, v.at(f, first, length * 2), (whole - length) * 2)
    f.call(direct, None, first, second, table, whole, 0, one, rest)
    f.call(product, None, first, second, found.filter, whole, 0, 0, one)
    f.call(direct, None, first, second, table, whole, 1, one, rest)
    f.call(product, None, target, second, found.chirp, length, 0, swap, factor)
    f.finish()
    return name


def emit_scaled(module: ModuleEmitter, name: str, v: Vectors, direct: str) -> str:
    """Defines (source, target, table, length, swap, factor, room): a transform of any length.
    Room begins with a line of a cache."""
    convolved = emit_convolved(module, f"{name}_convolved", v, direct)
    f = Builder(module, name, "*source *target *table length swap *factor *room")
    operands = f.given("source", "target", "table", "length", "swap", "factor", "room")
    is_direct = head(f, v, operands[2], ODD_AT).equals(0)
    with f.when(is_direct):
        f.call(direct, None, *operands)
    f.leave_if(is_direct)
    f.call(convolved, None, *operands)
    f.finish()
    return name


def factor_of(f: Builder, v: Vectors, length: Reg, scale: Reg, times: Reg | float = 1.0) -> Reg:
    """The address of what results are multiplied by: ``times`` over what ``SCALES`` says."""
    factor = f.alloca(v.element, 1, 8)
    size = f.convert("sitofp", length, "double")
    root = f.intrinsic("sqrt", size.type, size)
    divisor = f.select(scale.equals(1), size, f.select(scale.equals(2), root, 1.0))
    ratio = times / divisor
    if v.dtype.bits < 64:
        ratio = f.convert("fptrunc", ratio, v.element.text)
    f.store(ratio, factor, v.dtype.bytes)
    return factor


def refuse(f: Builder, v: Vectors, is_good: Reg, target: Reg, count: Reg) -> None:
    """Makes a row NaN and returns, unless its table is good."""
    is_bad = is_good.equals(0)
    with f.when(is_bad):
        clear(f, v, target, count, math.nan)
    f.leave_if(is_bad)


__all__ = [
    "Passes",
    "aligned",
    "clear",
    "convolution",
    "emit_convolved",
    "emit_direct",
    "emit_passes",
    "emit_product",
    "emit_scaled",
    "factor_of",
    "head",
    "refuse",
]
