"""The derivative of one trip of a loop, and how it adds to what other trips have added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from graphc.ir.graph import Graph
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from passes.autodiff.loop import Loop
from passes.autodiff.region_builder import Region, or_zeros, read_inputs
from passes.autodiff.running_sums import added, times_read


@dataclass(frozen=True, slots=True, eq=False)
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
        shown: further values of the graph that a trip gives.
    """

    loop: Loop
    graph: Graph
    seeds: tuple[Value, ...]
    variables: tuple[int, ...]
    shared: tuple[int, ...]
    results: tuple[Value | None, ...]
    shown: tuple[Value, ...] = ()

    def read(self) -> set[Value]:
        """What it reads of the body's inputs, among other values."""
        return read_inputs(self.graph, self.wanted)

    @property
    def wanted(self) -> list[Value]:
        """The values that a trip computes."""
        return [value for value in (*self.results, *self.shown) if value is not None]

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
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """Cotangents and sums behind a trip, whose inputs are given, on the way back; and what is
        shown of it."""
        here = {**given, **dict(zip(self.seeds, cotangents, strict=True))}
        values = made.derived(self.graph, here, (*self.results, *self.shown))
        results, shown = values[: len(self.results)], values[len(self.results) :]
        count = len(self.variables)
        before = or_zeros(results[:count], cotangents)
        times = Counter(value for value in results if value is not None)
        readers = cache(times_read)
        following = [
            old if new is None else added(made, old, new, times[new] == 1, readers)
            for new, old in zip(results[count:], sums, strict=True)
        ]
        return before, following, [value for value in shown if value is not None]
