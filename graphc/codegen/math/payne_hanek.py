"""Huge angles, brought into range (Payne and Hanek 1983): the rare way of trigonometric functions.

Integers do the work; only the last few roundings are those of floats, none of them fused.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import F64, I1, I64, PTR
from graphc.codegen.math.common import COLD

# 2/pi is kept to this many fraction bits: 192 beyond the last one that double's range can skip
_TABLE_BITS = 1168
_TABLE_WORDS = 20
_WINDOW = 192


@cache
def _pi(bits: int) -> int:
    """floor(pi·2^bits), by Machin's formula with guard bits."""
    guard = 32

    def arctangent_of_inverse(n: int) -> int:
        power = (1 << (bits + guard)) // n
        total, k, sign = power, 1, 1
        while power:
            power //= n * n
            k += 2
            sign = -sign
            total += sign * (power // k)
        return total

    return 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239)) >> guard


def _signed_words(value: int, count: int) -> tuple[int, ...]:
    """An integer as 64-bit words, lowest first, each read as signed."""
    raw = value.to_bytes(8 * count, "little")
    return tuple(
        int.from_bytes(raw[8 * index : 8 * index + 8], "little", signed=True)
        for index in range(count)
    )


@cache
def _two_over_pi() -> tuple[int, ...]:
    """2/pi as a fixed-point number with zeros above."""
    return _signed_words((1 << (2 * _TABLE_BITS + 1)) // _pi(_TABLE_BITS), _TABLE_WORDS)


class _Words:
    """Arithmetic on 64-bit words and their products."""

    def __init__(self, e: FunctionEmitter) -> None:
        self.e = e

    def shift_left(self, high: Reg, low: Reg, count: Reg | int) -> Reg:
        """The high word of the pair, shifted by less than 64."""
        return self.e.intrinsic("fshl", I64, high, low, self.e.like(count))

    def product(self, a: Reg, b: Reg, *carries: Reg) -> tuple[Reg, Reg]:
        """a·b + carries as high and low word, of which the high one must not overflow.

        Where no instruction gives both, LLVM would call a function of the C library.
        """
        if self.e.module.target.has_wide_products:
            wide = self._widened(a) * self._widened(b)
            for carry in carries:
                wide = wide + self._widened(carry)
            shifted = wide >> 64
            return self.e.convert("trunc", shifted, "i64"), self.e.convert("trunc", wide, "i64")
        (a_high, a_low), (b_high, b_low) = self._halves(a), self._halves(b)
        lowest = a_low * b_low
        upper, rest = self._halves(lowest)
        cross, middle = self._halves(a_high * b_low + upper)
        other, middle = self._halves(a_low * b_high + middle)
        low = (middle << 32) | rest
        high = a_high * b_high + (cross + other)
        for carry in carries:
            low = low + carry
            over = self.e.convert("zext", self.e.icmp("ult", low, carry), "i64")
            high = high + over
        return high, low

    def _widened(self, word: Reg) -> Reg:
        return self.e.convert("zext", word, "i128")

    def _halves(self, word: Reg) -> tuple[Reg, Reg]:
        """The upper and the lower 32 bits."""
        return word >> 32, word & 0xFFFFFFFF


def define_reduce_huge(module: ModuleEmitter) -> str:
    """Defines ``i64 reduce(double x, ptr r)`` for finite |x| >= 2^20 and returns its name.

    Returns the quadrant (only its low two bits mean anything) and stores the remainder of x by
    pi/2, within [-pi/4, pi/4], as a sum of two doubles. Integer arithmetic only: x·2/pi modulo 4 is
    the significand times the 192 bits of 2/pi that matter at x's exponent.
    """
    name = "graphc_reduce_huge_angle"
    if module.has(name):
        return name
    e = FunctionEmitter(
        module, name, {"x": F64, "r": PTR}, I64, linkage="internal", attributes=COLD
    )
    w = _Words(e)
    bits = e.convert("bitcast", e.parameter("x"), "i64")
    exponent = (bits >> 52) & 0x7FF
    significand = (bits & ((1 << 52) - 1)) | (1 << 52)
    # bits of 2/pi whose product with x is a multiple of 4 are skipped: exponent - 1077 of them
    position = _TABLE_BITS - _WINDOW + 1077 - exponent
    table = e.symbol(module.constant_table("graphc_two_over_pi", "i64", _two_over_pi()))
    first, offset = position >> 6, position & 63
    loaded = [e.load(e.at(table, "i64", first + index), I64, 8) for index in range(4)]
    window = [e.intrinsic("fshr", I64, high, low, offset) for low, high in pairwise(loaded)]
    carry, low = w.product(window[0], significand)
    carry, middle = w.product(window[1], significand, carry)
    top = window[2] * significand + carry
    # two integer bits, then the fraction; from one half on it belongs to the next quadrant
    fraction = (w.shift_left(top, middle, 2), w.shift_left(middle, low, 2), low << 2)
    below = fraction[0].ashr(63)
    quadrant = (top >> 62) - below
    a, b, c = (word ^ below for word in fraction)
    # no double is so close to a multiple of pi/2 that the first word vanishes
    zeros = e.intrinsic("ctlz", I64, a, e.const(False, I1))
    a, b = w.shift_left(a, b, zeros), w.shift_left(b, c, zeros)
    half_pi_low, half_pi = (e.const(word) for word in _signed_words(_pi(126), 2))
    crosses = w.product(a, half_pi_low)[0], w.product(b, half_pi)[0]
    top, low = w.product(a, half_pi, *crosses)
    high = top & -(1 << 11)
    rest = w.shift_left(top, low, 64 - 11)
    # the remainder is negative where exactly one of x and the fraction is
    sign = (bits ^ below) & -(1 << 63)
    field = (1023 - 63 - zeros) << 52
    scale = e.convert("bitcast", field | sign, "double")
    lead = e.convert("uitofp", high, "double") * scale
    tail = e.convert("uitofp", rest, "double") * 2.0**-53
    tail = tail * scale
    total = lead + tail
    e.store(total, e.parameter("r"), 8)
    second = e.at(e.parameter("r"), "double", 1)
    e.store(tail - (total - lead), second, 8)
    minus = bits < 0
    e.finish(e.select(minus, 0 - quadrant, quadrant))
    return name


def reduce_huge(e: FunctionEmitter, x: Reg) -> tuple[Reg, Reg, Reg]:
    """High and low part of the remainder of a huge double by pi/2, and the quadrant (i64).

    Scalar, and only while the entry block is current; infinities and NaN give no meaningful value.
    """
    name = define_reduce_huge(e.module)
    slot = e.alloca(F64, 2, 16)
    quadrant = e.call(name, I64, x, slot)
    low = e.load(e.at(slot, "double", 1), F64, 8)
    return e.load(slot, F64, 16), low, quadrant


__all__ = ["reduce_huge"]
