"""The derivative of one trip of a loop, and how it adds to what other trips have added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.builder import apply
from graphc.ir.graph import Graph
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.indexing.scatter import scatter_add_op, scatter_along_op
from passes.autodiff.loop import Loop
from passes.autodiff.region_builder import Region, or_zeros, read_inputs
from passes.rewriting.constants import known


@dataclass(frozen=True, slots=True)
class BodyGradient:
    """The derivative of one trip, from the last results to the first.

    Attributes:
        loop: the loop.
        graph: the body and its derivative, over the body's inputs and ``seeds``.
        seeds: the cotangents of what the trip gives.
        variables: the loop variables that they belong to.
        shared: places of the captured operands whose cotangents add up over the trips.
        results: the cotangents of those variables before the trip, then of what is shared; None for
            zeros.
    """

    loop: Loop
    graph: Graph
    seeds: tuple[Value, ...]
    variables: tuple[int, ...]
    shared: tuple[int, ...]
    results: tuple[Value | None, ...]

    def read(self) -> set[Value]:
        """What it reads of the body's inputs, among other values."""
        return read_inputs(self.graph, [value for value in self.results if value is not None])

    def first_sums(self) -> list[Value]:
        """Zeros for what adds up, in the dtypes that sums are computed in."""
        zeros = surface_function("zeros")
        operands = [self.loop.node.inputs[place] for place in self.shared]
        return [zeros(value.shape, value.dtype.computed) for value in operands]

    def trip(
        self,
        made: Region,
        given: Mapping[Value, Value],
        cotangents: Sequence[Value],
        sums: Sequence[Value],
    ) -> tuple[list[Value], list[Value]]:
        """Cotangents and sums behind a trip, whose inputs are given, on the way back."""
        here = {**given, **dict(zip(self.seeds, cotangents, strict=True))}
        results = made.derived(self.graph, here, self.results)
        count = len(self.variables)
        before = or_zeros(results[:count], cotangents)
        added = [
            old if new is None else _added(made, old, converted(new, old.dtype))
            for new, old in zip(results[count:], sums, strict=True)
        ]
        return before, added


def _added(made: Region, total: Value, term: Value) -> Value:
    """The sum; what is scattered into zeros is scattered into the total, in place."""
    node = made.editor.producer(term)
    if node is not None and node.op in (scatter_add_op, scatter_along_op):
        base, *where = node.inputs
        found = known(base, made.editor.producer)
        if found is not None and not found.array.any():
            with made.editor.rewriting(node):
                return apply(node.op, total, *where, **node.attrs)
    return total + term
