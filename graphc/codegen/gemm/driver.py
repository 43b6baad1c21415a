"""The run-time choice among paths of a float product, and the loops around the micro-kernels."""

from __future__ import annotations

from graphc.base.target import Target
from graphc.base.tuning.products import PRODUCTS
from graphc.base.tuning.sharing import SHARING
from graphc.codegen.gemm.blocking import Blocking, blocking
from graphc.codegen.gemm.builder import Builder, otherwise
from graphc.codegen.gemm.micro_kernel import emit_row, emit_strip, emit_tile
from graphc.codegen.gemm.packing import emit_copy, emit_pack_block, emit_zero
from graphc.codegen.gemm.prefetch_plan import Near, Requests
from graphc.codegen.gemm.small_m import emit_few_rows
from graphc.codegen.gemm.small_m_transposed import emit_dots
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.ir.dtypes import DType


def emit_float_gemm(module: ModuleEmitter, dtype: DType, target: Target) -> str:
    """Defines the product of plain operands; see ``emit_gemm``."""
    sizes = blocking(dtype, target)
    name = f"gemm_{sizes.suffix}"
    if module.has(name):
        return name
    zero = emit_zero(module, sizes.element, sizes.lanes, sizes.size)
    dots = emit_dots(module, sizes)
    few, blocked = emit_few_rows(module, sizes), _emit_blocked(module, sizes)
    f = Builder(
        module,
        name,
        "*a *b *c m n k a_row a_col b_row b_col c_row *workspace *near near_count",
        internal=False,
        cold=True,
    )
    a, b, c, m, n, k = f.given("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, b_col = f.given("a_row", "a_col", "b_row", "b_col")
    c_row, workspace = f.given("c_row", "workspace")
    near, near_count = f.given("near", "near_count")
    f.leave_if((m < 1) | (n < 1))
    _zero_if_empty(f, zero, c, m, n, k, c_row)

    # A product with one column is the product of one row with the transpose: factors commute to
    # the bit, and the row's paths read the large operand once.
    swap = n.equals(1) & (m > 1) & c_row.equals(1)
    left, right = f.select(swap, b, a), f.select(swap, a, b)
    rows, columns = f.select(swap, n, m), f.select(swap, m, n)
    left_row, left_col = f.select(swap, b_col, a_row), f.select(swap, b_row, a_col)
    right_row, right_col = f.select(swap, a_col, b_row), f.select(swap, a_row, b_col)

    limit = f.select(columns >= sizes.stream_columns, SHARING.few_rows, PRODUCTS.any_rows)
    stream = (rows <= limit) & right_col.equals(1) & (columns >= sizes.lanes)
    strides = (left_row, left_col, right_row)
    with f.when(stream):
        f.call(few, None, left, right, c, rows, columns, k, *strides, c_row, workspace)
    f.leave_if(stream)
    across = (rows <= PRODUCTS.transposed_rows) & right_row.equals(1) & (columns >= sizes.lanes)
    with f.when(across):
        f.call(dots, None, left, left_row, left_col, right, right_col, c, c_row, rows, columns, k)
    f.leave_if(across)
    none = f.const(0)
    operands = (left, right, c, rows, columns, k, *strides, right_col, c_row, workspace)
    f.call(blocked, None, *operands, none, none, near, f.select(swap, none, near_count))
    f.finish()
    return name


def emit_float_gemm_packed(module: ModuleEmitter, dtype: DType, target: Target) -> str:
    """Defines the product with a packed right operand; see ``emit_gemm_packed``."""
    sizes = blocking(dtype, target)
    name = f"gemm_packed_{sizes.suffix}"
    if module.has(name):
        return name
    zero = emit_zero(module, sizes.element, sizes.lanes, sizes.size)
    blocked = _emit_blocked(module, sizes)
    kernels = {rows: _emit_packed_rows(module, sizes, rows) for rows in PRODUCTS.panels_of_rows}
    f = Builder(
        module,
        name,
        "*a *packed *c m n k a_row a_col depth padded c_row *workspace *near near_count",
        internal=False,
        cold=True,
    )
    a, packed, c, m, n, k = f.given("a", "packed", "c", "m", "n", "k")
    a_row, a_col, depth, padded = f.given("a_row", "a_col", "depth", "padded")
    c_row, workspace = f.given("c_row", "workspace")
    near = f.given("near", "near_count")
    f.leave_if((m < 1) | (n < 1))
    _zero_if_empty(f, zero, c, m, n, k, c_row)
    for rows, kernel in kernels.items():
        is_it = m.equals(rows)
        with f.when(is_it):
            f.call(kernel, None, a, packed, c, n, k, a_row, a_col, depth, padded, c_row)
        f.leave_if(is_it)
    width, one = f.const(sizes.tile_columns), f.const(1)
    strides = (a_row, a_col, width, one, c_row)
    f.call(blocked, None, a, packed, c, m, n, k, *strides, workspace, depth, padded, *near)
    f.finish()
    return name


def _emit_packed_rows(module: ModuleEmitter, sizes: Blocking, rows: int) -> str:
    """Defines (a, packed, c, n, k, a_row, a_col, depth, padded, c_row): so many rows by several
    panels at a time.

    One panel's few chains would wait for each other.
    """
    name = f"gemm_packed_row{rows}_{sizes.suffix}"
    panels = PRODUCTS.panels_of_rows[rows]
    several = emit_row(module, sizes, rows, panels)
    sweep = _emit_sweep(module, sizes)
    f = Builder(module, name, "*a *packed *c n k a_row a_col depth padded c_row", cold=True)
    a, packed, c, n, k = f.given("a", "packed", "c", "n", "k")
    a_row, a_col, depth, padded = f.given("a_row", "a_col", "depth", "padded")
    (c_row,) = f.given("c_row")
    element, width = sizes.element, sizes.tile_columns
    step = depth * width
    whole = n.down_to(width * panels)
    rest = n - whole
    edge = rest.down_to(width)
    with f.blocks(k, depth) as (start, steps):
        left = f.at(a, element, start * a_col)
        block = f.at(packed, element, start * padded)
        resume = f.convert("zext", start.differs(0), "i64")
        with f.blocks(whole, width * panels) as (column, _):
            panel = f.at(block, element, column * depth)
            result = f.at(c, element, column)
            f.call(several, None, steps, left, a_row, a_col, panel, step, result, c_row, resume)
        with f.when(rest > 0):
            panel = f.at(block, element, whole * depth)
            f.call(
                sweep,
                None,
                left,
                a_row,
                a_col,
                panel,
                width,
                step,
                f.at(panel, element, edge * depth),
                f.at(c, element, whole),
                c_row,
                rows,
                rest,
                steps,
                resume,
                *(f.const(0) for _ in range(4)),
            )
    f.finish()
    return name


def _even_depth(f: Builder, k: Reg, sizes: Blocking) -> Reg:
    """The part of k handled at once: equal parts."""
    parts = (k + (sizes.block_k - 1)).udiv(sizes.block_k)
    return (k + (parts - 1)).udiv(parts)


def _zero_if_empty(f: Builder, zero: str, c: Reg, m: Reg, n: Reg, k: Reg, c_row: Reg) -> None:
    empty = k < 1
    with f.when(empty):
        f.call(zero, None, c, m, n, c_row)
    f.leave_if(empty)


def _emit_blocked(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines the tiled product.

    Signature: (a, b, c, m, n, k, a_row, a_col, b_row, b_col, c_row, workspace, packed, padded,
    near, near_count); all sizes at least 1. ``packed`` not 0 says that b is packed panels of this
    depth, whose b_row is the panel's width, and of which ``padded`` columns lie side by side.
    """
    name = f"gemm_blocked_{sizes.suffix}"
    if module.has(name):
        return name
    pack, sweep = emit_pack_block(module, sizes), _emit_sweep(module, sizes)
    copy = emit_copy(module, sizes)
    f = Builder(
        module,
        name,
        "*a *b *c m n k a_row a_col b_row b_col c_row *workspace packed padded *near near_count",
        cold=True,
    )
    a, b, c, m, n, k = f.given("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, b_col = f.given("a_row", "a_col", "b_row", "b_col")
    c_row, workspace = f.given("c_row", "workspace")
    packed, padded = f.given("packed", "padded")
    near, near_count = f.given("near", "near_count")
    element, width = sizes.element, sizes.tile_columns
    is_packed = packed.differs(0)
    is_plain = ~is_packed
    direct = (
        is_plain & b_col.equals(1) & ((m <= sizes.direct_rows) | (b_row <= sizes.direct_stride))
    )
    pack_whole = is_plain & ~direct
    depth_limit = f.select(is_packed, packed, _even_depth(f, k, sizes))
    a_block = f.at(workspace, element, depth_limit * f.least(n, sizes.block_n).up_to(width))
    pack_a = (
        a_row.equals(1)
        & a_col.differs(1)
        & (k >= sizes.pack_a_depth)
        & ((n >= sizes.pack_a_columns) & (a_col >= sizes.pack_a_stride))
    )

    with (
        f.blocks(n, sizes.block_n) as (column, columns),
        f.blocks(k, depth_limit) as (start, depth),
    ):
        edge = columns & (width - 1)
        whole = columns - edge
        plain = f.at(b, element, start * b_row, column * b_col)
        held = f.select(is_packed, depth_limit, depth)
        panels = f.at(b, element, start * padded, column * held)
        with f.when(pack_whole):
            f.call(pack, None, plain, workspace, columns, depth, b_row, b_col)
        beyond = f.at(plain, element, whole)
        if not sizes.takes_parts:
            with f.when(direct & edge.differs(0)):
                f.call(pack, None, beyond, workspace, edge, depth, b_row, b_col)
        right = f.select(is_packed, panels, f.select(direct, plain, workspace))
        right_row = f.select(direct, b_row, width)
        right_step = f.select(direct, width, held * width)
        right_edge = f.at(right, element, whole * held)
        right_edge = f.select(direct, beyond if sizes.takes_parts else workspace, right_edge)
        resume = f.convert("zext", start.differs(0), "i64")
        is_last = start + depth >= k
        needed = f.select(is_last, near_count, 0)
        with f.blocks(m, sizes.block_m) as (row, rows):
            source = f.at(a, element, row * a_row, start * a_col)
            packed_col = rows + sizes.lanes
            with f.when(pack_a):
                f.call(copy, None, source, a_block, depth, rows, a_col, packed_col)
            f.call(
                sweep,
                None,
                f.select(pack_a, a_block, source),
                a_row,
                f.select(pack_a, packed_col, a_col),
                right,
                right_row,
                right_step,
                right_edge,
                f.at(c, element, row * c_row, column),
                c_row,
                rows,
                columns,
                depth,
                resume,
                near,
                needed,
                row,
                column,
            )
    f.finish()
    return name


def _emit_sweep(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines the walk over the tiles of one block of C.

    Signature: (a, a_row, a_col, b, b_row, b_step, b_edge, c, c_row, m, n, k, resume, near,
    near_count, near_row, near_column): panels of B lie ``b_step`` apart, the last one, if not
    whole, at ``b_edge``; with a row of a panel's width if no parts of vectors are taken. What is
    near begins at the last two.
    """
    name = f"gemm_sweep_{sizes.suffix}"
    if module.has(name):
        return name
    copy = emit_copy(module, sizes)
    full = emit_tile(module, sizes, sizes.tile_rows, 2)
    strip = emit_strip(module, sizes)
    half = emit_tile(module, sizes, sizes.tile_rows // 2, 2)
    shapes = ((sizes.tile_rows, 1), (sizes.tile_rows // 2, 2), (sizes.tile_rows, 2))
    narrow, low, wide = (emit_tile(module, sizes, *s, edge=sizes.takes_parts) for s in shapes)
    f = Builder(
        module,
        name,
        "*a a_row a_col *b b_row b_step *b_edge *c c_row m n k resume "
        "*near near_count near_row near_column",
    )
    a, a_row, a_col, b, b_row = f.given("a", "a_row", "a_col", "b", "b_row")
    b_step, b_edge, c, c_row = f.given("b_step", "b_edge", "c", "c_row")
    m, n, k, resume = f.given("m", "n", "k", "resume")
    element, width = sizes.element, sizes.tile_columns
    # Tiles that stick out of C on the right are computed here, where panels are padded for them.
    spare = None if sizes.takes_parts else f.alloca(sizes.vector, sizes.tile_rows * 2)
    spare_row = f.const(width)
    near = Near(*f.given("near", "near_count", "near_row", "near_column"))
    requests = Requests(f, sizes, (m, n, k), b_row, near)

    with f.blocks(n, width) as (column, columns):
        is_whole = columns.equals(width)
        panel = f.select(is_whole, f.at(b, element, column.udiv(width) * b_step), b_edge)
        panel_row = b_row if sizes.takes_parts else f.select(is_whole, b_row, width)
        is_narrow = columns <= sizes.lanes
        next_panel = f.at(b, element, (column + width).udiv(width) * b_step)
        tiles = f.select(is_whole, m.udiv(sizes.tile_rows), 0)
        with f.when(tiles.differs(0)):
            place = f.at(c, element, column)
            count = requests.write(column, next_panel)
            strides = (a_row, a_col, panel, panel_row, place, c_row)
            f.call(strip, None, k, a, *strides, tiles, resume, requests.table, count)
        below = tiles * sizes.tile_rows
        with f.blocks(m - below, sizes.tile_rows) as (further, rows):
            row = below + further
            left = f.at(a, element, row * a_row)
            result = f.at(c, element, row * c_row, column)
            target, target_row = result, c_row
            if spare is not None:
                with f.when(~is_whole & resume.differs(0)):
                    f.call(copy, None, result, spare, rows, columns, c_row, spare_row)
                target = f.select(is_whole, result, spare)
                target_row = f.select(is_whole, c_row, spare_row)
            operands = (k, left, a_row, a_col, panel, panel_row, target, target_row, rows, resume)
            at_edge = (*operands, columns) if sizes.takes_parts else operands
            is_low = rows <= sizes.tile_rows // 2
            with (
                otherwise(f, is_whole & is_low, half, operands),
                otherwise(f, is_whole, full, operands),
                otherwise(f, is_narrow, narrow, at_edge),
                otherwise(f, is_low, low, at_edge),
            ):
                f.call(wide, None, *at_edge)
            if spare is not None:
                with f.when(~is_whole):
                    f.call(copy, None, spare, result, rows, columns, spare_row, c_row)
    f.finish()
    return name
