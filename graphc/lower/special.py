"""Kernels of ops that are no plain loop over elements: scans and scatters."""

from __future__ import annotations

from contextlib import ExitStack

from graphc.base.errors import VerifyError
from graphc.ir.dims import product
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Scan, ScatterAdd
from graphc.kernel.combine import neutral_element
from graphc.kernel.ir import Kernel, Site
from graphc.lower.index import flat_index
from graphc.lower.region import Slices, open_loop, open_loops, open_region


def _only(region: Graph, kind: type) -> Node:
    (node,) = (n for n in region.nodes if isinstance(n.op.lowering, kind))
    if len(region.nodes) != 1:
        raise VerifyError(f"{node.op.name} is not fused with other operations", node=repr(node))
    return node


def lower_scan(region: Graph, slices: Slices) -> Kernel:
    """Running sums and products: serial along the axis, vectors across the axes behind it."""
    node = _only(region, Scan)
    assert isinstance(node.op.lowering, Scan)
    combine = node.op.lowering.combine
    b, evaluator, (out,) = open_region(region, slices)
    (source,) = node.inputs
    axis: int = node.attrs["axis"]
    shape = out.value.shape
    dtype = out.value.dtype
    with ExitStack() as loops:
        before = open_loops(b, evaluator, loops, shape[:axis], "parallel")
        behind = open_loops(b, evaluator, loops, shape[axis + 1 :])
        neutral = neutral_element(combine, dtype)
        with b.loop(shape[axis], "serial", (b.constant(neutral, dtype),)) as scope:
            evaluator.push()
            index = (*before, scope.index, *behind)
            term = b.cast(evaluator.at(source, index), dtype)
            total = b.apply(combine, scope.arguments[0], term)
            out.store(b, index, total)
            scope.following = (total,)
            evaluator.pop()
    return b.finish()


def lower_scatter(region: Graph, slices: Slices) -> Kernel:
    """A copy of the base, then each update in index order, so that duplicates add up in order.

    base [*A, n, *B], indices [*I], updates [*A, *I, *B]. Elements of A are independent of each
    other.
    """
    node = _only(region, ScatterAdd)
    b, evaluator, (result,) = open_region(region, slices)
    if result.slice is not None:
        raise VerifyError(f"{node.op.name} is not put into a slice", node=repr(node))
    out = result.buffer
    base, indices, updates = node.inputs
    axis: int = node.attrs["axis"]
    shape = out.type.shape
    parts, size, width = product(shape[:axis]), shape[axis], product(shape[axis + 1 :])
    count = product(indices.shape)
    with ExitStack() as loops:
        (part,) = open_loops(b, evaluator, loops, (parts,), "parallel")
        with ExitStack() as copying:
            (lane,) = open_loops(b, evaluator, copying, (size * width,))
            place = flat_index(b, (part, lane), (parts, size * width))
            b.store(out, place, b.load(evaluator.buffers[base], place))
        which = open_loop(b, evaluator, loops, count, "serial")
        raw = b.load(evaluator.buffers[indices], which)
        site = Site(axis, node.op.name, node.provenance.where)
        target = b.check(b.cast(raw, int64), size, site)
        (lane,) = open_loops(b, evaluator, loops, (width,))
        source = flat_index(b, (part, which, lane), (parts, count, width))
        place = flat_index(b, (part, target, lane), (parts, size, width))
        update = b.load(evaluator.buffers[updates], source)
        b.store(out, place, b.apply("add", b.load(out, place), update))
    return b.finish()
