"""Where the first number that is not finite came from.

A result that holds a NaN or an infinity is followed back through the compiled graph, fused bodies,
branches and loops included: from an operation to the operand that is not finite at the same
element, until an operation makes it of finite operands. In a loop it is followed from trip to trip,
so what is found is the first trip that made it. The values on the way come from the reference
interpreter. Invariant: what a select has masked is not followed, since the search starts from
results.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from graphc.base.source import Location
from graphc.checking.interpreter import bind_dims, evaluate, evaluate_node, resolve
from graphc.checking.partial_results import Marking
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from graphc.ops.fused import fused_op
from graphc.ops.move.placing import join_slices_op, place_slice_op
from graphc.ops.source import constant_op

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a number that is not finite came from.

    Attributes:
        text: for people: which operation made it of which operands, or what was fed.
        where: the user's line; None for what was fed.
    """

    text: str
    where: Location | None


def is_finite(array: Array) -> bool:
    """Whether no element is NaN or infinite; integers and bools always are."""
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def first_wrong(results: Sequence[Array]) -> int | None:
    """Which result is the first that is not finite."""
    return next((n for n, array in enumerate(results) if not is_finite(array)), None)


def origin(graph: Graph, inputs: Sequence[Array], results: Sequence[Array]) -> Origin | None:
    """Where the first result that is not finite got that from.

    Args:
        graph: what ran, with its fused nodes.
        inputs: arrays for its inputs, in order.
        results: what it gave.

    Returns:
        None if all results are finite, or if it came from a constant.
    """
    wrong = first_wrong(results)
    if wrong is None:
        return None
    index = _first(results[wrong])
    search = _Search(graph, inputs)
    found = search.values[graph.outputs[wrong]]
    if np.isfinite(found[index]):
        # the reference may have a wider range on the way
        search = _Search(graph, inputs, marking=Marking(np.nan))
    if np.isfinite(search.values[graph.outputs[wrong]][index]):
        node = graph.producers[graph.outputs[wrong]]
        made = results[wrong][index]
        text = f"compiled code gave {made} at {list(index)}, where the reference is {found[index]}"
        return Origin(text, node.provenance.where)
    source = search.source(graph.outputs[wrong], index)
    if not isinstance(source, _Input):
        return source
    fed, value = inputs[source.number], graph.inputs[source.number]
    name = repr(value.name) if value.name else str(value.type)
    return Origin(f"{name} was fed {fed[source.at]} at {list(source.at)}", None)


def _first(array: Array) -> Index:
    return tuple(int(place) for place in np.argwhere(~np.isfinite(array))[0])


class _Input(NamedTuple):
    """An element of an input of a graph."""

    number: int
    at: Index


Source: TypeAlias = Origin | _Input | None
"""What made an element: an operation, or an input of the graph, or a constant."""


class _Search:
    """All values of a graph, and the way back from one of them.

    Attributes:
        values: what the interpreter gives for each value, those in fused bodies included.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[Array],
        sizes: Mapping[str, int] | None = None,
        marking: Marking | None = None,
    ) -> None:
        """``sizes`` are those of an enclosing graph. With a marking, what partial results that
        leave the range make is no number."""
        self._marking = marking
        self.values: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
        self._inputs = {value: number for number, value in enumerate(graph.inputs)}
        self._makers: dict[Value, Node] = {}
        self._same: dict[Value, Value] = {}
        self._sizes = bind_dims([value.type for value in graph.inputs], list(inputs), sizes)
        with np.errstate(all="ignore"):
            for node in graph.nodes:
                self._evaluate(node, self._sizes)

    def _evaluate(self, node: Node, sizes: Mapping[str, int]) -> None:
        """The node's values; those inside of a fused node too, each under its own name."""
        if node.op is not fused_op:
            operands = [self.values[value] for value in node.inputs]
            results = evaluate_node(node, operands, sizes, alter=self._marking)
            for value, array in zip(node.outputs, results, strict=True):
                self.values[value], self._makers[value] = array, node
            return
        (body,) = node.regions
        for inner, outer in zip(body.inputs, node.inputs, strict=True):
            self.values[inner], self._same[inner] = self.values[outer], outer
        for member in body.nodes:
            self._evaluate(member, sizes)
        for outer, inner in zip(node.outputs, body.outputs, strict=True):
            self.values[outer], self._same[outer] = self.values[inner], inner

    def source(self, value: Value, index: Index) -> Source:
        """Follows one element back."""
        while True:
            while value in self._same:
                value = self._same[value]
            node = self._makers.get(value)
            if node is None:
                return _Input(self._inputs[value], index)
            if node.op is constant_op:
                return None
            if node.op in (cond_op, while_op):
                place = [id(each) for each in node.outputs].index(id(value))
                source = self._in_region(node, place, index)
                if not isinstance(source, _Input):
                    return source
                value, index = node.inputs[source.number], source.at
                continue
            array = self.values[value]
            found = self._operand(node, array.shape, index)
            if found is None:
                made = self._text(node, array.shape, index)
                text = f"{made} gave {array[index]} at {list(index)}"
                if self._marking is not None:
                    left = f"partial results of {made} leave the range of {node.output.dtype}"
                    text = f"{left} at {list(index)}"
                if node.provenance.order:
                    text += ", in the gradient of this line"
                return Origin(text, node.provenance.where)
            value, index = found

    def _in_region(self, node: Node, place: int, index: Index) -> Source:
        """Follows an element of an output of control flow into it, perhaps to one of its inputs."""
        arrays = [self.values[value] for value in node.inputs]
        if node.op is cond_op:
            predicate, *operands = arrays
            source = self._through(node.regions[0 if predicate else 1], operands, place, index)
            if isinstance(source, _Input):
                return _Input(source.number + 1, source.at)
            return source
        count = len(node.outputs)
        captured = arrays[count:]
        for trip, carried in self._trips_backwards(node, arrays):
            source = self._through(node.regions[1], [*carried, *captured], place, index)
            if isinstance(source, Origin):
                which = "the gradient of the loop" if node.provenance.order else "the loop"
                loop = f"{which} at {node.provenance.where or 'no line'}"
                return Origin(f"{source.text}, in trip {trip} of {loop}", source.where)
            if source is None or source.number >= count:
                return source
            place, index = source
        return _Input(place, index)

    def _through(
        self, region: Graph, inputs: Sequence[Array], place: int, index: Index
    ) -> Source:
        """Follows an element of an output of a region back in it."""
        inner = _Search(region, inputs, self._sizes, self._marking)
        return inner.source(region.outputs[place], index)

    def _trips_backwards(
        self, node: Node, arrays: Sequence[Array]
    ) -> Iterator[tuple[int, Sequence[Array]]]:
        """The trips of a loop, counted from 0, the last one first, with the values carried into it.

        Values of some trips are kept, and those between two such are computed again: a loop of t
        trips takes the memory of some 2 sqrt(t) of them, and is run twice.
        """
        condition, body = node.regions
        count = len(node.outputs)
        captured = arrays[count:]

        def run(region: Graph, carried: Sequence[Array]) -> tuple[Array, ...]:
            return evaluate(region, [*carried, *captured], self._sizes, alter=self._marking)

        kept: list[tuple[int, Sequence[Array]]] = []
        carried: Sequence[Array] = arrays[:count]
        trips = 0
        while bool(run(condition, carried)[0]):
            # the distance of kept trips grows with their number, so it is some square root
            if trips == len(kept) * (len(kept) + 1) // 2:
                kept.append((trips, carried))
            carried, trips = run(body, carried), trips + 1
        for first, carried in reversed(kept):
            between = [carried]
            while first + len(between) < trips:
                between.append(run(body, between[-1]))
            yield from zip(range(trips - 1, first - 1, -1), reversed(between), strict=True)
            trips = first

    def _operand(self, node: Node, shape: Index, index: Index) -> tuple[Value, Index] | None:
        """The operand that is not finite: at the same element, where the operation has such."""
        if node.op in (join_slices_op, place_slice_op):
            return self._placed(node, index)
        for operand in node.inputs:
            array = self.values[operand]
            if array.dtype.kind not in "fc":
                continue
            if node.op.lowering.is_pointwise:
                place = _broadcast_place(index, shape, array.shape)
                if not np.isfinite(array[place]):
                    return operand, place
            elif not is_finite(array):
                return operand, _first(array)
        return None

    def _placed(self, node: Node, index: Index) -> tuple[Value, Index]:
        """Where an element of a whole, or of one of its slices, comes from."""
        starts = resolve(node.attrs["starts"], self._sizes)
        if node.op is place_slice_op:
            within = [place - start for place, start in zip(index, starts, strict=True)]
            if "lacks" in node.attrs:
                del within[node.attrs["lacks"]]
            return node.inputs[0], tuple(within)
        axis: int = node.attrs["axis"]
        return node.inputs[bisect_right(starts, index[axis]) - 1], index

    def _text(self, node: Node, shape: Index, index: Index) -> str:
        """The operation with its operands' elements, where it works element by element."""
        if not node.op.lowering.is_pointwise:
            return node.op.name
        elements = (
            self.values[operand][_broadcast_place(index, shape, self.values[operand].shape)]
            for operand in node.inputs
        )
        return f"{node.op.name}({', '.join(map(str, elements))})"


def _broadcast_place(index: Index, shape: Index, source: Index) -> Index:
    """The element of a broadcast operand that stands at an index of the result."""
    kept = index[len(shape) - len(source) :]
    return tuple(0 if size == 1 else place for place, size in zip(kept, source, strict=True))
