"""Histograms of several variables: ``histogramdd`` and ``histogram2d``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, product
from graphc.ir.dtypes import float64, int64, promote
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole, switch
from graphc.ops.convert import as_value, converted, in_dtype
from graphc.ops.guards import show, unproved
from graphc.ops.move.shape import reshape, with_shape
from graphc.ops.sorting.counting import binned, edges_of, places_of, weights_of


def _columns(sample: Any) -> list[Value]:
    """The variables, each a vector."""
    if isinstance(sample, (list, tuple)):
        columns = [as_value(column) for column in sample]
    else:
        value = as_value(sample)
        if value.ndim != 2 or not isinstance(value.shape[1], int):
            raise ShapeError(
                f"histogramdd of a sample of shape {show(value.shape)}",
                where=caller(),
                hint="give [n, d] with a known d, or a sequence of d vectors",
            )
        columns = [value[:, place] for place in range(value.shape[1])]
    if not columns or any(column.ndim != 1 for column in columns):
        shapes = " and ".join(show(column.shape) for column in columns)
        raise ShapeError(f"histogramdd of variables {shapes or 'that are none'}", where=caller())
    return columns


def _each(given: Any, count: int, what: str) -> list[Any]:
    if given is None or is_whole(given):
        return [given] * count
    if not isinstance(given, (list, tuple)) or len(given) != count:
        raise ShapeError(
            f"{what} for {count} variables", where=caller(), hint="one for all, or one for each"
        )
    return list(given)


@surface
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Value, list[Value]]:
    """How many points fall into each cell of a grid, and its edges, as ``np.histogramdd``.

    Args:
        sample: points [n, d] with a known d, or a sequence of d vectors.
        bins: how many of equal width along each variable, or a sequence of d numbers or vectors of
            ascending edges.
        range: a sequence of d pairs of outer edges, or None for the extremes of a variable.
        density: gives the density in place of the sum.
        weights: a vector [n], what each point counts.

    Gives float64 of a shape of the numbers of bins, and a list of d vectors of edges. The last bin
    holds its right edge; NaN falls into none. Weights have a gradient.

    Raises:
        ShapeError: for other shapes and numbers of bins; at run time where lengths are unknown.
    """
    return _counted(_columns(sample), bins, range, density, weights, "histogramdd")


@surface
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool = False,
    weights: Any = None,
) -> tuple[Value, Value, Value]:
    """How many points fall into each cell of a plane, and the edges along both variables.

    Args:
        x, y: vectors [n].
        bins: how many of equal width along both, a vector of edges for both, or a pair of these.
        range, density, weights: see ``histogramdd``.
    """
    if not is_whole(bins) and not (isinstance(bins, (list, tuple)) and len(bins) == 2):
        bins = [bins, bins]
    counts, (first, second) = _counted(
        _columns([x, y]), bins, range, density, weights, "histogram2d"
    )
    return counts, first, second


def _counted(
    columns: Sequence[Value], bins: Any, range: Any, density: Any, weights: Any, name: str
) -> tuple[Value, list[Value]]:
    shapes = [column.shape for column in columns]
    message = f"{name} of variables {' and '.join('{}' for _ in shapes)}"
    guards = unproved([(shape[0], shapes[0][0]) for shape in shapes], message, *shapes)
    of_points = None
    if weights is not None:
        of_points, fitting = weights_of(columns[0], weights)
        guards += fitting
    columns = [with_shape(column, column.shape, guards) for column in columns]
    dense = switch(density, "density")
    where, both = surface_function("where"), surface_function("logical_and")
    numbers, ranges = _each(bins, len(columns), "bins"), _each(range, len(columns), "ranges")
    edges: list[Value] = []
    sizes: list[Dim] = []
    flat: Value | None = None
    inside: Value | None = None
    for column, number, ends in zip(columns, numbers, ranges, strict=True):
        own, low, high = edges_of(column, number, ends)
        count = own.shape[0] - 1
        element = promote(column.dtype, own.dtype)
        row, wide = converted(column, element), converted(own, element)
        cell = places_of(row, wide, low, high, count)
        is_in = cell < in_dtype(count, int64, cell)
        flat = cell if flat is None else flat * in_dtype(count, int64, cell) + cell
        inside = is_in if inside is None else both(inside, is_in)
        # the edges alone, too, are of a histogram that there is
        edges.append(with_shape(own, own.shape, guards))
        sizes.append(count)
    assert flat is not None, "there is a variable"
    whole = product(sizes)
    # what is outside along one variable is beyond all cells
    flat = where(inside, flat, in_dtype(whole, int64, flat))
    counts = converted(reshape(binned(flat, of_points, whole), tuple(sizes)), float64)
    if dense:
        total = surface_function("sum")(counts)
        for place, own in enumerate(edges):
            widths = converted(own[1:] - own[:-1], float64)
            shape = tuple(sizes[n] if n == place else 1 for n, _ in enumerate(sizes))
            counts = counts / reshape(widths, shape)
        counts = counts / total
    return counts, edges


__all__ = ["histogram2d", "histogramdd"]
