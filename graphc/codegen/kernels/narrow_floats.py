"""Conversions between floats of 8 and 16 bits and the float32 they are computed with in.

In a register a narrow float is its word. LLVM would call functions of a library for some of these
conversions, flush subnormals in others, and have none of both vectors and exact rounding on all
targets; so what no instruction does right is integer arithmetic here. Both give the same bits, but
for the payload of a NaN.

Formats differ in their fields, in their bias and in which words are no numbers
(``graphc.ir.float_formats``); the code is the same for all.
"""

from __future__ import annotations

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.types import ltype
from graphc.codegen.math.common import NAN
from graphc.ir.dtypes import DType, float16, float32, float64
from graphc.ir.float_formats import FloatFormat

_HALF, _SINGLE, _DOUBLE = float16.format, float32.format, float64.format


def emit_widened(e: FunctionEmitter, word: Reg, source: DType) -> Reg:
    """The float32 that a narrow float is; exact."""
    format_ = source.format
    if e.module.target.has_half_conversions and _reads_as_half(format_):
        return _widened_as_half(e, word, format_)
    wide = e.convert("zext", word, "i32")
    if format_.exponent == _SINGLE.exponent:
        return e.convert("bitcast", wide << (_SINGLE.fraction - format_.fraction), "float")
    number = _scaled(e, _spread(wide, format_, _SINGLE), format_, _SINGLE)
    result = e.convert("bitcast", number, "i32")
    if format_.has_infinity:
        # all bits of the exponent field stay all of them
        is_special = e.icmp("uge", wide & (format_.sign - 1), format_.infinity)
        result = e.select(is_special, result | _SINGLE.infinity, result)
    else:
        result = e.select(_is_nan(e, wide, format_), _SINGLE.nan, result)
    return e.convert("bitcast", result, "float")


def _reads_as_half(format_: FloatFormat) -> bool:
    """Whether a word without NaN and infinity can be read as a half of another scale."""
    fits = format_.exponent <= _HALF.exponent and format_.fraction <= _HALF.fraction
    return fits and (format_.exponent < _HALF.exponent or format_.has_infinity)


def _widened_as_half(e: FunctionEmitter, word: Reg, format_: FloatFormat) -> Reg:
    """A float32 by way of a half, which processors convert."""
    wide = word if format_.bits == _HALF.bits else e.convert("zext", word, "i16")
    number = e.convert("bitcast", _spread(wide, format_, _HALF), "half")
    number = _scaled(e, e.convert("fpext", number, "float"), format_, _HALF)
    if format_.exponent == _HALF.exponent:
        return number
    if format_.has_infinity:
        bits = e.convert("bitcast", number, "i32")
        is_special = e.icmp("uge", wide & (format_.sign - 1), format_.infinity)
        return e.convert("bitcast", e.select(is_special, bits | _SINGLE.infinity, bits), "float")
    return e.select(_is_nan(e, wide, format_), NAN, number)


def _spread(wide: Reg, format_: FloatFormat, into: FloatFormat) -> Reg:
    """The fields of a word where those of a wider format are."""
    moved = into.fraction - format_.fraction
    if format_.exponent == into.exponent:
        return wide << moved if moved else wide
    sign = (wide & format_.sign) << (into.bits - format_.bits)
    return sign | ((wide & (format_.sign - 1)) << moved)


def _scaled(e: FunctionEmitter, number: Reg, format_: FloatFormat, read_as: FloatFormat) -> Reg:
    """The float32 of fields that another format has read: the power of two that is missing then.

    The product makes subnormal numbers normal, too.
    """
    if number.type.element != "float":
        number = e.convert("bitcast", number, "float")
    shift = read_as.bias - format_.bias
    return number * 2.0**shift if shift else number


def _is_nan(e: FunctionEmitter, word: Reg, format_: FloatFormat) -> Reg:
    """Whether a word is NaN, of a format that has one magnitude of it."""
    if format_.specials == "fn":
        word = word & (format_.sign - 1)
    return word.equals(format_.nan)


def has_range_of_float32(dtype: DType) -> bool:
    """Whether the numbers of a narrow dtype are float32 without the last digits."""
    is_narrow = dtype.is_float and dtype.bits < _SINGLE.bits
    return is_narrow and dtype.format.exponent == _SINGLE.exponent


KEEPS_NAN_SHORT = frozenset(
    {"add", "subtract", "multiply", "divide", "sqrt", "negative", "abs", "minimum", "maximum"}
)
"""Primitives whose NaN has the digits of an operand's, or none but the one that makes it quiet. So
LLVM has it on all targets but WebAssembly."""


def emit_rounded(e: FunctionEmitter, operand: Reg, target: DType, is_short: bool = False) -> Reg:
    """A float32's word whose upper digits are the nearest number of the target, at a tie the even
    one; ``emit_whole`` and ``emit_cut`` drop the lower ones.

    Where NaN is ``is_short``, it has no digits that the target lacks, and rounding keeps it.
    """
    dropped = _SINGLE.fraction - target.format.fraction
    last, half = 1 << dropped, 1 << (dropped - 1)
    word = e.convert("bitcast", operand, "i32")
    if e.module.target.masks:
        # a test and a sum in some lanes take less than to move the bit
        is_odd = (word & last).differs(0)
        rounded = e.select(is_odd, word + half, word + (half - 1))
    else:
        rounded = word + (((word >> dropped) & 1) + (half - 1))
    if is_short:
        return rounded
    # a quiet one, whatever the bits that are dropped were
    return e.select(e.fcmp("uno", operand, operand), target.format.nan << dropped, rounded)


def emit_whole(e: FunctionEmitter, word: Reg, target: DType) -> Reg:
    """The float32 that a word of ``emit_rounded`` is."""
    dropped = _SINGLE.fraction - target.format.fraction
    return e.convert("bitcast", word & -(1 << dropped), "float")


def emit_narrowed(e: FunctionEmitter, operand: Reg, target: DType) -> Reg:
    """The narrow float nearest to a float32, at a tie the even one; NaN stays NaN.

    What rounds beyond the range is infinite, or NaN where the format has no infinity.
    """
    if target is float16 and e.module.target.has_half_conversions:
        return e.convert("bitcast", e.convert("fptrunc", operand, "half"), "i16")
    format_ = target.format
    if has_range_of_float32(target):
        return emit_cut(e, emit_rounded(e, operand, target), target)
    word = e.convert("bitcast", operand, "i32")
    magnitude = word & ((1 << (_SINGLE.bits - 1)) - 1)
    dropped = _SINGLE.fraction - format_.fraction
    rounded = _nearest(e, magnitude, dropped)
    rounded = rounded - ((_SINGLE.bias - format_.bias) << format_.fraction)
    rounded = e.select(rounded >= format_.overflow, format_.overflow, rounded)
    rounded = e.select(
        magnitude < _word(format_.smallest_normal), _subnormal(e, magnitude, format_), rounded
    )
    # a quiet one, whatever the bits that are dropped were
    rounded = e.select(magnitude > _SINGLE.infinity, format_.nan, rounded)
    sign = (word >> (_SINGLE.bits - format_.bits)) & format_.sign
    if format_.specials == "fnuz":
        # the sign alone is NaN
        sign = e.select(rounded.equals(0), 0, sign)
    return e.convert("trunc", rounded | sign, f"i{target.bits}")


def emit_cut(e: FunctionEmitter, word: Reg, target: DType) -> Reg:
    """The narrow float that a word of ``emit_rounded`` is."""
    lanes = word.type.lanes
    if target.bits == 16 and lanes > 1 and e.module.target.masks:
        # one permutation of the words of two registers, where LLVM would shift and cut each
        halves = e.assign(ltype("i16", 2 * lanes), f"bitcast {word} to <{2 * lanes} x i16>")
        return e.shuffled(halves, e.poison(halves.type), range(1, 2 * lanes, 2))
    return e.convert("trunc", word >> (_SINGLE.bits - target.bits), f"i{target.bits}")


def emit_odd_float32(e: FunctionEmitter, operand: Reg, source: DType) -> Reg:
    """A number as float32, rounded to the neighbour whose last bit is 1 where it is none.

    A second rounding to fewer digits then gives what one would have given (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008).
    """
    if source is float32:
        return operand
    if source.is_integer:
        operand = _odd_float64(e, operand, source)
    single = e.convert("fptrunc", operand, "float")
    back = e.convert("fpext", single, "double")
    word = e.convert("bitcast", single, "i32")
    grew = e.intrinsic("fabs", back.type, back) > e.intrinsic("fabs", operand.type, operand)
    towards_zero = e.select(grew, word - 1, word)
    is_inexact = e.fcmp("one", back, operand)
    return e.convert("bitcast", e.select(is_inexact, towards_zero | 1, word), "float")


def _odd_float64(e: FunctionEmitter, operand: Reg, source: DType) -> Reg:
    """An integer as float64, which holds those of 32 bits; of 64 bits those that need more digits
    than it has are rounded to odd multiples of a power of two."""
    if not float64.holds(source):
        step, limit = 1 << (source.bits - _DOUBLE.significand), _DOUBLE.largest_whole
        # the sum has the bit of the step where bits below it are set
        odd = (operand & -step) | (((operand & (step - 1)) + (step - 1)) & step)
        from_least, count = (operand + limit, 2 * limit) if source.is_signed else (operand, limit)
        operand = e.select(e.icmp("ule", from_least, count), operand, odd)
    return e.convert("sitofp" if source.is_signed else "uitofp", operand, "double")


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
