"""Windows that begin at values: ``dynamic_slice``, ``dynamic_update_slice`` and kin, as in jax.lax.

Invariant: a start below 0 counts from the end, and then starts move so far that the window lies
within the axis. So nothing is out of range when a graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, DimExpr, dim_max, equal
from graphc.ir.dtypes import ALL, DType, int64
from graphc.ir.lowering import Element, ElementBuilder, Scalar
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import as_value, axis_of, dim_of, dims_of, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.guards import Guards, guarded, show, unproved
from graphc.ops.indexing.modes import wide
from graphc.ops.indexing.places import located, require_indices
from graphc.ops.indexing.written import as_update, scattered_at
from graphc.ops.move.shape import broadcast_to, expand_dims, sample, squeeze, with_shape
from graphc.ops.source import constant_beside

_MOST_AXES = 64
_EACH = "give a start for each axis"

# --- the op --------------------------------------------------------------------------------------


def _type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    data, *starts = inputs
    for start in starts:
        require_indices("dynamic_slice", start)
        if start.rank:
            raise ShapeError(f"dynamic_slice starts at scalars, not at {show(start.shape)}")
    if len(attrs["sizes"]) != data.rank or len(attrs["axes"]) != len(starts):
        raise ShapeError(f"dynamic_slice of {show(data.shape)} to {show(attrs['sizes'])}")
    return [data.with_shape(attrs["sizes"])]


def _rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    places = list(index)
    for number, axis in enumerate(attrs["axes"]):
        length = inputs[0].shape[axis]
        start, _ = located(b, b.load(number + 1, ()), length)
        last = b.dim(length - result.shape[axis])
        start = b.apply("maximum", b.apply("minimum", start, last), b.constant(0, int64))
        places[axis] = b.apply("add", places[axis], start)
    return b.load(0, places)


def _reference(x: Any, *starts: Any, sizes: Any, axes: Any, guards: Any = ()) -> Any:
    key = [slice(None)] * x.ndim
    for axis, given in zip(axes, starts, strict=True):
        length = x.shape[axis]
        start = int(given) + (length if given < 0 else 0)
        start = max(min(start, length - sizes[axis]), 0)
        key[axis] = slice(start, start + sizes[axis])
    return x[tuple(key)].copy()


def _transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    data, *starts = inputs
    base = broadcast_to(constant_beside(0, cotangent.dtype, cotangent), data.shape)
    at = dict(zip(attrs["axes"], starts, strict=True))
    return [_written(base, cotangent, at), *[None] * len(starts)]


def _example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    starts = [np.asarray(start) for start in random.integers(-4, 7, 2)]
    return [sample(random, dtype, 4, 3, 5), *starts], {"sizes": (2, 3, 4), "axes": (0, 2)}


dynamic_slice_op = register(
    OpDef(
        name="dynamic_slice",
        doc=(
            "``sizes`` elements along each axis, along ``axes`` from the places that the further "
            "inputs, integer scalars, name: negative ones from the end, moved into the axis."
        ),
        infer=_type,
        reference=_reference,
        derivative=Linear(_transpose, fixed=tuple(range(1, _MOST_AXES))),
        lowering=Element(_rule),
        of_complex=each_part,
        domain=Domain(dtypes=ALL, example=_example),
    )
)


def _written(base: Value, update: Value, at: dict[int, Value], guards: Guards = ()) -> Value:
    """The base with an update at the places where windows begin along some axes."""
    if not at:
        return with_shape(update, base.shape, guards)
    low, high = min(at), max(at)
    shape = update.shape[low : high + 1]
    numbers: list[Value] = []
    for axis in range(low, high + 1):
        number = iota_beside((update.shape[axis],), 0, int64, base)
        if axis in at:
            number = number + _moved(at[axis], base.shape[axis], update.shape[axis])
        behind = (1,) * (high - axis)
        number = with_shape(number, (*(1,) * (axis - low), update.shape[axis], *behind), ())
        numbers.append(broadcast_to(number, shape))
    return scattered_at("set", base, low, numbers, update, guards, drops=True)


def _moved(start: Value, length: Dim, size: Dim) -> Value:
    """Where a window begins."""
    number, where = wide(start), surface_function("where")
    number = where(number < 0, number + size_beside(length, int64, start), number)
    last = size_beside(length - size, int64, start)
    result: Value = surface_function("maximum")(surface_function("minimum")(number, last), 0)
    return result


# --- what users call -----------------------------------------------------------------------------


def _starts_of(name: str, starts: Any, value: Value) -> tuple[list[Value], Guards]:
    """A scalar for each axis, and what is left to check of how many there are: what is made
    without the starts needs it, too.

    Raises:
        ShapeError: for another number of them.
        DTypeError: for what is no integer.
    """
    guards: Guards = ()
    if isinstance(starts, (Value, np.ndarray)):
        given = as_value(starts, value)
        if given.ndim != 1:
            raise ShapeError(
                f"{name} from starts of shape {show(given.shape)}",
                where=caller(),
                hint="starts are scalars, or one vector",
            )
        message = f"{name} of a tensor of rank {value.ndim} from {{}} starts"
        guards = unproved([(given.shape[0], value.ndim)], message, given.shape[0], hint=_EACH)
        given = with_shape(given, (value.ndim,), guards)
        items: list[Any] = [given[n] for n in range(value.ndim)]
    else:
        items = list(items_of(starts, "starts"))
        if len(items) != value.ndim:
            raise ShapeError(
                f"{name} of a tensor of rank {value.ndim} from {len(items)} starts",
                where=caller(),
                hint=_EACH,
            )
    return [_start_of(name, item, value) for item in items], guards


def _start_of(name: str, start: Any, value: Value) -> Value:
    if isinstance(start, DimExpr):
        return size_beside(start, int64, value)
    given = as_value(start, value)
    if not given.dtype.is_integer or given.ndim:
        raise DTypeError(
            f"{name} starts at integer scalars, not at {given.type.brief()}", where=caller()
        )
    return given


def _fits(name: str, value: Value, sizes: Sequence[Dim]) -> Guards:
    """What is left to check of windows that are no longer than their axes."""
    pairs = zip(sizes, value.shape, strict=True)
    message = f"{name}: a window of shape {{}} in a tensor of shape {{}}"
    return unproved([(dim_max(size, n), n) for size, n in pairs], message, sizes, value.shape)


def _free(value: Value, sizes: Sequence[Dim]) -> list[int]:
    """The axes along which a window may move."""
    pairs = enumerate(zip(sizes, value.shape, strict=True))
    return [axis for axis, (size, length) in pairs if equal(size, length) is not True]


@surface
def dynamic_slice(x: Any, start_indices: Any, slice_sizes: Any) -> Value:
    """A window of ``x`` that begins at values, as ``jax.lax.dynamic_slice``.

    Args:
        x: any tensor.
        start_indices: where it begins along each axis: integers, scalars or one vector. Negative
            ones count from the end; then they move so that the window lies within the axis.
        slice_sizes: its shape, ints or dims.

    Raises:
        ShapeError: for a window that is larger than ``x``; at run time where that is unknown.
    """
    value, sizes = as_value(x), dims_of(slice_sizes)
    starts, counted = _starts_of("dynamic_slice", start_indices, value)
    if len(sizes) != value.ndim:
        raise ShapeError(
            f"dynamic_slice of a tensor of rank {value.ndim} to {show(sizes)}", where=caller()
        )
    guards, axes = counted + _fits("dynamic_slice", value, sizes), _free(value, sizes)
    if not axes:
        return with_shape(value, value.shape, guards)
    chosen = [starts[axis] for axis in axes]
    attrs = {"sizes": sizes, "axes": tuple(axes), **guarded(guards)}
    return apply(dynamic_slice_op, value, *chosen, **attrs)


@surface
def dynamic_update_slice(x: Any, update: Any, start_indices: Any) -> Value:
    """``x`` with ``update`` in the place of the window that ``dynamic_slice`` reads there.

    Where the old value dies it costs what the update does.

    Raises:
        ShapeError: for an update of another rank, or that is larger than ``x``.
        DTypeError: for an update whose cast to the dtype of ``x`` loses more than digits.
    """
    value = as_value(x, update if isinstance(update, Value) else None)
    window = as_update(update, value)
    starts, counted = _starts_of("dynamic_update_slice", start_indices, value)
    if window.ndim != value.ndim:
        raise ShapeError(
            f"dynamic_update_slice of {show(value.shape)} by {show(window.shape)}: the ranks "
            "differ",
            where=caller(),
        )
    guards = counted + _fits("dynamic_update_slice", value, window.shape)
    at = {axis: starts[axis] for axis in _free(value, window.shape)}
    return _written(value, window, at, guards)


@surface
def dynamic_slice_in_dim(x: Any, start_index: Any, slice_size: Any, axis: int = 0) -> Value:
    """``dynamic_slice`` along one axis, all of the others."""
    value = as_value(x)
    place, size = axis_of(axis, value.ndim), dim_of(slice_size)
    sizes = (*value.shape[:place], size, *value.shape[place + 1 :])
    return dynamic_slice(value, _along(value, place, start_index), sizes)


@surface
def dynamic_update_slice_in_dim(x: Any, update: Any, start_index: Any, axis: int) -> Value:
    """``dynamic_update_slice`` along one axis, from the begin of the others."""
    value = as_value(x, update if isinstance(update, Value) else None)
    place = axis_of(axis, value.ndim)
    return dynamic_update_slice(value, update, _along(value, place, start_index))


@surface
def dynamic_index_in_dim(x: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Value:
    """The elements at one place along an axis, which keeps size 1 or is dropped.

    An index out of range is that of the nearest place.
    """
    value = as_value(x)
    place = axis_of(axis, value.ndim)
    result = dynamic_slice_in_dim(value, index, 1, place)
    return result if keepdims else squeeze(result, place)


@surface
def dynamic_update_index_in_dim(x: Any, update: Any, index: Any, axis: int) -> Value:
    """``x`` with other elements at one place along an axis, which the update may lack."""
    value = as_value(x, update if isinstance(update, Value) else None)
    place = axis_of(axis, value.ndim)
    window = as_update(update, value)
    if window.ndim == value.ndim - 1:
        window = expand_dims(window, place)
    return dynamic_update_slice_in_dim(value, window, index, place)


def _along(value: Value, axis: int, start: Any) -> list[Any]:
    return [start if place == axis else 0 for place in range(value.ndim)]
