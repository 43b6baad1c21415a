"""Concatenation in place: pieces are computed where they end up, so that nothing copies them.

    %2 = tanh(%0); %3 = exp(%1)             %2 = tanh(%0); %4 = place_slice(%2) {start = 0}
    %4 = concatenate(%2, %3)        ->      %3 = exp(%1); %5 = place_slice(%3) {start = n}
                                            %4 = join_slices(%4, %5) {starts = (0, n)}

The kernel that computes a piece writes it to its slice of the whole; joining is no work. What is
fed or kept elsewhere is copied to its slice. Bits stay: values only move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.base.tuning.fusion import FUSION
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, at_hint
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.move.joining import concatenate_op
from graphc.ops.move.placing import join_slices_op, place_slice_op, sizes_in_whole
from graphc.ops.move.shape import with_shape
from passes.infra.base import PassContext


def concat_in_place(graph: Graph, context: PassContext) -> Graph:
    """The graph with its concatenations made in place where that saves bytes; one walk."""
    nodes = [node for node in graph.nodes if node.op is concatenate_op]
    if not nodes:
        return graph
    editor = GraphEditor(graph, concat_in_place.__name__)
    for node in reversed(nodes):
        if not editor.alive(node):
            continue
        whole = _whole(node, editor)
        reason = _obstacle(node, whole, editor)
        if reason is not None:
            context.decline(concat_in_place.__name__, node, reason)
        elif context.decide(concat_in_place.__name__, node):
            _join(node, whole, editor)
    return editor.finish()


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """A concatenation as it is made in place.

    Attributes:
        shape, axis: of the whole, which is another shape of the result where that is a stack.
        pieces: along the axis, or without it; those of another shape are reshaped.
        beside: sizes of the other axes, which pieces share.
        inner: the concatenations that only make pieces of this one.
    """

    shape: Shape
    axis: int
    pieces: list[Value]
    beside: Shape
    inner: list[Node]


def _join(node: Node, whole: _Whole, editor: GraphEditor) -> None:
    axis = whole.axis
    around = _placing(node, editor)
    shape: Shape = whole.shape if around is None else around.attrs["shape"]
    before: Sequence[Dim] = (0,) * len(shape) if around is None else around.attrs["starts"]
    starts: list[Dim] = []
    start: Dim = 0
    parts: list[Value] = []
    # pieces of one shape can be computed in one loop
    rank = min(len(whole.shape), *(piece.type.rank for piece in whole.pieces))
    lacks = axis if rank < len(whole.shape) else None
    lacking: dict[str, Any] = {} if lacks is None else {"lacks": lacks}
    with editor.rewriting(node, concat_in_place.__name__):
        for piece in whole.pieces:
            if piece.type.rank > rank:
                piece = with_shape(piece, (*piece.shape[:axis], *piece.shape[axis + 1 :]))
            starts.append(start)
            at = (*before[:axis], start, *before[axis + 1 :])
            parts.append(apply(place_slice_op, piece, shape=shape, starts=at, **lacking))
            start = start + sizes_in_whole(piece.shape, lacks)[axis]
        joined = apply(join_slices_op, *parts, axis=axis, starts=tuple(starts))
        old = node.output if around is None else around.output
        editor.substitute(old, with_shape(joined, old.shape))
    for other in (node, *whole.inner, *map(editor.producer, node.inputs)):
        if other is not None:
            editor.remove_unused(other)


def _placing(node: Node, editor: GraphEditor) -> Node | None:
    """What puts a concatenation into a whole, if nothing else reads it."""
    users = editor.users(node.output)
    if len(users) != 1 or editor.is_fetched(node.output) or users[0].op is not place_slice_op:
        return None
    return users[0]


def _whole(node: Node, editor: GraphEditor) -> _Whole:
    """How a concatenation would be made in place."""
    axis: int = node.attrs["axis"]
    shape = node.output.shape
    pieces, inner = _pieces(node, editor)
    beside = (*shape[:axis], *shape[axis + 1 :])
    if all(piece.shape[axis] == 1 for piece in pieces):
        flat = [_unstacked(piece, axis, editor) for piece in pieces]
        if axis + 1 == len(shape):
            # what is stacked is interleaved
            return _Whole(shape, axis, flat, beside, inner)
        # a stack: what is stacked lies side by side along the next axis
        if any(piece.type.rank < len(shape) for piece in flat):
            shape = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
            return _Whole(shape, axis, flat, beside, inner)
    return _Whole(shape, axis, pieces, beside, inner)


def _unstacked(piece: Value, axis: int, editor: GraphEditor) -> Value:
    """What only got a new axis to be stacked along; else the piece itself."""
    node = editor.producer(piece)
    if node is None or not node.op.lowering.keeps_memory:
        return piece
    (source,) = node.inputs
    same = source.shape == (*piece.shape[:axis], *piece.shape[axis + 1 :])
    return source if same and editor.only_user(piece) is not None else piece


def _pieces(node: Node, editor: GraphEditor) -> tuple[list[Value], list[Node]]:
    """What is put together, and the concatenations that only make pieces of this one."""
    axis = node.attrs["axis"]
    pieces: list[Value] = []
    inner: list[Node] = []
    pending = [(piece, node) for piece in reversed(node.inputs)]
    while pending:
        piece, reader = pending.pop()
        made = editor.producer(piece)
        if (
            made is not None
            and made.op is concatenate_op
            and made.attrs["axis"] == axis
            and editor.only_user(piece) is reader
            and _saves(made.inputs, editor)
            and len(pieces) + len(pending) + len(made.inputs) <= FUSION.joined_pieces
        ):
            inner.append(made)
            pending.extend((other, made) for other in reversed(made.inputs))
        else:
            pieces.append(piece)
    return pieces, inner


def _obstacle(node: Node, whole: _Whole, editor: GraphEditor) -> str | None:
    """Why a concatenation stays as it is, if it does.

    Without its own kernel the pieces are neither read nor written once more, but for those that
    have to be copied, and for readers that would have computed with the pieces where they are.
    """
    result, axis, pieces = node.output, whole.axis, whole.pieces
    users, is_fetched = editor.users(result), editor.is_fetched(result)
    around = _placing(node, editor)
    if around is not None and not _covers_axis(whole, around, result):
        return "it is written to a slice itself"
    rank = result.type.rank
    if any(
        (*p.shape[:axis], *p.shape[axis + 1 :]) != whole.beside
        for p in pieces
        if p.type.rank == rank
    ):
        return "its pieces are spelled differently"
    saved = sum(_saved(piece, editor) for piece in pieces)
    total = sum(map(_bytes, pieces))
    within = [user for user in users if _reads_pieces(user, result)]
    if len(within) == len(users) and not is_fetched:
        return "its readers compute with the pieces where they are"
    saved -= total if within else 0
    # what is read as memory alone has parts side by side, which one kernel stores in one loop
    is_memory = bool(users) and all(map(_reads_memory, users)) and not is_fetched
    least = 1 if is_memory else FUSION.slice_bytes * len(pieces)
    if saved < least:
        return f"{saved} bytes less to copy are not worth {len(pieces)} kernels"
    return None


def _covers_axis(whole: _Whole, around: Node, result: Value) -> bool:
    """Whether what a concatenation is put into is made of it all along its axis, so that its pieces
    are slices of that, too."""
    if whole.shape != result.shape or around.attrs.get("lacks") is not None:
        return False
    size = around.output.shape[whole.axis]
    return around.attrs["starts"][whole.axis] == 0 and size == result.shape[whole.axis]


def _bytes(value: Value) -> int:
    return at_hint(value.type.bytes)


def _saves(pieces: Sequence[Value], editor: GraphEditor) -> bool:
    """Whether to put pieces in their places saves enough for a kernel each."""
    return sum(_saved(piece, editor) for piece in pieces) >= FUSION.slice_bytes * len(pieces)


def _saved(piece: Value, editor: GraphEditor) -> int:
    """Bytes that are not read to be copied, and not written if nothing else reads the piece."""
    if not _is_made_here(piece, editor):
        return 0
    alone = len(editor.users(piece)) == 1 and not editor.is_fetched(piece)
    return _bytes(piece) * (2 if alone else 1)


def _reads_pieces(reader: Node, whole: Value) -> bool:
    """Whether a reader becomes one kernel with a concatenation, which is then stored for others."""
    lowering = reader.op.lowering
    if lowering.is_pointwise:
        return reader.output.shape == whole.shape
    return lowering.is_view and not lowering.keeps_memory


def _reads_memory(reader: Node) -> bool:
    """Whether a reader takes a result as memory of another dtype."""
    lowering = reader.op.lowering
    return lowering.keeps_memory and not lowering.is_view


def _is_made_here(piece: Value, editor: GraphEditor) -> bool:
    """Whether a kernel computes the piece that can write it to a slice."""
    node = editor.producer(piece)
    if node is None:
        return False
    lowering = node.op.lowering
    if lowering.keeps_memory:
        # becomes part of what computes its operand, if nothing else reads that
        (source,) = node.inputs
        inner = editor.producer(source)
        return (
            inner is not None
            and inner.op.lowering.kernel == "map"
            and inner.op.lowering.placed == "always"
            and editor.only_user(source) is node
        )
    if lowering.placed == "unshared":
        return len(editor.users(piece)) == 1 and not editor.is_fetched(piece)
    return lowering.placed == "always"


__all__ = ["concat_in_place"]
