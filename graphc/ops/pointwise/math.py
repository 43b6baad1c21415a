"""Functions of real numbers: exponentials, logarithms, trigonometry, erf and sigmoid.

Invariant: operands are floats (``declare.float_dtype`` says which for integers); every function is
of class R with its accuracy stated in ``max_ulp`` and right at NaN, infinities and zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS, DType
from graphc.ir.op import Algebra, ComplexRule, OpDef
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.complex.elementary import (
    complex_cos,
    complex_cosh,
    complex_exp,
    complex_expm1,
    complex_log,
    complex_log1p,
    complex_log2,
    complex_sin,
    complex_sinh,
    complex_tan,
    complex_tanh,
)
from graphc.ops.complex.inverses import complex_arctan
from graphc.ops.declare import (
    float_operand,
    float_operands,
    like,
    pointwise,
    through_float64,
)

_MONOTONE = Algebra(monotone=True)
_LN2 = math.log(2.0)


def of_a_real(
    name: str,
    doc: str,
    partial: Callable[[Value, Value], Value],
    *,
    monotone: bool = False,
    low: float = -4.0,
    high: float = 4.0,
    differentiable: tuple[float, float] | None = None,
    max_ulp: float = 2.0,
    of_complex: ComplexRule | None = None,
) -> OpDef:
    """Declares a function of one variable whose derivative is ``partial(x, f(x))``."""
    return pointwise(
        name,
        doc,
        FLOATS,
        partials=lambda inputs, output, attrs: (partial(inputs[0], output),),
        reference=through_float64(PRIMITIVES[name].reference),
        numerics="R",
        algebra=_MONOTONE if monotone else Algebra(),
        low=low,
        high=high,
        differentiable=differentiable,
        max_ulp=max_ulp,
        of_complex=of_complex,
    )


exp_op = of_a_real("exp", "e to the x.", lambda x, y: y, monotone=True, low=-20, high=20,
                   differentiable=(-2, 2),
                   of_complex=complex_exp)  # fmt: skip
exp2_op = of_a_real("exp2", "2 to the x.", lambda x, y: y * _LN2, monotone=True, low=-20, high=20,
                    differentiable=(-2, 2))  # fmt: skip
expm1_op = of_a_real("expm1", "exp(x) - 1, accurate near 0.", lambda x, y: y + 1, monotone=True,
                     of_complex=complex_expm1)  # fmt: skip
log_op = of_a_real("log", "The natural logarithm; -inf at 0, NaN below.",
                   lambda x, y: like(1, x) / x, monotone=True, low=0.0,
                   differentiable=(0.5, 4.0),
                   of_complex=complex_log)  # fmt: skip
log2_op = of_a_real("log2", "The logarithm to base 2; -inf at 0, NaN below.",
                    lambda x, y: like(1 / _LN2, x) / x, monotone=True, low=0.0,
                    differentiable=(0.5, 4.0),
                    of_complex=complex_log2)  # fmt: skip
log1p_op = of_a_real("log1p", "log(1 + x), accurate near 0.", lambda x, y: like(1, x) / (x + 1),
                     monotone=True, low=-0.9, differentiable=(-0.5, 4.0),
                     of_complex=complex_log1p)  # fmt: skip
sin_op = of_a_real("sin", "The sine of an angle in radians.", lambda x, y: cos(x),
                   of_complex=complex_sin)  # fmt: skip
cos_op = of_a_real("cos", "The cosine of an angle in radians.", lambda x, y: -sin(x),
                   of_complex=complex_cos)  # fmt: skip
tan_op = of_a_real("tan", "The tangent of an angle in radians.", lambda x, y: y * y + 1,
                   differentiable=(-1, 1), max_ulp=3.0,
                   of_complex=complex_tan)  # fmt: skip
tanh_op = of_a_real("tanh", "The hyperbolic tangent.", lambda x, y: 1 - y * y, monotone=True,
                    of_complex=complex_tanh)  # fmt: skip
sinh_op = of_a_real("sinh", "The hyperbolic sine.", lambda x, y: cosh(x), monotone=True,
                    max_ulp=3.0,
                    of_complex=complex_sinh)  # fmt: skip
cosh_op = of_a_real("cosh", "The hyperbolic cosine.", lambda x, y: sinh(x), max_ulp=3.0,
                    of_complex=complex_cosh)  # fmt: skip
arctan_op = of_a_real("arctan", "The angle in radians whose tangent is x.",
                      lambda x, y: like(1, x) / (x * x + 1), monotone=True,
                      of_complex=complex_arctan)  # fmt: skip
erf_op = of_a_real("erf", "The error function.",
                   lambda x, y: exp(-(x * x)) * (2 / math.sqrt(math.pi)),
                   monotone=True)  # fmt: skip
erfc_op = of_a_real("erfc", "One minus the error function, accurate where that is small too.",
                    lambda x, y: exp(-(x * x)) * (-2 / math.sqrt(math.pi)),
                    max_ulp=6.0)  # fmt: skip
sigmoid_op = of_a_real("sigmoid", "1 / (1 + exp(-x)), without overflow.", lambda x, y: y * (1 - y),
                       monotone=True, low=-20, high=20, differentiable=(-4, 4),
                       max_ulp=3.0)  # fmt: skip


@surface
def exp(x: Any) -> Value:
    """e to the x; integers give floats."""
    return apply(exp_op, float_operand(x))


@surface
def exp2(x: Any) -> Value:
    """2 to the x; integers give floats."""
    return apply(exp2_op, float_operand(x))


@surface
def expm1(x: Any) -> Value:
    """exp(x) - 1, accurate near 0; integers give floats."""
    return apply(expm1_op, float_operand(x))


@surface
def log(x: Any) -> Value:
    """The natural logarithm: -inf at 0, NaN below; integers give floats."""
    return apply(log_op, float_operand(x))


@surface
def log2(x: Any) -> Value:
    """The logarithm to base 2: -inf at 0, NaN below; integers give floats."""
    return apply(log2_op, float_operand(x))


@surface
def log1p(x: Any) -> Value:
    """log(1 + x), accurate near 0; integers give floats."""
    return apply(log1p_op, float_operand(x))


@surface
def sin(x: Any) -> Value:
    """The sine of an angle in radians; integers give floats."""
    return apply(sin_op, float_operand(x))


@surface
def cos(x: Any) -> Value:
    """The cosine of an angle in radians; integers give floats."""
    return apply(cos_op, float_operand(x))


@surface
def tan(x: Any) -> Value:
    """The tangent of an angle in radians; integers give floats."""
    return apply(tan_op, float_operand(x))


@surface
def tanh(x: Any) -> Value:
    """The hyperbolic tangent; integers give floats."""
    return apply(tanh_op, float_operand(x))


@surface
def sinh(x: Any) -> Value:
    """The hyperbolic sine; integers give floats."""
    return apply(sinh_op, float_operand(x))


@surface
def cosh(x: Any) -> Value:
    """The hyperbolic cosine; integers give floats."""
    return apply(cosh_op, float_operand(x))


@surface
def arctan(x: Any) -> Value:
    """The angle in (-pi/2, pi/2) whose tangent is x; integers give floats."""
    return apply(arctan_op, float_operand(x))


@surface
def erf(x: Any) -> Value:
    """The error function; integers give floats."""
    return apply(erf_op, float_operand(x))


@surface
def erfc(x: Any) -> Value:
    """1 - erf(x), accurate where that is small too; integers give floats."""
    return apply(erfc_op, float_operand(x))


@surface
def sigmoid(x: Any) -> Value:
    """1 / (1 + exp(-x)), without overflow; integers give floats."""
    return apply(sigmoid_op, float_operand(x))


# --- logaddexp -----------------------------------------------------------------------------------


def _logaddexp_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """The shares exp(x - out) and exp(y - out)."""
    return shares_of_sum(output, gap(inputs))


def shares_of_sum(output: Value, gap_: Value) -> tuple[Value, Value]:
    """What two terms that lie so far apart have of their sum; 0 where its logarithm is -inf."""
    where = surface_function("where")
    empty = surface_function("equal")(output, -math.inf)
    return where(empty, 0, sigmoid(gap_)), where(empty, 0, sigmoid(-gap_))


def gap(inputs: Sequence[Value]) -> Value:
    """x - y, but 0 where both are the same infinity."""
    x, y = inputs
    same = surface_function("equal")(x, y)
    infinite = surface_function("bitwise_and")(same, surface_function("isinf")(x))
    # equal finite operands keep their difference, which carries the second derivative
    result: Value = surface_function("where")(infinite, 0, x - y)
    return result


def _logaddexp_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    larger = surface_function("maximum")(*inputs)
    result: Value = larger + log1p(exp(-surface_function("abs")(gap(inputs))))
    return result


logaddexp_op = pointwise(
    "logaddexp",
    "log(exp(x) + exp(y)) without overflow; -inf is its neutral element. Near 0 the ulp are those "
    "of log 2, since its terms cancel.",
    FLOATS,
    partials=_logaddexp_partials,
    parts=_logaddexp_rule,
    reference=through_float64(np.logaddexp),
    arity=2,
    numerics="R",
    algebra=Algebra(commutative=True),
    max_ulp=4.0,
)


@surface
def logaddexp(x: Any, y: Any) -> Value:
    """log(exp(x) + exp(y)) without overflow; integers give floats."""
    return apply(logaddexp_op, *float_operands(x, y))


# --- arctan2 -------------------------------------------------------------------------------------

_PI = math.pi
_PI_REST = 1.2246467991473532e-16
"""What π has beyond the nearest float64."""


def _pi_rest(dtype: DType) -> float:
    """What π has beyond the nearest number of a dtype."""
    return _PI - float(np.asarray(_PI, dtype.numpy)) + _PI_REST


def _is_negative(x: Value) -> Value:
    """The sign bit of a number: also of -0, whose inverse is -inf."""
    less, equal = surface_function("less"), surface_function("equal")
    negative_zero = surface_function("bitwise_and")(equal(x, 0), less(like(1, x) / x, 0))
    result: Value = surface_function("bitwise_or")(less(x, 0), negative_zero)
    return result


def _arctan2_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    """The angle to the nearer half of the x axis, then the quadrant.

    Equal lengths need no quotient, which both zeros and both infinities don't have.
    """
    y, x = inputs
    where, equal = surface_function("where"), surface_function("equal")
    height, width = surface_function("abs")(y), surface_function("abs")(x)
    diagonal = where(equal(height, 0), like(0, y), like(1, y))
    acute = arctan(where(equal(height, width), diagonal, height / width))
    obtuse = like(_PI, y) - (acute - like(_pi_rest(y.dtype), y))
    angle = where(_is_negative(x), obtuse, acute)
    result: Value = where(_is_negative(y), -angle, angle)
    return result


def _arctan2_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """x / r² and -y / r², scaled by the longer side so that r² neither overflows nor vanishes."""
    y, x = inputs
    longer = surface_function("maximum")(*(surface_function("abs")(v) for v in inputs))
    up, right = y / longer, x / longer
    scale = longer * (up * up + right * right)
    return right / scale, -up / scale


arctan2_op = pointwise(
    "arctan2",
    "The angle of the point (x, y), in [-pi, pi]; signed zeros choose the side of the cut.",
    FLOATS,
    partials=_arctan2_partials,
    parts=_arctan2_rule,
    reference=through_float64(np.arctan2),
    arity=2,
    numerics="R",
    differentiable=(0.5, 4.0),
    max_ulp=3.0,
)


@surface
def arctan2(y: Any, x: Any) -> Value:
    """The angle in [-pi, pi] of the point (x, y); integers give floats.

    Quadrants and signed zeros as in NumPy. The gradient at the origin is NaN.
    """
    return apply(arctan2_op, *float_operands(y, x))
