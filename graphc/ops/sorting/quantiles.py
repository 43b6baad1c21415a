"""Medians and quantiles: places in sorted rows, and what lies between them.

Invariant: each method computes the place and the weight as NumPy does, so that the bits are its
bits. NaN sorts behind everything, so whether a row has one is seen at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import product
from graphc.ir.dtypes import DType, float64, int64, promote
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.convert import as_float, as_value, axes_of, converted, in_dtype, size_beside
from graphc.ops.declare import refuse
from graphc.ops.indexing.core import taken_along
from graphc.ops.move.shape import broadcast_to
from graphc.ops.reduce.axes import Axis
from graphc.ops.reduce.core import element_guards
from graphc.ops.sorting.order import sort_op

Place: TypeAlias = Callable[[Value, Value], Value]
"""From the number of elements and the quantile to a place among them, in fractions."""


def _where(condition: Value, one: Any, other: Any) -> Value:
    result: Value = surface_function("where")(condition, one, other)
    return result


def _floor(place: Value) -> Value:
    result: Value = surface_function("floor")(place)
    return result


def _between(alpha: float, beta: float) -> Place:
    """The place of R. Hyndman and Y. Fan, "Sample quantiles in statistical packages" (1996)."""
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _discrete(shift: float, stays: Callable[[Value, Value], Value]) -> Place:
    """The place below or the next one."""

    def place(n: Value, q: Value) -> Value:
        index = n * q - 1 - shift if shift else n * q - 1
        below = _floor(index)
        found = _where(stays(index - below, below), below, below + 1)
        result: Value = surface_function("maximum")(found, 0)
        return result

    return place


_PLACES: dict[str, Place] = {
    "inverted_cdf": _discrete(0, lambda gamma, below: gamma == 0),
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "closest_observation": _discrete(
        0.5, lambda gamma, below: surface_function("logical_and")(gamma == 0, below % 2 == 1)
    ),
    "interpolated_inverted_cdf": _between(0, 1),
    "hazen": _between(0.5, 0.5),
    "weibull": _between(0, 0),
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": _between(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _between(3 / 8.0, 3 / 8.0),
    "lower": lambda n, q: _floor((n - 1) * q),
    "higher": lambda n, q: surface_function("ceil")((n - 1) * q),
    "midpoint": lambda n, q: (
        (_floor((n - 1) * q) + surface_function("ceil")((n - 1) * q)) * 0.5
    ),
    "nearest": lambda n, q: surface_function("round")((n - 1) * q),
}
_WHOLE = frozenset({"inverted_cdf", "closest_observation", "lower", "higher", "nearest"})
"""Methods that give an element, and don't interpolate."""


def _weight(method: str, gamma: Value, place: Value) -> Value:
    if method == "averaged_inverted_cdf":
        return _where(gamma == 0, 0.5, gamma * 0 + 1)
    if method == "midpoint":
        return _where(place % 1 == 0, 0.0, gamma * 0 + 0.5)
    return gamma


def _rows(x: Value, axis: Axis) -> tuple[Value, tuple[int, ...]]:
    """The reduced axes as one, the last; and which they are."""
    axes = axes_of(axis, x.ndim)
    kept = [place for place in range(x.ndim) if place not in axes]
    moved = surface_function("transpose")(x, (*kept, *axes)) if x.ndim > 1 else x
    shape = (*[x.shape[place] for place in kept], product(x.shape[place] for place in axes))
    rows: Value = surface_function("reshape")(moved, shape)
    return rows, axes


def _spread(result: Value, x: Value, axes: tuple[int, ...], keepdims: bool, more: int) -> Value:
    """The result with the axes of ``q``, its first, and with 1 for each reduced axis if wanted."""
    if not keepdims:
        return result
    shape = [1 if place in axes else size for place, size in enumerate(x.shape)]
    spread: Value = surface_function("reshape")(result, (*result.shape[:more], *shape))
    return spread


def _at(rows: Value, places: Value) -> Value:
    """Elements of rows; places are [..., m] for each row, or [m] for all."""
    shape = (*rows.shape[:-1], places.shape[-1])
    return taken_along(rows, broadcast_to(places, shape), rows.ndim - 1)


def _mixed(one: Value, other: Value, weight: Value, is_weak: bool) -> Value:
    """What lies between two elements; counted from the nearer one, which rounds less."""
    element = one.dtype
    if not (is_weak and element.is_float):
        element = promote(element, weight.dtype)
    if not one.dtype.is_float:
        # a difference of integers could wrap around
        one, other = converted(one, element), converted(other, element)
    gap = converted(other - one, element)
    one, other = converted(one, element), converted(other, element)
    up = one + gap * converted(weight, element)
    return _where(weight >= 0.5, other - gap * converted(1 - weight, element), up)


def _numbers(rows: Value, element: DType) -> Value:
    """How many elements of each row are no NaN, [..., 1]."""
    valid = surface_function("logical_not")(surface_function("isnan")(rows))
    total = surface_function("sum")(valid, axis=-1, keepdims=True)
    return converted(total, element)


def _quantile(
    x: Any, q: Any, axis: Axis, method: str, keepdims: bool, skips: bool, scale: int, name: str
) -> Value:
    keeps = switch(keepdims, "keepdims")
    if not isinstance(method, str) or method not in _PLACES:
        hint = ", ".join(sorted(_PLACES))
        raise ShapeError(f"{name}: method is {shown(method)}", where=caller(), hint=hint)
    value = as_value(x)
    if value.dtype.is_complex:
        hint = f"median takes them; {name} is of gx.real(x), gx.imag(x) or gx.abs(x)"
        raise refuse(f"{name} does not take {value.dtype}", hint)
    is_weak = type(q) in (int, float)
    # numbers are weak, arrays are not, as everywhere
    share = as_value(q if isinstance(q, Value) else np.asarray(q), value)
    if share.dtype.is_complex:
        raise refuse(f"{name}: q is {share.dtype}", f"give real numbers from 0 to {scale}")
    known = None if isinstance(q, Value) else np.asarray(q, np.float64)
    if known is not None and not ((known >= 0) & (known <= scale)).all():
        raise ShapeError(f"{name}: q is {shown(q)}", where=caller(), hint=f"from 0 to {scale}")
    # places of whole quantiles are whole, so there is nothing to go between
    is_whole = method in _WHOLE or (
        method == "linear" and scale == 1 and (type(q) is int or not share.dtype.is_float)
    )
    if not share.dtype.is_float:
        share = converted(share, float64)
    if scale != 1:
        share = share / scale
    element = share.dtype
    more = share.ndim
    rows, axes = _rows(value, axis)
    guards = element_guards(name, rows, (rows.ndim - 1,))
    ordered = apply(sort_op, rows, descending=False, **guards)
    flat = surface_function("reshape")(share, (-1,))
    if skips and value.dtype.is_float:
        count = _numbers(ordered, element)
    else:
        count = size_beside(rows.shape[-1], element, rows)
    place = _PLACES[method](count, flat)
    last = converted(count, int64) - 1
    least, most = surface_function("minimum"), surface_function("maximum")
    if is_whole:
        made = _at(ordered, most(least(converted(place, int64), last), 0))
    else:
        below = _floor(place)
        gamma = _weight(method, place - below, place)
        first = most(least(converted(below, int64), last), 0)
        second = most(least(first + 1, last), 0)
        # before the first element and behind the last one there is nothing to go between
        second = _where(place < 0, first, second)
        one, other = _at(ordered, first), _at(ordered, second)
        made = _mixed(one, other, gamma, is_weak)
    if value.dtype.is_float:
        nan = in_dtype(np.nan, made.dtype, value)
        bad = count < 1 if skips else surface_function("isnan")(ordered[..., -1:])
        made = _where(bad, nan, made)
    # the quantiles are the first axes, as NumPy has it
    moved = surface_function("moveaxis")(made, -1, 0)
    shaped = surface_function("reshape")(moved, (*share.shape, *made.shape[:-1]))
    return _spread(shaped, value, axes, keeps, more)


@surface
def quantile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """The ``q``-th quantiles over an axis, several, or all (None), as ``np.quantile``.

    Args:
        x: real numbers; integers give float64 where the method goes between elements.
        q: from 0 to 1, of any shape, which comes first in the result. The dtype of an array counts
            in that of the result, that of a number does not.
        axis: what is sorted.
        method: one of NumPy's; "linear" goes between the two elements that are next.
        keepdims: leaves axes of size 1.

    NaN in a row makes it NaN. The gradient goes to the elements that the quantile lies between.

    Raises:
        DTypeError: for complex numbers.
        ShapeError: for a q out of range that is known, for an unknown method, and for empty rows:
            here where that is known, else when the graph runs.
    """
    return _quantile(x, q, axis, method, keepdims, False, 1, "quantile")


@surface
def percentile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """``quantile`` of ``q / 100``."""
    return _quantile(x, q, axis, method, keepdims, False, 100, "percentile")


@surface
def nanquantile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """``quantile`` of the elements that are no NaN; NaN where there are none."""
    return _quantile(x, q, axis, method, keepdims, True, 1, "nanquantile")


@surface
def nanpercentile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """``nanquantile`` of ``q / 100``."""
    return _quantile(x, q, axis, method, keepdims, True, 100, "nanpercentile")


def _median(x: Any, axis: Axis, keepdims: bool, skips: bool, name: str) -> Value:
    keeps = switch(keepdims, "keepdims")
    value = as_float(x)
    rows, axes = _rows(value, axis)
    guards = element_guards(name, rows, (rows.ndim - 1,))
    ordered = apply(sort_op, rows, descending=False, **guards)
    if skips:
        count = _numbers(ordered, int64)
    else:
        count = surface_function("reshape")(size_beside(rows.shape[-1], int64, rows), (1,))
    most = surface_function("maximum")
    one, other = (_at(ordered, most(place // 2, 0)) for place in (count - 1, count))
    made = _where(count % 2 == 1, other, (one + other) / 2)
    nan = in_dtype(np.nan, value.dtype, value)
    bad = count < 1 if skips else surface_function("isnan")(ordered[..., -1:])
    made = _where(bad, nan, made)
    return _spread(surface_function("squeeze")(made, -1), value, axes, keeps, 0)


@surface
def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The median over an axis, several, or all (None): the mean of the two in the middle.

    Complex numbers are in the order of ``sort``. Integers and bools give
    float64. NaN in a row makes it NaN.

    Raises:
        ShapeError: for empty rows: here where that is known, else when the graph runs.
    """
    return _median(x, axis, keepdims, False, "median")


@surface
def nanmedian(x: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """The median of the elements that are no NaN; NaN where there are none."""
    return _median(x, axis, keepdims, True, "nanmedian")


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]
