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
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter


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
    a, b, c, n, k, a_col, b_row = f.given("a", "b", "c", "n", "k", "a_col", "b_row")
    none, one = f.const(0), f.const(1)
    elements = n * k
    is_far = elements >= Tuning.of(module.target).far_bytes // size
    with f.when(is_far):
        f.call(far, None, a, b, c, n, k, a_col, b_row)
    f.leave_if(is_far)
    skipped = _skipped(f, sizes, b, n)
    right, result, end = f.at(b, element, skipped), f.at(c, element, skipped), n - skipped
    # what is left before the first whole line goes before the first of the sums
    (workspace,) = f.given("workspace")
    apart = f.at(workspace, element, lanes)
    is_apart = k >= PRODUCTS.separate_sums_depth
    page = PAGE // size
    are_alike = ((b_row * size) & (PAGE - 1)).equals(0)
    is_paged = are_alike & (end >= 2 * page)
    block = f.select(is_paged, page, sizes.block_row)
    before = f.select(is_paged, _before(f, right, sizes), none)
    # whole rows that are read by eight lie where reading goes on anyway
    is_part = is_paged | (n < b_row)
    is_asking = is_part & (elements >= PRODUCTS.next_rows_from_bytes // size)
    with f.wide_blocks(end + before, block) as (start, columns):
        past = start + columns - before
        is_first = start.equals(0)
        column = f.select(is_first, none, start - before)
        first = f.select(is_first, none - skipped, none)
        count = past - column
        sums = f.select(is_apart, apart, f.at(result, element, column))
        first_sum, width = f.at(sums, element, first), count - first
        f.call(zero, None, first_sum, one, width, none)
        place = f.at(right, element, column)
        is_last = past >= end
        following = f.select(is_last, place, f.at(right, element, past))
        wanted = f.select(is_asking, following, 0)
        matrices = (a, none, a_col, place, b_row, sums, none, f.const(stream.width))
        f.call(near, None, *matrices, first, count, k, one, wanted)
        with f.when(is_apart):
            target = f.at(result, element, column, first)
            f.call(copy, None, first_sum, target, one, width, none, none)
    f.finish()
    return name


def lead_of(f: Builder, sizes: Blocking, b: Reg, n: Reg) -> Reg:
    """Columns by which tiles begin before B does: with the cache line in which each row begins.

    That needs rows which lie in lines alike. Reading across lines takes twice as long.
    """
    if not sizes.masked:
        return f.const(0)
    (b_row,) = f.given("b_row")
    line = sizes.bits // 8
    askew = f.convert("ptrtoint", b, "i64") & (line - 1)
    is_alike = ((b_row * sizes.size) & (line - 1)).equals(0)
    is_wide = n >= PRODUCTS.aligned_tiles * sizes.tile_columns
    return f.select(is_alike & is_wide, askew.udiv(sizes.size), 0)


def _skipped(f: Builder, sizes: Blocking, b: Reg, n: Reg) -> Reg:
    """Columns before the first whole line: tiles begin there, so that few columns are left before
    and behind them."""
    lead = lead_of(f, sizes, b, n)
    is_whole = lead.equals(0)
    return f.select(is_whole, lead, sizes.lanes - lead)


def _before(f: Builder, right: Reg, sizes: Blocking) -> Reg:
    """How many columns a page begins before an address, or what is left of it as a negative number
    if that is less, and goes with the next page."""
    page = PAGE // sizes.size
    inside = (f.convert("ptrtoint", right, "i64") & (PAGE - 1)).udiv(sizes.size)
    return f.select(inside <= page // 2, inside, inside - page)


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
    a, b, c, n, k, a_col, b_row = f.given("a", "b", "c", "n", "k", "a_col", "b_row")
    none, one = f.const(0), f.const(1)
    f.call(zero, None, c, one, n, none)
    skipped = _skipped(f, sizes, b, n)
    right, sums = (f.at(start, element, skipped) for start in (b, c))
    end = n - skipped
    with f.wide_blocks(end, f.const(PRODUCTS.far_sums_bytes // sizes.size)) as (column, columns):
        first = f.select(column.equals(0), none - skipped, none)
        block, result = f.at(right, element, column), f.at(sums, element, column)
        is_last = column + columns >= end
        following = f.select(is_last, block, f.at(block, element, columns))
        matrices = (a, none, a_col, block, b_row, result, none, f.const(stream.width))
        f.call(kernel, None, *matrices, first, columns, k, one, following)
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
    in_page, in_line = ((address & (whole - 1)).udiv(size) for whole in (PAGE, CACHE_LINE))
    is_near = in_page < SHARING.column_block
    return e.select(is_near, in_page, in_line)
