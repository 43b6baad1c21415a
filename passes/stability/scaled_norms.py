"""Roots of sums of squares, spelled by hand, become right where the squares leave the range.

    %2 = add(multiply(%0, %0), multiply(%1, %1))
    %3 = sqrt(%2)                       ->      %3 = hypot of %0 and %1

    %2 = sum(multiply(%0, %0)) {axes = (1,)}
    %3 = rsqrt(%2)                      ->      the reciprocal of the norm of the rows of %0

Role: a part of ``stabilize``. Sums, means, views and constants beside the squares may stand in
between, and factors that leave the scaled squares in the range as well. Invariant: where the sum is
finite and not below ``scales(dtype).low``, the result is the root of the sum as it was spelled, to
the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import product
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op, reshape, reshape_op, sum_to_op, transpose_op
from graphc.ops.pointwise.arithmetic import (
    add_op,
    divide_op,
    multiply_op,
    rsqrt,
    rsqrt_op,
    sqrt,
    sqrt_op,
)
from graphc.ops.reduce.axes import sum_op
from graphc.ops.reduce.scaled_norms import root_of_squares, scales, square_of
from graphc.ops.reduce.statistics import mean_op
from passes.infra.base import PassContext
from passes.rewriting.constants import Producer, known

NAME = "root-of-squares"

MAXIMUM_NODES = 48
"""How much of a sum is looked through, so that sums shared by many roots cost no more."""

LIGHTEST, HEAVIEST = 2.0**-30, 2.0**8
"""What squares may be multiplied by on the way to the root.

Where a sum of lighter squares is just below ``scales(dtype).low``, its operands scaled up would
overflow; where one of heavier squares overflows, the shift of operands scaled down would count."""

MOST_ELEMENTS = 2**30
"""What a mean of unknown size is taken to divide by."""

_REDUCTIONS = {sum_op, mean_op}
_LINEAR = {*_REDUCTIONS, sum_to_op, reshape_op, broadcast_to_op, transpose_op}
_WEIGHTED = {multiply_op, divide_op}


def scale_roots(graph: Graph, context: PassContext) -> Graph:
    """The graph with roots of sums of squares that can't overflow."""
    roots = [node for node in graph.nodes if node.op is sqrt_op or node.op is rsqrt_op]
    if not roots:
        return graph
    editor = GraphEditor(graph, NAME)
    for node in roots:
        found = _recognised(node.inputs[0], editor.producer)
        if found is None:
            continue
        if not context.decide(NAME, node):
            break
        with editor.rewriting(node, NAME):
            if _flatten(found.nodes, editor):
                found = _recognised(node.inputs[0], editor.producer) or found
            new = root_of_squares(
                node.inputs[0],
                found.scaled,
                together=found.alike,
                vanishes=found.smallest < scales(node.output.dtype).low,
                root=sqrt if node.op is sqrt_op else rsqrt,
            )
        editor.substitute(node.output, new)
    return editor.finish()


def _flatten(nodes: list[Node], editor: GraphEditor) -> bool:
    """Moves the merging of reduced axes before the squares, so that all sums read one array.

    Otherwise each sum would merge its own squares' axes, in a kernel of its own.
    """
    changed = False
    for node in nodes:
        square_ = editor.producer(node.inputs[0]) if node.op in _REDUCTIONS else None
        if square_ is None or not _is_square(square_):
            continue
        operand, axes = square_.inputs[0], node.attrs["axes"]
        if len(axes) < 2 or axes[-1] - axes[0] >= len(axes):
            continue
        shape = operand.shape
        merged = product(shape[axis] for axis in axes)
        flat = reshape(operand, (*shape[: axes[0]], merged, *shape[axes[-1] + 1 :]))
        total = apply(node.op, flat * flat, axes=axes[:1], keepdims=False)
        editor.substitute(node.output, reshape(total, node.output.shape))
        changed = True
    return changed


@dataclass(slots=True, eq=False)
class _Sum:
    """A sum of squares, constants and multiples of either.

    Attributes:
        nodes: what makes it, producers first; the last one makes the sum.
        constants: the constants that are added.
        alike: whether squares of its own shape are added element by element and in no other way.
        smallest: what it cannot fall below.
    """

    nodes: list[Node] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)
    alike: bool = True
    smallest: float = 0.0

    def scaled(self, factor: Any, shift: float) -> Value:
        """The sum with each operand of a square multiplied by the factor and shifted."""
        made: dict[Value, Value] = {value: value * factor * factor for value in self.constants}
        for node in self.nodes:
            if _is_square(node):
                made[node.output] = square_of(node.inputs[0], factor, shift)
            elif node.op in _WEIGHTED:
                # The weight may be added elsewhere; here it stays as it is.
                made[node.output] = apply(node.op, made[node.inputs[0]], node.inputs[1])
            else:
                inputs = [made[value] for value in node.inputs]
                made[node.output] = apply(node.op, *inputs, **node.attrs)
        return made[self.nodes[-1].output]


def _is_square(node: Node) -> bool:
    return node.op is multiply_op and node.inputs[0] is node.inputs[1]


def _recognised(total: Value, producer: Producer) -> _Sum | None:
    """The sum, None if it is something else or holds no square."""
    found = _Sum()
    squares = False
    # Each value with whether only additions are between it and the total, and whether its
    # operands have been dealt with.
    stack: list[tuple[Value, bool, bool]] = [(total, True, False)]
    seen: set[Value] = set()
    while stack:
        value, added, done = stack.pop()
        node = producer(value)
        if done and node is not None:
            found.nodes.append(node)
            continue
        if value in seen:
            continue
        seen.add(value)
        constant = known(value, producer)
        if constant is not None:
            low = _smallest(constant.array)
            if low < 0:
                return None
            found.constants.append(value)
            if added:
                found.smallest = max(found.smallest, low)
            continue
        if node is None or len(seen) > MAXIMUM_NODES:
            return None
        stack.append((value, added, True))
        if _is_square(node):
            squares = True
            found.alike = found.alike and value.shape == total.shape
        elif node.op is add_op:
            stack.extend((operand, added, False) for operand in reversed(node.inputs))
        elif node.op in _LINEAR:
            found.alike = False
            stack.append((node.inputs[0], False, False))
        elif node.op in _WEIGHTED:
            weight = known(node.inputs[1], producer)
            if weight is None or not _smallest(weight.array) > 0:
                return None
            stack.append((node.inputs[0], False, False))
        else:
            return None
    return found if squares and _are_bounded(found.nodes, producer) else None


def _are_bounded(nodes: list[Node], producer: Producer) -> bool:
    """Whether the factors between squares and the total are neither too small nor too large."""
    factors = {nodes[-1].output: (1.0, 1.0)}
    for node in reversed(nodes):
        low, high = factors[node.output]
        if _is_square(node):
            if low < LIGHTEST or high > HEAVIEST:
                return False
            continue
        operands: Sequence[Value] = node.inputs
        if node.op in _WEIGHTED:
            weight = known(node.inputs[1], producer)
            assert weight is not None, "factors were found to be constants"
            ends = float(np.min(weight.array)), float(np.max(weight.array))
            if node.op is divide_op:
                ends = 1 / ends[1], 1 / ends[0]
            low, high = low * min(ends[0], 1.0), high * max(ends[1], 1.0)
            operands = node.inputs[:1]
        elif node.op is mean_op:
            count = product(node.inputs[0].shape[axis] for axis in node.attrs["axes"])
            low /= max(count, 1) if isinstance(count, int) else MOST_ELEMENTS
        for value in operands:
            lowest, highest = factors.get(value, (low, high))
            factors[value] = min(low, lowest), max(high, highest)
    return True


def _smallest(array: Array) -> float:
    """The smallest element; -1 if there is none, or if one is negative or not finite."""
    if not array.size or not np.isfinite(array).all() or np.signbit(array).any():
        return -1.0
    return float(np.min(array))
