"""Integers of fewer bits than a byte: how they lie in one, and how they are read.

The number is in the lowest bits; those above are written as 0, as ``ml_dtypes`` does, and are not
read.
"""

from __future__ import annotations

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.ir.dtypes import DType


def emit_unpacked(e: FunctionEmitter, word: Reg, source: DType) -> Reg:
    """The integer of 8 bits that a byte holds."""
    if not source.is_signed:
        return word & int(source.greatest)
    above = source.bits - source.width
    return (word << above).ashr(above)


def emit_packed(e: FunctionEmitter, number: Reg, target: DType) -> Reg:
    """The byte that holds the lowest bits of an integer of 8 bits."""
    return number & ((1 << target.width) - 1)


def emit_clamped(e: FunctionEmitter, number: Reg, target: DType) -> Reg:
    """An integer of 8 bits, or the least or greatest number of the target beyond its range."""
    low, high = ("smax", "smin") if target.is_signed else ("umax", "umin")
    number = e.intrinsic(high, number.type, number, e.const(target.greatest, number.type))
    if not target.is_signed:
        return number
    return e.intrinsic(low, number.type, number, e.const(target.least, number.type))


__all__ = ["emit_clamped", "emit_packed", "emit_unpacked"]
