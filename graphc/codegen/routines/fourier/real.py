"""The routines ``rfft`` and ``irfft``: transforms of real rows, and back.

A row of even length is one of half as many complex numbers: elements at even places are real parts,
those at odd places imaginary ones. From its transform that of the row follows, number by number
with the one that stands opposite. A row of odd length is one of complex numbers without imaginary
parts. On the way back only the real part of the first number counts, and of the last if the length
is even.
"""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder, each_span
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, LType
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.straight import Number, times
from graphc.codegen.routines.fourier.transforms import aligned, factor_of, refuse

_ROW = "*source *table *target length size given scale *room"


def roots_size(length: Reg) -> Reg:
    """Elements that stand before the table of half a row: pairs up to the middle of that."""
    return ((length >> 2) + 1) * 2


def emit_opposite(module: ModuleEmitter, name: str, v: Vectors, *, back: bool) -> str:
    """Defines (source, target, roots, half): the transforms of real rows of half packed numbers
    from theirs, times two; or ``back``, half of it."""
    f = Builder(module, name, "*source *target *roots half")
    source, target, roots, half = f.given("source", "target", "roots", "half")
    size = v.dtype.bytes
    first, second = (f.load(v.at(f, source, n), v.element, size) for n in (0, 1))
    if back:
        second = f.load(v.at(f, source, half * 2), v.element, size)
        ends = [(0, first + second), (1, first - second)]
        pairs = [(f.const(place), value) for place, value in ends]
    else:
        last = half * 2
        zero = f.const(0.0, v.element)
        double = [part + part for part in (first + second, first - second)]
        pairs = [(f.const(0), double[0]), (f.const(1), zero), (last, double[1]), (last + 1, zero)]
    for place, value in pairs:
        f.store(value, v.at(f, target, place), size)
    for index, type_, _ in each_span(f, half >> 1, v.vector, masked=False):
        lanes = type_.lanes
        near = index + 1
        far = half - index - lanes
        a = _read(f, v, type_, source, near)
        b = _reversed(f, _read(f, v, type_, source, far))
        real, imaginary = _read(f, v, type_, roots, near)
        turn = imaginary, real if back else -real
        total = a[0] + b[0], a[1] - b[1]
        turned = times(f, (a[0] - b[0], a[1] + b[1]), turn)
        _write(f, v, (total[0] + turned[0], total[1] + turned[1]), target, near)
        opposite = total[0] - turned[0], turned[1] - total[1]
        _write(f, v, _reversed(f, opposite), target, far)
    f.finish()
    return name


def _reversed(f: Builder, number: Number) -> Number:
    lanes = number[0].type.lanes
    if lanes == 1:
        return number
    order = range(lanes - 1, -1, -1)
    return f.shuffled(number[0], number[0], order), f.shuffled(number[1], number[1], order)


def _read(f: Builder, v: Vectors, type_: LType, base: Reg, index: Reg) -> Number:
    size, lanes = v.dtype.bytes, type_.lanes
    place = v.at(f, base, index * 2)
    first, second = (f.load(v.at(f, place, n * lanes), type_, size) for n in (0, 1))
    return v.parted(f, first, second, v.swaps(f, f.const(0), lanes))


def _write(f: Builder, v: Vectors, number: Number, base: Reg, index: Reg) -> None:
    size, lanes = v.dtype.bytes, number[0].type.lanes
    place = v.at(f, base, index * 2)
    for n, pair in enumerate(v.paired(f, number, v.swaps(f, f.const(0), lanes))):
        f.store(pair, v.at(f, place, n * lanes), size)


def _is_good(f: Builder, v: Vectors, checked: str) -> Reg:
    """Whether the table is one for real rows of the length."""
    table, length, size, given = f.given("table", "length", "size", "given")
    is_even = (length & 1).equals(0)
    before = f.select(is_even, roots_size(length), 0)
    inner = f.select(is_even, length >> 1, length)
    # a table that is too small has no place behind its roots
    begin = v.at(f, table, f.most(f.least(before, size), 0))
    return f.call(checked, I64, begin, inner, size - before, given - length * 4)


def emit_rfft(module: ModuleEmitter, name: str, v: Vectors, scaled: str, checked: str) -> None:
    """Defines the routine ``rfft``, by transforms of complex numbers."""
    size = v.dtype.bytes
    opposite = emit_opposite(module, f"{name}_opposite", v, back=False)
    f = Builder(module, name, _ROW, internal=False)
    source, table, target, length, scale, room = f.given(
        "source", "table", "target", "length", "scale", "room"
    )
    refuse(f, v, _is_good(f, v, checked), target, ((length >> 1) + 1) * 2)
    first = aligned(f, room)
    is_odd = (length & 1).differs(0)
    with f.when(is_odd):
        factor = factor_of(f, v, length, scale)
        second = v.at(f, first, length * 2)
        with f.each(length) as n:
            f.store(f.load(v.at(f, source, n), v.element, size), v.at(f, first, n * 2), size)
            f.store(f.const(0.0, v.element), v.at(f, first, n * 2, 1), size)
        rest = v.at(f, second, length * 2)
        f.call(scaled, None, first, second, table, length, 0, factor, rest)
        f.copy_bytes(target, second, (length + 1) * size)
        # the first number is a sum of real ones
        f.store(f.const(0.0, v.element), v.at(f, target, 1), size)
    f.leave_if(is_odd)
    half = length >> 1
    factor = factor_of(f, v, length, scale, 0.5)
    behind = v.at(f, table, roots_size(length))
    rest = v.at(f, first, length)
    f.call(scaled, None, source, first, behind, half, 0, factor, rest)
    f.call(opposite, None, first, target, table, half)
    f.finish()


def emit_irfft(module: ModuleEmitter, name: str, v: Vectors, scaled: str, checked: str) -> None:
    """Defines the routine ``irfft``, by transforms of complex numbers."""
    size = v.dtype.bytes
    opposite = emit_opposite(module, f"{name}_opposite", v, back=True)
    f = Builder(module, name, _ROW, internal=False)
    source, table, target, length, scale, room = f.given(
        "source", "table", "target", "length", "scale", "room"
    )
    refuse(f, v, _is_good(f, v, checked), target, length)
    first, factor = aligned(f, room), factor_of(f, v, length, scale)
    half = length >> 1
    is_odd = (length & 1).differs(0)
    with f.when(is_odd):
        second = v.at(f, first, length * 2)
        f.store(f.load(source, v.element, size), first, size)
        f.store(f.const(0.0, v.element), v.at(f, first, 1), size)
        with f.loop(1, half + 1) as loop:
            place = v.at(f, source, loop.index * 2)
            real = f.load(place, v.element, size)
            imaginary = f.load(v.at(f, place, 1), v.element, size)
            for number, part in ((loop.index, imaginary), (length - loop.index, -imaginary)):
                place = v.at(f, first, number * 2)
                f.store(real, place, size)
                f.store(part, v.at(f, place, 1), size)
        rest = v.at(f, second, length * 2)
        f.call(scaled, None, first, second, table, length, 1, factor, rest)
        with f.each(length) as n:
            f.store(f.load(v.at(f, second, n * 2), v.element, size), v.at(f, target, n), size)
    f.leave_if(is_odd)
    f.call(opposite, None, source, first, table, half)
    behind = v.at(f, table, roots_size(length))
    f.call(scaled, None, first, target, behind, half, 1, factor, v.at(f, first, length))
    f.finish()


__all__ = ["emit_irfft", "emit_rfft", "roots_size"]
