"""Checks that a loop's counter proves: what a trip relies on because there is a trip.

    while i < n { %1 = take(%x, i) }        of %x: float64[n, m]

The place is in the axis in every trip, and an axis of which a trip takes a place has one. So the
guard that it has, and the check that is left for lanes of which there are none, say nothing.
"""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.dims.expressions import Dim, compare
from graphc.ir.graph import Graph, Node
from graphc.ir.guard import Guard
from graphc.ir.proof.facts import Assumed
from graphc.ir.proof.prover import Prover
from graphc.ir.value import Value
from graphc.ops.control import demand_op
from graphc.ops.indexing.unread import check_rows_op
from graphc.ops.loops import WhileLoop
from graphc.ops.pointwise.arithmetic import add_op, subtract_op

Ends = tuple[Dim, Dim]
"""The least and the greatest of the numbers that an integer is in the trips of a loop."""


def without_proved_checks(loop: WhileLoop) -> Node:
    """The node of a loop without guards and checks that hold in every trip; linear."""
    body, counter = loop.body, loop.counter()
    trips = loop.size(counter)
    has_checks = any(node.op in (check_rows_op, demand_op) for node in body.nodes)
    if counter is None or trips is None or not (body.guards or has_checks):
        return loop.node
    first = loop.first_number(counter)
    walk = _Walk(loop, {body.inputs[counter.place]: (first, first + trips - 1)})
    nodes = [kept for node in body.nodes if (kept := walk.kept(node)) is not None]
    prover = Prover(Assumed(()), (), [("le", 1, trips)])
    guards = [guard for guard in body.guards if not _holds(guard, prover)]
    if len(guards) == len(body.guards) and len(nodes) == len(body.nodes):
        return loop.node
    proved = Graph(body.name, body.inputs, nodes, body.outputs, guards)
    return replace(loop.node, regions=(loop.condition, proved))


def _holds(guard: Guard, prover: Prover) -> bool:
    """Whether a guard is proved."""
    difference = guard.left - guard.right
    return prover.holds(difference) and prover.holds(-difference)


class _Walk:
    """One walk over a body, in order; ``ends`` are those of integers that are known."""

    def __init__(self, loop: WhileLoop, ends: dict[Value, Ends]) -> None:
        self._loop = loop
        self._ends = ends
        self._gone: set[Value] = set()

    def kept(self, node: Node) -> Node | None:
        """The node; None for a check that holds, and for what asks for such checks alone."""
        if node.op is check_rows_op:
            ends = self._of(node.inputs[0])
            if ends is None or not _is_within(ends, node.attrs["size"]):
                return node
            self._gone.update(node.outputs)
            return None
        if node.op is demand_op:
            left = [value for value in node.inputs if value not in self._gone]
            return node.with_inputs(left) if left else None
        if node.op.lowering.keeps_memory and len(node.inputs) == 1:
            self._note(node, self._of(node.inputs[0]))
        elif node.op in (add_op, subtract_op):
            self._note(node, self._joined(node))
        return node

    def _joined(self, node: Node) -> Ends | None:
        left, right = map(self._of, node.inputs)
        if left is None or right is None:
            return None
        if node.op is add_op:
            return left[0] + right[0], left[1] + right[1]
        return left[0] - right[1], left[1] - right[0]

    def _note(self, node: Node, ends: Ends | None) -> None:
        if ends is not None:
            self._ends[node.output] = ends

    def _of(self, value: Value) -> Ends | None:
        if value in self._ends:
            return self._ends[value]
        size = self._loop.size_of(value)
        return None if size is None else (size, size)


def _is_within(ends: Ends, size: Dim) -> bool:
    low, high = ends
    return compare("le", 0, low) is True and compare("lt", high, size) is True


__all__ = ["without_proved_checks"]
