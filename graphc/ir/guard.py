"""Guards: what must hold of sizes that are known at run time only.

A graph has the guards of its nodes, and so has each region of control flow. Those of a graph are
checked before a run, those of a region whenever it runs. They are no part of nodes: passes that
drop, merge or replace nodes leave them as they are, since what is left relies on them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from graphc.base.errors import GraphcError, IndexRangeError, ShapeError
from graphc.base.source import Location
from graphc.ir.dims.expressions import Dim, DimExpr, evaluate, symbols_of

if TYPE_CHECKING:
    from graphc.ir.graph import Node


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


# --- guards of nodes -----------------------------------------------------------------------------
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


def guards_of(node: Node) -> Iterator[Guard]:
    """What a node needs: the guards among its attributes, and that its operands broadcast."""
    where = node.provenance.where
    if node.attrs:
        for data in node.attrs.get(ATTRIBUTE, ()):
            yield guard_of(data, where)
    inputs = node.inputs
    if len(inputs) > 1 and node.op.broadcasts:
        yield from _broadcasts(node, where)


def _broadcasts(node: Node, where: Location | None) -> Iterator[Guard]:
    """Each dim of an operand is 1 or that of the result."""
    target = node.outputs[0].type.shape
    for operand in node.inputs:
        shape = operand.type.shape
        if shape is target:
            continue
        for dim, full in zip(reversed(shape), reversed(target), strict=False):
            if dim is full or dim == full or dim == 1:
                continue
            shapes = [value.type.shape for value in node.inputs]
            shown = tuple(size for shape in shapes for size in shape)
            text = f"{node.op.name}: shapes {' and '.join(map(holes, shapes))} do not broadcast"
            yield Guard(dim, full, text, where, broadcasts=True, shown=shown)


def holes(shape: Sequence[Dim]) -> str:
    """A shape in the message of a guard, its sizes left open."""
    return f"[{', '.join('{}' for _ in shape)}]"


def lifted(nodes: Iterable[Node]) -> tuple[list[Node], tuple[Guard, ...]]:
    """The nodes without guards, and what they need, each condition once."""
    bare_nodes: list[Node] = []
    found: list[Guard] = []
    fitting: set[tuple[int, ...]] = set()
    for node in nodes:
        if may_demand(node):
            # equal types are one object in a graph, so few pairs are looked at
            types = () if node.attrs else tuple([id(value._type) for value in node.inputs])
            if types not in fitting:
                node, guards = bare(node)
                found += guards
                if types and not guards:
                    fitting.add(types)
        bare_nodes.append(node)
    return bare_nodes, merged(found)


def bare(node: Node) -> tuple[Node, list[Guard]]:
    """A node without guards, and what it needs."""
    found = [*guards_of(node)]
    if node.attrs and ATTRIBUTE in node.attrs:
        node = node.with_attrs(without_guards(node.attrs))
    return node, found


def may_demand(node: Node) -> bool:
    """Whether a node may have guards, told without a look at its sizes."""
    attrs, inputs = node.attrs, node.inputs
    if attrs and ATTRIBUTE in attrs:
        return True
    if len(inputs) < 2 or not node.op.broadcasts:
        return False
    alike = inputs[0]._type is inputs[1]._type is inputs[-1]._type
    return not alike or len(inputs) > 3


def demands(node: Node) -> bool:
    """Whether a node has guards."""
    return may_demand(node) and any(True for _ in guards_of(node))


def guards_within(node: Node) -> bool:
    """Whether a region of a node has guards, which count when that runs."""
    pending = [*node.regions]
    while pending:
        region = pending.pop()
        if region.guards:
            return True
        pending += [inner for node in region.nodes for inner in node.regions]
    return False


def without_guards(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes without guards."""
    return {name: value for name, value in attrs.items() if name != ATTRIBUTE}
