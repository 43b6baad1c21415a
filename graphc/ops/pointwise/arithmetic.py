"""Arithmetic: sums, products, quotients, powers.

Invariant: promotion is NumPy 2's and happens in the user-level functions; the ops see operands of
one dtype. Integers wrap; integer division by zero gives 0; bool arithmetic is NumPy's (add is or,
multiply is and, subtract and negative are errors, the rest works in int8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_to
from graphc.ir.dtypes import FLOATS, DType, bool_, float64, floating
from graphc.ir.lowering import ElementBuilder, Scalar
from graphc.ir.op import Algebra, Linear
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.complex.arithmetic import complex_product, complex_quotient
from graphc.ops.complex.elementary import complex_power, complex_sqrt
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import as_value, converted, promoted
from graphc.ops.declare import (
    ANY,
    NUMBERS,
    float_operand,
    like,
    number_operands,
    pointwise,
    refuse,
)
from graphc.ops.source import known_array

_COMMUTATIVE = Algebra(commutative=True)

# --- sums and products ---------------------------------------------------------------------------

add_op = pointwise(
    "add",
    "x + y. Integers wrap; of bools it is logical or.",
    ANY,
    derivative=Linear(lambda ct, inputs, output, attrs: (ct, ct)),
    algebra=_COMMUTATIVE,
    of_complex=each_part,
)
subtract_op = pointwise(
    "subtract",
    "x - y. Integers wrap; bools are an error, as in NumPy.",
    NUMBERS,
    derivative=Linear(lambda ct, inputs, output, attrs: (ct, -ct)),
    of_complex=each_part,
)
multiply_op = pointwise(
    "multiply",
    "x * y. Integers wrap; of bools it is logical and.",
    ANY,
    partials=lambda inputs, output, attrs: (inputs[1], inputs[0]),
    algebra=_COMMUTATIVE,
    of_complex=complex_product,
)
negative_op = pointwise(
    "negative",
    "-x. Integers wrap; unsigned ones too.",
    NUMBERS,
    derivative=Linear(lambda ct, inputs, output, attrs: (-ct,)),
    algebra=Algebra(involution=True),
    of_complex=each_part,
)


def _guarded_multiply(factor: Any, other: Any, **attrs: Any) -> Any:
    with np.errstate(all="ignore"):
        zero = np.zeros((), np.asarray(factor).dtype)
        return np.where(np.equal(factor, 0), zero, np.multiply(factor, other))


def _guarded_multiply_rule(
    b: ElementBuilder, operands: Sequence[Scalar], attrs: Attributes
) -> Scalar:
    factor, other = operands
    zero = b.constant(0.0, factor.dtype)
    product = b.apply("multiply", factor, other)
    return b.apply("select", b.apply("equal", factor, zero), zero, product)


guarded_multiply_op = pointwise(
    "guarded_multiply",
    "x * y, but +0 wherever x is 0, even if y is infinite or NaN: how a cotangent meets a partial "
    "derivative, so that what a select has masked stays masked. Its own derivative is that of the "
    "product (guarded in turn), so that second derivatives are right where x is 0.",
    FLOATS,
    partials=lambda inputs, output, attrs: (inputs[1], inputs[0]),
    scalars=_guarded_multiply_rule,
    arity=2,
    reference=_guarded_multiply,
)


@surface
def add(x: Any, y: Any) -> Value:
    """x + y element by element, broadcast and promoted as in NumPy; of bools logical or."""
    return apply_to(add_op, promoted(x, y))


@surface
def subtract(x: Any, y: Any) -> Value:
    """x - y element by element, broadcast and promoted as in NumPy.

    Raises:
        DTypeError: for bools, as NumPy does.
    """
    operands = promoted(x, y)
    if operands[0].dtype is bool_:
        raise refuse("subtract does not take bool", "use gx.logical_xor, or convert with astype")
    return apply_to(subtract_op, operands)


@surface
def multiply(x: Any, y: Any) -> Value:
    """x * y element by element, broadcast and promoted as in NumPy; of bools logical and."""
    return apply_to(multiply_op, promoted(x, y))


@surface
def guarded_multiply(factor: Any, other: Any) -> Value:
    """factor * other, but 0 wherever ``factor`` is 0, even if ``other`` is infinite or NaN."""
    return apply_to(guarded_multiply_op, promoted(factor, other))


@surface
def negative(x: Any) -> Value:
    """-x; integers wrap. Bools are an error, as in NumPy."""
    value = as_value(x)
    if value.dtype is bool_:
        raise refuse("negative does not take bool", "use gx.logical_not, or ~x")
    return apply(negative_op, value)


@surface
def square(x: Any) -> Value:
    """x * x; bools become int8."""
    (value,) = number_operands(x)
    return value * value


# --- quotients -----------------------------------------------------------------------------------


def _divide_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    _, y = inputs
    inverse = like(1, y) / y
    return inverse, -output * inverse


divide_op = pointwise(
    "divide",
    "x / y of floats, correctly rounded; x/0 is inf or NaN.",
    FLOATS,
    partials=_divide_partials,
    differentiable=(0.5, 4.0),
    of_complex=complex_quotient,
)
floor_divide_op = pointwise(
    "floor_divide",
    "The quotient rounded to minus infinity; integers divided by zero give 0.",
    NUMBERS,
)
mod_op = pointwise(
    "mod",
    "The remainder of floor_divide, with the divisor's sign; integers modulo zero give 0.",
    NUMBERS,
    partials=lambda inputs, output, attrs: (
        like(1, inputs[0]),
        -surface_function("floor_divide")(*inputs),
    ),
    differentiable=(1.0, 1.9),
)
fmod_op = pointwise(
    "fmod",
    "The remainder of the truncated quotient, with the dividend's sign; integers by zero give 0.",
    NUMBERS,
    partials=lambda inputs, output, attrs: (
        like(1, inputs[0]),
        -surface_function("trunc")(inputs[0] / inputs[1]),
    ),
    differentiable=(1.0, 1.9),
)


@surface
def divide(x: Any, y: Any) -> Value:
    """x / y; integers and bools divide in float64."""
    operands = promoted(x, y)
    element = operands[0].dtype if operands[0].dtype.is_inexact else float64
    return apply(divide_op, *(converted(operand, element) for operand in operands))


@surface
def floor_divide(x: Any, y: Any) -> Value:
    """x // y, rounded to minus infinity; integers divided by zero give 0, bools become int8."""
    return apply(floor_divide_op, *number_operands(x, y))


@surface
def mod(x: Any, y: Any) -> Value:
    """x % y, with the sign of y; integers modulo zero give 0, bools become int8."""
    return apply(mod_op, *number_operands(x, y))


@surface
def fmod(x: Any, y: Any) -> Value:
    """C's remainder, with the sign of x; integers by zero give 0, bools become int8."""
    return apply(fmod_op, *number_operands(x, y))


@surface
def reciprocal(x: Any) -> Value:
    """1 / x. Integers give floats as in ``divide`` (NumPy's integer reciprocal truncates to 0)."""
    return divide(1, x)


# --- powers --------------------------------------------------------------------------------------


def _power_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """n x^(n-1) and x^n log x, right at n = 0 and at x = 0 (where n >= 0 gives d/dn = 0)."""
    where = surface_function("where")
    base, exponent = inputs
    flat = surface_function("equal")(exponent, 0)
    lowered = surface_function("power")(base, where(flat, 1, exponent - 1))
    along_base = where(flat, 0, exponent * lowered)
    at_zero = surface_function("equal")(base, 0)
    logarithm = surface_function("log")(where(at_zero, 1, base))
    decays = surface_function("bitwise_and")(at_zero, exponent >= 0)
    along_exponent = where(decays, 0, output * logarithm)
    return along_base, along_exponent


def _power(base: Any, exponent: Any, **attrs: Any) -> Any:
    x, n = np.asarray(base), np.asarray(exponent)
    with np.errstate(all="ignore"):
        if floating(x.dtype):
            # an exponent array keeps NumPy from its short cuts, which differ at -0 and -inf
            x, n = np.broadcast_arrays(x, n)
            wide = np.power(x.astype(np.float64), n.astype(np.float64).copy())
            return np.asarray(wide).astype(x.dtype)
        result = np.power(x, np.where(n < 0, 0, n).astype(n.dtype))
        odd = (n & 1) != 0
        unit = np.where(x == 1, 1, np.where((x == -1) & odd, -1, np.where(x == -1, 1, 0)))
        return np.where(n < 0, unit.astype(x.dtype), result)


def _power_rule(b: ElementBuilder, operands: Sequence[Scalar], attrs: Attributes) -> Scalar:
    base, exponent = operands
    element = base.dtype
    if element.is_float:
        return b.apply("power", base, exponent)
    if element.kind == "uint":
        return b.apply("integer_power", base, exponent)
    zero, one = b.constant(0, element), b.constant(1, element)
    minus_one = b.constant(-1, element)
    raised = b.apply("integer_power", base, b.apply("maximum", exponent, zero))
    odd = b.apply("not_equal", b.apply("and", exponent, one), zero)
    alternating = b.apply("select", odd, minus_one, one)
    unit = b.apply("select", b.apply("equal", base, minus_one), alternating, zero)
    unit = b.apply("select", b.apply("equal", base, one), one, unit)
    return b.apply("select", b.apply("less", exponent, zero), unit, raised)


def _power_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    target = element.numpy
    if element.is_float:
        base, exponent = rng.uniform(0.2, 3, (3, 4)), rng.uniform(-3, 3, 4)
        return (base.astype(target), exponent.astype(target)), {}
    return (rng.integers(0, 9, (3, 4)).astype(target), rng.integers(0, 30, 4).astype(target)), {}


power_op = pointwise(
    "power",
    "x ** n. Floats as in IEEE pow (x**0 and 1**n are 1 even for NaN). Integers wrap; a negative "
    "exponent gives the truncated quotient: 1 or -1 for those bases, else 0.",
    NUMBERS,
    partials=_power_partials,
    scalars=_power_rule,
    reference=_power,
    numerics="R",
    max_ulp=3.0,
    differentiable=(0.5, 3.0),
    example=_power_example,
    of_complex=complex_power,
)


@surface
def power(x: Any, n: Any) -> Value:
    """x ** n element by element; integers stay integers and wrap, bools become int8.

    Raises:
        DTypeError: for integers raised to negative ones that are known: numbers, arrays and
            constants, where NumPy raises too. Those that are computed when the graph runs give
            truncated quotients: 0 unless the base is 1 or -1.
    """
    operands = number_operands(x, n)
    if operands[0].dtype.is_integer:
        exponents = _known(n)
        if exponents is not None and np.any(exponents < 0):
            raise refuse(
                f"an integer to the power {np.min(exponents)} is not an integer",
                "write the exponent as a float, or convert the base with astype",
            )
    return apply(power_op, *operands)


def _known(operand: Any) -> Any:
    """The elements of what was given, or of a constant of a user's graph; else None."""
    return known_array(operand) if isinstance(operand, Value) else np.asarray(operand)


sqrt_op = pointwise(
    "sqrt",
    "The square root, correctly rounded; NaN below zero, -0 at -0.",
    FLOATS,
    partials=lambda inputs, output, attrs: (like(0.5, output) / output,),
    low=0.0,
    differentiable=(0.1, 4.0),
    algebra=Algebra(monotone=True),
    of_complex=complex_sqrt,
)


def _rsqrt(x: Any, **attrs: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.divide(np.asarray(1, np.asarray(x).dtype), np.sqrt(x))


rsqrt_op = pointwise(
    "rsqrt",
    "1 / sqrt(x), two correctly rounded steps.",
    FLOATS,
    partials=lambda inputs, output, attrs: (like(-0.5, output) * output / inputs[0],),
    parts=lambda inputs, attrs: like(1, inputs[0]) / sqrt(inputs[0]),
    reference=_rsqrt,
    arity=1,
    low=0.1,
    differentiable=(0.1, 4.0),
)


@surface
def sqrt(x: Any) -> Value:
    """The square root; integers give floats, negative numbers NaN."""
    return apply(sqrt_op, float_operand(x))


@surface
def rsqrt(x: Any) -> Value:
    """1 / sqrt(x); integers give floats, negative numbers NaN, 0 gives inf."""
    return apply(rsqrt_op, float_operand(x))
