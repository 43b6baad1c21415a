"""Square roots of sums of squares where the squares themselves would overflow or underflow.

``hypot`` is such a root; ``passes.stability.scaled_norms`` finds the others. Invariant: where the
plain sum of squares is finite, and not so small that its terms may have lost bits, the root of that
very sum is the result; elsewhere all operands are scaled by a power of two, which rounds nothing.

The three scales are those of J. L. Blue, A portable Fortran program to find the Euclidean norm of
a vector, ACM TOMS 4 (1978); which of them counts is decided by the sum and not by its terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS, DType, float32, float64
from graphc.ir.op import Algebra
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.declare import float_operands, like, pointwise, through_float64
from graphc.ops.pointwise.arithmetic import sqrt, square
from graphc.ops.pointwise.logic import where_op


@dataclass(frozen=True, slots=True)
class Scales:
    """How operands of a float type are scaled before they are squared.

    Attributes:
        down: for sums that overflow: squares of 2^30 of the largest numbers add up to a number.
        shift: is added to operands scaled down. It is lost beside those that count, and the squares
            of the others don't underflow, which takes processors many times as long.
        up: for sums below ``low``: the smallest number squared keeps its bits.
        low: the sums from here on are as accurate as their additions, whatever underflows.
    """

    down: float
    shift: float
    up: float
    low: float


_SCALES = {
    float32: Scales(2.0**-80, 2.0**-60, 2.0**100, 2.0**-103),
    float64: Scales(2.0**-560, 2.0**-500, 2.0**600, 2.0**-970),
}


def scales(element: DType) -> Scales:
    """The scales for a float type."""
    return _SCALES[element]


def root_of_squares(
    total: Value,
    scaled: Callable[[Any, float], Value],
    *,
    together: bool,
    vanishes: bool = True,
    root: Callable[[Value], Value] = sqrt,
) -> Value:
    """The root of a sum of squares, right where the sum overflows or underflows.

    Args:
        total: the sum of squares as it stands.
        scaled: gives the sum with all operands multiplied by its first argument, a number or a
            value, and its second one added to them.
        together: whether the first argument may be of the shape of ``total``. One sum is computed
            anew then; otherwise there are sums for either scale, which few rows need.
        vanishes: whether the sum may be small enough for squares to lose bits.
        root: ``sqrt``, or the reciprocal of it.
    """
    bounds = scales(total.dtype)
    over = surface_function("equal")(total, math.inf)
    under = surface_function("less")(total, bounds.low) if vanishes else None

    def chosen(large: Any, small: Callable[[], Any], plain: Any) -> Value:
        inner = plain if under is None else apply(where_op, under, small(), plain, seldom=True)
        return apply(where_op, over, large, inner, seldom=True)

    def scale(power: int) -> Value:
        return chosen(
            like(bounds.down**power, total),
            lambda: like(bounds.up**power, total),
            like(1, total),
        )

    if together:
        anew = scaled(scale(1), 0.0)
        safe = chosen(anew, lambda: anew, total)
    else:
        safe = chosen(scaled(bounds.down, bounds.shift), lambda: scaled(bounds.up, 0.0), total)
    return root(safe) * scale(-1 if root is sqrt else 1)


def square_of(operand: Value, factor: Any, shift: float) -> Value:
    """The square of the operand times the factor, plus the shift."""
    result = operand * factor
    return square(result + shift if shift else result)


def _hypot_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    x, y = inputs

    def scaled(factor: Value, shift: float) -> Value:
        return square_of(x, factor, shift) + square_of(y, factor, shift)

    isinf, either = surface_function("isinf"), surface_function("bitwise_or")
    plain = root_of_squares(x * x + y * y, scaled, together=x.shape == y.shape)
    result: Value = surface_function("where")(either(isinf(x), isinf(y)), math.inf, plain)
    return result


def _hypot_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """x / r and y / r, 0 at the origin."""
    where, origin = surface_function("where"), surface_function("equal")(output, 0)
    return tuple(where(origin, 0, operand / output) for operand in inputs)


hypot_op = pointwise(
    "hypot",
    "sqrt(x * x + y * y) without overflow or underflow on the way; inf beside NaN is inf.",
    FLOATS,
    partials=_hypot_partials,
    parts=_hypot_rule,
    reference=through_float64(np.hypot),
    arity=2,
    numerics="R",
    algebra=Algebra(commutative=True),
    differentiable=(0.5, 4.0),
    max_ulp=1.5,
)


@surface
def hypot(x: Any, y: Any) -> Value:
    """sqrt(x * x + y * y) without overflow or underflow on the way; integers give floats.

    inf if either operand is, even beside NaN. The gradient at the origin is 0.
    """
    return apply(hypot_op, *float_operands(x, y))
