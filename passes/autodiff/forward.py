"""Forward mode: tangents as further nodes of the same graph, from the same declarations.

    %1 = exp(%x)               ->       %1 = exp(%x)
                                        %2 = guarded_multiply(%t, %1)   # gradient of exp

Invariant: a tangent has the type of its value. Linear in the nodes on a path, without recursion.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.errors import VerifyError
from graphc.ir.builder import apply_node
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Custom, Linear, Multilinear, Partials, Regional
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.narrow_floats import as_computed, as_stored, widened
from passes.autodiff.regional import RULES
from passes.autodiff.tape import (
    Alias,
    differentiating,
    multiplied,
    prune,
    record,
    refuse,
    total,
)


def forward(
    graph: Graph,
    ys: Sequence[Value],
    xs: Sequence[Value],
    tangents: Sequence[Value],
) -> tuple[Graph, list[Value | None]]:
    """The graph with the change of each y when each x changes by its tangent.

    Args:
        graph: holds ys, xs and the tangents.
        ys: any values.
        xs: floats; where one is given twice or depends on another, their changes add up.
        tangents: one per x, of its type.

    Returns:
        The graph with all original nodes, and per y its tangent: of its type, None where it is
        zero because no differentiable path leads to y.

    Raises:
        GradientError: if a path leads through an op that is not differentiable.
    """
    editor = GraphEditor(graph, records=True)
    tape = record(editor, graph, ys, xs)
    sweep = _Sweep(editor)
    for x, tangent in zip(xs, tangents, strict=True):
        sweep.seed(x, tangent)
    for entry in tape.entries:
        if isinstance(entry, Alias):
            sweep.pass_on(entry)
        else:
            sweep.visit(entry)
    results = [sweep.tangents.get(y) for y in ys]
    return prune(editor, graph, results), results


class _Sweep:
    """The tangents known so far, from the first node on."""

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self.tangents: dict[Value, Value] = {}

    def seed(self, x: Value, tangent: Value) -> None:
        """The tangent from outside."""
        with differentiating(self._editor, self._editor.producer(x), derives=False):
            self._add(x, tangent, None)

    def pass_on(self, alias: Alias) -> None:
        """A decomposed node changes as its decomposition does."""
        tangent = self.tangents.get(alias.result)
        if tangent is not None:
            with differentiating(self._editor, self._editor.producer(alias.output), derives=False):
                self._add(alias.output, tangent, None)

    def visit(self, node: Node) -> None:
        """Adds the tangents of the node's outputs."""
        tangents = [self.tangents.get(value) for value in node.inputs]
        if all(tangent is None for tangent in tangents):
            return
        with differentiating(self._editor, node, derives=False):
            wide = as_computed(node)
            if wide is not node:
                tangents = [None if each is None else widened([each])[0] for each in tangents]
            pushed = self._pushed(wide, tangents)
            for value, tangent in zip(node.outputs, pushed, strict=True):
                if tangent is not None and value.dtype.is_differentiable:
                    self._add(value, tangent, node)

    def _pushed(self, node: Node, tangents: Sequence[Value | None]) -> Sequence[Value | None]:
        """One tangent per output, of its shape or broadcastable to it."""
        rule = node.op.derivative
        inputs, attrs = node.inputs, node.attrs
        if isinstance(rule, Custom):
            return rule.jvp(tangents, inputs, node.outputs, attrs)
        if isinstance(rule, Partials):
            partials = rule.rule(inputs, node.output, attrs)
            terms = [
                multiplied(tangent, partial)
                for tangent, partial in zip(tangents, partials, strict=True)
                if tangent is not None and partial is not None
            ]
            return [total(terms) if terms else None]
        if isinstance(rule, Linear) and node.op.effect == "pure":
            zeros_like = surface_function("zeros_like")
            operands: list[Value] = []
            for position, (value, tangent) in enumerate(zip(inputs, tangents, strict=True)):
                if position in rule.fixed or not value.dtype.is_differentiable:
                    operands.append(value)
                else:
                    operands.append(zeros_like(value) if tangent is None else tangent)
            return [apply_node(node.op, operands, attrs).output]
        if isinstance(rule, Multilinear):
            changed = [
                apply_node(node.op, (*inputs[:position], tangent, *inputs[position + 1 :]), attrs)
                for position, tangent in enumerate(tangents)
                if tangent is not None
            ]
            return [total([term.output for term in changed])]
        if isinstance(rule, Regional):
            return RULES[node.op].push(node, tangents, self._editor.producer, forward)
        raise refuse(node)

    def _add(self, value: Value, tangent: Value, node: Node | None) -> None:
        tangent = as_stored(tangent, value)
        if tangent.dtype is not value.dtype:
            raise VerifyError(
                f"a tangent of {value.type} is {tangent.type}",
                node=repr(node) if node is not None else None,
            )
        if tangent.shape != value.shape:
            tangent = surface_function("broadcast_to")(tangent, value.shape)
        own = self.tangents.get(value)
        self.tangents[value] = tangent if own is None else total([own, tangent])
