"""What derivatives ask about a ``while`` node: which variables they pass through, which need not be
kept because they follow from the number of the trip, and how many trips there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import converted, size_beside
from graphc.ops.loops import Counter, WhileLoop
from passes.autodiff.region_builder import Groups, Region, read_inputs, repeat
from passes.autodiff.tape import flowing, read_by


class Loop(WhileLoop):
    """A ``while`` node that is differentiated."""

    __slots__ = ()

    # --- what derivatives pass through -----------------------------------------------------------

    def active(self, flows: Sequence[bool]) -> set[int]:
        """The variables that depend differentiably on operands that do."""
        sources = {value for value, is_on in zip(self.body.inputs, flows, strict=True) if is_on}
        while True:
            reached = _reached(self.body, sources)
            more = {
                value
                for value, successor in zip(self.body.inputs, self.body.outputs, strict=False)
                if successor in reached
            }
            if more <= sources:
                own = self.body.inputs[: self.count]
                return {place for place, value in enumerate(own) if value in sources}
            sources |= more

    def useful(self, places: Iterable[int]) -> set[Value]:
        """The body's inputs on which these results of the loop depend differentiably."""
        wanted = set(places)
        while True:
            found = read_by(self.body, [self.body.outputs[place] for place in wanted])[1]
            inputs = self.body.inputs[: self.count]
            more = {place for place, value in enumerate(inputs) if value in found}
            if more <= wanted:
                return found | {inputs[place] for place in wanted}
            wanted |= more

    # --- what need not be kept -------------------------------------------------------------------

    def stands_still(self, place: int) -> bool:
        """Whether every trip gives the variable back as it is."""
        return self.body.outputs[place] is self.body.inputs[place]

    def follows_from_trip(self, place: int) -> bool:
        """Whether a variable is known from its first value and the number of the trip."""
        return self.stands_still(place) or self.step(place) is not None

    def at_trip(self, place: int, first: Value, trip: Value) -> Value:
        """Such a variable before a trip, counted from 0, given its first value."""
        step = self.step(place)
        return first if step is None else first + converted(trip, first.dtype) * step

    def body_inputs(
        self, operands: Sequence[Value], trip: Value, state: Mapping[int, Value]
    ) -> dict[Value, Value]:
        """What stands for the body's inputs before a trip, given the state that was kept.

        Variables that are neither kept nor known from the trip are left out.

        Args:
            operands: the node's, where it is needed.
            trip: its number, counted from 0.
            state: variables that were kept, by place.
        """
        given = dict(zip(self.body.inputs[self.count :], operands[self.count :], strict=True))
        for place in range(self.count):
            own = self.body.inputs[place]
            if place in state:
                given[own] = state[place]
            elif self.follows_from_trip(place):
                given[own] = self.at_trip(place, operands[place], trip)
        return given

    def needed(self, values: Iterable[Value]) -> list[int]:
        """The variables among these inputs of the body that must be kept to have them."""
        found = set(values)
        inputs = self.body.inputs[: self.count]
        return [
            place
            for place, value in enumerate(inputs)
            if value in found and not self.follows_from_trip(place)
        ]

    def closed(self, places: Iterable[int]) -> list[int]:
        """These variables, and the others that must be kept for trips to go on with them."""
        wanted = set(places)
        while True:
            read = read_inputs(self.body, [self.body.outputs[place] for place in wanted])
            more = set(self.needed(read))
            if more <= wanted:
                return sorted(wanted)
            wanted |= more

    # --- running it again ------------------------------------------------------------------------

    def goes_on(self, made: Region, state: Sequence[Value], captured: Sequence[Value]) -> Value:
        """Whether there is another trip, by a copy of the condition in a region."""
        given = dict(zip(self.condition.inputs, (*state, *captured), strict=True))
        return made.copied(self.condition, given, self.condition.outputs)[0]

    def again(
        self,
        beside: Mapping[str, Sequence[Value]],
        step: Callable[[Groups, Sequence[Value]], Mapping[str, Sequence[Value]]],
        shown: Sequence[Value] = (),
    ) -> Groups:
        """The loop run again with further variables; gives all of them at its end, by groups.

        Args:
            beside: their first values, in groups of any names but "state", the loop's own.
            step: their successors, given all variables before the trip, and ``shown`` in it.
            shown: further values of the body.
        """

        def condition(made: Region, own: Groups, outside: Sequence[Value]) -> Value:
            return self.goes_on(made, own["state"], outside)

        def body(
            made: Region, own: Groups, outside: Sequence[Value]
        ) -> Mapping[str, Sequence[Value]]:
            given = dict(zip(self.body.inputs, (*own["state"], *outside), strict=True))
            values = made.copied(self.body, given, [*self.body.outputs, *shown])
            return {"state": values[: self.count], **step(own, values[self.count :])}

        carried = {"state": self.start, **beside}
        return repeat(self.node, carried, self.captured, condition, body)

    # --- how many trips --------------------------------------------------------------------------

    def number(self, counter: Counter) -> Value:
        """The number of trips as an int64, in the graph that is current."""
        first, bound = self.start[counter.place], counter.bound
        last = bound if isinstance(bound, Value) else size_beside(bound, first.dtype, first)
        # compared as the loop compares them: a wide unsigned integer is another number as an int64,
        # but their difference is the same
        last = surface_function("maximum")(first, last)
        return converted(last, int64) - converted(first, int64)


def size_of(size: Dim, beside: Value) -> Value:
    """A size as an int64."""
    return size_beside(size, int64, beside)


def _reached(graph: Graph, sources: Iterable[Value]) -> set[Value]:
    """The values of a graph that depend differentiably on these, themselves included."""
    reached = {value for value in sources if value.dtype.is_differentiable}
    for node in graph.nodes:
        if any(value in reached for value in flowing(node)):
            reached.update(value for value in node.outputs if value.dtype.is_differentiable)
    return reached
