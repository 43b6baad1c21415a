"""Turning what users pass into operands: arrays and numbers to constants, promotion, axes.

Promotion is NumPy 2's: Python scalars are weak, NumPy scalars and arrays strong. It happens here,
once, as explicit ``astype`` nodes; type rules of ops see equal dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import AxisError, DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.builder import current
from graphc.ir.dims.expressions import Dim, DimExpr, Size, SizeNumber, broadcast, equal
from graphc.ir.dtypes import (
    DType,
    dtype,
    float32,
    float64,
    int64,
    promote,
    promote_weak,
    scalar_dtype,
    storage_alone,
)
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole, one_or_more
from graphc.ops.guards import Guards, broadcast_guards, refusal
from graphc.ops.source import built_beside, constant, constant_beside, dim_op, payload_of

PYTHON_SCALARS = (bool, int, float, complex)
WEAK = (*PYTHON_SCALARS, Size)
"""What takes the dtype of the tensor beside it."""


def as_value(operand: Any, beside: Value | None = None) -> Value:
    """The operand as a value; anything ``np.asarray`` takes becomes a constant.

    Where it cannot join its own operands' graph, it joins that of ``beside``.
    """
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, Size):
        return of_sizes(operand, _size_dtype(operand), beside)
    if beside is None or current() is not None:
        return constant(operand)
    payload = payload_of(operand)
    return constant_beside(payload.array, dtype(payload.array.dtype), beside)


def promoted(*operands: Any, beside: Value | None = None) -> tuple[Value, ...]:
    """All operands as values of their common dtype.

    Where none of them is a value, they join the graph of ``beside``.

    Raises:
        DTypeError: for a Python int that the integer dtype cannot hold.
    """
    # most have two operands: two values of one dtype, or a value and a float
    if len(operands) == 2:
        left, right = operands
        if isinstance(left, Value):
            element = left._type.dtype
            if isinstance(right, Value):
                if right._type.dtype is element:
                    return operands
            elif type(right) is float and element.kind == "float":
                return left, constant_beside(right, element, left)
        elif type(left) is float and isinstance(right, Value):
            element = right._type.dtype
            if element.kind == "float":
                return constant_beside(left, element, right), right
    for operand in operands:
        if isinstance(operand, Value):
            beside = operand
            break
    values: list[Any] = list(operands)
    weak: list[int] = []
    common: DType | None = None
    for place, operand in enumerate(operands):
        if not isinstance(operand, Value):
            if isinstance(operand, WEAK) and not isinstance(operand, np.generic):
                weak.append(place)
                continue
            operand = values[place] = as_value(operand, beside)
        element = operand._type.dtype
        common = element if common is None else promote(common, element)
    if common is None:
        common = _alone(operands)
    else:
        try:
            for place in weak:
                common = promote(common, _beside(common, operands[place]))
        except DTypeError as error:
            error.where = error.where or caller()
            raise
    for place, value in enumerate(values):
        if place in weak:
            values[place] = _weak_constant(value, common, beside)
        elif value._type.dtype is not common:
            values[place] = converted(value, common)
    return tuple(values)


def _alone(operands: Sequence[Any]) -> DType:
    """The dtype of numbers and sizes that no tensor decides."""
    numbers = [scalar_dtype(operand) for operand in operands if not isinstance(operand, Size)]
    common = promote(*numbers) if numbers else None
    for operand in operands:
        if isinstance(operand, Size):
            own = _size_dtype(operand)
            common = own if common is None or own.is_float else _beside(common, operand)
    assert common is not None, "an operation has operands"
    return common


def _size_dtype(size: Size) -> DType:
    """What a size is where nothing else decides, as Python's int or float would be."""
    return float32 if isinstance(size, SizeNumber) else int64


def _beside(common: DType, weak: Any) -> DType:
    """The dtype of a tensor and a number or size. A dim beside integers is an int64, so that no
    size wraps around."""
    if isinstance(weak, SizeNumber):
        return promote_weak(common, 0.5)
    if isinstance(weak, Size):
        return common if common.is_inexact else int64
    return promote_weak(common, weak)


def size_beside(size: Dim, element: DType, beside: Value | None) -> Value:
    """A size as a scalar of a dtype, in the graph of another value; a constant if known."""
    if isinstance(size, int):
        if beside is not None:
            return constant_beside(size, element, beside)
        return constant(size, element)
    return converted(built_beside(dim_op, {"dim": size}, beside), element)


def of_sizes(size: Size, element: DType, beside: Value | None) -> Value:
    """A size as a scalar of a dtype; a quotient is computed in float64, as Python's are."""
    if isinstance(size, DimExpr):
        return size_beside(size, element, beside)
    assert isinstance(size, SizeNumber)
    operands = [
        of_sizes(operand, float64, beside)
        if isinstance(operand, Size)
        else _weak_constant(operand, float64, beside)
        for operand in size.operands
    ]
    return converted(surface_function(size.name)(*operands), element)


def in_dtype(given: Any, element: DType, beside: Value | None = None) -> Value:
    """A value, a size or anything ``np.asarray`` takes as a value of a dtype, in its own graph or
    that of ``beside``."""
    if isinstance(given, Value):
        return converted(given, element)
    if isinstance(given, Size):
        return of_sizes(given, element, beside)
    if beside is None:
        return constant(given, element)
    return constant_beside(payload_of(given, element).array, element, beside)


def _weak_constant(number: Any, element: DType, beside: Value | None) -> Value:
    if isinstance(number, Size):
        return of_sizes(number, element, beside)
    return constant(number, element) if beside is None else constant_beside(number, element, beside)


def converted(value: Value, element: DType) -> Value:
    """The value in another dtype; itself if it has it.

    Raises:
        DTypeError: to and from dtypes for storage alone, which users convert and nobody else.
    """
    given = value._type.dtype
    if given is element:
        return value
    if given.is_storage or element.is_storage:
        raise storage_alone(f"{given} is not taken for {element}", given, element)
    result: Value = surface_function("astype")(value, element)
    return result


def as_float(operand: Any) -> Value:
    """Floats and complex numbers as they are, the rest in float64, as NumPy's statistics."""
    value = as_value(operand)
    return value if value.dtype.is_inexact else converted(value, float64)


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis.

    Raises:
        ShapeError: if it is no int.
        AxisError: if it is out of range.
    """
    if not is_whole(axis):
        raise ShapeError(
            f"{shown(axis)} is not an axis", where=caller(), hint="an axis is an int, as 0 or -1"
        )
    if not -rank <= axis < rank:
        raise AxisError(
            f"axis {axis} is out of range for a tensor of rank {rank}",
            where=caller(),
            hint=f"axes go from {-rank} to {rank - 1}" if rank else "a scalar has no axes",
        )
    return int(axis) % rank


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Non-negative, ascending, distinct axes; None means all.

    Raises:
        ShapeError: if one is no int, out of range or repeated.
    """
    if axis is None:
        return tuple(range(rank))
    given = one_or_more(axis, "axis")
    result = sorted(axis_of(item, rank) for item in given)
    if len(set(result)) != len(result):
        raise ShapeError(f"axis {tuple(given)} names an axis twice", where=caller())
    return tuple(result)


def dims_of(shape: Any) -> tuple[Dim, ...]:
    """A shape given by the user: an int or dim, or a sequence of them.

    Raises:
        ShapeError: for anything else.
    """
    result: list[Dim] = []
    for item in one_or_more(shape, "shape"):
        if isinstance(item, DimExpr):
            result.append(item)
        elif is_whole(item):
            result.append(int(item))
        else:
            raise ShapeError(
                f"{shown(item)} is not a dim", where=caller(), hint="a dim is an int or x.shape[i]"
            )
    return tuple(result)


def dim_of(size: Any) -> Dim:
    """A size given by the user: an int that is not negative, or a dim.

    Raises:
        ShapeError: for anything else.
    """
    if isinstance(size, DimExpr):
        return size
    if is_whole(size) and 0 <= size < 2**63:
        return int(size)
    raise ShapeError(
        f"{shown(size)} is not a size", where=caller(), hint="a size is an int or x.shape[i]"
    )


def broadcast_shapes(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """NumPy's broadcast of shapes; dims not proved equal become ``broadcast`` dims.

    A runtime check of such dims is made when the graph runs.

    Raises:
        ShapeError: if two dims are proved to differ and neither is 1.
    """
    longest = max(shapes, key=len, default=())
    rank = len(longest)
    for shape in shapes:
        if shape != longest[rank - len(shape) :]:
            break
    else:
        return tuple(longest)
    result: list[Dim] = []
    for axis in range(rank):
        dim: Dim = 1
        for shape in shapes:
            position = axis - (rank - len(shape))
            if position < 0:
                continue
            other = shape[position]
            if dim is other or dim == other or other == 1:
                continue
            if dim == 1:
                dim = other
                continue
            if equal(dim, other):
                continue
            if isinstance(other, int) and _cannot_be(dim, other):
                raise _mismatch(shapes)
            if isinstance(dim, int) and _cannot_be(other, dim):
                raise _mismatch(shapes)
            if isinstance(dim, int):
                continue  # the other is 1 or the same; the result is this one either way
            if isinstance(other, int):
                dim = other
                continue
            dim = broadcast(dim, other)
        result.append(dim)
    return tuple(result)


def common_shape(
    shapes: Sequence[Sequence[Dim]],
    message: str,
    *shown: Dim | Sequence[Dim],
    hint: str | None = None,
    index: bool = False,
) -> tuple[tuple[Dim, ...], Guards]:
    """What shapes broadcast to, and what is left to check of that at run time.

    Arguments are those of ``unproved``; without ``shown`` the message names the shapes.

    Raises:
        ShapeError: with the message, if shapes are proved not to broadcast; IndexRangeError for
            those of indices.
    """
    shown = shown or tuple(shapes)
    try:
        common = broadcast_shapes(*shapes)
    except ShapeError:
        raise refusal(message, *shown, hint=hint, index=index) from None
    return common, broadcast_guards(shapes, common, message, *shown, index=index)


def _cannot_be(dim: Dim, size: int) -> bool:
    """Proved to be neither ``size`` nor 1."""
    return equal(dim, size) is False and equal(dim, 1) is False


def _mismatch(shapes: Sequence[Sequence[Dim]]) -> ShapeError:
    shown = " and ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)
    return ShapeError(f"shapes {shown} do not broadcast", hint="sizes must be equal or 1")
