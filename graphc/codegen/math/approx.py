"""The faster, less accurate functions: name -> emitter of code for any number of lanes.

Right at NaN, infinities and signed zeros, within ``MAX_ULP`` and within their range elsewhere, like
the others; only denormal results may be 0. Polynomials and quotients of polynomials are relative
minimax fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.math import f32, f64
from graphc.codegen.math.common import HUGE_ANGLE, LOG2_E, FloatMath

_LN2 = 0.6931471805599453
_ONE_OVER_PI = 0.3183098861837907

# (e^r - 1 - r) / r² for |r| up to half of ln 2
_EXP_32 = (0.008312479592859745, 0.04189055413007736, 0.16667115688323975, 0.4999922811985016)
# the same for e^r - 1, whose relative error counts
_EXPM1_64 = (
    2.5053778205376832e-08, 2.762609269690796e-07, 2.755740767778076e-06, 2.480150514304721e-05,
    0.00019841269718720824, 0.0013888888931666813, 0.008333333333389727, 0.041666666666576466,
    0.16666666666666588, 0.5000000000000006,
)  # fmt: skip
# ln 2 in two parts; the high one times an exponent is exact
_LN2_32 = (0.693145752, 1.42860677e-6)
_LN2_64 = (0.6931471803691238, 1.9082149292705877e-10)
# (ln(1+f) - f) / f² for f in [-1/3, 1/3]
_LOG_32 = (
    -0.15266668796539307, 0.16990558803081512, -0.1644083708524704, 0.19818168878555298,
    -0.2500632107257843, 0.33336734771728516, -0.49999961256980896,
)  # fmt: skip
# (artanh q / q - 1) / q² in powers of q², for 1 + f = (1 + q) / (1 - q) from [sqrt 1/2, sqrt 2)
_ARTANH_64 = (
    0.07308439459514911, 0.07665843434319214, 0.09091445085156985, 0.11111105560224649,
    0.1428571431303169, 0.19999999999949655, 0.3333333333333335,
)  # fmt: skip
# (sin r / r - 1) / r² in powers of r², for |r| up to 1.6
_SIN_32 = (
    2.6001703190559056e-06, -0.00019807158969342709, 0.008333034813404083, -0.16666658222675323,
)  # fmt: skip
_SIN_64 = (
    2.72848526429958e-15, -7.643728492315687e-13, 1.605896959588758e-10, -2.5052107495717588e-08,
    2.755731921819272e-06, -0.00019841269841251312, 0.00833333333333331, -0.16666666666666666,
)  # fmt: skip
# pi in three parts, none negative, as -0 must stay; multiples of the first are taken off exactly
_PI_32 = (3.141590118408203, 2.535181465646019e-06, 1.2446743939339977e-13)
_PI_64 = (3.1415926534682512, 1.2154201013012384e-10, 7.0431197303664e-27)
# tanh x / x and erf x / x as quotients in powers of x²
_TANH_TOP = (
    1.335409582003867e-08, 2.0608714806627114e-05, 0.0034955679787628063, 0.13381009494737495,
    0.9999999794955763,
)  # fmt: skip
_TANH_BOTTOM = (
    7.776338056519043e-07, 0.00032856002552271126, 0.02587690806321461, 0.46714325114703836, 1.0,
)  # fmt: skip
_ERF_TOP = (
    2.041800757630359e-06, 0.00028479131324707086, 0.0037794533038840463, 0.05278973155677141,
    0.1907820982530048, 1.1283791454150331,
)  # fmt: skip
_ERF_BOTTOM = (
    3.8001411581828444e-05, 0.0011651497184952014, 0.014997126171651496, 0.11425651358158036,
    0.5024089533243674, 1.0,
)  # fmt: skip
# e^(t²)·erfc(t)·(1 + t) in powers of (1 - t) / (1 + t), from 0 to where erfc is 0
_ERFC_32 = (
    -0.00033041666, 0.000755639107, 0.000184360455, -0.0024812643, 0.00387502741, -0.00117888593,
    -0.00960230269, 0.0253884885, -0.013902545, -0.0955559909, 0.237680718, 0.85516715,
)  # fmt: skip
# from here on the quotients are 1
_TANH_END, _ERF_END = 8.9, 3.92


def _half_scale_and_rest(
    m: FloatMath, y: Reg, ln2: Sequence[float], sign: float = 1.0
) -> tuple[Reg, Reg]:
    """2^(n-1) and r such that e^(sign·y) is 2^n·e^(sign·r); ``ln2`` is ln 2 in parts."""
    magic = m.magic + (m.format.bias - 1)
    sum_ = m.fma(y, LOG2_E * sign, magic)
    n = sum_ - magic
    r = y
    for part in ln2:
        r = m.fma(n, -part * sign, r)
    return m.power_of_two(m.to_word(sum_)), r


def _sigmoid_32(m: FloatMath, x: Reg) -> Reg:
    """1 / (1 + e^-x), whose denominator may be infinite.

    The polynomial gives twice e^-r: with it a power of two of half the size suffices, which is a
    number.
    """
    # with FMA, ln 2 of one part is near enough for the magnitudes of float32
    ln2 = (_LN2,) if m.has_fma else _LN2_32
    half, r = _half_scale_and_rest(m, m.clamp(x, -89.0, 60.0), ln2, -1.0)
    coefficients = (*_EXP_32, 1.0, 1.0)
    top = len(coefficients) - 1
    signed = [2.0 * c * (-1.0) ** (top - i) for i, c in enumerate(coefficients)]
    return 1.0 / m.fma(m.polynomial(r, signed), half, 1.0)


def _tanh_64(m: FloatMath, x: Reg) -> Reg:
    """(e^2t - 1) / (e^2t + 1), t the magnitude."""
    t = m.clamp(m.abs(x), high=22.0)
    half, r = _half_scale_and_rest(m, t + t, _LN2_64)
    curve = m.polynomial(r, [2.0 * c for c in _EXPM1_64])
    reduced = m.fma(curve, r * r, r + r)
    top = m.fma(reduced, half, half + half + -1.0)
    return m.or_sign(top / (top + 2.0), x)


def _bounded(m: FloatMath, result: Reg) -> Reg:
    """Within [-1, 1], as users rely on who take ``sqrt(1 - y * y)`` of it."""
    return m.clamp(result, -1.0, 1.0)


def _quotient(
    top: Sequence[float], bottom: Sequence[float], end: float
) -> Callable[[FloatMath, Reg], Reg]:
    """An odd function that is 1 from ``end`` on."""

    def emit(m: FloatMath, x: Reg) -> Reg:
        y = m.clamp(x, -end, end)
        z = y * y
        return _bounded(m, m.polynomial(z, top) * y / m.polynomial(z, bottom))

    return emit


def _erfc_32(m: FloatMath, x: Reg) -> Reg:
    """e^(-t²)·u·P(2u - 1), t = |x|, u = 1/(1 + t), or 2 minus that."""
    t = m.clamp(m.abs(x), high=10.1)
    u = 1.0 / (t + 1.0)
    curve = u * m.polynomial(m.fma(u, 2.0, -1.0), _ERFC_32)
    square, lost = m.product(t, t)
    factor = m.fma(-lost, curve, curve)
    tail = f32.exp_times(m, -square, factor, _EXP_32)
    return m.select(x < 0.0, 2.0 - tail, tail)


def _log_32(m: FloatMath, x: Reg) -> Reg:
    f, exponent = f32.log_split(m, x)
    near = m.fma(m.polynomial(f, _LOG_32), f * f, f)
    return f32.log_specials(m, m.fma(exponent, _LN2, near), x)


def _log_64(m: FloatMath, x: Reg) -> Reg:
    """2·artanh(f / (2 + f))."""
    f, exponent = f64.log_split(m, x)
    q = f / (f + 2.0)
    z = q * q
    twice = q + q
    near = m.fma(m.polynomial(z, _ARTANH_64) * z, twice, twice)
    return f64.log_specials(m, m.fma(exponent, _LN2, near), x)


def _sine(
    m: FloatMath, x: Reg, shift: float, pi: Sequence[float], coefficients: Sequence[float]
) -> Reg:
    """sin(x + shift·pi) for |x| below ``HUGE_ANGLE``: of the distance to the nearest zero.

    Without FMA the multiples of pi would be rounded; there the accurate function does it.
    """
    turns: Reg = m.value(_ONE_OVER_PI)
    sum_ = m.fma(x, turns, m.magic) if not shift else m.fma(x, turns, shift) + m.magic
    n = sum_ - m.magic
    if shift:
        n = n - shift
    r = x
    for part in pi:
        r = m.fma(n, -part, r)
    z = r * r
    # a product and no sum at last, so that the sign of zero stays
    sine = _bounded(m, r * m.polynomial(z, (*coefficients, 1.0)))
    sign = m.to_word(sum_) << (m.bits - 1)
    return m.from_word(m.to_word(sine) ^ sign)


def _angle(
    name: str,
    shift: float,
    pi: Sequence[float],
    coefficients: Sequence[float],
    accurate: Callable[..., Reg],
) -> Callable[[FloatMath, Reg], Reg]:
    """sin (no shift) or cos (half a turn of pi); ``accurate`` is the function for huge angles."""

    def cold(m: FloatMath, operands: Sequence[Reg]) -> Reg:
        return accurate(m, *operands)

    def emit(m: FloatMath, x: Reg) -> Reg:
        if not m.has_fma:
            return accurate(m, x)
        huge = m.abs(x) >= HUGE_ANGLE
        return m.patch(huge, _sine(m, x, shift, pi, coefficients), f"any_{name}", cold, (x,))

    return emit


SINGLE: dict[str, Callable[..., Reg]] = {
    "log_approx": _log_32,
    "tanh_approx": _quotient(_TANH_TOP, _TANH_BOTTOM, _TANH_END),
    "sigmoid_approx": _sigmoid_32,
    "erf_approx": _quotient(_ERF_TOP, _ERF_BOTTOM, _ERF_END),
    "erfc_approx": _erfc_32,
    "sin_approx": _angle("sin", 0.0, _PI_32, _SIN_32, f32.FUNCTIONS["sin"]),
    "cos_approx": _angle("cos", 0.5, _PI_32, _SIN_32, f32.FUNCTIONS["cos"]),
}

DOUBLE: dict[str, Callable[..., Reg]] = {
    "log_approx": _log_64,
    "tanh_approx": _tanh_64,
    "sigmoid_approx": f64.FUNCTIONS["sigmoid"],
    "erf_approx": f64.FUNCTIONS["erf"],
    "erfc_approx": f64.FUNCTIONS["erfc"],
    "sin_approx": _angle("sin", 0.0, _PI_64, _SIN_64, f64.FUNCTIONS["sin"]),
    "cos_approx": _angle("cos", 0.5, _PI_64, _SIN_64, f64.FUNCTIONS["cos"]),
}
