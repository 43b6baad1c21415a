"""Sorting words in vectors: networks of comparators, whose steps no element decides.

Blocks of 16 vectors are sorted in registers: a network sorts the columns, a transpose makes runs of
them, and bitonic merges make one run of all (K. E. Batcher, "Sorting networks and their
applications", 1968). Then runs are merged in memory, pairs of them at a time. The second run is
read backwards first, so that all comparators put the smaller one first; vectors behind the last
element would hold the greatest words, and stay as they are: nothing is done with them.

The 60 comparators for 16 elements are those of M. W. Green (Knuth, The Art of Computer Programming
3, 5.3.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.masked import first_lanes, load_lanes, store_lanes
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import LType, ltype
from graphc.codegen.routines.keys import ROW, Entries

ROWS = 16
"""Vectors of a block."""

_COLUMN = (
    "0:1 2:3 4:5 6:7 8:9 10:11 12:13 14:15 0:2 4:6 8:10 12:14 1:3 5:7 9:11 13:15 0:4 8:12 1:5 9:13 "
    "2:6 10:14 3:7 11:15 0:8 1:9 2:10 3:11 4:12 5:13 6:14 7:15 5:10 6:9 3:12 13:14 4:8 7:11 1:2 "
    "1:4 7:13 2:8 11:14 2:4 5:6 9:10 11:13 3:8 7:12 6:8 10:12 3:5 7:9 3:4 5:6 7:8 9:10 11:12 6:7 "
    "8:9"
)
NETWORK = tuple(
    (int(low), int(high)) for low, high in (pair.split(":") for pair in _COLUMN.split())
)
"""Comparators: of each pair the smaller one becomes the first."""


def emit_network(
    module: ModuleEmitter, name: str, entries: Entries, lanes: int, *, words: bool = False
) -> str:
    """Defines (source, target, length, inverted, room): a row of one word an entry.

    Room is for the row in whole blocks of ``lanes`` words a vector. Of ``words`` the source is
    what elements were made of already.
    """
    core = _emit_core(module, f"{name}_core", entries, lanes)
    f = Builder(module, f"{name}_words" if words else name, ROW)
    source, target, length, inverted, room = f.given(
        "source", "target", "length", "inverted", "room"
    )
    n = Vectors(f, entries, lanes, room)
    block = ROWS * lanes
    count = (length + (block - 1)).udiv(block) * ROWS
    n.load(source, length, None if words else inverted, count)
    f.call(core, None, room, count)
    n.store(target, length, inverted)
    f.finish()
    return f.name


def _emit_core(module: ModuleEmitter, name: str, entries: Entries, lanes: int) -> str:
    """Defines, once, (room, count): sorts so many vectors of words, whole blocks of them."""
    if module.has(name):
        return name
    f = Builder(module, name, "*room count")
    room, count = f.given("room", "count")
    n = Vectors(f, entries, lanes, room)
    with f.loop(0, count, ROWS) as loop:
        vectors = [n.at(loop.index + row) for row in range(ROWS)]
        for row, vector in enumerate(n.sorted_block([n.read(place) for place in vectors])):
            n.write(vector, vectors[row])
    n.merge(count)
    f.finish()
    return name


def emit_vector(module: ModuleEmitter, name: str, entries: Entries, lanes: int) -> str:
    """Defines (source, target, length, inverted, room): a row of no more than a vector."""
    f = Builder(module, name, ROW)
    source, target, length, inverted = f.given("source", "target", "length", "inverted")
    n = Vectors(f, entries, lanes, source)
    mask = first_lanes(f, length, lanes)
    raw = ltype(entries.source.element, lanes)
    elements = load_lanes(f, source, raw, mask, f.zeros(raw))
    vector = f.select(mask, n.made(elements, f.const(0), inverted), n.greatest)
    vector = n.sorted_lanes(vector)
    results = entries.result(f, [vector], f.splat(inverted, lanes))
    store_lanes(f, results, target, mask)
    f.finish()
    return name


class Vectors:
    """The code of one function about the words of a row as vectors in memory, from ``room`` on."""

    def __init__(self, f: Builder, entries: Entries, lanes: int, room: Reg) -> None:
        self.f = f
        self.entries = entries
        self.lanes = lanes
        self.vector = ltype(entries.word.element, lanes)
        self.room = room

    # --- memory ---

    def at(self, number: Reg) -> Reg:
        """The address of a vector."""
        return self.f.at(self.room, self.vector.text, number)

    def read(self, place: Reg) -> Reg:
        return self.f.load(place, self.vector, self.vector.bits // 8)

    def write(self, vector: Reg, place: Reg) -> None:
        self.f.store(vector, place, self.vector.bits // 8)

    @property
    def greatest(self) -> Reg:
        """What comes behind all words, in all lanes."""
        return self.f.const((1 << (self.vector.bits - 1)) - 1, self.vector)

    def made(self, raw: Reg, number: Reg, inverted: Reg) -> Reg:
        f, lanes = self.f, self.lanes
        wide = ltype("i64", lanes)
        places = f.iota(wide) + f.splat(number * lanes, lanes)
        (word,) = self.entries.made(f, raw, places, f.splat(inverted, lanes))
        return word

    def load(self, source: Reg, length: Reg, inverted: Reg | None, count: Reg) -> None:
        """Makes words of all elements, or takes those that are given, and fills up the last block
        with the greatest."""
        f = self.f
        element = self.entries.source if inverted is not None else self.entries.word
        raw_type = ltype(element.element, self.lanes)

        def word(raw: Reg, number: Reg) -> Reg:
            return raw if inverted is None else self.made(raw, number, inverted)

        whole = length.udiv(self.lanes)

        def place(number: Reg) -> Reg:
            return f.at(source, raw_type.text, number)

        with f.loop(0, whole) as loop:
            raw = f.load(place(loop.index), raw_type, element.bits // 8)
            self.write(word(raw, loop.index), self.at(loop.index))
        greatest = self.greatest
        with f.loop(whole, count) as loop:
            self.write(greatest, self.at(loop.index))
        rest = length - whole * self.lanes
        with f.when(rest > 0):
            mask = first_lanes(f, rest, self.lanes)
            raw = load_lanes(f, place(whole), raw_type, mask, f.zeros(raw_type))
            self.write(f.select(mask, word(raw, whole), greatest), self.at(whole))

    def store(self, target: Reg, length: Reg, inverted: Reg) -> None:
        """Writes what the words give."""
        f, lanes = self.f, self.lanes
        result: LType = ltype(self.entries.target.element, lanes)
        whole = length.udiv(lanes)
        flipped = f.splat(inverted, lanes)

        def made(number: Reg) -> tuple[Reg, Reg]:
            value = self.entries.result(f, [self.read(self.at(number))], flipped)
            return value, f.at(target, result.text, number)

        with f.loop(0, whole) as loop:
            value, place = made(loop.index)
            f.store(value, place, result.bits // 8)
        rest = length - whole * lanes
        with f.when(rest > 0):
            value, place = made(whole)
            store_lanes(f, value, place, first_lanes(f, rest, lanes))

    # --- comparators ---

    def _ordered(self, one: Reg, other: Reg) -> tuple[Reg, Reg]:
        return self.f.least(one, other), self.f.most(one, other)

    def _shuffled(self, one: Reg, lanes: Sequence[int], other: Reg | None = None) -> Reg:
        return self.f.shuffled(one, one if other is None else other, lanes)

    def _reversed(self, one: Reg) -> Reg:
        return self._shuffled(one, range(self.lanes - 1, -1, -1))

    def sorted_lanes(self, vector: Reg) -> Reg:
        """One vector in order."""
        run = 2
        while run <= self.lanes:
            # the second half of each run is read backwards
            vector = self._compared(vector, run - 1, run // 2)
            distance = run // 4
            while distance:
                vector = self._compared(vector, distance, distance)
                distance //= 2
            run *= 2
        return vector

    def _compared(self, vector: Reg, partner: int, high: int) -> Reg:
        """Each lane with the one whose number differs in the bits ``partner``; of the two that
        with the bit ``high`` becomes the greater one."""
        lanes = range(self.lanes)
        other = self._shuffled(vector, [lane ^ partner for lane in lanes])
        low, top = self._ordered(vector, other)
        return self._shuffled(
            low, [lane if not lane & high else self.lanes + lane for lane in lanes], top
        )

    def _exchanged(self, one: Reg, other: Reg, distance: int) -> tuple[Reg, Reg]:
        """The lanes without a bit of both, and those with it: of lane numbers this bit and which
        vector it is change places."""
        lanes = range(self.lanes)
        return (
            self._shuffled(
                one, [j if not j & distance else self.lanes + j - distance for j in lanes], other
            ),
            self._shuffled(
                one, [j + distance if not j & distance else self.lanes + j for j in lanes], other
            ),
        )

    def _inside(self, one: Reg, other: Reg) -> tuple[Reg, Reg]:
        """The distances that are less than a vector, of two vectors at a time.

        What is to be compared stands in two vectors before each step; the lanes are put back at
        the end. That takes half as many instructions as shuffles within each vector.
        """
        distance = self.lanes // 2
        while distance:
            one, other = self._ordered(*self._exchanged(one, other, distance))
            distance //= 2
        # the bits have gone round by one: which vector is the lowest bit, and so on
        back: list[list[int]] = [[], []]
        for vector in range(2):
            for lane in range(self.lanes):
                bits = [vector]
                distance = self.lanes // 2
                while distance:
                    bits.append(int(bool(lane & distance)))
                    distance //= 2
                # exchanges from the highest bit down: vector -> highest, each bit -> the next
                place = 0
                for bit in bits[:-1]:
                    place = 2 * place + bit
                back[vector].append(bits[-1] * self.lanes + place)
        return self._shuffled(one, back[0], other), self._shuffled(one, back[1], other)

    def _all_inside(self, vectors: Sequence[Reg]) -> list[Reg]:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        return [vector for pair in pairs for vector in self._inside(*pair)]

    def sorted_block(self, rows: Sequence[Reg]) -> list[Reg]:
        """16 vectors as one run."""
        v = list(rows)
        for low, high in NETWORK:
            v[low], v[high] = self._ordered(v[low], v[high])
        v = self._runs(v)
        length = ROWS // self.lanes
        while length < ROWS:
            for start in range(0, ROWS, 2 * length):
                for i in range(length):
                    a, b = start + i, start + 2 * length - 1 - i
                    low_part, high_part = self._ordered(v[a], self._reversed(v[b]))
                    v[a], v[b] = low_part, self._reversed(high_part)
            distance = length // 2
            while distance:
                for i in range(ROWS):
                    if not i & distance:
                        v[i], v[i + distance] = self._ordered(v[i], v[i + distance])
                distance //= 2
            v = self._all_inside(v)
            length *= 2
        return v

    def _runs(self, columns: Sequence[Reg]) -> list[Reg]:
        """The columns of 16 vectors as runs, one behind the other."""
        lanes, groups = self.lanes, ROWS // self.lanes
        result: list[Reg] = [columns[0]] * ROWS
        for group in range(groups):
            square = self._transposed(columns[group * lanes : (group + 1) * lanes])
            for column, vector in enumerate(square):
                result[column * groups + group] = vector
        return result

    def _transposed(self, square: Sequence[Reg]) -> list[Reg]:
        """Quarters are exchanged, then quarters of these."""
        v, lanes = list(square), self.lanes
        distance = lanes // 2
        while distance:
            for i in range(lanes):
                if i & distance:
                    continue
                v[i], v[i + distance] = self._exchanged(v[i], v[i + distance], distance)
            distance //= 2
        return v

    # --- merges ---

    def merge(self, count: Reg) -> None:
        """Blocks become one run of ``count`` vectors."""
        f = self.f
        blocks = count.udiv(ROWS)
        # pairs are joined until there is one run; there may be no block
        levels = f.bit_length(f.most(blocks, 1) - 1)
        with f.loop(0, levels) as loop:
            level = loop.index
            run = f.const(ROWS) << level
            self._meet(count, run)
            # distances from half a run down to 4 vectors, which the last step needs not
            many = level + 2
            odd = many & 1
            with f.when(odd.equals(1)):
                self._pass(count, run >> 1)
            with f.loop(0, many >> 1) as pairs:
                self._double_pass(count, (run >> (odd + 1)) >> (pairs.index * 2))
            self._last(count)

    def _meet(self, count: Reg, run: Reg) -> None:
        """The first step of a merge, against the second run read backwards."""
        f = self.f
        both = run * 2
        with f.loop(0, (count + both - 1).udiv(both)) as blocks:
            start = blocks.index * both
            end = start + both
            with f.loop(f.most(end - count, 0), run) as loop:
                first, second = self.at(start + loop.index), self.at(end - 1 - loop.index)
                low, high = self._ordered(self.read(first), self._reversed(self.read(second)))
                self.write(low, first)
                self.write(self._reversed(high), second)

    def _pass(self, count: Reg, distance: Reg) -> None:
        """Comparators of one distance, in vectors."""
        f = self.f
        both = distance * 2
        with f.loop(0, (count + both - 1).udiv(both)) as blocks:
            self._part(blocks.index * both, distance, count)

    def _part(self, start: Reg, distance: Reg, end: Reg) -> None:
        f = self.f
        with f.loop(0, f.least(distance, end - start - distance)) as loop:
            first = start + loop.index
            places = self.at(first), self.at(first + distance)
            low, high = self._ordered(*map(self.read, places))
            self.write(low, places[0])
            self.write(high, places[1])

    def _double_pass(self, count: Reg, distance: Reg) -> None:
        """Comparators of a distance and of its half, in one go where a block is whole."""
        f = self.f
        both, half = distance * 2, distance >> 1
        whole = count.udiv(both)
        with f.loop(0, whole) as blocks:
            start = blocks.index * both
            with f.loop(0, half) as loop:
                first = start + loop.index
                places = [
                    self.at(place)
                    for place in (first, first + half, first + distance, first + distance + half)
                ]
                a, b, c, d = map(self.read, places)
                a, c = self._ordered(a, c)
                b, d = self._ordered(b, d)
                for place, vector in zip(
                    places, (*self._ordered(a, b), *self._ordered(c, d)), strict=True
                ):
                    self.write(vector, place)
        start = whole * both
        with f.when(start < count):
            self._part(start, distance, count)
            self._part(start, half, f.least(start + distance, count))
            self._part(start + distance, half, count)

    def _last(self, count: Reg) -> None:
        """The distances of two vectors, of one and of less."""
        f = self.f
        with f.loop(0, count, 4) as loop:
            places = [self.at(loop.index + row) for row in range(4)]
            a, b, c, d = map(self.read, places)
            a, c = self._ordered(a, c)
            b, d = self._ordered(b, d)
            last = self._all_inside([*self._ordered(a, b), *self._ordered(c, d)])
            for place, vector in zip(places, last, strict=True):
                self.write(vector, place)


__all__ = ["NETWORK", "ROWS", "Vectors", "emit_network", "emit_vector"]
