"""Values that only pass through control flow go around it.

    %2 = cond(%p, %x, %x)                       %2 = cond(%p, %x)
    %3, %4 = while(%i, %x, %2) {carried = 2}    %3 = while(%i, %2, %x) {carried = 1}
                                        ->      and whoever read %4 reads %x

What is found: a value captured twice; a carried value that every trip gives back unchanged (it
becomes a capture, and its result is its start); a result that both branches take from the same
place; two results that are always equal; a constant that is captured (the region makes it itself,
so that folding, rules and layouts see it there; its elements stay one array).

For every input of a region and every result of control flow there is an equation: a capture is
its operand; a result of ``cond`` is what both branches give, if that is one value; a carried value
is its start, if its successor is the same. The equations are solved together over all levels,
starting from the assumption that all hold, so values that loops merely exchange or hand down are
found. Where one does not hold, its value stands for itself. A solution is a fact about values,
whatever is then done with it. A loop none of whose values changes is left out, as one whose results
nobody reads is: that it might never end is no reason to keep it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from graphc.ir.attributes import Payload
from graphc.ir.graph import Graph, Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.source import constant_op
from passes.control_flow.regions import captures, carried_count, is_loop, operands, with_signature
from passes.infra.base import PassContext, has_open_regions, open_nodes
from passes.rewriting.constants import known


@dataclass(frozen=True, slots=True, eq=False)
class SharedConstant:
    """All constants of one type and one content.

    Attributes:
        type: the type.
        nodes: what makes one of them: a constant, or a scalar constant and its broadcast.
    """

    type: TensorType
    nodes: tuple[Node, ...]


Origin: TypeAlias = "Value | SharedConstant"


def prune_regions(graph: Graph, context: PassContext) -> Graph:
    """The graph whose control flow gets and gives each value once; linear, all levels at once."""
    if not graph.has_regions:
        return graph
    owners = [node for node in open_nodes(graph) if has_open_regions(node)]
    if not owners:
        return graph
    origins = _Origins(graph, owners)
    level = _Level(origins)
    level.define(graph.inputs)
    return _Rewriter(origins, context).graph(graph, level)


class _Level:
    """One graph or region under construction, and what its values are called there.

    Attributes:
        made: constants that the region now makes itself.
    """

    def __init__(self, origins: _Origins) -> None:
        self.made: list[Node] = []
        self._origins = origins
        self._here: dict[Origin, Value] = {}
        self._alias: dict[Value, Value] = {}

    def define(self, values: Iterable[Value]) -> None:
        """The level makes these values and keeps them, whatever they equal."""
        for value in values:
            self._here[value] = value
            self._alias[value] = value

    def rename(self, value: Value, to: Value) -> None:
        """Who read a value reads an equal one of this level."""
        self._here[value] = self._alias[value] = to

    def stand_for(self, origin: Origin, value: Value) -> None:
        """What comes from outside is had from a value of this level."""
        self._here.setdefault(origin, value)

    def can_resolve(self, value: Value) -> bool:
        """True if a value that passes through equals one that is here, or a constant."""
        origin = self._origins.of(value)
        return isinstance(origin, SharedConstant) or origin in self._here

    def resolve(self, value: Value) -> Value:
        """What stands for a value at this level."""
        known_as = self._alias.get(value)
        if known_as is not None:
            return known_as
        if not self._origins.passes_through(value):
            return value
        origin = self._origins.of(value)
        if isinstance(origin, SharedConstant) and origin not in self._here:
            self._here[origin] = self._make(origin)
        return self._here.get(origin, value)

    def with_operands(self, node: Node) -> Node:
        """The node over what stands for its operands."""
        return node.with_inputs([self.resolve(value) for value in node.inputs])

    def _make(self, constant: SharedConstant) -> Value:
        value: Value | None = None
        for node in constant.nodes:
            operands = () if value is None else (value,)
            provenance = replace(node.provenance, cause="prune_regions")
            value = Value(node.output.type, node.output.name)
            self.made.append(Node(node.op, operands, node.attrs, (value,), (), provenance))
        assert value is not None
        return value


class _Rewriter:
    """Rebuilds a graph by what its values come from."""

    def __init__(self, origins: _Origins, context: PassContext) -> None:
        self._origins = origins
        self._context = context

    def graph(self, graph: Graph, level: _Level) -> Graph:
        """One level, whose inputs are known to it; regions are at most MAXIMUM_NESTING deep."""
        nodes: list[Node] = []
        for node in graph.nodes:
            operated = level.with_operands(node)
            new: Node | None = operated
            if has_open_regions(node):
                new = self._control(operated, level)
            else:
                level.define(node.outputs)
            if new is not None:
                nodes.append(new)
        outputs = [level.resolve(value) for value in graph.outputs]
        return graph.rebuilt([*level.made, *nodes], outputs)

    def _control(self, node: Node, level: _Level) -> Node | None:
        """The node with less to take and to give; None if nothing is left to give."""
        change = self._change(node, level)
        if change.reduces(node) and not self._context.decide("prune_regions", node):
            change = _Change(list(range(len(node.outputs))), {}, {}, list(captures(node)))
            level.define(node.outputs)
            inner = [_Level(self._origins) for _ in node.regions]
            for region, inside in zip(node.regions, inner, strict=True):
                inside.define(region.inputs)
        else:
            for place, twin in change.twins.items():
                level.rename(node.outputs[place], node.outputs[twin])
            level.define(node.outputs[place] for place in change.results)
            if not change.results:
                return None
            inner = [self._inside(region, node, change) for region in node.regions]
        new = node
        if change.reduces(node):
            new = with_signature(node, change.results, change.captured)
        return new.with_regions(list(map(self.graph, new.regions, inner)))

    def _change(self, node: Node, level: _Level) -> _Change:
        """What the node need not give or take."""
        change = _Change([], {}, {}, [])
        seen: dict[tuple[Origin, ...], int] = {}
        settled = []
        given = operands(node)
        for place, value in enumerate(node.outputs):
            if self._settled(node, place) and level.can_resolve(value):
                settled.append(place)
                continue
            giving = node.regions[1:] if is_loop(node) else node.regions
            start = given[place : place + 1] if is_loop(node) else ()
            key = (*start, *(self._origins.of(region.outputs[place]) for region in giving))
            twin = seen.setdefault(key, place)
            if twin == place:
                change.results.append(place)
            else:
                change.twins[place] = twin
        first: dict[Value, int] = {}
        for place in (*captures(node), *(settled if is_loop(node) else ())):
            if isinstance(self._origins.of(node.regions[0].inputs[place]), SharedConstant):
                continue
            representative = first.setdefault(given[place], place)
            if representative == place:
                change.captured.append(place)
            else:
                change.merged[place] = representative
        return change

    def _settled(self, node: Node, place: int) -> bool:
        """True if a result is known outside, and for a loop inside too."""
        values = [node.outputs[place]]
        if is_loop(node):
            values += [region.inputs[place] for region in node.regions]
        origin = self._origins.of(values[0])
        return all(
            self._origins.passes_through(value) and self._origins.of(value) is origin
            for value in values
        )

    def _inside(self, region: Graph, node: Node, change: _Change) -> _Level:
        """The level of a region whose inputs are those that the change leaves."""
        level = _Level(self._origins)
        inputs = region.inputs
        if is_loop(node):
            level.define(inputs[place] for place in change.results)
            for place, twin in change.twins.items():
                level.rename(inputs[place], inputs[twin])
        for place in change.captured:
            level.define([inputs[place]])
            level.stand_for(self._origins.of(inputs[place]), inputs[place])
        for place, representative in change.merged.items():
            level.rename(inputs[place], inputs[representative])
            level.stand_for(self._origins.of(inputs[place]), inputs[representative])
        return level


@dataclass(frozen=True, slots=True)
class _Change:
    """How a node's signature shrinks.

    Attributes:
        results: places of results that stay.
        twins: results that equal one that stays.
        merged: captures, and carried values that become captures, that another one stands for.
        captured: places among the regions' inputs that are captures from now on.
    """

    results: list[int]
    twins: dict[int, int]
    merged: dict[int, int]
    captured: list[int]

    def reduces(self, node: Node) -> bool:
        """True if the signature is another one."""
        return len(self.results) < len(node.outputs) or self.captured != list(captures(node))


# --- what every value comes from -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Equation:
    """A value has the origin that all its sources have, or is its own."""

    value: Value
    sources: tuple[Value, ...]


class _Origins:
    """The solution of the equations of a graph."""

    def __init__(self, graph: Graph, owners: Sequence[Node]) -> None:
        self._constants: dict[tuple[TensorType, Payload, bool], SharedConstant] = {}
        self._origin: dict[Value, Origin] = {}
        self._own: set[Value] = set()
        self._read_constants(graph)
        shared = _shared(owners)
        self._equations: dict[Value, _Equation] = {}
        for node in owners:
            for region in node.regions:
                self._read_constants(region)
            if shared.isdisjoint(node.regions):
                for equation in _equations(node):
                    self._equations[equation.value] = equation
        self._solve()

    def of(self, value: Value) -> Origin:
        """What the value equals: itself, a value of this level or around it, or a constant."""
        return self._origin.get(value, value)

    def passes_through(self, value: Value) -> bool:
        """True if the value is one of control flow that equals another."""
        return value in self._equations and self._origin.get(value, value) is not value

    def _read_constants(self, graph: Graph) -> None:
        producer = graph.producers.get
        for node in graph.nodes:
            if node.op is not constant_op and node.op is not broadcast_to_op:
                continue
            value = node.output
            found = known(value, producer)
            if found is None:
                continue
            nodes: tuple[Node, ...] = (node,)
            if found.splat:
                source = producer(node.inputs[0])
                assert source is not None
                nodes = (source, node)
            payload: Payload = nodes[0].attrs["value"]
            key = (value.type, payload, found.splat)
            self._origin[value] = self._constants.setdefault(key, SharedConstant(value.type, nodes))

    def _solve(self) -> None:
        readers: dict[Value, list[_Equation]] = {}
        for equation in self._equations.values():
            for source in equation.sources:
                readers.setdefault(source, []).append(equation)
        waiting = deque(self._equations.values())
        queued = set(self._equations)
        while waiting:
            equation = waiting.popleft()
            value = equation.value
            queued.discard(value)
            if value in self._own:
                continue
            origins = {
                self._origin.get(source, source)
                for source in equation.sources
                if source in self._origin or source not in self._equations
            }
            if not origins:
                continue
            (origin, *others) = origins
            if others or origin.type != value.type:
                # for good, so that solving ends; what holds of other values may have changed since
                origin = value
                self._own.add(value)
            if self._origin.get(value) is not origin:
                self._origin[value] = origin
                for reader in readers.get(value, ()):
                    if reader.value not in queued:
                        queued.add(reader.value)
                        waiting.append(reader)


def _shared(owners: Iterable[Node]) -> set[Graph]:
    """Regions of more than one place; their values have no one origin."""
    seen: set[Graph] = set()
    shared: set[Graph] = set()
    for node in owners:
        for region in node.regions:
            (shared if region in seen else seen).add(region)
    return shared


def _equations(node: Node) -> Iterator[_Equation]:
    given = operands(node)
    for place in captures(node):
        for region in node.regions:
            yield _Equation(region.inputs[place], (given[place],))
    if not is_loop(node):
        then, otherwise = node.regions
        for value, first, second in zip(
            node.outputs, then.outputs, otherwise.outputs, strict=True
        ):
            yield _Equation(value, (first, second))
        return
    condition, body = node.regions
    for place in range(carried_count(node)):
        sources = (given[place], body.outputs[place])
        for value in (condition.inputs[place], body.inputs[place], node.outputs[place]):
            yield _Equation(value, sources)
