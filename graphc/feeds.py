"""What may be fed where: the conversion rules of ``Session.run``.

bool goes to anything, ints to ints or floats with range checks, floats to floats; everything else
is an error that names what was expected and what was given. The result is packed, aligned and of
native byte order; a fed array is never written, so one that already is so is used as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.errors import FeedError
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType
from graphc.ir.value import Value


def converted_feed(value: Value, given: Any) -> Array:
    """The array to run with.

    Raises:
        FeedError: naming expected and given.
    """
    if (
        type(given) is np.ndarray
        and given.dtype == value.dtype.numpy
        and given.dtype.isnative
        and given.flags.c_contiguous
        and given.flags.aligned
        and given.ndim == len(value.shape)
    ):
        array = given
    else:
        array = _as_array(value, given)
    for dim, size in zip(value.shape, array.shape, strict=True):
        if isinstance(dim, int) and dim != size:
            raise _wrong(value, f"an array of shape {_shape(array)}", given)
    return array


def _as_array(value: Value, given: Any) -> Array:
    type_ = value.type
    if isinstance(given, Value):
        raise _wrong(value, "a symbolic value", given, "feed an array; fetch the value first")
    if given is None:
        raise _wrong(value, "None", given)
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise _wrong(value, "masked entries", given, "fill them first, with .filled(x)")
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise _wrong(value, f"what NumPy cannot make an array of ({error})", given) from error
    if array.ndim != type_.rank:
        raise _wrong(value, f"an array of shape {_shape(array)}", given)
    array = _cast(value, array, type_.dtype, given)
    return np.require(array, type_.dtype.numpy, ["C", "A"]).reshape(array.shape)


def _cast(value: Value, array: Array, dtype: DType, given: Any) -> Array:
    kind = array.dtype.kind
    if kind == "b" or (array.size == 0 and kind in "iuf" and not isinstance(given, np.ndarray)):
        return array.astype(dtype.numpy)
    if kind in "iu":
        if dtype.kind == "bool":
            raise _wrong(value, f"dtype {array.dtype}", given, "compare it, for example with != 0")
        if dtype.is_integer and array.size and array.dtype != dtype.numpy:
            info = np.iinfo(dtype.numpy)  # type: ignore[type-var]
            low, high = int(array.min()), int(array.max())
            if low < info.min or high > info.max:
                raise _wrong(value, f"values from {low} to {high}", given)
        return array.astype(dtype.numpy, copy=False)
    if kind == "f":
        if not dtype.is_float:
            raise _wrong(value, f"dtype {array.dtype}", given, f"round it with .astype('{dtype}')")
        with np.errstate(all="ignore"):
            return array.astype(dtype.numpy, copy=False)
    raise _wrong(value, f"dtype {array.dtype}", given)


def _shape(array: Array) -> str:
    return f"({', '.join(map(str, array.shape))}{',' if array.ndim == 1 else ''})"


def _wrong(value: Value, what: str, given: Any, hint: str | None = None) -> FeedError:
    dims = ", ".join(str(d) if isinstance(d, int) else f"?{d}" for d in value.shape)
    expected = f"{value.dtype}({dims}{',' if len(value.shape) == 1 else ''})"
    where = None
    if value.graph is not None:
        node = value.graph.producer(value)
        where = node.provenance.where if node is not None else None
    return FeedError(
        f"feed for {value.name or 'an unnamed value'}: expected {expected}, given {what}",
        where=where,
        hint=hint,
    )
