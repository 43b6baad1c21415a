"""Building kernels: expressions are shared and hoisted as they are made.

An expression is placed in the outermost block where its operands exist, and an equal one already
there is used again. So loop-invariant code motion and common subexpressions need no pass, and
shared diamonds cost no recomputation. Loads of buffers that the kernel itself writes stay where
they are asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphc.ir.attributes import key as attribute_key
from graphc.ir.dims.expressions import Dim, compare
from graphc.ir.dtypes import DType, bool_, int64, uint64
from graphc.ir.lowering import Combine
from graphc.ir.types import TensorType
from graphc.kernel.analysis.index_range import Affine, corners
from graphc.kernel.ir import (
    Buffer,
    Kernel,
    LoopKind,
    Order,
    Role,
    Site,
    Size,
    Statement,
    Var,
    walk,
)
from graphc.kernel.scalar import PRIMITIVES, stop_between
from graphc.kernel.statements.base import Carry, Reducer
from graphc.kernel.statements.blocks import Loop, Reduce, reduced_dtype
from graphc.kernel.statements.copies import copied
from graphc.kernel.statements.memory import Load, Store
from graphc.kernel.statements.products import Contract, MatrixOperand
from graphc.kernel.statements.routines import Call, Span
from graphc.kernel.statements.scalars import Apply, Cast, Check, Const, DimValue

_DEPTH = 8
"""Levels of an expression that are looked at to bound an index."""


class _Block:
    """An open block: its statements and the expressions already in it."""

    __slots__ = ("depth", "memo", "statements")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.statements: list[Statement] = []
        self.memo: dict[Hashable, Var] = {}


class LoopScope:
    """A loop under construction: its index, and for serial ones the carried arguments.

    Set ``following`` to the next values, and ``lasts`` to the argument that says whether there is
    another iteration, if one does.
    """

    __slots__ = ("arguments", "following", "index", "lasts", "results")

    def __init__(self, index: Var, arguments: tuple[Var, ...]) -> None:
        self.index = index
        self.arguments = arguments
        self.following: Sequence[Var] = ()
        self.lasts: Var | None = None
        self.results: tuple[Var, ...] = ()


class ReduceScope:
    """A reduction under construction: add terms, read ``results`` after the block."""

    __slots__ = ("index", "results", "terms")

    def __init__(self, index: Var) -> None:
        self.index = index
        self.terms: list[tuple[Combine, Var]] = []
        self.results: tuple[Var, ...] = ()


class KernelBuilder:
    """Builds one kernel front to back; ``finish()`` freezes it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._buffers: list[Buffer] = []
        self._blocks = [_Block(0)]
        self._home: dict[Var, _Block] = {}
        self._constants: dict[Var, bool | int | float] = {}
        self._applied: dict[Var, Apply] = {}
        self._sites: list[Site] = []
        self._extents: dict[Var, Dim] = {}
        self._checking = self._blocks[0]  # the open block that checks are in, or inside of
        self._unentered = 0  # the open loops whose extent is 0

    # --- buffers ---------------------------------------------------------------------------------

    def buffer(self, name: str, role: Role, type_: TensorType) -> Buffer:
        """Adds a buffer; the order of calls is the order of arguments."""
        result = Buffer(name, role, type_)
        self._buffers.append(result)
        return result

    # --- expressions -----------------------------------------------------------------------------

    def constant(self, value: bool | int | float, dtype: DType) -> Var:
        """A literal of the dtype."""
        if dtype is bool_:
            value = bool(value)
        elif dtype.is_float:
            with np.errstate(all="ignore"):
                value = dtype.numpy.type(value).item()
        else:
            value = int(value)
        memo = ("const", attribute_key(value), dtype.name)
        known = self._blocks[0].memo.get(memo)
        if known is None:
            known = Var(dtype)
            self._place(self._blocks[0], memo, known, Const(known, value))
            self._constants[known] = value
        return known

    def dim(self, dim: Dim) -> Var:
        """A dim as int64."""
        if isinstance(dim, int):
            return self.constant(dim, int64)
        memo = ("dim", dim)
        known = self._blocks[0].memo.get(memo)
        if known is None:
            known = Var(int64)
            self._place(self._blocks[0], memo, known, DimValue(known, dim))
        return known

    def value_of(self, var: Var) -> bool | int | float | None:
        """The number, if the scalar is a literal."""
        return self._constants.get(var)

    def apply(self, primitive: str, *operands: Any) -> Var:
        """A primitive; index arithmetic with literals is simplified on the spot."""
        simple = self._simplify(primitive, operands)
        if simple is not None:
            return simple
        definition = PRIMITIVES[primitive]
        if len(operands) != definition.arity:
            raise ValueError(f"{primitive} takes {definition.arity} operands, not {len(operands)}")
        memo = ("apply", primitive, *operands)
        block = self._deepest(operands)
        known = block.memo.get(memo)
        if known is None:
            known = Var(definition.result_dtype([operand.dtype for operand in operands]))
            statement = Apply(known, primitive, tuple(operands))
            self._applied[known] = statement
            self._place(block, memo, known, statement)
        return known

    def _simplify(self, primitive: str, operands: Sequence[Var]) -> Var | None:
        """int64 identities that index expressions are full of."""
        if len(operands) != 2 or operands[0].dtype is not int64:
            return None
        a, b = operands
        left, right = self._constants.get(a), self._constants.get(b)
        if primitive == "add":
            if left == 0:
                return b
            if right == 0:
                return a
            joined = self._rejoined(a, b)
            if joined is not None:
                return joined
        elif primitive == "subtract" and right == 0:
            return a
        elif primitive == "multiply":
            if left == 0 or right == 0:
                return self.constant(0, int64)
            if left == 1:
                return b
            if right == 1:
                return a
        elif primitive == "floor_divide" and right == 1:
            return a
        elif primitive == "mod" and right == 1:
            return self.constant(0, int64)
        elif primitive == "right_shift" and right is not None:
            return self._shifted_again(a, int(right))
        if left is not None and right is not None and primitive in ("add", "subtract", "multiply"):
            x, y = int(left), int(right)
            value = x + y if primitive == "add" else x - y if primitive == "subtract" else x * y
            if -(2**63) <= value < 2**63:
                return self.constant(value, int64)
        return None

    def _shifted_again(self, shifted: Var, count: int) -> Var | None:
        """``(i >> a) >> b`` is ``i >> (a + b)``, which is seen to be shared by neighbours."""
        before = self._applied.get(shifted)
        if before is None or before.primitive != "right_shift":
            return None
        whole, first = before.operands
        known = self._constants.get(first)
        if known is None or not 0 <= known < 64 or not 0 <= count < 64 - known:
            return None
        return self.apply("right_shift", whole, self.constant(int(known) + count, int64))

    def _rejoined(self, high: Var, low: Var) -> Var | None:
        """``(f // m) * m + f % m`` is ``f``: a reshape splits an offset, the next one joins it."""
        product, remainder = self._applied.get(high), self._applied.get(low)
        if product is None or remainder is None:
            return None
        if product.primitive != "multiply" or remainder.primitive != "mod":
            return None
        quotient = self._applied.get(product.operands[0])
        if quotient is None or quotient.primitive != "floor_divide":
            return None
        whole, size = remainder.operands
        same = quotient.operands[0] is whole and quotient.operands[1] is size
        return whole if same and product.operands[1] is size else None

    def cast(self, operand: Any, dtype: DType) -> Var:
        """A conversion; nothing if the operand has the dtype.

        To and from narrow floats it may take two.
        """
        if operand.dtype is dtype:
            return operand  # type: ignore[no-any-return]
        between = stop_between(operand.dtype, dtype)
        if between is not None:
            return self.cast(self.cast(operand, between), dtype)
        memo = ("cast", operand, dtype)
        block = self._deepest((operand,))
        known = block.memo.get(memo)
        if known is None:
            known = Var(dtype)
            self._place(block, memo, known, Cast(known, operand))
        return known

    def load(
        self, buffer: Buffer, index: Var, condition: Var | None = None, other: Var | None = None
    ) -> Var:
        """An element of a buffer, guarded if a condition is given.

        A buffer without elements is read only in loops that don't run. A load from it with a
        loop-invariant index must not be hoisted out of them, so a stand-in takes its place in the
        open block, and a check of an index that it would be stays there too. A guarded load has no
        index within such a buffer. In a loop of no trips the same goes for a buffer that may have
        no elements.
        """
        size = buffer.type.size
        if size == 0 or (self._unentered and compare("le", 1, size) is not True):
            return self._absent(buffer.type.dtype) if other is None else other
        result = Var(buffer.type.dtype)
        operands = [v for v in (index, condition, other) if v is not None]
        if buffer.role != "in":
            block = self._blocks[-1]
            block.statements.append(Load(result, buffer, index, condition, other))
            self._home[result] = block
            return result
        block = self._deepest(operands)
        memo = ("load", buffer, *operands)
        known = block.memo.get(memo)
        if known is None:
            known = result
            self._place(block, memo, known, Load(known, buffer, index, condition, other))
        return known

    def _absent(self, dtype: DType) -> Var:
        """A value that no iteration has, in the block that is open."""
        block, memo = self._blocks[-1], ("absent", dtype.name)
        known = block.memo.get(memo)
        if known is None:
            known = Var(dtype)
            self._place(block, memo, known, Const(known, dtype.numpy.type(0).item()))
        return known

    def check(self, index: Var, bound: Dim, site: Site, wraps: bool = True) -> Var:
        """A user's index of any integers, checked; negative counts from the end if it wraps."""
        if index.dtype is uint64:
            # what int64 doesn't hold is beyond any axis; as a cast gives it it would be negative
            largest = self.constant(np.iinfo(np.int64).max, uint64)
            index = self.apply("minimum", index, largest)
        index = self.cast(index, int64)
        if self._is_below(index, bound):
            return index
        block = max(self._deepest((index,)), self._checking, key=lambda each: each.depth)
        memo = ("check", index, bound, site.axis, site.what, site.where, wraps)
        known = block.memo.get(memo)
        if known is None:
            known = Var(int64)
            self._sites.append(site)
            number = len(self._sites) - 1
            self._place(block, memo, known, Check(known, index, bound, number, wraps))
        return known

    def _is_below(self, index: Var, bound: Dim) -> bool:
        """Whether an index is of an axis in every iteration of the loops that are open."""
        form = self._form(index, _DEPTH)
        ends = None if form is None else corners(form)
        if ends is None:
            return False
        low, high = ends
        return compare("le", 0, low) is True and compare("lt", high, bound) is True

    def _form(self, var: Var, depth: int) -> Affine | None:
        """The affine form of an int64 that is at most so deep an expression."""
        if var in self._extents:
            return Affine.of_index(var, self._extents[var])
        if var in self._constants:
            return Affine.constant(int(self._constants[var]))
        made = self._applied.get(var)
        if made is None or depth == 0 or var.dtype is not int64:
            return None
        operands = [self._form(operand, depth - 1) for operand in made.operands]
        return Affine.apply(made.primitive, operands)

    # --- statements ------------------------------------------------------------------------------

    def store(self, buffer: Buffer, index: Var, value: Var) -> None:
        """Writes an element, here."""
        self._blocks[-1].statements.append(Store(buffer, index, value))

    @contextmanager
    def loop(
        self, extent: Size, kind: LoopKind, initial: Sequence[Var] = (), checks: bool = False
    ) -> Iterator[LoopScope]:
        """A loop; carried values need kind "serial" and ``scope.following`` set inside.

        A parallel or vector loop of exactly one trip is left out. With ``checks`` all indices are
        checked in its iterations, so that none is where it has none.
        """
        if not initial and not isinstance(extent, Var) and compare("eq", extent, 1):
            yield LoopScope(self.constant(0, int64), ())
            return
        index = Var(int64)
        arguments = tuple(Var(var.dtype) for var in initial)
        if not isinstance(extent, Var):
            self._extents[index] = extent
        block = self._open((index, *arguments))
        scope = LoopScope(index, arguments)
        around = self._checking
        if checks:
            self._checking = block
        self._unentered += extent == 0
        yield scope
        self._unentered -= extent == 0
        self._checking = around
        self._close(block)
        scope.results = tuple(Var(var.dtype) for var in initial)
        carries = tuple(
            Carry(result, argument, first, following)
            for result, argument, first, following in zip(
                scope.results, arguments, initial, scope.following, strict=True
            )
        )
        outer = self._blocks[-1]
        for result in scope.results:
            self._home[result] = outer
        body = tuple(block.statements)
        outer.statements.append(Loop(index, extent, kind, body, carries, scope.lasts))

    @contextmanager
    def reduce(
        self, extent: Size, order: Order, condition: Var | None = None
    ) -> Iterator[ReduceScope]:
        """A reduction; add ``(combine, term)`` to ``scope.terms`` inside.

        One that checks indices has no condition: they are wrong whether or not it is needed.
        """
        index = Var(int64)
        block = self._open((index,))
        scope = ReduceScope(index)
        self._unentered += extent == 0
        yield scope
        self._unentered -= extent == 0
        self._close(block)
        reducers = tuple(
            Reducer(combine, Var(reduced_dtype(combine, term.dtype)), term)
            for combine, term in scope.terms
        )
        scope.results = tuple(reducer.result for reducer in reducers)
        outer = self._blocks[-1]
        for result in scope.results:
            self._home[result] = outer
        body = tuple(block.statements)
        if any(statement.may_fail for statement in walk(body)):
            condition = None
        outer.statements.append(Reduce(index, extent, order, body, reducers, condition))

    def contract(
        self,
        template: Any,
        sizes: tuple[Size, Size, Size],
        a: MatrixOperand,
        b: MatrixOperand,
        c: MatrixOperand,
        workspace: Buffer | None,
        near: tuple[MatrixOperand, ...] = (),
    ) -> None:
        """A matrix product of sizes (m, n, k), here."""
        self._blocks[-1].statements.append(Contract(template, *sizes, a, b, c, workspace, near))

    def call(
        self,
        routine: str,
        numbers: Sequence[Size],
        targets: Sequence[Span],
        sources: Sequence[Span],
        workspace: Buffer | None,
        site: Site | None = None,
    ) -> None:
        """A native routine with rows, here; one that may fail with what its check guards."""
        number = None
        if site is not None:
            number = len(self._sites)
            self._sites.append(site)
        call = Call(routine, tuple(numbers), tuple(targets), tuple(sources), workspace, number)
        self._blocks[-1].statements.append(call)

    def include(self, kernel: Kernel, to: Mapping[Buffer, Buffer]) -> None:
        """All that another kernel does, here, with these buffers in place of its own."""
        self._blocks[-1].statements += copied(kernel.body, to, len(self._sites))
        self._sites += kernel.sites

    def finish(self) -> Kernel:
        """The kernel."""
        (block,) = self._blocks
        return Kernel(
            self._name, tuple(self._buffers), tuple(block.statements), tuple(self._sites)
        )

    # --- blocks ----------------------------------------------------------------------------------

    def _open(self, vars_: Sequence[Var]) -> _Block:
        block = _Block(len(self._blocks))
        self._blocks.append(block)
        for var in vars_:
            self._home[var] = block
        return block

    def _close(self, block: _Block) -> None:
        if self._blocks.pop() is not block:
            raise ValueError("loops close in the order they opened")

    def _deepest(self, operands: Sequence[Var]) -> _Block:
        best = self._blocks[0]
        for operand in operands:
            block = self._home[operand]
            if block.depth > best.depth:
                best = block
        if self._blocks[best.depth] is not best:
            raise ValueError("an operand belongs to a loop that is closed")
        return best

    def _place(self, block: _Block, memo: Hashable, var: Var, statement: Statement) -> None:
        block.statements.append(statement)
        block.memo[memo] = var
        self._home[var] = block


def handing(
    taken: Mapping[Var, Buffer], given: Mapping[Var, Buffer]
) -> tuple[list[Statement], list[Statement]]:
    """Loads and stores around statements that take scalars from buffers of one element, and give
    scalars to such."""
    zero = Var(int64)
    before: list[Statement] = [Const(zero, 0)] if taken or given else []
    before += [Load(var, buffer, zero) for var, buffer in taken.items()]
    return before, [Store(buffer, zero, var) for var, buffer in given.items()]
