"""Putting tensors together: concatenate and stack.

Core op: ``concatenate``. Invariant: it stays one n-ary node for any number of pieces, and
everything done for it is linear in that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal
from graphc.ir.dtypes import ALL
from graphc.ir.guard import Data
from graphc.ir.lowering import Element, ElementBuilder, Scalar
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import axis_of, promoted
from graphc.ops.guards import check_size, guarded, show, unproved
from graphc.ops.move.shape import expand_dims, ravel, sample, with_shape
from graphc.ops.move.slicing import offset, part


def _without(shape: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _mismatch(axis: int) -> str:
    return f"cannot concatenate {{}} and {{}} along axis {axis}"


def _concatenate_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    axis: int = attrs["axis"]
    first = inputs[0]
    beside = _without(first.shape, axis)
    total: Dim = 0
    for other in inputs:
        if other.rank != first.rank or any(
            equal(a, b) is False for a, b in zip(beside, _without(other.shape, axis), strict=True)
        ):
            raise ShapeError(_mismatch(axis).format(show(first.shape), show(other.shape)))
        total = total + other.shape[axis]
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    check_size(shape, [first.shape])
    return [first.with_shape(shape)]


def _concatenate_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    axis: int = attrs["axis"]
    element = b.constant(False if result.dtype.kind == "bool" else 0, result.dtype)
    start: Dim = 0
    for number, piece in enumerate(inputs):
        end = start + piece.shape[axis]
        inside = b.apply("less", index[axis], b.dim(end))
        if number:
            begun = b.apply("less_equal", b.dim(start), index[axis])
            inside = b.apply("and", begun, inside)
        place = [*index]
        place[axis] = offset(b, index[axis], -start)
        element = b.load_if(inside, number, place, element)
        start = end
    return element


def _concatenate_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    axis: int = attrs["axis"]
    start: Dim = 0
    result: list[Value | None] = []
    for piece in inputs:
        size = piece.shape[axis]
        result.append(with_shape(part(cotangent, axis, start, size), piece.shape))
        start = start + size
    return result


concatenate_op = register(
    OpDef(
        name="concatenate",
        doc="One or more tensors of equal dtype one after the other along ``axis``.",
        infer=_concatenate_type,
        reference=lambda *pieces, axis, guards=(): np.concatenate(pieces, axis),
        derivative=Linear(_concatenate_transpose),
        lowering=Element(_concatenate_rule),
        of_complex=each_part,
        domain=Domain(
            dtypes=ALL,
            example=lambda random, dtype: (
                [sample(random, dtype, 2, size, 3) for size in (2, 0, 1)],
                {"axis": 1},
            ),
        ),
    )
)


@surface
def concatenate(values: Sequence[Any], axis: int | None = 0) -> Value:
    """Joins tensors along an existing axis; None joins all their elements as a vector.

    Raises:
        ShapeError: if other dims are proved to differ; at run time if they turn out to.
    """
    given = items_of(values, "what is concatenated")
    pieces: Sequence[Value] = promoted(*given) if given else ()
    if not pieces:
        raise ShapeError("nothing to concatenate", where=caller(), hint="give at least one tensor")
    if axis is None:
        pieces, axis = [ravel(piece) for piece in pieces], 0
    first = pieces[0]
    if first.ndim == 0:
        raise ShapeError("scalars cannot be concatenated", where=caller(), hint="stack them")
    place = axis_of(axis, first.ndim)
    guards: dict[Data, None] = {}
    for piece in pieces:
        message = _mismatch(place)
        if piece.ndim != first.ndim:
            text = message.format(show(first.shape), show(piece.shape))
            raise ShapeError(text, where=caller())
        others = _without(piece.shape, place)
        pairs = zip(_without(first.shape, place), others, strict=True)
        guards.update(dict.fromkeys(unproved(pairs, message, first.shape, piece.shape)))
    if len(pieces) == 1:
        return first
    return apply(concatenate_op, *pieces, axis=place, **guarded(tuple(guards)))


@surface
def stack(values: Sequence[Any], axis: int = 0) -> Value:
    """Joins tensors of one shape along a new axis.

    Raises:
        ShapeError: if the shapes are proved to differ; at run time if they turn out to.
    """
    given = items_of(values, "what is stacked")
    pieces = promoted(*given) if given else ()
    if not pieces:
        raise ShapeError("nothing to stack", where=caller(), hint="give at least one tensor")
    first = pieces[0]
    guards: dict[Data, None] = {}
    for piece in pieces:
        message = "cannot stack {} and {}"
        if piece.ndim != first.ndim:
            text = message.format(show(first.shape), show(piece.shape))
            raise ShapeError(text, where=caller())
        pairs = zip(first.shape, piece.shape, strict=True)
        guards.update(dict.fromkeys(unproved(pairs, message, first.shape, piece.shape)))
    place = axis_of(axis, first.ndim + 1)
    raised = [expand_dims(piece, place) for piece in pieces]
    if len(raised) == 1:
        return raised[0]
    return apply(concatenate_op, *raised, axis=place, **guarded(tuple(guards)))
