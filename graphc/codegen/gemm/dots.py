"""Products of few rows with a right operand of contiguous columns, matrix @ vector among them.

Columns lie across the lanes: squares of B are transposed in registers, so that B is read once,
where it is, and each element is still one ascending chain over k.
"""

from __future__ import annotations

from graphc.codegen.emitter import ModuleEmitter
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.build import Builder
from graphc.codegen.gemm.transpose import load_transposed, square_lanes


def emit_dots(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines the kernel; returns its name.

    Signature: (a, a_row, a_col, b, b_col, c, c_row, m, n, k), B with unit row stride, n at least a
    vector's lanes. The last columns are taken again with some before them, to the same bits.
    """
    name = f"gemm_dots_{sizes.suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "*a a_row a_col *b b_col *c c_row m n k")
    a, a_row, a_col, b, b_col = f.parameter("a", "a_row", "a_col", "b", "b_col")
    c, c_row, m, n, k = f.parameter("c", "c_row", "m", "n", "k")
    element, vector, lanes, size = sizes.element, sizes.vector, sizes.lanes, sizes.size
    square = square_lanes(sizes)
    whole = f.rounded_down(k, square)
    last = f.sub(n, lanes)
    # One vector of columns at a time, although its chain is bound by latency: columns a power of
    # two apart share a cache set, and more of them would evict lines that are half read.
    with f.blocks(n, lanes) as (start, _), f.loop(f.i64(0), m, 1) as row:
        first = f.minimum(start, last)
        left = f.at(a, element, f.mul(row.index, a_row))
        right = f.at(b, element, f.mul(first, b_col))
        result = f.at(c, element, f.mul(row.index, c_row), first)
        with f.loop(f.i64(0), whole, square, [f.const(0.0, vector)]) as loop:
            place = f.at(right, element, loop.index)
            steps = load_transposed(f, place, b_col, vector, square)
            total = loop.carries[0]
            for step, value in enumerate(steps):
                place = f.at(left, element, f.mul(f.add(loop.index, step), a_col))
                factor = f.splat(f.load(place, sizes.scalar, size), lanes)
                total = f.fma(factor, value, total)
            loop.yields = [total]
        f.store(loop.results[0], result, size)
        with f.loop(whole, k, 1) as rest:
            factor = f.load(f.at(left, element, f.mul(rest.index, a_col)), sizes.scalar, size)
            with f.loop(f.i64(0), f.i64(lanes), 1) as column:
                place = f.at(right, element, f.mul(column.index, b_col), rest.index)
                value = f.load(place, sizes.scalar, size)
                place = f.at(result, element, column.index)
                f.store(f.fma(factor, value, f.load(place, sizes.scalar, size)), place, size)
    f.finish()
    return name
