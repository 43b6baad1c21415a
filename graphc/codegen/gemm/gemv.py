"""Products of one row with a plain right operand B, which is read where it lies.

From a cache, time is lost at jumps: at each new page, and wherever reading goes on elsewhere, the
hardware prefetcher needs some lines to find the stream. So rows that lie whole pages apart are read
page by page, and the first lines of the rows that follow are prefetched meanwhile. Sums lie in a
compact array that starts on a cache line and is small enough for the nearest cache.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE, PAGE
from graphc.base.tuning.machine import Tuning
from graphc.base.tuning.products import PRODUCTS
from graphc.base.tuning.sharing import SHARING
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.gemm.packing import emit_copy, emit_zero
from graphc.codegen.gemm.streaming_kernel import Stream, emit_stream
from graphc.codegen.llvm.emitter import I64, PTR, FunctionEmitter, ModuleEmitter, Reg


def emit_streamed_row(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (a, b, c, n, k, a_col, b_row, workspace): one row of C, B with unit column stride."""
    name = f"gemm_streamed_row_{sizes.suffix}"
    element, size, lanes = sizes.element, sizes.size, sizes.lanes
    zero = emit_zero(module, element, lanes, size)
    copy = emit_copy(module, sizes)
    stream = Stream(
        element,
        lanes,
        1,
        PRODUCTS.row_vectors,
        side=2,
        depth=PRODUCTS.row_streams,
        single_depth=PRODUCTS.single_streams,
        asks="starts",
        masked=sizes.masked,
    )
    near, far = emit_stream(module, stream), _emit_far_row(module, sizes)
    f = Builder(module, name, "*a *b *c n k a_col b_row *workspace", cold=True)
    a, b, c, n, k, a_col, b_row = f.parameter("a", "b", "c", "n", "k", "a_col", "b_row")
    none, one = f.i64(0), f.i64(1)
    elements = f.mul(n, k)
    is_far = f.compare("sge", elements, Tuning.of(module.target).far_bytes // size)
    with f.when(is_far):
        f.run(far, a, b, c, n, k, a_col, b_row)
    f.leave_if(is_far)
    skipped = _skipped(f, sizes, b, n)
    right, result, end = f.at(b, element, skipped), f.at(c, element, skipped), f.sub(n, skipped)
    # what is left before the first whole line goes before the first of the sums
    (workspace,) = f.parameter("workspace")
    apart = f.at(workspace, element, f.i64(lanes))
    is_apart = f.compare("sge", k, PRODUCTS.separate_sums_depth)
    page = PAGE // size
    are_alike = f.compare("eq", f.remainder(f.mul(b_row, size), PAGE), 0)
    is_paged = f.both(are_alike, f.compare("sge", end, 2 * page))
    block = f.select(is_paged, f.i64(page), f.i64(sizes.block_row))
    before = f.select(is_paged, _before(f, right, sizes), none)
    # whole rows that are read by eight lie where reading goes on anyway
    is_part = f.either(is_paged, f.compare("slt", n, b_row))
    is_asking = f.both(is_part, f.compare("sge", elements, PRODUCTS.next_rows_from_bytes // size))
    with f.wide_blocks(f.add(end, before), block) as (start, columns):
        past = f.sub(f.add(start, columns), before)
        is_first = f.compare("eq", start, 0)
        column = f.select(is_first, none, f.sub(start, before))
        first = f.select(is_first, f.sub(none, skipped), none)
        count = f.sub(past, column)
        sums = f.select(is_apart, apart, f.at(result, element, column))
        first_sum, width = f.at(sums, element, first), f.sub(count, first)
        f.run(zero, first_sum, one, width, none)
        place = f.at(right, element, column)
        is_last = f.compare("sge", past, end)
        following = f.select(is_last, place, f.at(right, element, past))
        wanted = f.select(is_asking, following, Reg("null", PTR))
        matrices = (a, none, a_col, place, b_row, sums, none, f.i64(stream.width))
        f.run(near, *matrices, first, count, k, one, wanted)
        with f.when(is_apart):
            target = f.at(result, element, column, first)
            f.run(copy, first_sum, target, one, width, none, none)
    f.finish()
    return name


def lead_of(f: Builder, sizes: Blocking, b: Reg, n: Reg) -> Reg:
    """Columns by which tiles begin before B does: with the cache line in which each row begins.

    That needs rows which lie in lines alike. Reading across lines takes twice as long.
    """
    if not sizes.masked:
        return f.i64(0)
    (b_row,) = f.parameter("b_row")
    line = sizes.bits // 8
    askew = f.remainder(f.convert("ptrtoint", b, "i64"), line)
    is_alike = f.compare("eq", f.remainder(f.mul(b_row, sizes.size), line), 0)
    is_wide = f.compare("sge", n, PRODUCTS.aligned_tiles * sizes.tile_columns)
    return f.select(f.both(is_alike, is_wide), f.quotient(askew, sizes.size), f.i64(0))


def _skipped(f: Builder, sizes: Blocking, b: Reg, n: Reg) -> Reg:
    """Columns before the first whole line: tiles begin there, so that few columns are left before
    and behind them."""
    lead = lead_of(f, sizes, b, n)
    is_whole = f.compare("eq", lead, 0)
    return f.select(is_whole, lead, f.sub(f.i64(sizes.lanes), lead))


def _before(f: Builder, right: Reg, sizes: Blocking) -> Reg:
    """How many columns a page begins before an address, or what is left of it as a negative number
    if that is less, and goes with the next page."""
    page = PAGE // sizes.size
    inside = f.quotient(f.remainder(f.convert("ptrtoint", right, "i64"), PAGE), sizes.size)
    return f.select(f.compare("sle", inside, page // 2), inside, f.sub(inside, page))


def _emit_far_row(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (a, b, c, n, k, a_col, b_row): the same for what comes from memory."""
    name = f"gemm_far_row_{sizes.suffix}"
    element = sizes.element
    zero = emit_zero(module, element, sizes.lanes, sizes.size)
    stream = Stream(
        element,
        sizes.lanes,
        1,
        PRODUCTS.row_vectors,
        depth=PRODUCTS.row_streams,
        asks="all",
        masked=sizes.masked,
    )
    kernel = emit_stream(module, stream)
    f = Builder(module, name, "*a *b *c n k a_col b_row", cold=True)
    a, b, c, n, k, a_col, b_row = f.parameter("a", "b", "c", "n", "k", "a_col", "b_row")
    none, one = f.i64(0), f.i64(1)
    f.run(zero, c, one, n, none)
    skipped = _skipped(f, sizes, b, n)
    right, sums = (f.at(start, element, skipped) for start in (b, c))
    end = f.sub(n, skipped)
    with f.wide_blocks(end, f.i64(PRODUCTS.far_sums_bytes // sizes.size)) as (column, columns):
        first = f.select(f.compare("eq", column, 0), f.sub(none, skipped), none)
        block, result = f.at(right, element, column), f.at(sums, element, column)
        is_last = f.compare("sge", f.add(column, columns), end)
        following = f.select(is_last, block, f.at(block, element, columns))
        matrices = (a, none, a_col, block, b_row, result, none, f.i64(stream.width))
        f.run(kernel, *matrices, first, columns, k, one, following)
    f.finish()
    return name


def columns_before(e: FunctionEmitter, right: Reg, size: int) -> Reg:
    """By how many columns a part of B begins before a multiple of ``SHARING.column_block``, so that
    it does where a page begins that is near, or else a line. Of elements of so many bytes; less
    than ``SHARING.column_block``.

    What begins a little behind that makes two parts read the same lines, and one of them a line of
    a page that is then brought near for nothing.
    """
    address = e.convert("ptrtoint", right, "i64")
    in_page, in_line = (
        e.binary("udiv", e.binary("and", address, e.const(whole - 1, I64)), e.const(size, I64))
        for whole in (PAGE, CACHE_LINE)
    )
    is_near = e.icmp("slt", in_page, e.const(SHARING.column_block, I64))
    return e.select(is_near, in_page, in_line)
