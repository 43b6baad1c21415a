"""Values made from nothing but a shape: zeros, ones, full, arange, sizes as numbers.

Invariant: nothing here stores an array; a fill is a broadcast scalar and a range is computed from
the index, so that symbolic and huge shapes cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, DimExpr, ceil_div, dim_max
from graphc.ir.dtypes import ALL, DType, DTypeLike, bool_, float32, float64, int64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import Element, ElementBuilder, Scalar
from graphc.ir.op import Domain, Flat, OpDef, register
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole
from graphc.ops.convert import as_value, converted, dims_of, in_dtype, size_beside
from graphc.ops.move.shape import reshape_op
from graphc.ops.source import built_beside

_NUMBERS = tuple(element for element in ALL if element is not bool_)


def _iota_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [TensorType(attrs["dtype"], attrs["shape"])]


def _iota(shape: Sequence[int], axis: int, dtype: DType) -> Any:
    index = np.arange(shape[axis], dtype=np.int64).astype(dtype.numpy)
    column = index.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    return np.broadcast_to(column, tuple(shape)).copy()


def _iota_rule(
    b: ElementBuilder,
    input_types: Sequence[TensorType],
    output_type: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    return b.cast(index[attrs["axis"]], attrs["dtype"])


iota_op = register(
    OpDef(
        name="iota",
        doc="A tensor of attrs shape and dtype whose elements are their index along attrs axis.",
        infer=_iota_type,
        reference=_iota,
        derivative=Flat(),
        lowering=Element(_iota_rule),
        domain=Domain(_NUMBERS, example=lambda rng, element: ((), _iota_attrs((3, 4), 1, element))),
    )
)


def _iota_attrs(shape: Sequence[Dim], axis: int, element: DType) -> dict[str, Any]:
    return {"shape": tuple(shape), "axis": axis, "dtype": element}


def iota_beside(shape: Sequence[Dim], axis: int, element: DType, beside: Value | None) -> Value:
    """The index along one axis, in the graph of another value."""
    made = built_beside(iota_op, _iota_attrs(shape, axis, element.part), beside)
    return converted(made, element)


@surface
def dim(size: Dim) -> Value:
    """A dim, such as ``x.shape[0]``, as an int64 scalar in the current graph.

    A dim does not know which graph it comes from: call this within ``with graph`` if the graph is
    not the default one.
    """
    if not isinstance(size, DimExpr) and not is_whole(size):
        raise ShapeError(
            f"{shown(size)} is not a dim", where=caller(), hint="a dim is an int or x.shape[i]"
        )
    return size_beside(size, int64, None)


# --- fills ---------------------------------------------------------------------------------------


@surface
def full(shape: Any, value: Any, dtype: DTypeLike | None = None) -> Value:
    """A tensor of one value; ``shape`` is an int, a dim or a sequence of them.

    A Python float gives float32 and an int int64 unless ``dtype`` says otherwise.
    """
    filled = as_value(value) if dtype is None else in_dtype(value, as_dtype(dtype))
    result: Value = surface_function("broadcast_to")(filled, dims_of(shape))
    return result


@surface
def zeros(shape: Any, dtype: DTypeLike = "float32") -> Value:
    """A tensor of zeros; ``shape`` is an int, a dim or a sequence of them."""
    return full(shape, 0, dtype)


@surface
def ones(shape: Any, dtype: DTypeLike = "float32") -> Value:
    """A tensor of ones; ``shape`` is an int, a dim or a sequence of them."""
    return full(shape, 1, dtype)


@surface
def full_like(x: Any, value: Any, dtype: DTypeLike | None = None) -> Value:
    """A tensor of one value in the shape, and unless given the dtype, of x."""
    like = as_value(x)
    element = like.dtype if dtype is None else as_dtype(dtype)
    filled = in_dtype(value, element, like)
    result: Value = surface_function("broadcast_to")(filled, like.shape)
    owner: Recorder | None = result.graph
    if owner is None:
        return result
    if result is filled:
        # the number as it was given, which says nothing of x
        if not owner.may_be_missing(like):
            return result
        result = apply(reshape_op, filled, shape=filled.shape)
    owner.rely(result, [like])
    return result


@surface
def zeros_like(x: Any, dtype: DTypeLike | None = None) -> Value:
    """Zeros in the shape, and unless given the dtype, of x."""
    return full_like(x, 0, dtype)


@surface
def ones_like(x: Any, dtype: DTypeLike | None = None) -> Value:
    """Ones in the shape, and unless given the dtype, of x."""
    return full_like(x, 1, dtype)


# --- ranges --------------------------------------------------------------------------------------


@surface
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None) -> Value:
    """start, start + step, … up to but without stop; with one argument from 0 to it.

    Ints and dims (``gx.arange(x.shape[0])``) give int64, a float among the arguments float32,
    unless ``dtype`` says otherwise. Floats are computed in float64 as ``start + i * step`` and
    rounded once.

    Raises:
        DTypeError: for anything but numbers and dims, or a step of 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    given = (first, last, step)
    if any(isinstance(item, (bool, np.bool_)) for item in given):
        raise DTypeError("arange does not take bools", where=caller())
    if all(isinstance(item, (int, np.integer, DimExpr)) for item in given):
        begin, end, stride = (i if isinstance(i, DimExpr) else int(i) for i in given)
        return _integer_range(begin, end, stride, int64 if dtype is None else as_dtype(dtype))
    if not all(isinstance(item, (int, float, np.integer, np.floating)) for item in given):
        raise DTypeError(
            "arange takes numbers and dims",
            where=caller(),
            hint="the length of a range must be known from shapes; a tensor cannot give it",
        )
    low, high, width = (float(item) for item in given)
    if width == 0 or not math.isfinite((high - low) / width):
        raise DTypeError(f"arange with step {width} has no length", where=caller())
    length = max(0, math.ceil((high - low) / width))
    index = iota_beside((length,), 0, float64, None)
    # as NumPy does: the step is the rounded difference of the first two elements
    values = index * ((low + width) - low) + low
    return converted(values, float32 if dtype is None else as_dtype(dtype))


def _integer_range(begin: Dim, end: Dim, stride: Dim, element: DType) -> Value:
    if isinstance(stride, DimExpr) or stride == 0:
        raise DTypeError(f"arange with step {stride}", where=caller(), hint="use an int, not 0")
    span = end - begin if stride > 0 else begin - end
    length = dim_max(0, ceil_div(span, abs(stride)))
    values = iota_beside((length,), 0, int64, None)
    if stride != 1:
        values = values * stride
    if isinstance(begin, DimExpr) or begin != 0:
        values = values + size_beside(begin, int64, values)
    return converted(values, element)
