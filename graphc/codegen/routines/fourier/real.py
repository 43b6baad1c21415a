"""The routines ``rfft`` and ``irfft``: transforms of real rows, and back.

A row of even length is packed to half as many complex elements: those at even places are real
parts, those at odd places imaginary ones. The transform of the row follows from theirs, two
elements k and n - k at a time (J. W. Cooley, P. A. W. Lewis and P. D. Welch, "The fast Fourier
transform algorithm: programming considerations in the calculation of sine, cosine and Laplace
transforms", 1970). A row of odd length is transformed as complex elements without imaginary parts.
On the way back only the real part of the first element counts, and of the last one if the length is
even.
"""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder, each_span
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import F64, I64, LType
from graphc.codegen.routines.fourier.batches import Batch, Kit
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.straight import Complex, times
from graphc.codegen.routines.fourier.transforms import aligned, factor_of, refuse

_ROW = "*source *table *target length *factor *room"


def roots_size(length: Reg) -> Reg:
    """Elements of the twiddle factors that stand before the table of half a row."""
    return ((length >> 2) + 1) * 2


def emit_opposite(module: ModuleEmitter, name: str, v: Vectors, *, back: bool) -> str:
    """Defines (source, target, roots, half): from the transform of a real row that is packed to
    ``half`` complex elements that of the row itself, times two; or ``back``, half of it."""
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
        one, opposite = _crossed(f, a, b, _read(f, v, type_, roots, near), back)
        _write(f, v, one, target, near)
        _write(f, v, _reversed(f, opposite), target, far)
    f.finish()
    return name


def _reversed(f: Builder, number: Complex) -> Complex:
    lanes = number[0].type.lanes
    if lanes == 1:
        return number
    order = range(lanes - 1, -1, -1)
    return f.shuffled(number[0], number[0], order), f.shuffled(number[1], number[1], order)


def _read(f: Builder, v: Vectors, type_: LType, base: Reg, index: Reg) -> Complex:
    size, lanes = v.dtype.bytes, type_.lanes
    place = v.at(f, base, index * 2)
    first, second = (f.load(v.at(f, place, n * lanes), type_, size) for n in (0, 1))
    return v.deinterleaved(f, first, second, v.swaps(f, f.const(0), lanes))


def _write(f: Builder, v: Vectors, number: Complex, base: Reg, index: Reg) -> None:
    size, lanes = v.dtype.bytes, number[0].type.lanes
    place = v.at(f, base, index * 2)
    for n, pair in enumerate(v.interleaved(f, number, v.swaps(f, f.const(0), lanes))):
        f.store(pair, v.at(f, place, n * lanes), size)


def emit_opposite_lanes(module: ModuleEmitter, name: str, v: Vectors, *, back: bool) -> str:
    """The same of rows in lanes, element by element; ``back`` swaps real and imaginary parts."""
    f = Builder(module, name, "*source *target *roots half")
    source, target, roots, half = f.given("source", "target", "roots", "half")
    zero = f.zeros(v.vector)

    def put(number: Complex, index: Reg | int) -> None:
        v.write(f, number[::-1] if back else number, v.complexes(f, target, index))

    first, second = v.read(f, source)
    if back:
        second = v.read(f, v.complexes(f, source, half))[0]
        put((first + second, first - second), 0)
    else:
        total, difference = first + second, first - second
        put((total + total, zero), 0)
        put((difference + difference, zero), half)
    with f.each(half >> 1) as index:
        near, far = index + 1, half - index - 1
        a, b = (v.read(f, v.complexes(f, source, place)) for place in (near, far))
        one, opposite = _crossed(f, a, b, v.root(f, roots, near), back)
        put(one, near)
        put(opposite, far)
    f.finish()
    return name


def _crossed(
    f: Builder, a: Complex, b: Complex, root: Complex, back: bool
) -> tuple[Complex, Complex]:
    """What the elements k and n - k become, by the root of unity with exponent k."""
    twiddle = root[1], root[0] if back else -root[0]
    total = a[0] + b[0], a[1] - b[1]
    twiddled = times(f, (a[0] - b[0], a[1] + b[1]), twiddle)
    return (
        (total[0] + twiddled[0], total[1] + twiddled[1]),
        (total[0] - twiddled[0], twiddled[1] - total[1]),
    )


def _is_good(f: Builder, v: Vectors, checked: str) -> Reg:
    """Whether the table is one for real rows of the length."""
    table, length, size, given = f.given("table", "length", "size", "given")
    is_even = (length & 1).equals(0)
    before = f.select(is_even, roots_size(length), 0)
    inner = f.select(is_even, length >> 1, length)
    # a table that is too small has no place behind its roots
    begin = v.at(f, table, f.most(f.least(before, size), 0))
    return f.call(checked, I64, begin, inner, size - before, given - length * 4)


class _Routine:
    """One of the two routines under emission.

    Attributes:
        f: its function.
        back: whether it is ``irfft``.
    """

    def __init__(self, module: ModuleEmitter, name: str, v: Vectors, kit: Kit, back: bool) -> None:
        self.module, self.name, self.v, self.kit, self.back = module, name, v, kit, back
        emit = self._emit_back if back else self._emit_row
        self.row = emit()
        self.opposite = emit_opposite_lanes(module, f"{name}_opposite_lanes", v, back=back)
        words = "*source *table *target length size given scale first count total *room"
        self.f = Builder(module, name, words, internal=False)

    def emit(self) -> None:
        """Defines it."""
        f, v, kit, back = self.f, self.v, self.kit, self.back
        source, table, target, length, given, scale, count, room = f.given(
            "source", "table", "target", "length", "given", "scale", "count", "room"
        )
        halves = ((length >> 1) + 1) * 2
        sizes = (halves, length) if back else (length, halves)
        refuse(f, v, _is_good(f, v, kit.checked), target, sizes[1] * count)
        is_even = (length & 1).equals(0)
        inner = f.select(is_even, length >> 1, length)
        behind = v.at(f, table, f.select(is_even, roots_size(length), 0))
        # the last step of an even row doubles results
        twice = 1.0 if back else f.select(is_even, f.const(0.5, F64), f.const(1.0, F64))
        factor, room = factor_of(f, v, length, scale, twice), aligned(f, room)
        batch = kit.batches.begin(f, v, behind, inner, given, count, room)
        with f.when(batch.fits):
            lanes = self._back_in_lanes if back else self._in_lanes
            with f.when(is_even):
                lanes(batch, behind, inner, factor, True)
            with f.when(~is_even):
                lanes(batch, behind, inner, factor, False)
        f.leave_if(batch.fits)
        with f.each(count) as number:
            begin, end = (
                v.at(f, base, number * size)
                for base, size in zip((source, target), sizes, strict=True)
            )
            f.call(self.row, None, begin, table, end, length, factor, room)
        f.finish()

    def _in_lanes(self, batch: Batch, behind: Reg, inner: Reg, factor: Reg, is_even: bool) -> None:
        f, v = self.f, self.v
        source, table, target, length, count = f.given(
            "source", "table", "target", "length", "count"
        )
        zero = f.zeros(v.vector)
        if is_even:
            batch.gather(source, length, count)
            made = batch.transform(batch.here, behind, inner, factor)
            result = batch.other(made)
            f.call(self.opposite, None, made, result, table, inner)
        else:
            batch.gather(source, length, count, 2)
            with f.each(length) as n:
                f.store(zero, v.at(f, v.complexes(f, batch.here, n), v.lanes), v.dtype.bytes)
            result = batch.transform(batch.here, behind, inner, factor)
            f.store(zero, v.at(f, result, v.lanes), v.dtype.bytes)
        batch.scatter(result, target, ((length >> 1) + 1) * 2, count)

    def _back_in_lanes(
        self, batch: Batch, behind: Reg, inner: Reg, factor: Reg, is_even: bool
    ) -> None:
        f, v = self.f, self.v
        source, table, target, length, count = f.given(
            "source", "table", "target", "length", "count"
        )
        halves = (length >> 1) + 1
        batch.gather(source, halves * 2, count)
        if is_even:
            f.call(self.opposite, None, batch.here, batch.there, table, inner)
        else:
            real, _ = v.read(f, batch.here)
            v.write(f, (f.zeros(v.vector), real), batch.there)
            with f.loop(1, halves) as loop:
                real, imaginary = v.read(f, v.complexes(f, batch.here, loop.index))
                v.write(f, (imaginary, real), v.complexes(f, batch.there, loop.index))
                v.write(f, (-imaginary, real), v.complexes(f, batch.there, length - loop.index))
        made = batch.transform(batch.there, behind, inner, factor)
        batch.scatter(made, target, length, count, 1 if is_even else 2, 1)

    def _emit_row(self) -> str:
        """Defines (source, table, target, length, factor, room): halves of one row."""
        v, size = self.v, self.v.dtype.bytes
        opposite = emit_opposite(self.module, f"{self.name}_opposite", v, back=False)
        f = Builder(self.module, f"{self.name}_row", _ROW)
        source, table, target, length, factor, first = f.given(
            "source", "table", "target", "length", "factor", "room"
        )
        is_odd = (length & 1).differs(0)
        with f.when(is_odd):
            second = v.at(f, first, length * 2)
            with f.each(length) as n:
                f.store(f.load(v.at(f, source, n), v.element, size), v.at(f, first, n * 2), size)
                f.store(f.const(0.0, v.element), v.at(f, first, n * 2, 1), size)
            rest = aligned(f, v.at(f, second, length * 2))
            f.call(self.kit.scaled, None, first, second, table, length, 0, factor, rest)
            f.copy_bytes(target, second, (length + 1) * size)
            # the first element is a sum of real ones
            f.store(f.const(0.0, v.element), v.at(f, target, 1), size)
        f.leave_if(is_odd)
        half = length >> 1
        behind = v.at(f, table, roots_size(length))
        rest = aligned(f, v.at(f, first, length))
        f.call(self.kit.scaled, None, source, first, behind, half, 0, factor, rest)
        f.call(opposite, None, first, target, table, half)
        f.finish()
        return f.name

    def _emit_back(self) -> str:
        """Defines (source, table, target, length, factor, room): one row from its halves."""
        v, size = self.v, self.v.dtype.bytes
        opposite = emit_opposite(self.module, f"{self.name}_opposite", v, back=True)
        f = Builder(self.module, f"{self.name}_row", _ROW)
        source, table, target, length, factor, first = f.given(
            "source", "table", "target", "length", "factor", "room"
        )
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
            rest = aligned(f, v.at(f, second, length * 2))
            f.call(self.kit.scaled, None, first, second, table, length, 1, factor, rest)
            with f.each(length) as n:
                f.store(f.load(v.at(f, second, n * 2), v.element, size), v.at(f, target, n), size)
        f.leave_if(is_odd)
        f.call(opposite, None, source, first, table, half)
        behind, rest = v.at(f, table, roots_size(length)), aligned(f, v.at(f, first, length))
        f.call(self.kit.scaled, None, first, target, behind, half, 1, factor, rest)
        f.finish()
        return f.name


def emit_rfft(module: ModuleEmitter, name: str, v: Vectors, kit: Kit) -> None:
    """Defines the routine ``rfft``, by complex transforms."""
    _Routine(module, name, v, kit, back=False).emit()


def emit_irfft(module: ModuleEmitter, name: str, v: Vectors, kit: Kit) -> None:
    """Defines the routine ``irfft``, by complex transforms."""
    _Routine(module, name, v, kit, back=True).emit()


__all__ = ["emit_irfft", "emit_rfft", "roots_size"]
