"""Kernels that hand rows to a native routine, one row after the other.

Rows are independent of each other, so threads share them. A single row is one thread's.
"""

from __future__ import annotations

from contextlib import ExitStack

from graphc.ir.dims.expressions import product
from graphc.ir.dtypes import int8
from graphc.ir.graph import Graph
from graphc.ir.lowering import Native
from graphc.ir.types import TensorType
from graphc.kernel.ir import Site
from graphc.kernel.routines import routine
from graphc.kernel.statements.routines import Span
from graphc.lower.index import flat_index
from graphc.lower.launch_fission import Series, series_of
from graphc.lower.region import Slices, open_loops, open_region


def lower_native_rows(region: Graph, slices: Slices, ahead: bool) -> Series:
    """The kernel of one such operation; it updates nothing, so nothing is checked ``ahead``."""
    (node,) = region.nodes
    lowering = node.op.lowering
    assert isinstance(lowering, Native)
    b, evaluator, results = open_region(region, slices)
    operands = [(value.type, evaluator.buffers[value]) for value in node.inputs]
    (result,) = results
    whole = result.value.type
    if whole.size == 0:
        return series_of(b.finish())
    numbers = lowering.numbers([type_ for type_, _ in operands], node.attrs)
    found = routine(lowering.routine)
    dtypes = [type_.dtype for type_, _ in (*operands, (whole, result.buffer))]
    bytes_ = found.room(dtypes, numbers)
    room = None if bytes_ == 0 else b.buffer("room", "scratch", TensorType(int8, (bytes_,)))
    ranks = lowering.ranks
    site = None
    if found.fault is not None:
        site = Site(whole.rank - 1, node.op.name, node.provenance.where)
    batch = whole.shape[: whole.rank - ranks[-1]]
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, batch, "parallel")
        number, first = flat_index(b, index, batch), b.dim(0)
        spans = []
        for (type_, buffer), rank in zip([*operands, (whole, result.buffer)], ranks, strict=True):
            before, row = type_.shape[: type_.rank - rank], type_.shape[type_.rank - rank :]
            size = product(row)
            offset = b.apply("multiply", number, b.dim(size)) if before else first
            spans.append(Span(buffer, offset, size))
        b.call(found.name, numbers, spans[-1:], spans[:-1], room, site)
    return series_of(b.finish())
