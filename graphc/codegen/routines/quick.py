"""Sorting long rows of words by parting them around pivots, in vectors.

The words of a vector that are smaller than the pivot are compressed in their register and stored
behind those before, the others likewise; what is stored beyond them is overwritten later. That
takes instructions which some targets have (``Target.has_compress``). (M. Blacher et al.,
"Vectorized and performance-portable Quicksort", 2022, from which the idea is.)
"""

from __future__ import annotations

from graphc.base.tuning.routines import ROUTINES
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import packed
from graphc.codegen.llvm.module import ModuleEmitter, symbol
from graphc.codegen.llvm.types import I64, LType, ltype
from graphc.codegen.routines.keys import ROW, Entries
from graphc.codegen.routines.network import Vectors, emit_network

_SAMPLE = 16
"""Words whose median is the pivot."""


def emit_quick(module: ModuleEmitter, name: str, entries: Entries, lanes: int, network: str) -> str:
    """Defines (source, target, length, inverted, room): a row of more than ``quick_words``.

    Room is for the words of the row twice, and for a block of a network.
    """
    part = _emit_parting(module, f"{name}_part", entries, lanes, network)
    f = Builder(module, name, ROW)
    source, target, length, inverted, room = f.given(
        "source", "target", "length", "inverted", "room"
    )
    words = Vectors(f, entries, lanes, room)
    words.load(source, length, inverted, length.udiv(lanes))
    # whoever parts badly is left to the network, which takes no turn for the worse
    depth = f.bit_length(length) * 2
    spare = f.at(room, entries.word.text, length + lanes)
    f.call(part, None, room, target, length, inverted, spare, depth)
    f.finish()
    return name


def _emit_parting(
    module: ModuleEmitter, name: str, entries: Entries, lanes: int, network: str
) -> str:
    """Defines (words, target, length, inverted, room, depth): the words, parted until they are
    few."""
    leaf = emit_network(module, network, entries, lanes, words=True)
    f = Builder(module, name, f"{ROW.replace('source', 'words')} depth")
    words, target, length, inverted, room, depth = f.given(
        "words", "target", "length", "inverted", "room", "depth"
    )
    is_leaf = (length <= ROUTINES.quick_words) | depth.equals(0)
    with f.when(is_leaf):
        f.call(leaf, None, words, target, length, inverted, room)
    f.leave_if(is_leaf)
    word, vector = entries.word, ltype(entries.word.element, lanes)
    pivot = _pivot(f, entries, words, length)
    smaller, others = _parted(f, vector, words, words, room, length, pivot)
    is_least = smaller.equals(0)
    with f.when(is_least):
        # those that equal the pivot are in place; the rest are what goes on
        _, left = _parted(f, vector, room, words, room, length, pivot, least=True)
        equal = length - left
        value = entries.result(f, [pivot], inverted)
        with f.each(equal) as i:
            f.store(value, f.at(target, entries.target.text, i), value.type.bits // 8)
        rest = f.at(words, word.text, equal)
        f.copy_bytes(rest, room, left * (word.bits // 8))
        place = f.at(target, entries.target.text, equal)
        f.call(name, None, rest, place, left, inverted, room, depth - 1)
    f.leave_if(is_least)
    rest = f.at(words, word.text, smaller)
    f.copy_bytes(rest, room, others * (word.bits // 8))
    f.call(name, None, words, target, smaller, inverted, room, depth - 1)
    place = f.at(target, entries.target.text, smaller)
    f.call(name, None, rest, place, others, inverted, room, depth - 1)
    f.finish()
    return name


def _pivot(f: Builder, entries: Entries, words: Reg, length: Reg) -> Reg:
    """The median of words from all over."""
    sample = Vectors(f, entries, _SAMPLE, words)
    step = length.udiv(_SAMPLE)
    vector = f.poison(sample.vector)
    for lane in range(_SAMPLE):
        place = f.at(words, entries.word.text, step * lane)
        word = f.load(place, entries.word, entries.word.bits // 8)
        text = f"insertelement {vector}, {word}, i64 {lane}"
        vector = f.assign(sample.vector, text)
    ordered = sample.sorted_lanes(vector)
    return f.assign(entries.word, f"extractelement {ordered}, i64 {_SAMPLE // 2}")


def _parted(
    f: Builder,
    vector: LType,
    source: Reg,
    low: Reg,
    high: Reg,
    length: Reg,
    pivot: Reg,
    *,
    least: bool = False,
) -> tuple[Reg, Reg]:
    """Words smaller than the pivot go to ``low``, the others to ``high``; how many there are of
    each. If it is the ``least`` of all, those equal to it are left out, and the low ones too.

    Source may be one of the targets: what is written has been read.
    """
    lanes, size, element = vector.lanes, vector.bits // 8, vector.element
    spread = f.splat(pivot, lanes)
    whole = length.down_to(lanes)

    def goes_low(words: Reg, than: Reg) -> Reg:
        return words <= than if least else words < than

    with f.loop(0, whole, lanes, [f.const(0), f.const(0)]) as loop:
        first, second = loop.carries
        words = f.load(f.at(source, element, loop.index), vector, size)
        is_low = goes_low(words, spread)
        count = _count(f, is_low)
        if not least:
            f.store(compressed(f, words, is_low), f.at(low, element, first), size)
        f.store(compressed(f, words, ~is_low), f.at(high, element, second), size)
        loop.yields = [first + count, second + (lanes - count)]
    with f.loop(whole, length, 1, loop.results) as rest:
        first, second = rest.carries
        word = f.load(f.at(source, element, rest.index), pivot.type, size)
        is_low = goes_low(word, pivot)
        if not least:
            f.store(word, f.at(low, element, first), size)
        f.store(word, f.at(high, element, second), size)
        one = f.convert("zext", is_low, "i64")
        rest.yields = [first + one, second + (1 - one)]
    return rest.results[0], rest.results[1]


def compressed(f: Builder, words: Reg, mask: Reg) -> Reg:
    """The words in the lanes of the mask, side by side; whatever there is behind them."""
    name = f"llvm.experimental.vector.compress.{words.type.suffix}"
    f.module.declare(name, str(words.type), f"{words.type}, {mask.type}, {words.type}")
    operands = f"{words}, {mask}, {f.poison(words.type)}"
    return f.assign(words.type, f"call {words.type} {symbol(name)}({operands})")


def _count(f: Builder, mask: Reg) -> Reg:
    return f.intrinsic("ctpop", I64, packed(f, mask))


__all__ = ["compressed", "emit_quick"]
