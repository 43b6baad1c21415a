"""Kernels of matrix products, with the work on their elements that is fused behind them.

A product alone is one ``contract`` for each matrix of the batch. With an epilogue the result is
made in blocks that stay in the cache: for each, a ``contract`` of its rows and columns, then an
ordinary loop nest over its elements. The product itself is written to memory only if it is wanted;
otherwise a block of it lives in scratch. Blocks change no bit, since each element is one chain.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from graphc.base.errors import VerifyError
from graphc.base.target import Target
from graphc.base.tuning.products import PRODUCTS
from graphc.base.tuning.sharing import SHARING
from graphc.codegen.gemm import (
    gemm_workspace_bytes,
    reads_in_place,
    reads_transpose_in_place,
)
from graphc.ir.dims.expressions import Dim, ceil_div, compare, dim_max, dim_min, select
from graphc.ir.dtypes import int8
from graphc.ir.graph import Graph, Node
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel, Size, Var
from graphc.kernel.panels import depth_limit
from graphc.kernel.statements.products import MAX_NEAR, MatrixOperand
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import Index, broadcast_index, flat_index, reshape_index
from graphc.lower.region import Result, Slices, open_loop, open_loops, open_region
from graphc.ops.linalg.panels import contract_panels_op

_UNBOUNDED = 2**40


@dataclass(frozen=True, slots=True)
class Product:
    """A product [*batch, m, k] by [*batch, k, n] and the buffers of its operands."""

    node: Node
    batch: tuple[Dim, ...]
    m: Dim
    n: Dim
    k: Dim
    left: Buffer
    right: Buffer

    @property
    def result(self) -> Value:
        """Its value."""
        return self.node.output

    def left_from(self, b: KernelBuilder, number: Var, row: Var) -> MatrixOperand:
        """The left matrix of this number from a row on."""
        strides: tuple[Dim, Dim] = (1, self.m) if self.node.attrs["transpose_a"] else (self.k, 1)
        return matrix(b, self.left, number, self.m * self.k, row, strides[0], strides)

    def right_from(self, b: KernelBuilder, number: Var, column: Var) -> MatrixOperand:
        """The right matrix of this number from a column on; of packed ones from a panel's first."""
        if self.node.op is contract_panels_op:
            depth, width = self.right.type.shape[-2:]
            return matrix(b, self.right, number, 0, column, depth, (width, 1))
        strides: tuple[Dim, Dim] = (1, self.k) if self.node.attrs["transpose_b"] else (self.n, 1)
        return matrix(b, self.right, number, self.k * self.n, column, strides[1], strides)

    def contract(
        self,
        b: KernelBuilder,
        number: Var,
        start: tuple[Var, Var],
        sizes: tuple[Size, Size],
        target: MatrixOperand,
        room: Buffer,
        near: tuple[MatrixOperand, ...] = (),
    ) -> None:
        """The block of ``sizes`` at ``start`` of the matrix of this number."""
        template = "packed" if self.node.op is contract_panels_op else "panel"
        a, right = self.left_from(b, number, start[0]), self.right_from(b, number, start[1])
        b.contract(template, (*sizes, self.k), a, right, target, room, near)


def matrix(
    b: KernelBuilder,
    buffer: Buffer,
    number: Var,
    size: Dim,
    start: Var,
    step: Dim,
    strides: tuple[Dim, Dim],
) -> MatrixOperand:
    """An operand from ``start`` on, ``step`` elements each, in the matrix of this number."""
    first = b.apply("multiply", number, b.dim(size))
    offset = b.apply("add", first, b.apply("multiply", start, b.dim(step)))
    return MatrixOperand(buffer, offset, *strides)


def lower_contraction(region: Graph, slices: Slices, target: Target) -> Kernel:
    """The kernel of a region with one product; whatever else it holds is computed from it.

    Only a product alone is put into a slice.
    """
    products = [n for n in region.nodes if n.op.lowering.is_product]
    if len(products) != 1:
        raise VerifyError(f"a kernel of {len(products)} products", node=repr(products[-1]))
    b, evaluator, outputs = open_region(region, slices)
    whole = product_of(products[0], *(evaluator.buffers[value] for value in products[0].inputs))
    plain = [out for out in outputs if _is_same(out.value, whole, region)]
    if whole.result.type.size == 0:
        return b.finish()  # nor has anything computed from it an element
    if plain and len(outputs) == 1:
        _alone(b, evaluator, whole, plain[0], target)
    else:
        buffers = [out.buffer for out in outputs]
        _in_blocks(b, evaluator, whole, buffers, plain[0].buffer if plain else None, target)
    return b.finish()


def product_of(node: Node, left: Buffer, right: Buffer) -> Product:
    """A product with its operands in these buffers."""
    *batch, m, n = node.output.shape
    if node.op is contract_panels_op:
        k = node.attrs["k"]
    else:
        k = node.inputs[0].shape[-2 if node.attrs["transpose_a"] else -1]
    return Product(node, tuple(batch), m, n, k, left, right)


def _is_same(value: Value, whole: Product, region: Graph) -> bool:
    """Whether a value is the product, perhaps in another shape."""
    while value is not whole.result:
        node = region.producers.get(value)
        if node is None or not node.op.lowering.keeps_memory:
            return False
        (value,) = node.inputs
    return True


def _alone(
    b: KernelBuilder, evaluator: Evaluator, whole: Product, out: Result, target: Target
) -> None:
    room = workspace(b, target, (whole, whole.m, whole.n))
    zero = b.dim(0)
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, whole.batch, "parallel")
        number = flat_index(b, index, whole.batch)
        if out.slice is None:
            result = matrix(b, out.buffer, number, whole.m * whole.n, zero, 0, (whole.n, 1))
        else:
            row = out.buffer.type.shape[-1]
            result = MatrixOperand(out.buffer, out.place(b, (*index, zero, zero)), row, 1)
        whole.contract(b, number, (zero, zero), (whole.m, whole.n), result, room)


def workspace(b: KernelBuilder, target: Target, *products: tuple[Product, Dim, Dim]) -> Buffer:
    """A workspace for each of these products, given with its largest rows and columns."""
    largest: Dim = 0
    for whole, rows, columns in products:
        largest = dim_max(largest, _room(whole, rows, columns, target))
    return b.buffer("room", "scratch", TensorType(int8, (largest,)))


def _room(whole: Product, rows: Dim, columns: Dim, target: Target) -> Dim:
    """Bytes for a product of at most ``rows`` rows and ``columns`` columns.

    The blocking caps them, so a bound stands for sizes known only at run time. For a depth known
    only then, the bytes are those of the chord, because they are convex in the depth.
    """
    dtype, attrs = whole.result.dtype, whole.node.attrs
    if not dtype.is_float:
        return 0
    m, n = (size if isinstance(size, int) else _UNBOUNDED for size in (rows, columns))
    is_transposed = bool(attrs["transpose_a"])
    packs_left, packs_right = is_transposed, whole.node.op is not contract_panels_op
    if packs_left and isinstance(whole.m, int):
        packs_left = not reads_transpose_in_place(dtype, target, whole.m)
    if packs_right and not attrs["transpose_b"] and isinstance(whole.n, int):
        packs_right = not reads_in_place(dtype, target, whole.n)

    def at(k: int) -> int:
        return gemm_workspace_bytes(
            dtype,
            target,
            m,
            n,
            k,
            packs_left=packs_left,
            packs_right=packs_right,
            is_transposed=is_transposed,
        )

    if isinstance(whole.k, int):
        return at(whole.k)
    deepest = depth_limit(dtype, target)
    slope = ceil_div(at(deepest) - at(1), deepest - 1)
    return at(1) + dim_min(whole.k, deepest) * slope


# --- blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AxisBlocks:
    """Blocks along one axis, all of one size; the last may hold less."""

    count: Dim
    size: Dim
    extent: Dim

    def held(self, b: KernelBuilder, start: Var) -> Size:
        """How much the block from ``start`` on holds."""
        if self.count == 1:
            return self.extent
        if isinstance(self.size, int) and compare("eq", self.extent % self.size, 0):
            return self.size
        rest = b.apply("subtract", b.dim(self.extent), start)
        return b.apply("minimum", b.dim(self.size), rest)


def as_scalar(b: KernelBuilder, size: Size) -> Var:
    return size if isinstance(size, Var) else b.dim(size)


def blocks(extent: Dim, limit: int, multiple: int) -> AxisBlocks:
    """The fewest blocks of at most ``limit``, of about equal sizes where the extent is known."""
    if not isinstance(extent, int):
        return AxisBlocks((extent + (limit - 1)) // limit, limit, extent)
    count = max(1, -(-extent // limit))
    size = max(1, min(extent, -(-extent // (count * multiple)) * multiple))
    return AxisBlocks(-(-extent // size), size, extent)


def _even(found: AxisBlocks, others: Dim, limit: int, multiple: int) -> AxisBlocks:
    """Blocks whose number, times that of the other axis, is even, so that two threads do as much
    each; unchanged where that is hard to have, or where there are many blocks."""
    count, extent = found.count, found.extent
    if not isinstance(count, int) or not isinstance(extent, int) or extent < limit:
        return found
    total = count * others if isinstance(others, int) else count
    if total % 2 == 0 or total >= PRODUCTS.uneven_blocks:
        return found
    return blocks(extent, -(-extent // (count + 1)), multiple)


def _cut(whole: Product, streams: int, block_bytes: int) -> tuple[AxisBlocks, AxisBlocks, Dim]:
    """Blocks of rows and of columns, and the elements of the largest."""
    m, n = whole.m, whole.n
    elements = block_bytes // max(4, whole.result.dtype.bytes)
    usual, multiple = PRODUCTS.block_columns, PRODUCTS.column_multiple
    is_wide = streams >= PRODUCTS.wide_block_arrays
    limit = PRODUCTS.wide_block_columns if is_wide else usual
    rows = blocks(m, elements // limit, 8)
    narrow = _even(blocks(n, limit, multiple), rows.count, usual, multiple)
    if narrow.count == 1:
        rows = _even(rows, 1, elements // limit, 8)
    wide = _even(blocks(n, elements // SHARING.few_rows, multiple), 1, usual, multiple)
    if compare("le", m, SHARING.few_rows):
        rows = AxisBlocks(1, m, m)
    # dims, known when a frame is made, so that threads can be handed some of the blocks
    count, size = (
        select("lt", m, SHARING.few_rows + 1, one, other)
        for one, other in ((wide.count, narrow.count), (wide.size, narrow.size))
    )
    columns = AxisBlocks(count, size, n)
    return rows, columns, dim_min(m, rows.size) * columns.size


def _in_blocks(
    b: KernelBuilder,
    evaluator: Evaluator,
    whole: Product,
    outputs: list[Buffer],
    kept: Buffer | None,
    target: Target,
) -> None:
    """Block by block: the product, then the outputs. ``kept`` is where the product is wanted."""
    region = evaluator.region
    shape, size = whole.result.shape, whole.result.dtype.bytes
    streams = sum(value.shape == shape for value in (*region.inputs, *region.outputs))
    operands = set(whole.node.inputs)
    soon = [
        evaluator.buffers[value]
        for value in region.inputs
        if value.shape == shape and value.dtype.bytes == size and value not in operands
    ][:MAX_NEAR]
    limit = min(PRODUCTS.block_bytes, PRODUCTS.block_and_near_bytes // (1 + len(soon)))
    rows, columns, elements = _cut(whole, streams, limit)
    room = workspace(b, target, (whole, rows.extent, columns.extent))
    block = kept
    if block is None:
        block = b.buffer("block", "scratch", TensorType(whole.result.dtype, (elements,)))
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, whole.batch, "parallel")
        number = flat_index(b, index, whole.batch)
        column = open_block(b, evaluator, loops, columns)
        row = open_block(b, evaluator, loops, rows)
        held = rows.held(b, row), columns.held(b, column)
        first = flat_index(b, (number, row, column), (1, whole.m, whole.n))
        if kept is None:
            result = MatrixOperand(block, b.dim(0), columns.size, 1)
        else:
            result = MatrixOperand(block, first, whole.n, 1)
        asked = tuple(MatrixOperand(buffer, first, whole.n, 1) for buffer in soon)
        whole.contract(b, number, (row, column), held, result, room, asked)
        i = open_loop(b, evaluator, loops, held[0], "parallel")
        j = open_loop(b, evaluator, loops, held[1], "vector")
        place = (*index, b.apply("add", row, i), b.apply("add", column, j))
        flat = flat_index(b, place, whole.result.shape)
        if kept is None:
            near = b.apply("add", b.apply("multiply", i, b.dim(columns.size)), j)
        else:
            near = flat
        element = b.load(block, near)
        made = _elements(b, evaluator, whole, place, element)
        for buffer, value in zip(outputs, region.outputs, strict=True):
            if buffer is not kept:
                b.store(buffer, flat, made(value))


def open_block(b: KernelBuilder, evaluator: Evaluator, loops: ExitStack, blocks: AxisBlocks) -> Var:
    """Enters a loop over blocks; gives where its block starts."""
    index = open_loop(b, evaluator, loops, blocks.count, "parallel")
    return b.apply("multiply", index, b.dim(blocks.size))


def _elements(
    b: KernelBuilder, evaluator: Evaluator, whole: Product, place: Index, element: Var
) -> Callable[[Value], Var]:
    """Evaluates values in the row-major order of the product, at one element of it.

    Such values may have other shapes, in which rows are grouped in another way. Each shape has one
    index, so a reshape leads from index to index without a division.
    """
    shape, region = whole.result.shape, evaluator.region
    places: dict[Shape, Index] = {}

    def place_in(other: Shape) -> Index:
        if other not in places:
            index = reshape_index(b, place, shape, other)
            # as operands of the same shape are read, with 0 along axes of size 1
            places[other] = broadcast_index(b, index, other, other)
        return places[other]

    def at(value: Value) -> Var:
        return evaluator.at(value, place_in(value.shape))

    evaluator.know(whole.result, place_in(shape), element)
    derived = {whole.result}
    for node in region.nodes:
        if derived.isdisjoint(node.inputs):
            continue
        derived.update(node.outputs)
        if node.op.lowering.keeps_memory:
            evaluator.know(node.output, place_in(node.output.shape), at(node.inputs[0]))
    return at


__all__ = [
    "AxisBlocks",
    "Product",
    "as_scalar",
    "blocks",
    "lower_contraction",
    "matrix",
    "open_block",
    "product_of",
    "workspace",
]
