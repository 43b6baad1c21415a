"""Parts of a whole that are computed where they end up: destination passing, as two operations.

``place_slice`` puts a piece into its slice of a whole that holds nothing else; a piece that lacks
the axis is at one index of it. ``join_slices`` takes from each of such wholes its slice. Both are
pure, and mean the same wherever they stand. Invariant, which lowering checks: wholes that are
joined are read by nothing else, so that all of them and what they are joined to can be one piece of
memory, and joining costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

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
    axis, start = attrs["axis"], attrs["start"]
    if not 0 <= len(shape) - piece.rank <= 1 or not 0 <= axis < len(shape):
        raise ShapeError(f"{show(piece.shape)} has no place in {show(shape)} along axis {axis}")
    end = start + slice_length(piece, shape, axis)
    lacks = piece.rank < len(shape)
    around = piece.shape if lacks else (*piece.shape[:axis], *piece.shape[axis + 1 :])
    beside = around == (*shape[:axis], *shape[axis + 1 :])
    begins_inside = expressions.compare("le", 0, start) is not False
    inside = begins_inside and expressions.compare("le", end, shape[axis])
    if not beside or inside is False:
        raise ShapeError(
            f"{show(piece.shape)} does not fit into {show(shape)} at {start} of axis {axis}"
        )
    return [piece.with_shape(shape)]


def slice_length(piece: TensorType, shape: Shape, axis: int) -> Dim:
    """How much of an axis of a whole a piece takes up."""
    return 1 if piece.rank < len(shape) else piece.shape[axis]


def _placed(piece: Array, *, shape: Sequence[int], axis: int, start: int) -> Array:
    whole = np.full(shape, dtype(piece.dtype).unwritten, piece.dtype)
    if piece.ndim < len(shape):
        piece = np.expand_dims(piece, axis)
    whole[_along(axis, start, start + piece.shape[axis])] = piece
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
            "A tensor of the given ``shape`` that holds the piece from ``start`` of ``axis`` on, "
            "or at it where the piece lacks the axis; "
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
    for node in graph.nodes:
        if node.op is not join_slices_op:
            continue
        ends = (*node.attrs["starts"], node.output.shape[node.attrs["axis"]])
        for part, slice_ in zip(node.inputs, pairwise(ends), strict=True):
            if part in found:
                raise _misused(node, f"{part!r} is joined twice")
            if _slice_of(part, graph.producers, node.attrs["axis"]) != slice_:
                low, high = slice_
                raise _misused(node, f"no kernel puts {part!r} in its slice, {low} to {high}")
            found[part] = node
    if found:
        for node in graph.nodes:
            for value in node.inputs:
                if value in found and found[value] is not node:
                    raise _misused(node, f"it reads {value!r}, of which only a slice is defined")
        for value in graph.outputs:
            if value in found:
                raise _misused(found[value], f"{value!r}, only a slice of a whole, is an output")
    return found


def _slice_of(part: Value, producers: Mapping[Value, Node], axis: int) -> tuple[Dim, Dim] | None:
    """Where the slice begins and ends that a fused node writes of a whole."""
    node = producers.get(part)
    if node is None or len(node.regions) != 1:
        return None
    (region,) = node.regions
    inside = dict(zip(node.outputs, region.outputs, strict=True))[part]
    inner = region.producers.get(inside)
    if inner is None or inner.op is not place_slice_op or inner.attrs["axis"] != axis:
        return None
    start: Dim = inner.attrs["start"]
    return start, start + slice_length(inner.inputs[0].type, inner.output.shape, axis)


def _misused(node: Node, problem: str) -> VerifyError:
    return VerifyError(
        f"{node.op.name}: {problem}", where=node.provenance.where, node=repr(node)
    )


__all__ = ["PLACING", "join_slices_op", "place_slice_op", "slice_length", "wholes"]
