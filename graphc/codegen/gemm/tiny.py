"""Products of few elements, inlined where they stand: a call would take longer than they do.

All sums are in registers. A row of the right operand is read once for all rows of the left one; of
a short depth nothing is left of the loop over it. Bits are those of ``emit_gemm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.base.target import Target
from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import LType, ltype
from graphc.ir.dtypes import DType
from graphc.kernel.panels import vector_bits


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where a matrix lies: its first element, and its strides in elements."""

    place: Reg
    row_stride: int
    column_stride: int

    @property
    def strides(self) -> tuple[int, int]:
        """Both strides."""
        return self.row_stride, self.column_stride

    @property
    def transposed(self) -> Matrix:
        """Its transpose."""
        return Matrix(self.place, self.column_stride, self.row_stride)


def is_tiny(
    sizes: tuple[int, int, int], strides: Sequence[int], dtype: DType, target: Target
) -> bool:
    """Whether a product is inlined.

    Args:
        sizes: m, n and k.
        strides: of a, b and c, those of rows before those of columns.
        dtype, target: of the product.
    """
    m, n, k = sizes
    if dtype.name not in ("float32", "float64") or min(sizes) < 1:
        return False
    a_row, _, _, gap, c_row, _ = strides
    if _is_column(m, n, c_row):
        m, n, gap = n, m, a_row
    if m * n * k > PRODUCTS.tiny_work or (gap != 1 and n * k > m * PRODUCTS.tiny_gathered):
        return False
    return len(_pieces(n, dtype, target)) <= PRODUCTS.tiny_sums


def emit_tiny(
    e: FunctionEmitter,
    sizes: tuple[int, int, int],
    operands: tuple[Matrix, Matrix, Matrix],
    dtype: DType,
    target: Target,
) -> None:
    """Emits c = a @ b for (a, b, c) of sizes (m, n, k)."""
    (m, n, k), (a, b, c) = sizes, operands
    if _is_column(m, n, c.row_stride):
        # the one row of the transpose
        m, n, a, b = n, m, b.transposed, a.transposed
        c = Matrix(c.place, 0, 1)
    rows = PRODUCTS.tiny_sums // len(_pieces(n, dtype, target))
    for first in range(0, m, rows):
        left, result = (
            Matrix(e.at(matrix.place, storage(dtype), first * matrix.row_stride), *matrix.strides)
            for matrix in (a, c)
        )
        _emit_rows(e, (min(rows, m - first), n, k), (left, b, result), dtype, target)


def _emit_rows(
    e: FunctionEmitter,
    sizes: tuple[int, int, int],
    operands: tuple[Matrix, Matrix, Matrix],
    dtype: DType,
    target: Target,
) -> None:
    """Emits as many rows as have all their sums in registers."""
    (m, n, k), (a, b, c) = sizes, operands
    element, align = storage(dtype), dtype.bytes
    pieces = _pieces(n, dtype, target)
    types = [ltype(element, lanes) for _, lanes in pieces]
    parts = [*zip(pieces, types, strict=True)]

    def after(sums: Sequence[Reg], left: Reg, right: Reg) -> list[Reg]:
        """The sums with the terms of one depth, at which the operands are."""
        row = [_loaded(e, b, right, start, type_, align) for (start, _), type_ in parts]
        result = []
        for i in range(m):
            alone = e.load(e.at(left, element, i * a.row_stride), ltype(element), align)
            for place, type_ in enumerate(types):
                spread = e.splat(alone, type_.lanes)
                result.append(e.fma(spread, row[place], sums[i * len(types) + place]))
        return result

    sums = [e.const(0, type_) for _ in range(m) for type_ in types]
    if m * n * k <= PRODUCTS.tiny_unrolled:
        for depth in range(k):
            left = e.at(a.place, element, depth * a.column_stride)
            right = e.at(b.place, element, depth * b.row_stride)
            sums = after(sums, left, right)
    else:
        with e.loop(0, k, 1, sums) as loop:
            left = e.at(a.place, element, loop.index * a.column_stride)
            right = e.at(b.place, element, loop.index * b.row_stride)
            loop.yields = after(loop.carries, left, right)
        sums = list(loop.results)
    for number, total in enumerate(sums):
        row, place = divmod(number, len(pieces))
        e.store(total, e.at(c.place, element, row * c.row_stride + pieces[place][0]), align)


def _loaded(
    e: FunctionEmitter, b: Matrix, row: Reg, start: int, type_: LType, align: int
) -> Reg:
    """Some elements of a row of the right operand, one by one where it has gaps."""
    if type_.lanes == 1 or b.column_stride == 1:
        place = e.at(row, type_.element, start * b.column_stride)
        return e.load(place, type_, align)
    result, alone = e.poison(type_), ltype(type_.element)
    for lane in range(type_.lanes):
        place = e.at(row, type_.element, (start + lane) * b.column_stride)
        item = e.load(place, alone, align)
        result = e.assign(type_, f"insertelement {result}, {item}, i64 {lane}")
    return result


def _is_column(m: int, n: int, c_row: int) -> bool:
    """Whether a result is one column without gaps."""
    return n == 1 and m > 1 and c_row == 1


def _pieces(n: int, dtype: DType, target: Target) -> list[tuple[int, int]]:
    """A row cut into vectors: where each begins, and its elements, a power of two."""
    widest = vector_bits(target) // dtype.bits
    found: list[tuple[int, int]] = []
    start = 0
    while start < n:
        lanes = min(widest, 1 << (n - start).bit_length() - 1)
        found.append((start, lanes))
        start += lanes
    return found


__all__ = ["Matrix", "emit_tiny", "is_tiny"]
