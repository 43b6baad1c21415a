"""Elementary functions of complex numbers, by real functions of their parts.

Special values are those of C99's Annex G, which NumPy and the array API have too. The sine, cosine
and tangent of z are the hyperbolic functions of iz. Sources: W. Kahan, Branch cuts for complex
elementary functions (1987), for the tangent and the root; the logarithm near the unit circle takes
exact squares (T. J. Dekker, 1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.op import OpDef
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, joined
from graphc.ops.source import known_array

Rule = Callable[[OpDef, Sequence[Value], Attributes], Value]
Parts = tuple[Value, Value]
OfParts = Callable[[Value, Value], Parts]

SCALE = {"float32": 64.0, "float64": 512.0}
"""By how much an exponent is lowered where its exponential would overflow before it is multiplied
by a small sine; the exponential of it is a number of the dtype too."""


def _call(name: str, *operands: Any) -> Value:
    result: Value = surface_function(name)(*operands)
    return result


def _where(condition: Value, x: Any, y: Any) -> Value:
    return _call("where", condition, x, y)


def _limit(x: Value) -> float:
    """Where the exponential leaves the range, a little before."""
    return math.log(x.dtype.format.largest) - 1.0


def of_parts(function: OfParts) -> Rule:
    """The rule of a function that gives real and imaginary part."""

    def rule(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
        return joined(*function(*halves(operands[0])))

    return rule


def turned(function: OfParts) -> OfParts:
    """-i f(iz), which makes sines and tangents of the hyperbolic ones."""

    def result(x: Value, y: Value) -> Parts:
        re, im = function(-y, x)
        return im, -re

    return result


def _scaled_exp(x: Value) -> tuple[Value, Value]:
    """e to the x as a product of two numbers, where it leaves the range."""
    shift = SCALE[x.dtype.name]
    is_large = x > _limit(x)
    factor = _where(is_large, math.exp(shift), _call("ones_like", x))
    return _call("exp", _where(is_large, x - shift, x)), factor


def exp_parts(x: Value, y: Value) -> Parts:
    """e^x (cos y + i sin y)."""
    size, factor = _scaled_exp(x)
    re = size * _call("cos", y) * factor
    im = size * _call("sin", y) * factor
    endless = ~_call("isfinite", y)
    vanishes = endless & _call("equal", x, -math.inf)
    re = _where(endless & _call("equal", x, math.inf), x, _where(vanishes, 0, re))
    return re, _flat(y, _where(vanishes, 0, im), y)


def _flat(y: Value, im: Value, zero: Value) -> Value:
    """An imaginary part, which is 0 on the real axis; its derivative there is not that of 0."""
    return _where(_call("equal", y, 0) & _call("isnan", im), zero, im)


def expm1_parts(x: Value, y: Value) -> Parts:
    """(e^x - 1) cos y - 2 sin²(y / 2), and e^x sin y."""
    re, im = exp_parts(x, y)
    half = _call("sin", y * 0.5)
    near = _call("expm1", x) * _call("cos", y) - 2.0 * half * half
    is_near = (_call("abs", x) < 1.0) & _call("isfinite", y)
    return _where(is_near, near, re - 1.0), im


def sinh_parts(x: Value, y: Value) -> Parts:
    """sinh x cos y + i cosh x sin y."""
    sine, cosine = _call("sin", y), _call("cos", y)
    size = _call("abs", x)
    is_large = size > _limit(x)
    large, factor = _scaled_exp(size)
    far = _call("copysign", large, x) * cosine * 0.5 * factor
    re = _where(is_large, far, _call("sinh", x) * cosine)
    im = _where(is_large, large * sine * 0.5 * factor, _call("cosh", x) * sine)
    # 0 and the infinities stay what they are beside an angle that has no sine
    stays = ~_call("isfinite", y) & (_call("equal", x, 0) | _call("isinf", x))
    return _where(stays, x, re), _flat(y, im, y)


def cosh_parts(x: Value, y: Value) -> Parts:
    """cosh x cos y + i sinh x sin y."""
    sine, cosine = _call("sin", y), _call("cos", y)
    size = _call("abs", x)
    is_large = size > _limit(x)
    large, factor = _scaled_exp(size)
    re = _where(is_large, large * cosine * 0.5 * factor, _call("cosh", x) * cosine)
    far = _call("copysign", large, x) * sine * 0.5 * factor
    im = _where(is_large, far, _call("sinh", x) * sine)
    endless = ~_call("isfinite", y)
    re = _where(endless & _call("isinf", x), size, re)
    im = _where(endless & _call("equal", x, 0), x, im)
    return re, _flat(y, im, y * _call("copysign", _call("ones_like", x), x))


def tanh_parts(x: Value, y: Value) -> Parts:
    """Kahan's: by the tangent of y and the hyperbolic sine of x, neither of which overflows."""
    size = _call("abs", x)
    is_large = size > 0.25 * _limit(x)
    tangent = _call("tan", y)
    beta = tangent * tangent + 1.0
    sine = _call("sinh", _where(is_large, 0, x))
    root = _call("sqrt", sine * sine + 1.0)
    scale = 1.0 / (beta * (sine * sine) + 1.0)
    unit = _call("copysign", _call("ones_like", x), x)
    angle = _call("sin", y) * _call("cos", y)
    re = _where(is_large, unit + angle * 0.0, beta * root * sine * scale)
    im = _where(is_large, angle * (4.0 * _call("exp", size * -2.0)), tangent * scale)
    endless = ~_call("isfinite", y)
    re = _where(endless & _call("equal", x, 0), x, _where(_call("isinf", x), unit, re))
    im = _where(endless & _call("isinf", x), 0, im)
    return re, _flat(y, im, y)


def cos_parts(x: Value, y: Value) -> Parts:
    """cosh of iz."""
    return cosh_parts(-y, x)


def _log_length(x: Value, y: Value) -> Value:
    """log |z|, also where |z|² leaves the range and near 1, where it is small."""
    format_ = x.dtype.format
    long = _call("maximum", _call("abs", x), _call("abs", y))
    short = _call("minimum", _call("abs", x), _call("abs", y))
    up = 2.0 ** (format_.fraction + 3)
    is_large, is_small = long > format_.largest / 4, long < format_.smallest_normal * up
    scale = _where(is_large, 0.25, _where(is_small, up, _call("ones_like", x)))
    moved = _where(is_large, 2 * math.log(2), _where(is_small, -math.log(up), _zeros(x)))
    far = _call("log", _call("hypot", x * scale, y * scale)) + moved
    squares = _squares_but_one(long, short)
    near = 0.5 * _call("log1p", squares)
    is_near = (squares > -0.5) & (squares < 2.0) & (long < 2.0)
    return _where(is_near, near, far)


def _zeros(x: Value) -> Value:
    return _call("zeros_like", x)


def _squares_but_one(long: Value, short: Value) -> Value:
    """long² + short² - 1, with what the squares lose."""
    square, other = long * long, short * short
    lost = _lost(long, square) + _lost(short, other)
    return ((square - 1.0) + other) + _call("stop_gradient", lost)


def _lost(x: Value, square: Value) -> Value:
    """x² less the rounded square, by the halves of x, whose products are exact."""
    high = x * (2.0 ** ((x.dtype.digits + 1) // 2) + 1.0)
    high = high - (high - x)
    low = x - high
    return ((high * high - square) + 2.0 * high * low) + low * low


def log_parts(x: Value, y: Value) -> Parts:
    """log |z| and the angle."""
    return _log_length(x, y), _call("arctan2", y, x)


def log1p_parts(x: Value, y: Value) -> Parts:
    """log(1 + z), near 0 by x (2 + x) + y²."""
    re, im = log_parts(x + 1.0, y)
    is_near = (_call("abs", x) < 0.5) & (_call("abs", y) < 0.5)
    near = 0.5 * _call("log1p", x * (x + 2.0) + y * y)
    return _where(is_near, near, re), im


def log_to_base(base: float) -> OfParts:
    """The logarithm to another base."""

    def result(x: Value, y: Value) -> Parts:
        re, im = log_parts(x, y)
        return re * (1 / math.log(base)), im * (1 / math.log(base))

    return result


def sqrt_parts(x: Value, y: Value) -> Parts:
    """Kahan's: the root of half of |z| + |x|, and y by twice that; scaled where they overflow."""
    format_ = x.dtype.format
    long = _call("maximum", _call("abs", x), _call("abs", y))
    steps = (format_.fraction + 3) // 2 * 2
    is_large, is_small = long > format_.largest / 8, long < format_.smallest_normal * 2.0**steps
    one = _call("ones_like", x)
    scale = _where(is_large, 2.0**-4, _where(is_small, 2.0**steps, one))
    back = _where(is_large, 2.0**2, _where(is_small, 2.0 ** (-steps // 2), one))
    a, b = x * scale, y * scale
    is_right = x >= 0
    # no abs, whose derivative at 0 is 0, while that of the root is not on either axis
    root = _call("sqrt", 0.5 * (_call("hypot", a, b) + _where(is_right, a, -a)))
    slope = b / (2.0 * _where(_call("equal", root, 0), 1, root))
    unit = _call("copysign", one, y)
    re = _where(is_right, root, slope * unit) * back
    im = _where(is_right, slope, root * unit) * back
    zero = _call("equal", x, 0) & _call("equal", y, 0)
    re = _where(zero, 0, re)
    im = _where(zero, y, im)
    endless = _call("isinf", y)
    left = _call("equal", x, -math.inf)
    right = _call("equal", x, math.inf)
    broken = _call("isnan", y)
    re = _where(endless, math.inf, _where(right, x, _where(left, _where(broken, y, 0), re)))
    flat = _where(right, _where(broken, y, _call("copysign", _zeros(y), y)),
                  _where(left, _call("copysign", -x, y), im))  # fmt: skip
    return re, _where(endless, y, flat)


# --- powers --------------------------------------------------------------------------------------

MOST_FACTORS = 32
"""Whole exponents up to this are products, more accurate than logarithms."""


def complex_power(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """|z|^a e^(-b t) at the angle a t + b log |z| for the exponent a + ib; 1 for exponent 0.

    Small whole exponents that are known are products.
    """
    base, exponent = operands
    known = known_array(exponent)
    if known is not None and known.ndim == 0 and known.imag == 0 and known.real % 1 == 0:
        whole = int(known.real)
        if 0 < abs(whole) <= MOST_FACTORS:
            return _whole_power(base, whole)
    (x, y), (a, b) = halves(base), halves(exponent)
    angle, length = _call("arctan2", y, x), _call("hypot", x, y)
    size = _call("power", length, a) * _call("exp", -b * angle)
    turn = a * angle + b * _log_length(x, y)
    is_zero = _call("equal", x, 0) & _call("equal", y, 0)
    decays = is_zero & (a > 0)
    no_power = _call("equal", a, 0) & _call("equal", b, 0)
    re = _where(decays, 0, size * _call("cos", turn))
    im = _where(decays, 0, size * _call("sin", turn))
    return joined(_where(no_power, 1, re), _where(no_power, 0, im))


def _whole_power(base: Value, exponent: int) -> Value:
    result: Value | None = None
    square, left = base, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else result * square
        left >>= 1
        if left:
            square = square * square
    assert result is not None, "the exponent is not 0"
    return result if exponent > 0 else 1 / result


complex_exp = of_parts(exp_parts)
complex_expm1 = of_parts(expm1_parts)
complex_log = of_parts(log_parts)
complex_log1p = of_parts(log1p_parts)
complex_log2 = of_parts(log_to_base(2.0))
complex_log10 = of_parts(log_to_base(10.0))
complex_sqrt = of_parts(sqrt_parts)
complex_sinh = of_parts(sinh_parts)
complex_cosh = of_parts(cosh_parts)
complex_tanh = of_parts(tanh_parts)
complex_sin = of_parts(turned(sinh_parts))
complex_cos = of_parts(cos_parts)
complex_tan = of_parts(turned(tanh_parts))
