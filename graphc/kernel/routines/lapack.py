"""Orthogonal factors, eigenvalues and singular values: routines that call LAPACK.

The meaning is LAPACK's own: these references call the same functions with as much workspace, so
their bits are those of the machine code. LAPACK's order is that of columns; a matrix by rows is its
transpose there, which is of use where it changes nothing but names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphc.base.lapack import GET_THREADS, PREFIX, SET_THREADS, addresses
from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim, dim_max, dim_min
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter
from graphc.kernel.routines.matrices import LANE_BYTES, STACK

TOGETHER = 8
"""Matrices of a call, by whose number its threads are set up."""

BLOCK = 32
"""Columns that are worked on at once: workspace has so many for each."""

NO_EIGENVALUES = "has eigenvalues that do not converge"
NO_SINGULAR_VALUES = "has singular values that do not converge"


@contextmanager
def _one_thread() -> Iterator[None]:
    kept = addresses([GET_THREADS, SET_THREADS])
    count = ctypes.CFUNCTYPE(ctypes.c_int32)(kept[GET_THREADS])
    set_count = ctypes.CFUNCTYPE(None, ctypes.c_int32)(kept[SET_THREADS])
    before = count()
    set_count(1)
    try:
        yield
    finally:
        set_count(before)


def _called(name: str, *operands: Any) -> int:
    """Calls a function; texts are letters, ints are passed by address, the last one is what it
    found wrong, which this gives."""
    info = ctypes.c_int64(0)
    given: list[Any] = []
    letters = 0
    for operand in operands:
        if isinstance(operand, str):
            given.append(ctypes.c_char_p(operand.encode()))
            letters += 1
        elif isinstance(operand, (int, np.integer)):
            given.append(ctypes.byref(ctypes.c_int64(int(operand))))
        else:
            given.append(ctypes.c_void_p(operand.ctypes.data))
    symbol = PREFIX + name
    function = ctypes.CFUNCTYPE(None)(addresses([symbol])[symbol])
    lengths = [ctypes.c_size_t(1)] * letters
    function(*given, ctypes.byref(info), *lengths)
    return info.value


_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def _named(kind: Any, real: str, unitary: str = "") -> str:
    """The name of a function for real matrices, or of the one that complex ones have."""
    is_complex = kind.kind == "c"
    return _LETTERS[kind.name] + (unitary if is_complex and unitary else real)


def _real(kind: Any) -> Any:
    return np.zeros(0, kind).real.dtype


def _room_for(count: int, element: Any) -> Any:
    """An array whose address is a multiple of that of whole vectors, as the machine code has it."""
    size = np.dtype(element).itemsize
    raw = np.zeros(count * size + LANE_BYTES, np.uint8)
    start = -raw.ctypes.data % LANE_BYTES
    return raw[start : start + count * size].view(element)


def qr(a: Any, columns: int) -> tuple[Any, Any]:
    """Q with so many columns, and R, of one matrix [m, n]."""
    m, n = a.shape
    k, kind = min(m, n), a.dtype
    wide = max(n, columns)
    matrix = _room_for(m * wide, kind)
    matrix[: m * n] = a.T.reshape(-1)
    tau, work = _room_for(max(k, 1), kind), _room_for(BLOCK * max(wide, 1), kind)
    size = BLOCK * max(wide, 1)
    r = np.zeros((columns, n), kind)
    if m and n:
        _called(_named(kind, "geqrf"), m, n, matrix, m, tau, work, size)
        packed = matrix[: m * n].reshape(n, m).T
        r[:k] = np.triu(packed[:k])
    if m and columns:
        _called(_named(kind, "orgqr", "ungqr"), m, columns, k, matrix, m, tau, work, size)
    return np.ascontiguousarray(matrix[: m * columns].reshape(columns, m).T), r


def eigh(a: Any, vectors: bool) -> tuple[Any, Any, int]:
    """The eigenvalues and eigenvectors of one matrix, of which the lower triangle is read."""
    n, kind = a.shape[-1], a.dtype
    matrix, values = _room_for(n * n, kind), np.zeros(n, _real(kind))
    matrix[:] = a.reshape(-1)
    info = 0
    if n:
        size, integers = eigh_work(n)
        more: list[Any] = []
        if kind.kind == "c":
            size, count = complex_eigh_work(n)
            more = [_room_for(count, _real(kind)), count]
        work, iwork = _room_for(size, kind), np.zeros(integers, np.int64)
        job = "V" if vectors else "N"
        info = _called(
            _named(kind, "syevd", "heevd"), job, "U", n, matrix, n, values, work, size, *more,
            iwork, integers,
        )  # fmt: skip
    # what was factored is the transpose, whose vectors are the conjugates
    return values, np.ascontiguousarray(matrix.reshape(n, n).T.conj()), info


def eigh_work(n: Any) -> tuple[Any, Any]:
    """Numbers and integers of workspace."""
    return 1 + (6 + BLOCK) * n + 2 * n * n, 3 + 5 * n


def eig(a: Any, vectors: bool) -> tuple[Any, Any, Any, Any, int]:
    """Real and imaginary parts of the eigenvalues and of the eigenvectors of one matrix."""
    n, kind = a.shape[-1], a.dtype
    re, im = np.zeros(n, kind), np.zeros(n, kind)
    if not n or not np.isfinite(a).all():
        # LAPACK may not end for numbers that are not finite
        return re, im, np.zeros((n, n), kind), np.zeros((n, n), kind), int(n > 0)
    matrix, packed = _room_for(n * n, kind), _room_for(n * n, kind)
    matrix[:] = a.T.reshape(-1)
    size = eig_work(n)
    work = _room_for(size, kind)
    job = "V" if vectors else "N"
    info = _called(
        _named(kind, "geev"), "N", job, n, matrix, n, re, im, packed, 1, packed, n, work, size
    )
    # of a pair the first column is the real part, the second the imaginary one
    columns = packed.reshape(n, n)
    first, second = np.arange(n), np.arange(n)
    first[im < 0] -= 1
    second[im > 0] += 1
    sign = np.sign(im)[:, None].astype(kind)
    imaginary = np.where(sign == 0, 0, columns[second] * sign)
    return re, im, np.ascontiguousarray(columns[first].T), np.ascontiguousarray(imaginary.T), info


def eig_work(n: Any) -> Any:
    """Numbers of workspace."""
    return (6 + 2 * BLOCK) * n


def complex_eigh_work(n: Any) -> tuple[Any, Any]:
    """Complex and real numbers of workspace for complex matrices, which take as many integers."""
    return 1 + (2 + BLOCK) * n + n * n, 1 + 5 * n + 2 * n * n


def svd(a: Any, rows: int, columns: int) -> tuple[Any, Any, Any, int]:
    """U [m, rows], the singular values and Vᵀ [columns, n] of one matrix; no vectors for 0."""
    (m, n), kind = a.shape, a.dtype
    k = min(m, n)
    u, vt = np.zeros((m, rows), kind), np.zeros((columns, n), kind)
    values = np.zeros(k, _real(kind))
    if not k:
        # of nothing all vectors will do
        return np.eye(m, rows, dtype=kind), values, np.eye(columns, n, dtype=kind), 0
    matrix = _room_for(m * n, kind)
    matrix[:] = a.reshape(-1)
    size = svd_work(m, n)
    more = [_room_for(complex_svd_work(m, n), _real(kind))] if kind.kind == "c" else []
    work, integers = _room_for(size, kind), np.zeros(8 * k, np.int64)
    job = "N" if not rows else "A" if (rows, columns) == (m, n) else "S"
    # by columns it is the transpose, whose factors are those of the matrix in the other order
    info = _called(
        _named(kind, "gesdd"), job, n, m, matrix, n, values, vt, n, u, max(rows, 1), work, size,
        *more, integers,
    )  # fmt: skip
    return u, values, vt, info


def svd_work(m: Any, n: Any) -> Any:
    """Numbers of workspace."""
    least, most = dim_min(m, n), dim_max(m, n)
    return 4 * least * least + 7 * least + most + BLOCK * (m + n)


def complex_svd_work(m: Any, n: Any) -> Any:
    """Real numbers of workspace for complex matrices, which take as many numbers of their own."""
    least, most = dim_min(m, n), dim_max(m, n)
    return 8 * least + 7 * least * least + 2 * most * least


# --- over stacks ---------------------------------------------------------------------------------


def each(function: Callable[[Any], tuple[Any, ...]], a: Any) -> tuple[Any, ...]:
    """What a function of a matrix gives, for each of a stack [*B, m, n]."""
    batch = a.shape[:-2]
    with _one_thread():
        found = [function(np.ascontiguousarray(a[place])) for place in np.ndindex(batch)]
        if not found:
            shown = function(np.zeros(a.shape[-2:], a.dtype))
            return tuple(np.zeros((*batch, *np.shape(x)), np.asarray(x).dtype) for x in shown)
    return tuple(
        np.stack([np.asarray(item) for item in items]).reshape((*batch, *np.shape(items[0])))
        for items in zip(*found, strict=True)
    )


def _over(
    function: Callable[..., tuple[Any, ...]], results: int
) -> tuple[Callable[..., tuple[Any, ...]], Callable[..., Any]]:
    """The reference of a routine and its fault, from a function of a matrix and further numbers,
    whose last result is what is found wrong."""

    def found(a: Any, m: int, n: int, numbers: tuple[int, ...], count: int) -> tuple[Any, ...]:
        stack = a.reshape(*a.shape[:-1], count, m, n)
        return each(lambda matrix: function(matrix, *numbers), stack)

    def reference(a: Any, m: int, n: int, *numbers: int) -> tuple[Any, ...]:
        *own, _, count, _ = numbers
        made = found(a, m, n, tuple(own), count)[:results]
        return tuple(array.reshape(*a.shape[:-1], -1) for array in made)

    def fault(a: Any, m: int, n: int, *numbers: int) -> Any:
        *own, first, count, _ = numbers
        bad = found(a, m, n, tuple(own), count)[-1] != 0
        if not count:
            return np.zeros(bad.shape[:-1], np.int64)
        return np.where(bad.any(-1), first + 1 + np.argmax(bad, -1), 0)

    return reference, fault


def _over_parts(
    function: Callable[..., tuple[Any, ...]], results: int
) -> tuple[Callable[..., tuple[Any, ...]], Callable[..., Any]]:
    """The same for a function of a complex matrix, whose parts are what the routine takes; complex
    results are two parts."""
    reference, fault = _over(function, results)

    def joined(re: Any, im: Any) -> Any:
        a = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
        a.real, a.imag = re, im
        return a

    def of_parts(re: Any, im: Any, *numbers: int) -> tuple[Any, ...]:
        parts: list[Any] = []
        for made in reference(joined(re, im), *numbers):
            parts += [made.real.copy(), made.imag.copy()] if made.dtype.kind == "c" else [made]
        return tuple(parts)

    return of_parts, lambda re, im, *numbers: fault(joined(re, im), *numbers)


def _eigenvalues(a: Any) -> tuple[Any, int]:
    values, _, info = eigh(a, False)
    return values, info


def _general_values(a: Any) -> tuple[Any, Any, int]:
    re, im, _, _, info = eig(a, False)
    return re, im, info


def _singular_values(a: Any) -> tuple[Any, int]:
    _, values, _, info = svd(a, 0, 0)
    return values, info


def _together(dtypes: DTypes, numbers: Numbers) -> int:
    return TOGETHER


def _bytes(dtypes: DTypes, numbers: Dim, integers: Dim = 0) -> Dim:
    return dtypes[0].bytes * numbers + 8 * integers + 4 * LANE_BYTES


def _qr_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    m, n, columns = numbers[:3]
    wide = dim_max(n, columns)
    return _bytes(dtypes, m * wide + dim_min(m, n) + 1 + BLOCK * (wide + 1))


def _eigh_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    n = numbers[0]
    work, integers = eigh_work(n)
    return _bytes(dtypes, n * n + work, integers)


def _eig_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    n = numbers[0]
    return _bytes(dtypes, 2 * n * n + eig_work(n))


def _svd_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    m, n = numbers[:2]
    return _bytes(dtypes, m * n + svd_work(m, n) + 1, 8 * dim_min(m, n))


def _complex_qr_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return 2 * _qr_room(dtypes, numbers)


def _complex_eigh_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    n = numbers[0]
    size, more = complex_eigh_work(n)
    return _bytes(dtypes, 2 * (n * n + size) + more, eigh_work(n)[1])


def _complex_svd_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    m, n, left, right = numbers[:4]
    own = m * n + m * left + right * n + svd_work(m, n) + 1
    return 2 * _bytes(dtypes, 2 * own + complex_svd_work(m, n), 8 * dim_min(m, n))


def _cost(factor: int) -> Callable[[DTypes, Numbers], Dim]:
    def work(dtypes: DTypes, numbers: Numbers) -> Dim:
        m, n, count = numbers[0], numbers[1], numbers[-2]
        each = 100 * ROUTINES.matrix + factor * ROUTINES.multiply_subtract * m * n * dim_min(m, n)
        return count * each

    return work


def _values_first(a: Any, rows: int, columns: int) -> tuple[Any, ...]:
    u, values, vt, info = svd(a, rows, columns)
    return values, u, vt, info


def _unfailing(a: Any, columns: int) -> tuple[Any, ...]:
    return (*qr(a, columns), 0)


_qr_reference, _ = _over(_unfailing, 2)
_eigh_reference, _eigh_fault = _over(lambda a: eigh(a, True), 2)
_values_reference, _values_fault = _over(_eigenvalues, 1)
_eig_reference, _eig_fault = _over(lambda a: eig(a, True), 4)
_eigvals_reference, _eigvals_fault = _over(_general_values, 2)
_svd_reference, _svd_fault = _over(svd, 3)
_svdvals_reference, _svdvals_fault = _over(_singular_values, 1)
_complex_qr_reference, _ = _over_parts(_unfailing, 2)
_complex_eigh_reference, _complex_eigh_fault = _over_parts(lambda a: eigh(a, True), 2)
_complex_svd_reference, _complex_svd_fault = _over_parts(_values_first, 3)


def _qr_extents(numbers: Numbers) -> Sequence[Dim]:
    rows, columns, kept = numbers[:3]
    return rows * columns, rows * kept, kept * columns


def _eigh_extents(numbers: Numbers) -> Sequence[Dim]:
    n, again = numbers[:2]
    return n * again, n, n * again


def _eig_extents(numbers: Numbers) -> Sequence[Dim]:
    n, again = numbers[:2]
    return n * again, n, n, n * again, n * again


def _svd_extents(numbers: Numbers) -> Sequence[Dim]:
    rows, columns, left, right = numbers[:4]
    return rows * columns, rows * left, dim_min(rows, columns), right * columns


def _svdvals_extents(numbers: Numbers) -> Sequence[Dim]:
    rows, columns = numbers[:2]
    return rows * columns, dim_min(rows, columns)


QR = enter(
    Routine(
        "qr", 1, 2, ("rows", "columns", "kept", *STACK), _qr_extents, _qr_reference,
        _qr_room, _cost(4), together=_together,
    )
)  # fmt: skip
EIGH = enter(
    Routine(
        "eigh", 1, 2, ("n", "n_again", *STACK), _eigh_extents, _eigh_reference, _eigh_room,
        _cost(10), _eigh_fault, problem=NO_EIGENVALUES, together=_together,
    )
)  # fmt: skip
EIGVALSH = enter(
    Routine(
        "eigvalsh", 1, 1, ("n", "n_again", *STACK), lambda numbers: _eigh_extents(numbers)[:2],
        _values_reference, _eigh_room, _cost(4), _values_fault, problem=NO_EIGENVALUES,
        together=_together,
    )
)  # fmt: skip
EIG = enter(
    Routine(
        "eig", 1, 4, ("n", "n_again", *STACK), _eig_extents, _eig_reference, _eig_room,
        _cost(25), _eig_fault, problem=NO_EIGENVALUES, together=_together,
    )
)  # fmt: skip
EIGVALS = enter(
    Routine(
        "eigvals", 1, 2, ("n", "n_again", *STACK), lambda numbers: _eig_extents(numbers)[:3],
        _eigvals_reference, _eig_room, _cost(10), _eigvals_fault, problem=NO_EIGENVALUES,
        together=_together,
    )
)  # fmt: skip
SVD = enter(
    Routine(
        "svd", 1, 3, ("rows", "columns", "left", "right", *STACK), _svd_extents, _svd_reference,
        _svd_room, _cost(20), _svd_fault, problem=NO_SINGULAR_VALUES, together=_together,
    )
)  # fmt: skip
SVDVALS = enter(
    Routine(
        "svdvals", 1, 1, ("rows", "columns", *STACK), _svdvals_extents, _svdvals_reference,
        _svd_room, _cost(8), _svdvals_fault, problem=NO_SINGULAR_VALUES, together=_together,
    )
)  # fmt: skip



def _complex_svd_extents(numbers: Numbers) -> Sequence[Dim]:
    a, u, values, vt = _svd_extents(numbers)
    return a, a, values, u, u, vt, vt


def _of_parts(extents: Callable[[Numbers], Sequence[Dim]], pairs: Sequence[bool]) -> Any:
    """Those of a routine of complex matrices, in which some arrays are two parts."""

    def every(numbers: Numbers) -> Sequence[Dim]:
        found = zip(extents(numbers), pairs, strict=True)
        return [size for size, is_pair in found for _ in range(1 + is_pair)]

    return every


COMPLEX_QR = enter(
    Routine(
        "complex_qr", 2, 4, ("rows", "columns", "kept", *STACK),
        _of_parts(_qr_extents, (True, True, True)), _complex_qr_reference, _complex_qr_room,
        _cost(16), together=_together,
    )
)  # fmt: skip
COMPLEX_EIGH = enter(
    Routine(
        "complex_eigh", 2, 3, ("n", "n_again", *STACK),
        _of_parts(_eigh_extents, (True, False, True)), _complex_eigh_reference,
        _complex_eigh_room, _cost(40), _complex_eigh_fault, problem=NO_EIGENVALUES,
        together=_together,
    )
)  # fmt: skip
COMPLEX_SVD = enter(
    Routine(
        "complex_svd", 2, 5, ("rows", "columns", "left", "right", *STACK),
        _complex_svd_extents, _complex_svd_reference, _complex_svd_room, _cost(80),
        _complex_svd_fault, problem=NO_SINGULAR_VALUES, together=_together,
    )
)  # fmt: skip

_REAL = QR, EIGH, EIGVALSH, EIG, EIGVALS, SVD, SVDVALS
LAPACK = frozenset(made.name for made in (*_REAL, COMPLEX_QR, COMPLEX_EIGH, COMPLEX_SVD))
"""The routines that call it."""

__all__ = [
    "BLOCK",
    "COMPLEX_EIGH",
    "COMPLEX_QR",
    "COMPLEX_SVD",
    "EIG",
    "EIGH",
    "EIGVALS",
    "EIGVALSH",
    "LAPACK",
    "NO_EIGENVALUES",
    "NO_SINGULAR_VALUES",
    "QR",
    "SVD",
    "SVDVALS",
    "complex_eigh_work",
    "complex_svd_work",
    "each",
    "eig",
    "eig_work",
    "eigh",
    "eigh_work",
    "qr",
    "svd",
    "svd_work",
]
