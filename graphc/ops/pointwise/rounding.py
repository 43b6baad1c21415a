"""Signs, rounding to integers, and extremes of two operands.

Invariant: at kinks the derivative is the documented one: 0 for abs at 0, one half to each side of
a tie of maximum and minimum, x for clip inside and on its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.base.errors import UnsupportedError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_to
from graphc.ir.dtypes import FLOATS, bool_
from graphc.ir.op import Algebra, Partials
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import whole
from graphc.ops.complex.arithmetic import complex_sign, complex_size
from graphc.ops.complex.parts import halves, joined
from graphc.ops.convert import as_value, promoted
from graphc.ops.declare import ANY, NUMBERS, PartialsRule, like, pointwise, refuse

MOST_DECIMALS = 308
"""10 to this power is a float64."""

# --- signs and rounding --------------------------------------------------------------------------

abs_op = pointwise(
    "abs",
    "|x|; the smallest integer wraps. The derivative at 0 is 0.",
    NUMBERS,
    partials=lambda inputs, output, attrs: (surface_function("sign")(inputs[0]),),
    algebra=Algebra(idempotent=True),
    differentiable=(0.5, 4.0),
    of_complex=complex_size,
)
sign_op = pointwise(
    "sign",
    "-1, 0 or 1; NaN at NaN.",
    NUMBERS,
    algebra=Algebra(idempotent=True, monotone=True),
    of_complex=complex_sign,
)
_STEP = Algebra(idempotent=True, monotone=True)
floor_op = pointwise("floor", "Rounded to minus infinity.", FLOATS, algebra=_STEP)
ceil_op = pointwise("ceil", "Rounded to plus infinity.", FLOATS, algebra=_STEP)
round_op = pointwise("round", "Rounded to nearest, ties to even.", FLOATS, algebra=_STEP)
trunc_op = pointwise("trunc", "Rounded to zero.", FLOATS, algebra=_STEP)


@surface
def abs_(x: Any) -> Value:
    """|x|; the smallest integer wraps, bools stay bools."""
    value = as_value(x)
    return value if value.dtype is bool_ else apply(abs_op, value)


@surface
def sign(x: Any) -> Value:
    """-1, 0 or 1, NaN at NaN; bools are an error, as in NumPy."""
    value = as_value(x)
    if value.dtype is bool_:
        raise refuse("sign does not take bool", "convert with astype")
    return apply(sign_op, value)


@surface
def floor(x: Any) -> Value:
    """x rounded to minus infinity; integers and bools are given back as they are."""
    value = as_value(x)
    return apply(floor_op, value) if value.dtype.is_inexact else value


@surface
def ceil(x: Any) -> Value:
    """x rounded to plus infinity; integers and bools are given back as they are."""
    value = as_value(x)
    return apply(ceil_op, value) if value.dtype.is_inexact else value


@surface
def trunc(x: Any) -> Value:
    """x rounded to zero; integers and bools are given back as they are."""
    value = as_value(x)
    return apply(trunc_op, value) if value.dtype.is_inexact else value


@surface
def round_(x: Any, decimals: int = 0) -> Value:
    """x rounded to nearest, ties to even; with ``decimals`` it scales, rounds and scales back.

    Integers and bools are given back as they are. Of complex numbers it rounds both parts.

    Raises:
        UnsupportedError: for integers with negative ``decimals``, and for more of them than floats
            have.
    """
    value = as_value(x)
    if value.dtype.is_complex:
        return joined(*(round_(part, decimals) for part in halves(value)))
    decimals = whole(decimals, "decimals")
    if abs(decimals) > MOST_DECIMALS:
        raise UnsupportedError(
            f"round to {decimals} decimals",
            where=caller(),
            hint=f"no float has more than {MOST_DECIMALS} digits before or behind the point",
        )
    if not value.dtype.is_inexact:
        if decimals < 0:
            raise UnsupportedError("round of integers to tens and beyond", where=caller())
        return value
    if decimals == 0:
        return apply(round_op, value)
    scale = 10.0 ** max(decimals, -decimals)
    if decimals > 0:
        return apply(round_op, value * scale) / scale
    return apply(round_op, value / scale) * scale


# --- extremes ------------------------------------------------------------------------------------


def _extreme_partials(wins: str) -> PartialsRule:
    """1 to the operand that wins, one half each to ties."""

    def partials(
        inputs: Sequence[Value], output: Value, attrs: Attributes
    ) -> Sequence[Value | None]:
        where = surface_function("where")
        x, y = inputs
        ahead = surface_function(wins)
        tie = where(surface_function("equal")(x, y), like(0.5, x), like(0, x))
        return where(ahead(x, y), like(1, x), tie), where(ahead(y, x), like(1, x), tie)

    return partials


_LATTICE = Algebra(commutative=True)
maximum_op = pointwise(
    "maximum",
    "The larger of x and y; NaN from either side, +0 above -0. Ties share the derivative evenly.",
    ANY,
    partials=_extreme_partials("greater"),
    algebra=_LATTICE,
)
minimum_op = pointwise(
    "minimum",
    "The smaller of x and y; NaN from either side, -0 below +0. Ties share the derivative evenly.",
    ANY,
    partials=_extreme_partials("less"),
    algebra=_LATTICE,
)


@surface
def maximum(x: Any, y: Any) -> Value:
    """The larger of x and y, element by element; NaN from either side."""
    return apply_to(maximum_op, promoted(x, y))


@surface
def minimum(x: Any, y: Any) -> Value:
    """The smaller of x and y, element by element; NaN from either side."""
    return apply_to(minimum_op, promoted(x, y))


def _clip(x: Any, low: Any, high: Any, **attrs: Any) -> Any:
    return minimum_op.reference(maximum_op.reference(x, low), high)


def _clip_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """Masks: the operand that the result is; inside and on the bounds it is x."""
    both = surface_function("bitwise_and")
    x, low, high = inputs
    over = maximum(x, low) > high
    return both(x >= low, x <= high), both(x < low, low <= high), over


clip_op = pointwise(
    "clip",
    "minimum(maximum(x, low), high). Derivative: 1 to x inside and on the bounds, else to the "
    "bound taken.",
    ANY,
    derivative=Partials(_clip_partials),
    parts=lambda inputs, attrs: minimum(maximum(inputs[0], inputs[1]), inputs[2]),
    reference=_clip,
    arity=3,
)


@surface
def clip(x: Any, low: Any = None, high: Any = None) -> Value:
    """x limited to [low, high], where a bound that is None does not limit; NaN stays NaN.

    Where low > high the result is high, as in NumPy.
    """
    if low is None and high is None:
        return as_value(x)
    if low is None:
        return minimum(x, high)
    if high is None:
        return maximum(x, low)
    return apply_to(clip_op, promoted(x, low, high))
