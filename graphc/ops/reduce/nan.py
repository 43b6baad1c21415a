"""Reductions that leave NaN out.

Each is the plain reduction of x with another number in the place of NaN, and a count of what is
left where that matters. Invariant: nothing of a gradient goes to NaN, and integers, which have
none, are reduced as ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphc.ir.dtypes import DTypeLike
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import whole
from graphc.ops.complex.parts import halves
from graphc.ops.convert import as_value, converted
from graphc.ops.declare import like
from graphc.ops.pointwise.logic import isnan, logical_not, where
from graphc.ops.reduce.axes import (
    Axis,
    any_,
    argmax,
    argmin,
    max_,
    min_,
    prod,
    sum_,
)
from graphc.ops.reduce.scans import cumprod, cumsum
from graphc.ops.reduce.statistics import mean, std, var


def _filled(x: Any, number: float) -> Value:
    value = as_value(x)
    return where(isnan(value), like(number, value), value) if value.dtype.is_inexact else value


def _count(value: Value, axis: Axis, keepdims: bool) -> Value:
    """How many are left, in the dtype of the value."""
    return sum_(converted(logical_not(isnan(value)), value.dtype), axis, keepdims)


@surface
def nansum(
    x: Any, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Value:
    """The sum of what is no NaN; 0 if nothing is left. See ``sum``."""
    return sum_(_filled(x, 0.0), axis, keepdims, dtype)


@surface
def nanprod(
    x: Any, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Value:
    """The product of what is no NaN; 1 if nothing is left. See ``prod``."""
    return prod(_filled(x, 1.0), axis, keepdims, dtype)


@surface
def nancumsum(x: Any, axis: int | None = None) -> Value:
    """Running sums with 0 in the place of NaN. See ``cumsum``."""
    return cumsum(_filled(x, 0.0), axis)


@surface
def nancumprod(x: Any, axis: int | None = None) -> Value:
    """Running products with 1 in the place of NaN. See ``cumprod``."""
    return cumprod(_filled(x, 1.0), axis)


def _extreme(
    function: Callable[..., Value],
    x: Any,
    least: float,
    nothing: float,
    axis: Axis,
    keepdims: bool,
) -> Value:
    """A reduction that never picks ``least`` if another number is left; ``nothing`` if none is."""
    value = as_value(x)
    result = function(_filled(value, least), axis, keepdims)
    if not value.dtype.is_float:
        return result
    is_left = any_(logical_not(isnan(value)), axis, keepdims)
    return where(is_left, result, like(nothing, result))


@surface
def nanmax(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The largest element that is no NaN, and NaN if nothing is left. See ``max``.

    Raises:
        ShapeError: if an axis is empty: here where it is known, else when the graph runs.
    """
    return _extreme(max_, x, -math.inf, math.nan, axis, keepdims)


@surface
def nanmin(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The smallest element that is no NaN, and NaN if nothing is left. See ``min``.

    Raises:
        ShapeError: if an axis is empty: here where it is known, else when the graph runs.
    """
    return _extreme(min_, x, math.inf, math.nan, axis, keepdims)


@surface
def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
    """The first position of the largest element that is no NaN. See ``argmax``.

    Where nothing is left it is -1, as in JAX; NumPy raises.

    Raises:
        ShapeError: if the axis is empty: here where it is known, else when the graph runs.
    """
    return _extreme(argmax, x, -math.inf, -1, axis, keepdims)


@surface
def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
    """The first position of the smallest element that is no NaN. See ``argmin``.

    Where nothing is left it is -1, as in JAX; NumPy raises.

    Raises:
        ShapeError: if the axis is empty: here where it is known, else when the graph runs.
    """
    return _extreme(argmin, x, math.inf, -1, axis, keepdims)


@surface
def nanmean(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The mean of what is no NaN, and NaN if nothing is left. Integers and bools give float64."""
    value = as_value(x)
    if not value.dtype.is_inexact:
        return mean(value, axis, keepdims)
    return sum_(_filled(value, 0.0), axis, keepdims) / _count(value, axis, keepdims)


@surface
def nanvar(x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Value:
    """The variance of what is no NaN, divided by the number of these less ``ddof``.

    NaN where that is not above 0. Integers and bools give float64.
    """
    value = as_value(x)
    if value.dtype.is_complex:
        re, im = halves(where(isnan(value), like(complex(math.nan, math.nan), value), value))
        return nanvar(re, axis, keepdims, ddof) + nanvar(im, axis, keepdims, ddof)
    if not value.dtype.is_float:
        return var(value, axis, keepdims, ddof)
    center = sum_(_filled(value, 0.0), axis, True) / _count(value, axis, True)
    deviation = where(isnan(value), like(0, value), value - center)
    freedom = _count(value, axis, keepdims) - whole(ddof, "ddof")
    squares = sum_(deviation * deviation, axis, keepdims)
    return where(freedom > 0, squares / freedom, like(math.nan, value))


@surface
def nanstd(x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Value:
    """The square root of ``nanvar``."""
    value = as_value(x)
    if not value.dtype.is_inexact:
        return std(value, axis, keepdims, ddof)
    result: Value = surface_function("sqrt")(nanvar(value, axis, keepdims, ddof))
    return result
