"""The routine ``fft_table``: the plan of a length, and all twiddle factors that it takes.

What it decides is what ``graphc.kernel.routines.fourier_plan.plan_of`` says.
"""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Cell
from graphc.codegen.llvm.types import I64
from graphc.codegen.routines.fourier.checked import good_length
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.real import roots_size
from graphc.codegen.routines.fourier.roots import emit_roots
from graphc.codegen.routines.fourier.transforms import (
    aligned,
    clear,
    convolution,
    head,
)
from graphc.kernel.routines.fourier_plan import (
    HEAD,
    LOADING,
    ODD_AT,
    PARTS,
    PARTS_AT,
    PIECE_BITS,
    POWER_AT,
    RADICES,
    WIDEST,
)


def _put(f: Builder, v: Vectors, table: Reg, place: Reg | int, number: Reg | int) -> None:
    value = f.convert("sitofp", f.like(number), v.element.text)
    f.store(value, v.at(f, table, place), v.dtype.bytes)


def emit_plan(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (table, length): writes the head of a table, all zeros before, for a transform that
    is no convolution; gives 0 if there is none."""
    f = Builder(module, name, "*table length", result=I64)
    table, length = f.given("table", "length")
    parts = Cell(f.least(length, v.lanes))
    with f.repeat() as leave_if:
        count = parts.value
        quotient = length.udiv(count)
        fits = (quotient * count).equals(length)
        for n in range(1, v.lanes):
            if n not in PARTS:
                fits = fits & count.differs(n)
        leave_if(fits)
        parts.value = count - 1
    count = parts.value
    is_bad = count.differs(length) & (count * 4 < v.lanes)
    with f.when(is_bad):
        f.give(0)
    _put(f, v, table, PARTS_AT, count)
    rest = Cell(length.udiv(count))
    place = Cell(f.const(RADICES + 1))

    def put(radix: Reg | int) -> None:
        _put(f, v, table, place.value, radix)
        place.value = place.value + 1

    twos = f.zeros_behind(rest.value)
    spare = f.select((twos - twos.udiv(3) * 3).equals(1), f.const(4), f.const(0))
    eights = f.most(twos - spare, 0).udiv(3)
    more = twos - eights * 3
    with f.each(eights):
        put(8)
    with f.each(more >> 1):
        put(4)
    with f.each(more & 1):
        put(2)
    rest.value = rest.value >> twos
    most = count * WIDEST
    prime = Cell(f.const(3))
    with f.repeat() as leave_if:
        left = rest.value
        leave_if((left <= 1) | (prime.value > most))
        quotient = left.udiv(prime.value)
        divides = (quotient * prime.value).equals(left)
        with f.when(divides):
            put(prime.value)
            rest.value = quotient
        with f.when(~divides):
            prime.value = prime.value + 2
    is_bad = rest.value > 1
    with f.when(is_bad):
        f.give(0)
    # the first place is that of a pass that loads, if it takes one
    first = head(f, v, table, RADICES + 1)
    loads = count.equals(v.lanes)
    known = f.const(False, loads.type)
    for radix in LOADING:
        known = known | first.equals(radix)
    loads = loads & known
    with f.when(~loads):
        _put(f, v, table, RADICES, 1)
    with f.when(loads):
        with f.loop(RADICES, HEAD - 1) as loop:
            _put(f, v, table, loop.index, head(f, v, table, loop.index + 1))
        _put(f, v, table, HEAD - 1, 0)
    f.finish(1)
    return name


def emit_table(module: ModuleEmitter, name: str, v: Vectors, direct: str) -> str:
    """Defines (table, length, room): writes a table, all zeros before."""
    plan = emit_plan(module, f"{name}_plan", v)
    roots = emit_roots(module, f"{name}_roots", v)
    apart = emit_roots(module, f"{name}_apart", v, apart=True)
    squares = emit_roots(module, f"{name}_squares", v, squares=True)
    f = Builder(module, name, "*table length *room")
    table, length, room = f.given("table", "length", "room")
    whole = Cell(length)
    is_direct = f.call(plan, I64, table, length).differs(0)
    with f.when(~is_direct):
        clear(f, v, table, f.const(HEAD))
        good = good_length(f, length)
        f.call(plan, I64, table, good.length)
        _put(f, v, table, ODD_AT, good.odd)
        _put(f, v, table, POWER_AT, good.power)
        whole.value = good.length
    _put(f, v, table, 0, length & ((1 << PIECE_BITS) - 1))
    _put(f, v, table, 1, length >> PIECE_BITS)
    size = whole.value
    parts = head(f, v, table, PARTS_AT)
    columns = size.udiv(parts)
    place = v.at(f, table, HEAD)
    f.call(roots, None, place, columns, 1, columns)
    place = v.at(f, place, columns * 2)
    with f.each(parts) as part:
        f.call(apart, None, v.complexes(f, place, part), v.lanes, part, size)
    place = v.complexes(f, place, parts)
    with f.each((columns + (v.lanes - 1)).udiv(v.lanes)) as block:
        start = f.least(block * v.lanes, f.most(columns - v.lanes, 0))
        f.call(roots, None, v.at(f, place, block * parts * 2), parts, start, size)
    f.leave_if(is_direct)
    found = convolution(f, v, table, length)
    f.call(squares, None, found.chirp, length, 0, length * 2)
    room = aligned(f, room)
    rest = v.at(f, room, size * 2)
    clear(f, v, room, size * 2)
    with f.each(length) as n:
        pair = v.at(f, found.chirp, n * 2)
        real = f.load(pair, v.element, v.dtype.bytes)
        imaginary = -f.load(v.at(f, pair, 1), v.element, v.dtype.bytes)
        for number in (n, f.select(n.equals(0), f.const(0), size - n)):
            target = v.at(f, room, number * 2)
            f.store(real, target, v.dtype.bytes)
            f.store(imaginary, v.at(f, target, 1), v.dtype.bytes)
    factor = f.alloca(v.element, 1, 8)
    ratio = 1.0 / f.convert("sitofp", size, v.element.text)
    f.store(ratio, factor, v.dtype.bytes)
    f.call(direct, None, room, found.filter, table, size, 0, factor, rest)
    f.finish()
    return name


def emit_fft_table(module: ModuleEmitter, name: str, v: Vectors, direct: str) -> None:
    """Defines the routine ``fft_table``."""
    made = emit_table(module, f"{name}_made", v, direct)
    roots = emit_roots(module, f"{made}_roots", v)
    f = Builder(module, name, "*source *table length size real *room", internal=False)
    table, length, size, real, room = f.given("table", "length", "size", "real", "room")
    zeros = f.zeros(v.vector)
    whole = size.down_to(v.lanes)
    with f.loop(0, whole, v.lanes) as loop:
        f.store(zeros, v.at(f, table, loop.index), v.dtype.bytes)
    with f.loop(whole, size) as loop:
        f.store(f.const(0.0, v.element), v.at(f, table, loop.index), v.dtype.bytes)
    # sizes of a graph from a file may leave no row
    f.leave_if(length < 1)
    halves = real.differs(0) & (length & 1).equals(0)
    with f.when(halves):
        pairs = roots_size(length)
        f.call(roots, None, table, pairs >> 1, 1, length)
        f.call(made, None, v.at(f, table, pairs), length >> 1, room)
    f.leave_if(halves)
    f.call(made, None, table, length, room)
    f.finish()


__all__ = ["emit_fft_table"]
