"""Products of integers, which wrap in their own width, and of bools ("or" of "and"s)."""

from __future__ import annotations

from graphc.base.target import Target
from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.gemm.packing import emit_zero
from graphc.codegen.gemm.streaming_kernel import Stream, emit_stream
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import ltype
from graphc.ir.dtypes import DType


def emit_integer_gemm(module: ModuleEmitter, dtype: DType, target: Target) -> str:
    """Defines the product of integers or bools; see ``emit_gemm``. Signs share a function."""
    boolean = dtype.kind == "bool"
    name = f"gemm_{'bool' if boolean else f'i{dtype.bits}'}_{target.vector_bits}"
    if module.has(name):
        return name
    element, size = f"i{dtype.bits}", dtype.bytes
    lanes = target.vector_bits // dtype.bits
    zero = emit_zero(module, element, lanes, size)
    stream = emit_stream(module, Stream(element, lanes, PRODUCTS.integer_rows, boolean=boolean))
    f = Builder(
        module,
        name,
        "*a *b *c m n k a_row a_col b_row b_col c_row *workspace *near near_count",
        internal=False,
    )
    a, b, c, m, n, k = f.given("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, b_col, c_row = f.given("a_row", "a_col", "b_row", "b_col", "c_row")
    f.leave_if((m < 1) | (n < 1))
    scalar = ltype(element)

    contiguous = b_col.equals(1)
    with f.when(contiguous):
        f.call(zero, None, c, m, n, c_row)
        with (
            f.blocks(n, PRODUCTS.integer_block_bytes // size) as (column, columns),
            f.blocks(k, PRODUCTS.integer_depth) as (start, depth),
            f.blocks(m, PRODUCTS.integer_rows) as (row, rows),
        ):
            left = f.at(a, element, row * a_row, start * a_col)
            right = f.at(b, element, start * b_row, column)
            result = f.at(c, element, row * c_row, column)
            operands = (left, a_row, a_col, right, b_row, result, c_row, f.const(lanes))
            f.call(stream, None, *operands, 0, columns, depth, rows)
    f.leave_if(contiguous)

    with f.loop(0, m) as row, f.loop(0, n) as column:
        left = f.at(a, element, row.index * a_row)
        right = f.at(b, element, column.index * b_col)
        with f.loop(0, k, 1, [f.const(0, scalar)]) as step:
            x = f.load(f.at(left, element, step.index * a_col), scalar, size)
            y = f.load(f.at(right, element, step.index * b_row), scalar, size)
            total = step.carries[0]
            if boolean:
                step.yields = [total | (x & y)]
            else:
                step.yields = [total + x * y]
        place = f.at(c, element, row.index * c_row, column.index)
        f.store(step.results[0], place, size)
    f.finish()
    return name
