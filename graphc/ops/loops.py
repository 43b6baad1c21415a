"""Questions about a ``while`` node: its parts, what counts its trips, and how many there are."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from graphc.ir.dims.choice import dim_max
from graphc.ir.dims.expressions import Dim
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.indexing.scatter import SCATTERS, How
from graphc.ops.pointwise.arithmetic import add_op, subtract_op
from graphc.ops.pointwise.logic import bitwise_and_op, less_op
from graphc.ops.source import constant_op, dim_op

Producer = Callable[[Value], Node | None]


class Counter(NamedTuple):
    """A loop variable that counts the trips: there is one for each number below a bound.

    Attributes:
        place: which variable.
        bound: what it is compared with, a value outside of the loop or a size.
    """

    place: int
    bound: Value | Dim


_WRITES: Mapping[OpDef, How] = {op: how for (how, along), op in SCATTERS.items() if not along}
"""What writes rows, and how each is combined with what is there."""


class Row(NamedTuple):
    """What writes a part of a variable in each trip.

    Attributes:
        node: the scatter.
        how: it combines the part with what is there.
        users: what reads the variable, the scatter among it.
    """

    node: Node
    how: How
    users: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WhileLoop:
    """A ``while`` node.

    Attributes:
        node: the node.
        producer: which node makes a value of the graph around.
    """

    node: Node
    producer: Producer

    @property
    def count(self) -> int:
        """The number of loop variables."""
        count: int = self.node.attrs["carried"]
        return count

    @property
    def condition(self) -> Graph:
        """The region that tells whether there is another trip."""
        return self.node.regions[0]

    @property
    def body(self) -> Graph:
        """The region of one trip."""
        return self.node.regions[1]

    @property
    def start(self) -> tuple[Value, ...]:
        """The first values of the loop variables."""
        return self.node.inputs[: self.count]

    @property
    def captured(self) -> tuple[Value, ...]:
        """What the regions read from outside."""
        return self.node.inputs[self.count :]

    def step(self, place: int) -> int | None:
        """What each trip adds to an integer variable, a constant; None if it does something
        else."""
        own = self.body.inputs[place]
        node = self.body.producers.get(self.body.outputs[place])
        if own.shape or not own.dtype.is_integer or node is None or node.op is not add_op:
            return None
        left, right = node.inputs
        other = right if left is own else left if right is own else None
        made = None if other is None else self.body.producers.get(other)
        if made is None or made.op is not constant_op:
            return None
        return int(made.attrs["value"].array)

    # --- rows ------------------------------------------------------------------------------------

    def written_rows(self) -> dict[int, Row]:
        """The variables of which each trip writes a part at one place, and nothing else is read of
        what that gives."""
        body, found = self.body, dict[int, Row]()
        users, results = body.users(), Counted(body.outputs)
        for place, own in enumerate(body.inputs[: self.count]):
            result = body.outputs[place]
            node = body.producers.get(result)
            how = None if node is None else _WRITES.get(node.op)
            if node is None or how is None or node.inputs[0] is not own:
                continue
            plain = node.inputs[1].shape == () and "drop" not in node.attrs
            if plain and result not in users and results[result] == 1:
                found[place] = Row(node, how, tuple(users[own]))
        return found

    def by_counter(self, index: Value, counter: Counter) -> tuple[Dim, int] | None:
        """The size and the sign with which an index is the size plus the counter, or less it; None
        for other indices."""
        count = self.body.inputs[counter.place]
        if index is count:
            return 0, 1
        made = self.body.producers.get(index)
        if made is None or made.op is not subtract_op or made.inputs[1] is not count:
            return None
        size = self.size_of(made.inputs[0])
        return None if size is None else (size, -1)

    # --- how many trips --------------------------------------------------------------------------

    def counter(self) -> Counter | None:
        """The variable that counts, in ``while i < bound`` with ``i + 1`` in each trip."""
        return self._counted_by(self.condition.outputs[0])

    def limit(self) -> tuple[Counter | None, Value | None]:
        """What counts trips in ``while i < bound and other``, and the other condition; None for
        what there isn't."""
        told = self.condition.outputs[0]
        counter = self._counted_by(told)
        if counter is not None:
            return counter, None
        node = self.condition.producers.get(told)
        if node is not None and node.op is bitwise_and_op:
            counter = self._counted_by(node.inputs[0])
            if counter is not None:
                return counter, node.inputs[1]
        return None, told

    def _counted_by(self, told: Value) -> Counter | None:
        """The counter that a condition compares with a bound."""
        node = self.condition.producers.get(told)
        if node is None or node.op is not less_op:
            return None
        position = {value: place for place, value in enumerate(self.condition.inputs)}
        place, limit = position.get(node.inputs[0]), node.inputs[1]
        if place is None or place >= self.count or self.step(place) != 1:
            return None
        if limit not in position:
            size = _size(limit, self.condition.producers.get)
            return None if size is None else Counter(place, size)
        if position[limit] < self.count:
            return None
        outside = self.node.inputs[position[limit]]
        size = _size(outside, self.producer)
        return Counter(place, outside if size is None else size)

    def size_of(self, value: Value) -> Dim | None:
        """The size that a scalar of the body stands for; None if a run computes it."""
        return _size(value, self.body.producers.get)

    def size(self, counter: Counter | None) -> Dim | None:
        """The number of trips, if it is a size."""
        if counter is None or isinstance(counter.bound, Value):
            return None
        first = _size(self.start[counter.place], self.producer)
        return dim_max(0, counter.bound - first) if isinstance(first, int) else None

    def first_number(self, counter: Counter) -> int:
        """Where the variable that counts starts, as an int64, if the number of trips is a size."""
        first = _size(self.start[counter.place], self.producer)
        assert isinstance(first, int), "the number of trips is a size"
        return (first + 2**63) % 2**64 - 2**63


def _size(value: Value, producer: Producer) -> Dim | None:
    """The size that a scalar stands for; None if a run computes it."""
    node = producer(value)
    if node is not None and node.op is dim_op:
        size: Dim = node.attrs["dim"]
        return size
    if node is not None and node.op is constant_op and value.dtype.is_integer:
        return int(node.attrs["value"].array)
    return None


__all__ = ["Counter", "Producer", "Row", "WhileLoop"]
