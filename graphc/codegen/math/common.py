"""What the vector functions of both float widths share: a terse builder, accuracy, cold paths.

Everything is generic over lanes: the same operations in the same order for one lane or many, so
that results agree to the bit. A branch is taken only as a shortcut around lanes that need more
work, and never changes what other lanes get. No algorithm relies on the single rounding of ``fma``
unless it asks ``has_fma`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.codegen.llvm.module import ModuleEmitter, symbol
from graphc.codegen.llvm.types import LType, ltype

# Documented accuracy, in units in the last place of the exact result, on every target. The measured
# maxima are somewhat lower; without FMA a few tenths higher than with it.
MAX_ULP: dict[str, dict[str, float]] = {
    name: {"float32": single, "float64": double}
    for name, single, double in (
        ("exp", 1.1, 1.3),
        ("exp2", 1.2, 1.3),
        ("expm1", 1.6, 1.8),
        ("log", 1.0, 1.0),
        ("log2", 1.0, 1.0),
        ("log10", 1.0, 1.0),
        ("log1p", 1.7, 1.6),
        ("sin", 1.6, 1.0),
        ("cos", 1.6, 1.0),
        ("tan", 3.0, 2.5),
        ("tanh", 2.0, 1.7),
        ("sinh", 1.8, 2.0),
        ("cosh", 1.7, 1.8),
        ("arcsin", 1.8, 1.8),
        ("arccos", 1.2, 1.2),
        ("arctan", 1.4, 2.0),
        ("cbrt", 1.0, 1.0),
        ("erf", 1.3, 1.6),
        ("erfc", 4.6, 5.4),
        ("sigmoid", 2.6, 2.6),
        ("power", 0.6, 1.4),
        ("log_approx", 4.5, 3.0),
        ("tanh_approx", 7.0, 4.0),
        ("sigmoid_approx", 6.0, 2.6),
        ("erf_approx", 8.0, 1.6),
        ("erfc_approx", 6.5, 5.4),
        ("sin_approx", 3.0, 3.0),
        ("cos_approx", 3.5, 3.0),
    )
}

LOG2_E = 1.4426950408889634
TWO_OVER_PI = 0.6366197723675814
INFINITY = float("inf")
NAN = float("nan")

# From this magnitude on, trigonometric arguments are reduced by ``reduce_huge``.
HUGE_ANGLE = 2.0**20

# bits of the vectors that ``FloatMath.scale`` takes
_SCALED_BITS = 512

Operand = Reg | float


class FloatMath:
    """What float32 or float64 lanes have no operator for; Python floats are operands of their type.

    Attributes:
        e: the function under emission.
        type: the lanes' float type.
        bits: width of one lane.
        format: of the lanes' numbers.
        has_fma: whether ``fma`` rounds once.
        scales: whether ``scale`` may be used.
    """

    __slots__ = ("bits", "e", "format", "has_fma", "integer", "scales", "type")

    def __init__(self, e: FunctionEmitter, type_: LType) -> None:
        self.e = e
        self.type = type_
        self.bits = type_.bits
        self.format = type_.format
        self.integer = type_.of(f"i{type_.bits}")
        self.has_fma = e.module.target.has_fma
        self.scales = e.module.target.scales and type_.lanes * type_.bits % _SCALED_BITS == 0

    def of(self, element: str) -> FloatMath:
        """The same on lanes of another width."""
        return FloatMath(self.e, self.type.of(element))

    def value(self, operand: Operand) -> Reg:
        """A register as it is, a number as a literal."""
        return operand if isinstance(operand, Reg) else self.e.const(operand, self.type)

    # --- arithmetic ------------------------------------------------------------------------------

    def fma(self, a: Operand, b: Operand, c: Operand) -> Reg:
        """a·b + c; rounds twice on targets without FMA."""
        return self.e.fma(self.value(a), self.value(b), self.value(c))

    def abs(self, a: Reg) -> Reg:
        return self.e.intrinsic("fabs", self.type, a)

    def trunc(self, a: Reg) -> Reg:
        return self.e.intrinsic("trunc", self.type, a)

    def copysign(self, magnitude: Reg, sign: Reg) -> Reg:
        return self.e.intrinsic("copysign", self.type, magnitude, sign)

    def polynomial(self, x: Reg, coefficients: Sequence[Operand]) -> Reg:
        """Horner's scheme, the coefficient of the highest power first."""
        result = self.value(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, coefficient)
        return result

    def sum_error(self, a: Reg, b: Operand, total: Reg) -> Reg:
        """What ``total = a + b`` lost, exactly (Knuth's two-sum)."""
        virtual = total - a
        return a - (total - virtual) + (b - virtual)

    def product(self, a: Reg, b: Reg) -> tuple[Reg, Reg]:
        """a·b and what its rounding lost; without FMA, to about twice the precision (Dekker)."""
        high = a * b
        if self.has_fma:
            return high, self.fma(a, b, -high)
        a_high, a_low = self._halves(a)
        b_high, b_low = self._halves(b)
        error = a_high * b_high - high
        error = error + a_high * b_low
        error = error + a_low * b_high
        return high, error + a_low * b_low

    def _halves(self, a: Reg) -> tuple[Reg, Reg]:
        dropped = (self.format.significand + 1) // 2
        high = self.top_bits(a, dropped)
        return high, a - high

    def top_bits(self, a: Reg, dropped: int) -> Reg:
        """``a`` with its lowest ``dropped`` bits of significand cleared."""
        return self.from_word(self.to_word(a) & -(1 << dropped))

    # --- comparisons and selection ---------------------------------------------------------------

    def select(self, condition: Reg, a: Operand, b: Operand) -> Reg:
        return self.e.select(condition, self.value(a), self.value(b))

    def clamp(self, x: Reg, low: float | None = None, high: float | None = None) -> Reg:
        """x within the bounds; NaN passes."""
        if high is not None:
            x = self.select(x > high, high, x)
        if low is not None:
            x = self.select(x < low, low, x)
        return x

    # --- bits ------------------------------------------------------------------------------------

    def to_word(self, a: Reg) -> Reg:
        return self.e.convert("bitcast", a, self.integer.element)

    def from_word(self, a: Reg) -> Reg:
        return self.e.convert("bitcast", a, self.type.element)

    def negative_word(self, x: Reg) -> Reg:
        """Where the sign bit is set."""
        return self.to_word(x) < 0

    def or_sign(self, magnitude: Reg, x: Reg) -> Reg:
        """The sign bit of x put onto a value that is not negative or already of that sign."""
        sign = self.to_word(x) & -(1 << (self.bits - 1))
        return self.from_word(self.to_word(magnitude) | sign)

    def keep_zero(self, result: Reg, x: Reg) -> Reg:
        """x where it is a zero (with its sign), else the result."""
        return self.select(x.equals(0.0), x, result)

    # --- rounding to integers --------------------------------------------------------------------

    @property
    def magic(self) -> float:
        """1.5·2^fraction: adding it leaves round(x) in the low bits of the sum."""
        return 1.5 * 2.0**self.format.fraction

    @property
    def magic_word(self) -> int:
        """The bits of ``magic``."""
        fraction = self.format.fraction
        return ((self.format.bias + fraction) << fraction) + (1 << (fraction - 1))

    def small_integer(self, word: Reg) -> Reg:
        """Integer lanes of small magnitude as floats (AVX2 has no 64-bit conversion)."""
        if self.bits == 32:
            return self.e.convert("sitofp", word, self.type.element)
        return self.from_word(word + self.magic_word) - self.magic

    def power_of_two(self, biased: Reg) -> Reg:
        """The float whose exponent field is the low bits of ``biased``."""
        return self.from_word(biased << self.format.fraction)

    def pick(self, name: str, table: Sequence[float], word: Reg) -> Reg:
        """In each lane that of 16 float32 numbers which the low four bits of a word say."""
        e, lanes = self.e, self.type.lanes
        assert self.bits == 32 and len(table) == 16
        address = e.symbol(e.module.constant_table(f"graphc_{name}", "float", table))
        permuted = e.module.target.permuted_bits
        if lanes % 16 == 0 and permuted == 512:
            return self._in_parts(word, 16, lambda part: self._permuted(address, part))
        if lanes % 8 == 0 and permuted:
            return self._in_parts(word, 8, lambda part: self._permuted_halves(address, part))
        places = word & 15
        if lanes == 1:
            place = e.convert("zext", places, "i64")
            return e.load(e.at(address, "float", place), self.type, 4)
        result = e.poison(self.type)
        for lane in range(lanes):
            place = e.assign(ltype("i32"), f"extractelement {places}, i64 {lane}")
            pointer = e.at(address, "float", e.convert("zext", place, "i64"))
            value = e.load(pointer, ltype("float"), 4)
            result = e.assign(self.type, f"insertelement {result}, {value}, i64 {lane}")
        return result

    def _in_parts(self, a: Reg, lanes: int, one: Callable[[Reg], Reg]) -> Reg:
        """What ``one`` makes of vectors of so many lanes, put together."""
        return self._whole([one(part) for part in self._parts(a, lanes)])

    def _permuted(self, address: Reg, word: Reg) -> Reg:
        e, one = self.e, ltype("float", 16)
        name = "llvm.x86.avx512.permvar.sf.512"
        e.module.declare(name, str(one), f"{one}, {word.type}")
        return e.assign(one, f"call {one} {symbol(name)}({e.load(address, one, 64)}, {word})")

    def _permuted_halves(self, address: Reg, word: Reg) -> Reg:
        e, one = self.e, ltype("float", 8)
        name = "llvm.x86.avx2.permps"
        e.module.declare(name, str(one), f"{one}, {word.type}")
        halves = [e.load(e.at(address, "float", first), one, 32) for first in (0, 8)]
        low, high = (e.assign(one, f"call {one} {symbol(name)}({half}, {word})") for half in halves)
        # the bit that chooses a half where blending looks for it, at the sign
        choice = word << 28
        return e.select(choice < 0, high, low)

    def scale(self, a: Reg, exponents: Reg) -> Reg:
        """a·2^exponents, whole floats, rounded once even where it is denormal."""
        lanes = _SCALED_BITS // self.bits
        one = ltype(self.type.element, lanes)
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if self.bits == 32 else 'pd'}.512"
        self.e.module.declare(name, str(one), f"{one}, {one}, {one}, i{lanes}, i32")
        ending = f"{one} undef, i{lanes} -1, i32 4"
        parts = [
            self.e.assign(one, f"call {one} {symbol(name)}({x}, {n}, {ending})")
            for x, n in zip(self._parts(a, lanes), self._parts(exponents, lanes), strict=True)
        ]
        return self._whole(parts)

    def _whole(self, parts: list[Reg]) -> Reg:
        while len(parts) > 1:
            parts = [self._joined(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return parts[0]

    def _parts(self, a: Reg, lanes: int) -> list[Reg]:
        """A vector as vectors of so many lanes."""
        if a.type.lanes == lanes:
            return [a]
        return [
            self._shuffled(a, self.e.poison(a.type), range(first, first + lanes))
            for first in range(0, a.type.lanes, lanes)
        ]

    def _joined(self, low: Reg, high: Reg) -> Reg:
        return self._shuffled(low, high, range(2 * low.type.lanes))

    def _shuffled(self, a: Reg, b: Reg, lanes: range) -> Reg:
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        target = ltype(a.type.element, len(lanes))
        return self.e.assign(target, f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{order}>")

    # --- cold paths ------------------------------------------------------------------------------

    def patch(
        self, rare: Reg, common: Reg, name: str, scalar: Callable[[FloatMath, Sequence[Reg]], Reg],
        operands: Sequence[Reg],
    ) -> Reg:  # fmt: skip
        """``common``, but ``scalar(operands)`` in the lanes where ``rare`` holds.

        The scalar code becomes a function of its own, called lane by lane and only if needed.
        ``name`` tells apart what ``scalar`` does.
        """
        e = self.e

        def lane_by_lane() -> list[Reg]:
            function = define_lanes(e.module, name, self.type, scalar, len(operands))
            return [self.select(rare, e.call(function, self.type, *operands), common)]

        (result,) = e.merged(any_lane(e, rare), (common,), lane_by_lane, "cold")
        return result


COLD = "cold noinline nounwind"


def define_lanes(
    module: ModuleEmitter,
    name: str,
    type_: LType,
    scalar: Callable[[FloatMath, Sequence[Reg]], Reg],
    arity: int,
) -> str:
    """Defines, once, a cold function that applies scalar code to each lane; returns its name."""
    one = type_.of(type_.element) if type_.lanes == 1 else ltype(type_.element)
    full = f"graphc_{name}_{type_.suffix}"
    if module.has(full):
        return full
    parameters = {f"x{index}": type_ for index in range(arity)}
    e = FunctionEmitter(module, full, parameters, type_, linkage="internal", attributes=COLD)
    inputs = e.given(*parameters)
    if type_.lanes == 1:
        result = scalar(FloatMath(e, one), inputs)
        e.finish(result)
        return full
    inner = define_lanes(module, name, one, scalar, arity)
    slots = [e.alloca(type_) for _ in range(arity)]
    for register, slot in zip(inputs, slots, strict=True):
        e.store(register, slot, 64)
    element = one.element
    align = one.bits // 8
    with e.loop(0, type_.lanes) as loop:
        pointers = [e.at(slot, element, loop.index) for slot in slots]
        lanes = [e.load(pointer, one, align) for pointer in pointers]
        e.store(e.call(inner, one, *lanes), pointers[0], align)
    result = e.load(slots[0], type_, 64)
    e.finish(result)
    return full
