"""Kernels of a matrix product, row reductions of it, and perhaps a product of what they give.

Attention is the case in point: scores, their softmax, and the product with the values. Rows go by
blocks that stay in the cache: the block of the first product, the stages of its rows in place, then
the second product of the block. So scores are never written to memory. The right operand of the
first product is brought into panels once for each matrix, since every block reads it. Each step
computes what it would in a kernel of its own, in the same order, so the bits are the same.
"""

from __future__ import annotations

from contextlib import ExitStack

from graphc.base.target import Target
from graphc.ir.graph import Graph
from graphc.ir.op import Contraction
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel, MatrixOperand, Var
from graphc.kernel.panels import panel_width
from graphc.lower.contraction import (
    Product,
    as_scalar,
    blocks,
    matrix,
    open_block,
    product_of,
    workspace,
)
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import flat_index
from graphc.lower.region import open_loop, open_loops, open_region
from graphc.lower.rows import RowWork

BLOCK_BYTES = 192 * 1024
"""Memory of a block of rows: beside it the operands of both products stay in the cache too."""


def lower_product_rows(region: Graph, target: Target) -> Kernel:
    """The kernel of a region with a product, reductions of its rows, and at most one more product.

    Sizes of the first product's columns and depth are known.
    """
    first, *more = (n for n in region.nodes if isinstance(n.op.lowering, Contraction))
    b, evaluator, results = open_region(region, (None,) * len(region.outputs))
    scores = product_of(first, *(evaluator.buffers[value] for value in first.inputs))
    m, n, k = scores.m, scores.n, scores.k
    assert isinstance(n, int) and isinstance(k, int)
    dtype = scores.result.dtype
    width = panel_width(dtype, target)
    panels = b.buffer("panels", "scratch", TensorType(dtype, (1, -(-n // width), k, width)))
    cut = blocks(m, max(8, BLOCK_BYTES // (n * dtype.bytes)), 8)
    held_rows = cut.size
    assert isinstance(held_rows, int)
    block = b.buffer("block", "scratch", TensorType(dtype, (held_rows, n)))
    plain = [result.buffer for result in results if result.value is scores.result]
    then = [product_of(node, block, evaluator.buffers[node.inputs[1]]) for node in more]
    room = workspace(
        b, target, (scores, held_rows, n), *((product, held_rows, product.n) for product in then)
    )
    made = {node.output for node in (first, *more)}
    rest = [result for result in results if result.value not in made]
    work = RowWork(b, region, rest, [node.inputs[0] for node in more])
    zero = b.dim(0)
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, scores.batch, "parallel")
        number = flat_index(b, index, scores.batch)
        _pack(b, evaluator, scores, number, panels)
        row = open_block(b, evaluator, loops, cut)
        held = cut.held(b, row)
        a = scores.left_from(b, number, row)
        right = MatrixOperand(panels, zero, width, 1)
        target_block = MatrixOperand(block, zero, n, 1)
        b.contract("packed", (held, n, k), a, right, target_block, room)
        with ExitStack() as rows:
            i = open_loop(b, evaluator, rows, held, "parallel")
            place = (*index, b.apply("add", row, i))
            start = b.apply("multiply", i, b.dim(n))
            weights = {node.inputs[0]: (block, start) for node in more}
            if plain:
                _keep(b, evaluator, scores, plain, place, (block, start))
            work.emit(b, evaluator, place, {scores.result: (block, start)}, weights)
        for product in then:
            (out,) = (r.buffer for r in results if r.value is product.result)
            first_out = flat_index(b, (number, row), (1, m))
            result = matrix(b, out, first_out, product.n, zero, 0, (product.n, 1))
            values = product.right_from(b, number, zero)
            b.contract("panel", (held, product.n, n), target_block, values, result, room)
    return b.finish()


def _keep(
    b: KernelBuilder,
    evaluator: Evaluator,
    scores: Product,
    plain: list[Buffer],
    place: tuple[Var, ...],
    held: tuple[Buffer, Var],
) -> None:
    """Stores a row of the product itself where it is wanted."""
    block, start = held
    with ExitStack() as loops:
        j = open_loop(b, evaluator, loops, scores.n, "vector")
        value = b.load(block, b.apply("add", start, j))
        for buffer in plain:
            b.store(buffer, flat_index(b, (*place, j), scores.result.shape), value)


def _pack(
    b: KernelBuilder, evaluator: Evaluator, product: Product, number: Var, panels: Buffer
) -> None:
    """The right operand of this number in panels; columns beyond the last are zero."""
    _, count, depth, width = panels.type.shape
    assert isinstance(count, int) and isinstance(width, int)
    with ExitStack() as loops:
        panel, row = open_loops(b, evaluator, loops, (count, depth), "parallel")
        lane = open_loop(b, evaluator, loops, width, "vector")
        column = b.apply("add", b.apply("multiply", panel, b.dim(width)), lane)
        matrix = product.right_from(b, number, b.dim(0))
        down = b.apply("multiply", row, as_scalar(b, matrix.row_stride))
        across = b.apply("multiply", column, as_scalar(b, matrix.column_stride))
        source = b.apply("add", matrix.offset, b.apply("add", down, across))
        if product.n == count * width:
            value = b.load(product.right, source)
        else:
            inside = b.apply("less", column, b.dim(product.n))
            zero = b.constant(0, product.right.type.dtype)
            value = b.load(product.right, source, inside, zero)
        b.store(panels, flat_index(b, (b.dim(0), panel, row, lane), panels.type.shape), value)
