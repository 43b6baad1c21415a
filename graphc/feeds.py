"""What may be fed where: the conversion rules of ``Session.run``.

bool goes to anything, ints to ints or floats with range checks, floats to floats; everything else
is an error that names what was expected and what was given. The result is packed, aligned and of
native byte order; a fed array is never written, so one that already is so is used as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.errors import FeedError
from graphc.base.source import caller
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
            raise _misshapen(value, array, given)
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
        raise _misshapen(value, array, given)
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


def _misshapen(value: Value, array: Array, given: Any) -> FeedError:
    """The error for a shape: it names the first axis that is wrong, or the number of axes."""
    what = f"an array of shape {_shape(array)}"
    rank = len(value.shape)
    if array.ndim != rank:
        what += f": {array.ndim} {'axis' if array.ndim == 1 else 'axes'} instead of {rank}"
        hint = None
        if array.ndim == rank - 1:
            hint = "add an axis with array[None], or at the end with array[..., None]"
        elif array.ndim > rank and 1 in array.shape:
            hint = "drop axes of size 1 with array.squeeze()"
        elif _is_placeholder(value):
            hint = "reshape the array, or declare the placeholder with its number of axes"
        return _wrong(value, what, given, hint)
    axis, expected = next(
        (axis, dim)
        for axis, (dim, size) in enumerate(zip(value.shape, array.shape, strict=True))
        if isinstance(dim, int) and dim != size
    )
    what += f": axis {axis} has size {array.shape[axis]}, not {expected}"
    hint = None
    fixed = [dim for dim in value.shape if isinstance(dim, int)]
    if len(fixed) == rank and sorted(fixed) == sorted(array.shape):
        hint = "the sizes are right in another order: transpose the array"
    elif _is_placeholder(value):
        hint = f"to take any size here, declare the placeholder with None or a name as dim {axis}"
    return _wrong(value, what, given, hint)


def _is_placeholder(value: Value) -> bool:
    node = value.graph.producer(value) if value.graph is not None else None
    return node is not None and node.op.name == "placeholder"


def _wrong(value: Value, what: str, given: Any, hint: str | None = None) -> FeedError:
    dims = ", ".join(str(d) if isinstance(d, int) else f"?{d}" for d in value.shape)
    expected = f"{value.dtype}({dims}{',' if len(value.shape) == 1 else ''})"
    built, called = None, caller()
    if value.graph is not None:
        node = value.graph.producer(value)
        built = node.provenance.where if node is not None else None
    return FeedError(
        f"feed for {value.name or 'an unnamed value'}: expected {expected}, given {what}",
        where=built or called,
        node=f"the call at {called}" if built is not None and called is not None else None,
        hint=hint,
    )
