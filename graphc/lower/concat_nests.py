"""Concatenations inside of maps: index-set splitting, a loop nest for each piece.

The loops of a map that computes with a concatenation are split where its pieces meet, so no element
has to choose its piece. In the nest of a piece the concatenation is that piece, other operands are
sliced, and results go to their slice. Invariant: the nests together write each place of the map's
results once. Where the shapes don't show that, the map stays one nest.

A few pieces of one element along the last axis are interleaved: one nest computes them side by
side, so that all elements of a line are written together.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.base.tuning.fusion import FUSION
from graphc.ir.dims.expressions import Dim
from graphc.ir.graph import Graph, Node
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.kernel.analysis.periods import LONGEST
from graphc.lower.region import Slice, Slices
from graphc.ops.move.joining import concatenate_op
from graphc.ops.move.slicing import slice_op

Nest = tuple[Graph, Slices]


def nests(region: Graph, slices: Slices) -> list[Nest]:
    """The map cut at the pieces of its first concatenation; uncut if there is none to cut at.

    Each part has the region's inputs and outputs, in order, or the outputs once for each piece.
    """
    cut = next((node for node in region.nodes if node.op is concatenate_op), None)
    if cut is None or len(cut.inputs) * len(region.nodes) > FUSION.nest_nodes:
        return [(region, slices)]
    shape, axis = cut.output.shape, cut.attrs["axis"]
    if any(value.shape != shape for value in region.outputs) or shape[axis] == 1:
        return [(region, slices)]
    result = []
    start: Dim = 0
    for number, piece in enumerate(cut.inputs):
        size = piece.shape[axis]
        whole = (*piece.shape[:axis], shape[axis], *piece.shape[axis + 1 :])
        part = _Part(region, cut, number, start).graph() if whole == shape else None
        if part is None:
            return [(region, slices)]
        result.append((part, _moved(region.outputs, slices, axis, start)))
        start = start + size
    return _side_by_side(result)


def _side_by_side(parts: list[Nest]) -> list[Nest]:
    """One nest where what the parts make is interleaved; else the parts."""
    region, _ = parts[0]
    outputs = [value for part, _ in parts for value in part.outputs]
    shape = outputs[0].shape
    if len(parts) > LONGEST or shape[-1] != 1 or any(value.shape != shape for value in outputs):
        return parts
    nodes = dict.fromkeys(node for part, _ in parts for node in part.nodes)
    slices = tuple([slice_ for _, part_slices in parts for slice_ in part_slices])
    return [(Graph(region.name, region.inputs, list(nodes), outputs), slices)]


def _moved(outputs: Sequence[Value], slices: Slices, axis: int, start: Dim) -> Slices:
    """Where the results of a nest go that begins at ``start`` of an axis."""
    found = []
    for value, slice_ in zip(outputs, slices, strict=True):
        origin = slice_ or Slice(value.type, (0,) * value.type.rank)
        starts = list(origin.starts)
        place = axis if origin.lacks is None or axis < origin.lacks else axis + 1
        starts[place] = starts[place] + start
        found.append(Slice(origin.whole, tuple(starts), origin.lacks, origin.joined))
    return tuple(found)


class _Part:
    """The region restricted to one piece of a concatenation."""

    def __init__(self, region: Graph, cut: Node, number: int, start: Dim) -> None:
        self._region = region
        self._cut = cut
        self._number = number
        self._start = start
        self._axis: int = cut.attrs["axis"]
        self._full: Shape = cut.output.shape
        self._size: Dim = cut.inputs[number].shape[self._axis]
        self._nodes: list[Node] = []
        self._now: dict[Value, Value] = {}
        self._sliced: dict[Value, Value] = {}

    def graph(self) -> Graph | None:
        """The restricted region; None if the shapes do not allow it."""
        region = self._region
        for node in region.nodes:
            if self._is_alike(node):
                self._now[node.output] = node.inputs[self._number]
            elif node.op.lowering.is_pointwise:
                operands = [self._operand(value) for value in node.inputs]
                output = self._restricted(node.output)
                if output is None or any(operand is None for operand in operands):
                    return None
                inputs = tuple(operand for operand in operands if operand is not None)
                self._add(node, inputs, output)
                self._now[node.output] = output
            elif any(value in self._now for value in node.inputs):
                return None
            else:
                self._nodes.append(node)
        outputs = [self._operand(value) for value in region.outputs]
        if any(value is None for value in outputs):
            return None
        made = [value for value in outputs if value is not None]
        return Graph(region.name, region.inputs, self._nodes, made)

    def _is_alike(self, node: Node) -> bool:
        """Whether it is the concatenation, or another one with its pieces in the same places."""
        return (
            node.op is concatenate_op
            and node.attrs == self._cut.attrs
            and [value.shape for value in node.inputs] == [v.shape for v in self._cut.inputs]
        )

    def _place(self, value: Value) -> int | None:
        """The axis of a value along which it has to be cut, if it has it."""
        axis = self._axis - (len(self._full) - value.type.rank)
        return None if axis < 0 or value.shape[axis] == 1 else axis

    def _restricted(self, value: Value) -> Value | None:
        """A new value for the part; None if the value runs along the axis in another way."""
        axis = self._place(value)
        if axis is None:
            return Value(value.type, value.name)
        if value.shape[axis] != self._full[self._axis]:
            return None
        shape = (*value.shape[:axis], self._size, *value.shape[axis + 1 :])
        return Value(value.type.with_shape(shape), value.name)

    def _operand(self, value: Value) -> Value | None:
        """The value of the part for a value of the region: a slice, unless the part computes it."""
        known = self._now.get(value, self._sliced.get(value))
        if known is not None:
            return known
        axis = self._place(value)
        if axis is None:
            return value
        part = self._restricted(value)
        if part is not None:
            starts: list[Dim] = [0] * value.type.rank
            starts[axis] = self._start
            attrs = {"size": part.shape, "start": tuple(starts), "step": (1,) * len(starts)}
            self._nodes.append(Node(slice_op, (value,), attrs, (part,), (), self._cut.provenance))
            self._sliced[value] = part
        return part

    def _add(self, node: Node, inputs: tuple[Value, ...], output: Value) -> None:
        self._nodes.append(Node(node.op, inputs, node.attrs, (output,), (), node.provenance))


__all__ = ["nests"]
