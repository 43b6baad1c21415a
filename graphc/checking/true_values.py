"""What a graph means, in numbers of more digits and a wider range: the judge of class T.

Role: where a rewriting may change bits, check mode asks which side is nearer to the true value.
Floats are the machine's long double; integers, bools and whatever else is discrete are those of
the graph's own numbers, computed beside them, so that no other branch, mask or index is taken.
Invariant: an op without a wide meaning here gives its own numbers, widened; it is never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.checking.interpreter import Budget, bind_dims, evaluate_node, resolve
from graphc.checking.long_double import FUNCTIONS
from graphc.ir.attributes import Array
from graphc.ir.dtypes import dtype, floating
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from graphc.ops.fused import fused_op
from graphc.ops.pointwise.arithmetic import guarded_multiply_op
from graphc.ops.pointwise.logic import astype_op
from passes.graph.decompose import decomposed_alone

Pair = tuple[Array, Array]
"""An array as the graph computes it, and as it truly is; twice the same where it is discrete."""


def _deviations(x: Array, axis: int, scale: float = 1.0, shift: float = 0.0) -> Array:
    center = np.mean(x, axis=axis, keepdims=True)
    return np.asarray(np.sum(((x - center) * scale + shift) ** 2, axis=axis))


def _guarded_multiply(cotangent: Array, derivative: Array) -> Array:
    """A 0 beside what is no number may be a mask, or a quotient by what is beyond the range.

    So the product is 0 or any other number, and NaN says so.
    """
    return np.asarray(cotangent * derivative)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_prod": np.prod,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_deviations": _deviations,
}


def true_values(
    nodes: Sequence[Node],
    given: Mapping[Value, Array],
    kept: Mapping[Value, Array],
    sizes: Mapping[str, int],
    budget: Budget,
) -> dict[Value, Array]:
    """The true values of what nodes make; floats as long doubles.

    Args:
        nodes: of a graph.
        given: its inputs, which are exact.
        kept: values of nodes that are taken to be exact as well, but where they are so large or
            so small that the graph's own dtype has lost them.
        sizes: of the symbolic dims.
        budget: how much may be computed.

    Raises:
        GraphcError: whatever a node raises, or OutOfBudget.
    """
    known = {value: _exact(array) for value, array in given.items()}
    with np.errstate(all="ignore"):
        for node in nodes:
            own = [kept.get(value) for value in node.outputs]
            if all(array is not None and _is_ordinary(array).all() for array in own):
                pairs = [_exact(array) for array in own if array is not None]
            else:
                operands = [known[value] for value in node.inputs]
                pairs = _results(node, operands, sizes, budget)
                pairs = [
                    pair if array is None
                    else (array, np.where(_is_ordinary(array), _exact(array)[1], pair[1]))
                    for array, pair in zip(own, pairs, strict=True)
                ]  # fmt: skip
            known.update(zip(node.outputs, pairs, strict=True))
    return {value: true for value, (_, true) in known.items()}


def _exact(array: Array) -> Pair:
    return array, array.astype(np.longdouble) if floating(array.dtype) else array


def _is_ordinary(array: Array) -> Array:
    """Where numbers neither overflowed nor underflowed on the way."""
    if not floating(array.dtype):
        return np.ones(array.shape, bool)
    least = dtype(array.dtype).format.smallest_normal
    ordinary: Array = np.isfinite(array) & (np.abs(array) >= least)
    return ordinary


def _results(
    node: Node, pairs: Sequence[Pair], sizes: Mapping[str, int], budget: Budget
) -> list[Pair]:
    if node.op is fused_op:
        return _region(node.regions[0], pairs, sizes, budget)
    if node.op is cond_op:
        chosen = node.regions[0 if pairs[0][0] else 1]
        return _region(chosen, pairs[1:], sizes, budget)
    if node.op is while_op:
        condition, body = node.regions
        carried, captured = list(pairs[: len(node.outputs)]), pairs[len(node.outputs) :]
        while bool(_region(condition, [*carried, *captured], sizes, budget)[0][0]):
            carried = _region(body, [*carried, *captured], sizes, budget)
        return carried
    plain = evaluate_node(node, [np.array(own) for own, _ in pairs], sizes, budget)
    if not any(floating(array.dtype) for array in plain):
        return [(array, array) for array in plain]
    if node.op.lowering.is_coarse:
        parts = decomposed_alone(node)
        known = _walk(parts, pairs, sizes, budget, inputs=node.inputs)
        return [
            (own, _fitting(known[part][1], own))
            for own, part in zip(plain, parts.outputs, strict=True)
        ]
    true = _wide(node, [true for _, true in pairs], sizes)
    return [(array, _fitting(true, array)) for array in plain]


def _fitting(true: Array | None, own: Array) -> Array:
    """The true value, or the own one widened where none is known."""
    return _exact(own)[1] if true is None or true.dtype != np.longdouble else true


def _region(
    region: Graph, pairs: Sequence[Pair], sizes: Mapping[str, int], budget: Budget
) -> list[Pair]:
    types = [value.type for value in region.inputs]
    bound = bind_dims(types, [own for own, _ in pairs], sizes)
    known = _walk(region, pairs, bound, budget, inputs=region.inputs)
    return [known[value] for value in region.outputs]


def _walk(
    graph: Graph,
    pairs: Sequence[Pair],
    sizes: Mapping[str, int],
    budget: Budget,
    inputs: Sequence[Value],
) -> dict[Value, Pair]:
    """All values of a graph; recursion is as deep as control flow and decompositions are."""
    known = dict(zip(inputs, pairs, strict=True))
    for node in graph.nodes:
        operands = [known[value] for value in node.inputs]
        known.update(zip(node.outputs, _results(node, operands, sizes, budget), strict=True))
    return known


def _wide(node: Node, operands: Sequence[Array], sizes: Mapping[str, int]) -> Array | None:
    """One core op of a single result; None for one that has no wide meaning here."""
    op = node.op
    attrs = {
        name: resolve(attribute, sizes)
        for name, attribute in node.attrs.items()
        if name not in ("guards", "order")
    }
    if op.name in FUNCTIONS:
        return np.asarray(FUNCTIONS[op.name](*operands))
    if op is guarded_multiply_op:
        return _guarded_multiply(*operands)
    if op.name in _REDUCTIONS:
        return np.asarray(_REDUCTIONS[op.name](operands[0], **attrs))
    if op is astype_op:
        return operands[0]
    kind = op.lowering
    generic = kind.is_product or kind.is_move or kind.is_pointwise or kind.running is not None
    return np.asarray(op.reference(*operands, **attrs)) if generic else None


__all__ = ["true_values"]
