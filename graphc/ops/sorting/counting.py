"""Counting what falls into bins: ``bincount`` and ``histogram``.

Invariant: how many bins there are is known from the arguments, since shapes depend on no element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, IndexRangeError, ShapeError
from graphc.base.source import caller
from graphc.base.tuning.routines import ROUTINES
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, DimExpr, equal, select
from graphc.ir.dtypes import FLOATS, INTEGERS, DType, bool_, float64, int64, promote
from graphc.ir.lowering import Native
from graphc.ir.op import Custom, Domain, Flat, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines.searching import BINCOUNT, BINSUM, HISTOGRAM
from graphc.ops.arguments import is_whole, items_of, switch, whole
from graphc.ops.convert import as_value, common_shape, converted, in_dtype, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.guards import Guards, broadcast_guards, nonempty_pair, show, unproved
from graphc.ops.indexing.core import taken
from graphc.ops.move.shape import broadcast_to, ravel, stretched, with_shape
from graphc.ops.move.slicing import padded
from graphc.ops.sorting.searching import found

BITS = (bool_, *INTEGERS)


def _count_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    places = inputs[0]
    if places.dtype not in BITS:
        raise DTypeError(f"bincount counts integers, not {places.dtype}")
    return [TensorType(int64, (*places.shape[:-1], attrs["bins"]))]


def _sum_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (counts,) = _count_type(inputs[:1], attrs)
    places, weights = inputs
    if weights.dtype is not float64:
        raise DTypeError(f"bincount takes weights in float64, not {weights.dtype}")
    fits = places.rank == weights.rank
    if not fits or False in map(equal, places.shape, weights.shape):
        raise ShapeError(f"bincount: places {show(places.shape)} and weights {show(weights.shape)}")
    return [counts.with_dtype(float64)]


def _numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return inputs[0].shape[-1], attrs["bins"]


def _checked(places: Any, bins: int) -> None:
    fault = BINCOUNT.fault
    assert fault is not None
    for value in np.ravel(fault(places)):
        if value:
            raise IndexRangeError(f"index {value} is out of range for axis 0 of size {bins}")


def _count_reference(places: Any, bins: int) -> Any:
    _checked(places, bins)
    return BINCOUNT.reference(places, places.shape[-1], bins)[0]


def _sum_reference(places: Any, weights: Any, bins: int) -> Any:
    _checked(places, bins)
    return BINSUM.reference(places, weights, places.shape[-1], bins)[0]


def _sum_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (cotangent,), places = cotangents, inputs[0]
    return None, None if cotangent is None else _picked(cotangent, places, attrs["bins"])


def _sum_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    tangent = tangents[1]
    if tangent is None:
        return (None,)
    return (apply(binsum_op, inputs[0], tangent, bins=attrs["bins"]),)


def _picked(sums: Value, places: Value, bins: Dim) -> Value:
    """Of each place the sum that it adds to; 0 for those beyond the bins."""
    padding = (*((0, 0),) * (sums.ndim - 1), (0, 1))
    padded = surface_function("pad")(sums, padding)
    last = surface_function("minimum")(converted(places, int64), in_dtype(bins, int64, places))
    result: Value = surface_function("take_along_axis")(padded, last, -1)
    return result


def _example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    places = rng.integers(0, 2 if element is bool_ else 7, (3, 9)).astype(element.numpy)
    return [places], {"bins": 5}


def _sum_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    (places,), attrs = _example(rng, int64)
    return [places, rng.normal(size=(3, 9)).astype(element.numpy)], attrs


bincount_op = register(
    OpDef(
        name="bincount",
        doc="How often each of 0 to attrs bins comes in rows along the last axis; what lies beyond "
        "is left out, and a negative number is an error; int64.",
        infer=_count_type,
        reference=_count_reference,
        derivative=Flat(),
        lowering=Native("bincount", (1, 1), _numbers),
        may_fail=True,
        domain=Domain(BITS, example=_example),
    )
)
binsum_op = register(
    OpDef(
        name="binsum",
        doc="Sums of the second input over the elements that have each of 0 to attrs bins in the "
        "first, in their order; as bincount.",
        infer=_sum_type,
        reference=_sum_reference,
        derivative=Custom(_sum_jvp, _sum_vjp),
        lowering=Native("binsum", (1, 1, 1), _numbers),
        may_fail=True,
        any_precision=True,
        domain=Domain((float64,), example=_sum_example),
    )
)


def _histogram_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    rows, edges = inputs
    bins = attrs["bins"]
    if rows.dtype not in FLOATS or edges.dtype is not rows.dtype:
        raise DTypeError(f"histogram takes floats of one dtype, not {rows.dtype} and {edges.dtype}")
    if not isinstance(bins, int) or not 1 <= bins <= ROUTINES.most_bins:
        raise ShapeError(f"histogram takes up to {ROUTINES.most_bins} bins, not {shown(bins)}")
    if edges.rank != 1 or equal(edges.shape[0], bins + 1) is False:
        raise ShapeError(f"histogram takes {bins + 1} edges, not {show(edges.shape)}")
    return [TensorType(int64, (*rows.shape[:-1], bins))]


def _histogram_reference(rows: Any, edges: Any, bins: int) -> Any:
    with np.errstate(all="ignore"):
        return HISTOGRAM.reference(rows, edges, rows.shape[-1], bins)[0]


def _histogram_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    arrays = [rng.normal(size=(3, 40)), np.linspace(-1, 2, 6)]
    return [array.astype(element.numpy) for array in arrays], {"bins": 5}


histogram_op = register(
    OpDef(
        name="histogram",
        doc="How many elements of rows along the last axis fall into each of attrs bins of equal "
        "width, whose edges the second input has, the outer ones included; int64.",
        infer=_histogram_type,
        reference=_histogram_reference,
        derivative=Flat(),
        lowering=Native("histogram", (1, 1, 1), _numbers),
        domain=Domain(FLOATS, example=_histogram_example),
    )
)


def binned(places: Value, weights: Value | None, bins: Dim) -> Value:
    """How often each number below ``bins`` comes, or the sum of its weights."""
    if weights is None:
        return apply(bincount_op, places, bins=bins)
    shape, guards = common_shape([places.shape, weights.shape], "places {} and weights {} differ")
    places, weights = (stretched(value, shape, guards) for value in (places, weights))
    return apply(binsum_op, places, converted(weights, float64), bins=bins)


@surface
def bincount(
    x: Any, weights: Any = None, minlength: int = 0, length: int | DimExpr | None = None
) -> Value:
    """How often each number comes in a vector of integers that are not negative.

    Args:
        x: the vector.
        weights: what each element counts; sums are in float64 and in the order of elements.
        minlength: the number of bins at least, where ``x`` is known when the graph is built.
        length: the number of bins, as in ``jax.numpy``; larger numbers are left out. It is needed
            where ``x`` is computed.

    Gives int64, or float64 with weights. Weights have a gradient, ``x`` has none.

    Raises:
        ShapeError: for an ``x`` that is no vector, or without a length.
        IndexRangeError: for a negative number, when the graph runs.
    """
    if length is None:
        if isinstance(x, Value):
            raise ShapeError(
                "bincount of computed numbers has no known length",
                where=caller(),
                hint="give it, as length=10",
            )
        known = np.asarray(x)
        if known.size and known.dtype.kind not in "biu":
            _require_integers(as_value(x))
        length = max(int(known.max(initial=-1)) + 1, whole(minlength, "minlength"))
    elif not isinstance(length, DimExpr) and whole(length, "length") < 0:
        raise ShapeError(f"bincount of length {length}", where=caller())
    empty = not isinstance(x, Value) and np.size(x) == 0
    places = as_value(np.zeros(0, np.int64) if empty else x)
    if places.ndim != 1:
        raise ShapeError(f"bincount of {places.ndim} axes", where=caller(), hint="ravel it")
    _require_integers(places)
    return binned(places, None if weights is None else as_value(weights, places), length)


def _require_integers(places: Value) -> None:
    if places.dtype not in BITS:
        raise DTypeError(
            f"bincount counts integers, not {places.dtype}",
            where=caller(),
            hint="convert with .astype('int64'), which rounds to zero",
        )


# --- histograms ----------------------------------------------------------------------------------


@surface
def histogram_bin_edges(x: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Value:
    """The edges of bins, as ``np.histogram_bin_edges``: one more than there are bins.

    Args:
        x: any shape; its extremes are the outer edges where ``range`` is None.
        bins: how many of equal width, or a vector of edges.
        range: the outer edges, two numbers or values.
        weights: makes no difference.

    Edges of equal bins are in the dtype of ``x``, or float64 for integers.
    """
    return edges_of(as_value(x), bins, range)[0]


def edges_of(x: Value, bins: Any, range: Any) -> tuple[Value, Value | None, Value | None]:
    """The edges, and the outer ones of bins of equal width."""
    if isinstance(bins, str):
        raise ShapeError(
            f"bins is {shown(bins)}: their number would depend on elements",
            where=caller(),
            hint="give the number of bins, or the edges",
        )
    if not is_whole(bins):
        edges = as_value(bins, x)
        if edges.ndim != 1:
            raise ShapeError("bins are no number and no vector", where=caller())
        some = unproved([nonempty_pair(edges.shape[0])], "a histogram of edges {}", edges.shape)
        return with_shape(edges, edges.shape, some), None, None
    count = int(bins)
    if count < 1:
        raise ShapeError(f"{count} bins", where=caller(), hint="there must be one at least")
    element = x.dtype if x.dtype.is_float else float64
    if range is None:
        # without an element they go from 0 to 1
        missing = select("eq", x.type.size, 0, 1, 0)
        given = x if missing == 0 else padded(ravel(x), (0,), (missing,))
        least, most = surface_function("min"), surface_function("max")
        low, high = converted(least(given), element), converted(most(given), element)
        if missing != 0:
            high = high + size_beside(missing, element, x)
    else:
        ends = (range[0], range[1]) if isinstance(range, Value) else items_of(range, "range")
        if len(ends) != 2:
            raise ShapeError(f"range is {shown(range)}, not two numbers", where=caller())
        # edges between numbers are computed in float64 and rounded
        computed = any(isinstance(end, Value) for end in ends)
        low, high = (in_dtype(end, element if computed else float64, x) for end in ends)
    where = surface_function("where")
    same = low == high
    low, high = where(same, low - 0.5, low), where(same, high + 0.5, high)
    step = iota_beside((count + 1,), 0, low.dtype, x)
    # as np.linspace: the last one is the end itself
    edges = step * ((high - low) / count) + low
    edges = where(iota_beside((count + 1,), 0, int64, x) == count, high, edges)
    edges, low, high = (converted(part, element) for part in (edges, low, high))
    return edges, low, high


def weights_of(value: Value, weights: Any) -> tuple[Value, Guards]:
    """What each element counts, in the shape of the value, and what is left to check of that.

    Raises:
        ShapeError: for weights that are known not to broadcast.
    """
    given = as_value(weights, value)
    message = "cannot broadcast {} to {}"
    guards = broadcast_guards([given.shape], value.shape, message, given.shape, value.shape)
    return broadcast_to(given, value.shape), guards


@surface
def histogram(
    x: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Value, Value]:
    """How many elements fall into each bin, and the edges of bins, as ``np.histogram``.

    Args:
        x: any shape.
        bins: how many of equal width, or a vector of ascending edges. The last bin holds its right
            edge, the others don't.
        range: the outer edges, two numbers or values; None for the extremes of ``x``.
        density: gives the density in place of the count.
        weights: what each element counts, in the shape of ``x``.

    Counts are int64; with weights or density float64. NaN falls into no bin.
    """
    dense = switch(density, "density")
    value = as_value(x)
    of_row = None
    guards: Guards = ()
    if weights is not None:
        of_row, guards = weights_of(value, weights)
        value, of_row = with_shape(value, value.shape, guards), ravel(of_row)
    edges, low, high = edges_of(value, bins, range)
    # the edges alone, too, are of a histogram that there is
    edges = with_shape(edges, edges.shape, guards)
    row = ravel(value)
    count = edges.shape[0] - 1
    element = promote(row.dtype, edges.dtype)
    row, ends = converted(row, element), converted(edges, element)
    is_equal = low is not None and isinstance(count, int)
    if is_equal and of_row is None and count <= ROUTINES.most_bins:
        return _told(apply(histogram_op, row, ends, bins=count), edges, dense)
    places = places_of(row, ends, low, high, count)
    return _told(binned(places, of_row, count), edges, dense)


def places_of(
    row: Value, edges: Value, low: Value | None, high: Value | None, count: Dim
) -> Value:
    """The bin of each element, of equal width between low and high where these are there; what is
    outside is beyond the last one."""
    if low is None or high is None:
        return _placed(row, edges, count)
    assert isinstance(count, int), "equal bins are counted"
    return _equal_bins(row, edges, low, high, count)


def _told(counts: Value, edges: Value, dense: bool) -> tuple[Value, Value]:
    """What a histogram gives."""
    if dense:
        widths = converted(edges[1:] - edges[:-1], float64)
        counts = converted(counts, float64)
        counts = counts / widths / surface_function("sum")(counts)
    return counts, edges


def _inside(row: Value, low: Value, high: Value) -> Value:
    both: Value = surface_function("logical_and")(row >= low, row <= high)
    return both


def _placed(row: Value, edges: Value, count: Dim) -> Value:
    """The bin of each element; what is outside is beyond the last one."""
    where = surface_function("where")
    place = found(edges, row, True) - 1
    last = in_dtype(count, int64, row)
    place = surface_function("minimum")(place, last - 1)
    result: Value = where(_inside(row, edges[0], edges[-1]), place, last)
    return result


def _equal_bins(row: Value, edges: Value, low: Value, high: Value, count: int) -> Value:
    """The same for bins of equal width, by a product; elements next to edges are compared with
    them, since the product rounds."""
    where, inside = surface_function("where"), _inside(row, low, high)
    # what is outside is computed with as the lowest one, so that no conversion leaves the range
    element = where(inside, row, low)
    ratio = (element - low) / (high - low) * count
    place = surface_function("minimum")(converted(ratio, int64), count - 1)
    place = place - converted(element < taken(edges, place, 0), int64)
    over = surface_function("logical_and")(
        element >= taken(edges, place + 1, 0), place != count - 1
    )
    result: Value = where(inside, place + converted(over, int64), count)
    return result


__all__ = [
    "bincount",
    "bincount_op",
    "binned",
    "binsum_op",
    "edges_of",
    "histogram",
    "histogram_bin_edges",
    "places_of",
    "weights_of",
]
