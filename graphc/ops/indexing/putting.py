"""Elements replaced at places or where a mask holds, by NumPy's names for it.

Invariant: nothing changes in place; what NumPy writes into an array is given as a new value.
"""

from __future__ import annotations

from typing import Any

from graphc.ir.dtypes import bool_, int64
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted, in_dtype
from graphc.ops.indexing.picking import put_along_axis, take
from graphc.ops.indexing.written import as_update
from graphc.ops.move.inserting import resize
from graphc.ops.move.shape import broadcast_to, ravel, with_shape
from graphc.ops.pointwise.logic import where as where_


@surface
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> Value:
    """A new value: ``a`` with ``v`` at flat places; the last of several at one place stays.

    Args:
        a: any tensor.
        ind: integers of any shape, places in row-major order.
        v: the elements, repeated from the first as needed.
        mode: "raise" (or "error") refuses places out of range; "wrap", "clip", "drop".

    Raises:
        DTypeError: for v of a dtype that a's does not take.
        IndexRangeError: for a place out of range, at run time where unknown.
    """
    value = as_value(a)
    places = ravel(as_value(ind, value))
    values = resize(as_update(v, value), places.shape)
    return put_along_axis(value, places, values, None, "error" if mode == "raise" else mode)


@surface
def place(arr: Any, mask: Any, vals: Any) -> Value:
    """A new value: ``arr`` with the elements of ``vals`` in turn where a mask holds.

    Args:
        arr: any tensor.
        mask: as many elements.
        vals: the elements for the first place where it holds, the second and so on, repeated from
            the first as needed.

    Raises:
        DTypeError: for vals of a dtype that arr's does not take.
        IndexRangeError: for no vals, when the graph runs.
    """
    value = as_value(arr)
    holds = broadcast_to(converted(as_value(mask, value), bool_), value.shape)
    values = ravel(as_update(vals, value))
    number = surface_function("cumsum")(ravel(converted(holds, int64))) - 1
    size = in_dtype(values.shape[0], int64, values)
    chosen = take(values, number % size, 0)
    return where_(holds, with_shape(chosen, value.shape, ()), value)


@surface
def putmask(a: Any, mask: Any, values: Any) -> Value:
    """A new value: ``a`` with ``values[i]`` at each flat place i where a mask holds.

    ``values`` is repeated from the first as needed to as many elements as there are.

    Raises:
        DTypeError: for values of a dtype that a's does not take.
    """
    value = as_value(a)
    holds = broadcast_to(converted(as_value(mask, value), bool_), value.shape)
    return where_(holds, resize(as_update(values, value), value.shape), value)


@surface
def copyto(dst: Any, src: Any, where: Any = True) -> Value:
    """A new value: ``src`` in the dtype and the shape of ``dst``, which stays where ``where`` does
    not hold.

    Raises:
        DTypeError: for src of a dtype that dst's does not take.
        ShapeError: for shapes that do not broadcast to that of dst.
    """
    value = as_value(dst)
    given = broadcast_to(as_update(src, value), value.shape)
    holds = broadcast_to(converted(as_value(where, value), bool_), value.shape)
    return where_(holds, given, value)


__all__ = ["copyto", "place", "put", "putmask"]
