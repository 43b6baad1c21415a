"""Kernels of ops that are no plain loop over elements: matrix products, scans, scatters."""

from __future__ import annotations

from contextlib import ExitStack

from graphc.base.errors import VerifyError
from graphc.base.target import Target
from graphc.codegen.gemm import gemm_workspace_bytes
from graphc.ir.dims import Dim, product
from graphc.ir.dtypes import DType, int8, int64
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Contraction, Scan, ScatterAdd
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.combine import neutral_element
from graphc.kernel.ir import Buffer, Kernel, MatrixOperand, Site, Var
from graphc.lower.index import Index, flat_index
from graphc.lower.region import Result, Slices, open_loop, open_loops, open_region
from graphc.ops.panels import contract_panels_op

_UNBOUNDED = 2**40


def _only(region: Graph, kind: type) -> Node:
    (node,) = (n for n in region.nodes if isinstance(n.op.lowering, kind))
    if len(region.nodes) != 1:
        raise VerifyError(f"{node.op.name} is not fused with other operations", node=repr(node))
    return node


def lower_contraction(region: Graph, slices: Slices, target: Target) -> Kernel:
    """[*B, m, k] by [*B, k, n]: a loop over the batch around one product."""
    node = _only(region, Contraction)
    if node.op is contract_panels_op:
        return _lower_packed(node, region, slices, target)
    b, evaluator, (out,) = open_region(region, slices)
    left, right = (evaluator.buffers[value] for value in node.inputs)
    *batch, m, n = out.value.shape
    turned_a, turned_b = node.attrs.get("transpose_a", False), node.attrs.get("transpose_b", False)
    k = left.type.shape[-2] if turned_a else left.type.shape[-1]
    room = _workspace(b, target, out.value.dtype, (m, n, k))
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, batch, "parallel")
        number = flat_index(b, index, batch)

        def matrix(buffer: Buffer, rows: Dim, columns: Dim, turned: bool) -> MatrixOperand:
            offset: Var = b.apply("multiply", number, b.dim(product((rows, columns))))
            strides = (1, rows) if turned else (columns, 1)
            return MatrixOperand(buffer, offset, *strides)

        b.contract(
            "panel",
            (m, n, k),
            matrix(left, m, k, turned_a),
            matrix(right, k, n, turned_b),
            matrix(out.buffer, m, n, False) if out.slice is None else _in_whole(b, out, index),
            room,
        )
    return b.finish()


def _workspace(
    b: KernelBuilder, target: Target, dtype: DType, sizes: tuple[Dim, Dim, Dim]
) -> Buffer:
    """Room for a product of sizes (m, n, k).

    It is capped by the blocking, so a bound stands for sizes known only at run time.
    """
    m, n, k = (size if isinstance(size, int) else _UNBOUNDED for size in sizes)
    size = gemm_workspace_bytes(dtype, target, m, n, k)
    return b.buffer("room", "scratch", TensorType(int8, (size,)))


def _in_whole(b: KernelBuilder, out: Result, batch: Index) -> MatrixOperand:
    """One product of a batch in its slice of a whole."""
    start = b.dim(0)
    row = out.buffer.type.shape[-1]
    return MatrixOperand(out.buffer, out.place(b, (*batch, start, start)), row, 1)


def _lower_packed(node: Node, region: Graph, slices: Slices, target: Target) -> Kernel:
    """[m, k] by a constant in panels: one product."""
    b, evaluator, (out,) = open_region(region, slices)
    left, right = (evaluator.buffers[value] for value in node.inputs)
    m, n = out.value.shape
    k = node.attrs["k"]
    room = _workspace(b, target, out.value.dtype, (m, n, k))
    start = b.dim(0)
    a_strides: tuple[Dim, Dim] = (1, m) if node.attrs["transpose_a"] else (k, 1)
    b.contract(
        "packed",
        (m, n, k),
        MatrixOperand(left, start, *a_strides),
        MatrixOperand(right, start, right.type.shape[-1], 1),
        MatrixOperand(out.buffer, out.place(b, (start, start)), out.buffer.type.shape[-1], 1),
        room,
    )
    return b.finish()


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

    base [*A, n, *B], indices [*I], updates [*A, *I, *B].
    """
    node = _only(region, ScatterAdd)
    b, evaluator, (result,) = open_region(region, slices)
    if result.slice is not None:
        raise VerifyError(f"{node.op.name} is not put into a slice", node=repr(node))
    out = result.buffer
    base, indices, updates = node.inputs
    axis: int = node.attrs["axis"]
    shape = out.type.shape
    with ExitStack() as loops:
        (place,) = open_loops(b, evaluator, loops, (product(shape),))
        b.store(out, place, b.load(evaluator.buffers[base], place))
    with ExitStack() as loops:
        before = open_loops(b, evaluator, loops, shape[:axis], "parallel")
        count = product(indices.shape)
        which = open_loop(b, evaluator, loops, count, "serial")
        raw = b.load(evaluator.buffers[indices], which)
        site = Site(axis, node.op.name, node.provenance.where)
        target = b.check(b.cast(raw, int64), shape[axis], site)
        behind = open_loops(b, evaluator, loops, shape[axis + 1 :])
        source = (*shape[:axis], count, *shape[axis + 1 :])
        update = b.load(
            evaluator.buffers[updates], flat_index(b, (*before, which, *behind), source)
        )
        place = flat_index(b, (*before, target, *behind), shape)
        b.store(out, place, b.apply("add", b.load(out, place), update))
    return b.finish()
