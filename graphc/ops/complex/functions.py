"""What users write of complex numbers: their parts, lengths, angles and conjugates."""

from __future__ import annotations

from typing import Any

from graphc.ir.builder import apply
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.complex import parts
from graphc.ops.convert import as_value
from graphc.ops.declare import float_operand, float_operands
from graphc.ops.move.stacking import broadcast_arrays
from graphc.ops.pointwise.logic import equal
from graphc.ops.pointwise.math import arctan2


@surface
def real(x: Any) -> Value:
    """The real part of x; of real numbers x itself."""
    value = as_value(x)
    return apply(parts.real_op, value) if value.dtype.is_complex else value


@surface
def imag(x: Any) -> Value:
    """The imaginary part of x; of real numbers 0 everywhere."""
    value = as_value(x)
    if value.dtype.is_complex:
        return apply(parts.imag_op, value)
    result: Value = surface_function("zeros_like")(value)
    return result


@surface
def conj(x: Any) -> Value:
    """The complex conjugate of x; of real numbers x itself."""
    value = as_value(x)
    return parts.conj(value) if value.dtype.is_complex else value


@surface
def complex_(re: Any, im: Any) -> Value:
    """re + i im, of two real operands that broadcast; integers give floats.

    Raises:
        DTypeError: for complex operands.
    """
    return parts.joined(*broadcast_arrays(*float_operands(re, im)))


@surface
def angle(z: Any, deg: bool = False) -> Value:
    """The angle of z in [-pi, pi], in degrees if ``deg``; of real numbers 0 or pi.

    Signed zeros choose the side of the cut along the negative real axis.
    """
    value = as_value(z)
    if value.dtype.is_complex:
        re, im = parts.halves(value)
    else:
        re = float_operand(value)
        im = surface_function("zeros_like")(re)
    result = arctan2(im, re)
    return surface_function("degrees")(result) if deg else result


@surface
def view_as_real(x: Any) -> Value:
    """Complex numbers as floats, real and imaginary part along a last axis; the same memory.

    Raises:
        DTypeError: for real numbers.
    """
    return apply(parts.view_as_real_op, as_value(x))


@surface
def view_as_complex(x: Any) -> Value:
    """Floats whose last axis, of 2, has real and imaginary parts, as complex numbers.

    Raises:
        DTypeError: for anything but floats.
        ShapeError: for another last axis.
    """
    return parts.viewed_as_complex(as_value(x))


@surface
def isreal(x: Any) -> Value:
    """Where the imaginary part is 0, as bool."""
    return equal(imag(x), 0)


@surface
def iscomplex(x: Any) -> Value:
    """Where the imaginary part is not 0, as bool."""
    return surface_function("not_equal")(imag(x), 0)  # type: ignore[no-any-return]
