"""The core ops ``slice`` and ``pad``, each the derivative of the other.

Invariant: the attributes of a ``slice`` are normalised, so that every element it reads is within
its input for all sizes for which the guards hold; an empty slice reads nothing and its start means
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, dim_max, equal, less, less_equal, select
from graphc.ir.dtypes import ALL, DType, bool_, int64
from graphc.ir.lowering import Element, ElementBuilder, Scalar, View
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.complex.parts import each_part, halves, joined
from graphc.ops.convert import size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.derive import of_one_input
from graphc.ops.guards import Guards, check_size, guarded, show
from graphc.ops.move.shape import sample
from graphc.ops.source import constant_beside


def offset(b: ElementBuilder, place: Scalar, distance: Dim) -> Scalar:
    """An index moved by a dim."""
    return place if distance == 0 else b.apply("add", place, b.dim(distance))


def scaled(b: ElementBuilder, place: Scalar, factor: Dim) -> Scalar:
    """An index times a dim."""
    return place if factor == 1 else b.apply("multiply", place, b.dim(factor))


# --- slice ---------------------------------------------------------------------------------------


def _slice_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    sizes: tuple[Dim, ...] = attrs["size"]
    parts = zip(given.shape, attrs["start"], attrs["step"], sizes, strict=True)
    for bound, start, step, size in parts:
        last = start + (size - 1) * step
        outside = any(
            less(place, 0) or less_equal(bound, place) for place in (start, last)
        ) and less(0, size)
        if step == 0 or less(size, 0) or outside:
            raise ShapeError(
                f"slice of {size} elements from {start} by {step} leaves an axis of {bound}"
            )
    return [given.with_shape(sizes)]


def _slice_index(
    b: ElementBuilder,
    given: TensorType,
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> list[Scalar]:
    return [
        offset(b, scaled(b, place, step), start)
        for place, start, step in zip(index, attrs["start"], attrs["step"], strict=True)
    ]


def _slice_reference(x: Any, *, start: Any, step: Any, size: Any, guards: Any = ()) -> Any:
    places = (
        first + np.arange(count) * stride
        for first, stride, count in zip(start, step, size, strict=True)
    )
    return x[np.ix_(*places)] if x.ndim else x.copy()


def _slice_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    starts, steps, sizes = attrs["start"], attrs["step"], attrs["size"]
    return [spread_back(cotangent, inputs[0].shape, starts, steps, sizes)]


slice_op = register(
    OpDef(
        name="slice",
        doc="Along each axis ``size`` elements from ``start``, ``step`` (not 0) apart.",
        infer=_slice_type,
        reference=_slice_reference,
        derivative=Linear(_slice_transpose),
        lowering=View(_slice_index),
        of_complex=each_part,
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: (
                [sample(random, dtype, 7, 5, 3)],
                {"start": (1, 4, 0), "step": (2, -3, 1), "size": (3, 2, 3)},
            ),
        ),
    )
)


def sliced(
    value: Value,
    start: Sequence[Dim],
    step: Sequence[int],
    size: Sequence[Dim],
    guards: Guards = (),
) -> Value:
    """The slice; the value itself if it is all of it, in order."""
    whole = all(equal(count, bound) for count, bound in zip(size, value.shape, strict=True))
    if whole and all(stride == 1 for stride in step) and not guards:
        return value
    first = tuple(0 if count == 0 else place for place, count in zip(start, size, strict=True))
    return apply(
        slice_op, value, start=first, step=tuple(step), size=tuple(size), **guarded(guards)
    )


def spread_back(
    part: Value,
    shape: Sequence[Dim],
    start: Sequence[Dim],
    step: Sequence[int],
    size: Sequence[Dim],
    guards: Guards = (),
) -> Value:
    """A slice in its places of a tensor of zeros: reversed axes are flipped first."""
    before: list[Dim] = []
    after: list[Dim] = []
    reverse = [axis for axis, stride in enumerate(step) if stride < 0]
    for bound, first, stride, count in zip(shape, start, step, size, strict=True):
        lowest = first + (count - 1) * stride if stride < 0 else first
        lowest = select("eq", count, 0, 0, lowest)
        before.append(lowest)
        after.append(bound - lowest - dilated_size(count, abs(stride) - 1))
    interior = tuple(abs(stride) - 1 for stride in step)
    straight = flipped(part, reverse)
    return padded(straight, tuple(before), tuple(after), interior=interior, guards=guards)


def part(value: Value, axis: int, start: Dim, size: Dim, guards: Guards = ()) -> Value:
    """``size`` elements along one axis, from ``start``."""
    starts: list[Dim] = [0] * value.ndim
    sizes = list(value.shape)
    starts[axis], sizes[axis] = start, size
    return sliced(value, starts, [1] * value.ndim, sizes, guards)


def flipped(value: Value, axes: Sequence[int]) -> Value:
    """The value with these axes in reverse order."""
    if not axes:
        return value
    start = [size - 1 if axis in axes else 0 for axis, size in enumerate(value.shape)]
    step = [-1 if axis in axes else 1 for axis in range(value.ndim)]
    return sliced(value, start, step, value.shape)


# --- pad -----------------------------------------------------------------------------------------


def dilated_size(size: Dim, interior: int) -> Dim:
    """The length of ``size`` elements with ``interior`` others between neighbours."""
    return size if interior == 0 else dim_max(size + (size - 1) * interior, 0)


def _pad_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    mode = attrs["mode"]
    shape: list[Dim] = []
    parts = zip(given.shape, attrs["before"], attrs["after"], attrs["interior"], strict=True)
    for size, before, after, interior in parts:
        if mode != "constant" and interior:
            raise ShapeError(f"pad mode {mode!r} has no interior padding")
        result = before + dilated_size(size, interior) + after
        if less(result, 0):
            raise ShapeError(f"cannot pad {show(given.shape)} to a size of {result}")
        shape.append(result)
    check_size(shape, [given.shape])
    return [given.with_shape(tuple(shape))]


def _pad_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    (given,) = inputs
    mode = attrs["mode"]
    places: list[Scalar] = []
    inside: list[Scalar] = []
    zero = b.constant(0, int64)
    for size, place, before, after, interior in zip(
        given.shape, index, attrs["before"], attrs["after"], attrs["interior"], strict=True
    ):
        place = offset(b, place, -before)
        if before == 0 and after == 0 and interior == 0:
            places.append(place)
            continue
        if mode == "edge":
            place = b.apply("maximum", b.apply("minimum", place, b.dim(size - 1)), zero)
        elif mode == "reflect":
            period = dim_max(2 * (size - 1), 1)
            around = b.apply("mod", place, b.dim(period))
            place = b.apply("minimum", around, b.apply("subtract", b.dim(period), around))
        else:
            if less_equal(before, 0) is not True:
                inside.append(b.apply("less_equal", zero, place))
            if interior:
                stride = b.constant(interior + 1, int64)
                remainder = b.apply("mod", place, stride)
                inside.append(b.apply("equal", remainder, zero))
                place = b.apply("floor_divide", place, stride)
            if less_equal(after, 0) is not True:
                inside.append(b.apply("less", place, b.dim(size)))
        places.append(place)
    if not inside:
        return b.load(0, places)
    condition = inside[0]
    for other in inside[1:]:
        condition = b.apply("and", condition, other)
    return b.load_if(condition, 0, places, b.constant(attrs["value"], given.dtype))


def _pad_reference(
    x: Any,
    *,
    before: Any,
    after: Any,
    interior: Any,
    mode: str,
    value: Any,
    guards: Any = (),
) -> Any:
    gaps = zip(x.shape, interior, strict=True)
    sizes = [size + max(size - 1, 0) * gap for size, gap in gaps]
    dilated = np.full(sizes, value, x.dtype)
    dilated[tuple(slice(None, None, gap + 1) for gap in interior)] = x
    widths = list(zip(before, after, strict=True))
    grown = [(max(first, 0), max(last, 0)) for first, last in widths]
    options = {"constant_values": value} if mode == "constant" else {}
    wide = np.pad(dilated, grown, mode=mode, **options)  # type: ignore[call-overload]
    crop = (
        slice(max(-first, 0), length - max(-last, 0))
        for (first, last), length in zip(widths, wide.shape, strict=True)
    )
    return wide[tuple(crop)].copy()


def _pad_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    return apply(pad_op, tangent, **{**attrs, "value": 0.0})


def _pad_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    before: tuple[Dim, ...] = attrs["before"]
    after: tuple[Dim, ...] = attrs["after"]
    shape = value.shape
    if attrs["mode"] != "constant":
        for axis, size in enumerate(shape):
            if before[axis] != 0 or after[axis] != 0:
                cotangent = _gathered_margin(cotangent, axis, size, before[axis], attrs["mode"])
        return cotangent
    steps = [interior + 1 for interior in attrs["interior"]]
    if all(less_equal(0, width) for width in (*before, *after)):
        return sliced(cotangent, before, steps, shape)
    cropped = padded(cotangent, tuple(-width for width in before), tuple(-w for w in after))
    return sliced(cropped, [0] * len(shape), steps, shape)


def _gathered_margin(cotangent: Value, axis: int, size: Dim, before: Dim, mode: str) -> Value:
    """Adds the cotangents of copies to those of the elements that were copied."""
    length = cotangent.shape[axis]

    def fixed(number: Dim) -> Value:
        return size_beside(number, int64, cotangent)

    places = iota_beside((length,), 0, int64, cotangent) - fixed(before)
    if mode == "edge":
        nearest = surface_function("minimum")(places, fixed(size - 1))
        places = surface_function("maximum")(nearest, 0)
    else:
        period = fixed(dim_max(2 * (size - 1), 1))
        around = places % period
        places = surface_function("minimum")(around, period - around)
    shape = (*cotangent.shape[:axis], size, *cotangent.shape[axis + 1 :])
    zero = constant_beside(0, cotangent.dtype, cotangent)
    base = surface_function("broadcast_to")(zero, shape)
    result: Value = surface_function("scatter_add")(base, places, cotangent, axis=axis)
    return result


pad_op = register(
    OpDef(
        name="pad",
        doc=(
            "Margins of ``before`` and ``after`` elements along each axis (negative ones crop), "
            "and ``interior`` ones between neighbours. Mode constant fills with ``value``, edge "
            "repeats the outermost element, reflect mirrors at it."
        ),
        infer=_pad_type,
        reference=_pad_reference,
        derivative=of_one_input(_pad_jvp, _pad_vjp),
        lowering=Element(_pad_rule),
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: (
                [sample(random, dtype, 3, 4)],
                {
                    "before": (1, -1),
                    "after": (2, 0),
                    "interior": (0, 1),
                    "mode": "constant",
                    "value": fill_value(1, dtype),
                },
            ),
        ),
    )
)


def padded(
    value: Value,
    before: tuple[Dim, ...],
    after: tuple[Dim, ...],
    *,
    interior: tuple[int, ...] | None = None,
    mode: str = "constant",
    fill: complex = 0,
    guards: Guards = (),
) -> Value:
    """The value with margins; itself if there are none."""
    gaps = (0,) * value.ndim if interior is None else interior
    if all(width == 0 for width in (*before, *after, *gaps)) and not guards:
        return value
    if value.dtype.is_complex:
        number = complex(fill)
        re, im = (
            padded(part, before, after, interior=interior, mode=mode, fill=own, guards=guards)
            for part, own in zip(halves(value), (number.real, number.imag), strict=True)
        )
        return joined(re, im)
    result = apply(
        pad_op,
        value,
        before=before,
        after=after,
        interior=gaps,
        mode=mode,
        value=fill_value(fill, value.dtype),
        **guarded(guards),
    )
    return result


def fill_value(value: Any, dtype: DType) -> bool | int | float:
    """The number that fills a margin, as the dtype holds it.

    Raises:
        DTypeError: if an integer dtype cannot hold it.
    """
    try:
        cast = np.asarray(value, dtype.numpy)
    except (OverflowError, TypeError, ValueError):
        message = f"padding with {value}, which {dtype} cannot hold"
        raise DTypeError(message, where=caller()) from None
    kind = bool if dtype is bool_ else float if dtype.is_float else int
    return kind(cast)
