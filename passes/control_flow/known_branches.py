"""Branches whose predicate is known are taken now, and loops that never run are left out.

    %1 = constant() {True}
    %2 = cond(%1, %x) {                         ->      %2 = exp(%x)
      then: exp(%x), else: log(%x) }

Known is what is a constant, and inside of a branch what its predicate says: there the predicate is
true (or false), and so are both sides of an ``and`` (or an ``or``), while a negation is the
opposite. A cond on ``not p`` is one on p with its branches swapped. A loop is left out if its
condition is false for the values it starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from graphc.ir.attributes import Payload
from graphc.ir.dtypes import bool_
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.guard import Guard
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.pointwise.logic import bitwise_and_op, bitwise_not_op, bitwise_or_op
from graphc.ops.source import constant_op
from passes.control_flow.regions import captured_values, is_loop, operands
from passes.graph.fold import fold
from passes.infra.base import PassContext, has_open_regions
from passes.rewriting.constants import Known, known

PARTS = frozenset({"known-branch", "known-predicate", "swapped-branches", "idle-loop"})
"""What this pass calls its decisions; each can be switched off."""

_TRUTH = TensorType(bool_, ())


def known_branches(graph: Graph, context: PassContext) -> Graph:
    """The graph without control flow whose way is known; linear, all levels at once."""
    return _Level(context, {}).run(graph) if graph.has_regions else graph


class _Level:
    """One graph or region being rebuilt, node by node.

    Args:
        context: decides.
        facts: what is known of scalar bools among the inputs.
    """

    def __init__(self, context: PassContext, facts: Mapping[Value, bool]) -> None:
        self._context = context
        self._facts = dict(facts)
        self._nodes: list[Node] = []
        self._guards: list[Guard] = []
        self._producer: dict[Value, Node] = {}
        self._stands_for: dict[Value, Value] = {}

    def run(self, graph: Graph) -> Graph:
        """The graph, or the identical one where nothing is known."""
        for node in graph.nodes:
            self._enter(node)
        outputs = [self._resolve(value) for value in graph.outputs]
        made = graph.rebuilt(self._nodes, outputs)
        return made.with_parts(guards=self._guards) if self._guards else made

    def state(self, value: Value, truth: bool, provenance: Provenance) -> None:
        """Who read the input reads a constant."""
        attrs = {"value": Payload(np.asarray(truth))}
        provenance = replace(provenance, cause="known_branches")
        constant = Node(constant_op, (), attrs, (Value(_TRUTH, value.name),), (), provenance)
        self._stands_for[value] = constant.output
        self._append(constant)

    # --- nodes -----------------------------------------------------------------------------------

    def _resolve(self, value: Value) -> Value:
        while (other := self._stands_for.get(value)) is not None:
            value = other
        return value

    def _append(self, node: Node) -> None:
        self._nodes.append(node)
        for value in node.outputs:
            self._producer[value] = node
        if node.op is constant_op and node.output.type == _TRUTH:
            self._facts[node.output] = bool(node.attrs["value"].array)

    def _enter(self, node: Node) -> None:
        node = node.with_inputs([self._resolve(value) for value in node.inputs])
        if not has_open_regions(node):
            self._append(node)
        elif is_loop(node):
            self._loop(node)
        else:
            self._cond(node)

    def _cond(self, node: Node) -> None:
        node = self._unswapped(node)
        predicate = node.inputs[0]
        truth = self._facts.get(predicate)
        if truth is not None and self._context.decide("known-branch", node):
            self._inline(node.regions[0 if truth else 1], node)
            return
        implied = [self._implied(predicate, taken) for taken in (True, False)]
        self._append(self._with_regions(node, implied))

    def _loop(self, node: Node) -> None:
        if self._never_runs(node) and self._context.decide("idle-loop", node):
            for value, start in zip(node.outputs, node.inputs, strict=False):
                self._stands_for[value] = start
            # the condition has run once
            self._guards += node.regions[0].guards
            return
        self._append(self._with_regions(node, [{}, {}]))

    def _unswapped(self, node: Node) -> Node:
        """The cond on what its predicate negates, if it does."""
        while True:
            negation = self._producer.get(node.inputs[0])
            if (
                negation is None
                or negation.op is not bitwise_not_op
                or not self._context.decide("swapped-branches", node)
            ):
                return node
            regions = [
                Graph(old.name, new.inputs, new.nodes, new.outputs, new.guards)
                for old, new in zip(node.regions, reversed(node.regions), strict=True)
            ]
            inputs = (negation.inputs[0], *node.inputs[1:])
            node = replace(node, inputs=inputs, regions=tuple(regions))

    def _inline(self, region: Graph, node: Node) -> None:
        """The nodes of a branch join this level; results of the cond keep their identity."""
        self._guards += region.guards
        given = dict(zip(region.inputs, operands(node), strict=True))
        self._stands_for.update(given)
        own: dict[Value, Value] = {}
        for result, value in zip(node.outputs, region.outputs, strict=True):
            if value not in given and value.type == result.type:
                own.setdefault(value, result)
        for inner in region.nodes:
            outputs = tuple(
                own[value] if value in own else Value(value.type, value.name)
                for value in inner.outputs
            )
            self._stands_for.update(zip(inner.outputs, outputs, strict=True))
            self._enter(replace(inner, outputs=outputs))
        for result, value in zip(node.outputs, region.outputs, strict=True):
            if own.get(value) is not result:
                self._stands_for[result] = self._resolve(value)

    # --- regions ---------------------------------------------------------------------------------

    def _with_regions(self, node: Node, implied: Sequence[Mapping[Value, bool]]) -> Node:
        """The node with its regions rebuilt, each knowing what holds wherever it runs."""
        return node.with_regions(list(map(partial(self._region, node), node.regions, implied)))

    def _region(self, node: Node, region: Graph, implied: Mapping[Value, bool]) -> Graph:
        inside: dict[Value, bool] = {}
        for value, operand in captured_values(node, region).items():
            truth = self._truth(operand, implied)
            if truth is not None:
                inside[value] = truth
        level = _Level(self._context, inside)
        if inside:
            read = {value for inner in region.nodes for value in inner.inputs}
            read.update(region.outputs)
            for value, truth in inside.items():
                if value in read and self._context.decide("known-predicate", node):
                    level.state(value, truth, node.provenance)
        return level.run(region)

    def _truth(self, value: Value, implied: Mapping[Value, bool]) -> bool | None:
        """What is known of a value of this level, or of the one that it negates."""
        for candidate, negated in self._readings(value):
            truth = implied.get(candidate, self._facts.get(candidate))
            if truth is not None:
                return truth != negated
        return None

    def _readings(self, value: Value) -> Iterator[tuple[Value, bool]]:
        yield value, False
        node = self._producer.get(value)
        if node is not None and node.op is bitwise_not_op:
            yield node.inputs[0], True

    def _implied(self, predicate: Value, truth: bool) -> dict[Value, bool]:
        """What holds where the predicate is true, or false."""
        facts: dict[Value, bool] = {}
        stack = [(predicate, truth)]
        while stack:
            value, holds = stack.pop()
            if value in facts:
                continue
            facts[value] = holds
            node = self._producer.get(value)
            if node is None:
                continue
            if node.op is bitwise_not_op:
                stack.append((node.inputs[0], not holds))
            elif node.op is (bitwise_and_op if holds else bitwise_or_op):
                stack.extend((operand, holds) for operand in node.inputs)
        return facts

    def _never_runs(self, node: Node) -> bool:
        """True if the condition can be computed for the start and is false."""
        condition = node.regions[0]
        constants: list[Node] = []
        inputs: list[Value] = []
        for value, operand in zip(condition.inputs, operands(node), strict=True):
            start = self._constant(operand)
            if start is None:
                inputs.append(value)
            else:
                attrs = {"value": Payload(start.array)}
                constants.append(Node(constant_op, (), attrs, (value,), (), node.provenance))
        nodes = (*constants, *condition.nodes)
        folded = fold(Graph(condition.name, inputs, nodes, condition.outputs), PassContext())
        outcome = known(folded.outputs[0], folded.producers.get)
        return outcome is not None and not outcome.array

    def _constant(self, value: Value) -> Known | None:
        """A constant of this level whose elements are all there."""
        found = known(value, self._producer.get)
        return None if found is None or found.splat else found
