"""Arcsine and arccosine, for both float widths: the same scheme with polynomials of their own.

Up to 1/2 it is x + x·t·P(t) with t = x². Beyond, arcsin x = π/2 - 2·arcsin √((1 - x)/2), whose root
again is at most 1/2. P is a relative minimax fit of (arcsin(√t)/√t - 1)/t on [0, 1/4].
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.math.common import FloatMath

_ARCSIN = {
    32: (
        0.03757980093359947, 0.014395817182958126, 0.03181837871670723, 0.044515762478113174,
        0.07500509917736053, 0.16666659712791443,
    ),
    64: (
        0.03275546680671226, -0.0211970640285504, 0.021843868607095328, 0.0036518140951296483,
        0.010794303987639307, 0.011396479648520185, 0.013981108384047768, 0.017351588832417043,
        0.02237221622929461, 0.03038194266556159, 0.04464285717545067, 0.07499999999969967,
        0.16666666666666763,
    ),
}  # fmt: skip
_HALF_PI = {32: (1.57079637, -4.37113883e-8), 64: (1.5707963267948966, 6.123233995736766e-17)}


def _parts(m: FloatMath, x: Reg) -> tuple[Reg, Reg, Reg]:
    """Where |x| is beyond 1/2, and arcsin as a sum: of |x|, or there of the root of (1 - |x|)/2."""
    magnitude = m.abs(x)
    large = magnitude > 0.5
    rest = (1.0 - magnitude) * 0.5
    t = m.select(large, rest, x * x)
    root = m.e.intrinsic("sqrt", m.type, rest)
    base = m.select(large, root, magnitude)
    return large, base, base * t * m.polynomial(t, _ARCSIN[m.bits])


def _arcsin(m: FloatMath, x: Reg) -> Reg:
    large, base, rest = _parts(m, x)
    high, low = _HALF_PI[m.bits]
    double = base + base
    # add the low part of π/2 to the small correction first: beside the large term it rounds away
    beyond = high - (double + m.fma(rest, 2.0, -low))
    return m.or_sign(m.select(large, beyond, base + rest), x)


def _arccos(m: FloatMath, x: Reg) -> Reg:
    """π/2 - arcsin x up to 1/2; beyond, the doubled arcsine of the root, or π less that."""
    large, base, rest = _parts(m, x)
    high, low = _HALF_PI[m.bits]
    negative = x < 0.0
    double, rest_twice = base + base, rest + rest
    right = double + rest_twice
    left = (2 * high) - (double + (rest_twice - 2 * low))
    signed, signed_rest = m.select(negative, -base, base), m.select(negative, -rest, rest)
    middle = high - (signed + (signed_rest - low))
    return m.select(large, m.select(negative, left, right), middle)


FUNCTIONS: dict[str, Callable[..., Reg]] = {"arccos": _arccos, "arcsin": _arcsin}
