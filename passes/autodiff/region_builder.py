"""Regions under construction: how derivatives of control flow write branches and bodies.

A region is a graph of its own: what it captures comes in as further inputs, and parts of other
graphs are copied into it, since a value is made in one place only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from graphc.ir.builder import apply_node
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from passes.autodiff.tape import cause_of


class Region:
    """A region that is being written.

    Attributes:
        inputs: what stands in it for the operands of the node that will own it.
        editor: what gets its nodes.
    """

    def __init__(self, name: str, operands: Iterable[Value]) -> None:
        self.inputs = _alike(operands)
        self.editor = GraphEditor(Graph(name, self.inputs, (), ()))

    def copied(
        self, graph: Graph, given: Mapping[Value, Value], wanted: Iterable[Value]
    ) -> list[Value]:
        """Values of another graph, computed here by copies of its nodes, under its guards.

        Args:
            graph: where the values are made.
            given: what stands here for its inputs, those that are needed.
            wanted: values of the graph.
        """
        results = list(wanted)
        here = dict(given)
        for node in _copies(graph.leading_to(results), here):
            self.editor.put(node)
        self.editor.require(graph.guards)
        return [here[value] for value in results]

    def derived(
        self, graph: Graph, given: Mapping[Value, Value], results: Sequence[Value | None]
    ) -> list[Value | None]:
        """As ``copied``, of results among which None stands for zeros."""
        known = iter(self.copied(graph, given, [value for value in results if value is not None]))
        return [None if value is None else next(known) for value in results]

    def written(self, origin: Node, outputs: Callable[[], Sequence[Value]]) -> Graph:
        """The finished region, which gives what the function builds for the node."""
        with self.editor.rewriting(origin, cause_of(origin.op), derives=True):
            self.editor.outputs = list(outputs())
        return self.editor.finish()


def _copies(nodes: Iterable[Node], here: dict[Value, Value]) -> Iterator[Node]:
    """The nodes over what stands for their operands, to which new results are added."""
    for node in nodes:
        outputs = _alike(node.outputs)
        inputs = tuple([here[value] for value in node.inputs])
        here.update(zip(node.outputs, outputs, strict=True))
        regions = tuple(map(_copy, node.regions))
        yield replace(node, inputs=inputs, outputs=outputs, regions=regions)


def _copy(region: Graph) -> Graph:
    """The region with values of its own; nested no deeper than regions may be."""
    inputs = _alike(region.inputs)
    here = dict(zip(region.inputs, inputs, strict=True))
    nodes = list(_copies(region.nodes, here))
    outputs = [here[value] for value in region.outputs]
    return Graph(region.name, inputs, nodes, outputs, region.guards)


def _alike(values: Iterable[Value]) -> tuple[Value, ...]:
    """New values of the same types and names."""
    return tuple([Value(value.type, value.name) for value in values])


def or_zeros(values: Iterable[Value | None], like: Iterable[Value]) -> list[Value]:
    """The values, with zeros of the type of their likes where there is none."""
    zeros = surface_function("zeros")
    return [
        zeros(other.shape, other.dtype) if value is None else value
        for value, other in zip(values, like, strict=True)
    ]


def at_places(
    count: int, places: Iterable[int], values: Iterable[Value | None]
) -> list[Value | None]:
    """So many values, of which these stand at these places, and None elsewhere."""
    found: list[Value | None] = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def read_inputs(graph: Graph, wanted: Iterable[Value]) -> set[Value]:
    """What these values depend on, themselves included."""
    values = set(wanted)
    for node in graph.leading_to(values):
        values.update(node.inputs)
    return values


class Carried:
    """Loop variables in named groups, such as states and their cotangents."""

    def __init__(self, **groups: Sequence[Value]) -> None:
        self._names = tuple(groups)
        self._sizes = [len(group) for group in groups.values()]
        self.values = [value for group in groups.values() for value in group]

    def parted(self, values: Sequence[Value]) -> dict[str, list[Value]]:
        """As many values, by the groups that they belong to."""
        rest = iter(values)
        return {
            name: [next(rest) for _ in range(size)]
            for name, size in zip(self._names, self._sizes, strict=True)
        }


Groups = dict[str, list[Value]]


def repeat(
    origin: Node,
    carried: Mapping[str, Sequence[Value]],
    captured: Sequence[Value],
    condition: Callable[[Region, Groups, Sequence[Value]], Value],
    body: Callable[[Region, Groups, Sequence[Value]], Mapping[str, Sequence[Value]]],
) -> Groups:
    """A loop in the graph that is current; gives the loop variables at its end, by groups.

    Args:
        origin: the node that it is part of the derivative of.
        carried: the first values of its variables, in groups of any names.
        captured: what its regions read from outside.
        condition: whether there is another trip, of the region, its variables and what is captured.
        body: the variables' successors, in the same groups.
    """
    groups = Carried(**carried)
    count = len(groups.values)
    operands = [*groups.values, *captured]

    def region(
        name: str, outputs: Callable[[Region, Groups, Sequence[Value]], Sequence[Value]]
    ) -> Graph:
        made = Region(name, operands)
        own = groups.parted(made.inputs[:count])
        return made.written(origin, lambda: outputs(made, own, made.inputs[count:]))

    def successors(made: Region, own: Groups, outside: Sequence[Value]) -> Sequence[Value]:
        following = body(made, own, outside)
        return [value for name in carried for value in following[name]]

    regions = [
        region("condition", lambda made, own, outside: [condition(made, own, outside)]),
        region("body", successors),
    ]
    read = captures_read(regions, count)
    inputs = [*groups.values, *(operands[place] for place in read)]
    regions = with_captures(regions, count, read)
    node = apply_node(while_op, inputs, {"carried": count}, regions)
    return groups.parted(node.outputs)


def branched(
    predicate: Value, operands: Sequence[Value], regions: Sequence[Graph]
) -> Sequence[Value]:
    """What a ``cond`` of two branches over the operands gives, in the graph that is current."""
    read = captures_read(regions, 0)
    inputs = [predicate, *(operands[place] for place in read)]
    return apply_node(cond_op, inputs, {}, with_captures(regions, 0, read)).outputs


def captures_read(regions: Sequence[Graph], first: int) -> list[int]:
    """The places, from the first on, of the inputs that some region reads."""
    read = {value for region in regions for value in region.outputs}
    read.update(value for region in regions for node in region.nodes for value in node.inputs)
    places = range(first, len(regions[0].inputs))
    return [place for place in places if any(region.inputs[place] in read for region in regions)]


def with_captures(regions: Sequence[Graph], first: int, places: Sequence[int]) -> list[Graph]:
    """The regions with their first inputs, and the others at these places."""
    return [
        region.with_parts(inputs=(*region.inputs[:first], *(region.inputs[p] for p in places)))
        for region in regions
    ]
