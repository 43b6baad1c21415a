"""Kernels of scans and scatters, whose loops carry dependences from iteration to iteration.

A region computes one of them and nothing else; ``graphc.ops.fusion_contract`` refuses others.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal

from graphc.ir.dims.expressions import product, select
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Running, Scan, Scatter
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel, Site, Var
from graphc.kernel.reference_reductions import neutral_element
from graphc.lower.index import flat_index
from graphc.lower.launch_fission import Series, launched, series_of
from graphc.lower.region import Slices, open_loop, open_loops, open_region
from graphc.ops.indexing.places import located


def lower_scan(region: Graph, slices: Slices, ahead: bool) -> Series:
    """Running sums and products: serial along the axis, vectors across the axes behind it.

    It checks no indices, so nothing is checked ``ahead``.
    """
    (node,) = region.nodes
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
            total = _joined(b, combine, scope.arguments[0], term)
            out.store(b, index, total)
            scope.following = (total,)
            evaluator.pop()
    return series_of(b.finish())


def _joined(b: KernelBuilder, combine: Running, total: Var, term: Var) -> Var:
    """The next total: by the primitive of that name, but for logarithms of sums."""
    if combine != "logaddexp":
        return b.apply(combine, total, term)
    # two equal infinities have no distance
    alike = b.apply("equal", total, term)
    gap = b.apply("abs", b.apply("subtract", total, term))
    gap = b.apply("select", alike, b.constant(0.0, term.dtype), gap)
    less = b.apply("log1p", b.apply("exp", b.apply("negative", gap)))
    return b.apply("add", b.apply("maximum", total, term), less)


def lower_scatter(region: Graph, slices: Slices, ahead: bool) -> Series:
    """A copy of the base, then each update in index order, so that duplicates meet in order.

    base [*A, n, *B], indices [*I], updates [*A, *I, *B]; or indices and updates [*A, k, *B], where
    each update has an index of its own. Elements of A are independent of each other.

    The launch updates a buffer that holds the base already. Where the base is no longer needed, the
    plan copies nothing, and only the updates are left. With ``ahead`` an earlier launch checks the
    indices, so that nothing fails once something is written.

    Rows and columns of one element of A are independent too, but updates are best read in one
    stream: by blocks of columns, by ranges of rows, or sorted by rows, 4000 updates of 1000 floats
    took 1.4 to 2.3 ms on one thread in place of 1.1, and no less than that on two.
    """
    (node,) = region.nodes
    copied = region.inputs.index(node.inputs[0]), len(region.inputs)
    whole = _scatter(node, region, slices, "whole")
    if not ahead:
        update = launched(_scatter(node, region, slices, "update"))
        return Series(whole, (update,), (), copied=(copied,))
    room = Buffer("places", "scratch", _places(node))
    members = launched(_checks(node, region)), launched(_scatter(node, region, slices, "checked"))
    return Series(whole, members, (room,), frozenset([room]), (copied,))


def _places(node: Node) -> TensorType:
    """Indices that are in range."""
    return node.inputs[1].type.with_dtype(int64)


def _checks(node: Node, region: Graph) -> Kernel:
    """The kernel that checks the indices of a scatter, and hands on the places they name."""
    b, evaluator, (result,) = open_region(region, (None,))
    indices = evaluator.buffers[node.inputs[1]]
    places = b.buffer("places", "out", _places(node))
    axis: int = node.attrs["axis"]
    with ExitStack() as loops:
        (number,) = open_loops(b, evaluator, loops, (places.type.size,))
        site = Site(axis, node.op.name, node.provenance.where)
        wraps = node.attrs.get("wraps", True)
        place = b.check(b.load(indices, number), result.value.shape[axis], site, wraps)
        b.store(places, number, place)
    return b.finish()


_Form = Literal["whole", "update", "checked"]
"""A scatter by itself; where its result holds the base; and where its indices are checked, too."""


def _scatter(node: Node, region: Graph, slices: Slices, form: _Form) -> Kernel:
    """The kernel of a scatter in this form."""
    kind = node.op.lowering
    assert isinstance(kind, Scatter)
    along, combine = kind.along, kind.combine
    drops, wraps = "drop" in node.attrs, node.attrs.get("wraps", True)
    b, evaluator, (result,) = open_region(region, slices, "out" if form == "whole" else "update")
    out = result.buffer
    base, indices, updates = node.inputs
    axis: int = node.attrs["axis"]
    shape = out.type.shape
    parts, size, width = product(shape[:axis]), shape[axis], product(shape[axis + 1 :])
    count = indices.shape[axis] if along else product(indices.shape)
    if drops:
        # of an axis without elements nothing may be read, and every index is out of range
        count = select("eq", size, 0, 0, count)
    updated = (parts, count, width)
    places = evaluator.buffers[indices]
    if form == "checked":
        places = b.buffer("places", "in", _places(node))
    if form == "whole":
        with ExitStack() as copying:
            (element,) = open_loops(b, evaluator, copying, (out.type.size,))
            b.store(out, element, b.load(evaluator.buffers[base], element))
    with ExitStack() as loops:
        (part,) = open_loops(b, evaluator, loops, (parts,), "parallel")
        which = open_loop(b, evaluator, loops, count, "serial")
        # where each has its own, places of neighbours may lie anywhere
        lane = open_loop(b, evaluator, loops, width, "parallel") if along else None
        number = which if lane is None else flat_index(b, (part, which, lane), updated)
        target, inside = b.load(places, number), None
        if drops:
            target, inside = located(b, target, size, wraps)
        if drops or form == "checked":
            # it is in range, which so can be seen
            last = b.apply("subtract", b.dim(size), b.constant(1, int64))
            target = b.apply("maximum", b.apply("minimum", target, last), b.constant(0, int64))
        else:
            site = Site(axis, node.op.name, node.provenance.where)
            target = b.check(target, size, site, wraps)
        if lane is None:
            lane = open_loop(b, evaluator, loops, width, "vector")
        source = flat_index(b, (part, which, lane), updated)
        place = flat_index(b, (part, target, lane), (parts, size, width))
        element = b.load(evaluator.buffers[updates], source)
        if combine != "set":
            element = b.apply(combine, b.load(out, place), element)
        if inside is not None:
            element = b.apply("select", inside, element, b.load(out, place))
        b.store(out, place, element)
    return b.finish()
