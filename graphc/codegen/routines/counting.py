"""The routines ``bincount`` and ``binsum``.

Equal places that follow each other wait for each other: the count must have been stored before it
is read again. So four tables of counts take turns, and runs of one place are counted at once.
"""

from __future__ import annotations

from graphc.base.tuning.routines import ROUTINES
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import F64, I32, I64, LType, ltype
from graphc.ir.dtypes import DType
from graphc.kernel.routines.searching import TABLE_MARGIN, TABLES

_TOGETHER = 32
"""Places that are looked at before any is counted."""

_LANES = 8
"""Counts that are added up at a time."""


def emit_bincount(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (places, target, length, bins, room): how often each place comes.

    Places beyond the bins are left out. Gives the first negative place, 0 if there is none.
    """
    dtype = dtypes[0]
    plain = _emit_plain(module, f"{name}_plain", dtype, I64)
    f = Builder(module, name, "*places *target length bins *room", internal=False, result=I64)
    places, target, length, bins, room = f.given("places", "target", "length", "bins", "room")
    pays = (bins > 0) & (bins <= ROUTINES.most_bins) & (length >= bins) & (length < 1 << 31)
    with f.when(~pays):
        f.give(f.call(plain, I64, places, target, length, bins))
    each = (bins + TABLE_MARGIN).down_to(_LANES)
    tables = [f.at(room, "i32", each * number) for number in range(TABLES)]
    zeros = f.zeros(ltype("i32", _LANES))
    with f.loop(0, each * TABLES, _LANES) as clearing:
        f.store(zeros, f.at(room, "i32", clearing.index), 4)
    element = ltype(storage(dtype))
    last = _last_bin(f, bins, dtype, element)
    vector = ltype(element.element, _TOGETHER)
    whole = length.down_to(_TOGETHER)
    with f.loop(0, whole, _TOGETHER, [f.const(0)]) as loop:
        found = f.load(f.at(places, element.text, loop.index), vector, element.bits // 8)
        outside = any_lane(f, f.icmp("ugt", found, f.splat(last, _TOGETHER)))
        start, bad = loop.index, loop.carries[0]

        def slowly(start: Reg = start, bad: Reg = bad) -> list[Reg]:
            end = start + _TOGETHER
            return [_counted(f, places, tables[0], start, end, bins, bad, dtype, I32)]

        (bad,) = f.merged(outside, [bad], slowly, "outside")
        inside = ~outside
        with f.when(inside):
            place = f.load(f.at(places, element.text, start), element, element.bits // 8)
            differs = any_lane(f, found.differs(f.splat(place, _TOGETHER)))
            with f.when(differs):
                for n in range(_TOGETHER):
                    place = f.load(
                        f.at(places, element.text, start, n), element, element.bits // 8
                    )
                    add_to(f, tables[n % TABLES], _wide(f, place, dtype), f.const(1, I32))
            with f.when(~differs):
                one = f.load(f.at(places, element.text, start), element, element.bits // 8)
                add_to(f, tables[0], _wide(f, one, dtype), f.const(_TOGETHER, I32))
        loop.yields = [bad]
    bad = _counted(
        f, places, tables[0], whole, length, bins, loop.results[0], dtype, I32
    )
    added(f, tables, target, bins)
    f.finish(bad)


def emit_binsum(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (places, weights, target, length, bins, room): the sums of weights, in order."""
    plain = _emit_plain(module, f"{name}_plain", dtypes[0], F64)
    words = "*places *weights *target length bins *room"
    f = Builder(module, name, words, internal=False, result=I64)
    f.finish(f.call(plain, I64, *f.given("places", "target", "length", "bins", "weights")))


def _emit_plain(module: ModuleEmitter, name: str, dtype: DType, kind: LType) -> str:
    """Defines (places, target, length, bins, [weights]): one by one."""
    weights = " *weights" if kind is F64 else ""
    f = Builder(module, name, f"*places *target length bins{weights}", result=I64)
    places, target, length, bins = f.given("places", "target", "length", "bins")
    with f.each(bins) as i:
        f.store(f.const(0, kind), f.at(target, kind.text, i), 8)
    f.finish(_counted(f, places, target, f.const(0), length, bins, f.const(0), dtype, kind))
    return name


def _counted(
    f: Builder,
    places: Reg,
    table: Reg,
    start: Reg,
    end: Reg,
    bins: Reg,
    bad: Reg,
    dtype: DType,
    kind: LType,
) -> Reg:
    """Counts from ``start`` to ``end``, one by one; the first negative place, ``bad`` if that is
    one."""
    element = ltype(storage(dtype))
    with f.loop(start, end, 1, [bad]) as loop:
        raw = f.load(f.at(places, element.text, loop.index), element, element.bits // 8)
        place = _wide(f, raw, dtype)
        inside = f.icmp("ult", place, bins)
        with f.when(inside):
            one = f.const(1, kind)
            if kind is F64:
                (weights,) = f.given("weights")
                one = f.load(f.at(weights, kind.text, loop.index), kind, 8)
            add_to(f, table, place, one)
        (found,) = loop.carries
        if dtype.kind == "int":
            found = f.select(found.equals(0) & (place < 0), place, found)
        loop.yields = [found]
    return loop.results[0]


def _wide(f: Builder, raw: Reg, dtype: DType) -> Reg:
    if raw.type is I64:
        return raw
    return f.convert("sext" if dtype.kind == "int" else "zext", raw, "i64")


def add_to(f: Builder, table: Reg, place: Reg, amount: Reg) -> None:
    """Adds to an element of a table."""
    kind = amount.type
    at = f.at(table, kind.text, place)
    f.store(f.load(at, kind, kind.bits // 8) + amount, at, kind.bits // 8)


def _last_bin(f: Builder, bins: Reg, dtype: DType, element: LType) -> Reg:
    """The greatest place that has a bin, as far as the dtype goes; taken for unsigned, negative
    places are beyond it."""
    last = bins - 1
    if element is I64:
        return last
    greatest = (1 << (element.bits - (dtype.kind == "int"))) - 1
    return f.convert("trunc", f.least(last, greatest), element.element)


def added(
    f: Builder, tables: list[Reg], target: Reg, bins: Reg, *, more: bool = False
) -> None:
    """Writes the counts of all tables, or adds them to what there is."""
    whole = bins.down_to(_LANES)
    for start, end, lanes in ((f.const(0), whole, _LANES), (whole, bins, 1)):
        kind = ltype("i32", lanes)
        with f.loop(start, end, lanes) as loop:
            total = f.zeros(kind) if lanes > 1 else f.const(0, kind)
            for table in tables:
                total = total + f.load(f.at(table, "i32", loop.index), kind, 4)
            counts, place = f.convert("zext", total, "i64"), f.at(target, "i64", loop.index)
            if more:
                counts = counts + f.load(place, counts.type, 8)
            f.store(counts, place, 8)


__all__ = ["add_to", "added", "emit_bincount", "emit_binsum"]
