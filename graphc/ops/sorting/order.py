"""Sorting along an axis: values, and the places that they come from.

Invariant: the core ops sort the last axis; functions move the axis there and back. The order is
that of ``graphc.kernel.routines.sorting``: NaN behind everything, ties as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.base.errors import ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, dim_max, dim_min, equal, select
from graphc.ir.dtypes import ALL, DType, bool_, int64
from graphc.ir.lowering import Native
from graphc.ir.op import ComplexRule, Derivative, Domain, Flat, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines.sorting import ARGSORT, SORT, TOP_K
from graphc.ops.arguments import items_of, one_or_more, switch, whole
from graphc.ops.complex.orders import complex_places, complex_sorted
from graphc.ops.convert import as_value, axis_of
from graphc.ops.derive import of_one_input
from graphc.ops.guards import Guards, guarded, refusal, unproved
from graphc.ops.indexing.core import taken_along
from graphc.ops.indexing.scatter import scatter_along_op
from graphc.ops.move.shape import with_shape

MOST_PLACES = 2**32
"""Elements of a row whose places are sorted: a place shares a word with a key."""


def _numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return inputs[0].shape[-1], int(attrs["descending"])


def _sort_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [inputs[0]]


def _argsort_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [inputs[0].with_dtype(int64)]


def _sort_reference(array: Any, descending: bool) -> Any:
    return SORT.reference(array, array.shape[-1], int(descending))[0]


def _argsort_reference(array: Any, descending: bool) -> Any:
    return ARGSORT.reference(array, array.shape[-1], int(descending))[0]


def _places(value: Value, attrs: Attributes) -> Value:
    return apply(argsort_op, value, descending=attrs["descending"])


def _sort_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    result: Value = surface_function("take_along_axis")(tangent, _places(value, attrs), -1)
    return result


def _sort_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    zeros = surface_function("zeros_like")(value)
    places = _places(value, attrs)
    return apply(scatter_along_op, zeros, places, cotangent, axis=value.ndim - 1)


def sorted_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    """Rows without ties that a small difference would change; short integers have some."""
    if element is bool_ or not element.is_float:
        high = 2 if element is bool_ else 100
        values = rng.integers(0, high, (3, 7))
    else:
        values = rng.permutation(21).reshape(3, 7) - 10
    return [values.astype(element.numpy)], {"descending": bool(rng.integers(2))}


def _order(
    name: str,
    doc: str,
    infer: Callable[[Sequence[TensorType], Attributes], list[TensorType]],
    reference: Callable[..., Any],
    derivative: Derivative,
    of_complex: ComplexRule,
) -> OpDef:
    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=infer,
            reference=reference,
            derivative=derivative,
            lowering=Native(name, (1, 1), _numbers, rearranges=name == "sort"),
            of_complex=of_complex,
            domain=Domain(ALL, example=sorted_example),
        )
    )


sort_op = _order("sort", "Rows along the last axis in order, NaN last; reversed if descending.",
                 _sort_type, _sort_reference, of_one_input(_sort_jvp, _sort_vjp),
                 complex_sorted)  # fmt: skip
argsort_op = _order("argsort", "The places (int64) that put rows along the last axis in order, "
                    "ties as they came.", _argsort_type, _argsort_reference, Flat(),
                    complex_places)  # fmt: skip


def along_last(value: Value, axis: int | None, function: Callable[[Value], Value]) -> Value:
    """What a function makes of rows along the last axis, for those along another axis; of all
    elements in row-major order where that is None."""
    if axis is None:
        return function(surface_function("ravel")(value))
    place, last = axis_of(axis, value.ndim), value.ndim - 1
    if place == last:
        return function(value)
    swap = surface_function("swapaxes")
    result: Value = swap(function(swap(value, place, last)), place, last)
    return result


@surface
def sort(x: Any, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Value:
    """The elements in order along an axis, or all of them in row-major order (None).

    Args:
        x: of any dtype; complex numbers are in the order of their real parts, then of their
            imaginary ones, as in NumPy.
        axis: along which rows are sorted.
        descending: sorts down, NaN first.
        stable: makes no difference: equal elements can't be told apart, except zeros. A negative
            zero comes before a positive one, and behind it if descending.

    The gradient of an element goes to the place that it came from.
    """
    down = switch(descending, "descending")
    switch(stable, "stable")
    return along_last(as_value(x), axis, lambda rows: apply(sort_op, rows, descending=down))


@surface
def argsort(x: Any, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Value:
    """The places (int64) of elements in order along an axis; of all in row-major order (None).

    Args:
        x: of any dtype; see ``sort`` for the order of complex numbers.
        axis: along which rows are sorted.
        descending: sorts down, NaN first.
        stable: makes no difference: places of equal elements always come in ascending order, NaN
            being equal to NaN and -0 to 0.

    The derivative is zero.

    Raises:
        UnsupportedError: for an axis of 2**32 elements or more.
    """
    down = switch(descending, "descending")
    switch(stable, "stable")
    return along_last(as_value(x), axis, lambda rows: places_of(rows, down))


def places_of(rows: Value, descending: bool = False) -> Value:
    """``argsort`` of ready rows along the last axis."""
    size = rows.shape[-1]
    if isinstance(size, int) and size >= MOST_PLACES:
        raise UnsupportedError(f"places of {size} elements in order", where=caller())
    return apply(argsort_op, rows, descending=descending)


# --- the largest ---------------------------------------------------------------------------------


def _top_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    *batch, size = inputs[0].shape
    count = attrs["k"]
    if not isinstance(count, int) or count < 0 or equal(dim_min(size, count), count) is False:
        raise ShapeError(f"top_k: the {shown(count)} largest elements of an axis of {size}")
    return [TensorType(int64, (*batch, count))]


def _top_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return sorted_example(rng, element)[0], {"k": int(rng.integers(8))}


top_k_op = register(
    OpDef(
        name="top_k",
        doc="The places of the attrs k largest elements along the last axis, the largest first, "
        "ties as they came; int64.",
        infer=_top_type,
        reference=lambda array, k, guards=(): TOP_K.reference(array, array.shape[-1], k)[0],
        derivative=Flat(),
        lowering=Native("top_k", (1, 1), lambda inputs, attrs: (inputs[0].shape[-1], attrs["k"])),
        domain=Domain(ALL, example=_top_example),
    )
)


@surface
def top_k(x: Any, k: int) -> tuple[Value, Value]:
    """The ``k`` largest elements along the last axis, the largest first, and their places (int64).

    As ``jax.lax.top_k``: NaN counts as the largest, and of equal elements the first come first.
    The gradient of a value goes to the place that it came from.

    Raises:
        ShapeError: for a scalar, for a negative ``k``, and for an axis of fewer than ``k``
            elements: here where its size is known, else when the graph runs.
    """
    value, count = as_value(x), whole(k, "k")
    if value.ndim == 0:
        raise ShapeError("top_k of a scalar", where=caller(), hint="it has no axis")
    if count < 0:
        raise ShapeError(f"top_k of {count} elements", where=caller())
    size = value.shape[-1]
    message = f"top_k: the {count} largest elements of an axis of {{}}"
    guards = unproved([(dim_min(size, count), count)], message, size)
    places = apply(top_k_op, value, k=count, **guarded(guards))
    return taken_along(value, places, value.ndim - 1), places


# --- partitions, and several keys ----------------------------------------------------------------


def _with_kth(value: Value, kth: Any, axis: int | None, name: str) -> Value:
    """The value with what is left to check of the places: it has them, or no element at all.

    Raises:
        ShapeError: for a place known to be out of range.
    """
    count = value.type.size
    size = count if axis is None else value.shape[axis_of(axis, value.ndim)]
    guards: Guards = ()
    for given in one_or_more(kth, "kth"):
        place = whole(given, "kth")
        needed = place + 1 if place >= 0 else -place
        missing = select("eq", count, 0, 0, dim_max(needed - size, 0))
        guards += unproved([(missing, 0)], f"{name}: kth {place} of an axis of {{}}", size)
    return with_shape(value, value.shape, guards)


@surface
def partition(x: Any, kth: int | Sequence[int], axis: int | None = -1) -> Value:
    """The elements so that those at the places ``kth`` are where ``sort`` puts them, smaller ones
    before and larger ones behind: all of them are in order.

    Raises:
        ShapeError: for a place out of range; at run time where sizes are unknown.
    """
    value = _with_kth(as_value(x), kth, axis, "partition")
    return sort(value, axis)


@surface
def argpartition(x: Any, kth: int | Sequence[int], axis: int | None = -1) -> Value:
    """The places (int64) that put elements into the order of ``partition``: those of ``argsort``.

    Raises:
        ShapeError: for a place out of range; at run time where sizes are unknown.
    """
    value = _with_kth(as_value(x), kth, axis, "argpartition")
    return argsort(value, axis)


@surface
def lexsort(keys: Any, axis: int = -1) -> Value:
    """The places (int64) that sort by several keys along an axis; the last key counts most.

    ``keys`` is a sequence of tensors of one shape, or a tensor of one more axis, the first. Ties
    of all keys stay as they came.

    Raises:
        ShapeError: without keys, and for keys of different shapes.
    """
    if isinstance(keys, Value):
        count = keys.shape[0] if keys.ndim else 0
        if not isinstance(count, int):
            raise ShapeError("lexsort of an unknown number of keys", where=caller())
        rows = [keys[number] for number in range(count)]
    else:
        rows = [as_value(key) for key in items_of(keys, "keys")]
    if not rows:
        raise ShapeError("lexsort of no keys", where=caller())
    shapes = [row.shape for row in rows]
    shape = shapes[0]
    told = "lexsort: keys of shapes " + " and ".join("{}" for _ in rows)
    if any(len(other) != len(shape) for other in shapes):
        raise refusal(told, *shapes)
    pairs = [pair for other in shapes for pair in zip(shape, other, strict=True)]
    guards = unproved(pairs, told, *shapes)
    rows = [with_shape(row, shape, guards) for row in rows]
    place = axis_of(axis, len(shape))
    order = argsort(rows[0], place)
    for row in rows[1:]:
        order = taken_along(order, argsort(taken_along(row, order, place), place), place)
    return order
