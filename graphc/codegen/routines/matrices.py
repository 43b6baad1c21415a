"""Matrices in the lanes of vectors, or one by itself: what routines over stacks are made of.

A stack of small matrices is worked on as many at a time as a vector has lanes, each in a lane. A
matrix that is large, or left over, is worked on alone, with vectors along its rows. Both do the
same operations on each element, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphc.base.tuning.routines import ROUTINES
from graphc.codegen.gemm.builder import Builder, edge_mask, masked_load, masked_store
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane, first_lane
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.prefetch import prefetch
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.transpose import transposed
from graphc.codegen.llvm.types import I64, PTR, LType, ltype
from graphc.ir.dtypes import DType
from graphc.kernel.routines.matrices import LANE_BYTES


class Matrix:
    """Elements of a matrix in memory, or those of several side by side, as many as lanes.

    Attributes:
        type: of what stands at a place: a scalar, or a vector with a lane for each matrix.
    """

    __slots__ = ("_base", "_column", "_f", "_row", "type")

    def __init__(
        self, f: Builder, base: Reg, type_: LType, row: Reg | int, column: Reg | int = 1
    ) -> None:
        """``row`` and ``column`` are how far the next one is."""
        self._f, self._base, self.type = f, base, type_
        self._row, self._column = f.like(row), f.like(column)

    def at(self, row: Reg, column: Reg | int) -> Reg:
        """The address of an element."""
        place = row * self._row + self._f.like(column) * self._column
        return self._f.at(self._base, self.type.text, place)

    def get(self, row: Reg, column: Reg | int, type_: LType | None = None) -> Reg:
        """An element; of another type so many along its row."""
        kind = type_ or self.type
        return self._f.load(self.at(row, column), kind, kind.bits // 8)

    def put(self, value: Reg, row: Reg, column: Reg | int) -> None:
        """Writes an element, or several along its row."""
        self._f.store(value, self.at(row, column), value.type.bits // 8)


def each_part(
    f: Builder, start: Reg | int, end: Reg | int, type_: LType
) -> Iterator[tuple[Reg, LType]]:
    """Emits loops over a range of columns: one by one where lanes are matrices, else by vectors
    and then one by one. The caller's body runs for each, with the column and the type."""
    first, last = f.like(start), f.like(end)
    if type_.lanes == 1:
        wide = ltype(type_.element, LANE_BYTES * 8 // type_.bits)
        whole = first + (last - first).down_to(wide.lanes)
        with f.loop(first, whole, wide.lanes) as loop:
            yield loop.index, wide
        first = whole
    with f.loop(first, last) as loop:
        yield loop.index, type_


def spread(f: Builder, value: Reg, type_: LType) -> Reg:
    """A factor of a row beside its elements."""
    return f.splat(value, type_.lanes) if value.type.lanes == 1 else value


def subtract_row(
    f: Builder,
    matrix: Matrix,
    row: Reg,
    factor: Reg,
    other: Reg,
    start: Reg | int,
    end: Reg | int,
) -> None:
    """``matrix[row] -= factor * matrix[other]`` in a range of columns."""
    for column, kind in each_part(f, start, end, matrix.type):
        term = spread(f, factor, kind) * matrix.get(other, column, kind)
        matrix.put(matrix.get(row, column, kind) - term, row, column)


_COLUMNS = 4
"""Elements of a row that are finished side by side: one factor is loaded for all of them."""


def some_columns(
    f: Builder, start: Reg | int, end: Reg
) -> Iterator[tuple[Reg, int]]:
    """Emits loops over a range of columns, some at a time and then one by one; the caller's body
    runs for both, with the first column and how many there are."""
    first = f.like(start)
    whole = first + (end - first).down_to(_COLUMNS)
    for low, high, count in ((first, whole, _COLUMNS), (whole, end, 1)):
        with f.loop(low, high, count) as loop:
            yield loop.index, count


def remainders(
    f: Builder,
    matrix: Matrix,
    row: Reg,
    column: Reg,
    count: int,
    steps: Reg,
    factor: Callable[[Reg], Reg],
    place: Callable[[Reg], Reg] = lambda step: step,
) -> list[Reg]:
    """Elements of a row less the factors of so many rows times theirs: of the first ``steps`` rows,
    or of those in ``place`` of the steps."""
    columns = [column + number for number in range(count)]
    start = [matrix.get(row, each) for each in columns]
    with f.loop(0, steps, 1, start) as loop:
        other = place(loop.index)
        scale = factor(other)
        loop.yields = [
            total - scale * matrix.get(other, each)
            for total, each in zip(loop.carries, columns, strict=True)
        ]
    return list(loop.results)


def ones(f: Builder, matrix: Matrix, n: Reg) -> None:
    """Makes it the identity."""
    one, zero = f.const(1.0, matrix.type), f.const(0.0, matrix.type)
    with f.each(n) as row:
        with f.each(n) as column:
            matrix.put(zero, row, column)
        matrix.put(one, row, row)


# --- into lanes and out of them ------------------------------------------------------------------


def gathered(f: Builder, source: Reg, room: Reg, size: Reg, type_: LType) -> None:
    """Puts the elements of as many matrices as lanes side by side.

    It writes up to as many vectors as lanes behind them.
    """

    def block(start: Reg, mask: Reg | None) -> None:
        lines = []
        for lane in range(type_.lanes):
            place = f.at(source, type_.element, size * lane, start)
            lines.append(masked_load(f, place, type_, mask))
        for number, line in enumerate(transposed(f, lines)):
            f.store(line, f.at(room, type_.text, start, number), type_.bits // 8)

    _blocks(f, size, type_.lanes, block)


def scattered(f: Builder, room: Reg, target: Reg, size: Reg, type_: LType) -> None:
    """Puts elements that stand side by side back into matrices of their own."""

    def block(start: Reg, mask: Reg | None) -> None:
        lines = []
        for number in range(type_.lanes):
            place = f.at(room, type_.text, start, number)
            lines.append(f.load(place, type_, type_.bits // 8))
        for lane, line in enumerate(transposed(f, lines)):
            place = f.at(target, type_.element, size * lane, start)
            masked_store(f, line, place, mask)

    _blocks(f, size, type_.lanes, block)


def prefetch_next(
    f: Builder, array: Reg, size: Reg, first: Reg, count: Reg, type_: LType
) -> None:
    """Prefetches some of the vectors that the next matrices take, of so many elements each.

    In memory their rows lie apart, and few of them at a time, which the processor does not follow.
    """
    behind = f.at(array, type_.text, size)
    with f.each(count) as number:
        prefetch(f, f.at(behind, type_.text, first, number), type_.bits // 8, near=False)


def _blocks(f: Builder, size: Reg, lanes: int, block: Callable[[Reg, Reg | None], None]) -> None:
    """Squares of elements and matrices; the last one overlaps, or has too few elements."""
    fills = size >= lanes
    with f.when(fills):
        whole = size.down_to(lanes)
        with f.loop(0, whole, lanes) as loop:
            block(loop.index, None)
        with f.when(whole < size):
            block(size - lanes, None)
    with f.when(~fills):
        block(f.const(0), edge_mask(f, size, lanes))


# --- routines ------------------------------------------------------------------------------------

Numbers: TypeAlias = Mapping[str, Reg]
Work: TypeAlias = Callable[[Builder, Sequence[Reg], Numbers, Reg, LType], "Reg | None"]
"""Emits the work on one matrix, or on one in each lane of the type, from the addresses of the first
one's arrays, the numbers and the room; gives where it fails."""


@dataclass(frozen=True, slots=True)
class Stacked:
    """A routine over stacks of matrices.

    Attributes:
        arrays: its sources and targets.
        numbers: those that say what matrices are like.
        sizes: how many elements of each array belong to a matrix.
        alone: the work on one matrix.
        lanes: the work on as many as there are lanes; None where each matrix is worked on alone.
        sides: the numbers that must be small for lanes.
        around: defines what is called before and after all work of a call, and gives the names.
        fails: whether it tells of matrices that it fails for.
    """

    arrays: tuple[str, ...]
    numbers: tuple[str, ...]
    sizes: Callable[[Builder, Numbers], Sequence[Reg]]
    alone: Work
    lanes: Work | None = None
    sides: tuple[str, ...] = ()
    around: Callable[[ModuleEmitter], tuple[str, str]] | None = None
    fails: bool = True

    def emit(self, module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
        """Defines (arrays, numbers, first, count, total, room)."""
        kind = ltype(storage(dtypes[0]))
        wide = ltype(kind.element, LANE_BYTES * 8 // kind.bits)
        one = self._part(module, f"{name}_alone", self.alone, kind)
        before, behind = ("", "") if self.around is None else self.around(module)
        pointers = " ".join(f"*{array}" for array in self.arrays)
        words = f"{pointers} {' '.join(self.numbers)} first count total *room"
        result = I64 if self.fails else None
        f = Builder(module, name, words, internal=False, result=result)
        arrays = f.given(*self.arrays)
        numbers = dict(zip(self.numbers, f.given(*self.numbers), strict=True))
        first, count, room = f.given("first", "count", "room")
        address = (f.assign(I64, f"ptrtoint {room} to i64")).up_to(LANE_BYTES)
        room = f.assign(PTR, f"inttoptr {address} to ptr")
        if self.lanes is not None:
            many = self._part(module, f"{name}_lanes", self.lanes, wide)
            fits = count.equals(wide.lanes)
            for side in self.sides:
                fits = fits & (numbers[side] <= ROUTINES.most_small)
            with f.when(fits):
                found = f.call(many, I64, *arrays, *numbers.values(), room)
                f.give(f.select(found.equals(0), 0, found + first))
        if before:
            f.call(before, None)
        sizes = self.sizes(f, numbers)
        with f.loop(0, count, 1, [f.const(0)]) as loop:
            places = [
                f.at(array, ltype(storage(dtype)).text, size * loop.index)
                for array, dtype, size in zip(arrays, dtypes, sizes, strict=True)
            ]
            found = f.call(one, I64, *places, *numbers.values(), room)
            (bad,) = loop.carries
            is_first = bad.equals(0) & found.differs(0)
            loop.yields = [f.select(is_first, first + loop.index + 1, bad)]
        if behind:
            f.call(behind, None)
        f.finish(loop.results[0])

    def _part(self, module: ModuleEmitter, name: str, work: Work, kind: LType) -> str:
        """Defines (arrays, numbers, room), which gives 1 more than the lane that fails, or 0."""
        pointers = " ".join(f"*{array}" for array in self.arrays)
        words = f"{pointers} {' '.join(self.numbers)} *room"
        f = Builder(module, name, words, result=I64)
        numbers = dict(zip(self.numbers, f.given(*self.numbers), strict=True))
        bad = work(f, f.given(*self.arrays), numbers, f.parameter("room"), kind)
        if bad is None:
            f.finish(0)
        elif kind.lanes == 1:
            f.finish(f.convert("zext", bad, "i64"))
        else:
            some = any_lane(f, bad)
            with f.when(some):
                f.give(first_lane(f, bad) + 1)
            f.finish(0)
        return name


__all__ = [
    "Matrix",
    "Numbers",
    "Stacked",
    "each_part",
    "gathered",
    "ones",
    "prefetch_next",
    "remainders",
    "scattered",
    "some_columns",
    "spread",
    "subtract_row",
]
