"""Shifted variance: squared deviations from the mean, in one pass over the terms.

With d = x - p for any number p (the pivot), the squared deviations of the terms from their mean add
up to sum(d * d) - sum(d) ** 2 / n: Chan, Golub and LeVeque 1983, "shifted data". The nearer p is to
the mean, the smaller is the subtrahend. Invariant: p is the mean of the leading terms, which are at
least one in ``SHARE``, so the subtrahend is at most ``SHARE`` times the result. The reason: squared
distances of K terms with mean p from any m add up to at least K * (p - m) ** 2.

Two passes, with the mean itself for p, read each term twice. They are for few terms, which lie in
the nearest cache: then all terms are leading ones, and the subtrahend is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from graphc.ir.dims.expressions import Dim, ceil_div, compare, dim_max, select
from graphc.ir.dtypes import DType
from graphc.ir.lowering import Combine
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Order, Var, lanes

SHARE = 16
"""One of so many terms is among the leading ones."""

FEW: Final[dict[Order, int]] = {"lanes": 256, "chain": 8}
"""So many terms all lead. Variances of rows of 256 floats take as long in two passes as in one."""

_ROWS = 8
"""Down columns, terms lead by so many."""


def leading(extent: Dim, order: Order, dtype: DType) -> Dim:
    """The number of leading terms: all, or whole steps of lanes."""
    step = lanes(dtype) if order == "lanes" else _ROWS
    return select("le", extent, FEW[order], extent, ceil_div(extent, SHARE * step) * step)


def share(b: KernelBuilder, term: Var, count: Dim) -> Var:
    """A leading term divided by ``count``: a mean that is the sum of these never overflows."""
    return b.apply("multiply", term, _reciprocal(b, count, term.dtype))


def combinations(extent: Dim, order: Order) -> tuple[Combine, ...]:
    """The combinations of shifted terms that ``squared_deviations`` takes."""
    return ("squares",) if compare("le", extent, FEW[order]) else ("add", "squares")


def squared_deviations(
    b: KernelBuilder, extent: Dim, order: Order, shift: float, results: Iterator[Var]
) -> Var:
    """From the next results, of ``combinations`` of shifted terms.

    Squares beyond the largest float give inf; a term that is not finite gives NaN.
    """
    is_few = compare("le", extent, FEW[order])
    if is_few:
        return next(results)
    total, squares = next(results), next(results)
    infinity = b.constant(float("inf"), total.dtype)
    mean = b.apply("multiply", total, _reciprocal(b, extent, total.dtype))
    rest = b.apply("subtract", squares, b.apply("multiply", total, mean))
    # rounding may leave less than nothing
    rest = b.apply("maximum", rest, b.constant(0, total.dtype))
    if shift:
        # subtracted with the mean, of which it is a part
        squared = b.constant(shift * shift, total.dtype)
        rest = b.apply("add", rest, b.apply("multiply", _count(b, extent, total.dtype), squared))
    # a sum that is finite has no term that is not, however large the squares are
    overflows = b.apply("and", b.apply("equal", squares, infinity), b.apply("isfinite", total))
    result = b.apply("select", overflows, infinity, rest)
    if is_few is None:
        few = b.apply("less_equal", b.dim(extent), b.dim(FEW[order]))
        result = b.apply("select", few, squares, result)
    return result


def _count(b: KernelBuilder, count: Dim, dtype: DType) -> Var:
    if isinstance(count, int):
        return b.constant(count, dtype)
    return b.cast(b.dim(count), dtype)


def _reciprocal(b: KernelBuilder, count: Dim, dtype: DType) -> Var:
    """1 / count, and 1 for none."""
    count = dim_max(count, 1)
    if isinstance(count, int):
        return b.constant(float(np.divide(1, count, dtype=dtype.numpy)), dtype)
    return b.apply("divide", b.constant(1, dtype), _count(b, count, dtype))


__all__ = ["FEW", "SHARE", "combinations", "leading", "share", "squared_deviations"]
