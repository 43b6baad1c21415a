"""The remainder of floats, as C's ``fmod`` has it: exact, with the sign of the dividend.

LLVM's ``frem`` is a call into the C library for each lane, and not every target has one. Here
everything is arithmetic: short where the quotient is small, and otherwise long division of
significands. Exact results leave no choice, so all ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.llvm.emitter import F64, I1, I64, FunctionEmitter, ModuleEmitter, Reg
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
    quotient = wide.trunc(wide.div(dividend, divisor))
    rest = wide.fma(wide.neg(quotient), divisor, dividend)
    too_many = m.logical(
        "or", wide.compare("uge", quotient, limit), wide.compare("uno", rest, rest)
    )
    rest = wide.select(wide.compare("olt", rest, 0.0), wide.add(rest, divisor), rest)
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
        module, name, [("double", "%a"), ("double", "%b")], "double",
        linkage="internal", attributes=COLD,
    )  # fmt: skip
    m = FloatMath(e, F64)
    a, b = Reg("%a", F64), Reg("%b", F64)
    dividend, divisor = m.abs(a), m.abs(b)
    undefined = m.logical(
        "or", m.compare("uno", a, b),
        m.logical("or", m.compare("oeq", b, 0.0), m.compare("oeq", dividend, INFINITY)),
    )  # fmt: skip
    slot = e.alloca(F64, align=8)
    e.store(m.select(undefined, NAN, a), slot, 8)
    # an infinite divisor is among those that are larger
    divides = m.logical("and", m.invert(undefined), m.compare("oge", dividend, divisor))
    with e.when(divides):
        first, first_exponent = _parts(e, m.to_word(dividend))
        second, exponent = _parts(e, m.to_word(divisor))
        left = e.binary("sub", first_exponent, exponent)
        steps = e.binary("add", left, e.const(_STEP - 1, I64))
        steps = e.binary("udiv", steps, e.const(_STEP, I64))
        with e.loop(e.const(0, I64), steps, 1, [first, left]) as loop:
            rest, left = loop.carries
            bits = e.intrinsic("umin", I64, left, e.const(_STEP, I64))
            rest = e.binary("shl", e.binary("urem", rest, second), bits)
            loop.yields = [rest, e.binary("sub", left, bits)]
        rest = e.binary("urem", loop.results[0], second)
        word = _assembled(e, rest, exponent)
        sign = e.binary("and", m.to_word(a), e.const(_SIGN, I64))
        e.store(m.from_word(e.binary("or", word, sign)), slot, 8)
    e.finish(f"ret {e.load(slot, F64, 8)}")
    return name


def _parts(e: FunctionEmitter, word: Reg) -> tuple[Reg, Reg]:
    """A significand of 53 bits and the exponent field that goes with it, of a positive double.

    Those of denormals are shifted up, to exponents below 1.
    """
    one = e.const(1, I64)
    field = e.binary("lshr", word, e.const(_FRACTION, I64))
    fraction = e.binary("and", word, e.const((1 << _FRACTION) - 1, I64))
    gap = _leading_gap(e, fraction)
    raised = e.binary("shl", fraction, gap)
    below = e.binary("sub", one, gap)
    whole = e.binary("or", fraction, e.const(1 << _FRACTION, I64))
    denormal = e.icmp("eq", field, e.const(0, I64))
    return e.select(denormal, raised, whole), e.select(denormal, below, field)


def _assembled(e: FunctionEmitter, rest: Reg, exponent: Reg) -> Reg:
    """The word of the double rest·2^exponent, in the terms of ``_parts``; rest may be 0."""
    zero, one = e.const(0, I64), e.const(1, I64)
    gap = _leading_gap(e, rest)
    raised = e.binary("shl", rest, gap)
    field = e.binary("sub", exponent, gap)
    fraction = e.binary("and", raised, e.const((1 << _FRACTION) - 1, I64))
    normal = e.binary("or", fraction, e.binary("shl", field, e.const(_FRACTION, I64)))
    # what is shifted out is zero: the rest is a multiple of the least denormal
    amount = e.intrinsic("umin", I64, e.binary("sub", one, field), e.const(63, I64))
    denormal = e.binary("lshr", raised, amount)
    word = e.select(e.icmp("slt", field, one), denormal, normal)
    return e.select(e.icmp("eq", rest, zero), zero, word)


def _leading_gap(e: FunctionEmitter, significand: Reg) -> Reg:
    """By how much to shift so that the highest of 53 bits is set; 0 for 0."""
    zeros = e.intrinsic("ctlz", I64, significand, Reg("false", I1))
    gap = e.binary("sub", zeros, e.const(63 - _FRACTION, I64))
    return e.select(e.icmp("eq", significand, e.const(0, I64)), e.const(0, I64), gap)


__all__ = ["emit_remainder"]
