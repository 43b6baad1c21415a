"""The remainder of floats, as C's ``fmod`` has it: exact, with the sign of the dividend.

LLVM's ``frem`` is a call into the C library for each lane, and not every target has one. Here
everything is arithmetic: short where the quotient is small, and otherwise long division of
significands. Exact results leave no choice, so all ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import F64, I1, I64
from graphc.codegen.math.common import COLD, INFINITY, NAN, FloatMath, define_lanes

_STEP = 11
"""Bits of the quotient that a step of the long division takes: 53 of the rest and these fill a
word."""

_FRACTION = 52
_SIGN = -(1 << 63)


def emit_remainder(e: FunctionEmitter, a: Reg, b: Reg) -> Reg:
    """a - trunc(a/b)·b, exactly; NaN for b of 0 and for a infinite.

    float32 is computed within float64 while the quotient has 29 bits at most, float64 with FMA
    while it has 52; lanes beyond, and float64 without FMA, go to the long division. A quotient
    that was rounded up shows as a negative remainder.
    """
    m = FloatMath(e, a.type)
    if m.bits == F64.bits and not m.has_fma:
        lanes = define_lanes(e.module, "remainder", a.type, _long_remainder, 2)
        return e.call(lanes, a.type, a, b)
    wide = m.of("double")
    dividend, divisor = m.abs(a), m.abs(b)
    limit = 2.0**_FRACTION
    if m.bits < wide.bits:
        dividend, divisor = (e.convert("fpext", x, "double") for x in (dividend, divisor))
        limit = 2.0 ** (wide.format.significand - m.format.significand)
    quotient = wide.trunc(dividend / divisor)
    rest = e.fma(-quotient, divisor, dividend)
    too_many = e.fcmp("uge", quotient, limit) | e.fcmp("uno", rest, rest)
    rest = e.select(rest < 0.0, rest + divisor, rest)
    if m.bits < wide.bits:
        rest = e.convert("fptrunc", rest, a.type.element)
    common = m.copysign(rest, a)
    return m.patch(too_many, common, "remainder", _long_remainder, (a, b))


def _long_remainder(m: FloatMath, operands: Sequence[Reg]) -> Reg:
    e, (a, b) = m.e, operands
    element, narrow = a.type.element, m.bits < F64.bits
    if narrow:
        a, b = (e.convert("fpext", x, "double") for x in (a, b))
    result = e.call(_define_long_division(e.module), F64, a, b)
    # less than b and a multiple of its last bit, so b's format holds it
    return e.convert("fptrunc", result, element) if narrow else result


def _define_long_division(module: ModuleEmitter) -> str:
    """Defines ``double remainder(double, double)`` and returns its name."""
    name = "graphc_remainder"
    if module.has(name):
        return name
    e = FunctionEmitter(
        module, name, {"a": F64, "b": F64}, F64,
        linkage="internal", attributes=COLD,
    )  # fmt: skip
    m = FloatMath(e, F64)
    a, b = e.given("a", "b")
    dividend, divisor = m.abs(a), m.abs(b)
    undefined = e.fcmp("uno", a, b) | (b.equals(0.0) | dividend.equals(INFINITY))
    slot = e.alloca(F64, align=8)
    e.store(m.select(undefined, NAN, a), slot, 8)
    # an infinite divisor is among those that are larger
    divides = ~undefined & (dividend >= divisor)
    with e.when(divides):
        first, first_exponent = _parts(e, m.to_word(dividend))
        second, exponent = _parts(e, m.to_word(divisor))
        left = first_exponent - exponent
        steps = (left + (_STEP - 1)).udiv(_STEP)
        with e.loop(0, steps, 1, [first, left]) as loop:
            rest, left = loop.carries
            bits = e.intrinsic("umin", I64, left, e.const(_STEP))
            rest = e.binary("urem", rest, second) << bits
            loop.yields = [rest, left - bits]
        rest = e.binary("urem", loop.results[0], second)
        word = _assembled(e, rest, exponent)
        sign = m.to_word(a) & _SIGN
        e.store(m.from_word(word | sign), slot, 8)
    e.finish(e.load(slot, F64, 8))
    return name


def _parts(e: FunctionEmitter, word: Reg) -> tuple[Reg, Reg]:
    """A significand of 53 bits and the exponent field that goes with it, of a positive double.

    Those of denormals are shifted up, to exponents below 1.
    """
    one = e.const(1)
    field = word >> _FRACTION
    fraction = word & ((1 << _FRACTION) - 1)
    gap = _leading_gap(e, fraction)
    raised = fraction << gap
    below = one - gap
    whole = fraction | (1 << _FRACTION)
    denormal = field.equals(0)
    return e.select(denormal, raised, whole), e.select(denormal, below, field)


def _assembled(e: FunctionEmitter, rest: Reg, exponent: Reg) -> Reg:
    """The word of the double rest·2^exponent, in the terms of ``_parts``; rest may be 0."""
    zero, one = e.const(0), e.const(1)
    gap = _leading_gap(e, rest)
    raised = rest << gap
    field = exponent - gap
    fraction = raised & ((1 << _FRACTION) - 1)
    normal = fraction | (field << _FRACTION)
    # what is shifted out is zero: the rest is a multiple of the least denormal
    amount = e.intrinsic("umin", I64, one - field, e.const(63))
    denormal = raised >> amount
    word = e.select(field < one, denormal, normal)
    return e.select(rest.equals(zero), zero, word)


def _leading_gap(e: FunctionEmitter, significand: Reg) -> Reg:
    """By how much to shift so that the highest of 53 bits is set; 0 for 0."""
    zeros = e.intrinsic("ctlz", I64, significand, e.const(False, I1))
    gap = zeros - (63 - _FRACTION)
    return e.select(significand.equals(0), 0, gap)


__all__ = ["emit_remainder"]
