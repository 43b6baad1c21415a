"""Parts of a whole that are computed where they end up: destination passing, as two operations.

``place_slice`` puts a piece into its place in a whole that holds nothing else; a piece that lacks
an axis is at one index of it. ``join_slices`` takes from each of such wholes its slice of an axis;
what it gives may be joined again along another axis. Both are pure, and mean the same wherever they
stand. Invariant, which lowering checks: wholes that are joined are read by nothing else, so that
all of them and what they are joined to can be one piece of memory, and joining costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from graphc.base.errors import ShapeError, VerifyError
from graphc.ir.attributes import Array, Attributes
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import dtype
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Structural
from graphc.ir.op import NotDifferentiable, OpDef, register
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value
from graphc.ops.guards import show

_LATE = NotDifferentiable("the compiler makes it after differentiation")


def _place_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (piece,) = inputs
    shape: Shape = attrs["shape"]
    starts, lacks = attrs["starts"], attrs.get("lacks")
    sizes = sizes_in_whole(piece.shape, lacks)
    if not len(sizes) == len(starts) == len(shape):
        raise ShapeError(f"{show(piece.shape)} has no place in {show(shape)} at {show(starts)}")
    for start, size, whole in zip(starts, sizes, shape, strict=True):
        inside = expressions.compare("le", start + size, whole) is not False
        if not inside or expressions.compare("le", 0, start) is False:
            where = f"{show(shape)} at {show(starts)}"
            raise ShapeError(f"{show(piece.shape)} does not fit into {where}")
    return [piece.with_shape(shape)]


def sizes_in_whole(shape: Shape, lacks: int | None) -> Shape:
    """How much a piece of a shape takes up of each axis of a whole, one of which it may lack."""
    return shape if lacks is None else (*shape[:lacks], 1, *shape[lacks:])


def _placed(
    piece: Array, *, shape: Sequence[int], starts: Sequence[int], lacks: int | None = None
) -> Array:
    whole = np.full(shape, dtype(piece.dtype).unwritten, piece.dtype)
    if lacks is not None:
        piece = np.expand_dims(piece, lacks)
    ends = map(sum, zip(starts, piece.shape, strict=True))
    whole[tuple(map(slice, starts, ends))] = piece
    return whole


def _join_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    first, axis = inputs[0], attrs["axis"]
    starts: tuple[Dim, ...] = attrs["starts"]
    if any(other != first for other in inputs) or not 0 <= axis < first.rank:
        shown = ", ".join(map(str, inputs))
        raise ShapeError(f"{shown} are no parts of one whole along axis {axis}")
    ends = (*starts, first.shape[axis])
    if len(starts) != len(inputs) or starts[0] != 0 or any(
        expressions.compare("le", low, high) is False for low, high in pairwise(ends)
    ):
        raise ShapeError(
            f"{len(inputs)} slices that start at {show(starts)} do not cover axis {axis} of "
            f"{show(first.shape)}"
        )
    return [first]


def _joined(*parts: Array, axis: int, starts: Sequence[int]) -> Array:
    ends = (*starts, parts[0].shape[axis])
    slices = [
        part[_along(axis, low, high)]
        for part, (low, high) in zip(parts, pairwise(ends), strict=True)
    ]
    return np.concatenate(slices, axis)


def _along(axis: int, low: int, high: int) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, slice(low, high))


place_slice_op = register(
    OpDef(
        name="place_slice",
        doc=(
            "A tensor of the given ``shape`` that holds the piece from ``starts`` of its axes on, "
            "one for each, at one index of the axis that the piece ``lacks``, if there is one; "
            "its other elements are undefined."
        ),
        infer=_place_type,
        reference=_placed,
        derivative=_LATE,
        lowering=Structural(),
    )
)

join_slices_op = register(
    OpDef(
        name="join_slices",
        doc=(
            "A tensor that has of each operand, all of them of its own type, the slice of ``axis`` "
            "from that one of ``starts`` to the next, or to the end. The compiler makes it of "
            "concatenations whose pieces are computed in place."
        ),
        infer=_join_type,
        reference=_joined,
        derivative=_LATE,
        lowering=Structural(),
    )
)

PLACING = frozenset({place_slice_op, join_slices_op})
"""What says where values are stored, and computes none."""


def wholes(graph: Graph) -> dict[Value, Node]:
    """For each operand of a ``join_slices`` the node that joins it; all share its memory.

    Raises:
        VerifyError: where an operand is not what a kernel has put in its slice, where slices
            overlap or leave a gap, or where something else reads an operand.
    """
    found: dict[Value, Node] = {}
    boxes: dict[Value, Box | None] = {}
    for node in graph.nodes:
        if node.op is not join_slices_op:
            continue
        axis, shape = node.attrs["axis"], node.output.shape
        ends = (*node.attrs["starts"], shape[axis])
        around: list[Box] = []
        for part, slice_ in zip(node.inputs, pairwise(ends), strict=True):
            if part in found:
                raise _misused(node, f"{part!r} is joined twice")
            box = boxes[part] if part in boxes else _box_of(part, graph.producers)
            if box is None or box[axis] != slice_:
                low, high = slice_
                raise _misused(node, f"no kernel puts {part!r} in its slice, {low} to {high}")
            around.append((*box[:axis], *box[axis + 1 :]))
            found[part] = node
        if any(other != around[0] for other in around):
            raise _misused(node, "its slices differ along other axes")
        boxes[node.output] = (*around[0][:axis], (0, shape[axis]), *around[0][axis:])
    for whole, box in boxes.items():
        if whole not in found and box != tuple([(0, size) for size in whole.shape]):
            raise _misused(graph.producers[whole], "its slices leave a gap along another axis")
    if found:
        for node in graph.nodes:
            for value in node.inputs:
                if value in found and found[value] is not node:
                    raise _misused(node, f"it reads {value!r}, of which only a slice is defined")
        for value in graph.outputs:
            if value in found:
                raise _misused(found[value], f"{value!r}, only a slice of a whole, is an output")
    return found


Box: TypeAlias = tuple[tuple[Dim, Dim], ...]
"""For each axis of a whole where a part of it begins and ends."""


def _box_of(part: Value, producers: Mapping[Value, Node]) -> Box | None:
    """What a fused node writes of a whole."""
    node = producers.get(part)
    if node is None or len(node.regions) != 1:
        return None
    (region,) = node.regions
    inside = dict(zip(node.outputs, region.outputs, strict=True))[part]
    inner = region.producers.get(inside)
    if inner is None or inner.op is not place_slice_op:
        return None
    sizes = sizes_in_whole(inner.inputs[0].shape, inner.attrs.get("lacks"))
    pairs = zip(inner.attrs["starts"], sizes, strict=True)
    return tuple([(start, start + size) for start, size in pairs])


def _misused(node: Node, problem: str) -> VerifyError:
    return VerifyError(
        f"{node.op.name}: {problem}", where=node.provenance.where, node=repr(node)
    )


__all__ = ["PLACING", "join_slices_op", "place_slice_op", "sizes_in_whole", "wholes"]
