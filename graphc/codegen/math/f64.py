"""Vector functions of float64: name -> emitter of code for any number of lanes.

Right at every special value and within ``MAX_ULP`` everywhere, on targets with and without FMA.
The forms of log, sin, cos and arctan are those of FDLIBM; the polynomials of exp and erf are
relative minimax fits; tanh's rational is that of Cephes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.math.common import (
    HUGE_ANGLE,
    INFINITY,
    LOG2_E,
    NAN,
    TWO_OVER_PI,
    FloatMath,
)
from graphc.codegen.math.f32 import power_specials
from graphc.codegen.math.payne_hanek import reduce_huge

# ln 2 in two parts; the high one times an exponent is exact
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_INV_LN2_HIGH, _INV_LN2_LOW = 1.44269504072144627571e00, 1.67517131648865118353e-10
_INV_LN10_HIGH, _INV_LN10_LOW = 4.34294481878168880939e-01, 2.50829467116452752298e-11
_LOG10_2_HIGH, _LOG10_2_LOW = 3.01029995663611771306e-01, 3.69423907715893078616e-13
_LN2 = 0.6931471805599453
# the significand is taken from [sqrt 1/2, sqrt 2): the bits of sqrt 1/2
_ROOT_HALF_WORD = 0x3FE6A09E667F3BCD
# (e^r - 1 - r) / r² for |r| up to half of ln 2
_EXP = (
    2.502409473142061e-08, 2.763409758337964e-07, 2.7557531251726766e-06, 2.480148197528464e-05,
    0.00019841269540365114, 0.001388888895466291, 0.008333333333494385, 0.04166666666648734,
    0.16666666666666383, 0.5000000000000016,
)  # fmt: skip
# (e^r - 1 - r - r²/2) / r³
_EXPM1 = (
    2.111044422784594e-09, 2.512225346705182e-08, 2.7556639894834114e-07, 2.755720333243777e-06,
    2.4801588054901156e-05, 0.00019841269930312883, 0.00138888888885352, 0.00833333333330241,
    0.04166666666666724, 0.16666666666666705,
)  # fmt: skip
_LOG_EVEN = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)
_LOG_ODD = (
    1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01,
    6.666666666666735130e-01,
)  # fmt: skip
_SIN = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
    -1.98412698298579493134e-04, 8.33333333332248946124e-03,
)  # fmt: skip
_SIN_FIRST = -1.66666666666666324348e-01
_COS = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
    2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip
_ARCTAN = (
    1.62858201153657823623e-02, -3.65315727442169155270e-02, 4.97687799461593236017e-02,
    -5.83357013379057348645e-02, 6.66107313738753120669e-02, -7.69187620504482999495e-02,
    9.09088713343650656196e-02, -1.11111104054623557880e-01, 1.42857142725034663711e-01,
    -1.99999999998764832476e-01, 3.33333333333329318027e-01,
)  # fmt: skip
_TANH_TOP = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
_TANH_BOTTOM = (
    1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3,
)  # fmt: skip
# erf t / t - 1 in powers of t² - 0.5000000005, up to 1
_ERF_SMALL_AT = 0.5000000005
_ERF_SMALL = (
    -7.738227115033292e-10, 9.434416804935136e-09, -1.0420829010566413e-07, 1.053631002471172e-06,
    -9.614807383603843e-06, 7.829649717103875e-05, -0.0005611894220464954, 0.0034802744951364425,
    -0.01828388448218335, 0.0794099867285121, -0.2810721779660244, -0.0345312614706688,
)  # fmt: skip
# -ln(1 - erf t) - t² in powers of t - 3.465, from 1 on
_ERF_LARGE_AT = 3.465
_ERF_LARGE = (
    1.6023954863311642e-13, 3.312093741330939e-12, 2.793503915359388e-11, 1.1507297625023029e-10,
    1.470119519529886e-10, -8.237161358167081e-10, -4.829056121005762e-09, -1.1919920230282458e-08,
    -1.3760909835951307e-08, 2.7403778318039114e-09, 2.1545052111763108e-08, 1.2903823353864534e-07,
    -5.887925033873756e-07, 4.044999035167277e-06, -2.5383690856762305e-05, 0.0001525080081267891,
    -0.0008999190475646609, 0.005349801802551804, -0.03380212402415883, 0.2684462298323819,
    1.8530829636749788,
)  # fmt: skip

# e^(t²)·erfc(t)·(2 + t) in powers of (2 - t) / (2 + t), from 0.61 to where erfc is 0
_ERFC = (
    -1.0794745245760695e-07, -3.1479716468502977e-07, 6.525497212405604e-08, 5.92475027645708e-07,
    -4.87771750835164e-07, -1.3744300045382797e-07, 1.9154526687817055e-06,
    -3.6116814941912944e-06, -1.0902352202056647e-06, 1.6118331071634707e-05,
    -2.170427084890098e-05, -3.4149307894685314e-05, 0.00014447185425905802,
    -3.437131657039502e-05, -0.0006630735969960637, 0.0008372960506818644, 0.0030906120635501994,
    -0.006479185067194316, -0.021510661889591325, 0.03644223150686827, 0.2794720925560557,
    0.6871606844138106, 1.021582705242023,
)  # fmt: skip


def _exp_reduced(
    m: FloatMath, x: Reg, magic: Reg | float, sign: float = 1.0, low: Reg | None = None
) -> tuple[Reg, Reg, Reg]:
    """n + magic, n and r such that e^(sign·(x + low)) is 2^n·e^(sign·r)."""
    sum_ = m.fma(x, LOG2_E * sign, magic)
    n = sum_ - magic
    r = m.fma(n, -_LN2_HIGH * sign, x)
    last = -_LN2_LOW * sign
    r = m.fma(n, last, r) if low is None else r + m.fma(n, last, low)
    return sum_, n, r


def _exp_parts(m: FloatMath, x: Reg, magic: float, sign: float = 1.0) -> tuple[Reg, Reg]:
    """2^(n + what magic adds) and r such that e^(sign·x) is 2^n·e^(sign·r)."""
    sum_, _, r = _exp_reduced(m, x, magic, sign)
    return m.power_of_two(m.to_word(sum_)), r


def _exp_of(m: FloatMath, y: Reg, low: Reg | None = None) -> Reg:
    """e^(y + low) for y up to where it is infinite or zero, and no further."""
    if m.scales:
        _, n, r = _exp_reduced(m, y, m.magic, low=low)
        return m.scale(_exp_polynomial(m, r), n)
    magic, factor = _split_scale(m, y)
    sum_, _, r = _exp_reduced(m, y, magic, low=low)
    scale = m.power_of_two(m.to_word(sum_))
    return _exp_polynomial(m, r) * scale * factor


def _exp_polynomial(m: FloatMath, r: Reg, sign: float = 1.0) -> Reg:
    coefficients = (*_EXP, 1.0, 1.0)
    top = len(coefficients) - 1
    return m.polynomial(r, [c * sign ** (top - i) for i, c in enumerate(coefficients)])


def _split_scale(m: FloatMath, y: Reg) -> tuple[Reg, Reg]:
    """Magic number and second factor that keep both factors of 2^n normal, down to denormals."""
    negative = m.negative_word(y)
    magic = m.select(negative, m.magic + 1023 + 54, m.magic + 1022)
    return magic, m.select(negative, 2.0**-54, 2.0)


def _exp(m: FloatMath, x: Reg) -> Reg:
    return _exp_of(m, m.clamp(x, -746.0, 710.0))


def _exp_times(m: FloatMath, x: Reg, factor: Reg) -> Reg:
    """e^x·factor, for x from 0 down to where that is 0 with a factor of up to 1."""
    if m.scales:
        _, n, r = _exp_reduced(m, x, m.magic)
        return m.scale(_exp_polynomial(m, r) * factor, n)
    # the first product stays normal for factors of 2^-20, so that one rounding is denormal
    sum_, _, r = _exp_reduced(m, x, m.magic + 1123)
    product = _exp_polynomial(m, r) * factor
    return product * m.power_of_two(m.to_word(sum_)) * 2.0**-100


def _exp2(m: FloatMath, x: Reg) -> Reg:
    """The polynomial of exp, its coefficients multiplied by powers of ln 2."""
    y = m.clamp(x, -1076.0, 1025.0)
    magic, factor = _split_scale(m, y)
    sum_ = y + magic
    r = y - (sum_ - magic)
    coefficients = (*_EXP, 1.0, 1.0)
    top = len(coefficients) - 1
    scaled = [c * _LN2 ** (top - i) for i, c in enumerate(coefficients)]
    scale = m.power_of_two(m.to_word(sum_))
    return m.polynomial(r, scaled) * scale * factor


def _expm1(m: FloatMath, x: Reg) -> Reg:
    """As exp, but with what the reduction's last rounding lost."""
    y = m.clamp(x, -38.0, 710.0)
    magic = m.magic + 1022
    sum_ = m.fma(y, LOG2_E, magic)
    n = sum_ - magic
    high, low = m.fma(n, -_LN2_HIGH, y), n * _LN2_LOW
    r = high - low
    lost = high - r - low
    curve = m.fma(m.polynomial(r, _EXPM1), r, 0.5)
    reduced = r + m.fma(curve, r * r, lost)
    # the products with a power of two are exact, so one rounding is left
    scale = m.power_of_two(m.to_word(sum_))
    half = m.fma(reduced, scale, scale + -0.5)
    return m.or_sign(half + half, x)


def _sigmoid(m: FloatMath, x: Reg) -> Reg:
    unit = 2.0**-54
    y = m.clamp(x, -746.0, 60.0)
    scale, r = _exp_parts(m, y, m.magic + 1023 - 54, sign=-1.0)
    return unit / m.fma(_exp_polynomial(m, r, -1.0), scale, unit)


def _tanh(m: FloatMath, x: Reg) -> Reg:
    """t + t·P(t²)/Q(t²) below 0.625, 1 - 2/(e^2t + 1) from there on, with one division."""
    t = m.abs(x)
    z = x * x
    y = m.clamp(t, high=22.0)
    scale, r = _exp_parts(m, y + y, m.magic + 1023)
    raised = _exp_polynomial(m, r) * scale
    small = t < 0.625
    top = m.select(small, m.polynomial(z, _TANH_TOP) * z, -2.0)
    bottom = m.select(small, m.polynomial(z, _TANH_BOTTOM), raised + 1.0)
    base = m.select(small, t, 1.0)
    return m.or_sign(m.fma(base, top / bottom, base), x)


def _sinh(m: FloatMath, x: Reg) -> Reg:
    t = m.abs(x)
    scale, r = _exp_parts(m, m.clamp(t, high=711.0), m.magic + 1021)
    quarter = _exp_polynomial(m, r) * scale
    half = quarter - 0.0625 / quarter
    z = x * x
    series = m.polynomial(z, [1 / math.factorial(2 * k + 1) for k in range(9, 0, -1)])
    small = m.fma(series * z, t, t)
    large = half + half
    return m.copysign(m.select(t < 1.0, small, large), x)


def _cosh(m: FloatMath, x: Reg) -> Reg:
    scale, r = _exp_parts(m, m.clamp(m.abs(x), high=711.0), m.magic + 1021)
    quarter = _exp_polynomial(m, r) * scale
    half = quarter + 0.0625 / quarter
    return half + half


def log_split(m: FloatMath, x: Reg) -> tuple[Reg, Reg]:
    """f and the exponent, as a float: x = 2^exponent·(1 + f), denormals too."""
    tiny = x < 2.0**-1022
    scaled = m.select(tiny, x * 2.0**54, x)
    adjust = m.select(tiny, -54.0, 0.0)
    word = m.to_word(scaled)
    exponent = (word - _ROOT_HALF_WORD).ashr(52)
    significand = m.from_word(word - (exponent << 52))
    return significand - 1.0, m.small_integer(exponent) + adjust


def _log_parts(m: FloatMath, f: Reg) -> tuple[Reg, Reg]:
    """f²/2 and ln(1+f) - f + f²/2."""
    half_square = f * f * 0.5
    q = f / (f + 2.0)
    z = q * q
    w = z * z
    series = w * m.polynomial(w, _LOG_EVEN) + z * m.polynomial(w, _LOG_ODD)
    return half_square, q * (half_square + series)


def log_specials(m: FloatMath, result: Reg, x: Reg, zero: float = 0.0) -> Reg:
    """+inf and NaN as they are, -inf at the pole, NaN below it."""
    result = m.select(x < INFINITY, result, x)
    result = m.select(x < zero, NAN, result)
    return m.select(x.equals(zero), -INFINITY, result)


def _log_sum(m: FloatMath, f: Reg, exponent: Reg) -> Reg:
    """exponent·ln 2 + ln(1+f)."""
    half_square, rest = _log_parts(m, f)
    low = m.fma(exponent, _LN2_LOW, rest)
    return m.fma(exponent, _LN2_HIGH, f - (half_square - low))


def _log(m: FloatMath, x: Reg) -> Reg:
    f, exponent = log_split(m, x)
    return log_specials(m, _log_sum(m, f, exponent), x)


def _log_halves(m: FloatMath, f: Reg) -> tuple[Reg, Reg]:
    """ln(1+f) in two parts, of which the leading one has 21 bits."""
    half_square, rest = _log_parts(m, f)
    high = m.top_bits(f - half_square, 32)
    return high, f - high - half_square + rest


def _log2(m: FloatMath, x: Reg) -> Reg:
    """The leading part of ln(1+f) is short, so that its product with 1/ln 2 is exact."""
    f, exponent = log_split(m, x)
    high, low = _log_halves(m, f)
    lead = high * _INV_LN2_HIGH
    tail = m.fma(low, _INV_LN2_HIGH, (low + high) * _INV_LN2_LOW)
    total = exponent + lead
    tail = tail + m.sum_error(exponent, lead, total)
    return log_specials(m, total + tail, x)


def _log10(m: FloatMath, x: Reg) -> Reg:
    """As log2; the product of the exponent with the leading part of log10 2 is exact too."""
    f, exponent = log_split(m, x)
    high, low = _log_halves(m, f)
    tail = m.fma(low, _INV_LN10_HIGH, (low + high) * _INV_LN10_LOW)
    tail = m.fma(exponent, _LOG10_2_LOW, tail)
    lead, whole = high * _INV_LN10_HIGH, exponent * _LOG10_2_HIGH
    total = whole + lead
    return log_specials(m, total + (tail + m.sum_error(whole, lead, total)), x)


def _log1p(m: FloatMath, x: Reg) -> Reg:
    """x is scaled by the power of two that belongs to 1 + x; f then has one rounding."""
    word = m.to_word(x + 1.0)
    exponent = (word - _ROOT_HALF_WORD) & -(1 << 52)
    four_scaled = m.from_word(0x4010000000000000 - exponent)
    f = m.fma(x * four_scaled, 0.25, m.fma(four_scaled, 0.25, -1.0))
    n = m.small_integer(exponent.ashr(52))
    result = log_specials(m, _log_sum(m, f, n), x, -1.0)
    return m.keep_zero(result, x)


def _reduce(m: FloatMath, x: Reg) -> tuple[Reg, Reg, Reg]:
    """Remainder by pi/2 in two parts, and quadrant, for |x| < 2^20."""
    sum_ = m.fma(x, TWO_OVER_PI, m.magic)
    n = sum_ - m.magic
    if m.has_fma:
        first = m.fma(n, -1.57079632679489655800e00, x)
        product, lost = m.product(n, m.value(6.12323399573676603587e-17))
        minus = -product
        high = first + minus
        low = m.sum_error(first, minus, high) - lost
        low = m.fma(n, 1.4973849048591833e-33, low)
    else:
        # 33 bits of pi/2 a time, so that products with n are exact
        first = x - n * 1.57079632673412561417e00
        second = -(n * 6.07710050630396597660e-11)
        partial = first + second
        low = m.sum_error(first, second, partial)
        third = -(n * 2.02226624871116645580e-21)
        high = partial + third
        low = low + m.sum_error(partial, third, high)
        low = low - n * 8.47842766036889956997e-32
        total = high + low
        low = low - (total - high)
        high = total
    return high, low, m.to_word(sum_)


def _sin_cos(m: FloatMath, r: Reg, low: Reg) -> tuple[Reg, Reg]:
    """Sine and cosine of r + low, |r| up to pi/4."""
    z = r * r
    cube = z * r
    inner = m.fma(-cube, m.polynomial(z, _SIN), low * 0.5)
    sine = r - (m.fma(z, inner, -low) - cube * _SIN_FIRST)
    half = z * 0.5
    lead = 1.0 - half
    lost = 1.0 - lead - half
    tail = m.fma(z, m.polynomial(z, _COS) * z, -(r * low))
    return sine, lead + (lost + tail)


def _sin_kernel(m: FloatMath, r: Reg, low: Reg, quadrant: Reg) -> Reg:
    sine, cosine = _sin_cos(m, r, low)
    even = (quadrant & 1).equals(0)
    sign = (quadrant & 2) << 62
    return m.from_word(m.to_word(m.select(even, sine, cosine)) ^ sign)


def _cos_kernel(m: FloatMath, r: Reg, low: Reg, quadrant: Reg) -> Reg:
    return _sin_kernel(m, r, low, quadrant + 1)


def _tan_kernel(m: FloatMath, r: Reg, low: Reg, quadrant: Reg) -> Reg:
    sine, cosine = _sin_cos(m, r, low)
    odd = (quadrant & 1).differs(0)
    top = m.select(odd, -cosine, sine)
    return top / m.select(odd, sine, cosine)


def _angle(
    name: str, kernel: Callable[[FloatMath, Reg, Reg, Reg], Reg], is_odd: bool
) -> Callable[[FloatMath, Reg], Reg]:
    """A trigonometric function from its kernel on the reduced angle."""

    def cold(m: FloatMath, operands: Sequence[Reg]) -> Reg:
        (x,) = operands
        result = kernel(m, *reduce_huge(m.e, x))
        return m.select(m.abs(x) < INFINITY, result, NAN)

    def emit(m: FloatMath, x: Reg) -> Reg:
        common = kernel(m, *_reduce(m, x))
        if is_odd:
            common = m.keep_zero(common, x)
        huge = m.abs(x) >= HUGE_ANGLE
        return m.patch(huge, common, f"huge_{name}", cold, (x,))

    return emit


def _arctan(m: FloatMath, x: Reg) -> Reg:
    """Below 7/16 directly; up to 39/16 about 1; beyond, of the reciprocal."""
    t = m.abs(x)
    middle = t >= 0.4375
    large = t > 2.4375
    top = m.select(middle, t - 1.0, t)
    bottom = m.select(middle, t + 1.0, 1.0)
    u = m.select(large, -1.0, top) / m.select(large, t, bottom)
    offset = m.select(large, 1.5707963267948966, m.select(middle, 0.7853981633974483, 0.0))
    rest = m.select(large, 6.123233995736766e-17, m.select(middle, 3.061616997868383e-17, 0.0))
    z = u * u
    tail = m.fma(m.polynomial(z, _ARCTAN) * z, u, -rest)
    return m.or_sign(offset + (u - tail), x)


def _erf(m: FloatMath, x: Reg) -> Reg:
    t = m.abs(x)
    z = x * x
    small = m.fma(t, m.polynomial(z - _ERF_SMALL_AT, _ERF_SMALL), t)
    y = m.clamp(t, high=5.95)
    g = m.polynomial(y - _ERF_LARGE_AT, _ERF_LARGE)
    square, lost = m.product(y, y)
    exponent = square + g
    low = g - (exponent - square) + lost
    scale, r = _exp_parts(m, -exponent, m.magic + 1023)
    raised = _exp_polynomial(m, r) * scale
    raised = m.fma(raised, -low, raised)
    large = 1.0 - raised
    return m.or_sign(m.select(t < 1.0, small, large), x)


def _erfc(m: FloatMath, x: Reg) -> Reg:
    """1 - erf x near 0; else e^(-t²)·u·P(4u - 1), t = |x|, u = 1/(2 + t), or 2 minus that."""
    t = m.clamp(m.abs(x), high=27.3)
    u = 1.0 / (t + 2.0)
    curve = u * m.polynomial(m.fma(u, 4.0, -1.0), _ERFC)
    square, lost = m.product(t, t)
    tail = _exp_times(m, -square, m.fma(-lost, curve, curve))
    large = m.select(x < 0.0, 2.0 - tail, tail)
    z = x * x
    small = 1.0 - m.fma(x, m.polynomial(z - _ERF_SMALL_AT, _ERF_SMALL), x)
    return m.select(t < 0.8125, small, large)


def _power(m: FloatMath, x: Reg, y: Reg) -> Reg:
    """e^(y·ln|x|) with the logarithm to twice the precision, then C's special values."""
    f, exponent = log_split(m, m.abs(x))
    # ln(1+f) = 2(s + s³/3 + s^5/5 + ...), s = f/(2+f) in two parts
    g = f + 2.0
    g_low = f - (g - 2.0)
    inverse = 1.0 / g
    s = f * inverse
    # the remainder f - s·(g + g_low), to twice the precision
    back, back_low = m.product(s, g)
    remainder = f - back - back_low - s * g_low
    s_low = inverse * remainder
    z, z_low = m.product(s, s)
    z_low = m.fma(s + s, s_low, z_low)
    series = z * m.polynomial(z, [2 / k for k in range(25, 3, -2)])
    two_thirds = 2 / 3
    p = series + two_thirds
    p_low = series - (p - two_thirds) + float.fromhex("0x1.5555555555555p-55")
    v, v_low = m.product(z, p)
    v_low = m.fma(z, p_low, m.fma(z_low, p, v_low))
    w, w_low = m.product(s, v)
    w_low = m.fma(s_low, v, m.fma(s, v_low, w_low))
    double = s + s
    high = double + w
    low = m.fma(s_low, 2.0, w - (high - double) + w_low)
    lead = exponent * _LN2_HIGH
    total = lead + high
    low = m.sum_error(lead, high, total) + exponent * _LN2_LOW + low
    log = total + low
    log_low = low - (log - total)
    t, t_low = m.product(y, log)
    t_low = m.fma(y, log_low, t_low)
    t_low = m.select(m.abs(t) < 800.0, t_low, 0.0)
    raised = _exp_of(m, m.clamp(t, -746.0, 710.0), t_low)
    return power_specials(m, raised, x, y)


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
