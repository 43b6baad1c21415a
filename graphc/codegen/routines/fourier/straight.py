"""Butterflies: short transforms in registers, as straight-line code; each lane has another one.

A complex element is a pair of registers. A composite length goes by its factors (J. W. Cooley and
J. W. Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965). A prime
one goes by sums and differences of the elements n and p - n, which take half the products (R. C.
Singleton, "An algorithm for computing the mixed radix fast Fourier transform", 1969).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg

Complex: TypeAlias = tuple[Reg, Reg]
"""A real and an imaginary part."""


def times(f: Builder, x: Complex, w: Complex) -> Complex:
    """The product of two complex elements."""
    return f.fma(-x[1], w[1], x[0] * w[0]), f.fma(x[1], w[0], x[0] * w[1])


def _plus(x: Complex, y: Complex) -> Complex:
    return x[0] + y[0], x[1] + y[1]


def _minus(x: Complex, y: Complex) -> Complex:
    return x[0] - y[0], x[1] - y[1]


def _twiddled(f: Builder, x: Complex, exponent: int, order: int) -> Complex:
    """Times the twiddle factor exp(-2πi · exponent / order); fourth roots of unity are exact."""
    angle = Fraction(exponent, order) % 1
    if angle == 0:
        return x
    if angle == Fraction(1, 4):
        return x[1], -x[0]
    if angle == Fraction(1, 2):
        return -x[0], -x[1]
    if angle == Fraction(3, 4):
        return -x[1], x[0]
    type_ = x[0].type
    cosine, sine = root(angle)
    return times(f, x, (f.const(cosine, type_), f.const(sine, type_)))


def root(turns: Fraction) -> tuple[float, float]:
    """The parts of exp(-2πi · turns), reduced to an octant."""
    turns %= 1
    eighth = int(8 * turns)
    rest = 8 * turns - eighth
    angle = math.pi / 4 * float(1 - rest if eighth % 2 else rest)
    cosine, sine = math.cos(angle), math.sin(angle)
    if (eighth + 1) & 2:
        cosine, sine = sine, cosine
    return (-cosine if (eighth + 2) & 4 else cosine), (sine if eighth & 4 else -sine)


def transform(f: Builder, x: Sequence[Complex]) -> list[Complex]:
    """The transform of as many elements as there are, in order."""
    count = len(x)
    if count == 1:
        return list(x)
    if count == 2:
        return [_plus(x[0], x[1]), _minus(x[0], x[1])]
    if count == 4:
        return _four(x)
    inner = next((n for n in (4, 2, 3, 5, 7) if count % n == 0 and count > n), 0)
    if not inner:
        return _prime(f, x)
    outer = count // inner
    # columns, twiddle factors, rows
    columns = [transform(f, x[first::outer]) for first in range(outer)]
    result: list[Complex] = [x[0]] * count
    for place in range(inner):
        row = [_twiddled(f, columns[n][place], n * place, count) for n in range(outer)]
        result[place::inner] = transform(f, row)
    return result


def _four(x: Sequence[Complex]) -> list[Complex]:
    even, far = _plus(x[0], x[2]), _minus(x[0], x[2])
    odd, near = _plus(x[1], x[3]), _minus(x[1], x[3])
    return [
        _plus(even, odd),
        (far[0] + near[1], far[1] - near[0]),
        _minus(even, odd),
        (far[0] - near[1], far[1] + near[0]),
    ]


def _prime(f: Builder, x: Sequence[Complex]) -> list[Complex]:
    count, type_ = len(x), x[0][0].type
    half = range(1, count // 2 + 1)
    sums = [_plus(x[n], x[-n]) for n in half]
    differences = [_minus(x[n], x[-n]) for n in half]
    total = x[0]
    for element in sums:
        total = _plus(total, element)
    result = [total] * count
    for place in half:
        real, imaginary = x[0]
        across, down = f.zeros(type_), f.zeros(type_)
        for n in half:
            cosine, sine = root(Fraction(n * place, count))
            c, s = f.const(cosine, type_), f.const(-sine, type_)
            real = f.fma(sums[n - 1][0], c, real)
            imaginary = f.fma(sums[n - 1][1], c, imaginary)
            first = n == 1
            across = differences[0][1] * s if first else f.fma(differences[n - 1][1], s, across)
            down = differences[0][0] * s if first else f.fma(differences[n - 1][0], s, down)
        result[place] = real + across, imaginary - down
        result[count - place] = real - across, imaginary + down
    return result


__all__ = ["Complex", "root", "times", "transform"]
