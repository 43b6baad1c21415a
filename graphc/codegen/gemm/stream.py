"""Products of few rows: rows of B stream through once, rows of C wait in the first-level cache.

Also the kernel of integer products. Each element of C is still one ascending chain over k.
"""

from __future__ import annotations

from graphc.codegen.emitter import LType, ModuleEmitter, Reg, ltype
from graphc.codegen.gemm.build import Builder, edge_mask, masked_load, masked_store

# Steps of k for each load and store of C.
_DEPTH = 8


def emit_stream(
    module: ModuleEmitter,
    element: str,
    lanes: int,
    rows: int,
    *,
    boolean: bool = False,
    masked: bool = False,
) -> str:
    """Defines the kernel that adds to ``rows`` (1 or 4) rows of C; returns its name.

    Signature: (a, a_row, a_col, b, b_row, c, c_row, n, k, count), B with unit column stride. The
    rows from ``count`` (at least 1) on repeat the last one, the same numbers to the same place.
    ``boolean`` takes "and" and "or" for product and sum; ``masked`` ends rows with a masked vector
    in place of scalars, where the target has such loads and stores.
    """
    name = f"gemm_stream{rows}_{'bool' if boolean else ltype(element, lanes).suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "*a a_row a_col *b b_row *c c_row n k count")
    a, a_row, a_col, b, b_row = f.parameter("a", "a_row", "a_col", "b", "b_row")
    c, c_row, n, k, count = f.parameter("c", "c_row", "n", "k", "count")
    scalar, vector = ltype(element), ltype(element, lanes)
    size, limit = scalar.bits // 8, _DEPTH
    held = f.alloca(scalar, rows * limit)
    last = f.sub(count, 1)
    clamped = [f.minimum(f.i64(row), last) for row in range(rows)]
    a_rows = [f.at(a, element, f.mul(row, a_row)) for row in clamped]
    c_rows = [f.at(c, element, f.mul(row, c_row)) for row in clamped]
    whole = f.rounded_down(n, lanes)
    mask = edge_mask(f, f.sub(n, whole), lanes) if masked else None

    def columns(b_rows: list[Reg], column: Reg, type_: LType) -> None:
        """As many steps as there are rows of B, for the columns of one vector or scalar."""
        places = [f.at(pointer, element, column) for pointer in c_rows]
        sums = [f.load(place, type_, size) for place in places]
        for step, b_place in enumerate(b_rows):
            right = f.load(f.at(b_place, element, column), type_, size)
            for row in range(rows):
                place = f.at(held, element, f.i64(row * limit + step))
                left = f.splat(f.load(place, scalar, size), type_.lanes)
                sums[row] = _accumulate(f, left, right, sums[row], boolean)
        for place, value in zip(places, sums, strict=True):
            f.store(value, place, size)

    def edge(column: Reg, type_: LType, mask: Reg | None) -> None:
        """All steps for the columns that remain."""
        places = [f.at(pointer, element, column) for pointer in c_rows]
        start = [masked_load(f, place, type_, mask) for place in places]
        with f.loop(f.i64(0), k, 1, start) as loop:
            right = masked_load(f, f.at(b, element, f.mul(loop.index, b_row), column), type_, mask)
            offset = f.mul(loop.index, a_col)
            loop.yields = [
                _accumulate(
                    f,
                    f.splat(f.load(f.at(a_rows[row], element, offset), scalar, size), type_.lanes),
                    right,
                    loop.carries[row],
                    boolean,
                )
                for row in range(rows)
            ]
        for place, value in zip(places, loop.results, strict=True):
            masked_store(f, value, place, mask)

    for lower, upper, depth in (
        (f.i64(0), f.rounded_down(k, limit), limit),
        (f.rounded_down(k, limit), k, 1),
    ):
        with f.loop(lower, upper, depth) as loop:
            # a small copy of A, so that every factor is at a fixed address in the inner loop
            for step in range(depth):
                offset = f.mul(f.add(loop.index, step), a_col)
                for row in range(rows):
                    value = f.load(f.at(a_rows[row], element, offset), scalar, size)
                    f.store(value, f.at(held, element, f.i64(row * limit + step)), size)
            b_rows = [
                f.at(b, element, f.mul(f.add(loop.index, step), b_row)) for step in range(depth)
            ]
            with f.loop(f.i64(0), whole, lanes) as column:
                columns(b_rows, column.index, vector)
    if mask is not None:
        with f.when(f.compare("slt", whole, n)):
            edge(whole, vector, mask)
    else:
        with f.loop(whole, n, 1) as column:
            edge(column.index, scalar, None)
    f.finish()
    return name


def _accumulate(f: Builder, left: Reg, right: Reg, total: Reg, boolean: bool) -> Reg:
    if boolean:
        return f.binary("or", total, f.binary("and", left, right))
    if total.type.is_float:
        return f.fma(left, right, total)
    return f.binary("add", total, f.binary("mul", left, right))
