"""Vector functions of float32: name -> emitter of code for any number of lanes.

Right at every special value and within ``MAX_ULP`` everywhere, on targets with and without FMA.
Polynomials are relative minimax fits with float32 coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.math.common import (
    HUGE_ANGLE,
    INFINITY,
    LOG2_E,
    NAN,
    TWO_OVER_PI,
    FloatMath,
)
from graphc.codegen.math.payne_hanek import reduce_huge

# ln 2 in two parts; the high one times an exponent is exact
_LN2_HIGH, _LN2_LOW = 0.693145752, 1.42860677e-6
# 2^(j/16), rounded, and (e^r - 1) / r for |r| up to ln 2 / 32; ln 2 in parts, the high one of which
# is exact times an exponent in sixteenths
_SIXTEENTHS = tuple(2.0 ** (j / 16) for j in range(16))
# their words less what the low bits of a word add to them, shifted to where exponents have theirs
_POWERS_BELOW = tuple(
    float((np.float32(power).view(np.int32) - (j << 19)).view(np.float32))
    for j, power in enumerate(_SIXTEENTHS)
)
_EXP_NEAR = (0.16667039692401886, 0.5000162720680237, 1.0)
_LN2_SHORT, _LN2_REST = 0.693115234375, 3.194618329871446e-05
# (e^r - 1 - r) / r² and (2^r - 1) / r for |r| up to half of ln 2, and of 1
_EXP = (
    0.0013822020264342427, 0.00836885068565607, 0.041668254882097244, 0.1666651964187622,
    0.4999999403953552,
)  # fmt: skip
_EXPM1 = (
    0.0001976441271835938, 0.0013932380825281143, 0.008333543315529823, 0.04166649281978607,
    0.1666666567325592, 0.5,
)  # fmt: skip
_EXP2 = (
    0.00015329979942180216, 0.0013391186948865652, 0.009618498384952545, 0.055503591895103455,
    0.24022647738456726, 0.6931471824645996,
)  # fmt: skip
# (ln(1+f) - f + f²/2) / f³ for f in [-1/3, 1/3], even and odd upper terms first
_LOG_TOP = (-0.130310059, 0.140869141, -0.121483512, 0.139814854)
_LOG = (-0.166846126, 0.200120345, -0.249996200, 0.333331972)
# the significand is taken from [2/3, 4/3): the bits of 2/3
_TWO_THIRDS_WORD = 0x3F2AAAAB
_INV_LN2_HIGH, _INV_LN2_LOW = 1.4428710938, -1.7605285393e-04
_INV_LN10_HIGH, _INV_LN10_LOW = 4.3432617188e-01, -3.1689971365e-05
_LOG10_2_HIGH, _LOG10_2_LOW = 3.0102920532e-01, 7.9034151668e-07
_SIN = (2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1)
_COS = (2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.0e-1)
_TAN = (
    0.009437670931220055, 0.0030321667436510324, 0.024484669789671898, 0.05339597165584564,
    0.13338986039161682, 0.33333149552345276,
)  # fmt: skip
_SINH = (0.00020372832659631968, 0.008330274373292923, 0.1666671633720398)
# (arctan t / t - 1) / t² in powers of t², for t up to 1
_ARCTAN = (
    -0.00178706890437752, 0.01088548544794321, -0.031124059110879898, 0.057904202491045,
    -0.08400376886129379, 0.10951154679059982, -0.14264050126075745, 0.1999853104352951,
    -0.33333298563957214,
)  # fmt: skip
# erf t / t - 1 in powers of t², up to 0.92; and ln(1 - erf t) / t + 1 beyond
_ERF_SMALL = (
    -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1,
)  # fmt: skip
_ERF_LARGE = (
    -1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1,
    -1.28717512e-1,
)  # fmt: skip

# e^(t²)·erfc(t)·(1 + t) in powers of (1 - t) / (1 + t), from 0.61 to where erfc is 0
_ERFC = (
    0.00196335162, 0.0014192774, -0.00240969029, 0.00344899879, -0.00125350989, -0.00952713937,
    0.0253986996, -0.0139095336, -0.0955564976, 0.237680912, 0.85516715,
)  # fmt: skip


def _exp_reduced(
    m: FloatMath, x: Reg, magic: Reg | float, sign: float = 1.0, times: float = 1.0
) -> tuple[Reg, Reg, Reg]:
    """n + magic, n and r such that e^(sign·times·x) is 2^n·e^(sign·r)."""
    sum_ = m.fma(x, LOG2_E * sign * times, magic)
    n = sum_ - magic
    scaled = x if times == 1.0 else x * times
    r = m.fma(n, -_LN2_HIGH * sign, scaled)
    return sum_, n, m.fma(n, -_LN2_LOW * sign, r)


def _exp_parts(
    m: FloatMath, x: Reg, magic: Reg | float, sign: float = 1.0, times: float = 1.0
) -> tuple[Reg, Reg]:
    """2^(n + what magic adds) and r such that e^(sign·times·x) is 2^n·e^(sign·r)."""
    sum_, _, r = _exp_reduced(m, x, magic, sign, times)
    return m.power_of_two(m.to_word(sum_)), r


def _exp_polynomial(m: FloatMath, r: Reg, sign: float = 1.0, curve: Sequence[float] = _EXP) -> Reg:
    coefficients = (*curve, 1.0, 1.0)
    top = len(coefficients) - 1
    return m.polynomial(r, [c * sign ** (top - i) for i, c in enumerate(coefficients)])


def _split_scale(m: FloatMath, y: Reg) -> tuple[Reg, Reg]:
    """Magic number and second factor that keep both factors of 2^n normal, down to denormals."""
    negative = m.negative_word(y)
    magic = m.select(negative, m.magic + 127 + 24, m.magic + 126)
    return magic, m.select(negative, 2.0**-24, 2.0)


def _sixteenths(
    m: FloatMath, x: Reg, magic: Reg | float, sign: float = 1.0
) -> tuple[Reg, Reg, Reg]:
    """Word, n and r such that e^(sign·x) is 2^n·e^(sign·r); n is a whole number of sixteenths.

    These stand in the low bits of the word. ``magic`` is a 16th of the usual one, and what is to be
    added to n in the word.
    """
    sum_ = m.fma(x, LOG2_E * sign, magic)
    n = sum_ - magic
    r = m.fma(n, -_LN2_SHORT * sign, x)
    return m.to_word(sum_), n, m.fma(n, -_LN2_REST * sign, r)


def _curve(m: FloatMath, r: Reg, sign: float = 1.0) -> Reg:
    """(e^(sign·r) - 1) / r near 0."""
    top = len(_EXP_NEAR)
    return m.polynomial(r, [c * sign ** (top - i) for i, c in enumerate(_EXP_NEAR)])


def _step(m: FloatMath, word: Reg) -> Reg:
    """2 to the sixteenths of a word."""
    step = m.pick("powers", _POWERS_BELOW, word)
    exponent = word << 19
    return m.from_word(m.to_word(step) + exponent)


def _raised(m: FloatMath, x: Reg, magic: Reg | float) -> Reg:
    """e^x times the power of two that ``magic`` adds, both normal."""
    word, _, r = _sixteenths(m, x, magic)
    step = _step(m, word)
    return m.fma(step * r, _curve(m, r), step)


def _exp(m: FloatMath, x: Reg) -> Reg:
    magic = m.magic / 16
    if m.scales:
        word, n, r = _sixteenths(m, x, magic)
        step = m.pick("sixteenths", _SIXTEENTHS, word)
        y = m.to_word(m.fma(step * r, _curve(m, r), step))
        # n says what is beyond all bounds, NaN too, if y then is any number at all above 0
        y = (y & 0x3FFFFFFF) | 0x3F000000
        return m.scale(m.from_word(y), n)
    x = m.clamp(x, -104.5, 89.0)
    negative = m.negative_word(x)
    raised = _raised(m, x, m.select(negative, magic + 64, magic - 1))
    return raised * m.select(negative, 2.0**-64, 2.0)


def exp_times(m: FloatMath, x: Reg, factor: Reg, curve: Sequence[float] = _EXP) -> Reg:
    """e^x·factor, for x from 0 down to where that is 0 with a factor of up to 1.

    ``curve`` has the coefficients of (e^r - 1 - r) / r².
    """
    if m.scales:
        _, n, r = _exp_reduced(m, x, m.magic)
        return m.scale(_exp_polynomial(m, r, curve=curve) * factor, n)
    # the first product stays normal for factors of 2^-20, so that one rounding is denormal
    sum_, _, r = _exp_reduced(m, x, m.magic + 177)
    product = _exp_polynomial(m, r, curve=curve) * factor
    return product * m.power_of_two(m.to_word(sum_)) * 2.0**-50


def _exp2(m: FloatMath, x: Reg) -> Reg:
    y = m.clamp(x, -150.5, 128.5)
    magic, factor = _split_scale(m, y)
    sum_ = y + magic
    r = y - (sum_ - magic)
    scale = m.power_of_two(m.to_word(sum_))
    return m.polynomial(r, (*_EXP2, 1.0)) * scale * factor


def _expm1_reduced(m: FloatMath, r: Reg) -> Reg:
    return m.fma(m.polynomial(r, _EXPM1), r * r, r)


def _expm1(m: FloatMath, x: Reg) -> Reg:
    y = m.clamp(x, -17.5, 89.0)
    scale, r = _exp_parts(m, y, m.magic + 126)
    # the products with a power of two are exact, so one rounding is left
    half = m.fma(_expm1_reduced(m, r), scale, scale + -0.5)
    return m.or_sign(half + half, x)


def _sigmoid(m: FloatMath, x: Reg) -> Reg:
    unit = 2.0**-24
    y = m.clamp(x, -105.0, 60.0)
    word, _, r = _sixteenths(m, y, m.magic / 16 - 24, sign=-1.0)
    power = _step(m, word)
    # one of both is small beside the other part of the sum, so its rounding counts little
    rest = m.fma(power * r, _curve(m, r, -1.0), unit)
    return unit / (power + rest)


def _tanh(m: FloatMath, x: Reg) -> Reg:
    """(e^2t - 1) / (e^2t + 1), with the rounding of the denominator put right."""
    t = m.clamp(m.abs(x), high=9.1)
    scale, r = _exp_parts(m, t, m.magic + 127, times=2.0)
    numerator = m.fma(_expm1_reduced(m, r), scale, scale + -1.0)
    denominator = numerator + 2.0
    quotient = numerator / denominator
    lost = numerator - (denominator - 2.0)
    lost = m.select(numerator < 2.0**22, lost, 0.0)
    correction = lost * m.fma(quotient, -0.5, 0.5)
    return m.or_sign(m.fma(-quotient, correction, quotient), x)


def _sinh(m: FloatMath, x: Reg) -> Reg:
    t = m.abs(x)
    scale, r = _exp_parts(m, m.clamp(t, high=90.0), m.magic + 125)
    quarter = _exp_polynomial(m, r) * scale
    half = quarter - 0.0625 / quarter
    z = x * x
    small = m.fma(m.polynomial(z, _SINH) * z, t, t)
    large = half + half
    return m.copysign(m.select(t < 1.0, small, large), x)


def _cosh(m: FloatMath, x: Reg) -> Reg:
    quarter = _raised(m, m.clamp(m.abs(x), high=90.0), m.magic / 16 - 2)
    half = quarter + 0.0625 / quarter
    return half + half


def _log_tail(m: FloatMath, f: Reg) -> Reg:
    """ln(1+f) - f + f²/2."""
    z = f * f
    even = m.fma(_LOG_TOP[0], f, _LOG_TOP[1])
    odd = m.fma(_LOG_TOP[2], f, _LOG_TOP[3])
    top = m.fma(even, z, odd)
    return m.polynomial(f, (top, *_LOG)) * (f * z)


def log_split(m: FloatMath, x: Reg) -> tuple[Reg, Reg]:
    """f in [-1/3, 1/3) and the exponent, as a float: x = 2^exponent·(1 + f), denormals too."""
    tiny = x < 2.0**-126
    scaled = m.select(tiny, x * 2.0**23, x)
    adjust = m.select(tiny, -23.0, 0.0)
    word = m.to_word(scaled)
    exponent = (word - _TWO_THIRDS_WORD).ashr(23)
    significand = m.from_word(word - (exponent << 23))
    return significand - 1.0, m.small_integer(exponent) + adjust


def log_specials(m: FloatMath, result: Reg, x: Reg, zero: float = 0.0) -> Reg:
    """+inf and NaN as they are, -inf at the pole, NaN below it."""
    result = m.select(x < INFINITY, result, x)
    result = m.select(x < zero, NAN, result)
    return m.select(x.equals(zero), -INFINITY, result)


def _log_sum(m: FloatMath, f: Reg, exponent: Reg) -> Reg:
    """exponent·ln 2 + ln(1+f)."""
    half_square = f * f * 0.5
    low = m.fma(exponent, _LN2_LOW, _log_tail(m, f) - half_square)
    return m.fma(exponent, _LN2_HIGH, f + low)


def _log(m: FloatMath, x: Reg) -> Reg:
    f, exponent = log_split(m, x)
    return log_specials(m, _log_sum(m, f, exponent), x)


def _log_halves(m: FloatMath, f: Reg) -> tuple[Reg, Reg]:
    """ln(1+f) in two parts, of which the leading one has 12 bits."""
    half_square = f * f * 0.5
    high = m.top_bits(f - half_square, 12)
    return high, f - high - half_square + _log_tail(m, f)


def _log2(m: FloatMath, x: Reg) -> Reg:
    """The leading part of ln(1+f) is short, so that its product with 1/ln 2 is exact."""
    f, exponent = log_split(m, x)
    high, low = _log_halves(m, f)
    rest = m.fma(low, _INV_LN2_HIGH, (low + high) * _INV_LN2_LOW)
    lead = high * _INV_LN2_HIGH
    total = exponent + lead
    rest = rest + m.sum_error(exponent, lead, total)
    return log_specials(m, total + rest, x)


def _log10(m: FloatMath, x: Reg) -> Reg:
    """As log2; the product of the exponent with the leading part of log10 2 is exact too."""
    f, exponent = log_split(m, x)
    high, low = _log_halves(m, f)
    rest = m.fma(low, _INV_LN10_HIGH, (low + high) * _INV_LN10_LOW)
    rest = m.fma(exponent, _LOG10_2_LOW, rest)
    lead, whole = high * _INV_LN10_HIGH, exponent * _LOG10_2_HIGH
    total = whole + lead
    return log_specials(m, total + (rest + m.sum_error(whole, lead, total)), x)


def _log1p(m: FloatMath, x: Reg) -> Reg:
    """x is scaled by the power of two that belongs to 1 + x; f then has one rounding."""
    word = m.to_word(x + 1.0)
    exponent = (word - _TWO_THIRDS_WORD) & -(1 << 23)
    four_scaled = m.from_word(0x40800000 - exponent)
    f = m.fma(x * four_scaled, 0.25, m.fma(four_scaled, 0.25, -1.0))
    n = m.small_integer(exponent.ashr(23))
    result = log_specials(m, _log_sum(m, f, n), x, -1.0)
    return m.keep_zero(result, x)


def _reduce(m: FloatMath, x: Reg) -> tuple[Reg, Reg]:
    """Remainder by pi/2 and quadrant for |x| < 2^20, through float64."""
    d = m.of("double")
    wide = m.e.convert("fpext", x, "double")
    sum_ = d.fma(wide, TWO_OVER_PI, d.magic)
    n = sum_ - d.magic
    # pi/2 in 33 bits, so that n times it is exact, and the rest
    r = d.fma(n, -1.57079632673412561417e00, wide)
    r = d.fma(n, -6.07710050650619224932e-11, r)
    quadrant = m.e.convert("trunc", d.to_word(sum_), m.integer.element)
    return m.e.convert("fptrunc", r, "float"), quadrant


def _reduce_any(m: FloatMath, x: Reg) -> tuple[Reg, Reg]:
    """The same for one lane of any finite magnitude."""
    high, _, quadrant = reduce_huge(m.e, m.e.convert("fpext", x, "double"))
    return m.e.convert("fptrunc", high, "float"), m.e.convert("trunc", quadrant, "i32")


def _sin_kernel(m: FloatMath, r: Reg, quadrant: Reg) -> Reg:
    z = r * r
    sine = m.fma(m.polynomial(z, _SIN), r * z, r)
    cosine = m.fma(m.polynomial(z, _COS), z, 1.0)
    even = (quadrant & 1).equals(0)
    sign = (quadrant & 2) << 30
    word = m.to_word(m.select(even, sine, cosine)) ^ sign
    return m.from_word(word)


def _cos_kernel(m: FloatMath, r: Reg, quadrant: Reg) -> Reg:
    return _sin_kernel(m, r, quadrant + 1)


def _tan_kernel(m: FloatMath, r: Reg, quadrant: Reg) -> Reg:
    z = r * r
    tangent = m.fma(m.polynomial(z, _TAN) * z, r, r)
    odd = (quadrant & 1).differs(0)
    return m.select(odd, -1.0, tangent) / m.select(odd, tangent, 1.0)


def _angle(
    name: str, kernel: Callable[[FloatMath, Reg, Reg], Reg], is_odd: bool
) -> Callable[[FloatMath, Reg], Reg]:
    """A trigonometric function from its kernel on the reduced angle."""

    def cold(m: FloatMath, operands: Sequence[Reg]) -> Reg:
        (x,) = operands
        result = kernel(m, *_reduce_any(m, x))
        return m.select(m.abs(x) < INFINITY, result, NAN)

    def emit(m: FloatMath, x: Reg) -> Reg:
        common = kernel(m, *_reduce(m, x))
        if is_odd:
            common = m.keep_zero(common, x)
        huge = m.abs(x) >= HUGE_ANGLE
        return m.patch(huge, common, f"huge_{name}", cold, (x,))

    return emit


def _arctan(m: FloatMath, x: Reg) -> Reg:
    t = m.abs(x)
    large = t > 1.0
    u = m.select(large, -1.0, t) / m.select(large, t, 1.0)
    z = u * u
    offset = m.select(large, 1.57079637, 0.0)
    rest = m.select(large, -4.37113883e-8, 0.0)
    tail = m.fma(m.polynomial(z, _ARCTAN) * z, u, rest)
    return m.or_sign(offset + (u + tail), x)


def _erf(m: FloatMath, x: Reg) -> Reg:
    t = m.abs(x)
    z = x * x
    y = m.clamp(t, high=4.5)
    exponent = m.polynomial(y, _ERF_LARGE)
    exponent = m.fma(exponent, y, -y)
    large = m.copysign(1.0 - _raised(m, exponent, m.magic / 16), x)
    small = m.fma(m.polynomial(z, _ERF_SMALL), x, x)
    return m.select(t > 0.927734375, large, small)


def _erfc(m: FloatMath, x: Reg) -> Reg:
    """1 - erf x near 0; else e^(-t²)·u·P(2u - 1), t = |x|, u = 1/(1 + t), or 2 minus that."""
    t = m.clamp(m.abs(x), high=10.1)
    u = 1.0 / (t + 1.0)
    curve = u * m.polynomial(m.fma(u, 2.0, -1.0), _ERFC)
    square, lost = m.product(t, t)
    tail = exp_times(m, -square, m.fma(-lost, curve, curve))
    large = m.select(x < 0.0, 2.0 - tail, tail)
    z = x * x
    small = 1.0 - m.fma(m.polynomial(z, _ERF_SMALL), x, x)
    return m.select(t < 0.8125, small, large)


def _power(m: FloatMath, x: Reg, y: Reg) -> Reg:
    """2^(y·log2|x|) in float64, then the signs and special values of C's pow."""
    d = m.of("double")
    base = m.e.convert("fpext", m.abs(x), "double")
    exponent = m.e.convert("fpext", y, "double")
    word = d.to_word(base)
    n = (word - 0x3FE6A09E667F3BCD).ashr(52)
    significand = d.from_word(word - (n << 52))
    q = (significand - 1.0) / (significand + 1.0)
    series = d.polynomial(q * q, [2 / k for k in range(13, 0, -2)])
    log2 = d.fma(series * q, LOG2_E, d.small_integer(n))
    t = d.clamp(exponent * log2, -400.0, 400.0)
    sum_ = t + (d.magic + 1023)
    r = (t - (sum_ - (d.magic + 1023))) * 0.69314718055994530942
    factorials = [1.0]
    for k in range(1, 10):
        factorials.append(factorials[-1] / k)
    raised = d.polynomial(r, factorials[::-1]) * d.power_of_two(d.to_word(sum_))
    return power_specials(m, m.e.convert("fptrunc", raised, "float"), x, y)


def power_specials(m: FloatMath, magnitude: Reg, x: Reg, y: Reg) -> Reg:
    """x^y from |x|^y of finite positive |x|: the sign, and C's special values."""
    size = m.abs(x)
    whole = m.trunc(y).equals(y)
    half = y * 0.5
    odd = whole & m.e.fcmp("one", m.trunc(half), half)
    falling = y < 0.0
    endless = m.abs(y).equals(INFINITY)
    grows = (size > 1.0) ^ falling
    result = m.select(size.equals(0.0), m.select(falling, INFINITY, 0.0), magnitude)
    result = m.select(size.equals(INFINITY), m.select(falling, 0.0, INFINITY), result)
    result = m.select(endless, m.select(grows, INFINITY, 0.0), result)
    result = m.select(size.equals(1.0), 1.0, result)
    result = m.copysign(result, m.select(odd, x, 1.0))
    finite_base = m.e.fcmp("one", size, INFINITY)
    undefined = (x < 0.0) & ~whole
    result = m.select(undefined & finite_base, NAN, result)
    result = m.select(m.e.fcmp("uno", x, y), NAN, result)
    one = y.equals(0.0) | x.equals(1.0)
    return m.select(one, 1.0, result)


FUNCTIONS: dict[str, Callable[..., Reg]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": _log2,
    "log10": _log10,
    "log1p": _log1p,
    "sin": _angle("sin", _sin_kernel, True),
    "cos": _angle("cos", _cos_kernel, False),
    "tan": _angle("tan", _tan_kernel, True),
    "tanh": _tanh,
    "sinh": _sinh,
    "cosh": _cosh,
    "arctan": _arctan,
    "erf": _erf,
    "erfc": _erfc,
    "sigmoid": _sigmoid,
    "power": _power,
}
