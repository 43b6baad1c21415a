"""Radix passes over the columns of a row, all transformed side by side: one in each lane.

A pass does the butterflies of one radix. It goes from one copy of the columns to another and puts
results where the next pass finds them in order, so that nothing is bit-reversed (Stockham's
autosort: T. G. Stockham, "High-speed convolution and correlation", 1966; P. N. Swarztrauber, "FFT
algorithms for vector computers", 1984). In memory a vector of real parts stands before one of
imaginary parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.masked import first_lanes, load_lanes
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import LType, ltype
from graphc.codegen.routines.fourier.straight import Complex, times, transform
from graphc.ir.dtypes import DType
from graphc.kernel.routines.fourier_plan import lanes_of

PASS = "*source *target *roots groups stride step"
"""The parameters of a pass: ``groups`` is the length that is left to transform, ``step`` is the
product of the radices before. ``stride`` vectors share twiddle factors: as many as ``step``, or
where rows are in the lanes (``batches``) so many for each part."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Complex elements in vectors.

    Attributes:
        dtype: of real and imaginary parts.
    """

    dtype: DType

    @property
    def lanes(self) -> int:
        return lanes_of(self.dtype)

    @property
    def element(self) -> LType:
        return ltype(element_of(self.dtype))

    @property
    def vector(self) -> LType:
        return ltype(self.element.element, self.lanes)

    def at(self, f: Builder, base: Reg, *elements: Reg | int) -> Reg:
        """The address of an element."""
        return f.at(base, self.element.text, *elements)

    def complexes(self, f: Builder, base: Reg, index: Reg | int) -> Reg:
        """The address of a vector of complex elements."""
        return self.at(f, base, f.like(index) * (2 * self.lanes))

    def read(self, f: Builder, place: Reg) -> Complex:
        """A vector of complex elements: real parts before imaginary ones."""
        size = self.dtype.bytes
        second = self.at(f, place, self.lanes)
        return f.load(place, self.vector, size), f.load(second, self.vector, size)

    def write(self, f: Builder, element: Complex, place: Reg) -> None:
        size = self.dtype.bytes
        f.store(element[0], place, size)
        f.store(element[1], self.at(f, place, self.lanes), size)

    def deinterleaved(self, f: Builder, first: Reg, second: Reg, swaps: Reg) -> Complex:
        """Two vectors of pairs as one of real and one of imaginary parts; exchanged where a mask
        says so."""
        count = 2 * first.type.lanes
        if count == 2:
            return f.select(swaps, second, first), f.select(swaps, first, second)
        even, odd = (f.shuffled(first, second, range(side, count, 2)) for side in (0, 1))
        return f.select(swaps, odd, even), f.select(swaps, even, odd)

    def interleaved(self, f: Builder, element: Complex, swaps: Reg) -> tuple[Reg, Reg]:
        """The inverse of that."""
        real, imaginary = element
        lanes = real.type.lanes
        a, b = f.select(swaps, imaginary, real), f.select(swaps, real, imaginary)
        if lanes == 1:
            return a, b
        order = [place for lane in range(lanes) for place in (lane, lane + lanes)]
        return f.shuffled(a, b, order[:lanes]), f.shuffled(a, b, order[lanes:])

    def swaps(self, f: Builder, swap: Reg, lanes: int | None = None) -> Reg:
        """The mask of all lanes, or of none where ``swap`` is 0."""
        return f.splat(swap.differs(0), self.lanes if lanes is None else lanes)

    def root(self, f: Builder, roots: Reg, exponent: Reg) -> Complex:
        """A twiddle factor of a table of pairs, in every lane."""
        size = self.dtype.bytes
        place = self.at(f, roots, exponent * 2)
        real = f.load(place, self.element, size)
        imaginary = f.load(self.at(f, place, 1), self.element, size)
        return f.splat(real, self.lanes), f.splat(imaginary, self.lanes)


def emit_load(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (source, target, parts, columns, swap): deinterleaves packed pairs to columns."""
    f = Builder(module, name, "*source *target parts columns swap")
    source, target, parts, columns, swap = f.given("source", "target", "parts", "columns", "swap")
    pair, swaps, lanes = parts * 2, v.swaps(f, swap), v.lanes
    masks = first_lanes(f, pair, lanes), first_lanes(f, f.most(pair - lanes, 0), lanes)
    zeros = f.zeros(v.vector)
    with f.each(columns) as column:
        place = v.at(f, source, column * pair)
        first, second = (
            load_lanes(f, v.at(f, place, n * lanes), v.vector, mask, zeros)
            for n, mask in enumerate(masks)
        )
        v.write(f, v.deinterleaved(f, first, second, swaps), v.complexes(f, target, column))
    f.finish()
    return name


def emit_first(module: ModuleEmitter, name: str, v: Vectors, radix: int) -> str:
    """Defines (source, target, roots, groups, swap): the first pass, which deinterleaves packed
    pairs that fill all lanes."""
    f = Builder(module, name, "*source *target *roots groups swap")
    source, target, roots, groups, swap = f.given("source", "target", "roots", "groups", "swap")
    swaps, size = v.swaps(f, swap), v.dtype.bytes

    def emit_group(group: Reg, twiddles: list[Complex] | None) -> None:
        inputs = []
        for n in range(radix):
            place = v.complexes(f, source, group + groups * n)
            first = f.load(place, v.vector, size)
            second = f.load(v.at(f, place, v.lanes), v.vector, size)
            inputs.append(v.deinterleaved(f, first, second, swaps))
        results = transform(f, inputs)
        for n in range(radix):
            result = results[n]
            if n and twiddles is not None:
                result = times(f, result, twiddles[n - 1])
            v.write(f, result, v.complexes(f, target, group * radix + n))

    # as all passes do: the twiddle factors of the first group are ones
    emit_group(f.const(0), None)
    with f.loop(1, groups) as loop:
        emit_group(loop.index, [v.root(f, roots, loop.index * n) for n in range(1, radix)])
    f.finish()
    return name


def emit_pass(module: ModuleEmitter, name: str, v: Vectors, radix: int) -> str:
    """Defines a radix pass."""
    f = Builder(module, name, PASS)
    source, target, roots, groups, stride, step = f.given(
        "source", "target", "roots", "groups", "stride", "step"
    )
    apart = groups * stride

    def emit_group(group: Reg, twiddles: list[Complex] | None) -> None:
        start, end = group * stride, group * stride * radix
        with f.each(stride) as inside:
            first = start + inside
            inputs = [v.read(f, v.complexes(f, source, first + apart * n)) for n in range(radix)]
            results = transform(f, inputs)
            for n in range(radix):
                result = results[n]
                if n and twiddles is not None:
                    result = times(f, result, twiddles[n - 1])
                v.write(f, result, v.complexes(f, target, end + inside + stride * n))

    emit_group(f.const(0), None)
    with f.loop(1, groups) as loop:
        twiddle = loop.index * step
        emit_group(loop.index, [v.root(f, roots, twiddle * n) for n in range(1, radix)])
    f.finish()
    return name


def emit_prime(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines a pass by any odd radix, (…, radix, room), of Singleton's form: sums and differences
    of the elements n and radix - n are kept in the room."""
    f = Builder(module, name, f"{PASS} radix *room")
    source, target, roots, groups, stride, step, radix, room = f.given(
        "source", "target", "roots", "groups", "stride", "step", "radix", "room"
    )
    apart, half = groups * stride, radix >> 1
    # how far a root of the radix is from the next one
    next_root = groups * step
    with f.each(groups) as group, f.each(stride) as inside:
        first = group * stride + inside
        end = group * stride * radix + inside
        whole = v.read(f, v.complexes(f, source, first))
        with f.loop(1, half + 1, 1, whole) as pairs:
            n = pairs.index
            low = v.read(f, v.complexes(f, source, first + apart * n))
            high = v.read(f, v.complexes(f, source, first + apart * (radix - n)))
            total = low[0] + high[0], low[1] + high[1]
            place = v.complexes(f, room, n * 2)
            v.write(f, total, place)
            v.write(f, (low[0] - high[0], low[1] - high[1]), v.complexes(f, place, 1))
            pairs.yields = [pairs.carries[0] + total[0], pairs.carries[1] + total[1]]
        v.write(f, (pairs.results[0], pairs.results[1]), v.complexes(f, target, end))
        zeros = f.zeros(v.vector)
        with f.loop(1, half + 1) as places:
            place = places.index
            around = [*whole, zeros, zeros, f.const(0)]
            with f.loop(1, half + 1, 1, around) as terms:
                real, imaginary, across, down, before = terms.carries
                exponent = before + place
                exponent = f.select(exponent >= radix, exponent - radix, exponent)
                cosine, sine = v.root(f, roots, exponent * next_root)
                at = v.complexes(f, room, terms.index * 2)
                total, difference = v.read(f, at), v.read(f, v.complexes(f, at, 1))
                terms.yields = [
                    f.fma(total[0], cosine, real),
                    f.fma(total[1], cosine, imaginary),
                    f.fma(difference[1], sine, across),
                    f.fma(difference[0], sine, down),
                    exponent,
                ]
            real, imaginary, across, down, _ = terms.results
            twiddle = group * step
            # the sine of the table is the negative one
            for index, result in (
                (place, (real - across, imaginary + down)),
                (radix - place, (real + across, imaginary - down)),
            ):
                twiddled = times(f, result, v.root(f, roots, twiddle * index))
                v.write(f, twiddled, v.complexes(f, target, end + stride * index))
    f.finish()
    return name


__all__ = ["PASS", "Vectors", "emit_first", "emit_load", "emit_pass", "emit_prime"]
