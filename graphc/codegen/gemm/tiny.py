"""Products of few elements, inlined where they stand: a call would take longer than they do.

All sums are in registers. A row of the right operand is read once for all rows of the left one; of
a short depth nothing is left of the loop over it. Bits are those of ``emit_gemm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from graphc.base.target import Target
from graphc.base.tuning.products import PRODUCTS
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import LType, ltype
from graphc.ir.dtypes import DType
from graphc.kernel.panels import vector_bits


class Layout(NamedTuple):
    """The strides of a matrix, in elements."""

    row: int
    column: int

    @property
    def transposed(self) -> Layout:
        """That of its transpose."""
        return Layout(self.column, self.row)


@dataclass(frozen=True, slots=True)
class Tiny:
    """A product c = a @ b of sizes (m, n, k), which may be inlined."""

    m: int
    n: int
    k: int
    a: Layout
    b: Layout
    c: Layout
    dtype: DType
    target: Target

    @property
    def is_worth_it(self) -> bool:
        """Whether its code is shorter than a call takes."""
        if self.is_column:
            return self.of_the_row.is_worth_it
        if self.dtype.name not in ("float32", "float64") or min(self.m, self.n, self.k) < 1:
            return False
        if self.work > PRODUCTS.tiny_work or len(self.pieces) > PRODUCTS.tiny_sums:
            return False
        return self.b.column == 1 or self.n * self.k <= self.m * PRODUCTS.tiny_gathered

    @property
    def work(self) -> int:
        """Multiply-adds."""
        return self.m * self.n * self.k

    @property
    def is_column(self) -> bool:
        """Whether the result is one column without gaps."""
        return self.n == 1 and self.m > 1 and self.c.row == 1

    @property
    def of_the_row(self) -> Tiny:
        """The product that gives a column as the one row of its transpose, of exchanged operands:
        factors commute."""
        a, b = self.b.transposed, self.a.transposed
        return replace(self, m=self.n, n=self.m, a=a, b=b, c=Layout(0, 1))

    @property
    def pieces(self) -> list[tuple[int, LType]]:
        """A row of the result cut into vectors: where each begins, and its type."""
        widest = vector_bits(self.target) // self.dtype.bits
        found: list[tuple[int, LType]] = []
        start = 0
        while start < self.n:
            lanes = min(widest, 1 << (self.n - start).bit_length() - 1)
            found.append((start, ltype(storage(self.dtype), lanes)))
            start += lanes
        return found


def emit_tiny(e: FunctionEmitter, product: Tiny, a: Reg, b: Reg, c: Reg) -> None:
    """Emits a product of matrices that begin at these places."""
    if product.is_column:
        product, a, b = product.of_the_row, b, a
    element, rows = storage(product.dtype), PRODUCTS.tiny_sums // len(product.pieces)
    for first in range(0, product.m, rows):
        some = replace(product, m=min(rows, product.m - first))
        left, result = (
            e.at(place, element, first * layout.row)
            for place, layout in ((a, product.a), (c, product.c))
        )
        _emit_rows(e, some, left, b, result)


def _emit_rows(e: FunctionEmitter, product: Tiny, a: Reg, b: Reg, c: Reg) -> None:
    """Emits as many rows as have all their sums in registers."""
    element, align = storage(product.dtype), product.dtype.bytes
    pieces = product.pieces

    def after(sums: Sequence[Reg], left: Reg, right: Reg) -> list[Reg]:
        """The sums with the terms of one depth, at which the operands are."""
        row = [_loaded(e, product, right, start, type_) for start, type_ in pieces]
        result = []
        for i in range(product.m):
            alone = e.load(e.at(left, element, i * product.a.row), ltype(element), align)
            for place, (_, type_) in enumerate(pieces):
                spread = e.splat(alone, type_.lanes)
                result.append(e.fma(spread, row[place], sums[i * len(pieces) + place]))
        return result

    sums = [e.const(0, type_) for _ in range(product.m) for _, type_ in pieces]
    if product.work <= PRODUCTS.tiny_unrolled:
        for depth in range(product.k):
            left = e.at(a, element, depth * product.a.column)
            right = e.at(b, element, depth * product.b.row)
            sums = after(sums, left, right)
    else:
        with e.loop(0, product.k, 1, sums) as loop:
            left = e.at(a, element, loop.index * product.a.column)
            right = e.at(b, element, loop.index * product.b.row)
            loop.yields = after(loop.carries, left, right)
        sums = list(loop.results)
    for number, total in enumerate(sums):
        row, place = divmod(number, len(pieces))
        e.store(total, e.at(c, element, row * product.c.row + pieces[place][0]), align)


def _loaded(e: FunctionEmitter, product: Tiny, row: Reg, start: int, type_: LType) -> Reg:
    """Some elements of a row of the right operand, one by one where it has gaps."""
    gap, align = product.b.column, product.dtype.bytes
    if type_.lanes == 1 or gap == 1:
        return e.load(e.at(row, type_.element, start * gap), type_, align)
    result, alone = e.poison(type_), ltype(type_.element)
    for lane in range(type_.lanes):
        item = e.load(e.at(row, type_.element, (start + lane) * gap), alone, align)
        result = e.assign(type_, f"insertelement {result}, {item}, i64 {lane}")
    return result


__all__ = ["Layout", "Tiny", "emit_tiny"]
