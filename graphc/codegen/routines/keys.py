"""Sort keys: signed integers in the order of the numbers, and the entries that are sorted by them.

NaN is the greatest key, of whatever sign. Code is for scalars or vectors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.codegen.llvm.instructions import Instructions, Reg
from graphc.codegen.llvm.types import I64, LType, ltype
from graphc.ir.dtypes import DType

DIGIT_BITS = 8
"""Of a digit of keys."""

ROW = "*source *target length inverted *room"
"""The parameters of what sorts a row."""


def key_of(e: Instructions, raw: Reg, dtype: DType, zeros_differ: bool) -> Reg:
    """The keys of elements as they lie in memory; floats as integers of their bits.

    Zeros of both signs have one key, unless they ``differ``; then the negative one is the smaller.
    """
    if dtype.kind in ("bool", "int"):
        return raw
    top = 1 << (dtype.bits - 1)
    if dtype.kind == "uint":
        return raw ^ (top - (1 << dtype.bits))
    greatest, infinity = top - 1, dtype.format.infinity
    bits = raw
    if not zeros_differ:
        bits = e.select(raw.equals(-top), e.const(0, raw.type), raw)
    key = _mirrored(bits, dtype)
    is_nan = (bits & greatest) > infinity
    return e.select(is_nan, e.const(greatest, raw.type), key)


def raw_of(key: Reg, dtype: DType) -> Reg:
    """The element that a key is of."""
    if dtype.kind in ("bool", "int"):
        return key
    if dtype.kind == "uint":
        return key ^ -(1 << (dtype.bits - 1))
    return _mirrored(key, dtype)


def _mirrored(bits: Reg, dtype: DType) -> Reg:
    """Negative floats the other way round; that undoes itself."""
    return bits ^ (bits.ashr(dtype.bits - 1) >> 1)


@dataclass(frozen=True, slots=True)
class Entries:
    """What is sorted: keys, or keys with their places, as words.

    Keys of up to 32 bits share a word with their place, which is below 2**32 then. Words are in
    the order of keys and then of places.

    Attributes:
        dtype: of the elements.
        places: whether places come with keys.
    """

    dtype: DType
    places: bool

    @property
    def words(self) -> int:
        """How many make up an entry."""
        return 2 if self.places and self.dtype.bits > 32 else 1

    @property
    def word(self) -> LType:
        """The type of a word."""
        return I64 if self.places else ltype(f"i{self.dtype.bits}")

    @property
    def digits(self) -> int:
        """Of a key."""
        return self.dtype.bits // DIGIT_BITS

    @property
    def shift(self) -> int:
        """Bits of the first word below the key."""
        return 32 if self.places and self.words == 1 else 0

    def made(self, e: Instructions, raw: Reg, place: Reg, inverted: Reg) -> list[Reg]:
        """The words of an element, an integer of its bits; ``inverted`` is -1 to sort down, or 0.

        Of a vector, ``place`` and ``inverted`` have as many lanes, of 64 bits.
        """
        key = key_of(e, raw, self.dtype, zeros_differ=not self.places)
        if self.word.bits > self.dtype.bits:
            key = e.convert("sext", key, "i64")
        flipped = inverted
        if self.word.bits < 64:
            flipped = e.convert("trunc", inverted, self.word.element)
        key = key ^ flipped
        if not self.places:
            return [key]
        return [key << 32 | place] if self.words == 1 else [key, place]

    def result(self, e: Instructions, words: Sequence[Reg], inverted: Reg) -> Reg:
        """What a sorted entry gives: the element's bits, or its place."""
        if self.places:
            return words[0] & 0xFFFFFFFF if self.words == 1 else words[1]
        flipped = inverted
        if self.word.bits < 64:
            flipped = e.convert("trunc", inverted, self.word.element)
        return raw_of(words[0] ^ flipped, self.dtype)

    @property
    def source(self) -> LType:
        """An element's bits."""
        return ltype(f"i{8 * self.dtype.bytes}")

    @property
    def target(self) -> LType:
        """A result."""
        return I64 if self.places else self.source

    # --- in memory ---

    def load(self, e: Instructions, base: Reg, number: Reg) -> list[Reg]:
        """The words of an entry."""
        size = self.word.bits // 8
        first = number * self.words
        return [
            e.load(e.at(base, self.word.text, first, word), self.word, size)
            for word in range(self.words)
        ]

    def store(self, e: Instructions, words: Sequence[Reg], base: Reg, number: Reg) -> None:
        """Writes an entry."""
        size = self.word.bits // 8
        first = number * self.words
        for word, value in enumerate(words):
            e.store(value, e.at(base, self.word.text, first, word), size)


__all__ = ["DIGIT_BITS", "ROW", "Entries", "key_of", "raw_of"]
