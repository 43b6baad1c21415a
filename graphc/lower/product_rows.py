"""Kernels of a matrix product, reductions of its rows, and perhaps a second product of those rows.

Attention is such a kernel: scores, their softmax, and the product with the values. Rows go by
blocks that stay in the cache: the block of the first product, the stages of its rows in place, then
the second product of the block. So scores are never written to memory. The right operand of the
first product is packed into panels once for each matrix, because every block reads it. Each step
has the order that it would have in a kernel of its own, so the bits are the same.

Columns at the end that a mask hides from all rows of a block are skipped (``attention_masks.py``):
the kernel reads from the mask how many columns the block needs. Skipped columns must add nothing.
So values that are not finite, anywhere in the matrix, keep all columns in, and a row with a result
of -0, to which +0 may be added, is multiplied once more as a whole.
"""

from __future__ import annotations

from contextlib import ExitStack

from graphc.base.target import Target
from graphc.base.tuning.products import PRODUCTS
from graphc.ir.dims.expressions import Dim, ceil_div, compare, dim_min, select
from graphc.ir.dtypes import DType, bool_, int64
from graphc.ir.graph import Graph
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel, Size, Var, lanes
from graphc.kernel.panels import panel_width
from graphc.kernel.statements.products import MatrixOperand
from graphc.lower.attention_masks import Mask, find_masks
from graphc.lower.contraction import (
    AxisBlocks,
    Product,
    as_scalar,
    blocks,
    matrix,
    product_of,
    workspace,
)
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import Index, broadcast_index, flat_index
from graphc.lower.region import open_loop, open_loops, open_region
from graphc.lower.rows import RowWork
from graphc.ops.fusion_contract import Form


def lower_product_rows(region: Graph, form: Form, target: Target) -> Kernel:
    """The kernel of a region with a product, reductions of its rows, and at most one more product.

    The depth of the first product is known.
    """
    first, *more = (n for n in region.nodes if n.op.lowering.is_product)
    b, evaluator, results = open_region(region, (None,) * len(region.outputs))
    scores = product_of(first, *(evaluator.buffers[value] for value in first.inputs))
    m, n, k = scores.m, scores.n, scores.k
    assert isinstance(k, int)
    dtype = scores.result.dtype
    width = panel_width(dtype, target)
    panels = b.buffer("panels", "scratch", TensorType(dtype, (1, ceil_div(n, width), k, width)))
    masks: tuple[Mask, ...] = ()
    if more and compare("lt", n, PRODUCTS.masked_columns) is not True:
        masks = find_masks(region, scores.result, more[0].inputs[0])
    cut = _rows_of_blocks(m, n, dtype, bool(masks))
    held_rows = cut.size
    block = b.buffer("block", "scratch", TensorType(dtype, (dim_min(m, held_rows), n)))
    plain = [result.buffer for result in results if result.value is scores.result]
    then = [product_of(node, block, evaluator.buffers[node.inputs[1]]) for node in more]
    room = workspace(
        b, target, (scores, held_rows, n), *((product, held_rows, product.n) for product in then)
    )
    made = {node.output for node in (first, *more)}
    rest = [result for result in results if result.value not in made]
    work = RowWork(b, region, form, rest, [node.inputs[0] for node in more])
    sight = _Sight(b, evaluator, masks, scores, then[0], width) if masks else None
    if sight is not None:
        sight.look_once(cut)
    zero = b.dim(0)
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, scores.batch, "parallel")
        number = flat_index(b, index, scores.batch)
        _pack(b, evaluator, scores, number, panels)
        if sight is not None:
            sight.open_matrix(number)
        part = open_loop(b, evaluator, loops, cut.count, "parallel")
        row = b.apply("multiply", part, b.dim(cut.size))
        held = cut.held(b, row)
        a = scores.left_from(b, number, row)
        right = MatrixOperand(panels, zero, width, 1)
        target_block = MatrixOperand(block, zero, n, 1)
        seen: Size = n if sight is None else sight.columns(index, part, row, held)
        b.contract("packed", (held, seen, k), a, right, target_block, room)
        with ExitStack() as rows:
            i = open_loop(b, evaluator, rows, held, "parallel")
            place = (*index, b.apply("add", row, i))
            start = b.apply("multiply", i, b.dim(n))
            weights = {node.inputs[0]: (block, start) for node in more}
            if plain:
                _keep(b, evaluator, scores, plain, place, (block, start))
            work.emit(b, evaluator, place, {scores.result: (block, start)}, weights, seen)
        for product in then:
            (out,) = (r.buffer for r in results if r.value is product.result)
            first_out = flat_index(b, (number, row), (1, m))
            result = matrix(b, out, first_out, product.n, zero, 0, (product.n, 1))
            values = product.right_from(b, number, zero)
            b.contract("panel", (held, product.n, seen), target_block, values, result, room)
            if sight is not None:
                sight.mend(held, seen, (target_block, values, result), room)
    return b.finish()


def _rows_of_blocks(m: Dim, n: Dim, dtype: DType, masked: bool) -> AxisBlocks:
    """Blocks of rows of n elements."""
    row = n * dtype.bytes
    usual = PRODUCTS.product_rows_bytes
    if isinstance(row, int) and not masked and PRODUCTS.masked_rows * row <= usual:
        return blocks(m, usual // row, 8)
    size: Dim = 8
    for rows in (16, PRODUCTS.masked_rows):
        size = select("lt", PRODUCTS.long_product_rows_bytes, rows * row, size, rows)
    return blocks(m, size, 8) if isinstance(size, int) else AxisBlocks(ceil_div(m, size), size, m)


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
    with ExitStack() as loops:
        panel = open_loop(b, evaluator, loops, count, "parallel")
        row = open_loop(b, evaluator, loops, depth, "across")
        lane = open_loop(b, evaluator, loops, width, "vector")
        column = b.apply("add", b.apply("multiply", panel, b.dim(width)), lane)
        matrix = product.right_from(b, number, b.dim(0))
        down = b.apply("multiply", row, as_scalar(b, matrix.row_stride))
        across = b.apply("multiply", column, as_scalar(b, matrix.column_stride))
        source = b.apply("add", matrix.offset, b.apply("add", down, across))
        if compare("eq", product.n, count * width):
            value = b.load(product.right, source)
        else:
            inside = b.apply("less", column, b.dim(product.n))
            zero = b.constant(0, product.right.type.dtype)
            value = b.load(product.right, source, inside, zero)
        b.store(panels, flat_index(b, (b.dim(0), panel, row, lane), panels.type.shape), value)


class _Sight:
    """The number of columns that each block of a kernel needs, computed at run time from masks."""

    def __init__(
        self,
        b: KernelBuilder,
        evaluator: Evaluator,
        masks: tuple[Mask, ...],
        scores: Product,
        then: Product,
        width: int,
    ) -> None:
        self._b, self._evaluator = b, evaluator
        self._masks, self._scores, self._then = masks, scores, then
        # Whole steps of sums: then their order is as if the terms left out were there.
        self._step = max(width, lanes(scores.result.dtype))
        self._seen = b.buffer("seen", "scratch", TensorType(bool_, (scores.n,)))
        self._finite: Var | None = None
        self._noted: Buffer | None = None

    def open_matrix(self, number: Var) -> None:
        """Notes whether the values of this number are finite."""
        b, then = self._b, self._then
        values = then.right_from(b, number, b.dim(0))
        with b.reduce(then.k * then.n, "lanes") as scope:
            element = b.load(then.right, b.apply("add", values.offset, scope.index))
            scope.terms.append(("and", b.apply("isfinite", element)))
        (self._finite,) = scope.results

    def look_once(self, cut: AxisBlocks) -> None:
        """Notes how many columns each block of rows needs if that is so in all matrices."""
        b, scores = self._b, self._scores
        leading = [dim for mask in self._masks for dim in mask.condition.shape[:-2]]
        if not scores.batch or any(dim != 1 for dim in leading):
            return
        self._noted = b.buffer("needed", "scratch", TensorType(int64, (cut.count,)))
        with ExitStack() as loops:
            part = open_loop(b, self._evaluator, loops, cut.count, "parallel")
            row = b.apply("multiply", part, b.dim(cut.size))
            any_matrix = (b.constant(0, int64),) * len(scores.batch)
            b.store(self._noted, part, self._needed(any_matrix, row, cut.held(b, row)))

    def columns(self, index: Index, part: Var, row: Var, held: Size) -> Var:
        """How many columns the block ``part`` needs, of ``held`` rows from ``row`` on; the others
        are hidden."""
        b = self._b
        assert self._finite is not None
        if self._noted is None:
            needed = self._needed(index, row, held)
        else:
            # it is a number of columns, which so can be seen
            needed = b.apply("minimum", b.load(self._noted, part), b.dim(self._scores.n))
            needed = b.apply("maximum", needed, b.constant(0, int64))
        return b.apply("select", self._finite, needed, b.dim(self._scores.n))

    def _needed(self, index: Index, row: Var, held: Size) -> Var:
        """How many columns some rows look at, in whole steps."""
        b, evaluator, n = self._b, self._evaluator, self._scores.n
        shape = self._scores.result.shape
        with ExitStack() as loops:
            column = open_loop(b, evaluator, loops, n, "vector")
            with b.reduce(held, "chain") as rows:
                evaluator.push()
                place = (*index, b.apply("add", row, rows.index), column)
                looked = b.constant(True, bool_)
                for mask in self._masks:
                    at = broadcast_index(b, place, shape, mask.condition.shape)
                    is_kept = evaluator.at(mask.condition, at)
                    if not mask.kept:
                        is_kept = b.apply("not", is_kept)
                    looked = b.apply("and", looked, is_kept)
                rows.terms.append(("or", looked))
                evaluator.pop()
            b.store(self._seen, column, rows.results[0])
        with b.reduce(n, "lanes") as last:
            is_seen = b.load(self._seen, last.index)
            position = b.apply("select", is_seen, last.index, b.constant(0, int64))
            last.terms.append(("maximum", position))
        # of no columns there is no last one
        position = b.apply("maximum", last.results[0], b.dim(0))
        step = b.dim(self._step)
        steps = b.apply("add", b.apply("floor_divide", position, step), b.dim(1))
        return b.apply("minimum", b.apply("multiply", steps, step), b.dim(n))

    def mend(
        self,
        held: Size,
        seen: Size,
        matrices: tuple[MatrixOperand, MatrixOperand, MatrixOperand],
        room: Buffer,
    ) -> None:
        """Multiplies rows of the result that hold -0 once more, with all their weights."""
        b, evaluator, n, width = self._b, self._evaluator, self._scores.n, self._then.n
        weights, values, result = matrices
        hidden = b.apply("subtract", b.dim(n), as_scalar(b, seen))
        with ExitStack() as loops:
            row = open_loop(b, evaluator, loops, held, "parallel")
            first = b.apply("add", result.offset, b.apply("multiply", row, b.dim(width)))
            with b.reduce(width, "lanes") as scope:
                element = b.load(result.buffer, b.apply("add", first, scope.index))
                is_zero = b.apply("equal", element, b.constant(0, element.dtype))
                scope.terms.append(("or", b.apply("and", is_zero, b.apply("signbit", element))))
            is_fine = b.apply("not", scope.results[0])
            once = b.apply("minimum", hidden, b.dim(1))
            again = b.apply("select", is_fine, b.dim(0), once)
            open_loop(b, evaluator, loops, again, "parallel")
            start = b.apply("multiply", row, b.dim(n))
            with ExitStack() as rest:
                column = open_loop(b, evaluator, rest, hidden, "vector")
                place = b.apply("add", start, b.apply("add", as_scalar(b, seen), column))
                b.store(weights.buffer, place, b.constant(0, element.dtype))
            a = MatrixOperand(weights.buffer, start, n, 1)
            c = MatrixOperand(result.buffer, first, width, 1)
            b.contract("panel", (1, width, n), a, values, c, room)
