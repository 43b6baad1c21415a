"""Statements with a body: loops and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType, int64
from graphc.ir.lowering import Combine
from graphc.kernel.scanner import NAME
from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import (
    Block,
    Carry,
    Cut,
    Estimator,
    LoopKind,
    Names,
    Order,
    Reducer,
    Size,
    Statement,
    Var,
)
from graphc.kernel.statements.bodies import moved
from graphc.kernel.statements.words import Head, Reader, statement

_COMBINES: tuple[Combine, ...] = get_args(Combine)
_KINDS: tuple[LoopKind, ...] = get_args(LoopKind)
_ORDERS: tuple[Order, ...] = get_args(Order)


def reduced_dtype(combine: str, term: DType) -> DType:
    """The dtype of a reduction of terms: int64 positions for argmin and argmax."""
    return int64 if combine.startswith("arg") else term


def _index(reader: Reader) -> tuple[tuple[str, int, Var], Size]:
    """The index of a block, with its name and where that stands; and the extent."""
    start, name = reader.position, reader.scalar()
    reader.expect("<")
    return (name, start, Var(int64)), reader.size()


@statement(("serial",), "some", also=_KINDS)
@dataclass(frozen=True, slots=True, eq=False)
class Loop(Block):
    """``for index < extent``; the extent of a serial loop is a dim.

    A serial loop with ``lasts``, a bool that it carries, ends before the first iteration at which
    that is false. Of iterations around it that run side by side it ends when it is false for all;
    those for which it has been false before keep what they carry, but for scalars on which all
    agree, which nothing reads behind the loop.
    """

    index: Var
    extent: Size
    kind: LoopKind = field()
    body: tuple[Statement, ...] = field()
    carries: tuple[Carry, ...] = ()
    lasts: Var | None = field(default=None)

    @property
    def results(self) -> tuple[Var, ...]:
        return tuple([carry.result for carry in self.carries])

    @property
    def operands(self) -> tuple[Var, ...]:
        return tuple([var for c in self.carries for var in (c.initial, c.following)])

    def loop(self, *kinds: LoopKind) -> Loop | None:
        return self if not kinds or self.kind in kinds else None

    @property
    def lanes_inside(self) -> bool:
        return self.kind == "vector"

    @property
    def cut(self) -> Cut | None:
        if self.kind == "serial" or isinstance(self.extent, Var):
            return None
        return Cut(self.extent, True, self.kind == "parallel")

    def over(self, extent: Size) -> Loop:
        return replace(self, extent=extent)

    def moved(self, to: Mapping[Buffer, Buffer]) -> Loop:
        return replace(self, body=moved(self.body, to))

    def cost(self, estimator: Estimator) -> Dim:
        return estimator.size(self.extent) * estimator.body(self.body, self.lanes_inside)

    def text(self, names: Names) -> str:
        extent = names.size(self.extent)
        if not self.carries:
            return f"{self.kind} {names.define(self.index)} < {extent}"
        initial = [names.read(carry.initial) for carry in self.carries]
        results = names.define(*self.results)
        index = names.define(self.index)
        carried = ", ".join(
            f"{names.define(carry.argument)} = {first}"
            for carry, first in zip(self.carries, initial, strict=True)
        )
        lasts = "" if self.lasts is None else f" while {names.read(self.lasts)}"
        return f"{results} = {self.kind} {index} < {extent} carry ({carried}){lasts}"

    def end(self, names: Names) -> str | None:
        if not self.carries:
            return None
        return f"yield {names.read(*(carry.following for carry in self.carries))}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Head:
        kind = next(each for each in _KINDS if each == word)
        first, extent = _index(reader)
        defined = [first]
        arguments: list[tuple[Var, Var]] = []
        lasts: Var | None = None
        if kind == "serial" and reader.accept_word("carry"):
            reader.expect("(")
            while True:
                place, name = reader.position, reader.scalar()
                reader.expect("=")
                initial = reader.read()
                arguments.append((Var(initial.dtype), initial))
                defined.append((name, place, arguments[-1][0]))
                if not reader.accept(","):
                    break
            reader.expect(")")
            if reader.accept_word("while"):
                place, name = reader.position, reader.scalar()
                lasts = next((var for known, _, var in defined if known == name), None)
                if lasts is None:
                    reader.fail(f"{name} is not carried", place)
        if len(arguments) != len(results):
            reader.fail(f"{len(results)} results, but {len(arguments)} carried", start)

        def close(body: tuple[Statement, ...], items: Sequence[Var]) -> Loop:
            carries = tuple(
                Carry(Var(argument.dtype), argument, initial, following)
                for (argument, initial), following in zip(arguments, items, strict=True)
            )
            return cls(first[2], extent, kind, body, carries, lasts)

        return Head(word, defined, reader.read if kind == "serial" else None, close)


@statement(("reduce",), "some")
@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Block):
    """Combines one term per reducer and iteration. An empty sum is 0, an empty product 1.

    With a condition, which seldom holds, the results where it fails are those of no terms. Its body
    has no effects, so it may run nevertheless: for all lanes of a vector if one needs it.
    """

    index: Var
    extent: Size
    order: Order = field()
    body: tuple[Statement, ...] = field()
    reducers: tuple[Reducer, ...] = field()
    condition: Var | None = None

    @property
    def results(self) -> tuple[Var, ...]:
        return tuple([reducer.result for reducer in self.reducers])

    @property
    def operands(self) -> tuple[Var, ...]:
        terms = tuple([reducer.term for reducer in self.reducers])
        return terms if self.condition is None else (*terms, self.condition)

    @property
    def lanes_inside(self) -> bool:
        return self.order == "lanes"

    def over(self, extent: Size) -> Reduce:
        return replace(self, extent=extent)

    def moved(self, to: Mapping[Buffer, Buffer]) -> Reduce:
        return replace(self, body=moved(self.body, to))

    def cost(self, estimator: Estimator) -> Dim:
        if self.condition is not None:
            return 0  # few iterations need it
        terms = estimator.combination(len(self.reducers))
        each = estimator.body(self.body, self.lanes_inside) + terms
        return estimator.size(self.extent) * each

    def text(self, names: Names) -> str:
        extent = names.size(self.extent)
        condition = "" if self.condition is None else f", if {names.read(self.condition)}"
        results = names.define(*self.results)
        prefix = f"{results} = " if results else ""
        return f"{prefix}reduce {self.order} {names.define(self.index)} < {extent}{condition}"

    def end(self, names: Names) -> str:
        terms = ", ".join(f"{r.combine} {names.read(r.term)}" for r in self.reducers)
        return f"yield {terms}".rstrip()

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Head:
        place, order = reader.position, reader.match(NAME, "lanes or chain")
        known = next((each for each in _ORDERS if each == order), None)
        if known is None:
            reader.fail(f"expected lanes or chain, found {order!r}", place)
        first, extent = _index(reader)
        condition: Var | None = None
        if reader.accept(","):
            reader.word("if")
            condition = reader.read()

        combines: list[Combine] = []

        def item() -> Var:
            start, name = reader.position, reader.match(NAME, "a combination")
            combine = next((each for each in _COMBINES if each == name), None)
            if combine is None:
                reader.fail(f"expected one of {', '.join(_COMBINES)}, found {name!r}", start)
            combines.append(combine)
            return reader.read()

        def close(body: tuple[Statement, ...], items: Sequence[Var]) -> Reduce:
            reducers = tuple(
                Reducer(combine, Var(reduced_dtype(combine, term.dtype)), term)
                for combine, term in zip(combines, items, strict=True)
            )
            return cls(first[2], extent, known, body, reducers, condition)

        return Head(word, [first], item, close)
