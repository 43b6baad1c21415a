"""Windows that slide over axes, as a view."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.base.words import is_count, shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, dim_max, less
from graphc.ir.dtypes import ALL
from graphc.ir.lowering import ElementBuilder, Scalar, View
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.arguments import one_or_more
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import as_value, axis_of
from graphc.ops.guards import guarded, show, unproved
from graphc.ops.move.shape import sample, transpose
from graphc.ops.move.slicing import scaled, spread_back


def covered(size: int, dilation: int) -> int:
    """How many places a window reaches over."""
    return (size - 1) * dilation + 1


def count_of(length: Dim, size: int, step: int, dilation: int) -> Dim:
    """How many windows there are along an axis that is long enough for one."""
    return (length - covered(size, dilation)) // step + 1


def _counts(shape: Sequence[Dim], attrs: Attributes) -> list[Dim]:
    parts = zip(shape, attrs["size"], attrs["step"], attrs["dilation"], strict=True)
    return [count_of(*part) for part in parts]


def _type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    counts = _counts(given.shape, attrs)
    if any(less(count, 1) for count in counts):
        raise ShapeError(f"windows of {show(attrs['size'])} in {show(given.shape)}")
    return [given.with_shape((*attrs["size"], *counts))]


def _index(
    b: ElementBuilder,
    given: TensorType,
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> list[Scalar]:
    inside, windows = index[: given.rank], index[given.rank :]
    places = []
    parts = zip(windows, attrs["step"], inside, attrs["size"], attrs["dilation"], strict=True)
    for window, step, place, size, dilation in parts:
        start = scaled(b, window, step)
        places.append(
            start if size == 1 else b.apply("add", start, scaled(b, place, dilation))
        )
    return places


def _reference(x: Any, size: Any, step: Any, dilation: Any, guards: Any = ()) -> Any:
    spans = tuple(map(covered, size, dilation))
    # NumPy makes no such views of dtypes that it was taught
    words = x.view(f"V{x.itemsize}")
    view = np.lib.stride_tricks.sliding_window_view(words, spans).view(x.dtype)
    steps = tuple(slice(None, None, n) for n in step)
    inside = tuple(slice(None, None, n) for n in dilation)
    rank = len(size)
    view = view[(*steps, *inside)]
    return view.transpose((*range(rank, 2 * rank), *range(rank))).copy()


def _spread(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    """Each place of a window goes back to where it came from; several may meet there."""
    shape, sizes = inputs[0].shape, attrs["size"]
    counts = output.shape[len(sizes) :]
    total: Value | None = None
    for place in itertools.product(*map(range, sizes)):
        starts = [n * dilation for n, dilation in zip(place, attrs["dilation"], strict=True)]
        term = spread_back(cotangent[place], shape, starts, attrs["step"], counts)
        total = term if total is None else total + term
    return [total]


windows_op = register(
    OpDef(
        name="windows",
        doc="All windows of ``size`` elements, ``dilation`` apart, that begin ``step`` apart along "
        "each axis; the places in a window come first, then the windows.",
        infer=_type,
        reference=_reference,
        derivative=Linear(_spread),
        lowering=View(_index),
        of_complex=each_part,
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: (
                [sample(random, dtype, 7, 5, 3)],
                {"size": (3, 2, 1), "step": (2, 1, 1), "dilation": (1, 2, 1)},
            ),
        ),
    )
)


def windows(
    value: Value, size: Sequence[int], step: Sequence[int], dilation: Sequence[int], name: str
) -> Value:
    """All windows, the places in a window first; that there is one may be left to the run.

    Raises:
        ShapeError: for windows larger than the tensor.
    """
    spans = list(map(covered, size, dilation))
    message = f"{name} of windows of {{}} places in {{}}"
    for length, span in zip(value.shape, spans, strict=True):
        if less(length, span):
            raise ShapeError(message.format(show(spans), show(value.shape)), where=caller())
    # a length that holds a window is that window and what is beyond it
    pairs = [
        (dim_max(length, span), length)
        for length, span in zip(value.shape, spans, strict=True)
    ]
    guards = unproved(pairs, message, tuple(spans), value.shape)
    return apply(
        windows_op, value, size=tuple(size), step=tuple(step), dilation=tuple(dilation),
        **guarded(guards),
    )  # fmt: skip


@surface
def sliding_window_view(
    x: Any, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Value:
    """All windows that slide over axes by one, as ``np.lib.stride_tricks.sliding_window_view``.

    Args:
        x: any tensor.
        window_shape: how many elements a window has along each of the axes.
        axis: the axes; None for all. One may come several times.

    Gives as many axes as x, shorter by a window less one, and then those of a window.

    Raises:
        ShapeError: for another number of sizes than of axes, for sizes below 1, and for windows
            that are larger than x; at run time where sizes are unknown.
    """
    value = as_value(x)
    sizes = list(one_or_more(window_shape, "window_shape"))
    axes = range(value.ndim) if axis is None else one_or_more(axis, "axis")
    places = [axis_of(each, value.ndim) for each in axes]
    if len(sizes) != len(places) or not all(is_count(size, 1) for size in sizes):
        raise ShapeError(
            f"windows of {shown(window_shape)} along {len(places)} axes of {show(value.shape)}",
            where=caller(),
            hint="give an int of at least 1 for each axis",
        )
    ones = (1,) * value.ndim
    for size, place in zip(sizes, places, strict=True):
        rank = value.ndim
        whole = [1] * rank
        whole[place] = size
        ones = (1,) * rank
        made = windows(value, whole, ones, ones, "sliding_window_view")
        # of the axes of windows, which come first, one alone has a size
        found = made[tuple(slice(None) if n == place else 0 for n in range(rank))]
        value = transpose(found, (*range(1, rank + 1), 0))
    return value


__all__ = ["count_of", "covered", "sliding_window_view", "windows", "windows_op"]
