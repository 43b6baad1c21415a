"""Guards of nodes: what single nodes of a graph that is recorded need of sizes.

Role: finds them, and lifts them off the nodes that a frozen graph is made of (``graphc.ir.guard``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphc.base.source import Location
from graphc.ir.graph import Node
from graphc.ir.guard import ATTRIBUTE, Guard, guard_of, holes, merged, without_guards


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
