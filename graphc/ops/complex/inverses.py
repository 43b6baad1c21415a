"""Inverse trigonometric and hyperbolic functions of complex numbers.

Source: W. Kahan, Branch cuts for complex elementary functions (1987), by square roots of 1 + z and
1 - z. Special values are those of C99's Annex G.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.elementary import Parts, of_parts, sqrt_parts, turned


def _call(name: str, *operands: Any) -> Value:
    result: Value = surface_function(name)(*operands)
    return result


def _where(condition: Value, x: Any, y: Any) -> Value:
    return _call("where", condition, x, y)


def _is_endless(x: Value, y: Value) -> Value:
    return _call("isinf", x) | _call("isinf", y)


def _direction(x: Value, y: Value) -> Parts:
    """Where an infinite number lies: each part as 0 or 1 with its sign, NaN where it is NaN."""

    def one(part: Value) -> Value:
        size = _where(_call("isinf", part), 1, _where(_call("isnan", part), part, 0))
        return _call("copysign", size, part)

    return one(x), one(y)


def _endless(like: Value) -> Value:
    return _call("full_like", like, math.inf)


def arcsin_parts(x: Value, y: Value) -> Parts:
    """The angle of x and Re √(1-z)√(1+z); arsinh of Im conj(√(1-z)) √(1+z)."""
    (a, b), (c, d) = sqrt_parts(1.0 - x, -y), sqrt_parts(x + 1.0, y)
    re = _call("arctan2", x, a * c - b * d)
    im = _call("copysign", _call("arcsinh", a * d - b * c), y)
    right, up = _direction(x, y)
    endless = _is_endless(x, y)
    re = _where(endless, _call("arctan2", right, _call("abs", up)), re)
    re = _where(_call("isnan", y) & _call("equal", x, 0), x, re)
    return re, _where(endless, _call("copysign", _endless(y), y), im)


def arccos_parts(x: Value, y: Value) -> Parts:
    """Twice the angle of Re √(1-z) and Re √(1+z); arsinh of Im conj(√(1+z)) √(1-z)."""
    (a, b), (c, d) = sqrt_parts(1.0 - x, -y), sqrt_parts(x + 1.0, y)
    re = 2.0 * _call("arctan2", a, c)
    im = _call("copysign", _call("arcsinh", c * b - d * a), -y)
    right, up = _direction(x, y)
    endless = _is_endless(x, y)
    re = _where(endless, _call("arctan2", _call("abs", up), right), re)
    re = _where(_call("isnan", y) & _call("equal", x, 0), math.pi / 2, re)
    return re, _where(endless, _call("copysign", _endless(y), -y), im)


def arccosh_parts(x: Value, y: Value) -> Parts:
    """arcosh of z is arccos of z, turned to where its real part is not negative."""
    re, im = arccos_parts(x, y)
    broken = _call("isnan", re)
    return _call("abs", im), _where(broken, re, _call("copysign", re, y))


def arctanh_parts(x: Value, y: Value) -> Parts:
    """A quarter of log(1 + 4x / |1-z|²), half of the angle of 2y and 1 - |z|²."""
    size = _call("hypot", x, y)
    is_large = size > math.sqrt(x.dtype.format.largest) / 8
    a, b = _where(is_large, 0, x), _where(is_large, 0, y)
    # no abs, whose derivative at 0 is 0
    is_right = a >= 0
    right = _where(is_right, a, -a)
    beside = 1.0 - right
    distance = beside * beside + b * b
    # at 1 itself the square of y may vanish
    edge = 0.5 * (_call("log", _call("hypot", b, 2.0)) - _call("log", _call("abs", b)))
    near = _where(_call("equal", distance, 0), edge, 0.25 * _call("log1p", 4.0 * right / distance))
    near = _where(is_right, near, -near)
    far = x / size / size
    re = _where(
        _is_endless(x, y), _call("copysign", _call("zeros_like", x), x), _where(is_large, far, near)
    )
    angle = 0.5 * _call("arctan2", 2.0 * b, (1.0 - a) * (a + 1.0) - b * b)
    straight = _call("copysign", _call("full_like", y, math.pi / 2), y)
    im = _where(is_large & ~_call("isnan", y), straight, _where(_call("isnan", y), y, angle))
    im = _where(_call("isinf", y), straight, im)
    re = _where(_call("equal", x, 0) & _call("isnan", y), x, re)
    return re, im


complex_arcsin = of_parts(arcsin_parts)
complex_arccos = of_parts(arccos_parts)
complex_arctan = of_parts(turned(arctanh_parts))
complex_arcsinh = of_parts(turned(arcsin_parts))
complex_arccosh = of_parts(arccosh_parts)
complex_arctanh = of_parts(arctanh_parts)
