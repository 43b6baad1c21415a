"""The places of few elements in order, by counting for each how many come before it."""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, ltype
from graphc.codegen.routines.keys import ROW, Entries

_LANES = 8


def emit_ranks(module: ModuleEmitter, name: str, entries: Entries) -> str:
    """Defines (source, target, length, inverted, room): places, of keys that fill a word."""
    f = Builder(module, name, ROW)
    source, target, length, inverted, room = f.given(
        "source", "target", "length", "inverted", "room"
    )
    keys = ltype("i64", _LANES)
    padded = length.up_to(_LANES)
    with f.each(length) as i:
        raw = f.load(f.at(source, entries.source.text, i), entries.source, 8)
        key, _ = entries.made(f, raw, i, inverted)
        f.store(key, f.at(room, "i64", i), 8)
    with f.loop(length, padded) as loop:
        # what fills up the last vector comes before nothing
        f.store(f.const((1 << 63) - 1), f.at(room, "i64", loop.index), 8)
    with f.each(length) as i:
        key = f.splat(f.load(f.at(room, "i64", i), I64, 8), _LANES)
        here = f.splat(i, _LANES)
        with f.loop(0, padded, _LANES, [f.const(0, keys)]) as loop:
            others = f.load(f.at(room, "i64", loop.index), keys, 8)
            places = f.iota(keys) + f.splat(loop.index, _LANES)
            comes_first = (others < key) | (others.equals(key) & (places < here))
            (counts,) = loop.carries
            loop.yields = [counts - f.convert("sext", comes_first, "i64")]
        rank: Reg = f.intrinsic("vector.reduce.add", I64, loop.results[0])
        f.store(i, f.at(target, "i64", rank), 8)
    f.finish()
    return name


__all__ = ["emit_ranks"]
