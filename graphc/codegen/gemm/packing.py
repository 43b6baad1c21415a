"""Moving blocks of matrices: plain copies, zeroes, and packing B into panels.

A panel holds ``tile_columns`` columns of B, one row of the panel after the other; columns past the
end of B are zero.
"""

from __future__ import annotations

from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder, each_span, masked_load, masked_store
from graphc.codegen.gemm.transpose import load_transposed, square_lanes
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import ltype


def emit_copy(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (source, target, rows, columns, source_row, target_row): copies contiguous rows."""
    name = f"gemm_copy_{sizes.suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "*source *target rows columns source_row target_row")
    source, target, rows, columns = f.given("source", "target", "rows", "columns")
    source_row, target_row = f.given("source_row", "target_row")
    with f.loop(0, rows) as row:
        from_row = f.at(source, sizes.element, row.index * source_row)
        to_row = f.at(target, sizes.element, row.index * target_row)
        for column, type_, mask in each_span(f, columns, sizes.vector, sizes.masked):
            value = masked_load(f, f.at(from_row, sizes.element, column), type_, mask)
            masked_store(f, value, f.at(to_row, sizes.element, column), mask)
    f.finish()
    return name


def emit_zero(module: ModuleEmitter, element: str, lanes: int, size: int) -> str:
    """Defines (target, rows, columns, row): writes zeros to contiguous rows."""
    name = f"gemm_zero_{ltype(element, lanes).suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "*target rows columns row")
    target, rows, columns, row_stride = f.given("target", "rows", "columns", "row")
    with f.loop(0, rows) as row:
        place = f.at(target, element, row.index * row_stride)
        for column, type_, _ in each_span(f, columns, ltype(element, lanes), masked=False):
            f.store(f.const(0, type_), f.at(place, element, column), size)
    f.finish()
    return name


def emit_pack_block(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines (b, panels, columns, k, b_row, b_col): packs k × columns of B, any strides."""
    name = f"gemm_pack_block_{sizes.suffix}"
    if module.has(name):
        return name
    rows_packer = _emit_pack_rows(module, sizes)
    transposer = _emit_pack_transposed(module, sizes)
    gatherer = _emit_pack_gathered(module, sizes)
    copier = emit_copy(module, sizes)
    zero = emit_zero(module, sizes.element, sizes.lanes, sizes.size)
    f = Builder(module, name, "*b *panels columns k b_row b_col", cold=True)
    b, panels, columns, k, b_row, b_col = f.given("b", "panels", "columns", "k", "b_row", "b_col")
    width, element = sizes.tile_columns, sizes.element
    whole = columns.udiv(width)
    unit_columns = b_col.equals(1)
    unit_rows = b_row.equals(1)
    panel_size = k * width

    with f.when(unit_columns):
        f.call(rows_packer, None, b, panels, whole, k, b_row)
    with f.when(~unit_columns), f.loop(0, whole) as loop:
        source = f.at(b, element, loop.index * width * b_col)
        target = f.at(panels, element, loop.index * panel_size)
        with f.when(unit_rows):
            f.call(transposer, None, source, target, k, b_col)
        with f.when(~unit_rows):
            f.call(gatherer, None, source, target, width, k, b_row, b_col)

    done = whole * width
    rest = columns - done
    with f.when(rest > 0):
        source = f.at(b, element, done * b_col)
        target = f.at(panels, element, whole * panel_size)
        f.call(zero, None, target, 1, panel_size, 0)
        with f.when(unit_columns):
            f.call(copier, None, source, target, k, rest, b_row, width)
        with f.when(~unit_columns):
            f.call(gatherer, None, source, target, rest, k, b_row, b_col)
    f.finish()
    return name


def _emit_pack_rows(module: ModuleEmitter, sizes: Blocking) -> str:
    """Whole panels from B with unit column stride, in the order of the source."""
    name = f"gemm_pack_rows_{sizes.suffix}"
    f = Builder(module, name, "*b *panels count k b_row")
    b, panels, count, k, b_row = f.given("b", "panels", "count", "k", "b_row")
    width, element, vector = sizes.tile_columns, sizes.element, sizes.vector
    with f.loop(0, k) as row:
        source = f.at(b, element, row.index * b_row)
        target = f.at(panels, element, row.index * width)
        with f.loop(0, count) as panel:
            from_row = f.at(source, element, panel.index * width)
            to_row = f.at(target, element, panel.index * k * width)
            for start in range(0, width, sizes.lanes):
                value = f.load(f.at(from_row, element, start), vector, sizes.size)
                f.store(value, f.at(to_row, element, start), sizes.size)
    f.finish()
    return name


def _emit_pack_transposed(module: ModuleEmitter, sizes: Blocking) -> str:
    """One whole panel from B with unit row stride, by square blocks transposed in registers."""
    name = f"gemm_pack_transposed_{sizes.suffix}"
    f = Builder(module, name, "*b *panel k b_col")
    b, panel, k, b_col = f.given("b", "panel", "k", "b_col")
    element, width = sizes.element, sizes.tile_columns
    vector, lanes, square = sizes.vector, sizes.lanes, square_lanes(sizes)
    whole = k.down_to(square)
    # Along the columns, which are contiguous: across them, lines would be evicted half read.
    with f.loop(0, width, lanes) as column, f.loop(0, whole, square) as row:
        source = f.at(b, element, row.index, column.index * b_col)
        target = f.at(panel, element, row.index * width, column.index)
        steps = load_transposed(f, source, b_col, vector, square)
        for i, value in enumerate(steps):
            f.store(value, f.at(target, element, i * width), sizes.size)
    with f.loop(whole, k) as row, f.loop(0, width) as column:
        source = f.at(b, element, row.index, column.index * b_col)
        target = f.at(panel, element, row.index * width, column.index)
        f.store(f.load(source, sizes.scalar, sizes.size), target, sizes.size)
    f.finish()
    return name


def _emit_pack_gathered(module: ModuleEmitter, sizes: Blocking) -> str:
    """Up to a panel's columns from B of any strides, one element at a time."""
    name = f"gemm_pack_gathered_{sizes.suffix}"
    f = Builder(module, name, "*b *panel columns k b_row b_col")
    b, panel, columns, k, b_row, b_col = f.given("b", "panel", "columns", "k", "b_row", "b_col")
    element = sizes.element
    with f.loop(0, columns) as column:
        source = f.at(b, element, column.index * b_col)
        target = f.at(panel, element, column.index)
        with f.loop(0, k) as row:
            value = f.load(f.at(source, element, row.index * b_row), sizes.scalar, sizes.size)
            f.store(value, f.at(target, element, row.index * sizes.tile_columns), sizes.size)
    f.finish()
    return name
