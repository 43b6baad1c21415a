"""Rows that a loop reads once and then overwrites, with nobody to see it, are not overwritten.

    %3 = while(%i, %c) {                      while(%i) with %c captured {
      %1 = take(%c, %i)               ->        %1 = take(%c, %i)
      %2 = scatter_set(%c, %i, %0)            }
      return i + 1, %2 }

The gradient of a stack is read so, row by row. Without the writes it is an operand like others, and
may be computed where it is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from graphc.ir.dims.expressions import compare
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.control import while_op
from graphc.ops.indexing.core import take_op
from graphc.ops.loops import Counter, Row, WhileLoop
from passes.infra.base import PassContext


def spent_rows(graph: Graph, context: PassContext) -> Graph:
    """The graph with such variables of its loops captured; linear."""
    if all(node.op is not while_op for node in graph.nodes):
        return graph
    read = {value for node in graph.nodes for value in node.inputs}.union(graph.outputs)
    nodes = []
    for node in graph.nodes:
        if node.op is while_op:
            loop = WhileLoop(node, graph.producers.get)
            spent = _spent(loop, read)
            if spent and context.decide(spent_rows.__name__, node):
                node = _captured(loop, spent)
        nodes.append(node)
    return graph.rebuilt(nodes)


def _spent(loop: WhileLoop, read: Collection[Value]) -> dict[int, Node]:
    """What overwrites the rows of variables, if each is read before, by the same trip alone."""
    counter = loop.counter()
    if counter is None:
        return {}
    asked = loop.condition.users()
    return {
        place: row.node
        for place, row in loop.written_rows().items()
        if loop.node.outputs[place] not in read and loop.condition.inputs[place] not in asked
        if row.how == "set" and _is_read_there(row)
        if _differs_by_trip(loop, row.node.inputs[1], counter)
    }


def _is_read_there(row: Row) -> bool:
    """Whether a row is read, which also checks its index, and no other."""
    own, index = row.node.inputs[:2]
    readers = [user for user in row.users if user is not row.node]
    return bool(readers) and all(
        user.op is take_op
        and user.inputs[0] is own
        and user.inputs[1] is index
        and user.attrs["axis"] == row.node.attrs["axis"]
        for user in readers
    )


def _differs_by_trip(loop: WhileLoop, index: Value, counter: Counter) -> bool:
    """Whether each trip has another place, none of them negative: those count from the end."""
    trips, found = loop.size(counter), loop.by_counter(index, counter)
    if trips is None or found is None or loop.start[counter.place].dtype is not int64:
        return False
    (size, sign), first = found, loop.first_number(counter)
    if sign > 0:
        return first >= 0
    return compare("le", first + trips - 1, size) is True


def _captured(loop: WhileLoop, spent: dict[int, Node]) -> Node:
    """The loop with these variables captured, and without what overwrites them."""
    node, count = loop.node, loop.count
    kept = [place for place in range(count) if place not in spent]
    order = [*kept, *range(count, len(node.inputs)), *spent]
    writes = set(spent.values())
    condition = loop.condition.with_parts(inputs=[loop.condition.inputs[n] for n in order])
    body = loop.body.with_parts(
        inputs=[loop.body.inputs[n] for n in order],
        nodes=[inner for inner in loop.body.nodes if inner not in writes],
        outputs=[loop.body.outputs[place] for place in kept],
    )
    return replace(
        node,
        inputs=tuple(node.inputs[n] for n in order),
        attrs={**node.attrs, "carried": len(kept)},
        outputs=tuple(node.outputs[place] for place in kept),
        regions=(condition, body),
    )


__all__ = ["spent_rows"]
