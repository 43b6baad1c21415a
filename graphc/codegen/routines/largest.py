"""The routine ``top_k``: the places of a row's largest elements.

Few of them are kept in one vector, in order, while the row goes by: elements are compared with the
last of them, many at a time, and nearly none has to be put in its place. Many are found by sorting
the row, and so are few of a row in which too many had to.
"""

from __future__ import annotations

from graphc.base.tuning.routines import ROUTINES
from graphc.codegen.gemm.builder import Builder, each_lane
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.codegen.llvm.masked import first_lanes, store_lanes
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import I64, ltype
from graphc.codegen.routines.keys import Entries, raw_of
from graphc.codegen.routines.sorting import emit_any
from graphc.ir.dtypes import DType

FEW = 16
"""The most that are kept in a vector."""

_TOGETHER = 64
"""Elements compared at a time."""


def emit_top_k(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (source, target, length, count, room): the places of the largest elements."""
    entries = Entries(dtypes[0], places=True)
    ordered = emit_any(module, name, entries)
    f = Builder(module, name, "*source *target length count *room", internal=False)
    source, target, length, count, room = f.given("source", "target", "length", "count", "room")
    # a graph from a file may ask for more than there are
    with f.loop(length, count) as beyond:
        f.store(f.const(0), f.at(target, "i64", beyond.index), 8)
    count = f.least(count, length)
    if entries.words == 1:
        few = _emit_few(module, f"{name}_few", entries)
        is_few = count <= FEW
        with f.when(is_few):
            f.leave_if(f.call(few, I64, source, target, length, count).differs(0))
    rest = f.at(room, "i64", length)
    f.call(ordered, None, source, room, length, -1, rest)
    f.copy_bytes(target, room, count * 8)
    f.finish()


def _emit_few(module: ModuleEmitter, name: str, entries: Entries) -> str:
    """Defines (source, target, length, count), which gives whether it has found them.

    A word is a key above the place counted down, so that the greatest words are the largest
    elements, and of equal ones the first.
    """
    f = Builder(module, name, "*source *target length count", result=I64)
    source, target, length, count = f.given("source", "target", "length", "count")
    dtype, raw = entries.dtype, entries.source
    kept = ltype("i64", FEW)
    has_none = count.equals(0)
    with f.when(has_none):
        f.give(1)
    # the kept words and the last of those that count, on the stack: both seldom change
    held, bar, entered = f.alloca(kept), f.alloca(I64), f.alloca(I64)
    f.store(f.const(-(1 << 63), kept), held, 64)
    f.store(f.const(-(1 << 63)), bar, 64)
    f.store(f.const(0), entered, 64)
    most = length // ROUTINES.largest_entered + 2 * _TOGETHER
    words = ltype(raw.element, _TOGETHER)

    def word_at(place: Reg) -> Reg:
        bits = f.load(f.at(source, raw.text, place), raw, raw.bits // 8)
        (word,) = entries.made(f, bits, place, f.const(0))
        return word ^ 0xFFFFFFFF

    def put(place: Reg) -> None:
        word = word_at(place)
        enters = word > f.load(bar, I64, 64)
        with f.when(enters):
            number = f.load(entered, I64, 64) + 1
            f.store(number, entered, 64)
            too_many = number > most
            with f.when(too_many):
                f.give(0)
            now = f.load(held, kept, 64)
            above = now > f.splat(word, FEW)
            shifted = f.shuffled(now, now, [0, *range(FEW - 1)])
            # behind those above comes the word, and what stood there moves by one
            before = f.shuffled(above, f.const(True, above.type), [FEW, *range(FEW - 1)])
            moved = f.select(above, now, f.select(before, f.splat(word, FEW), shifted))
            f.store(moved, held, 64)
            last = f.at(held, "i64", count - 1)
            f.store(f.load(last, I64, 8), bar, 64)

    # the first elements fill the vector, whatever they are
    begin = f.least(length, _TOGETHER)
    with f.each(begin) as place:
        put(place)
    whole = (length - begin).down_to(_TOGETHER) + begin
    with f.loop(begin, whole, _TOGETHER) as loop:
        key = f.load(bar, I64, 64).ashr(32)
        if dtype.bits < 64:
            key = f.convert("trunc", key, raw.element)
        limit = f.splat(raw_of(key, dtype), _TOGETHER)
        elements = f.load(f.at(source, raw.text, loop.index), words, raw.bits // 8)
        passes = _exceeds(f, elements, limit, dtype)
        if not module.target.packs_conditions:
            some = any_lane(f, passes)
            with f.when(some), f.loop(loop.index, loop.index + _TOGETHER) as inner:
                put(inner.index)
        else:
            start = loop.index

            def put_lane(lane: Reg) -> None:
                put(start + lane)

            each_lane(f, passes, put_lane)
    with f.loop(whole, length) as rest:
        put(rest.index)
    places = (f.load(held, kept, 64) ^ 0xFFFFFFFF) & 0xFFFFFFFF
    store_lanes(f, places, target, first_lanes(f, count, FEW))
    f.finish(1)
    return name


def _exceeds(f: Builder, elements: Reg, limit: Reg, dtype: DType) -> Reg:
    """Whether elements are greater, as bits in memory; beside NaN they may be."""
    if dtype.is_float:
        element = element_of(dtype)
        one, other = (f.convert("bitcast", bits, element) for bits in (elements, limit))
        return f.fcmp("ugt", one, other)
    return f.icmp("sgt" if dtype.kind == "int" else "ugt", elements, limit)


__all__ = ["FEW", "emit_top_k"]
