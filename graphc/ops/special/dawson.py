"""Dawson's integral and the error function of an imaginary argument.

Source: Rybicki's sum over e^(-(x - n/4)²) / n, n odd, whose error is e^(-(2 pi)²) (Computers in
Physics 3, 85 (1989)); the terms of n and -n are joined, so that all are positive. From 8 on it is
the asymptotic series (DLMF 7.12.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ir.builder import apply
from graphc.ir.value import Value
from graphc.ops.declare import float_operand
from graphc.ops.lanes import Lane, polynomial, repeated
from graphc.ops.pointwise.math import exp
from graphc.ops.special.declared import by_formula, squared_apart

_STEP = 0.25
_FAR = 8.0
_ROOT_PI = math.sqrt(math.pi)
_ROWS = [(n * _STEP, 1 / (n * _ROOT_PI)) for n in range(1, 59, 2)]
# of 2x times the integral, in 1/(2x²)
_SERIES = tuple(math.prod(range(1, 2 * k, 2)) * 1.0 for k in range(18, -1, -1))


def dawson_of(x: Lane) -> Lane:
    """e^(-x²) times the integral of e^(t²) up to x."""
    size = x.of("abs")
    some = size.of("minimum", _FAR)

    def added(state: Sequence[Lane], place: Lane, share: Lane) -> Sequence[Lane]:
        (total,) = state
        apart = some - place
        pair = -(some * place * -4.0).of("expm1")
        return (total + (-(apart * apart)).of("exp") * pair * share,)

    (near,) = repeated(_ROWS, [x.like(0.0)], added)
    half = 0.5 / size
    far = half * polynomial(half / size, _SERIES)
    result = size.of("less", _FAR).where(near, far).of("copysign", x)
    # small ones would be lost beside 1
    return size.of("less", 1e-9).where(x, result)


def _erfi(x: Lane) -> Lane:
    size = x.of("abs")
    square, rest = squared_apart(size.of("minimum", 30.0))
    root = (square * 0.5).of("exp")
    result = dawson_of(x) * (2 / _ROOT_PI) * rest.of("exp") * root * root
    return size.of("greater", 30.0).where(x.like(math.inf).of("copysign", x), result)


dawsn_op = by_formula(
    "dawsn", "exp(-x * x) times the integral of exp(t * t) from 0 to x.", dawson_of,
    partials=lambda inputs, output, attrs: (1 - inputs[0] * output * 2,), max_ulp=7.0, weight=40,
)  # fmt: skip
erfi_op = by_formula(
    "erfi", "2 / sqrt(pi) times the integral of exp(t * t) from 0 to x.", _erfi,
    partials=lambda inputs, output, attrs: (exp(inputs[0] * inputs[0]) * (2 / _ROOT_PI),),
    differentiable=(-1.5, 1.5), max_ulp=9.0, weight=42,
)  # fmt: skip


def dawsn(x: Any) -> Value:
    """Dawson's integral: exp(-x * x) times that of exp(t * t) from 0 to x; integers give floats."""
    return apply(dawsn_op, float_operand(x))


def erfi(x: Any) -> Value:
    """The error function of i x by i, which overflows from 26.7 on; integers give floats."""
    return apply(erfi_op, float_operand(x))


__all__ = ["dawsn", "erfi"]
