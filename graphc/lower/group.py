"""The kernel of one fused node, by the kind of its region.

* maps: no reduction; one loop nest over the common shape of the outputs;
* rows: reductions of one axis of one common shape, in stages over a row (``rows.py``);
* matrix products and work on their elements (``contraction.py``) or rows (``product_rows.py``);
* single scans and scatters (``special.py``).

Buffers are the node's operands, then its outputs, then scratch.
"""

from __future__ import annotations

from contextlib import ExitStack

from graphc.base.target import Target
from graphc.ir.dims import Dim, product
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Contraction, Pointwise, Reduction, Scan, ScatterAdd
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.ir import Kernel
from graphc.kernel.split import chosen_levels, with_split
from graphc.lower.contraction import lower_contraction
from graphc.lower.evaluate import Evaluator
from graphc.lower.nest import lower_nest
from graphc.lower.pieces import Nest, nests
from graphc.lower.product_rows import lower_product_rows
from graphc.lower.region import Result, Slice, Slices, computed, open_loops, open_region
from graphc.lower.rows import lower_rows
from graphc.lower.special import lower_scan, lower_scatter


def lower_group(node: Node, target: Target) -> Kernel:
    """The kernel of a fused node; its first buffers are the node's inputs and outputs in order.

    Raises:
        UnsupportedError: naming the op that no kernel can be made of.
    """
    kernel = _lowered(node, target)
    return with_split(kernel, chosen_levels(kernel))


def _lowered(node: Node, target: Target) -> Kernel:
    region, slices = computed(node.regions[0])
    kinds = {type(inner.op.lowering) for inner in region.nodes}
    if Contraction in kinds:
        if Reduction in kinds:
            return lower_product_rows(region, target)
        return lower_contraction(region, slices, target)
    if Scan in kinds:
        return lower_scan(region, slices)
    if ScatterAdd in kinds:
        return lower_scatter(region, slices)
    if Reduction in kinds:
        return lower_rows(region, slices)
    return lower_map(region, slices)


def lower_map(region: Graph, slices: Slices) -> Kernel:
    """All outputs have one shape; one loop nest computes them together, or one for each piece."""
    parts = [_collapse(*nest) for nest in nests(region, slices)]
    if len(parts) == 1:
        return lower_nest(*parts[0])
    b, opened, results = open_region(region, slices)
    for part, part_slices in parts:
        evaluator = Evaluator(b, part)
        evaluator.buffers.update(zip(part.inputs, opened.buffers.values(), strict=True))
        with ExitStack() as loops:
            index = open_loops(b, evaluator, loops, part.outputs[0].shape)
            elements = [evaluator.at(value, index) for value in part.outputs]
            for result, value, slice_, element in zip(
                results, part.outputs, part_slices, elements, strict=True
            ):
                Result(value, result.buffer, slice_).store(b, index, element)
    return b.finish()


def _collapse(region: Graph, slices: Slices) -> Nest:
    """Merges neighbouring axes that no value of the region broadcasts differently.

    Only purely pointwise regions: then the innermost loop is as long as it can be. A slice is
    contiguous behind an axis along which it is not the whole, so none before is merged with that.
    """
    shape = region.outputs[0].shape
    rank = len(shape)
    if rank < 2 or not all(_is_pointwise(node) for node in region.nodes):
        return region, slices
    values = [*region.inputs, *(value for node in region.nodes for value in node.outputs)]
    patterns: list[list[bool]] = []
    for value in values:
        padded = (1,) * (rank - len(value.shape)) + value.shape
        if any(d != 1 and d != full for d, full in zip(padded, shape, strict=True)):
            return region, slices
        patterns.append([d == 1 and full != 1 for d, full in zip(padded, shape, strict=True)])
    cuts = {
        axis
        for slice_ in slices
        if slice_ is not None
        for axis, (size, whole) in enumerate(zip(shape, slice_.whole.shape, strict=True))
        if size != whole
    }
    groups: list[list[int]] = [[0]]
    for axis in range(1, rank):
        # axes of size 1 go with any other, so they say nothing about how their group broadcasts
        real = [other for other in groups[-1] if shape[other] != 1]
        alike = not real or all(pattern[axis] == pattern[real[-1]] for pattern in patterns)
        if (alike or shape[axis] == 1) and not (real and axis in cuts):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) == rank:
        return region, slices

    def retyped(value: Value) -> Value:
        padded = (1,) * (rank - len(value.shape)) + value.shape
        dims = tuple(product(padded[axis] for axis in group) for group in groups)
        return Value(TensorType(value.dtype, dims), value.name)

    renamed = {value: retyped(value) for value in values}
    nodes = [
        Node(
            node.op,
            tuple(renamed[value] for value in node.inputs),
            node.attrs,
            tuple(renamed[value] for value in node.outputs),
            (),
            node.provenance,
        )
        for node in region.nodes
    ]
    inputs = [renamed[value] for value in region.inputs]
    outputs = [renamed[value] for value in region.outputs]

    def moved(slice_: Slice) -> Slice:
        whole, starts = slice_.whole.shape, list[Dim]()
        for group in groups:
            start: Dim = 0
            for axis in group:
                start = start * whole[axis] + slice_.starts[axis]
            starts.append(start)
        dims = tuple(product(whole[axis] for axis in group) for group in groups)
        return Slice(slice_.whole.with_shape(dims), tuple(starts))

    taken = tuple(None if slice_ is None else moved(slice_) for slice_ in slices)
    return Graph(region.name, inputs, nodes, outputs), taken


def _is_pointwise(node: Node) -> bool:
    return isinstance(node.op.lowering, Pointwise) or (
        node.op.name == "constant" and node.output.type.rank == 0
    )
