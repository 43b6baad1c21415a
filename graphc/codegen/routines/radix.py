"""Stable sorting by digits, the least first, and of short rows by counting smaller entries."""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, ltype
from graphc.codegen.routines.keys import DIGIT_BITS, ROW, Entries

_VALUES = 1 << DIGIT_BITS


def emit_radix(module: ModuleEmitter, name: str, entries: Entries) -> str:
    """Defines (source, target, length, inverted, room): a row of any length.

    All digits are counted while keys are made. A digit that all keys have alike moves nothing, as
    the upper ones of small integers. (Knuth, The Art of Computer Programming 3, 5.2.5.)
    """
    f = Builder(module, name, ROW)
    source, target, length, inverted, room = f.given(
        "source", "target", "length", "inverted", "room"
    )
    counts, digits = room, entries.digits
    first = f.at(room, "i64", digits * _VALUES)
    second = f.at(first, entries.word.text, length * entries.words)
    # not by memset, for which some systems have a function of their own
    zeros = f.zeros(ltype("i64", 8))
    with f.loop(0, digits * _VALUES, zeros.type.lanes) as clearing:
        f.store(zeros, f.at(counts, "i64", clearing.index), 8)
    size = entries.source.bits // 8
    with f.each(length) as i:
        raw = f.load(f.at(source, entries.source.text, i), entries.source, size)
        words = entries.made(f, raw, i, inverted)
        entries.store(f, words, first, i)
        for digit_number in range(digits):
            digit = _digit(f, entries, words[0], f.const(digit_number))
            table = f.at(counts, "i64", digit_number * _VALUES)
            _counted(f, f.at(table, "i64", digit))
    # with no elements there is no first one to look at
    with f.when(length > 0):
        with f.loop(0, digits, 1, [first, second]) as passes:
            here, there = passes.carries
            number = passes.index
            table = f.at(counts, "i64", number * _VALUES)
            digit = _digit(f, entries, entries.load(f, here, f.const(0))[0], number)
            alike = f.load(f.at(table, "i64", digit), I64, 8)
            moves = alike < length

            def move(here: Reg = here, there: Reg = there, table: Reg = table,
                     number: Reg = number) -> list[Reg]:  # fmt: skip
                _summed(f, table)
                with f.each(length) as i:
                    words = entries.load(f, here, i)
                    digit = _digit(f, entries, words[0], number)
                    place = _counted(f, f.at(table, "i64", digit))
                    entries.store(f, words, there, place)
                return [there, here]

            passes.yields = f.merged(moves, [here, there], move, "moved")
        (last, _) = passes.results
        with f.each(length) as i:
            result = entries.result(f, entries.load(f, last, i), inverted)
            f.store(result, f.at(target, entries.target.text, i), entries.target.bits // 8)
    f.finish()
    return name


def _digit(f: Builder, entries: Entries, word: Reg, number: Reg) -> Reg:
    """A digit of a key; that of the sign is turned round, so that negative keys come first."""
    last = entries.digits - 1
    shift = number * DIGIT_BITS + entries.shift
    if entries.word.bits < 64:
        word = f.convert("zext", word, "i64")
    sign = f.select(number.equals(last), f.const(_VALUES // 2), f.const(0))
    return ((word >> shift) & (_VALUES - 1)) ^ sign


def _counted(f: Builder, place: Reg) -> Reg:
    """Adds one to a count; the count before."""
    count = f.load(place, I64, 8)
    f.store(count + 1, place, 8)
    return count


def _summed(f: Builder, table: Reg) -> None:
    """Counts become the numbers of entries with smaller digits."""
    with f.loop(0, _VALUES, 1, [f.const(0)]) as loop:
        place = f.at(table, "i64", loop.index)
        count = f.load(place, I64, 8)
        f.store(loop.carries[0], place, 8)
        loop.yields = [loop.carries[0] + count]


__all__ = ["emit_radix"]
