"""The routines ``qr``, ``eigh``, ``eig``, ``svd`` and their values alone: calls of LAPACK.

``graphc.base.lapack`` resolves what is called, when the code is loaded. Workspace is that of
``graphc.kernel.routines.lapack``, to the number: LAPACK takes its blocks, and so its bits, by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.lapack import GET_THREADS, PREFIX, SET_THREADS, STATE
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Shared, Table
from graphc.codegen.llvm.types import I32, I64, PTR, LType
from graphc.codegen.routines.matrices import Matrix, Numbers, Stacked, ones
from graphc.ir.dtypes import DType
from graphc.kernel.routines.lapack import BLOCK
from graphc.kernel.routines.matrices import LANE_BYTES

# --- calls ---------------------------------------------------------------------------------------


def called(
    f: Builder, kind: LType, name: str, *operands: Reg | int | str, letters: str = "sd"
) -> Reg:
    """Calls a function of LAPACK, whose name has a letter for each precision; numbers go by
    address, and so does what it finds wrong, which this gives. The lengths of texts follow behind
    all operands."""

    def by_address(number: Reg | int) -> Reg:
        slot = f.alloca(I64, 1, 8)
        f.store(f.like(number), slot, 8)
        return slot

    given: list[Reg] = []
    texts = 0
    for operand in operands:
        if isinstance(operand, str):
            given.append(f.symbol(f.module.string(operand)))
            texts += 1
        elif isinstance(operand, Reg) and operand.type is PTR:
            given.append(operand)
        else:
            given.append(by_address(operand))
    info = by_address(0)
    symbol = f"{PREFIX}{letters[kind.bits == 64]}{name}"
    types = ", ".join(["ptr"] * (len(given) + 1) + ["i64"] * texts)
    f.module.declare(symbol, "void", types)
    f.call(symbol, None, *given, info, *[1] * texts)
    return f.load(info, I64, 8)


def piece(f: Builder, room: Reg, size: Reg) -> tuple[Reg, Reg]:
    """So many bytes of room, and what is left of it, which begins at a whole vector again."""
    address = f.assign(I64, f"ptrtoint {f.at(room, 'i8', size)} to i64").up_to(LANE_BYTES)
    return room, f.assign(PTR, f"inttoptr {address} to ptr")


# --- threads -------------------------------------------------------------------------------------


def emit_threads(module: ModuleEmitter) -> tuple[str, str]:
    """Defines what is called before and after LAPACK is, so that it has one thread between."""
    module.constant(STATE, "external global [3 x i64]")
    module.declare(GET_THREADS, "i32", "")
    module.declare(SET_THREADS, "void", "i32")
    names = "threads_held", "threads_freed"
    for name, step in zip(names, (1, -1), strict=True):
        f = Builder(module, name, "")
        state = Table(f.symbol(STATE))
        lock = Shared(state.at(0), I64)
        with f.repeat() as leave_if:
            _, taken = lock.compare_exchange(f.const(0), f.const(1))
            leave_if(taken)
        before = state[1]
        after = before + step
        if step > 0:
            with f.when(before.equals(0)):
                count = f.call(GET_THREADS, I32)
                state[2] = f.convert("sext", count, "i64")
                f.call(SET_THREADS, None, f.const(1, I32))
        else:
            with f.when(after.equals(0)):
                f.call(SET_THREADS, None, f.narrowed(state[2], I32))
        state[1] = after
        lock.store(0, "release")
        f.finish()
    return names


# --- the work on one matrix ----------------------------------------------------------------------


def _transposed(
    f: Builder, source: Matrix, target: Matrix, rows: Reg, columns: Reg
) -> None:
    with f.each(rows) as row, f.each(columns) as column:
        target.put(source.get(row, column), column, row)


def _qr(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> None:
    source, q, r = arrays
    m, n, kept = numbers["rows"], numbers["columns"], numbers["kept"]
    bytes_ = kind.bits // 8
    k, wide = f.least(m, n), f.most(n, kept)
    matrix, left = piece(f, room, m * wide * bytes_)
    tau, left = piece(f, left, f.most(k, 1) * bytes_)
    size = f.most(wide, 1) * BLOCK
    # by columns, as LAPACK has it
    by_columns = Matrix(f, matrix, kind, m)
    by_rows = Matrix(f, source, kind, n)
    _transposed(f, by_rows, by_columns, m, n)
    f.fill_bytes(r, 0, kept * n * bytes_)
    upper = Matrix(f, r, kind, n)
    with f.when((m > 0) & (n > 0)):
        called(f, kind, "geqrf", m, n, matrix, m, tau, left, size)
        with f.each(k) as row, f.loop(row, n) as columns:
            upper.put(by_columns.get(columns.index, row), row, columns.index)
    with f.when((m > 0) & (kept > 0)):
        called(f, kind, "orgqr", m, kept, k, matrix, m, tau, left, size)
    _transposed(f, by_columns, Matrix(f, q, kind, kept), kept, m)


def _eigh(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> Reg:
    source, values, *vectors = arrays
    n, bytes_ = numbers["n"], kind.bits // 8
    matrix, left = piece(f, room, n * n * bytes_)
    f.copy_bytes(matrix, source, n * n * bytes_)
    size, integers = n * (6 + BLOCK) + n * n * 2 + 1, n * 5 + 3
    work, iwork = piece(f, left, size * bytes_)
    found = f.alloca(I64, 1, 8)
    f.store(f.const(0), found, 8)
    with f.when(n > 0):
        # the lower triangle by rows is the upper one by columns
        job = "V" if vectors else "N"
        info = called(
            f, kind, "syevd", job, "U", n, matrix, n, values, work, size, iwork, integers
        )
        f.store(info, found, 8)
    if vectors:
        _transposed(f, Matrix(f, matrix, kind, n), Matrix(f, vectors[0], kind, n), n, n)
    return f.load(found, I64, 8).differs(0)


def _eig(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> Reg:
    source, re, im, *vectors = arrays
    n, bytes_ = numbers["n"], kind.bits // 8
    matrix, left = piece(f, room, n * n * bytes_)
    packed, work = piece(f, left, n * n * bytes_)
    _transposed(f, Matrix(f, source, kind, n), Matrix(f, matrix, kind, n), n, n)
    size = n * (6 + 2 * BLOCK)
    found = f.alloca(I64, 1, 8)
    f.store(f.const(0), found, 8)
    with f.each(n * n) as place:
        element = f.load(f.at(source, kind.text, place), kind, bytes_)
        # LAPACK may not end for numbers that are not finite
        with f.when(f.fcmp("uno", element - element, 0.0)):
            f.store(f.const(1), found, 8)
    with f.when((n > 0) & f.load(found, I64, 8).equals(0)):
        job = "V" if vectors else "N"
        info = called(
            f, kind, "geev", "N", job, n, matrix, n, re, im, packed, 1, packed, n, work, size
        )
        f.store(info, found, 8)
    bad = f.load(found, I64, 8).differs(0)
    if vectors:
        with f.when(~bad):
            _unpacked(f, Matrix(f, packed, kind, n), im, vectors, n, kind)
    return bad


def _unpacked(
    f: Builder, packed: Matrix, im: Reg, vectors: Sequence[Reg], n: Reg, kind: LType
) -> None:
    """Eigenvectors by columns: of a pair the first is the real part, the second the imaginary."""
    real, imaginary = (Matrix(f, vector, kind, n) for vector in vectors)
    with f.each(n) as column:
        part = f.load(f.at(im, kind.text, column), kind, kind.bits // 8)
        is_first, is_second = part > 0.0, part < 0.0
        first = f.select(is_second, column - 1, column)
        second = f.select(is_first, column + 1, column)
        with f.each(n) as row:
            real.put(packed.get(first, row), row, column)
            value = packed.get(second, row)
            value = f.select(is_second, -value, f.select(is_first, value, 0.0))
            imaginary.put(value, row, column)


def _svd(f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType) -> Reg:
    source, *results = arrays
    m, n, bytes_ = numbers["rows"], numbers["columns"], kind.bits // 8
    k = f.least(m, n)
    matrix, left = piece(f, room, m * n * bytes_)
    f.copy_bytes(matrix, source, m * n * bytes_)
    size = k * k * 4 + k * 7 + f.most(m, n) + (m + n) * BLOCK
    work, iwork = piece(f, left, size * bytes_)
    found = f.alloca(I64, 1, 8)
    f.store(f.const(0), found, 8)
    some = k > 0

    def factored(job: str, values: Reg, vt: Reg, u: Reg, rows: Reg | int) -> None:
        # by columns it is the transpose, whose factors are those of the matrix in the other order
        info = called(
            f, kind, "gesdd", job, n, m, matrix, n, values, vt, n, u, rows, work, size, iwork
        )
        f.store(info, found, 8)

    if len(results) == 1:
        with f.when(some):
            factored("N", results[0], matrix, matrix, 1)
        return f.load(found, I64, 8).differs(0)
    u, values, vt = results
    rows, columns = numbers["left"], numbers["right"]
    whole = rows.equals(m) & columns.equals(n)
    with f.when(some & whole):
        factored("A", values, vt, u, m)
    with f.when(some & ~whole):
        factored("S", values, vt, u, k)
    with f.when(~some):
        # of nothing all vectors will do
        for target, side, other in ((u, m, rows), (vt, n, columns)):
            f.fill_bytes(target, 0, side * other * bytes_)
            ones(f, Matrix(f, target, kind, other), f.least(side, other))
    return f.load(found, I64, 8).differs(0)


# --- definitions ---------------------------------------------------------------------------------


def _qr_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    m, n, kept = numbers["rows"], numbers["columns"], numbers["kept"]
    return m * n, m * kept, kept * n


def _eigh_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    n = numbers["n"]
    return n * n, n, n * n


def _eigenvalue_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    return _eigh_sizes(f, numbers)[:2]


def _eig_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    n = numbers["n"]
    return n * n, n, n, n * n, n * n


def _general_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    return _eig_sizes(f, numbers)[:3]


def _svd_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    m, n = numbers["rows"], numbers["columns"]
    return m * n, m * numbers["left"], f.least(m, n), numbers["right"] * n


def _singular_value_sizes(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    m, n = numbers["rows"], numbers["columns"]
    return m * n, f.least(m, n)


_QR = Stacked(
    ("a", "q", "r"), ("rows", "columns", "kept"), _qr_sizes, _qr, around=emit_threads, fails=False
)
_EIGH = Stacked(("a", "values", "v"), ("n", "again"), _eigh_sizes, _eigh, around=emit_threads)
_EIGVALSH = Stacked(("a", "values"), ("n", "again"), _eigenvalue_sizes, _eigh, around=emit_threads)
_EIG = Stacked(("a", "re", "im", "u", "v"), ("n", "again"), _eig_sizes, _eig, around=emit_threads)
_EIGVALS = Stacked(("a", "re", "im"), ("n", "again"), _general_sizes, _eig, around=emit_threads)
_SVD = Stacked(
    ("a", "u", "values", "vt"),
    ("rows", "columns", "left", "right"),
    _svd_sizes,
    _svd,
    around=emit_threads,
)
_SVDVALS = Stacked(
    ("a", "values"), ("rows", "columns"), _singular_value_sizes, _svd, around=emit_threads
)


def emit_qr(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, q, r, rows, columns, kept, …): Q with so many columns kept, and R."""
    _QR.emit(module, name, dtypes)


def emit_eigh(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, values, v, n, n, …), of the lower triangle."""
    _EIGH.emit(module, name, dtypes)


def emit_eigvalsh(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, values, n, n, …), of the lower triangle."""
    _EIGVALSH.emit(module, name, dtypes)


def emit_eig(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, re, im, u, v, n, n, …), the parts of eigenvalues and of eigenvectors."""
    _EIG.emit(module, name, dtypes)


def emit_eigvals(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, re, im, n, n, …)."""
    _EIGVALS.emit(module, name, dtypes)


def emit_svd(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, u, values, vt, rows, columns, left, right, …)."""
    _SVD.emit(module, name, dtypes)


def emit_svdvals(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, values, rows, columns, …)."""
    _SVDVALS.emit(module, name, dtypes)


__all__ = [
    "called",
    "emit_eig",
    "emit_eigh",
    "emit_eigvals",
    "emit_eigvalsh",
    "emit_qr",
    "emit_svd",
    "emit_svdvals",
    "emit_threads",
    "piece",
]
