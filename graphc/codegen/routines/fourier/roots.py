"""Roots of unity, each from its exponent in double precision: the twiddle factors of tables.

The angle is reduced to an octant by integers, so the reduction and the eighth roots of unity are
exact. What is left is the sum of two floats, whose sine and cosine are Taylor series.
"""

from __future__ import annotations

import math
from fractions import Fraction

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import ltype
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.straight import Complex

_QUARTER_PI = math.pi / 4, 3.061616997868383e-17
"""π / 4 as the sum of two floats."""
_SINE = [float(Fraction((-1) ** n, math.factorial(2 * n + 1))) for n in range(1, 9)]
_COSINE = [float(Fraction((-1) ** n, math.factorial(2 * n))) for n in range(2, 9)]
_LANES = 8


def emit_roots(
    module: ModuleEmitter, name: str, v: Vectors, *, squares: bool = False, apart: bool = False
) -> str:
    """Defines (target, count, factor, order): pairs, the roots of unity of an order with exponents
    ``factor · n``.

    Of ``squares`` exponents are n · n modulo the order. Where they stand ``apart``, real parts are
    written before imaginary ones, and the count is that of lanes.
    """
    if module.has(name):
        return name
    f = Builder(module, name, "*target count factor order")
    target, count, factor, order = f.given("target", "count", "factor", "order")
    whole = count.down_to(_LANES)
    for lower, upper, lanes in ((f.const(0), whole, _LANES), (whole, count, 1)):
        with f.loop(lower, upper, lanes) as loop:
            places = f.splat(loop.index, lanes) + f.iota(ltype("i64", lanes))
            around = f.splat(order, lanes)
            if squares:
                exponents = f.binary("urem", places * places, around)
            else:
                exponents = places * f.splat(factor, lanes)
            real, imaginary = (
                part if v.dtype.bits == 64 else f.convert("fptrunc", part, v.element.text)
                for part in _root(f, exponents, around)
            )
            size = v.dtype.bytes
            if apart:
                f.store(real, v.at(f, target, loop.index), size)
                f.store(imaginary, v.at(f, target, loop.index, v.lanes), size)
            elif lanes == 1:
                place = v.at(f, target, loop.index * 2)
                f.store(real, place, size)
                f.store(imaginary, v.at(f, place, 1), size)
            else:
                lines = [n for lane in range(lanes) for n in (lane, lane + lanes)]
                pairs = f.shuffled(real, imaginary, lines)
                f.store(pairs, v.at(f, target, loop.index * 2), size)
    f.finish()
    return name


def _root(f: Builder, exponents: Reg, order: Reg) -> Complex:
    """exp(-2πi · exponent / order) of int64s, of which eight times any is exact as a float."""
    around = f.convert("sitofp", order, "double")
    eights = f.convert("sitofp", exponents * 8, "double")
    eighth = f.convert("fptosi", eights / around, "i64")
    odd = (eighth & 1).differs(0)
    rest = f.convert("sitofp", exponents * 8 - eighth * order, "double")
    rest = f.select(odd, around - rest, rest)
    high, low = (f.const(part, rest.type) for part in _QUARTER_PI)
    ratio = rest / around
    error = f.fma(-ratio, around, rest) / around
    angle = ratio * high
    less = f.fma(ratio, high, -angle) + f.fma(error, high, ratio * low)
    square = angle * angle
    sine_tail, cosine_tail = (_series(f, square, terms) for terms in (_SINE, _COSINE))
    half = square * 0.5
    most = 1.0 - half
    sine = angle + f.fma(angle * square, sine_tail, less * most)
    cosine = most + (((1.0 - most) - half) + f.fma(square * square, cosine_tail, -(angle * less)))
    swaps = ((eighth + 1) & 2).differs(0)
    real, imaginary = f.select(swaps, sine, cosine), f.select(swaps, cosine, sine)
    real = f.select(((eighth + 2) & 4).differs(0), -real, real)
    return real, f.select((eighth & 4).differs(0), imaginary, -imaginary)


def _series(f: Builder, x: Reg, terms: list[float]) -> Reg:
    result = f.const(terms[-1], x.type)
    for term in reversed(terms[:-1]):
        result = f.fma(result, x, f.const(term, x.type))
    return result


__all__ = ["emit_roots"]
