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
from graphc.kernel.ir import Block, Buffer, Kernel, Size, Statement, Var
from graphc.kernel.statements.base import Touch

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
        buffer: the buffer that it accesses.
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
        """The guard under which the access is within its buffer.

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
    """One walk over the statements; ``_values`` has scalars as dims, where they are known."""

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
            block = statement.block
            if block is not None:
                self._loop(block)
                continue
            if statement.is_scalar:
                self._scalar(statement)
            for touch in statement.touches:
                self._touch(statement, touch)

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

    def _loop(self, statement: Block) -> None:
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
        for reducer in statement.reducers:
            if reducer.combine.startswith("arg"):
                # a position, 0 if there is none
                self._values[reducer.result] = self._position(expressions.dim_max(extent, 1))
            elif reducer.result.dtype is int64:
                self._values[reducer.result] = self._unknown()

    def _scalar(self, statement: Statement) -> None:
        (result,), primitive = statement.results, statement.primitive
        if primitive is not None:
            self._apply(primitive, statement.operands, result)
            return
        known, below, same = statement.known, statement.below, statement.same
        if known is not None:
            self._values[result] = known
        elif below is not None:
            # with an axis of 0 elements there is no index, which a guard has seen to
            self._values[result] = self._position(below)
        elif same is not None and same in self._values:
            self._values[result] = self._values[same]
        elif result.dtype is int64:
            self._values[result] = self._unknown()

    def _apply(self, primitive: str, operands: Sequence[Var], result: Var) -> None:
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

    # --- accesses --------------------------------------------------------------------------------

    def _touch(self, statement: Statement, touch: Touch) -> None:
        if 0 in map(self._size, touch.runs):
            return
        axes = [(self._size(extent), self._size(stride)) for extent, stride in touch.axes]
        place, around = self._values.get(touch.place), len(self._indices)
        for extent, stride in axes:
            if place is None or extent is None or stride is None:
                place = None
                del self._indices[around:]
                break
            place = place + self._index(extent) * stride
        holds = () if touch.condition is None else self._conditions.get(touch.condition, ())
        self._access(statement, touch, place, holds)
        del self._indices[around:]

    def _overrun(
        self,
        statement: Statement,
        touch: Touch,
        place: Dim | None,
        ends: tuple[Dim, Dim] | None = None,
    ) -> Overrun:
        prover = Prover(self._assumed, [*self._checked, *self._indices], self._facts)
        most = [self._most(prover, extent) for _, extent in self._indices]
        runs = tuple(extent for extent in most if extent is not None)
        buffer, conditional = touch.buffer, touch.condition is not None
        return Overrun(statement, buffer, place, buffer.type.size, runs, ends, conditional)

    def _access(
        self,
        statement: Statement,
        touch: Touch,
        place: Dim | None,
        holds: Iterable[Condition] = (),
    ) -> None:
        size = touch.buffer.type.size
        if place is None or self._blind:
            self._found.append(self._overrun(statement, touch, None))
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
        self._found.append(self._overrun(statement, touch, place, self._ends(prover, place)))

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
