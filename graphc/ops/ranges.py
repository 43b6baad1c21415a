"""Ranges of equal and of proportional steps, and the indices of a shape.

Invariant: as for ``arange`` nothing is stored; elements are computed from their index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, dim_max
from graphc.ir.dtypes import DType, DTypeLike, complex64, complex128, float32, float64, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.convert import (
    PYTHON_SCALARS,
    converted,
    dim_of,
    dims_of,
    in_dtype,
    promoted,
    size_beside,
)
from graphc.ops.creation import iota_beside
from graphc.ops.move.joining import stack
from graphc.ops.move.shape import moveaxis, with_shape
from graphc.ops.pointwise.arithmetic import power
from graphc.ops.pointwise.logarithms import log10
from graphc.ops.pointwise.logic import equal, not_equal, where
from graphc.ops.pointwise.rounding import floor, sign


def _ends(start: Any, stop: Any) -> tuple[Value, Value, DType]:
    """Both ends as values of the dtype that is computed in, and the dtype of the result."""
    if isinstance(start, (Value, np.ndarray, np.generic)) or isinstance(
        stop, (Value, np.ndarray, np.generic)
    ):
        first, last = promoted(start, stop)
        element = first.dtype if first.dtype.is_inexact else float64
        return converted(first, element), converted(last, element), element
    # as for arange: numbers are computed with in float64, and give float32
    if isinstance(start, complex) or isinstance(stop, complex):
        return in_dtype(start, complex128), in_dtype(stop, complex128), complex64
    return in_dtype(start, float64), in_dtype(stop, float64), float32


def _spaced(first: Value, last: Value, count: Dim, endpoint: bool) -> tuple[Value, Value]:
    """The elements along a new first axis, and the step between them."""
    rank = max(first.ndim, last.ndim)
    beside = first
    gaps = count - 1 if endpoint else count
    element = first.dtype.part
    delta = last - first
    step = delta / size_beside(dim_max(gaps, 1), element, beside)
    places = with_shape(iota_beside((count,), 0, element, beside), (count, *(1,) * rank), ())
    line = places * step + first
    if endpoint:
        # the last one is exact, and a single one is the first
        end = size_beside(gaps, element, beside)
        is_last = equal(places, end) & (end > 0)
        line = where(is_last, last, line)
    return line, step


@surface
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """``num`` elements at equal distances from start to stop, along a new axis.

    Args:
        start: the first element; numbers, complex ones too, or tensors, which broadcast.
        stop: the last one, or with ``endpoint=False`` the one that would come next.
        num: how many, an int or a dim.
        endpoint: whether ``stop`` is among them.
        retstep: whether to give the distance as well, as a second result.
        dtype: of the result; that of tensors, and float32 or complex64 of numbers, unless given.
            To integers elements are rounded down.
        axis: where the new axis is.

    Raises:
        ShapeError: for a ``num`` that is no number of elements.
    """
    first, last, own = _ends(start, stop)
    line, step = _spaced(first, last, dim_of(num), switch(endpoint, "endpoint"))
    target = own if dtype is None else as_dtype(dtype)
    result = moveaxis(converted(floor(line) if target.is_integer else line, target), 0, axis)
    return (result, converted(step, own)) if switch(retstep, "retstep") else result


@surface
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Value:
    """``base`` to the powers that ``linspace`` gives; arguments are those of ``linspace``."""
    first, last, own = _ends(start, stop)
    line, _ = _spaced(first, last, dim_of(num), switch(endpoint, "endpoint"))
    target = own if dtype is None else as_dtype(dtype)
    return moveaxis(converted(power(base, line), target), 0, axis)


@surface
def geomspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Value:
    """``num`` elements of equal quotients from start to stop; arguments are those of ``linspace``.

    Both ends have one sign; where a run tells that they have not, or are 0, the result is NaN.
    Between complex ends it is a spiral.

    Raises:
        DTypeError: for numbers of which one is 0, or that differ in sign.
    """
    first, last, own = _ends(start, stop)
    ends = start, stop
    if all(isinstance(end, PYTHON_SCALARS) for end in ends) and (
        0 in ends or (not first.dtype.is_complex and start * stop < 0)
    ):
        raise DTypeError(
            f"a geometric sequence from {start} to {stop}",
            where=caller(),
            hint="both ends need one sign, and neither is 0",
        )
    side = sign(first)
    if first.dtype.is_complex:
        fits = not_equal(first, 0) & not_equal(last, 0)
    else:
        fits = equal(side, sign(last)) & not_equal(side, 0)
    side = where(fits, side, float("nan"))
    count, includes = dim_of(num), switch(endpoint, "endpoint")
    exponents, _ = _spaced(log10(first / side), log10(last / side), count, includes)
    line = power(10.0, exponents) * side
    places = with_shape(
        iota_beside((count,), 0, int64, first), (count, *(1,) * (line.ndim - 1)), ()
    )
    line = where(equal(places, 0) & fits, first, line)
    if includes:
        end = size_beside(count - 1, int64, first)
        line = where(equal(places, end) & (end > 0) & fits, last, line)
    return moveaxis(converted(line, own if dtype is None else as_dtype(dtype)), 0, axis)


@surface
def indices(dimensions: Any, dtype: DTypeLike = "int64", sparse: bool = False) -> Any:
    """The index of each element of a shape along each axis, stacked along a new first one.

    Args:
        dimensions: the shape: an int, a dim, or a sequence of them.
        dtype: of the result.
        sparse: give a tuple instead, of one tensor for each axis that has 1 elsewhere.
    """
    shape = dims_of(dimensions)
    element = as_dtype(dtype)
    if switch(sparse, "sparse"):
        return tuple(
            iota_beside(_alone(shape, axis), axis, element, None) for axis in range(len(shape))
        )
    if not shape:
        return in_dtype(np.zeros((0,)), element)
    return stack([iota_beside(shape, axis, element, None) for axis in range(len(shape))])


def _alone(shape: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return tuple(size if place == axis else 1 for place, size in enumerate(shape))
