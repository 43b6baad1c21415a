"""Code for primitives that take floats apart: neighbours, significands, exponents, scaling.

All of it works on the words of floats or multiplies by powers of two, so it is exact and has no
branches.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.math.common import INFINITY, NAN, FloatMath
from graphc.ir.dtypes import DType


def emit_nextafter(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """The words of floats of one sign are in the order of their magnitudes."""
    x, y = operands
    m = FloatMath(e, x.type)
    word = m.to_word(x)
    grows = (x < y) ^ (x < 0.0)
    moved = m.from_word(e.select(grows, word + 1, word - 1))
    # from 0 it is the least number on the side of y
    moved = m.select(x.equals(0.0), m.or_sign(m.from_word(e.const(1, word.type)), y), moved)
    result = m.select(x.equals(y), y, moved)
    return m.select(e.fcmp("uno", x, y), NAN, result)


def _normal(m: FloatMath, x: Reg) -> tuple[Reg, Reg]:
    """x as a normal number, by a power of two where it is denormal; and the exponent of that."""
    tiny = m.abs(x) < m.format.smallest_normal
    steps = m.format.significand
    scaled = m.select(tiny, x * 2.0**steps, x)
    return scaled, m.select(tiny, float(-steps), 0.0)


def _is_plain(m: FloatMath, x: Reg) -> Reg:
    """Whether there is an exponent: x is neither 0 nor infinite nor NaN."""
    return m.e.fcmp("one", x, 0.0) & (m.abs(x) < INFINITY)


def emit_significand(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """The exponent field of 1/2 in the place of the number's own."""
    (x,) = operands
    m = FloatMath(e, x.type)
    scaled, _ = _normal(m, x)
    # the sign and the fraction; the word of infinity is that of all exponent bits
    word = m.to_word(scaled) & ~m.format.infinity
    half = m.from_word(word | ((m.format.bias - 1) << m.format.fraction))
    return m.select(_is_plain(m, x), half, x)


def emit_exponent(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """The exponent field, less what it is for a number in [1/2, 1)."""
    (x,) = operands
    m = FloatMath(e, x.type)
    scaled, adjust = _normal(m, x)
    fraction, bias = m.format.fraction, m.format.bias
    field = m.to_word(m.abs(scaled)) >> fraction
    exponent = m.small_integer(field - (bias - 1)) + adjust
    return m.select(_is_plain(m, x), exponent, 0.0)


def emit_ldexp(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """Products with three powers of two, of which only the last one may round.

    Downwards the first two leave enough bits above the denormal numbers for that.
    """
    x, given = operands
    m = FloatMath(e, x.type)
    bias, digits = m.format.bias, m.format.significand
    down, up = float(1 - bias + digits), float(bias)
    n = e.intrinsic("roundeven", x.type, m.clamp(given, 3.0 * down, 3.0 * up))
    result = x
    for _ in range(2):
        low, high = n < float(1 - bias), n > up
        step = m.select(low, down, m.select(high, up, 0.0))
        result = result * _power_of_two(m, step)
        n = n - step
    result = result * _power_of_two(m, m.clamp(n, float(1 - bias), up))
    return m.select(e.fcmp("uno", given, given), NAN, result)


def _power_of_two(m: FloatMath, exponent: Reg) -> Reg:
    """2 to a whole number that is the exponent of a normal one; of NaN any number."""
    return m.power_of_two(m.to_word(exponent + (m.magic + m.format.bias)))
