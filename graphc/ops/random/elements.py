"""What random words are made into: formulas over scalars with the same bits on every target.

All primitives of these formulas are exact.
"""

from __future__ import annotations

import numpy as np

from graphc.ir.dtypes import DType, float32, uint64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ops.lanes import Lane, polynomial

# --- functions of floats that are the same on every target ---------------------------------------

_LOG_32 = (-0.130310059, 0.140869141, -0.121483512, 0.139814854, -0.166846126, 0.200120345,
           -0.249996200, 0.333331972, -0.5)  # fmt: skip
_LOG_64 = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
           2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
           6.666666666666735130e-01)  # fmt: skip
_LN2_32 = (0.693359375, -2.12194440e-4)
_LN2_64 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)


def log_near_one(f: Lane) -> Lane:
    """log(1 + f) for f from -1/3 to 0.42, less than what ``log_scaled`` adds for an exponent.

    float64 is FDLIBM's series in f / (2 + f), float32 a polynomial.
    """
    square = f * f
    if f.dtype is float32:
        # the two leading coefficients are those of powers 8 and 9
        return square * polynomial(f, _LOG_32) + f
    s = f / (f + 2.0)
    z = s * s
    half = square * 0.5
    return f - (half - s * (half + z * polynomial(z, _LOG_64)))


def split(x: Lane) -> tuple[Lane, Lane]:
    """f and e with x = (1 + f) * 2**e, for positive normal x; 1 + f is around 1."""
    single = x.dtype is float32
    root, fraction = (0x3F2AAAAB, 23) if single else (0x3FE6A09E667F3BCD, 52)
    word = x.of("word")
    signed = word.to(as_dtype(f"int{word.dtype.bits}"))
    exponent = (signed - root) >> fraction
    rest = (signed - (exponent << fraction)).to(word.dtype).of("from_word")
    return rest - 1.0, exponent.to(x.dtype)


def log_scaled(f: Lane, e: Lane) -> Lane:
    """log((1 + f) * 2**e)."""
    high, low = _LN2_32 if f.dtype is float32 else _LN2_64
    return (log_near_one(f) + e * low) + e * high


def log_of(x: Lane) -> Lane:
    """The logarithm of a positive normal number, within 2 units in the last place."""
    return log_scaled(*split(x))


def log_any(x: Lane) -> Lane:
    """The logarithm of any number, as NumPy has it at zeros, infinities and NaN."""
    least, fraction = (2.0**-126, 23) if x.dtype is float32 else (2.0**-1022, 52)
    is_small = x.of("less", least)
    scaled = is_small.where(x * 2.0 ** (fraction + 1), x)
    f, e = split(scaled)
    result = log_scaled(f, is_small.where(e - (fraction + 1.0), e))
    result = x.of("less", float("inf")).where(result, x)
    result = x.of("equal", 0.0).where(float("-inf"), result)
    return x.of("less", 0.0).where(float("nan"), result)


_EXP_64 = tuple(1 / float(np.prod(np.arange(1.0, k + 1))) for k in range(13, -1, -1))


def exp_any(x: Lane) -> Lane:
    """e**x of float64 within 2 units; what is below -708 gives 0, above 709.7 infinity."""
    bounded = x.of("minimum", 709.7).of("maximum", -708.0)
    n = (bounded * 1.4426950408889634).of("round")
    rest = (bounded - n * _LN2_64[0]) - n * _LN2_64[1]
    # two factors, for 2**1024 is no number
    half = (n * 0.5).of("floor")
    power = polynomial(rest, _EXP_64) * _power_of_two(half) * _power_of_two(n - half)
    power = x.of("greater", 709.7).where(float("inf"), power)
    return x.of("less", -708.0).where(0.0, power)


def _power_of_two(n: Lane) -> Lane:
    """2**n of a whole float64 from -1022 to 1023."""
    return ((n + 1023.0).to(uint64) << 52).of("from_word")


# --- what a random word is taken for -------------------------------------------------------------


def _middle(word: Lane, dtype: DType) -> Lane:
    """(word + 1/2) / 2**bits, in (0, 1]; above 1/2 rounding may give 1."""
    return (word.to(dtype) + 0.5) * 2.0**-word.dtype.bits


def minus_log(word: Lane, dtype: DType) -> Lane:
    """-log u of u = (word + 1/2) / 2**bits: exponential, and never 0.

    Near 1, u is taken by what is missing to 1, which is known exactly; so both tails have all bits
    of the word.
    """
    bits = word.dtype.bits
    f, e = split(_middle(word, dtype))
    # three quarters: from there on the exponent of the split is 0
    is_near = word.of("greater_equal", 3 << (bits - 2))
    near = -_middle(~word, dtype)
    return -log_scaled(is_near.where(near, f), is_near.where(0.0, e))


_SIN_32 = (2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1)
_COS_32 = (2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.0e-1)
_SIN_64 = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
           -1.98412698298579493134e-04, 8.33333333332248946124e-03,
           -1.66666666666666324348e-01)  # fmt: skip
_COS_64 = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
           2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
           -5.0e-1)  # fmt: skip


def cos_sin(word: Lane, dtype: DType) -> tuple[Lane, Lane]:
    """Cosine and sine of an angle that is uniform in a turn; neither is ever 0.

    The two leading bits say the quadrant, the others an angle of up to an eighth of a turn on both
    sides, so that no reduction loses bits.
    """
    bits = word.dtype.bits
    signed = as_dtype(f"int{bits}")
    angle = ((word << 2).to(signed).to(dtype) + 2.0) * (np.pi / 4 * 2.0 ** (1 - bits))
    square = angle * angle
    sines, cosines = (_SIN_32, _COS_32) if dtype is float32 else (_SIN_64, _COS_64)
    sine = polynomial(square, sines) * square * angle + angle
    cosine = polynomial(square, cosines) * square + 1.0
    top = 1 << (bits - 1)
    swapped = ((word << 1) & top).of("not_equal", 0)
    x, y = swapped.where(sine, cosine), swapped.where(cosine, sine)
    return (
        (x.of("word") ^ ((word ^ (word << 1)) & top)).of("from_word"),
        (y.of("word") ^ (word & top)).of("from_word"),
    )
