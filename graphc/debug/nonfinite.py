"""Where the first number that is not finite came from.

A result that holds a NaN or an infinity is followed back through the compiled graph, fused bodies
included: from an operation to the operand that is not finite at the same element, until an
operation makes it of finite operands. The values on the way come from the reference interpreter.
Invariant: what a select has masked is not followed, since the search starts from results.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.base.source import Location
from graphc.checking.interpreter import bind_dims, evaluate_node, resolve
from graphc.checking.partial_results import Marking
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
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


def origin(graph: Graph, inputs: Sequence[Array], results: Sequence[Array]) -> Origin | None:
    """Where the first result that is not finite got that from.

    Args:
        graph: what ran, with its fused nodes.
        inputs: arrays for its inputs, in order.
        results: what it gave.

    Returns:
        None if all results are finite, or if it came from a constant.
    """
    wrong = next((n for n, array in enumerate(results) if not is_finite(array)), None)
    if wrong is None:
        return None
    index = _first(results[wrong])
    search = _Search(graph, inputs)
    found = search.values[graph.outputs[wrong]]
    if np.isfinite(found[index]):
        # the reference may have a wider range on the way
        search = _Search(graph, inputs, Marking(np.nan))
    if np.isfinite(search.values[graph.outputs[wrong]][index]):
        node = graph.producers[graph.outputs[wrong]]
        made = results[wrong][index]
        text = f"compiled code gave {made} at {list(index)}, where the reference is {found[index]}"
        return Origin(text, node.provenance.where)
    return search.from_value(graph.outputs[wrong], index)


def _first(array: Array) -> Index:
    return tuple(int(place) for place in np.argwhere(~np.isfinite(array))[0])


class _Search:
    """All values of a graph, and the way back from one of them.

    Attributes:
        values: what the interpreter gives for each value, those in fused bodies included.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Array], marking: Marking | None = None
    ) -> None:
        """With a marking, what partial results that leave the range make is no number."""
        self._marking = marking
        self.values: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
        self._makers: dict[Value, Node] = {}
        self._same: dict[Value, Value] = {}
        self._sizes = bind_dims([value.type for value in graph.inputs], list(inputs))
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

    def from_value(self, value: Value, index: Index) -> Origin | None:
        """Follows one element back."""
        while True:
            while value in self._same:
                value = self._same[value]
            array = self.values[value]
            node = self._makers.get(value)
            if node is None:
                name = repr(value.name) if value.name else str(value.type)
                return Origin(f"{name} was fed {array[index]} at {list(index)}", None)
            if node.op is constant_op:
                return None
            found = self._operand(node, array.shape, index)
            if found is None:
                made = self._text(node, array.shape, index)
                text = f"{made} gave {array[index]} at {list(index)}"
                if self._marking is not None:
                    left = f"partial results of {made} leave the range of {node.output.dtype}"
                    text = f"{left} at {list(index)}"
                return Origin(text, node.provenance.where)
            value, index = found

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
        axis: int = node.attrs["axis"]
        if node.op is place_slice_op:
            (piece,) = node.inputs
            start = resolve(node.attrs["start"], self._sizes)
            along = () if piece.ndim < len(index) else (index[axis] - start,)
            return piece, (*index[:axis], *along, *index[axis + 1 :])
        starts = resolve(node.attrs["starts"], self._sizes)
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
