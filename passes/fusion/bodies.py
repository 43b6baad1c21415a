"""The bodies of fused nodes, and what each reads; groups that are the same share one.

Invariant: a body holds what its group computes, in the group's order, each cheap value cloned once
before its first reader. Two groups share a body if nothing tells them apart, neither operations,
attributes, types nor lines of the user; a value in it bears a name if all of them call it so. What
is worked out for a body, such as its kernel, is so worked out once for all layers of a network.

Groups that do the same with other numbers get these as operands, so that one kernel serves them: a
number in which groups differ that are else alike, perhaps of other lines, is no part of their
bodies. It costs a load before the loops. Integers stay: code is better for a divisor that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from graphc.base.lazily import once
from graphc.base.source import Location
from graphc.ir import attributes
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from graphc.ops.move.placing import PLACING
from graphc.ops.source import constant_op


class Bodies:
    """Makes the fused nodes of one graph."""

    def __init__(self, cheap: Mapping[Value, Node]) -> None:
        """``cheap`` are the values that each body makes for itself, and what makes them."""
        self._cheap = cheap
        self._groups: list[tuple[_Content, Sequence[Value], _Body]] = []
        self._kinds: dict[Hashable, _Kind] = {}
        self._types = _Numbers[TensorType](lambda type_: type_)
        self._origins = _Numbers[Provenance](_places)

    def add(self, members: Sequence[Node], exits: Sequence[Value]) -> None:
        """Adds a group of members in topological order; ``exits`` are what others read."""
        content = _Content(self._cheap)
        content.fill(members)
        kind = self._kinds.setdefault(self._key(content, exits), _Kind(content))
        kind.share(content)
        origins = tuple([self._origins[node.provenance] for node in content.nodes])
        body = kind.bodies.get(origins)
        if body is None:
            body = kind.bodies[origins] = _Body(kind, content, members, exits)
        else:
            body.share(content)
        self._groups.append((content, exits, body))

    @property
    def reads(self) -> set[Value]:
        """What the groups added so far read from memory."""
        return {
            value for content, _, body in self._groups for value in body.kind.operands(content)
        }

    def fused(self) -> list[Node]:
        """The fused nodes of all groups, in the order they were added."""
        return [
            Node(
                fused_op,
                body.kind.operands(content),
                {},
                tuple(exits),
                (body.region,),
                body.provenance,
            )
            for content, exits, body in self._groups
        ]

    def _key(self, content: _Content, exits: Sequence[Value]) -> Hashable:
        """Equal for groups that differ at most in names, lines and numbers."""
        numbers, types = content.numbers, self._types
        literals = set(content.literals)
        parts: list[Hashable] = []
        for value in content.inputs:
            parts += (numbers[value], types[value.type])
        for node in content.nodes:
            parts += (
                node.op,
                tuple([numbers[value] for value in node.inputs]),
                attributes.keys(node.attrs) if node.attrs and node not in literals else (),
                tuple([types[value.type] for value in node.outputs]),
            )
        return len(content.inputs), tuple(parts), tuple([numbers[value] for value in exits])


_Item = TypeVar("_Item")


class _Numbers(Generic[_Item]):
    """Numbers, equal for items of equal keys; what is asked for again is not looked at again.

    The items are parts of a graph, which keeps them, so that their identity stands for them.
    """

    def __init__(self, key: Callable[[_Item], Hashable]) -> None:
        self._key = key
        self._number_of: dict[int, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def __getitem__(self, item: _Item) -> int:
        number = self._number_of.get(id(item))
        if number is None:
            number = self._numbers.setdefault(self._key(item), len(self._numbers))
            self._number_of[id(item)] = number
        return number


def _places(made: Provenance) -> Hashable:
    where = made.where.place if made.where else None
    parents = tuple([parent.place for parent in made.parents])
    # what is computed again is told apart by whose part it is; all else is not
    part = (made.order, made.checkpoints) if made.checkpoints else ()
    return made.cause, where, parents, part


class _Kind:
    """Groups that nothing tells apart but names, lines and numbers.

    Attributes:
        bodies: their bodies, by the lines of all nodes.
    """

    def __init__(self, content: _Content) -> None:
        self.bodies: dict[Hashable, _Body] = {}
        self._numbers = [node.attrs["value"] for node in content.literals]
        self._different: set[int] = set()

    def share(self, content: _Content) -> None:
        """A group is of this kind; it may have other numbers."""
        for place, (node, number) in enumerate(zip(content.literals, self._numbers, strict=True)):
            if node.attrs["value"] != number:
                self._different.add(place)

    def given(self, content: _Content) -> list[Value]:
        """The numbers of a group that its body does not hold."""
        return [content.literals[place].output for place in sorted(self._different)]

    def operands(self, content: _Content) -> tuple[Value, ...]:
        """What the fused node of a group reads."""
        return (*content.inputs, *self.given(content))


class _Body:
    """What groups share that nothing tells apart but names and numbers."""

    def __init__(
        self, kind: _Kind, content: _Content, members: Sequence[Node], exits: Sequence[Value]
    ) -> None:
        self.kind = kind
        self._content = content
        self._members = members
        self._exits = exits
        self._names = [value.name for value in content.numbers]

    def share(self, content: _Content) -> None:
        """Another group has the same body; it keeps the names that both have."""
        names = [value.name for value in content.numbers]
        if names != self._names:
            pairs = zip(names, self._names, strict=True)
            self._names = [own if name == own else None for name, own in pairs]

    @once
    def region(self) -> Graph:
        """The body itself, with values of its own; to be asked for when all groups are known."""
        given = self.kind.given(self._content)
        return self._content.graph(self._exits, self._names, given)

    @once
    def provenance(self) -> Provenance:
        """Where the first of the groups is from; the others are from the same lines."""
        return _provenance(self._members)


class _Content:
    """What a body will hold, in terms of the graph around it.

    Attributes:
        inputs: what it reads.
        nodes: what it computes, clones of cheap values included.
        numbers: all values, in the order in which they come up.
        literals: those of the nodes that are numbers which might be operands as well.
    """

    def __init__(self, cheap: Mapping[Value, Node]) -> None:
        self._cheap = cheap
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.numbers: dict[Value, int] = {}
        self.literals: list[Node] = []

    def fill(self, members: Sequence[Node]) -> None:
        """Finds out what the members read and which cheap values they need."""
        inside = {value for node in members for value in node.outputs}
        # what a member reads from memory, nobody else in the group may have cloned
        for node in members:
            if node.op.lowering.reads == "memory":
                for value in node.inputs:
                    if value not in inside:
                        self._read(value)
        for node in members:
            clones = node.op.lowering.reads not in ("picked", "memory")
            for value in node.inputs:
                if value in self.numbers:
                    continue
                if clones and value in self._cheap and value not in inside:
                    self._clone(value)
                else:
                    self._read(value)
            self._compute(node)
        kernels = {node.op.lowering.kernel for node in members}
        # what is hidden from a product of rows is seen from its numbers
        if not kernels.issuperset(("product", "rows")):
            self.literals = [
                node
                for node in self.nodes
                if node.op is constant_op and node.output.type.dtype.is_float
            ]

    def graph(
        self, exits: Sequence[Value], names: Sequence[str | None], given: Sequence[Value]
    ) -> Graph:
        """The body itself, with values of its own, of these names.

        It reads the ``given`` constants, after all others, instead of making them.
        """
        outside = set(given)
        inner = {
            value: Value(value.type, name) for value, name in zip(self.numbers, names, strict=True)
        }
        nodes = [
            Node(
                node.op,
                tuple([inner[value] for value in node.inputs]),
                node.attrs,
                tuple([inner[value] for value in node.outputs]),
                (),
                node.provenance,
            )
            for node in self.nodes
            if node.outputs[0] not in outside
        ]
        inputs = [inner[value] for value in (*self.inputs, *given)]
        return Graph("body", inputs, nodes, [inner[value] for value in exits])

    def _read(self, value: Value) -> None:
        if value not in self.numbers:
            self.numbers[value] = len(self.numbers)
            self.inputs.append(value)

    def _compute(self, node: Node) -> None:
        self.nodes.append(node)
        for value in node.outputs:
            self.numbers[value] = len(self.numbers)

    def _clone(self, value: Value) -> None:
        """A cheap value's definition, and those it needs."""
        stack = [value]
        while stack:
            current = stack[-1]
            node = self._cheap[current]
            missing = [v for v in node.inputs if v not in self.numbers]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if current not in self.numbers:
                self._compute(node)


def _provenance(members: Sequence[Node]) -> Provenance:
    """The lines of all members, the last of what is computed, not of where it is put, first."""
    # to compare lines their columns must be found; most nodes are of few instructions
    places: dict[object, Location] = {}
    for node in members:
        where = node.provenance.where
        if where is not None:
            places.setdefault(where.place, where)
    lines = dict.fromkeys(places.values())
    work = [node for node in members if node.op not in PLACING] or members
    first: Location | None = work[-1].provenance.where
    return Provenance(first, "fusion", tuple(line for line in lines if line is not first))
