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
from graphc.codegen.llvm.emitter import ModuleEmitter, Reg
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
    a, b, c, m, n, k = f.parameter("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, b_col = f.parameter("a_row", "a_col", "b_row", "b_col")
    c_row, workspace = f.parameter("c_row", "workspace")
    near, near_count = f.parameter("near", "near_count")
    f.leave_if(f.either(f.compare("slt", m, 1), f.compare("slt", n, 1)))
    _zero_if_empty(f, zero, c, m, n, k, c_row)

    # A product with one column is the product of one row with the transpose: factors commute to
    # the bit, and the row's paths read the large operand once.
    swap = f.both(f.both(f.compare("eq", n, 1), f.compare("sgt", m, 1)), f.compare("eq", c_row, 1))
    left, right = f.select(swap, b, a), f.select(swap, a, b)
    rows, columns = f.select(swap, n, m), f.select(swap, m, n)
    left_row, left_col = f.select(swap, b_col, a_row), f.select(swap, b_row, a_col)
    right_row, right_col = f.select(swap, a_col, b_row), f.select(swap, a_row, b_col)

    limit = f.select(
        f.compare("sge", columns, sizes.stream_columns),
        f.i64(SHARING.few_rows),
        f.i64(PRODUCTS.any_rows),
    )
    stream = f.both(
        f.both(f.compare("sle", rows, limit), f.compare("eq", right_col, 1)),
        f.compare("sge", columns, sizes.lanes),
    )
    strides = (left_row, left_col, right_row)
    with f.when(stream):
        f.run(few, left, right, c, rows, columns, k, *strides, c_row, workspace)
    f.leave_if(stream)
    across = f.both(
        f.both(f.compare("sle", rows, PRODUCTS.transposed_rows), f.compare("eq", right_row, 1)),
        f.compare("sge", columns, sizes.lanes),
    )
    with f.when(across):
        f.run(dots, left, left_row, left_col, right, right_col, c, c_row, rows, columns, k)
    f.leave_if(across)
    none = f.i64(0)
    operands = (left, right, c, rows, columns, k, *strides, right_col, c_row, workspace)
    f.run(blocked, *operands, none, none, near, f.select(swap, none, near_count))
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
    a, packed, c, m, n, k = f.parameter("a", "packed", "c", "m", "n", "k")
    a_row, a_col, depth, padded = f.parameter("a_row", "a_col", "depth", "padded")
    c_row, workspace = f.parameter("c_row", "workspace")
    near = f.parameter("near", "near_count")
    f.leave_if(f.either(f.compare("slt", m, 1), f.compare("slt", n, 1)))
    _zero_if_empty(f, zero, c, m, n, k, c_row)
    for rows, kernel in kernels.items():
        is_it = f.compare("eq", m, rows)
        with f.when(is_it):
            f.run(kernel, a, packed, c, n, k, a_row, a_col, depth, padded, c_row)
        f.leave_if(is_it)
    width, one = f.i64(sizes.tile_columns), f.i64(1)
    strides = (a_row, a_col, width, one, c_row)
    f.run(blocked, a, packed, c, m, n, k, *strides, workspace, depth, padded, *near)
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
    a, packed, c, n, k = f.parameter("a", "packed", "c", "n", "k")
    a_row, a_col, depth, padded = f.parameter("a_row", "a_col", "depth", "padded")
    (c_row,) = f.parameter("c_row")
    element, width = sizes.element, sizes.tile_columns
    step = f.mul(depth, width)
    whole = f.rounded_down(n, width * panels)
    rest = f.sub(n, whole)
    edge = f.rounded_down(rest, width)
    with f.blocks(k, depth) as (start, steps):
        left = f.at(a, element, f.mul(start, a_col))
        block = f.at(packed, element, f.mul(start, padded))
        resume = f.convert("zext", f.compare("ne", start, 0), "i64")
        with f.blocks(whole, width * panels) as (column, _):
            panel = f.at(block, element, f.mul(column, depth))
            result = f.at(c, element, column)
            f.run(several, steps, left, a_row, a_col, panel, step, result, c_row, resume)
        with f.when(f.compare("sgt", rest, 0)):
            panel = f.at(block, element, f.mul(whole, depth))
            f.run(
                sweep,
                left,
                a_row,
                a_col,
                panel,
                f.i64(width),
                step,
                f.at(panel, element, f.mul(edge, depth)),
                f.at(c, element, whole),
                c_row,
                f.i64(rows),
                rest,
                steps,
                resume,
                *(f.i64(0) for _ in range(4)),
            )
    f.finish()
    return name


def _even_depth(f: Builder, k: Reg, sizes: Blocking) -> Reg:
    """The part of k handled at once: equal parts."""
    parts = f.quotient(f.add(k, sizes.block_k - 1), sizes.block_k)
    return f.quotient(f.add(k, f.sub(parts, 1)), parts)


def _zero_if_empty(f: Builder, zero: str, c: Reg, m: Reg, n: Reg, k: Reg, c_row: Reg) -> None:
    empty = f.compare("slt", k, 1)
    with f.when(empty):
        f.run(zero, c, m, n, c_row)
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
    a, b, c, m, n, k = f.parameter("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, b_col = f.parameter("a_row", "a_col", "b_row", "b_col")
    c_row, workspace = f.parameter("c_row", "workspace")
    packed, padded = f.parameter("packed", "padded")
    near, near_count = f.parameter("near", "near_count")
    element, width = sizes.element, sizes.tile_columns
    is_packed = f.compare("ne", packed, 0)
    is_plain = f.negate(is_packed)
    direct = f.both(
        f.both(is_plain, f.compare("eq", b_col, 1)),
        f.either(
            f.compare("sle", m, sizes.direct_rows), f.compare("sle", b_row, sizes.direct_stride)
        ),
    )
    pack_whole = f.both(is_plain, f.negate(direct))
    depth_limit = f.select(is_packed, packed, _even_depth(f, k, sizes))
    a_block = f.at(
        workspace,
        element,
        f.mul(depth_limit, f.rounded_up(f.minimum(n, f.i64(sizes.block_n)), width)),
    )
    pack_a = f.both(
        f.both(
            f.both(f.compare("eq", a_row, 1), f.compare("ne", a_col, 1)),
            f.compare("sge", k, sizes.pack_a_depth),
        ),
        f.both(
            f.compare("sge", n, sizes.pack_a_columns), f.compare("sge", a_col, sizes.pack_a_stride)
        ),
    )

    with (
        f.blocks(n, sizes.block_n) as (column, columns),
        f.blocks(k, depth_limit) as (start, depth),
    ):
        edge = f.binary("and", columns, f.i64(width - 1))
        whole = f.sub(columns, edge)
        plain = f.at(b, element, f.mul(start, b_row), f.mul(column, b_col))
        held = f.select(is_packed, depth_limit, depth)
        panels = f.at(b, element, f.mul(start, padded), f.mul(column, held))
        with f.when(pack_whole):
            f.run(pack, plain, workspace, columns, depth, b_row, b_col)
        beyond = f.at(plain, element, whole)
        if not sizes.takes_parts:
            with f.when(f.both(direct, f.compare("ne", edge, 0))):
                f.run(pack, beyond, workspace, edge, depth, b_row, b_col)
        right = f.select(is_packed, panels, f.select(direct, plain, workspace))
        right_row = f.select(direct, b_row, f.i64(width))
        right_step = f.select(direct, f.i64(width), f.mul(held, width))
        right_edge = f.at(right, element, f.mul(whole, held))
        right_edge = f.select(direct, beyond if sizes.takes_parts else workspace, right_edge)
        resume = f.convert("zext", f.compare("ne", start, 0), "i64")
        is_last = f.compare("sge", f.add(start, depth), k)
        needed = f.select(is_last, near_count, f.i64(0))
        with f.blocks(m, sizes.block_m) as (row, rows):
            source = f.at(a, element, f.mul(row, a_row), f.mul(start, a_col))
            packed_col = f.add(rows, sizes.lanes)
            with f.when(pack_a):
                f.run(copy, source, a_block, depth, rows, a_col, packed_col)
            f.run(
                sweep,
                f.select(pack_a, a_block, source),
                a_row,
                f.select(pack_a, packed_col, a_col),
                right,
                right_row,
                right_step,
                right_edge,
                f.at(c, element, f.mul(row, c_row), column),
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
    a, a_row, a_col, b, b_row = f.parameter("a", "a_row", "a_col", "b", "b_row")
    b_step, b_edge, c, c_row = f.parameter("b_step", "b_edge", "c", "c_row")
    m, n, k, resume = f.parameter("m", "n", "k", "resume")
    element, width = sizes.element, sizes.tile_columns
    # Tiles that stick out of C on the right are computed here, where panels are padded for them.
    spare = None if sizes.takes_parts else f.alloca(sizes.vector, sizes.tile_rows * 2)
    spare_row = f.i64(width)
    near = Near(*f.parameter("near", "near_count", "near_row", "near_column"))
    requests = Requests(f, sizes, (m, n, k), b_row, near)

    with f.blocks(n, width) as (column, columns):
        is_whole = f.compare("eq", columns, width)
        panel = f.select(
            is_whole, f.at(b, element, f.mul(f.quotient(column, width), b_step)), b_edge
        )
        panel_row = b_row if sizes.takes_parts else f.select(is_whole, b_row, f.i64(width))
        is_narrow = f.compare("sle", columns, sizes.lanes)
        next_panel = f.at(b, element, f.mul(f.quotient(f.add(column, width), width), b_step))
        tiles = f.select(is_whole, f.quotient(m, sizes.tile_rows), f.i64(0))
        with f.when(f.compare("ne", tiles, 0)):
            place = f.at(c, element, column)
            count = requests.write(column, next_panel)
            strides = (a_row, a_col, panel, panel_row, place, c_row)
            f.run(strip, k, a, *strides, tiles, resume, requests.table, count)
        below = f.mul(tiles, sizes.tile_rows)
        with f.blocks(f.sub(m, below), sizes.tile_rows) as (further, rows):
            row = f.add(below, further)
            left = f.at(a, element, f.mul(row, a_row))
            result = f.at(c, element, f.mul(row, c_row), column)
            target, target_row = result, c_row
            if spare is not None:
                with f.when(f.both(f.negate(is_whole), f.compare("ne", resume, 0))):
                    f.run(copy, result, spare, rows, columns, c_row, spare_row)
                target = f.select(is_whole, result, spare)
                target_row = f.select(is_whole, c_row, spare_row)
            operands = (k, left, a_row, a_col, panel, panel_row, target, target_row, rows, resume)
            at_edge = (*operands, columns) if sizes.takes_parts else operands
            is_low = f.compare("sle", rows, sizes.tile_rows // 2)
            with (
                otherwise(f, f.both(is_whole, is_low), half, operands),
                otherwise(f, is_whole, full, operands),
                otherwise(f, is_narrow, narrow, at_edge),
                otherwise(f, is_low, low, at_edge),
            ):
                f.run(wide, *at_edge)
            if spare is not None:
                with f.when(f.negate(is_whole)):
                    f.run(copy, spare, result, rows, columns, spare_row, c_row)
    f.finish()
    return name
