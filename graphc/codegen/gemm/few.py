"""Products of few rows with a plain right operand: B is read once, where it lies.

These are bound by reading. In which order B is read, and where sums lie meanwhile, is settled here;
what is asked for in advance in the kernels (``stream``).
"""

from __future__ import annotations

from dataclasses import replace

from graphc.codegen.caches import FAR_BYTES
from graphc.codegen.emitter import ModuleEmitter, Reg
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.build import Builder, otherwise
from graphc.codegen.gemm.move import emit_copy, emit_zero
from graphc.codegen.gemm.stream import Stream, emit_stream
from graphc.kernel.panels import TILE_VECTORS

# rows of C in the smaller of two kernels, and rows of B that it reads side by side; the larger one
# reads twice as many where vectors have 512 bits, which was faster
_FEW_ROWS = 4
_DEPTH = 8
# Vectors of a tile of one row: so much of each of the rows of B is read before the next one's turn.
# With 2, 4 rows at a time and blocks of 4 KB of each, 16 MB in the third-level cache took an eighth
# longer, and what is in the second a twelfth less where rows are 4 KB apart.
_ROW_VECTORS = 4
# The part of k that one call of them gets: more if no other group of rows reads the same again.
_GROUP_DEPTH = 128
_GROUPS_DEPTH = 32
# from such a k on, sums are kept apart from the result, to which they have to be copied
_APART_DEPTH = 64
# of rows of so many tiles it pays to begin where a cache line does
_ASKEW_TILES = 8


def emit_few_rows(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (a, b, c, m, n, k, a_row, a_col, b_row, c_row, workspace): B is read once, unpacked.

    Sums of several rows lie in workspace meanwhile, tile by tile: rows of C, like those of B, often
    lie powers of two apart, and of such places a cache has room for few at a time.
    """
    name = f"gemm_few_rows_{sizes.suffix}"
    element, size, width = sizes.element, sizes.size, sizes.tile_columns
    zero = emit_zero(module, element, sizes.lanes, size)
    copy = emit_copy(module, sizes)
    few, many = (
        emit_stream(module, _stream(sizes, rows)) for rows in (_FEW_ROWS, sizes.tile_rows)
    )
    row_kernel = _emit_streamed_row(module, sizes)
    f = Builder(module, name, "*a *b *c m n k a_row a_col b_row c_row *workspace", cold=True)
    a, b, c, m, n, k = f.parameter("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, c_row = f.parameter("a_row", "a_col", "b_row", "c_row")
    (workspace,) = f.parameter("workspace")
    is_single = f.compare("eq", m, 1)
    with f.when(is_single):
        f.run(row_kernel, a, b, c, n, k, a_col, b_row)
    f.leave_if(is_single)
    is_apart = f.compare("sge", k, _APART_DEPTH)
    is_group = f.compare("sle", m, sizes.tile_rows)
    block = f.select(is_group, f.i64(sizes.block_stream), f.i64(sizes.block_stream // 2))
    block_k = f.select(is_group, f.i64(_GROUP_DEPTH), f.i64(_GROUPS_DEPTH))
    sum_row = f.select(is_apart, f.i64(width), c_row)
    sum_step = f.select(is_apart, f.i64(width * sizes.tile_rows), f.i64(width))
    none = f.i64(0)
    lead = f.select(is_apart, _lead(f, sizes, b, n), none)
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
                is_few = f.compare("sle", rows, _FEW_ROWS)
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


def _lead(f: Builder, sizes: Blocking, b: Reg, n: Reg) -> Reg:
    """Columns by which tiles begin before B does: with the cache line in which each row begins.

    That needs rows which lie in lines alike. Reading across lines takes twice as long.
    """
    if not sizes.masked:
        return f.i64(0)
    (b_row,) = f.parameter("b_row")
    line = sizes.bits // 8 - 1
    askew = f.binary("and", f.convert("ptrtoint", b, "i64"), line)
    is_alike = f.compare("eq", f.binary("and", f.mul(b_row, sizes.size), line), 0)
    is_wide = f.compare("sge", n, _ASKEW_TILES * sizes.tile_columns)
    return f.select(f.both(is_alike, is_wide), f.quotient(askew, sizes.size), f.i64(0))


def _stream(sizes: Blocking, rows: int) -> Stream:
    return Stream(
        sizes.element,
        sizes.lanes,
        rows,
        TILE_VECTORS,
        _DEPTH if rows <= _FEW_ROWS or sizes.bits < 512 else 2 * _DEPTH,
        asks=True,
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


def _emit_streamed_row(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (a, b, c, n, k, a_col, b_row): one row of C, B with unit column stride."""
    name = f"gemm_streamed_row_{sizes.suffix}"
    element, size = sizes.element, sizes.size
    zero = emit_zero(module, element, sizes.lanes, size)
    stream = Stream(element, sizes.lanes, 1, _ROW_VECTORS, _DEPTH, masked=sizes.masked)
    near, far = emit_stream(module, stream), emit_stream(module, replace(stream, asks=True))
    f = Builder(module, name, "*a *b *c n k a_col b_row", cold=True)
    a, b, c, n, k, a_col, b_row = f.parameter("a", "b", "c", "n", "k", "a_col", "b_row")
    none, one = f.i64(0), f.i64(1)
    f.run(zero, c, one, n, none)
    # tiles begin with the first whole line, so that few columns are left before and behind them
    lead = _lead(f, sizes, b, n)
    skipped = f.select(f.compare("eq", lead, 0), none, f.sub(f.i64(sizes.lanes), lead))
    right, sums = (f.at(start, element, skipped) for start in (b, c))
    end = f.sub(n, skipped)
    is_far = f.compare("sge", f.mul(n, k), FAR_BYTES // size)
    with f.wide_blocks(end, f.i64(sizes.block_row)) as (column, columns):
        first = f.select(f.compare("eq", column, 0), f.sub(none, skipped), none)
        block, result = f.at(right, element, column), f.at(sums, element, column)
        matrices = (a, none, a_col, block, b_row, result, none, f.i64(stream.width))
        operands = (*matrices, first, columns, k, one)
        with otherwise(f, f.negate(is_far), near, operands):
            is_last = f.compare("sge", f.add(column, columns), end)
            following = f.select(is_last, block, f.at(block, element, columns))
            f.run(far, *operands, following)
    f.finish()
    return name
