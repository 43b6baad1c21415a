"""Loads and stores of some lanes: neighbours in memory, or wherever each lane's address is.

Lanes outside of a mask read and write nothing. Places are aligned to elements only.
"""

from __future__ import annotations

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import symbol
from graphc.codegen.llvm.types import LType, ltype


def every_lane(e: FunctionEmitter, lanes: int) -> Reg:
    """The mask that leaves none out."""
    return e.const(True, ltype("i1", lanes))


def first_lanes(e: FunctionEmitter, count: Reg | int, lanes: int) -> Reg:
    """The mask of the first ``count`` lanes, an i64; with more than there are, of all."""
    if isinstance(count, int):
        items = ", ".join(f"i1 {str(lane < count).lower()}" for lane in range(lanes))
        return Reg(e, f"<{items}>", ltype("i1", lanes))
    words = ltype("i32", lanes)
    return e.iota(words) < e.splat(e.convert("trunc", count, "i32"), lanes)


def load_lanes(e: FunctionEmitter, place: Reg, type_: LType, mask: Reg, other: Reg) -> Reg:
    """Lanes from an address on, or from an address each; those outside the mask are the other's."""
    kind, where = ("load", "p0") if place.type.lanes == 1 else ("gather", f"v{type_.lanes}p0")
    name = f"llvm.masked.{kind}.{type_.suffix}.{where}"
    e.module.declare(name, str(type_), f"{place.type}, {mask.type}, {type_}")
    return e.assign(
        type_, f"call {type_} {symbol(name)}({_aligned(place, type_)}, {mask}, {other})"
    )


def store_lanes(e: FunctionEmitter, value: Reg, place: Reg, mask: Reg) -> None:
    """Writes lanes from an address on, or to an address each."""
    type_ = value.type
    kind, where = ("store", "p0") if place.type.lanes == 1 else ("scatter", f"v{type_.lanes}p0")
    name = f"llvm.masked.{kind}.{type_.suffix}.{where}"
    e.module.declare(name, "void", f"{type_}, {place.type}, {mask.type}")
    e.line(f"call void {symbol(name)}({value}, {_aligned(place, type_)}, {mask})")


def _aligned(place: Reg, type_: LType) -> str:
    return f"{place.type} align {type_.bits // 8} {place.text}"


__all__ = ["every_lane", "first_lanes", "load_lanes", "store_lanes"]
