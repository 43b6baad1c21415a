"""Attention masks: proves which masked scores a kernel may skip without a change of bits.

    s = where(mask, q @ k, -inf);  e = exp(s - shift);  (e / sum(e)) @ v

Where the mask hides a column from a row, the score is -inf for any product. So it raises no
maximum, its exponential is +0, and it adds nothing to the sum. A weight of +0 adds +0 or -0 to the
product with the values, if the value is finite. ``find_masks`` proves this of a region for all
numbers, and gives the masks only then. The kernel checks conditions on the numbers themselves:
values are finite, and no element is -0, which +0 would change.

A row with NaN among its weights has NaN in each of its results, with or without hidden columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op, reshape_op
from graphc.ops.pointwise.arithmetic import divide_op, subtract_op
from graphc.ops.pointwise.logic import where_op
from graphc.ops.pointwise.math import exp_op
from graphc.ops.reduce.core import reduce_max_op, reduce_sum_op
from graphc.ops.source import constant_op

_State = Literal["score", "masked", "shifted", "exponential", "weight"]
"""What a hidden element is: anything, -inf, -inf, +0, +0; the last three NaN if the row has NaN."""

_Kind = bool | Literal["finite", "infinite"] | None
"""What a scalar of a row is: a known bool, a finite number, +inf, or anything."""


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Which scores are looked at: those where the condition is as ``kept`` says."""

    condition: Value
    kept: bool


def find_masks(region: Graph, scores: Value, weights: Value) -> tuple[Mask, ...]:
    """The masks of a region that multiplies ``weights`` computed from ``scores``.

    A score is hidden if one of the masks hides it. Empty if hidden scores can have an effect.
    """
    walk = _Walk(region, scores)
    if not all(walk.node(node) for node in region.nodes):
        return ()
    if any(value in walk.states for value in region.outputs):
        return ()
    return tuple(walk.masks) if walk.states.get(weights) == "weight" else ()


class _Walk:
    """A walk over a region in order; ``node`` says whether the effect of a node is known."""

    def __init__(self, region: Graph, scores: Value) -> None:
        self.region = region
        self.scores = scores
        self.masks: list[Mask] = []
        self.states: dict[Value, _State] = {}
        self._of: dict[Value, Value] = {}  # what a maximum or a sum was taken of
        # what it is if the maximum is finite, and if that is +inf
        self._kinds: dict[Value, tuple[_Kind, _Kind]] = {}

    def node(self, node: Node) -> bool:
        """Whether the effect of hidden scores on the node's result is known."""
        if node.op.lowering.is_product:
            return self._product(node)
        if not any(v in self.states or v in self._of or v in self._kinds for v in node.inputs):
            return True
        if node.op.lowering.is_reduction:
            return self._reduction(node)
        if any(value in self.states for value in node.inputs):
            return node.op.lowering.is_pointwise and self._elements(node)
        return self._row(node)

    def _product(self, node: Node) -> bool:
        if node.output is self.scores:
            self.states[node.output] = "score"
            return True
        left, right = node.inputs
        return self.states.get(left) == "weight" and right not in self.states

    def _reduction(self, node: Node) -> bool:
        (source,) = node.inputs
        state = self.states.get(source)
        self._of[node.output] = source
        if node.op is reduce_max_op and state == "masked":
            self._kinds[node.output] = ("finite", "infinite")
            return True
        return node.op is reduce_sum_op and state == "exponential"

    def _elements(self, node: Node) -> bool:
        """Work on elements of whole rows."""
        first, *others = node.inputs
        state = self.states.get(first)
        result: _State | None = None
        if node.op is where_op:
            result = self._masked(node)
        elif node.op is exp_op and state in ("masked", "shifted"):
            result = "exponential"
        elif node.op is subtract_op and state == "masked" and self._shifts(others[0], first):
            result = "shifted"
        elif node.op is divide_op and state == "exponential":
            is_sum = self._of.get(others[0]) is first and others[0] not in self._kinds
            result = "weight" if is_sum else None
        if result is None and self._is_score(node):
            result = "score"
        if result is None or node.output.shape != self.scores.shape:
            return False
        self.states[node.output] = result
        return True

    def _is_score(self, node: Node) -> bool:
        """Whether the node reads scores and nothing that depends on masked ones."""
        return all(
            self.states.get(value, "score") == "score" and value not in self._of
            for value in node.inputs
        )

    def _masked(self, node: Node) -> _State | None:
        condition, then, otherwise = node.inputs
        if condition in self.states or condition in self._of:
            return None
        for kept, score, other in ((True, then, otherwise), (False, otherwise, then)):
            if self._can_mask(score) and self._number(other) == -math.inf:
                # what an earlier mask gave is looked at no more: a later one hides further scores
                self.states[score] = "score"
                self.masks.append(Mask(condition, kept))
                return "masked"
        return None

    def _can_mask(self, value: Value) -> bool:
        """Whether all values that depend on scores masked so far are computed from this value."""
        if self.states.get(value) == "score":
            return not self.masks
        others = (state for other, state in self.states.items() if other is not value)
        is_last = not self._of and all(state == "score" for state in others)
        return self.states.get(value) == "masked" and is_last

    def _shifts(self, shift: Value, masked: Value) -> bool:
        """Whether -inf less the shift is -inf, but for rows whose kept scores all are -inf or that
        hold NaN: there hidden elements are like the others, or do not matter."""
        known = self._kinds.get(shift, (None, None))
        return self._of.get(shift) is masked and all(
            kind in ("finite", "infinite") for kind in known
        )

    def _row(self, node: Node) -> bool:
        """Work on values of one element a row."""
        sources = {self._of[value] for value in node.inputs if value in self._of}
        if len(sources) != 1:
            return False
        (self._of[node.output],) = sources
        operands = [self._kind(value) for value in node.inputs]
        if node.op in (reshape_op, broadcast_to_op):
            if node.inputs[0] in self._kinds:
                self._kinds[node.output] = operands[0]
            return True
        if not node.op.lowering.is_pointwise:
            return False
        finite, infinite = (
            self._judged(node, [operand[case] for operand in operands]) for case in (0, 1)
        )
        self._kinds[node.output] = (finite, infinite)
        return True

    def _judged(self, node: Node, operands: list[_Kind]) -> _Kind:
        """The kind of a node's result, for the functions that a guarded maximum consists of."""
        name = node.op.name
        if name == "isfinite" and operands[0] is not None:
            return operands[0] == "finite"
        if name == "equal" and set(operands) <= {"finite", "infinite"} and "infinite" in operands:
            return operands[0] == operands[1]
        if name == "where" and isinstance(operands[0], bool):
            return operands[1] if operands[0] else operands[2]
        return None

    def _kind(self, value: Value) -> tuple[_Kind, _Kind]:
        known = self._kinds.get(value)
        if known is not None:
            return known
        number = self._number(value)
        if number is None or math.isnan(number) or number == -math.inf:
            return (None, None)
        kind: _Kind = "infinite" if number == math.inf else "finite"
        return (kind, kind)

    def _number(self, value: Value) -> float | None:
        """The number, if a value is a scalar constant."""
        node = self.region.producers.get(value)
        if node is None or node.op is not constant_op or value.shape != ():
            return None
        return float(node.attrs["value"].array)


__all__ = ["Mask", "find_masks"]
