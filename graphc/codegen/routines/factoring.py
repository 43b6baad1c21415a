"""The routines ``cholesky``, ``lu``, ``solve``, ``inv`` and ``solve_triangular``.

``graphc.kernel.routines.matrices`` says in which order each element is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, LType, ltype
from graphc.codegen.routines.matrices import (
    Matrix,
    Numbers,
    Stacked,
    each_part,
    gathered,
    ones,
    prefetch_next,
    remainders,
    scattered,
    some_columns,
    spread,
    subtract_row,
)
from graphc.ir.dtypes import DType

# --- Cholesky ------------------------------------------------------------------------------------


def _factored(f: Builder, upper: Matrix, n: Reg) -> Reg:
    """The upper factor in place of the upper triangle; where there is none."""
    kind = upper.type
    with f.loop(0, n, 1, [f.const(0, kind.truth)]) as loop:
        k = loop.index
        pivot = upper.get(k, k)
        bad = loop.carries[0] | (pivot <= 0.0)
        root = f.intrinsic("sqrt", kind, pivot)
        upper.put(root, k, k)
        scale = f.const(1.0, kind) / root
        for column, part in each_part(f, k + 1, n, kind):
            upper.put(upper.get(k, column, part) * spread(f, scale, part), k, column)
        with f.loop(k + 1, n) as rows:
            row = rows.index
            subtract_row(f, upper, row, upper.get(k, row), k, row, n)
        loop.yields = [bad]
    return loop.results[0]


def _factored_by_rows(
    f: Builder, upper: Matrix, n: Reg, each_row: Callable[[Reg], None]
) -> Reg:
    """The same of a matrix in each lane: each element is finished before it is written.

    What is subtracted from it comes in the same order.
    """
    kind = upper.type

    with f.loop(0, n, 1, [f.const(0, kind.truth)]) as loop:
        row = loop.index
        each_row(row)
        (pivot,) = remainders(f, upper, row, row, 1, row, lambda k: upper.get(k, row))
        bad = loop.carries[0] | (pivot <= 0.0)
        root = f.intrinsic("sqrt", kind, pivot)
        upper.put(root, row, row)
        scale = f.const(1.0, kind) / root
        for column, count in some_columns(f, row + 1, n):
            above = remainders(f, upper, row, column, count, row, lambda k: upper.get(k, row))
            for number, total in enumerate(above):
                upper.put(total * scale, row, column + number)
        loop.yields = [bad]
    return loop.results[0]


def _cholesky_alone(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> Reg:
    source, target = (Matrix(f, array, kind, numbers["n"]) for array in arrays)
    n = numbers["n"]
    upper = Matrix(f, room, kind, n)
    with f.each(n) as row, f.loop(0, row + 1) as columns:
        upper.put(source.get(row, columns.index), columns.index, row)
    bad = _factored(f, upper, n)
    zero = f.const(0.0, kind)
    with f.each(n) as row:
        with f.loop(0, row + 1) as columns:
            target.put(upper.get(columns.index, row), row, columns.index)
        with f.loop(row + 1, n) as columns:
            target.put(zero, row, columns.index)
    return bad


def _cholesky_lanes(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> Reg:
    source, target = arrays
    n = numbers["n"]
    gathered(f, source, room, n * n, kind)
    upper = Matrix(f, room, kind, 1, n)

    def ahead(row: Reg) -> None:
        for array in arrays:
            prefetch_next(f, array, n * n, row * n, n, kind)

    bad = _factored_by_rows(f, upper, n, ahead)
    zero = f.const(0.0, kind)
    with f.each(n) as row, f.loop(row + 1, n) as columns:
        upper.put(zero, columns.index, row)
    scattered(f, room, target, n * n, kind)
    return bad


# --- elimination ---------------------------------------------------------------------------------


def _eliminated(
    f: Builder, a: Matrix, rows: Reg, columns: Reg, others: Sequence[tuple[Matrix, Reg | int]],
    order: Matrix | None = None,
) -> tuple[Reg, Reg]:  # fmt: skip
    """Gaussian elimination in place, the row exchanges carried out on the others too, and on the
    ``order``; gives the sign of that, and where there is no inverse.

    Where each lane has a matrix, nothing is subtracted in the others: the factors for that are
    kept.
    """
    kind = a.type

    def each_lane(index: Reg) -> Reg:
        if kind.lanes == 1:
            return index
        if kind.bits < 64:
            index = f.convert("trunc", index, f"i{kind.bits}")
        return f.splat(index, kind.lanes)

    in_lanes = kind.lanes > 1
    steps = f.least(rows, columns)
    never = f.const(0, kind.truth)
    with f.loop(0, steps, 1, [never, f.const(1.0, kind)]) as loop:
        k = loop.index
        here = each_lane(k)
        start = f.intrinsic("fabs", kind, a.get(k, k))
        with f.loop(k + 1, rows, 1, [start, here]) as search:
            best, place = search.carries
            size = f.intrinsic("fabs", kind, a.get(search.index, k))
            larger = size > best
            search.yields = [
                f.select(larger, size, best),
                f.select(larger, each_lane(search.index), place),
            ]
        best, place = search.results
        bad, sign = loop.carries
        is_zero = best.equals(0.0)
        moved = place.differs(here)
        keeps = in_lanes or order is not None
        moving = [(a, f.const(0) if keeps else k, columns)]
        moving += [(other, f.const(0), f.like(width)) for other, width in others]
        if order is not None:
            moving.append((order, f.const(0), f.const(1)))
        if kind.lanes == 1:
            with f.when(moved):
                for matrix, first, last in moving:
                    exchanged(f, matrix, k, place, first, last)
        else:
            with f.loop(k + 1, rows) as below:
                mask = place.equals(each_lane(below.index))
                with f.when(any_lane(f, mask)):
                    for matrix, first, last in moving:
                        exchanged(f, matrix, k, below.index, first, last, mask)
        pivot = f.select(is_zero, f.const(1.0, kind), a.get(k, k))
        with f.loop(k + 1, rows) as below:
            row = below.index
            factor = a.get(row, k) / pivot
            a.put(factor, row, k)
            subtract_row(f, a, row, factor, k, k + 1, columns)
            for other, width in () if in_lanes else others:
                subtract_row(f, other, row, factor, k, 0, width)
        loop.yields = [bad | is_zero, f.select(moved, -sign, sign)]
    bad, sign = loop.results
    return sign, bad


def exchanged(
    f: Builder, matrix: Matrix, row: Reg, other: Reg, start: Reg, end: Reg, mask: Reg | None = None
) -> None:
    """Exchanges parts of two rows, in the lanes of the mask."""
    for column, part in each_part(f, start, end, matrix.type):
        one, two = matrix.get(row, column, part), matrix.get(other, column, part)
        matrix.put(two if mask is None else f.select(mask, two, one), row, column)
        matrix.put(one if mask is None else f.select(mask, one, two), other, column)


def _substituted(f: Builder, a: Matrix, x: Matrix, n: Reg, columns: Reg) -> None:
    """Solves with the upper triangle, in place."""
    with f.each(n) as step:
        k = n - 1 - step
        pivot = a.get(k, k)
        for column, part in each_part(f, 0, columns, x.type):
            x.put(x.get(k, column, part) / spread(f, pivot, part), k, column)
        with f.each(k) as row:
            subtract_row(f, x, row, a.get(row, k), k, 0, columns)


def _solved_by_rows(
    f: Builder, a: Matrix, x: Matrix, n: Reg, columns: Reg, each_row: Callable[[Reg], None]
) -> None:
    """Solves with both factors, in place, of matrices in lanes: each element is finished before it
    is written. What is subtracted from it comes in the same order."""
    with f.each(n) as row:
        each_row(row)
        for column, count in some_columns(f, 0, columns):
            rest = remainders(f, x, row, column, count, row, lambda k: a.get(row, k))
            for number, total in enumerate(rest):
                x.put(total, row, column + number)
    with f.each(n) as step:
        row = n - 1 - step
        pivot = a.get(row, row)
        for column, count in some_columns(f, 0, columns):
            rest = remainders(
                f, x, row, column, count, step, lambda k: a.get(row, k), lambda k: n - 1 - k
            )
            for number, total in enumerate(rest):
                x.put(total / pivot, row, column + number)


def _solve_alone(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> Reg:
    n = numbers["n"]
    source, *given, target = arrays
    bytes_ = kind.bits // 8
    f.copy_bytes(room, source, n * n * bytes_)
    if given:
        m = numbers["m"]
        f.copy_bytes(target, given[0], n * m * bytes_)
    x = Matrix(f, target, kind, numbers["m"] if given else n)
    if not given:
        m = n
        ones(f, x, n)
    a = Matrix(f, room, kind, n)
    _, bad = _eliminated(f, a, n, n, [(x, m)])
    _substituted(f, a, x, n, m)
    return bad


def _solve_lanes(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> Reg:
    n = numbers["n"]
    source, *given, target = arrays
    m = numbers["m"] if given else n
    behind = f.at(room, kind.text, n * n)
    gathered(f, source, room, n * n, kind)
    x = Matrix(f, behind, kind, m)
    if given:
        gathered(f, given[0], behind, n * m, kind)
    else:
        ones(f, x, n)
    a = Matrix(f, room, kind, n)
    _, bad = _eliminated(f, a, n, n, [(x, m)])

    def ahead(row: Reg) -> None:
        prefetch_next(f, source, n * n, row * n, n, kind)
        for array in (*given, target):
            prefetch_next(f, array, n * m, row * m, m, kind)

    _solved_by_rows(f, a, x, n, m, ahead)
    scattered(f, behind, target, n * m, kind)
    return bad


def _lu_alone(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> None:
    rows, columns = numbers["rows"], numbers["columns"]
    source, packed, order, sign = arrays
    f.copy_bytes(packed, source, rows * columns * (kind.bits // 8))
    places = Matrix(f, order, I64, 1)
    with f.each(rows) as row:
        places.put(row, row, 0)
    found, _ = _eliminated(f, Matrix(f, packed, kind, columns), rows, columns, [], places)
    f.store(found, sign, kind.bits // 8)


def _lu_lanes(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> None:
    rows, columns = numbers["rows"], numbers["columns"]
    source, packed, order, sign = arrays
    size = rows * columns
    gathered(f, source, room, size, kind)
    integer = ltype(f"i{kind.bits}")
    places = Matrix(f, f.at(room, kind.text, size), kind.of(integer.element), 1)
    with f.each(rows) as row:
        number = row if kind.bits == 64 else f.convert("trunc", row, integer.element)
        places.put(f.splat(number, kind.lanes), row, 0)
    found, _ = _eliminated(f, Matrix(f, room, kind, columns), rows, columns, [], places)
    scattered(f, room, packed, size, kind)
    with f.each(rows) as row:
        numbers_ = places.get(row, 0)
        for lane in range(kind.lanes):
            number = f.assign(integer, f"extractelement {numbers_}, i64 {lane}")
            if kind.bits < 64:
                number = f.convert("sext", number, "i64")
            f.store(number, f.at(order, "i64", rows * lane, row), 8)
    f.store(found, sign, kind.bits // 8)


# --- triangles -----------------------------------------------------------------------------------


def _triangle(
    f: Builder, source: Reg, numbers: Numbers, kind: LType, x: Matrix
) -> Reg:
    """Solves with a triangle, in place; where there is a zero on the diagonal."""
    n, m = numbers["n"], numbers["m"]
    transposed, unit = numbers["transposed"].differs(0), numbers["unit"].differs(0)
    a = Matrix(f, source, kind, f.select(transposed, 1, n), f.select(transposed, n, 1))
    below = numbers["lower"].differs(0) ^ transposed
    one = f.const(1.0, kind)
    never = f.const(0, kind.truth)
    with f.loop(0, n, 1, [never]) as loop:
        step = loop.index
        k = f.select(below, step, n - 1 - step)
        pivot = f.select(unit, one, a.get(k, k))
        for column, part in each_part(f, 0, m, kind):
            x.put(x.get(k, column, part) / spread(f, pivot, part), k, column)
        with f.loop(f.select(below, k + 1, 0), f.select(below, n, k)) as rest:
            subtract_row(f, x, rest.index, a.get(rest.index, k), k, 0, m)
        loop.yields = [loop.carries[0] | pivot.equals(0.0)]
    return loop.results[0]


def _triangle_alone(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> Reg:
    source, given, target = arrays
    n, m = numbers["n"], numbers["m"]
    f.copy_bytes(target, given, n * m * (kind.bits // 8))
    return _triangle(f, source, numbers, kind, Matrix(f, target, kind, m))


def _triangle_lanes(
    f: Builder, arrays: Sequence[Reg], numbers: Numbers, room: Reg, kind: LType
) -> Reg:
    source, given, target = arrays
    n, m = numbers["n"], numbers["m"]
    behind = f.at(room, kind.text, n * n)
    gathered(f, source, room, n * n, kind)
    gathered(f, given, behind, n * m, kind)
    bad = _triangle(f, room, numbers, kind, Matrix(f, behind, kind, m))
    scattered(f, behind, target, n * m, kind)
    return bad


# --- definitions ---------------------------------------------------------------------------------


def _squares(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    return [numbers["n"] * numbers["n"]] * 2


def _systems(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    n, m = numbers["n"], numbers["m"]
    return n * n, n * m, n * m


def _factors(f: Builder, numbers: Numbers) -> Sequence[Reg]:
    size = numbers["rows"] * numbers["columns"]
    return size, size, numbers["rows"], f.const(1)


_CHOLESKY = Stacked(("a", "target"), ("n",), _squares, _cholesky_alone, _cholesky_lanes, ("n",))
_INVERSE = Stacked(("a", "target"), ("n",), _squares, _solve_alone, _solve_lanes, ("n",))
_SOLVE = Stacked(
    ("a", "b", "target"), ("n", "m"), _systems, _solve_alone, _solve_lanes, ("n", "m")
)
_TRIANGULAR = Stacked(
    ("a", "b", "target"),
    ("n", "m", "lower", "transposed", "unit"),
    _systems,
    _triangle_alone,
    _triangle_lanes,
    ("n", "m"),
)
_LU = Stacked(
    ("a", "packed", "order", "sign"),
    ("rows", "columns"),
    _factors,
    _lu_alone,
    _lu_lanes,
    ("rows", "columns"),
    fails=False,
)


def emit_cholesky(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, target, n, …): the lower factor of what is on and below the diagonal."""
    _CHOLESKY.emit(module, name, dtypes)


def emit_inverse(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, target, n, …)."""
    _INVERSE.emit(module, name, dtypes)


def emit_solve(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, b, target, n, m, …)."""
    _SOLVE.emit(module, name, dtypes)


def emit_solve_triangular(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, b, target, n, m, lower, transposed, unit, …)."""
    _TRIANGULAR.emit(module, name, dtypes)


def emit_lu(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (a, packed, order, sign, rows, columns, …)."""
    _LU.emit(module, name, dtypes)


__all__ = [
    "emit_cholesky",
    "emit_inverse",
    "emit_lu",
    "emit_solve",
    "emit_solve_triangular",
    "exchanged",
]
