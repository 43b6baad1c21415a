"""Guards: what must hold of sizes that are known at run time only.

A graph has the guards of its nodes, and so has each region of control flow. Those of a graph are
checked before a run, those of a region whenever it runs. They are no part of nodes: passes that
drop, merge or replace nodes leave them as they are, since what is left relies on them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphc.base.errors import GraphcError, IndexRangeError, ShapeError
from graphc.base.source import Location
from graphc.ir.dims.expressions import Dim, DimExpr, evaluate, symbols_of


@dataclass(frozen=True, slots=True)
class Guard:
    """Two dims that must be equal at run time, and what to say if they are not.

    Attributes:
        left, right: the dims.
        message: what is wrong; if ``shown`` is given, each ``{}`` in it stands for one of those.
        where: the user's line.
        broadcasts: the left one may also be 1.
        shown: dims whose sizes the message names; None has the two sizes said after it.
        index: it is an index that is wrong, not a shape.
    """

    left: Dim
    right: Dim
    message: str
    where: Location | None = None
    broadcasts: bool = False
    shown: tuple[Dim, ...] | None = None
    index: bool = False

    @property
    def condition(self) -> tuple[Dim, Dim, bool, bool]:
        """What it demands: guards that demand the same differ in what they say only."""
        return self.left, self.right, self.broadcasts, self.index

    @property
    def dims(self) -> Iterator[Dim]:
        """All dims that it speaks of."""
        yield self.left
        yield self.right
        yield from self.shown or ()

    @property
    def symbols(self) -> frozenset[DimExpr]:
        """The symbols whose sizes it needs."""
        return symbols_of(*self.dims)

    def failure(self, sizes: Mapping[str, int]) -> GraphcError | None:
        """The error to raise for these sizes of the symbolic dims, if it does not hold."""
        left, right = evaluate(self.left, sizes), evaluate(self.right, sizes)
        if left == right or (self.broadcasts and left == 1):
            return None
        if self.shown is None:
            text = f"{self.message}, but are {left} and {right}"
        else:
            first, *rest = self.message.split("{}")
            known = (evaluate(dim, sizes) for dim in self.shown)
            text = first + "".join(f"{size}{part}" for size, part in zip(known, rest, strict=False))
        error = IndexRangeError if self.index else ShapeError
        return error(text, where=self.where)


def merged(
    guards: Iterable[Guard], around: Collection[tuple[Dim, Dim, bool, bool]] = ()
) -> tuple[Guard, ...]:
    """The guards, the first of those that demand the same, without what holds around already."""
    result: dict[tuple[Dim, Dim, bool, bool], Guard] = {}
    for guard in guards:
        if guard.condition not in around:
            result.setdefault(guard.condition, guard)
    return tuple(result.values())


# --- guards as plain data ------------------------------------------------------------------------
#
# While a graph is recorded, a guard is plain data in the attribute ``guards`` of the node that
# needs it, so it is saved and loaded with the node. In frozen graphs no node has that attribute.

ATTRIBUTE = "guards"

Data: TypeAlias = tuple[Any, ...]
"""A guard as plain data: left, right, message, shown, broadcasts and index."""


def data_of(guard: Guard) -> Data:
    """The guard as plain data; ``guard_of`` reads it."""
    return guard.left, guard.right, guard.message, guard.shown, guard.broadcasts, guard.index


def guard_of(data: Data, where: Location | None) -> Guard:
    """The guard of a node at this line."""
    left, right, message, shown, broadcasts, index = data
    return Guard(left, right, message, where, broadcasts, shown, index)


def holes(shape: Sequence[Dim]) -> str:
    """A shape in the message of a guard, its sizes left open."""
    return f"[{', '.join('{}' for _ in shape)}]"


def without_guards(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes without guards."""
    return {name: value for name, value in attrs.items() if name != ATTRIBUTE}
