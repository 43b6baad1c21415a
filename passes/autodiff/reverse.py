"""Reverse mode: gradients as further nodes of the same graph.

    %1 = multiply(%x, %w)               %1 = multiply(%x, %w)
    %2 = sum(%1)               ->       %2 = sum(%1)
                                        %3 = broadcast_to(1)            # gradient of sum
                                        %4 = guarded_multiply(%3, %w)   # gradient of multiply

Invariant: a cotangent has the type of its value. What an op's rule gives in the shape of the
op's result is summed back here, and nowhere else, over the axes that the operand was broadcast
along. Linear in the nodes on a path, without recursion; sums are in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.errors import VerifyError
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import (
    Custom,
    Flat,
    Linear,
    Multilinear,
    NotDifferentiable,
    Partials,
    Regional,
)
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


def reverse(
    graph: Graph,
    ys: Sequence[Value],
    xs: Sequence[Value],
    cotangents: Sequence[Value | None],
) -> tuple[Graph, list[Value | None]]:
    """The graph with the gradients of sum(y * cotangent) by each x.

    Args:
        graph: holds ys and xs, and the cotangents given.
        ys: floats.
        xs: what to differentiate by: inputs or any other values.
        cotangents: one per y, of its type; None means ones.

    Returns:
        The graph with all original nodes, and per x its gradient: of its type, zeros where only
        discrete ops connect it to ys, None where nothing does or x is not a float.

    Raises:
        GradientError: if a path leads through an op that is not differentiable.
    """
    editor = GraphEditor(graph, records=True)
    tape = record(editor, graph, ys, xs)
    sweep = _Sweep(editor, tape.active)
    for y, cotangent in zip(ys, cotangents, strict=True):
        if y in tape.active:
            sweep.seed(y, cotangent)
    for entry in reversed(tape.entries):
        if isinstance(entry, Alias):
            sweep.pass_on(entry)
        else:
            sweep.visit(entry)
    gradients: list[Value | None] = []
    for x in xs:
        if x not in tape.needed or not x.dtype.is_differentiable:
            gradients.append(None)
        else:
            gradients.append(sweep.gradient(x))
    return prune(editor, graph, gradients), gradients


class _Sweep:
    """The cotangents collected so far, from the last node backwards."""

    def __init__(self, editor: GraphEditor, active: set[Value]) -> None:
        self._editor = editor
        self._active = active
        self._terms: dict[Value, list[Value]] = {}

    def seed(self, y: Value, cotangent: Value | None) -> None:
        """The cotangent from outside."""
        node = self._editor.producer(y)
        with differentiating(self._editor, node):
            if cotangent is None:
                cotangent = surface_function("ones_like")(y)
            self._add(y, cotangent, node)

    def cotangent(self, value: Value) -> Value | None:
        """The sum of all terms, None if there are none; later terms add to it."""
        terms = self._terms.get(value)
        if terms is None:
            return None
        if len(terms) > 1:
            with differentiating(self._editor, self._editor.producer(value)):
                terms[:] = [total(terms)]
        return terms[0]

    def gradient(self, x: Value) -> Value:
        """The cotangent, or zeros."""
        found = self.cotangent(x)
        if found is None:
            with differentiating(self._editor, self._editor.producer(x)):
                found = surface_function("zeros_like")(x)
        return found

    def pass_on(self, alias: Alias) -> None:
        """What counts for the output of a decomposed node counts for its decomposition."""
        cotangent = self.cotangent(alias.output)
        if cotangent is not None:
            with differentiating(self._editor, self._editor.producer(alias.output)):
                self._add(alias.result, cotangent, None)

    def visit(self, node: Node) -> None:
        """Adds to the cotangents of the node's inputs."""
        cotangents = [self.cotangent(value) for value in node.outputs]
        if all(cotangent is None for cotangent in cotangents):
            return
        flows = [value in self._active for value in node.inputs]
        with differentiating(self._editor, node):
            wide = as_computed(node)
            if wide is not node:
                cotangents = [None if each is None else widened([each])[0] for each in cotangents]
            terms = self._pulled(wide, cotangents, flows)
            for value, term, is_active in zip(node.inputs, terms, flows, strict=True):
                if term is not None and is_active:
                    self._add(value, term, node)

    def _pulled(
        self, node: Node, cotangents: Sequence[Value | None], flows: Sequence[bool]
    ) -> Sequence[Value | None]:
        """One term per input that derivatives flow to, in the input's shape or the output's."""
        rule = node.op.derivative
        inputs, attrs = node.inputs, node.attrs
        if isinstance(rule, NotDifferentiable):
            raise refuse(node)
        if isinstance(rule, Custom):
            return rule.vjp(cotangents, inputs, node.outputs, attrs)
        if isinstance(rule, Regional):
            pull = RULES[node.op].pull
            return pull(node, cotangents, flows, self._editor.producer, reverse)
        cotangent = cotangents[0]
        assert cotangent is not None
        if isinstance(rule, Partials):
            partials = rule.rule(inputs, node.output, attrs)
            return [
                multiplied(cotangent, partial) if partial is not None and is_active else None
                for partial, is_active in zip(partials, flows, strict=True)
            ]
        if isinstance(rule, Linear):
            return rule.transpose(cotangent, inputs, node.output, attrs)
        if isinstance(rule, Multilinear):
            return [
                transpose(cotangent, inputs, node.output, attrs) if is_active else None
                for transpose, is_active in zip(rule.transposes, flows, strict=True)
            ]
        if isinstance(rule, Flat):
            return [None] * len(inputs)
        raise refuse(node)

    def _add(self, value: Value, term: Value, node: Node | None) -> None:
        if term.shape != value.shape:
            term = surface_function("sum_to")(term, value.shape)
        term = as_stored(term, value)
        if term.dtype is not value.dtype:
            raise VerifyError(
                f"a cotangent of {value.type} is {term.type}",
                node=repr(node) if node is not None else None,
            )
        self._terms.setdefault(value, []).append(term)
