"""Slices that begin at a value and have a known length: ``x[i : i + 3]``.

The length is known where both bounds are one value and numbers that were added to it.
"""

from __future__ import annotations

from graphc.base.errors import DTypeError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import int64
from graphc.ir.recorder import producer_of
from graphc.ir.value import Value
from graphc.ops.creation import iota_beside
from graphc.ops.indexing.core import raveled
from graphc.ops.indexing.modes import wide
from graphc.ops.source import constant_op, known_array

_DEEPEST = 16
"""So many operations deep two bounds are compared."""


def window_of(item: slice, axis: int, length: Dim) -> Value | None:
    """The places along an axis of a slice one of whose bounds is a value; None for other slices.

    They are checked, and negative ones are out of range: the length is that of the slice for those
    bounds only that don't leave the axis.

    Raises:
        UnsupportedError: for a length that is unknown.
        DTypeError: for bounds that are no integers.
    """
    if not isinstance(item.start, Value) and not isinstance(item.stop, Value):
        return None
    step = 1 if item.step is None else item.step
    size = -1
    if isinstance(item.start, Value) and isinstance(item.stop, Value) and isinstance(step, int):
        for bound in (item.start, item.stop):
            if not bound.dtype.is_integer or bound.ndim:
                raise DTypeError(
                    f"a slice bound must be one integer, not {bound!r}", where=caller()
                )
        size = _distance(item.start, item.stop)
    # a bound below 0 counts from the end: only one not before a start in range doesn't
    if size < 0 or step <= 0:
        raise UnsupportedError(
            "a slice bound that is a symbolic value: the size of the result would be unknown",
            where=caller(),
            hint="gx.dynamic_slice(x, starts, sizes) takes a known number from starts that are "
            "values, as x[i : i + 3] does; a mask with gx.where, as gx.arange(n) < stop, keeps "
            "the shape",
        )
    count = -(-size // step)
    steps = iota_beside((count,), 0, int64, item.start) * step
    return raveled([wide(item.start) + steps], (length,), (axis,), wraps=False, of="slice")


def _distance(start: Value, stop: Value) -> int:
    """The stop without the start; -1 where it is not known."""
    (one, before), (other, behind) = _apart(start), _apart(stop)
    return behind - before if _same(one, other, _DEEPEST) else -1


def _apart(value: Value) -> tuple[Value, int]:
    """What numbers were added to, and their sum."""
    total = 0
    while (node := producer_of(value)) is not None and node.op.name in ("add", "subtract"):
        left, right = node.inputs
        number = _number(right)
        rest = left
        if number is None and node.op.name == "add":
            number, rest = _number(left), right
        if number is None:
            break
        total += number if node.op.name == "add" else -number
        value = rest
    return value, total


def _number(value: Value) -> int | None:
    array = known_array(value)
    return None if array is None or array.size != 1 else int(array.reshape(()))


def _same(one: Value, other: Value, depth: int) -> bool:
    """Whether two values are computed alike of the same."""
    if one is other:
        return True
    first, second = producer_of(one), producer_of(other)
    if first is None or second is None or not depth or first.regions:
        return False
    if first.op is not second.op or first.op.effect != "pure" or first.attrs != second.attrs:
        return False
    if not first.inputs or len(first.inputs) != len(second.inputs):
        return first.op is constant_op
    pairs = zip(first.inputs, second.inputs, strict=True)
    return all(_same(a, b, depth - 1) for a, b in pairs)
