"""Chains of matrix products in the order that takes the fewest multiplications.

    %1 = contract(%a, %b)                   %1 = contract(%b, %c)
    %2 = contract(%1, %c)           ->      %2 = contract(%a, %1)

Integers and truth values are associative; floats round differently, so theirs are reordered only
under the flag ``reassoc``. The order is found by dynamic programming over the parts of the chain
(the matrix-chain problem of the textbooks), with ``HINT`` for symbolic dims. What a product becomes
depends on what it is made of and never on who else reads the products within it, as its bits do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.builder import apply
from graphc.ir.dims.expressions import at_hint, equal
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.linalg.matmul import contract_op, contracted
from graphc.ops.move.shape import permuted, with_shape
from graphc.ops.pointwise.arithmetic import multiply_op
from graphc.ops.reduce.core import order_of, reduce_sum_op
from passes.infra.base import PassContext

LONGEST = 16
"""Of longer chains only this many factors, the last ones, are ordered."""


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """A matrix, a stack of them, or a vector that is the last factor.

    Attributes:
        value: as it is stored.
        transposed: whether its last two axes are exchanged.
    """

    value: Value
    transposed: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns, at hint sizes."""
        if self.value.ndim == 1:
            return at_hint(self.value.shape[0]), 1
        rows, columns = map(at_hint, self.value.shape[-2:])
        return (columns, rows) if self.transposed else (rows, columns)


def matmul_chains(graph: Graph, context: PassContext) -> Graph:
    """The graph with each product computed in its best order."""
    if not any(node.op is contract_op for node in graph.nodes):
        return graph
    takes_floats = "reassoc" in context.options.fast_math
    roots = [
        node
        for node in graph.nodes
        if (node.op is contract_op or node.op is reduce_sum_op)
        and (takes_floats or not node.output.dtype.is_rounded)
    ]
    if not roots:
        return graph
    editor = GraphEditor(graph, "matmul_chains")
    for node in roots:
        if _factors_of(graph, node) is None:
            continue
        factors, present = _flattened(graph, node)
        if len(factors) < 3:
            continue
        best, splits = _best_order([factor.sizes for factor in factors])
        if best >= present:
            continue
        if not context.decide("matmul_chains", node):
            break
        with editor.rewriting(node, "matmul_chains"):
            result = _built(factors, splits)
            editor.substitute(node.output, with_shape(result, node.output.shape, ()))
    return editor.finish()


def _factors_of(graph: Graph, node: Node | None) -> tuple[_Factor, _Factor] | None:
    """The factors, if the node is a product of matrices or of a matrix and a vector."""
    if node is None:
        return None
    if node.op is contract_op:
        (left, right), attrs = node.inputs, node.attrs
        return _Factor(left, attrs["transpose_a"]), _Factor(right, attrs["transpose_b"])
    if node.op is not reduce_sum_op or node.attrs["axis"] != 1:
        return None
    terms = graph.producers.get(node.inputs[0])
    if terms is None or terms.op is not multiply_op:
        return None
    for matrix, vector in (terms.inputs, terms.inputs[::-1]):
        if matrix.ndim == 2 and vector.ndim == 1 and equal(matrix.shape[1], vector.shape[0]):
            return _Factor(matrix), _Factor(vector)
    return None


def _flattened(graph: Graph, root: Node) -> tuple[list[_Factor], int]:
    """The factors of the whole chain, and the multiplications that its order takes."""
    factors: list[_Factor] = []
    work = 0
    stack = [_Factor(root.output)]
    while stack:
        factor = stack.pop()
        parts = _factors_of(graph, graph.producers.get(factor.value))
        if parts is None or len(factors) + len(stack) + 2 > LONGEST:
            factors.append(factor)
            continue
        left, right = parts
        if factor.transposed:
            left, right = (
                _Factor(part.value, not part.transposed) for part in (right, left)
            )
        work += left.sizes[0] * left.sizes[1] * right.sizes[1]
        # The right part first, so that the last factors of a long chain are taken apart.
        stack += [left, right]
    return factors[::-1], work


def _best_order(sizes: Sequence[tuple[int, int]]) -> tuple[int, dict[tuple[int, int], int]]:
    """The fewest multiplications, and for each part of the chain where to split it."""
    count = len(sizes)
    work = {(place, place + 1): 0 for place in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for start in range(count - length + 1):
            stop = start + length
            rows, columns = sizes[start][0], sizes[stop - 1][1]
            work[start, stop], splits[start, stop] = min(
                (
                    work[start, middle] + work[middle, stop] + rows * sizes[middle][0] * columns,
                    middle,
                )
                for middle in range(start + 1, stop)
            )
    return work[0, count], splits


def _built(factors: Sequence[_Factor], splits: dict[tuple[int, int], int]) -> Value:
    """The product in the order of the splits."""
    made = {(place, place + 1): factor for place, factor in enumerate(factors)}
    parts = [(0, len(factors))]
    for start, stop in parts:
        if stop - start > 1:
            parts += [(start, splits[start, stop]), (splits[start, stop], stop)]
    for start, stop in reversed(parts):
        if stop - start > 1:
            middle = splits[start, stop]
            made[start, stop] = _product(made[start, middle], made[middle, stop])
    return made[0, len(factors)].value


def _product(left: _Factor, right: _Factor) -> _Factor:
    if right.value.ndim > 1:
        return _Factor(
            contracted(
                left.value,
                right.value,
                transpose_a=left.transposed,
                transpose_b=right.transposed,
            )
        )
    matrix = permuted(left.value, (1, 0)) if left.transposed else left.value
    terms = apply(multiply_op, matrix, right.value)
    return _Factor(apply(reduce_sum_op, terms, axis=1, order=order_of(2, 1)))
