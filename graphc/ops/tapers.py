"""Windows that taper to their ends, by NumPy's names: bartlett, blackman, hamming, hanning, kaiser.

A size may be a dim, so that a window is as long as what it is multiplied by.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DTypeLike
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.creation import arange
from graphc.ops.declare import like
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.logic import where
from graphc.ops.pointwise.math import cos
from graphc.ops.pointwise.rounding import abs_, maximum
from graphc.ops.special.bessel import i0


def _places(size: Dim, dtype: DTypeLike) -> Value:
    """From -1 at one end to 1 at the other; 0 where there is one place."""
    index = arange(size, dtype="int64").astype(dtype)
    last = surface_function("dim")(size).astype(dtype) - 1
    result: Value = where(last > 0, index * 2 - last, like(0, index)) / maximum(last, 1)
    return result


@surface
def bartlett(M: Dim, dtype: DTypeLike = "float64") -> Value:
    """The triangle from 0 over 1 to 0, at M places: an int or a dim."""
    return 1 - abs_(_places(M, dtype))


@surface
def hanning(M: Dim, dtype: DTypeLike = "float64") -> Value:
    """The raised cosine from 0 over 1 to 0, at M places: an int or a dim."""
    return cos(_places(M, dtype) * math.pi) * 0.5 + 0.5


@surface
def hamming(M: Dim, dtype: DTypeLike = "float64") -> Value:
    """0.54 + 0.46 cos, at M places: an int or a dim."""
    return cos(_places(M, dtype) * math.pi) * 0.46 + 0.54


@surface
def blackman(M: Dim, dtype: DTypeLike = "float64") -> Value:
    """0.42 + 0.5 cos + 0.08 cos of the double angle, at M places: an int or a dim."""
    angle = _places(M, dtype) * math.pi
    return cos(angle) * 0.5 + 0.42 + cos(angle * 2) * 0.08


@surface
def kaiser(M: Dim, beta: Any, dtype: DTypeLike = "float64") -> Value:
    """Kaiser's window, i0(beta sqrt(1 - x²)) / i0(beta), at M places: an int or a dim."""
    x = _places(M, dtype)
    shape = number(beta, "beta")
    # rounding must not leave less than 0 at the ends
    return i0(sqrt(maximum(1 - x * x, 0)) * shape) / i0(like(shape, x))
