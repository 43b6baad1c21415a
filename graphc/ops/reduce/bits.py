"""Reductions of bits: ``reduce_and``, ``reduce_or``, ``reduce_xor``."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.ir.dtypes import bool_
from graphc.ir.op import OpDef
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.convert import as_value, axes_of
from graphc.ops.reduce.axes import Axis, all_, any_, reduce_axes
from graphc.ops.reduce.core import reduce_and_op, reduce_or_op, reduce_xor_op


def _reduced(core: OpDef, x: Value, axes: Axis) -> Value:
    if not (x.dtype.is_integer or x.dtype is bool_):
        raise DTypeError(
            f"{core.name} does not take {x.dtype}",
            where=caller(),
            hint="it is for the bits of integers and bools",
        )
    return reduce_axes(core, x, {"axes": axes_of(axes, x.ndim), "keepdims": False})


@surface
def reduce_and(operand: Any, axes: Axis = None) -> Value:
    """The bits that all elements over axes have, of bools whether all are true.

    Args:
        operand: integers or bools.
        axes: an axis, or several, which are dropped; None for all. If there are no elements the
            result has all bits.

    Raises:
        DTypeError: for floats.
    """
    value = as_value(operand)
    return all_(value, axes) if value.dtype is bool_ else _reduced(reduce_and_op, value, axes)


@surface
def reduce_or(operand: Any, axes: Axis = None) -> Value:
    """The bits that one element over axes has, of bools whether one is true; see ``reduce_and``.

    If there are no elements the result is 0.
    """
    value = as_value(operand)
    return any_(value, axes) if value.dtype is bool_ else _reduced(reduce_or_op, value, axes)


@surface
def reduce_xor(operand: Any, axes: Axis = None) -> Value:
    """The bits that an odd number of elements over axes has, of bools whether so many are true.

    Arguments are those of ``reduce_and``; if there are no elements the result is 0.
    """
    return _reduced(reduce_xor_op, as_value(operand), axes)


__all__ = ["reduce_and", "reduce_or", "reduce_xor"]
