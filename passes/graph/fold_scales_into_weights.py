"""Scales and shifts around a matrix product are folded into its constant weights.

    %1 = contract(%x, w)                         %1 = contract(%x, w * scale)
    %2 = subtract(%1, mean)              ->      %2 = add(%1, shift)
    %3 = divide(%2, deviation); …

An inference batch norm after a layer, a bias, and whatever else multiplies or adds a constant per
column become one product and one addition; a scale in front of the product goes as well. Class T:
each element stays within ``(2k + 8) * eps * (sum of |x * w * scale| + |shifts|)`` of the true one,
and row i does not depend on the other rows. Weights must be constants; variables may change and
are left alone. Invariant: what was finite stays so, and nothing that was a normal number becomes
subnormal, since the new weights are looked at before they are taken. A product that is needed as
it was is left alone, as it would have to be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.builder import apply
from graphc.ir.dtypes import dtype
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.linalg.matmul import contract_op
from graphc.ops.move.shape import reshape_op
from graphc.ops.pointwise.arithmetic import (
    add_op,
    divide_op,
    multiply_op,
    negative_op,
    subtract_op,
)
from passes.graph.fold import SMALL_BYTES
from passes.infra.base import PassContext
from passes.rewriting.constants import known, new_constant

PARTS = frozenset({"scale-into-weights"})
"""What this pass calls its decisions; each can be switched off."""


def fold_scales_into_weights(graph: Graph, context: PassContext) -> Graph:
    """The graph with constant scales and shifts around products folded into their weights."""
    if context.options.numerics == "strict":
        return graph
    products = [node for node in graph.nodes if node.op is contract_op]
    if not products:
        return graph
    folder = _Folder(GraphEditor(graph, "fold_scales_into_weights"), context)
    for node in products:
        folder.visit(node)
    return folder.editor.finish()


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    """value = (product * scale + shift), both one element or one a column; float64.

    Attributes:
        value: where in the graph this is computed.
        reshapes: by which reshapes the product got its shape.
        scale, shift: the constants.
        scales: whether anything was multiplied.
    """

    value: Value
    reshapes: tuple[Node, ...]
    scale: Array
    shift: Array
    scales: bool = False


class _Folder:
    """Works on one graph."""

    def __init__(self, editor: GraphEditor, context: PassContext) -> None:
        self.editor = editor
        self.context = context

    def visit(self, node: Node) -> None:
        """Folds what is around one product."""
        right = node.inputs[1]
        weights = known(right, self.editor.producer)
        if weights is None or weights.splat or not right.dtype.is_float:
            return
        after = self.after(node)
        source, before, moves = self.before(node)
        if not after.scales and before is None:
            return
        folded = _scaled(weights.array, before, after.scale, node.attrs["transpose_b"])
        shift = _rounded(after.shift, weights.array.dtype)
        reason = None
        if folded is None or not np.isfinite(shift).all():
            reason = "the weights would leave the range of normal numbers"
        elif len(self.editor.users(right)) > 1 and folded.nbytes > SMALL_BYTES:
            reason = "the weights are used elsewhere too and would be stored twice"
        if folded is None or reason is not None:
            self.context.decline("scale-into-weights", node, reason or "")
            return
        target = self.editor.producer(after.value)
        assert target is not None
        if not self.context.decide("scale-into-weights", target):
            return
        with self.editor.rewriting(target, "scale-into-weights"):
            for move in reversed(moves):
                source = apply(move.op, source, **move.attrs)
            made = apply(contract_op, source, new_constant(folded), **node.attrs)
            for move in after.reshapes:
                made = apply(reshape_op, made, **move.attrs)
            if shift.any():
                made = made + new_constant(shift)
            self.editor.supplant(target, made)

    # --- what is around --------------------------------------------------------------------------

    def after(self, node: Node) -> _Affine:
        """As far as constants are multiplied and added, and nobody else wants what is between."""
        state = _Affine(node.output, (), np.ones(()), np.zeros(()))
        while True:
            user = self.editor.only_user(state.value)
            found = None if user is None else self.step(state, user)
            if found is None:
                return state
            state = found

    def step(self, state: _Affine, user: Node) -> _Affine | None:
        """The state after one more op, None if that is no step."""
        if user.op is reshape_op and not state.scales:
            # Later ones stay where they are: what follows them counts as no longer around.
            keeps = user.output.shape and user.output.shape[-1] == state.value.shape[-1]
            if not keeps or state.shift.any():
                return None
            return replace(state, value=user.output, reshapes=(*state.reshapes, user))
        if len(user.outputs) > 1 or user.output.type != state.value.type:
            return None
        if user.op is negative_op:
            return replace(
                state, value=user.output, scale=-state.scale, shift=-state.shift, scales=True
            )
        rule = _STEPS.get(user.op)
        if rule is None or user.inputs[0] is user.inputs[1]:
            return None
        swapped = user.inputs[1] is state.value
        constant = self.column(user.inputs[0] if swapped else user.inputs[1], state.value)
        if constant is None or (swapped and user.op is divide_op):
            return None
        with np.errstate(all="ignore"):
            scale, shift = rule(state.scale, state.shift, constant, swapped)
        turns = swapped and user.op is subtract_op
        scales = state.scales or turns or user.op is multiply_op or user.op is divide_op
        return replace(state, value=user.output, scale=scale, shift=shift, scales=scales)

    def before(self, node: Node) -> tuple[Value, Array | None, list[Node]]:
        """What the left operand is a multiple of, the factors, and the reshapes between."""
        source, factor, moves = node.inputs[0], None, list[Node]()
        if node.attrs["transpose_a"]:
            return source, None, moves
        value = source
        inner: list[Node] = []
        while self.editor.only_user(value) is not None:
            made = self.editor.producer(value)
            if made is None:
                break
            if made.op is reshape_op:
                if not made.inputs[0].shape or made.inputs[0].shape[-1] != value.shape[-1]:
                    break
                inner.append(made)
                value = made.inputs[0]
                continue
            if made.op is not multiply_op and made.op is not divide_op:
                break
            operand, other = made.inputs
            constant = self.column(other, value)
            if constant is None or operand.type != value.type:
                break
            with np.errstate(all="ignore"):
                step = constant if made.op is multiply_op else 1 / constant
                factor = step if factor is None else factor * step
            moves, source, value = list(inner), operand, operand
        return source, factor, moves

    def column(self, value: Value, beside: Value) -> Array | None:
        """A constant of one element, or one a column of another value, in float64."""
        constant = known(value, self.editor.producer)
        if constant is None:
            return None
        if constant.single:
            return constant.array.reshape(()).astype(np.float64)
        array = constant.array
        if array.ndim > beside.ndim or array.size != array.shape[-1]:
            return None
        return array.reshape(-1).astype(np.float64) if array.size == beside.shape[-1] else None


Step = Callable[[Array, Array, Array, bool], tuple[Array, Array]]


def _subtracted(scale: Array, shift: Array, constant: Array, swapped: bool) -> tuple[Array, Array]:
    return (-scale, constant - shift) if swapped else (scale, shift - constant)


_STEPS: dict[object, Step] = {
    multiply_op: lambda scale, shift, constant, swapped: (scale * constant, shift * constant),
    divide_op: lambda scale, shift, constant, swapped: (scale / constant, shift / constant),
    add_op: lambda scale, shift, constant, swapped: (scale, shift + constant),
    subtract_op: _subtracted,
}


def _scaled(weights: Array, rows: Array | None, columns: Array, transposed: bool) -> Array | None:
    """The weights times a factor for each row and column, None if some get out of range."""
    factors = np.broadcast_to(columns, weights.shape[-2 if transposed else -1])
    if transposed:
        factors = factors[:, None]
    with np.errstate(all="ignore"):
        if rows is not None:
            given = np.broadcast_to(rows, weights.shape[-1 if transposed else -2])
            factors = factors * (given if transposed else given[:, None])
        result = _rounded(weights.astype(np.float64) * factors, weights.dtype)
    normal = np.isfinite(result) & (np.abs(result) >= dtype(weights.dtype).format.smallest_normal)
    # A weight or a factor may be 0; whatever else became 0 or subnormal has lost its digits.
    zero = ((weights == 0) | (factors == 0)) & (result == 0)
    return result if (normal | zero).all() else None


def _rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(array, dtype)
