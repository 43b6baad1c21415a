"""Precompute: constant subgraphs that are not exact run once, natively, when the graph is compiled.

    %1 = constant()                     %2 = constant() {value = payload #…}
    %2 = exp(%1)               ->       %3 = contract(%x, %2)
    %3 = contract(%x, %2)

Folding computes exact operations in NumPy; these need the compiled code, whose bits are the
contract. Bits do not depend on fusion, so the results are what every run would compute. Control
flow and what may find an index out of range stay: their errors belong to the run.
"""

from __future__ import annotations

from graphc.ir.attributes import Payload
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.source import constant_op
from passes.graph.dce import dce
from passes.graph.fold import SMALL_BYTES
from passes.infra.base import PassContext
from passes.rewriting.constants import is_exact, needs_sizes, payload_array


def precompute(graph: Graph, context: PassContext) -> Graph:
    """The graph with constant subgraphs replaced by what they give; two walks."""
    if context.execute is None:
        return graph
    stored, inexact = _constants(graph)
    if not inexact:
        return graph
    wanted = _frontier(graph, stored, inexact, context)
    if not wanted:
        return graph
    needed = [node for node in graph.nodes if node.outputs[0] in stored]
    program = dce(Graph("constants", (), needed, [node.output for node in wanted]), context)
    editor = GraphEditor(graph, "precompute")
    for node, array in zip(wanted, context.execute(program), strict=True):
        editor.redefine(node.output, constant_op, (), {"value": Payload(array)})
    return dce(editor.finish(), context)


def _constants(graph: Graph) -> tuple[dict[Value, int], set[Value]]:
    """Values that depend on constants alone, with the bytes of the largest constant beneath each;
    and those of them with an inexact operation beneath."""
    stored: dict[Value, int] = {}
    inexact: set[Value] = set()
    for node in graph.nodes:
        if node.op is constant_op:
            stored[node.output] = payload_array(node).nbytes
        elif stored.keys().isdisjoint(node.inputs):
            continue
        elif all(value in stored for value in node.inputs) and _can_run(node):
            stored[node.output] = max(stored[value] for value in node.inputs)
            if not is_exact(node) or any(value in inexact for value in node.inputs):
                inexact.add(node.output)
    return stored, inexact


def _can_run(node: Node) -> bool:
    """Whether the node gives the same whenever it runs, and can't fail."""
    return (
        bool(node.inputs)
        and len(node.outputs) == 1
        and not node.regions
        and node.op.effect == "pure"
        and not node.may_fail
        and node.output.type.is_static
        and not needs_sizes(node)
    )


def _frontier(
    graph: Graph, stored: dict[Value, int], inexact: set[Value], context: PassContext
) -> list[Node]:
    """The nodes to store: what others read of the constant part, as near as sizes allow."""
    exposed = set(graph.outputs)
    wanted: list[Node] = []
    for node in reversed(graph.nodes):
        key = node.outputs[0]
        if key not in stored:
            exposed.update(node.inputs)
            continue
        if key not in exposed or node.op is constant_op:
            continue
        if key in inexact and node.op is not broadcast_to_op:
            size = node.output.type.bytes
            assert isinstance(size, int), "only static types are taken"
            is_large = size > max(stored[key], SMALL_BYTES)
            if is_large and not node.op.lowering.tabulates:
                context.decline("precompute", node, f"{size} bytes would be made of {stored[key]}")
            elif context.decide("precompute", node):
                wanted.append(node)
                continue
        exposed.update(node.inputs)
    return wanted
