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


def emit_truncated(e: FunctionEmitter, number: Reg, target: DType) -> Reg:
    """A float without its fraction, as an integer of 8 bits in the range of the target; NaN is 0.

    It is clamped as a float: instructions for vectors saturate to 32 bits at least.
    """
    least, greatest = float(target.least), float(target.greatest)
    number = e.select(number < least, least, number)
    number = e.select(number > greatest, greatest, number)
    number = e.select(e.fcmp("uno", number, number), 0.0, number)
    return e.convert("trunc", e.convert("fptosi", number, "i32"), "i8")


__all__ = ["emit_packed", "emit_truncated", "emit_unpacked"]
