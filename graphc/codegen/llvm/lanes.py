"""Questions about a condition of many lanes.

LLVM's back end for WebAssembly cannot make an integer of 32 truth values (an assertion fails), so
there the lanes are words first.
"""

from __future__ import annotations

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import symbol
from graphc.codegen.llvm.types import I1, ltype


def any_lane(e: FunctionEmitter, condition: Reg) -> Reg:
    """An i1: does the condition hold in any lane?"""
    if condition.type.lanes == 1:
        return condition
    if e.module.target.packs_conditions:
        return e.intrinsic("vector.reduce.or", I1, condition)
    words = e.convert("sext", condition, "i32")
    return e.intrinsic("vector.reduce.or", _WORD, words).differs(0)


def packed(e: FunctionEmitter, condition: Reg) -> Reg:
    """A bit for each lane, the first one lowest, in an integer of at least 64 bits.

    Only for targets that pack conditions.
    """
    bits = ltype(f"i{condition.type.lanes}")
    mask = e.assign(bits, f"bitcast {condition} to {bits}")
    return e.convert("zext", mask, "i64") if bits.bits < 64 else mask


def first_lane(e: FunctionEmitter, condition: Reg) -> Reg:
    """The number of the first lane in which the condition holds; it does in one."""
    lanes = condition.type.lanes
    if e.module.target.packs_conditions:
        mask = packed(e, condition)
        bits = mask.type.bits
        name = f"llvm.cttz.i{bits}"
        e.module.declare(name, f"i{bits}", f"i{bits}, i1")
        place = e.assign(mask.type, f"call i{bits} {symbol(name)}({mask}, i1 true)")
        return place if bits == 64 else e.convert("trunc", place, "i64")
    words = ltype("i32", lanes)
    places = e.select(condition, e.iota(words), lanes)
    return e.convert("zext", e.intrinsic("vector.reduce.umin", _WORD, places), "i64")


_WORD = ltype("i32")

__all__ = ["any_lane", "first_lane", "packed"]
