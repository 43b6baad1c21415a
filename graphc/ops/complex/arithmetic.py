"""Arithmetic and comparisons of complex numbers, by their parts.

Quotients are those of R. L. Smith, Algorithm 116 (CACM 5, 1962), as in NumPy: the divisor is scaled
by the larger of its parts, so that squares neither overflow nor vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import bool_
from graphc.ir.op import OpDef
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, imag_op, joined, real_op


def complex_product(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """(a + ib)(c + id), four products."""
    (a, b), (c, d) = map(halves, operands)
    return joined(a * c - b * d, a * d + b * c)


def complex_quotient(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """(a + ib) / (c + id); by zero each part is divided, as NumPy does."""
    where, size = surface_function("where"), surface_function("abs")
    (a, b), (c, d) = map(halves, operands)
    is_wide = size(c) >= size(d)
    long, short = where(is_wide, c, d), where(is_wide, d, c)
    ratio = short / long
    scale = 1 / (long + short * ratio)
    re = where(is_wide, a + b * ratio, a * ratio + b) * scale
    im = where(is_wide, b - a * ratio, b * ratio - a) * scale
    by_zero = surface_function("bitwise_and")(is_wide, surface_function("equal")(c, 0))
    zero = size(c)
    return joined(where(by_zero, a / zero, re), where(by_zero, b / zero, im))


def complex_size(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The length of z, without overflow on the way."""
    result: Value = surface_function("hypot")(*halves(operands[0]))
    return result


def complex_sign(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """z / |z|, and 0 at 0."""
    (value,) = operands
    where = surface_function("where")
    is_zero = surface_function("equal")(value, 0)
    length = where(is_zero, 1, surface_function("abs")(value))
    return joined(*(where(is_zero, 0, part / length) for part in halves(value)))


def of_both_parts(combine: str) -> Callable[[OpDef, Sequence[Value], Attributes], Value]:
    """The operation on each part, whose bools are combined."""

    def rule(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
        by_part = [
            apply(op, *[apply(part, operand) for operand in operands], **attrs)
            for part in (real_op, imag_op)
        ]
        result: Value = surface_function(combine)(*by_part)
        return result

    return rule


both = of_both_parts("bitwise_and")
either = of_both_parts("bitwise_or")


def complex_conversion(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """To another complex dtype part by part, to bool by comparison with 0."""
    (value,), target = operands, attrs["dtype"]
    if target is bool_:
        result: Value = surface_function("not_equal")(value, 0)
        return result
    assert target.is_complex, "the surface refuses what would lose imaginary parts"
    re, im = (apply(op, part, dtype=target.part) for part in halves(value))
    return joined(re, im)
