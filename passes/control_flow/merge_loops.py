"""A loop whose trips another loop runs too is left out: the other gives its results.

    %2 = while(%i, %x) {carried = 2}
    %4 = while(%i, %x, %rows) {carried = 3}      ->     %4 = while(%i, %x, %rows) {carried = 3}
         as above, and keeps %x in %rows                and whoever read %2 reads %4

Differentiation makes such pairs: it runs a loop again, to keep what its trips were given, to count
them, or to carry tangents beside its variables. The loops are the same if the variables of one
start as variables of the other do and have the same successors, by values that both compute alike,
and if their conditions are.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.tuning.fusion import FUSION
from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from passes.control_flow.regions import carried_count, is_loop
from passes.graph.cse import key_of, mergeable
from passes.infra.base import PassContext, has_open_regions


def merge_loops(graph: Graph, context: PassContext) -> Graph:
    """The graph without loops that are part of others; pairs are compared that start alike."""
    if not graph.has_regions:
        return graph
    loops = [n for n in graph.nodes if has_open_regions(n) and is_loop(n) and mergeable(n)]
    if len(loops) < 2:
        return graph
    order = _Order(graph)
    gone: set[Value] = set()
    # the first that carries most stays
    loops.sort(key=carried_count, reverse=True)
    starting: dict[Value, list[Node]] = {}
    for node in loops:
        starts = dict.fromkeys(node.inputs[: carried_count(node)])
        alike = min((starting.get(value, []) for value in starts), key=len)
        for other in alike[: FUSION.loops_compared]:
            places = _within(node, other)
            between = None if places is None else order.before(other, node)
            if places is None or between is None:
                continue
            if context.decide("merge_loops", node):
                gone.add(node.outputs[0])
                order.merge(node, other, places, between)
            break
        if node.outputs[0] not in gone:
            for value in starts:
                starting.setdefault(value, []).append(node)
    if not gone:
        return graph
    stands_for = order.stands_for
    nodes = [
        node.with_inputs([stands_for.get(value, value) for value in node.inputs])
        for node in graph.nodes
        if node.outputs[0] not in gone
    ]
    outputs = [stands_for.get(value, value) for value in graph.outputs]
    return graph.with_parts(nodes=topological(nodes), outputs=outputs)


def _within(node: Node, other: Node) -> list[int] | None:
    """For each variable of a loop the place of the same one of the other; None if it has others."""
    count = carried_count(node)
    places = _same_starts(node.inputs[:count], other.inputs[: carried_count(other)])
    if places is None:
        return None
    captured = {value: place for place, value in enumerate(other.inputs)}
    for region, larger in zip(node.regions, other.regions, strict=True):
        same = {
            value: larger.inputs[place]
            for value, place in zip(region.inputs, places, strict=False)
        }
        for value, outside in zip(region.inputs[count:], node.inputs[count:], strict=True):
            if captured.get(outside, -1) >= carried_count(other):
                same[value] = larger.inputs[captured[outside]]
        known = {key_of(inner): inner for inner in reversed(larger.nodes)}
        for inner in region.nodes:
            if all(value in same for value in inner.inputs):
                twin = known.get(key_of(inner, tuple([same[value] for value in inner.inputs])))
                if twin is not None:
                    same.update(zip(inner.outputs, twin.outputs, strict=True))
        results = larger.outputs
        if region is not node.regions[0]:
            results = tuple([results[place] for place in places])
        alike = (same.get(a) is b for a, b in zip(region.outputs, results, strict=True))
        if not all(alike) or not set(region.guards) <= set(larger.guards):
            return None
    return places


def _same_starts(starts: Sequence[Value], others: Sequence[Value]) -> list[int] | None:
    """For each value the place of one that is the same, in order."""
    places: list[int] = []
    rest = iter(enumerate(others))
    for value in starts:
        place = next((place for place, other in rest if other is value), None)
        if place is None:
            return None
        places.append(place)
    return places


class _Order:
    """An order of the nodes with loops merged: producers come before consumers.

    Of two loops that are merged, the one that stays moves to the place of the other, with what it
    reads of the nodes between. Only nodes between have to be looked at: so a chain of n loops costs
    n steps (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs",
    ACM Journal of Experimental Algorithmics 11, 2006).

    Attributes:
        stands_for: for results of loops that are gone those of the loops that give them.
    """

    def __init__(self, graph: Graph) -> None:
        self.stands_for: dict[Value, Value] = {}
        self._producers = graph.producers
        # a node that moves goes below the place of the one that is gone: (7, 0) is behind (7,)
        self._places: dict[Node, tuple[int, ...]] = {
            node: (number,) for number, node in enumerate(graph.nodes)
        }

    def before(self, node: Node, earlier: Node) -> list[Node] | None:
        """What must move for a node to take the place of an earlier one; None if it reads it."""
        places = self._places
        first = places[earlier]
        if places[node] < first:
            return []
        found = {node}
        stack = [node]
        while stack:
            for value in stack.pop().inputs:
                maker = self._producers.get(self.stands_for.get(value, value))
                if maker is earlier:
                    return None
                if maker is not None and maker not in found and places[maker] > first:
                    found.add(maker)
                    stack.append(maker)
        return sorted(found, key=places.__getitem__)

    def merge(
        self, node: Node, other: Node, places: Sequence[int], between: Sequence[Node]
    ) -> None:
        """Notes that the results of a loop are these of the other, which moves to its place."""
        for value, place in zip(node.outputs, places, strict=True):
            self.stands_for[value] = other.outputs[place]
        first = self._places[node]
        self._places.update((moved, (*first, number)) for number, moved in enumerate(between))
