"""Gradients of weights behind a loop: one product of what all trips multiply.

    %sum = 0; for trip: %sum += contract(%a, %b)     for trip: stack %a, %b
                                               ->    contract(all %a, all %b)

A trip's product has as many terms as a batch has rows, often few, and adds to an array as large as
the weights, which is read and written each time. So its factors are kept, if they are smaller, and
multiplied when all are there. What was kept for the way back anyway is not kept twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from graphc.ir.dims.expressions import Dim, at_hint
from graphc.ir.value import Value
from graphc.ops.linalg.matmul import contract_op, contracted
from graphc.ops.move.shape import with_shape
from passes.autodiff.body_gradient import BodyGradient


@dataclass(frozen=True, slots=True, eq=False)
class WeightGradients:
    """The gradients of captured operands that are products behind the loop.

    Attributes:
        factors: by the operand's place, of each trip the two matrices [rows, m] and [rows, n].
    """

    factors: Mapping[int, tuple[Value, Value]]

    @property
    def values(self) -> list[Value]:
        """All factors, each once."""
        return list(dict.fromkeys(value for pair in self.factors.values() for value in pair))

    def computed(self, stacks: Mapping[Value, Value], trips: Dim) -> dict[int, Value]:
        """The gradients by place, given the stacks of factors, [trips, rows, m or n]."""

        def rows(factor: Value) -> Value:
            count, length = factor.shape
            return with_shape(stacks[factor], (trips * count, length))

        return {
            place: contracted(rows(left), rows(right), transpose_a=True)
            for place, (left, right) in self.factors.items()
        }


def weight_gradients(gradient: BodyGradient) -> WeightGradients:
    """The gradients of a trip that pay to be computed behind the loop."""
    results = gradient.results[len(gradient.variables) :]
    found = {}
    for place, result in zip(gradient.shared, results, strict=True):
        factors = None if result is None else _factors(gradient, place, result)
        if factors is not None:
            found[place] = factors
    return WeightGradients(found)


def _factors(gradient: BodyGradient, place: int, result: Value) -> tuple[Value, Value] | None:
    """The factors of a result that is their product and larger than they are."""
    node = gradient.graph.producers.get(result)
    weights = gradient.loop.node.inputs[place]
    if node is None or node.op is not contract_op or result.shape != weights.shape:
        return None
    left, right = node.inputs
    plain = node.attrs["transpose_a"] and not node.attrs["transpose_b"]
    if not plain or left.ndim != 2 or result.dtype.computed is not result.dtype:
        return None
    sizes = [at_hint(value.type.size) for value in (left, right, result)]
    return (left, right) if sizes[0] + sizes[1] <= 2 * sizes[2] else None


def without_sums(gradient: BodyGradient, places: Iterable[int]) -> BodyGradient:
    """The derivative of a trip without what adds up of these operands."""
    gone, count = set(places), len(gradient.variables)
    kept = [n for n, place in enumerate(gradient.shared) if place not in gone]
    return replace(
        gradient,
        shared=tuple([gradient.shared[n] for n in kept]),
        results=(*gradient.results[:count], *(gradient.results[count + n] for n in kept)),
    )


__all__ = ["WeightGradients", "weight_gradients", "without_sums"]
