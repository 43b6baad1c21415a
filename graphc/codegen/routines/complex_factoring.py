"""The routine ``complex_lu``: elimination of complex matrices, given as their parts.

``graphc.kernel.routines.complex_matrices`` says in which order each element is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, LType
from graphc.codegen.routines.factoring import exchanged
from graphc.codegen.routines.matrices import Matrix, Numbers, Stacked, each_part, spread
from graphc.ir.dtypes import DType


@dataclass(frozen=True, slots=True, eq=False)
class _Divisor:
    """A complex number to divide by: what R. L. Smith's quotients need of it."""

    f: Builder
    is_wide: Reg
    ratio: Reg
    scale: Reg

    @classmethod
    def of(cls, f: Builder, c: Reg, d: Reg) -> _Divisor:
        kind = c.type
        is_wide = f.intrinsic("fabs", kind, c) >= f.intrinsic("fabs", kind, d)
        long, short = f.select(is_wide, c, d), f.select(is_wide, d, c)
        ratio = short / long
        return cls(f, is_wide, ratio, f.const(1.0, kind) / (long + short * ratio))

    def quotient(self, a: Reg, b: Reg) -> tuple[Reg, Reg]:
        """(a + ib) over it."""
        f, ratio = self.f, self.ratio
        re = f.select(self.is_wide, a + b * ratio, a * ratio + b)
        im = f.select(self.is_wide, b - a * ratio, b * ratio - a)
        return re * self.scale, im * self.scale


def _size(f: Builder, re: Matrix, im: Matrix, row: Reg, column: Reg) -> Reg:
    kind = re.type
    one, other = (f.intrinsic("fabs", kind, part.get(row, column)) for part in (re, im))
    return one + other


def _largest(f: Builder, re: Matrix, im: Matrix, k: Reg, rows: Reg) -> tuple[Reg, Reg]:
    """The size of the pivot of a column, and the row where it stands."""
    with f.loop(k + 1, rows, 1, [_size(f, re, im, k, k), k]) as search:
        best, place = search.carries
        size = _size(f, re, im, search.index, k)
        larger = size > best
        search.yields = [f.select(larger, size, best), f.select(larger, search.index, place)]
    best, place = search.results
    return best, place


def _subtract_row(
    f: Builder, re: Matrix, im: Matrix, row: Reg, factor: tuple[Reg, Reg], k: Reg, columns: Reg
) -> None:
    """Subtracts a multiple of row k from a row, behind column k."""
    for column, kind in each_part(f, k + 1, columns, re.type):
        x, y = (spread(f, part, kind) for part in factor)
        u, v = re.get(k, column, kind), im.get(k, column, kind)
        re.put(re.get(row, column, kind) - (x * u - y * v), row, column)
        im.put(im.get(row, column, kind) - (x * v + y * u), row, column)


def _lu(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> None:
    rows, columns = numbers["rows"], numbers["columns"]
    *sources, packed_re, packed_im, order, sign = arrays
    for source, target in zip(sources, (packed_re, packed_im), strict=True):
        f.copy_bytes(target, source, rows * columns * (kind.bits // 8))
    re, im = (Matrix(f, target, kind, columns) for target in (packed_re, packed_im))
    places = Matrix(f, order, I64, 1)
    with f.each(rows) as row:
        places.put(row, row, 0)
    zero = f.const(0)
    with f.loop(0, f.least(rows, columns), 1, [f.const(1.0, kind)]) as loop:
        k = loop.index
        best, place = _largest(f, re, im, k, rows)
        moved = place.differs(k)
        with f.when(moved):
            for matrix, width in ((re, columns), (im, columns), (places, f.const(1))):
                exchanged(f, matrix, k, place, zero, width)
        is_zero = best.equals(0.0)
        c = f.select(is_zero, f.const(1.0, kind), re.get(k, k))
        d = f.select(is_zero, f.const(0.0, kind), im.get(k, k))
        divisor = _Divisor.of(f, c, d)
        with f.loop(k + 1, rows) as below:
            row = below.index
            factor = divisor.quotient(re.get(row, k), im.get(row, k))
            for matrix, part in zip((re, im), factor, strict=True):
                matrix.put(part, row, k)
            _subtract_row(f, re, im, row, factor, k, columns)
        loop.yields = [f.select(moved, -loop.carries[0], loop.carries[0])]
    f.store(loop.results[0], sign, kind.bits // 8)


def _sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    size = numbers["rows"] * numbers["columns"]
    return size, size, size, size, numbers["rows"], f.const(1)


_LU = Stacked(
    ("re", "im", "packed_re", "packed_im", "order", "sign"),
    ("rows", "columns"),
    _sizes,
    _lu,
    fails=False,
)


def emit_complex_lu(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (re, im, packed_re, packed_im, order, sign, rows, columns, …)."""
    _LU.emit(module, name, dtypes)


__all__ = ["emit_complex_lu"]
