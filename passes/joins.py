"""Joins: pieces of a concatenation are computed where they end up, so that nothing copies them.

    %2 = tanh(%0); %3 = exp(%1)             %2 = tanh(%0); %4 = place_slice(%2) {start = 0}
    %4 = concatenate(%2, %3)        ->      %3 = exp(%1); %5 = place_slice(%3) {start = n}
                                            %4 = join_slices(%4, %5) {starts = (0, n)}

The kernel that computes a piece writes it to its slice of the whole; joining is no work. What is
fed or kept elsewhere is copied to its slice. Bits stay: values only move.
"""

from __future__ import annotations

from graphc.ir.builder import apply
from graphc.ir.dims import Dim, at_hint
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Contraction, Element, Pointwise, Reduction, Reshape, Scan, View
from graphc.ir.value import Value
from graphc.ops.joining import concatenate_op
from graphc.ops.placing import join_slices_op, place_slice_op
from passes.base import PassContext

LEAST_BYTES = 16 << 10
"""What must be saved for each slice, which has a kernel of its own.

That takes 3 ms to compile. Runs were measured to be 4 % shorter there and 35 % where pieces have
megabytes; below, it was within the noise."""

MAX_PIECES = 64
"""Concatenations of concatenations become one up to so many pieces."""


def joins(graph: Graph, context: PassContext) -> Graph:
    """The graph with its concatenations made in place where that saves bytes; one walk."""
    nodes = [node for node in graph.nodes if node.op is concatenate_op]
    if not nodes:
        return graph
    editor = GraphEditor(graph, joins.__name__)
    for node in reversed(nodes):
        if not editor.alive(node):
            continue
        reason = _obstacle(node, editor)
        if reason is not None:
            context.decline(joins.__name__, node, reason)
        elif context.decide(joins.__name__, node):
            _join(node, editor)
    return editor.finish()


def _join(node: Node, editor: GraphEditor) -> None:
    axis: int = node.attrs["axis"]
    pieces, inner = _pieces(node, editor)
    starts: list[Dim] = []
    start: Dim = 0
    parts: list[Value] = []
    with editor.rewriting(node, joins.__name__):
        for piece in pieces:
            starts.append(start)
            shape = node.output.shape
            parts.append(apply(place_slice_op, piece, shape=shape, axis=axis, start=start))
            start = start + piece.shape[axis]
    editor.redefine(
        node.output, join_slices_op, tuple(parts), {"axis": axis, "starts": tuple(starts)}
    )
    for other in inner:
        editor.remove_unused(other)


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
            and "guards" not in made.attrs
            and editor.only_user(piece) is reader
            and len(pieces) + len(pending) + len(made.inputs) <= MAX_PIECES
        ):
            inner.append(made)
            pending.extend((other, made) for other in reversed(made.inputs))
        else:
            pieces.append(piece)
    return pieces, inner


def _obstacle(node: Node, editor: GraphEditor) -> str | None:
    """Why a concatenation stays as it is, if it does.

    Without its own kernel the pieces are neither read nor written once more, but for those that
    have to be copied, and for readers that would have computed with the pieces where they are.
    """
    if "guards" in node.attrs:
        return "whether its pieces fit is only known at run time"
    whole, axis = node.output, node.attrs["axis"]
    users = editor.users(whole)
    if not editor.is_fetched(whole) and len(users) == 1 and users[0].op is place_slice_op:
        return "it is written to a slice itself"
    pieces, _ = _pieces(node, editor)
    beside = (*whole.shape[:axis], *whole.shape[axis + 1 :])
    if any((*p.shape[:axis], *p.shape[axis + 1 :]) != beside for p in pieces):
        return "its pieces are spelled differently"
    saved = sum(_saved(piece, editor) for piece in pieces)
    total = sum(map(_bytes, pieces))
    within = [user for user in users if _reads_pieces(user, whole)]
    if len(within) == len(users) and not editor.is_fetched(whole):
        return "its readers compute with the pieces where they are"
    saved -= total if within else 0
    least = LEAST_BYTES * len(pieces)
    if saved < least:
        return f"{saved} bytes less to copy are not worth {len(pieces)} kernels"
    return None


def _bytes(value: Value) -> int:
    return at_hint(value.type.bytes)


def _saved(piece: Value, editor: GraphEditor) -> int:
    """Bytes that are not read to be copied, and not written if nothing else reads the piece."""
    if not _is_made_here(piece, editor):
        return 0
    alone = len(editor.users(piece)) == 1 and not editor.is_fetched(piece)
    return _bytes(piece) * (2 if alone else 1)


def _reads_pieces(reader: Node, whole: Value) -> bool:
    """Whether a reader becomes one kernel with a concatenation, which is then stored for others."""
    lowering = reader.op.lowering
    if isinstance(lowering, Pointwise):
        return reader.output.shape == whole.shape
    return isinstance(lowering, View)


def _is_made_here(piece: Value, editor: GraphEditor) -> bool:
    """Whether a kernel computes the piece that can write it to a slice."""
    node = editor.producer(piece)
    if node is None:
        return False
    lowering = node.op.lowering
    if isinstance(lowering, Reshape):
        # becomes part of what computes its operand, if nothing else reads that
        (source,) = node.inputs
        inner = editor.producer(source)
        return (
            inner is not None
            and isinstance(inner.op.lowering, (Pointwise, View, Element))
            and editor.only_user(source) is node
        )
    if isinstance(lowering, (Contraction, Scan)):
        return len(editor.users(piece)) == 1 and not editor.is_fetched(piece)
    return isinstance(lowering, (Pointwise, View, Element, Reduction))


__all__ = ["joins"]
