"""The routines ``complex_qr``, ``complex_eigh`` and ``complex_svd``: calls of LAPACK.

Matrices come and go as their real and imaginary parts. LAPACK has them side by side, in room.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, LType
from graphc.codegen.routines.lapack import called, emit_threads, piece
from graphc.codegen.routines.matrices import Matrix, Numbers, Stacked, ones
from graphc.ir.dtypes import DType
from graphc.kernel.routines.lapack import BLOCK

_LETTERS = "cz"


def _side_by_side(
    f: Builder, base: Reg, kind: LType, row: Reg | int, column: Reg | int
) -> tuple[Matrix, Matrix]:
    """Both parts of a matrix of complex numbers, of which the next row and column are so far."""
    steps = f.like(row) * 2, f.like(column) * 2
    return Matrix(f, base, kind, *steps), Matrix(f, f.at(base, kind.text, 1), kind, *steps)


def _apart(
    f: Builder, parts: Sequence[Reg], kind: LType, columns: Reg
) -> tuple[Matrix, Matrix]:
    re, im = (Matrix(f, part, kind, columns) for part in parts)
    return re, im


def _copied(
    f: Builder, sources: Sequence[Matrix], targets: Sequence[Matrix], rows: Reg, columns: Reg,
    conjugate: bool = False,
) -> None:  # fmt: skip
    (re, im), (to_re, to_im) = sources, targets
    with f.each(rows) as row, f.each(columns) as column:
        to_re.put(re.get(row, column), row, column)
        part = im.get(row, column)
        to_im.put(-part if conjugate else part, row, column)


# --- the work on one matrix ----------------------------------------------------------------------


def _qr(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> None:
    m, n, kept = numbers["rows"], numbers["columns"], numbers["kept"]
    bytes_ = kind.bits // 4
    k, wide = f.least(m, n), f.most(n, kept)
    matrix, left = piece(f, room, m * wide * bytes_)
    tau, left = piece(f, left, f.most(k, 1) * bytes_)
    size = f.most(wide, 1) * BLOCK
    by_columns = _side_by_side(f, matrix, kind, 1, m)
    source, q, r = (
        _apart(f, arrays[at : at + 2], kind, width) for at, width in ((0, n), (2, kept), (4, n))
    )
    _copied(f, source, by_columns, m, n)
    for part in arrays[4:]:
        f.fill_bytes(part, 0, kept * n * (kind.bits // 8))
    with f.when((m > 0) & (n > 0)):
        called(f, kind, "geqrf", m, n, matrix, m, tau, left, size, letters=_LETTERS)
        with f.each(k) as row, f.loop(row, n) as columns:
            for made, upper in zip(by_columns, r, strict=True):
                upper.put(made.get(row, columns.index), row, columns.index)
    with f.when((m > 0) & (kept > 0)):
        called(f, kind, "ungqr", m, kept, k, matrix, m, tau, left, size, letters=_LETTERS)
    _copied(f, by_columns, q, m, kept)


def _eigh(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> Reg:
    n, bytes_ = numbers["n"], kind.bits // 4
    values = arrays[2]
    matrix, left = piece(f, room, n * n * bytes_)
    by_rows, by_columns = (_side_by_side(f, matrix, kind, *way) for way in ((n, 1), (1, n)))
    _copied(f, _apart(f, arrays[:2], kind, n), by_rows, n, n)
    size, count = n * (2 + BLOCK) + n * n + 1, n * 5 + n * n * 2 + 1
    work, left = piece(f, left, size * bytes_)
    more, iwork = piece(f, left, count * (kind.bits // 8))
    found = f.alloca(I64, 1, 8)
    f.store(f.const(0), found, 8)
    with f.when(n > 0):
        # by columns it is the transpose, whose vectors are the conjugates
        info = called(
            f, kind, "heevd", "V", "U", n, matrix, n, values, work, size, more, count, iwork,
            n * 5 + 3, letters=_LETTERS,
        )  # fmt: skip
        f.store(info, found, 8)
    _copied(f, by_columns, _apart(f, arrays[3:], kind, n), n, n, conjugate=True)
    return f.load(found, I64, 8).differs(0)


def _svd(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> Reg:
    m, n, bytes_ = numbers["rows"], numbers["columns"], kind.bits // 4
    rows, columns = numbers["left"], numbers["right"]
    k = f.least(m, n)
    values, u_parts, vt_parts = arrays[2], arrays[3:5], arrays[5:]
    matrix, left = piece(f, room, m * n * bytes_)
    u, left = piece(f, left, m * rows * bytes_)
    vt, left = piece(f, left, columns * n * bytes_)
    size = k * k * 4 + k * 7 + f.most(m, n) + (m + n) * BLOCK
    work, left = piece(f, left, size * bytes_)
    count = k * 8 + k * k * 7 + f.most(m, n) * k * 2
    more, iwork = piece(f, left, count * (kind.bits // 8))
    source = _apart(f, arrays[:2], kind, n)
    _copied(f, source, _side_by_side(f, matrix, kind, n, 1), m, n)
    found = f.alloca(I64, 1, 8)
    f.store(f.const(0), found, 8)
    some = k > 0
    whole = rows.equals(m) & columns.equals(n)
    for job, is_it in (("A", whole), ("S", ~whole)):
        with f.when(some & is_it):
            # by columns it is the transpose, whose factors are those in the other order
            info = called(
                f, kind, "gesdd", job, n, m, matrix, n, values, vt, n, u, rows, work, size, more,
                iwork, letters=_LETTERS,
            )  # fmt: skip
            f.store(info, found, 8)
    sides = ((u, u_parts, m, rows), (vt, vt_parts, columns, n))
    with f.when(some):
        for made, parts, high, wide in sides:
            by_rows = _side_by_side(f, made, kind, wide, 1)
            _copied(f, by_rows, _apart(f, parts, kind, wide), high, wide)
    with f.when(~some):
        # of nothing all vectors will do
        for _, parts, high, wide in sides:
            for part in parts:
                f.fill_bytes(part, 0, high * wide * (kind.bits // 8))
            ones(f, Matrix(f, parts[0], kind, wide), f.least(high, wide))
    return f.load(found, I64, 8).differs(0)


# --- definitions ---------------------------------------------------------------------------------


def _qr_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    m, n, kept = numbers["rows"], numbers["columns"], numbers["kept"]
    return m * n, m * n, m * kept, m * kept, kept * n, kept * n


def _eigh_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    n = numbers["n"]
    return n * n, n * n, n, n * n, n * n


def _svd_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    m, n = numbers["rows"], numbers["columns"]
    left, right = m * numbers["left"], numbers["right"] * n
    return m * n, m * n, f.least(m, n), left, left, right, right


_QR = Stacked(
    ("re", "im", "q_re", "q_im", "r_re", "r_im"), ("rows", "columns", "kept"), _qr_sizes, _qr,
    around=emit_threads, fails=False,
)  # fmt: skip
_EIGH = Stacked(
    ("re", "im", "values", "v_re", "v_im"), ("n", "again"), _eigh_sizes, _eigh, around=emit_threads
)
_SVD = Stacked(
    ("re", "im", "values", "u_re", "u_im", "vt_re", "vt_im"),
    ("rows", "columns", "left", "right"), _svd_sizes, _svd, around=emit_threads,
)  # fmt: skip


def emit_complex_qr(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (re, im, q_re, q_im, r_re, r_im, rows, columns, kept, …)."""
    _QR.emit(module, name, dtypes)


def emit_complex_eigh(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (re, im, values, v_re, v_im, n, n, …), of the lower triangle."""
    _EIGH.emit(module, name, dtypes)


def emit_complex_svd(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (re, im, values, u_re, u_im, vt_re, vt_im, rows, columns, left, right, …)."""
    _SVD.emit(module, name, dtypes)


__all__ = ["emit_complex_eigh", "emit_complex_qr", "emit_complex_svd"]
