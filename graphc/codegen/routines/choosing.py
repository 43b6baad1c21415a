"""The routine ``true_places``.

Where the words of a vector can be compressed, the places of eight elements are, and are stored
whole while there is room for that: each step takes as long whatever the elements are, and nothing
is guessed. Elsewhere, and where room ends, the bits of a word of truth values are gone through.
"""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import packed
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I8, I64, ltype
from graphc.codegen.routines.quick import compressed
from graphc.ir.dtypes import DType

_BLOCK = 64
"""Elements whose truth values are the bits of a word."""
_PLACES = ltype("i64", 8)


def emit_true_places(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (mask, target, length, count, room): the first ``count`` places, then ``length``."""
    f = Builder(module, name, "*mask *target length count *room", internal=False)
    mask, target, length, count = f.given("mask", "target", "length", "count")
    start = found = f.const(0)
    if module.target.packs_conditions:
        whole = length.down_to(_BLOCK)
        if module.target.has_compress:
            start, found = _by_vectors(f, mask, target, whole, count)
        start, found = _by_words(f, mask, target, start, whole, count, found)
    with f.loop(start, length, 1, [found]) as rest:
        (found,) = rest.carries
        is_true = f.load(f.at(mask, "i8", rest.index), I8, 1).differs(0)
        taken = is_true & (found < count)
        with f.when(taken):
            f.store(rest.index, f.at(target, "i64", found), 8)
        rest.yields = [found + f.convert("zext", taken, "i64")]
    with f.loop(rest.results[0], count) as missing:
        f.store(length, f.at(target, "i64", missing.index), 8)
    f.finish()


def _block(f: Builder, mask: Reg, start: Reg) -> Reg:
    """The truth values of a block."""
    return f.load(f.at(mask, "i8", start), ltype("i8", _BLOCK), 1).differs(0)


def _by_vectors(
    f: Builder, mask: Reg, target: Reg, whole: Reg, count: Reg
) -> tuple[Reg, Reg]:
    """Blocks while all of their places would find room; where it ends, and how many were found.

    How many blocks that is at least, the room that is left says, time and again.
    """
    lanes = _PLACES.lanes
    slots = f.alloca(I64), f.alloca(I64)
    for slot in slots:
        f.store(f.const(0), slot, 8)
    with f.repeat() as leave_if:
        start, found = (f.load(slot, I64, 8) for slot in slots)
        size = f.least(whole - start, (count - found).down_to(_BLOCK))
        leave_if(size.equals(0))
        with f.loop(start, start + size, _BLOCK, [found]) as loop:
            (filled,) = loop.carries
            bits = packed(f, _block(f, mask, loop.index))
            for first in range(0, _BLOCK, lanes):
                byte = f.convert("trunc", bits >> first, "i8")
                is_true = f.assign(ltype("i1", lanes), f"bitcast {byte} to <{lanes} x i1>")
                places = f.iota(_PLACES) + f.splat(loop.index + first, lanes)
                f.store(compressed(f, places, is_true), f.at(target, "i64", filled), 8)
                filled = filled + f.convert("zext", f.intrinsic("ctpop", I8, byte), "i64")
            loop.yields = [filled]
        for slot, value in zip(slots, (start + size, loop.results[0]), strict=True):
            f.store(value, slot, 8)
    start, found = (f.load(slot, I64, 8) for slot in slots)
    return start, found


def _by_words(
    f: Builder, mask: Reg, target: Reg, start: Reg, whole: Reg, count: Reg, found: Reg
) -> tuple[Reg, Reg]:
    """Blocks bit by bit, each as far as there is room."""
    with f.loop(start, whole, _BLOCK, [found]) as loop:
        (found,) = loop.carries
        bits = packed(f, _block(f, mask, loop.index))
        number = f.least(f.intrinsic("ctpop", I64, bits), count - found)
        with f.loop(0, number, 1, [bits]) as inner:
            (left,) = inner.carries
            place = loop.index + f.zeros_behind(left)
            f.store(place, f.at(target, "i64", found, inner.index), 8)
            inner.yields = [left & (left - 1)]
        loop.yields = [found + number]
    return f.most(start, whole), loop.results[0]


__all__ = ["emit_true_places"]
