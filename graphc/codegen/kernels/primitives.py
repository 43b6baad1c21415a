"""Code for the kernel primitives, on one lane or many.

One table from name to emitter, and one function for conversions. Every result is defined for every
input: nothing here traps or is poison, whatever the operands hold. bool is i1 in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphc.codegen.kernels.float_parts import (
    emit_exponent,
    emit_ldexp,
    emit_nextafter,
    emit_significand,
)
from graphc.codegen.kernels.narrow_floats import (
    emit_narrowed,
    emit_odd_float32,
    emit_widened,
)
from graphc.codegen.kernels.narrow_integers import emit_packed, emit_truncated, emit_unpacked
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import I1
from graphc.codegen.math.calls import NAMES, emit_function
from graphc.codegen.math.common import INFINITY, NAN, FloatMath
from graphc.codegen.math.fmod import emit_remainder
from graphc.codegen.math.formulas import Steps, emit_formula
from graphc.ir.dtypes import DType
from graphc.ops.special.declared import CALLED

Emitter = Callable[[FunctionEmitter, Sequence[Reg], DType], Reg]


def emit_primitive(e: FunctionEmitter, name: str, operands: Sequence[Reg], dtype: DType) -> Reg:
    """Code for a primitive.

    ``dtype`` is that of the operands (of the last two, for ``select``). Emission may start new
    basic blocks, so callers must take the current block from ``e.block`` afterwards.

    Raises:
        KeyError: for a name that is no primitive.
    """
    if name in CALLED:
        return emit_formula(e, name, operands, _STEPS)
    return _EMITTERS[name](e, operands, dtype)


def emit_cast(e: FunctionEmitter, operand: Reg, source: DType, target: DType) -> Reg:
    """Conversion as ``kernel.scalar.cast`` has it: floats truncate and saturate, NaN gives 0."""
    if source is target:
        return operand
    if source.computed is not source:
        assert target is source.computed, f"{source} becomes {source.computed} before {target}"
        return (emit_widened if source.is_float else emit_unpacked)(e, operand, source)
    if target.computed is not target:
        if target.is_float:
            return emit_narrowed(e, emit_odd_float32(e, operand, source), target)
        if source.is_float:
            operand = emit_truncated(e, operand, target)
        return emit_packed(e, operand, target)
    element = element_of(target)
    if target.kind == "bool":
        return operand.differs(0)
    if source.is_float:
        if target.is_float:
            return e.convert("fpext" if target.bits > source.bits else "fptrunc", operand, element)
        return _saturate(e, operand, target)
    if target.is_float:
        signed = source.kind == "int"
        return e.convert("sitofp" if signed else "uitofp", operand, element)
    width = 1 if source.kind == "bool" else source.bits
    if target.bits == width:
        return operand
    if target.bits < width:
        return e.convert("trunc", operand, element)
    return e.convert("sext" if source.kind == "int" else "zext", operand, element)


def _saturate(e: FunctionEmitter, operand: Reg, target: DType) -> Reg:
    operation = "fptosi.sat" if target.kind == "int" else "fptoui.sat"
    result = operand.type.of(element_of(target))
    name = f"llvm.{operation}.{result.suffix}.{operand.type.suffix}"
    e.module.declare(name, str(result), str(operand.type))
    return e.call(name, result, operand)


_STEPS = Steps(emit_primitive, emit_cast)


# --- arithmetic ----------------------------------------------------------------------------------


def _by_kind(float_operation: str, integer_operation: str, bool_operation: str = "") -> Emitter:
    operations = {
        "float": float_operation,
        "int": integer_operation,
        "uint": integer_operation,
        "bool": bool_operation,
    }

    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        return e.binary(operations[dtype.kind], *operands)

    return emit


def _extreme(least: bool) -> Emitter:
    """minimum or maximum; LLVM's own of that name take NaN from either side and order zeros."""
    word = "min" if least else "max"
    names = {"float": word + "imum", "int": "s" + word, "uint": "u" + word}

    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        if dtype.kind == "bool":
            return e.binary("and" if least else "or", *operands)
        if dtype.is_float and e.module.target.architecture == "x86_64":
            for known, x in (operands, reversed(operands)):
                if known.value == 0 and not (least and _is_negative_zero(known)):
                    return _extreme_of_zero(e, known, x, least)
        return e.intrinsic(names[dtype.kind], operands[0].type, *operands)

    return emit


def _is_negative_zero(known: Reg) -> bool:
    return known.value is not None and math.copysign(1.0, known.value) < 0


def _extreme_of_zero(e: FunctionEmitter, zero: Reg, x: Reg, least: bool) -> Reg:
    """minimum or maximum of a zero and x, by the instruction of x86 that gives its second operand
    where one is NaN or both are equal; LLVM's own would compare x with itself too."""
    result = e.select(e.fcmp("olt" if least else "ogt", zero, x), zero, x)
    if least or _is_negative_zero(zero):
        return result
    # of -0 and +0 that gave -0, and their sum is +0
    return result + zero


def _negative(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    (x,) = operands
    return -x


def _abs(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    (x,) = operands
    if dtype.is_float:
        return e.intrinsic("fabs", x.type, x)
    if dtype.kind == "uint":
        return x
    return e.intrinsic("abs", x.type, x, e.const(False, I1))


def _sign(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    (x,) = operands
    zero = e.const(0, x.type)
    if dtype.is_float:
        result = e.select(x.equals(zero), zero, x)
        result = e.select(x > zero, 1, result)
        return e.select(x < zero, -1, result)
    positive = e.convert("zext", x.differs(zero), x.type.element)
    if dtype.kind == "uint":
        return positive
    return e.select(x < zero, -1, positive)


def _intrinsic(name: str) -> Emitter:
    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        return e.intrinsic(name, operands[0].type, *operands)

    return emit


# --- division ------------------------------------------------------------------------------------


def _safe_divisor(e: FunctionEmitter, b: Reg, signed: bool) -> tuple[Reg, Reg, Reg]:
    """A divisor that cannot trap (1 for 0 and -1), and where b is 0 and -1."""
    zero = b.equals(0)
    minus = b.equals(-1) if signed else e.const(False, zero.type)
    unsafe = zero | minus if signed else zero
    return e.select(unsafe, 1, b), zero, minus


def _quotient(e: FunctionEmitter, a: Reg, b: Reg, signed: bool) -> Reg:
    """a/b rounded to zero, for a safe divisor.

    Vectors of up to 32 bits divide as floats of more than twice their width, where truncating the
    rounded quotient is exact; CPUs have no vector integer division.
    """
    if a.type.lanes == 1 or a.type.bits == 64:
        return e.binary("sdiv" if signed else "udiv", a, b)
    element = "double" if a.type.bits == 32 else "float"
    to_float, from_float = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    quotient = e.convert(to_float, a, element) / e.convert(to_float, b, element)
    return e.convert(from_float, quotient, a.type.element)


def _integer_division(part: str) -> Emitter:
    """floor_divide, mod (sign of the divisor) or fmod (sign of the dividend); by 0 gives 0."""

    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        a, b = operands
        signed = dtype.kind == "int"
        zero = e.const(0, a.type)
        divisor, by_zero, by_minus_one = _safe_divisor(e, b, signed)
        quotient = _quotient(e, a, divisor, signed)
        remainder = a - quotient * divisor
        if signed and part != "fmod":
            uneven = remainder.differs(zero)
            opposed = (remainder ^ divisor) < zero
            down = uneven & opposed
            if part == "mod":
                remainder = remainder + e.select(down, divisor, zero)
            else:
                quotient = quotient + e.convert("sext", down, a.type.element)
        if part != "floor_divide":
            # the remainder by 1 is 0 already where -1 was replaced
            return e.select(by_zero, zero, remainder)
        if signed:
            quotient = e.select(by_minus_one, zero - a, quotient)
        return e.select(by_zero, zero, quotient)

    return emit


def _float_mod(e: FunctionEmitter, a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """Python's remainder and the quotient that goes with it, before rounding; b is not 0."""
    m = FloatMath(e, a.type)
    remainder = emit_remainder(e, a, b)
    quotient = (a - remainder) / b
    uneven = remainder.differs(0.0)
    opposed = (b < 0.0) ^ (remainder < 0.0)
    adjust = uneven & opposed
    quotient = m.select(adjust, quotient - 1.0, quotient)
    remainder = m.select(adjust, remainder + b, remainder)
    remainder = m.select(uneven, remainder, m.copysign(m.value(0.0), b))
    return remainder, quotient


def _mod(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    if not dtype.is_float:
        return _integer_mod(e, operands, dtype)
    a, b = operands
    m = FloatMath(e, a.type)
    return m.select(b.equals(0.0), NAN, _float_mod(e, a, b)[0])


def _floor_divide(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    if not dtype.is_float:
        return _integer_floor_divide(e, operands, dtype)
    a, b = operands
    m = FloatMath(e, a.type)
    _, quotient = _float_mod(e, a, b)
    floor = e.intrinsic("floor", a.type, quotient)
    above = quotient - floor > 0.5
    floor = m.select(above, floor + 1.0, floor)
    plain = a / b
    floor = m.select(quotient.equals(0.0), m.copysign(m.value(0.0), plain), floor)
    return m.select(b.equals(0.0), plain, floor)


def _fmod(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    if not dtype.is_float:
        return _integer_fmod(e, operands, dtype)
    return emit_remainder(e, *operands)


_integer_floor_divide = _integer_division("floor_divide")
_integer_mod = _integer_division("mod")
_integer_fmod = _integer_division("fmod")


# --- powers of integers --------------------------------------------------------------------------


def _fixed_power(e: FunctionEmitter, base: Reg, exponent: int) -> Reg:
    """Squarings and products for an exponent known now."""
    result: Reg | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return e.const(1, base.type) if result is None else result


def _integer_power(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """Repeated squaring, wrapping. A negative exponent gives 0, but ±1 for a base of ±1."""
    base, exponent = operands
    if exponent.value is not None and exponent.value >= 0:
        return _fixed_power(e, base, int(exponent.value))
    one, zero = e.const(1, base.type), e.const(0, base.type)
    if dtype.kind == "uint":
        return _power_loop(e, base, exponent)
    negative = exponent < zero
    # for a base of ±1 the parity of the exponent, its low bit, decides
    parity = exponent & one
    result = _power_loop(e, base, e.select(negative, parity, exponent))
    below, above = base < -1, base > one
    other = below | above | base.equals(zero)
    return e.select(negative & other, zero, result)


def _power_loop(e: FunctionEmitter, base: Reg, exponent: Reg) -> Reg:
    """base^exponent for exponents read as unsigned, until no lane has bits left."""
    type_ = base.type
    one, zero = e.const(1, type_), e.const(0, type_)
    head, body, done, before = e.label("head"), e.label("body"), e.label("done"), e.block
    names = [e.fresh("next") for _ in range(3)]
    e.jump(head)
    e.start(head)
    result, square, left = (
        e.assign(type_, f"phi {type_} [ {first.text}, %{before} ], [ {name}, %{body} ]")
        for first, name in zip((one, base, exponent), names, strict=True)
    )
    e.branch(any_lane(e, left.differs(zero)), body, done)
    e.start(body)
    odd = (left & one).differs(zero)
    product = result * square
    e.line(f"{names[0]} = select {odd}, {product}, {result}")
    e.line(f"{names[1]} = mul {square}, {square.text}")
    e.line(f"{names[2]} = lshr {left}, {one.text}")
    e.jump(head)
    e.start(done)
    return result


# --- common divisors -----------------------------------------------------------------------------


def _gcd(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """Euclid's algorithm on magnitudes read as unsigned, until every lane has nothing left."""
    a, b = operands
    if dtype.kind == "int":
        a, b = (e.intrinsic("abs", x.type, x, e.const(False, I1)) for x in operands)
    type_ = a.type
    head, body, done, before = e.label("head"), e.label("body"), e.label("done"), e.block
    names = [e.fresh("next") for _ in range(2)]
    latch = e.label("latch")
    e.jump(head)
    e.start(head)
    larger, smaller = (
        e.assign(type_, f"phi {type_} [ {first.text}, %{before} ], [ {name}, %{latch} ]")
        for first, name in zip((a, b), names, strict=True)
    )
    goes_on = smaller.differs(0)
    e.branch(any_lane(e, goes_on), body, done)
    e.start(body)
    divisor = e.select(goes_on, smaller, 1)
    rest = larger - _quotient(e, larger, divisor, signed=False) * divisor
    e.jump(latch)
    e.start(latch)
    e.line(f"{names[0]} = select {goes_on}, {smaller}, {larger}")
    e.line(f"{names[1]} = select {goes_on}, {rest}, {smaller}")
    e.jump(head)
    e.start(done)
    return larger


# --- comparisons, bits ---------------------------------------------------------------------------


def _comparison(float_predicate: str, signed: str, unsigned: str) -> Emitter:
    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        if dtype.is_float:
            return e.fcmp(float_predicate, *operands)
        return e.icmp(signed if dtype.kind == "int" else unsigned, *operands)

    return emit


def _classify(predicate: str) -> Emitter:
    """Compares the magnitude with infinity."""

    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        (x,) = operands
        magnitude = e.intrinsic("fabs", x.type, x)
        return e.fcmp(predicate, magnitude, INFINITY)

    return emit


def _isnan(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    return e.fcmp("uno", operands[0], operands[0])


def _signbit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    return FloatMath(e, operands[0].type).negative_word(operands[0])


def _bits(operation: str) -> Emitter:
    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        return e.binary(operation, *operands)

    return emit


def _not(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    (x,) = operands
    return ~x


def _reinterpreted(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    """The same bits as a word, or as a float."""
    (x,) = operands
    element = f"i{dtype.bits}" if dtype.is_float else {32: "float", 64: "double"}[dtype.bits]
    return e.convert("bitcast", x, element)


def _shift(left: bool) -> Emitter:
    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        value, amount = operands
        if amount.value is not None and 0 <= amount.value < dtype.bits:
            arithmetic = "ashr" if dtype.kind == "int" else "lshr"
            return e.binary("shl" if left else arithmetic, value, amount)
        last = e.const(dtype.bits - 1, value.type)
        # as unsigned, negative amounts are too far too
        near = e.intrinsic("umin", value.type, amount, last)
        if not left and dtype.kind == "int":
            return value.ashr(near)
        shifted = e.binary("shl" if left else "lshr", value, near)
        return e.select(e.icmp("ugt", amount, last), 0, shifted)

    return emit


def _select(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
    condition, a, b = operands
    return e.select(condition, a, b)


def _function(name: str) -> Emitter:
    def emit(e: FunctionEmitter, operands: Sequence[Reg], dtype: DType) -> Reg:
        return emit_function(e, name, operands)

    return emit


_EMITTERS: dict[str, Emitter] = {
    "add": _by_kind("fadd", "add", "or"),
    "multiply": _by_kind("fmul", "mul", "and"),
    "subtract": _by_kind("fsub", "sub"),
    "divide": _by_kind("fdiv", ""),
    "floor_divide": _floor_divide,
    "mod": _mod,
    "fmod": _fmod,
    "minimum": _extreme(least=True),
    "maximum": _extreme(least=False),
    "negative": _negative,
    "abs": _abs,
    "sign": _sign,
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round": _intrinsic("roundeven"),
    "trunc": _intrinsic("trunc"),
    "copysign": _intrinsic("copysign"),
    "nextafter": emit_nextafter,
    "significand": emit_significand,
    "exponent": emit_exponent,
    "ldexp": emit_ldexp,
    "fma": _intrinsic("fma"),
    "integer_power": _integer_power,
    "equal": _comparison("oeq", "eq", "eq"),
    "not_equal": _comparison("une", "ne", "ne"),
    "less": _comparison("olt", "slt", "ult"),
    "less_equal": _comparison("ole", "sle", "ule"),
    "greater": _comparison("ogt", "sgt", "ugt"),
    "greater_equal": _comparison("oge", "sge", "uge"),
    "isnan": _isnan,
    "isinf": _classify("oeq"),
    "isfinite": _classify("olt"),
    "signbit": _signbit,
    "and": _bits("and"),
    "or": _bits("or"),
    "xor": _bits("xor"),
    "not": _not,
    "popcount": _intrinsic("ctpop"),
    "gcd": _gcd,
    "left_shift": _shift(left=True),
    "right_shift": _shift(left=False),
    "word": _reinterpreted,
    "from_word": _reinterpreted,
    "select": _select,
    **{name: _function(name) for name in NAMES},
}
