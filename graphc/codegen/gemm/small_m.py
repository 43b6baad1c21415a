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
from graphc.codegen.llvm.emitter import ModuleEmitter, Reg
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
    a, b, c, m, n, k = f.parameter("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, c_row = f.parameter("a_row", "a_col", "b_row", "c_row")
    (workspace,) = f.parameter("workspace")
    is_single = f.compare("eq", m, 1)
    with f.when(is_single):
        f.run(row_kernel, a, b, c, n, k, a_col, b_row, workspace)
    f.leave_if(is_single)
    is_apart = f.compare("sge", k, PRODUCTS.separate_sums_depth)
    is_group = f.compare("sle", m, sizes.tile_rows)
    block = f.select(is_group, f.i64(sizes.block_stream), f.i64(sizes.block_stream // 2))
    block_k = f.select(is_group, f.i64(PRODUCTS.group_depth), f.i64(PRODUCTS.groups_depth))
    sum_row = f.select(is_apart, f.i64(width), c_row)
    sum_step = f.select(is_apart, f.i64(width * sizes.tile_rows), f.i64(width))
    none = f.i64(0)
    lead = f.select(is_apart, lead_of(f, sizes, b, n), none)
    end = f.add(lead, n)
    first_b, first_c = (f.at(start, element, f.sub(none, lead)) for start in (b, c))
    with f.wide_blocks(end, block) as (column, columns):
        skipped = f.select(f.compare("eq", column, 0), lead, none)
        padded = f.rounded_up(columns, width)
        result = f.at(first_c, element, column)
        sums = f.select(is_apart, workspace, result)
        group_step = f.select(is_apart, padded, c_row)
        groups = f.quotient(f.add(m, sizes.tile_rows - 1), sizes.tile_rows)
        room = f.mul(padded, f.mul(groups, sizes.tile_rows))
        with f.when(is_apart):
            f.run(zero, workspace, f.i64(1), room, none)
        with f.when(f.negate(is_apart)):
            f.run(zero, result, m, columns, c_row)
        with f.blocks(k, block_k) as (start, depth):
            right = f.at(first_b, element, f.mul(start, b_row), column)
            down, across = (start, depth, k), (column, columns, end)
            following = _following(f, element, right, first_b, down, across)
            with f.blocks(m, sizes.tile_rows) as (row, rows):
                left = f.at(a, element, f.mul(row, a_row), f.mul(start, a_col))
                group = f.at(sums, element, f.mul(row, group_step))
                operands = (left, a_row, a_col, right, b_row, group, sum_row, sum_step)
                sizes_of_it = (skipped, columns, depth, rows, following)
                is_few = f.compare("sle", rows, PRODUCTS.half_tile_rows)
                with otherwise(f, is_few, few, (*operands, *sizes_of_it)):
                    f.run(many, *operands, *sizes_of_it)
        with (
            f.when(is_apart),
            f.blocks(m, sizes.tile_rows) as (row, rows),
            f.blocks(columns, width) as (place, length),
        ):
            before = f.select(f.compare("eq", place, 0), skipped, none)
            group = f.at(sums, element, f.mul(row, padded))
            source = f.at(group, element, f.mul(place, sizes.tile_rows), before)
            target = f.at(result, element, f.mul(row, c_row), place, before)
            f.run(copy, source, target, rows, f.sub(length, before), sum_row, c_row)
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
    b_row = f.parameter("b_row")[0]
    below = f.at(right, element, f.mul(depth, b_row))
    beside = f.at(b, element, f.add(column, columns))
    is_last_column = f.compare("sge", f.add(column, columns), n)
    is_last = f.compare("sge", f.add(start, depth), k)
    return f.select(is_last, f.select(is_last_column, right, beside), below)
