"""The cube root, for both float widths: no division, and no exponent taken apart.

A third of the word of x, taken from a constant, is the word of about x^(-1/3) = z, to 3.5 % (as for
square roots: Lomont, Fast inverse square root, 2003). A polynomial of x·z³, which is near 1, makes
that right to 2^-18 in float32 and 2^-32 in float64; a step of Newton's method for y = x·z² doubles
the digits. P is a relative minimax fit of w^(-1/3) on [0.90, 1.11].
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.math.common import INFINITY, FloatMath

_NEAR_ONE = {
    32: (-0.1720840027028046, 0.740004313931803, -1.297098205586436, 1.7291758585801502),
    64: (
        0.10994606012372352, -0.786359646163344, 2.4266665294402414, -4.214820581987699,
        4.521090254426862, -3.1655963568766516, 2.109073741082369,
    ),
}  # fmt: skip
_FIRST_WORD = {32: float(0x54A24000), 64: float(0x553EF2AB)}
_THIRD = 1 / 3

_SMALL = {32: 2.0**-80, 64: 2.0**-900}
"""Below these, residuals would lose digits as denormal numbers."""
_GROWS = {32: 2.0**48, 64: 2.0**150}
_SHRINKS = {32: 2.0**-16, 64: 2.0**-50}


def _guess(m: FloatMath, size: Reg) -> Reg:
    """About size^(-1/3), by the word, or the upper half of a long one."""
    e, word = m.e, m.to_word(size)
    if m.bits == 64:
        word = e.convert("trunc", word >> 32, "i32")
    number = e.convert("sitofp", word, m.type.element)
    first = e.convert("fptosi", m.fma(number, -_THIRD, _FIRST_WORD[m.bits]), "i32")
    if m.bits == 64:
        first = e.convert("zext", first, "i64") << 32
    return m.from_word(first)


def _cbrt(m: FloatMath, x: Reg) -> Reg:
    magnitude = m.abs(x)
    small = magnitude < _SMALL[m.bits]
    size = m.select(small, magnitude * _GROWS[m.bits], magnitude)
    first = _guess(m, size)
    # in this order no product leaves the range
    near_one = size * first * first * first
    inverse = first * m.polynomial(near_one, _NEAR_ONE[m.bits])
    square = inverse * inverse
    root = size * square
    excess = m.fma(root * root, root, -size)
    root = m.fma(excess, square * -_THIRD, root)
    root = m.select(small, root * _SHRINKS[m.bits], root)
    return m.select(magnitude < INFINITY, m.or_sign(root, x), x)


FUNCTIONS: dict[str, Callable[..., Reg]] = {"cbrt": _cbrt}
