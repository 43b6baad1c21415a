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
from graphc.ops.indexing.scatter import SCATTERS
from graphc.ops.loops import WhileLoop
from graphc.ops.pointwise.arithmetic import subtract_op
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
            spent = {p: write for p in range(loop.count) if (write := _spent(loop, p, read))}
            if spent and context.decide(spent_rows.__name__, node):
                node = _captured(loop, spent)
        nodes.append(node)
    return graph.rebuilt(nodes)


def _spent(loop: WhileLoop, place: int, read: Collection[Value]) -> Node | None:
    """What overwrites the rows of a variable, if each is read before by the same trip alone."""
    body = loop.body
    own, result = body.inputs[place], body.outputs[place]
    write = body.producers.get(result)
    if loop.node.outputs[place] in read or own in loop.condition.users():
        return None
    if write is None or write.op is not SCATTERS["set", False] or write.inputs[0] is not own:
        return None
    users = body.users()
    if result in users or sum(value is result for value in body.outputs) != 1:
        return None
    index, axis = write.inputs[1], write.attrs["axis"]
    if index.shape != () or "drop" in write.attrs or not _differs_by_trip(loop, index):
        return None
    for user in users[own]:
        if user is write:
            continue
        takes = user.op is take_op and user.inputs[1] is index and user.attrs["axis"] == axis
        if not takes or user.inputs[0] is not own:
            return None
    return write


def _differs_by_trip(loop: WhileLoop, index: Value) -> bool:
    """Whether each trip has another place, none of them negative: those count from the end."""
    counter = loop.counter()
    trips = loop.size(counter)
    if counter is None or trips is None:
        return False
    count, first = loop.body.inputs[counter.place], loop.first_number(counter)
    if count.dtype is not int64:
        return False
    if index is count:
        return first >= 0
    made = loop.body.producers.get(index)
    if made is None or made.op is not subtract_op or made.inputs[1] is not count:
        return False
    start = loop.size_of(made.inputs[0])
    return start is not None and compare("le", first + trips - 1, start) is True


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
