"""Small M: products of few rows with a plain right operand, which are bound by reading B.

B is read once, where it lies. This module chooses the order in which B is traversed and where
partial sums live; ``streaming_kernel`` prefetches.
"""

from __future__ import annotations

from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder, otherwise
from graphc.codegen.gemm.gemv import emit_streamed_row, lead_of
from graphc.codegen.gemm.packing import emit_copy, emit_zero
from graphc.codegen.gemm.streaming_kernel import Stream, emit_stream
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.kernel.panels import TILE_VECTORS


def emit_few_rows(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (a, b, c, m, n, k, a_row, a_col, b_row, c_row, workspace): B is read once, unpacked.

    Sums of several rows lie in workspace meanwhile, tile by tile: rows of C, like those of B, often
    lie powers of two apart, and of such places a cache has room for few at a time.
    """
    name = f"gemm_few_rows_{sizes.suffix}"
    element, size, width = sizes.element, sizes.size, sizes.tile_columns
    zero = emit_zero(module, element, sizes.lanes, size)
    copy = emit_copy(module, sizes)
    heights = PRODUCTS.half_tile_rows, sizes.tile_rows
    few, many = (emit_stream(module, _stream(sizes, rows)) for rows in heights)
    row_kernel = emit_streamed_row(module, sizes)
    f = Builder(module, name, "*a *b *c m n k a_row a_col b_row c_row *workspace", cold=True)
    a, b, c, m, n, k = f.given("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, c_row = f.given("a_row", "a_col", "b_row", "c_row")
    (workspace,) = f.given("workspace")
    is_single = m.equals(1)
    with f.when(is_single):
        f.call(row_kernel, None, a, b, c, n, k, a_col, b_row, workspace)
    f.leave_if(is_single)
    is_apart = k >= PRODUCTS.separate_sums_depth
    is_group = m <= sizes.tile_rows
    block = f.select(is_group, sizes.block_stream, sizes.block_stream // 2)
    block_k = f.select(is_group, PRODUCTS.group_depth, PRODUCTS.groups_depth)
    sum_row = f.select(is_apart, width, c_row)
    sum_step = f.select(is_apart, width * sizes.tile_rows, width)
    none = f.const(0)
    lead = f.select(is_apart, lead_of(f, sizes, b, n), none)
    end = lead + n
    first_b, first_c = (f.at(start, element, none - lead) for start in (b, c))
    with f.wide_blocks(end, block) as (column, columns):
        skipped = f.select(column.equals(0), lead, none)
        padded = columns.up_to(width)
        result = f.at(first_c, element, column)
        sums = f.select(is_apart, workspace, result)
        group_step = f.select(is_apart, padded, c_row)
        groups = (m + (sizes.tile_rows - 1)).udiv(sizes.tile_rows)
        room = padded * (groups * sizes.tile_rows)
        with f.when(is_apart):
            f.call(zero, None, workspace, 1, room, none)
        with f.when(~is_apart):
            f.call(zero, None, result, m, columns, c_row)
        with f.blocks(k, block_k) as (start, depth):
            right = f.at(first_b, element, start * b_row, column)
            down, across = (start, depth, k), (column, columns, end)
            following = _following(f, element, right, first_b, down, across)
            with f.blocks(m, sizes.tile_rows) as (row, rows):
                left = f.at(a, element, row * a_row, start * a_col)
                group = f.at(sums, element, row * group_step)
                operands = (left, a_row, a_col, right, b_row, group, sum_row, sum_step)
                sizes_of_it = (skipped, columns, depth, rows, following)
                is_few = rows <= PRODUCTS.half_tile_rows
                with otherwise(f, is_few, few, (*operands, *sizes_of_it)):
                    f.call(many, None, *operands, *sizes_of_it)
        with (
            f.when(is_apart),
            f.blocks(m, sizes.tile_rows) as (row, rows),
            f.blocks(columns, width) as (place, length),
        ):
            before = f.select(place.equals(0), skipped, none)
            group = f.at(sums, element, row * padded)
            source = f.at(group, element, place * sizes.tile_rows, before)
            target = f.at(result, element, row * c_row, place, before)
            f.call(copy, None, source, target, rows, length - before, sum_row, c_row)
    f.finish()
    return name


def _stream(sizes: Blocking, rows: int) -> Stream:
    is_deep = rows > PRODUCTS.half_tile_rows and sizes.bits == 512
    return Stream(
        sizes.element,
        sizes.lanes,
        rows,
        TILE_VECTORS,
        depth=PRODUCTS.half_tile_streams * (2 if is_deep else 1),
        asks="all",
        masked=sizes.masked,
    )


def _following(
    f: Builder, element: str, right: Reg, b: Reg, down: tuple[Reg, ...], across: tuple[Reg, ...]
) -> Reg:
    """What is read of B behind a block: each axis as where it starts, what it has, and the extent.

    Behind the last one the block itself, which is near and costs nothing to ask for.
    """
    start, depth, k = down
    column, columns, n = across
    b_row = f.given("b_row")[0]
    below = f.at(right, element, depth * b_row)
    beside = f.at(b, element, column + columns)
    is_last_column = column + columns >= n
    is_last = start + depth >= k
    return f.select(is_last, f.select(is_last_column, right, beside), below)
