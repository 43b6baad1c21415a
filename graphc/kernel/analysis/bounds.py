"""Whether every load and store of a kernel is within its buffer, for all sizes that guards allow.

A place is an int64 that the kernel computes from indices of loops, sizes and checked indices, so it
is a dim over the symbols and one further symbol for each index. ``overruns`` bounds that dim from
below and from above and proves that both bounds are in the buffer: loops that run have at least one
iteration, a condition of a load holds where it reads, and guards hold (``Prover``). What it can't
prove it gives back: ``Overrun.guard`` is then required of the sizes of each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.base.source import Location
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.dtypes import bool_, int64
from graphc.ir.guard import Guard
from graphc.ir.proof.facts import Assumed
from graphc.ir.proof.prover import Prover
from graphc.kernel.ir import (
    Apply,
    Buffer,
    Cast,
    Check,
    Const,
    Contract,
    DimValue,
    Kernel,
    Load,
    Loop,
    MatrixOperand,
    Reduce,
    Size,
    Statement,
    Store,
    Var,
)

Condition = tuple[str, Dim, Dim]
"""A relation that holds of two dims: "lt", "le" or "eq"."""

_RELATIONS: Mapping[str, tuple[str, bool]] = {
    "less": ("lt", False), "less_equal": ("le", False), "greater": ("lt", True),
    "greater_equal": ("le", True), "equal": ("eq", False),
}  # fmt: skip
"""Primitives that compare, as relations, and whether their operands change places."""

_ARITHMETIC: Mapping[str, Callable[..., Dim]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "negative": lambda a: -a,
    "floor_divide": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "minimum": expressions.dim_min,
    "maximum": expressions.dim_max,
}


@dataclass(frozen=True, slots=True)
class Overrun:
    """An access that is not proved to be within its buffer.

    Attributes:
        statement: the load, store or product.
        buffer: what it touches.
        place: the element that it touches, in terms of indices; None where that is not known.
        size: how many elements the buffer has.
        runs: the most iterations of loops around: with one that is 0 nothing is touched.
        ends: the least and the greatest place, in terms of sizes; None where they are not known.
        conditional: it is touched under a condition only.
    """

    statement: Statement
    buffer: Buffer
    place: Dim | None
    size: Dim
    runs: tuple[Dim, ...]
    ends: tuple[Dim, Dim] | None = None
    conditional: bool = False

    def guard(self, kernel: str, where: Location | None) -> Guard | None:
        """What has to hold of sizes for the access to be right.

        None where that is not known, and under a condition, which not all iterations meet.
        """
        if self.ends is None or self.conditional:
            return None
        low, high = self.ends
        holds = expressions.select("lt", high, self.size, expressions.select("lt", low, 0, 0, 1), 0)
        for extent in self.runs:
            holds = expressions.select("lt", extent, 1, 1, holds)
        message = f"kernel {kernel!r} would touch elements {{}} to {{}} of {self.buffer.name!r}, "
        message += "which has {}: a fault of the compiler"
        return Guard(holds, 1, message, where, False, (low, high, self.size))

    def __str__(self) -> str:
        shown = "an element that is not known" if self.place is None else f"element {self.place}"
        runs = f", in loops of {', '.join(map(str, self.runs))}" if self.runs else ""
        return f"{shown} of {self.buffer.name!r} of {self.size} elements{runs}"


def overruns(kernel: Kernel, guards: Sequence[Guard] = ()) -> list[Overrun]:
    """The accesses of a kernel that are not proved to be within their buffers."""
    return _Walk(kernel, guards).run()


class _Walk:
    """One walk over the statements; ``values`` has what is known of scalars."""

    def __init__(self, kernel: Kernel, guards: Sequence[Guard]) -> None:
        self._kernel = kernel
        self._assumed = Assumed(guards)
        self._values: dict[Var, Dim] = {}
        self._conditions: dict[Var, tuple[Condition, ...]] = {}
        self._indices: list[tuple[DimExpr, Dim]] = []
        self._checked: list[tuple[DimExpr, Dim]] = []
        self._facts: list[Condition] = []
        self._proved: set[tuple[object, ...]] = set()
        self._found: list[Overrun] = []
        self._blind = 0
        self._count = 0

    def run(self) -> list[Overrun]:
        self._body(self._kernel.body)
        return self._found

    def _body(self, body: Sequence[Statement]) -> None:
        # as deep as loops are nested
        for statement in body:
            if isinstance(statement, (Loop, Reduce)):
                self._loop(statement)
            elif isinstance(statement, Load):
                if statement.result.dtype is int64:
                    self._values[statement.result] = self._unknown()
                condition = statement.condition
                holds = () if condition is None else self._conditions.get(condition, ())
                self._access(statement, statement.buffer, self._values.get(statement.index), holds)
            elif isinstance(statement, Store):
                self._access(statement, statement.buffer, self._values.get(statement.index))
            elif isinstance(statement, Contract):
                self._contract(statement)
            else:
                self._scalar(statement)

    def _unknown(self) -> DimExpr:
        """A symbol for a number that may be any."""
        self._count += 1
        return expressions.symbol(f"number {self._count}", -(2**62))

    def _position(self, extent: Dim) -> DimExpr:
        """A symbol for a place in an axis of this length."""
        symbol = self._index(extent)
        self._checked.append(self._indices.pop())
        return symbol

    def _index(self, extent: Dim) -> DimExpr:
        """A symbol for an index of this extent."""
        self._count += 1
        last = extent - 1 if isinstance(extent, int) and extent else None
        symbol = expressions.symbol(f"index {self._count}", 0, last)
        self._indices.append((symbol, extent))
        return symbol

    def _size(self, size: Size) -> Dim | None:
        return self._values.get(size) if isinstance(size, Var) else size

    def _loop(self, statement: Loop | Reduce) -> None:
        extent = self._size(statement.extent)
        if extent is None:
            self._blind += 1
            self._body(statement.body)
            self._blind -= 1
            return
        if extent == 0:
            return
        self._values[statement.index] = self._index(extent)
        self._body(statement.body)
        self._indices.pop()
        if isinstance(statement, Reduce):
            for reducer in statement.reducers:
                if reducer.combine.startswith("arg"):
                    # a position, 0 if there is none
                    self._values[reducer.result] = self._position(expressions.dim_max(extent, 1))
                elif reducer.result.dtype is int64:
                    self._values[reducer.result] = self._unknown()

    def _scalar(self, statement: Statement) -> None:
        if isinstance(statement, Const):
            if statement.result.dtype is int64:
                self._values[statement.result] = int(statement.value)
        elif isinstance(statement, DimValue):
            self._values[statement.result] = statement.dim
        elif isinstance(statement, Check):
            # with an axis of 0 elements there is no index, which a guard has seen to
            self._values[statement.result] = self._position(statement.bound)
        elif isinstance(statement, Cast):
            if statement.operand.dtype is statement.result.dtype and (
                statement.operand in self._values
            ):
                self._values[statement.result] = self._values[statement.operand]
        elif isinstance(statement, Apply):
            self._apply(statement)

    def _apply(self, statement: Apply) -> None:
        primitive, operands, result = statement.primitive, statement.operands, statement.result
        if result.dtype is bool_:
            if primitive == "and":
                both = (self._conditions.get(operand, ()) for operand in operands)
                self._conditions[result] = tuple(c for one in both for c in one)
            elif primitive in _RELATIONS:
                sides = [self._values.get(operand) for operand in operands]
                relation, swapped = _RELATIONS[primitive]
                left, right = sides[::-1] if swapped else sides
                if left is not None and right is not None:
                    self._conditions[result] = ((relation, left, right),)
            return
        if result.dtype is not int64:
            return
        if primitive == "select":
            condition = self._conditions.get(operands[0], ())
            yes, no = (self._values.get(operand) for operand in operands[1:])
            if yes is None or no is None:
                return
            if len(condition) == 1:
                self._values[result] = expressions.select(*condition[0], yes, no)
            else:
                self._values[result] = one = self._unknown()
                self._facts.append(("le", one, expressions.dim_max(yes, no)))
                self._facts.append(("le", expressions.dim_min(yes, no), one))
            return
        known = [self._values[operand] for operand in operands if operand in self._values]
        function = _ARITHMETIC.get(primitive)
        if function is not None and len(known) == len(operands):
            try:
                self._values[result] = function(*known)
            except ZeroDivisionError:
                return

    def _contract(self, statement: Contract) -> None:
        sizes = [self._size(size) for size in (statement.m, statement.n, statement.k)]
        m, n, k = sizes
        if 0 in (m, n):
            return
        extents = {"a": (m, k), "b": (k, n), "c": (m, n)}
        for name, (rows, columns) in extents.items():
            operand: MatrixOperand = getattr(statement, name)
            if name == "b" and statement.template == "packed":
                continue  # a constant in panels, of known sizes
            offset = self._values.get(operand.offset)
            strides = [self._size(size) for size in (operand.row_stride, operand.column_stride)]
            if None in (rows, columns, offset, *strides):
                self._found.append(self._overrun(statement, operand.buffer, None))
                continue
            assert rows is not None and columns is not None and offset is not None
            row_stride, column_stride = strides
            assert row_stride is not None and column_stride is not None
            around = [rows, columns]
            if name == "c":
                first, last = self._index(rows), self._index(columns)
                place = offset + first * row_stride + last * column_stride
                self._access(statement, operand.buffer, place)
                del self._indices[-2:]
                continue
            # without depth nothing is read
            depth = around[1] if name == "a" else around[0]
            if depth == 0:
                continue
            first, last = self._index(rows), self._index(columns)
            place = offset + first * row_stride + last * column_stride
            self._access(statement, operand.buffer, place)
            del self._indices[-2:]

    # --- accesses --------------------------------------------------------------------------------

    def _overrun(
        self,
        statement: Statement,
        buffer: Buffer,
        place: Dim | None,
        ends: tuple[Dim, Dim] | None = None,
    ) -> Overrun:
        prover = Prover(self._assumed, [*self._checked, *self._indices], self._facts)
        most = [self._most(prover, extent) for _, extent in self._indices]
        runs = tuple(extent for extent in most if extent is not None)
        conditional = isinstance(statement, Load) and statement.condition is not None
        return Overrun(statement, buffer, place, buffer.type.size, runs, ends, conditional)

    def _access(
        self,
        statement: Statement,
        buffer: Buffer,
        place: Dim | None,
        holds: Iterable[Condition] = (),
    ) -> None:
        size = buffer.type.size
        if place is None or self._blind:
            self._found.append(self._overrun(statement, buffer, None))
            return
        conditions = tuple(holds)
        known = (place, size, conditions, tuple(self._indices))
        if known in self._proved:
            return
        self._proved.add(known)
        prover = Prover(
            self._assumed, [*self._checked, *self._indices], (*self._facts, *conditions)
        )
        if prover.holds(place) and prover.holds(size - 1 - place):
            return
        self._found.append(self._overrun(statement, buffer, place, self._ends(prover, place)))

    def _ends(self, prover: Prover, place: Dim) -> tuple[Dim, Dim] | None:
        """The least and the greatest place in terms of sizes; None where they are not known."""
        least, most = self._most(prover, -place), self._most(prover, place)
        return None if least is None or most is None else (-least, most)

    def _most(self, prover: Prover, value: Dim) -> Dim | None:
        """An upper bound in terms of sizes; None where that is not known."""
        most = prover.most(value)
        is_known = most is not None and expressions.symbols_of(most) <= self._kernel.symbols
        return most if is_known else None


__all__ = ["Overrun", "overruns"]
