"""Conversions between floats of 16 bits and the float32 they are computed with in.

In a register a narrow float is its word. LLVM would call functions of a library for some of these
conversions, flush subnormals in others, and have none of both vectors and exact rounding on all
targets; so what no instruction does right is integer arithmetic here. Both give the same bits, but
for the payload of a NaN.
"""

from __future__ import annotations

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.ir.dtypes import DType, FloatFormat, float16, float32

_SINGLE = float32.format


def emit_widened(e: FunctionEmitter, word: Reg, source: DType) -> Reg:
    """The float32 that a narrow float is; exact."""
    format_ = source.format
    if source is float16 and e.module.target.has_half_conversions:
        return e.convert("fpext", e.convert("bitcast", word, "half"), "float")
    wide = e.convert("zext", word, "i32")
    dropped = _SINGLE.fraction - format_.fraction
    if format_.exponent == _SINGLE.exponent:
        return e.convert("bitcast", wide << dropped, "float")
    sign = (wide & (1 << (format_.bits - 1))) << (_SINGLE.bits - format_.bits)
    magnitude = (wide & ((1 << (format_.bits - 1)) - 1)) << dropped
    # with the exponent field of the one read as the other's, a power of two is missing; the
    # product makes subnormal numbers normal, too
    number = e.convert("bitcast", magnitude, "float") * 2.0 ** (_SINGLE.bias - format_.bias)
    special = magnitude | _SINGLE.infinity
    is_special = e.icmp("uge", magnitude, format_.infinity << dropped)
    magnitude = e.select(is_special, special, e.convert("bitcast", number, "i32"))
    return e.convert("bitcast", magnitude | sign, "float")


def emit_narrowed(e: FunctionEmitter, operand: Reg, target: DType) -> Reg:
    """The narrow float nearest to a float32, at a tie the even one, or infinite; NaN stays NaN."""
    if target is float16 and e.module.target.has_half_conversions:
        return e.convert("bitcast", e.convert("fptrunc", operand, "half"), "i16")
    format_ = target.format
    word = e.convert("bitcast", operand, "i32")
    magnitude = word & ((1 << (_SINGLE.bits - 1)) - 1)
    dropped = _SINGLE.fraction - format_.fraction
    rounded = _nearest(e, magnitude, dropped)
    if format_.exponent != _SINGLE.exponent:
        rounded = rounded - ((_SINGLE.bias - format_.bias) << format_.fraction)
        rounded = e.select(rounded > format_.infinity, format_.infinity, rounded)
        rounded = e.select(
            magnitude < _word(format_.smallest_normal), _subnormal(e, magnitude, format_), rounded
        )
    # a quiet one, whatever the bits that are dropped were
    nan = format_.infinity | (1 << (format_.fraction - 1))
    rounded = e.select(magnitude > _SINGLE.infinity, nan, rounded)
    sign = (word >> (_SINGLE.bits - format_.bits)) & (1 << (format_.bits - 1))
    return e.convert("trunc", rounded | sign, "i16")


def emit_odd_float32(e: FunctionEmitter, operand: Reg) -> Reg:
    """A float64 as float32, rounded to the neighbour whose last bit is 1 where it is none.

    A second rounding to fewer digits then gives what one would have given.
    """
    single = e.convert("fptrunc", operand, "float")
    back = e.convert("fpext", single, "double")
    word = e.convert("bitcast", single, "i32")
    grew = e.intrinsic("fabs", back.type, back) > e.intrinsic("fabs", operand.type, operand)
    towards_zero = e.select(grew, word - 1, word)
    is_inexact = e.fcmp("one", back, operand)
    return e.convert("bitcast", e.select(is_inexact, towards_zero | 1, word), "float")


def _nearest(e: FunctionEmitter, magnitude: Reg, dropped: int) -> Reg:
    """A word without its lowest bits, rounded; a carry goes into the exponent field."""
    odd = (magnitude >> dropped) & 1
    return (magnitude + (odd + ((1 << (dropped - 1)) - 1))) >> dropped


def _subnormal(e: FunctionEmitter, magnitude: Reg, format_: FloatFormat) -> Reg:
    """How many times the least number, rounded, by adding a number with such a last bit."""
    last = 1 - format_.bias - format_.fraction
    carrier = 2.0 ** (last + _SINGLE.fraction)
    total = e.convert("bitcast", magnitude, "float") + carrier
    return e.convert("bitcast", total, "i32") - _word(carrier)


def _word(power: float) -> int:
    """The word of a float32 that is a power of two."""
    exponent = int(power).bit_length() - 1 if power >= 1 else 1 - int(1 / power).bit_length()
    return (exponent + _SINGLE.bias) << _SINGLE.fraction
