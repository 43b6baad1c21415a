"""Moves views: they cancel across pointwise work, move before it, and are joined again.

    %1 = transpose(%0) {axes = (1, 0)}
    %2 = exp(%1)                            ->      %3 = exp(%0)
    %3 = transpose(%2) {axes = (1, 0)}

A slice of pointwise work that nobody else reads becomes that work on slices; of a concatenation,
a slice of the piece that it lies in; slices side by side are joined; work on what is merely
repeated is done once. Every element is computed as before, so all of this keeps every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal, less_equal
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.move.joining import concatenate_op
from graphc.ops.move.shape import broadcast_to_op, transpose_op, with_shape
from graphc.ops.move.slicing import part, slice_op, sliced
from passes.infra.base import PassContext
from passes.rewriting.constants import known

PARTS = frozenset(
    {"transposes-cancel", "slice-first", "slice-of-piece", "slices-joined", "repeat-last"}
)
"""What this pass calls its decisions; each can be switched off."""


def move_views(graph: Graph, context: PassContext) -> Graph:
    """The graph with views moved; each node is looked at once, and what that makes."""
    if not any(node.op in _STEPS for node in graph.nodes):
        return graph
    walk = _Walk(graph, context)
    for original in graph.nodes:
        pending = [original]
        while pending:
            # The node may have been put anew since, with other operands.
            node = walk.editor.producer(pending.pop().outputs[0])
            if node is None:
                continue
            step = _STEPS.get(node.op)
            if step is None and node.op.lowering.is_pointwise:
                step = _Walk.pointwise
            if step is None:
                continue
            walk.editor.take_made()
            step(walk, node)
            pending.extend(reversed(walk.editor.take_made()))
    return walk.editor.finish()


class _Walk:
    """One run of the pass."""

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self.editor = GraphEditor(graph, "move_views")
        self.context = context

    # --- upkeep ----------------------------------------------------------------------------------

    def replace(self, node: Node, new: Value) -> None:
        """The value takes the node's place; what only the node read goes."""
        if new.type != node.output.type:
            new = with_shape(new, node.output.shape, ())
        self.editor.supplant(node, new)

    def only_work(self, value: Value) -> Node | None:
        """The pointwise node that makes the value, if one node reads it and nothing else does."""
        node = self.editor.producer(value)
        if node is None or not node.op.lowering.is_pointwise:
            return None
        return None if self.editor.only_user(value) is None else node

    # --- transposes ------------------------------------------------------------------------------

    def transpose(self, node: Node) -> None:
        """Work between a transpose and the one that undoes it needs neither."""
        (source,) = node.inputs
        axes: tuple[int, ...] = node.attrs["axes"]
        found = self._untransposed(source, axes)
        if found is None or not self.context.decide("transposes-cancel", node):
            return
        work, made = found
        for inner in work:
            with self.editor.rewriting(inner, "transposes-cancel"):
                operands = [made[value] for value in inner.inputs]
                made[inner.output] = apply(inner.op, *operands, **inner.attrs)
        with self.editor.rewriting(node, "transposes-cancel"):
            self.replace(node, made[source])

    def _untransposed(
        self, root: Value, axes: Sequence[int]
    ) -> tuple[list[Node], dict[Value, Value]] | None:
        """The work under a transpose, producers first, and what its operands are without it.

        None unless every operand is a single element or a transpose that the axes undo.
        """
        work: list[Node] = []
        made: dict[Value, Value] = {}
        moved = False
        stack = [root]
        while stack:
            value = stack.pop()
            node = self.only_work(value)
            if node is not None and value.ndim == len(axes):
                work.append(node)
                stack.extend(node.inputs)
                continue
            plain = self._before(value, axes)
            if plain is None:
                return None
            moved = moved or plain.ndim > 0
            made[value] = plain
        return (work[::-1], made) if moved and work else None

    def _before(self, value: Value, axes: Sequence[int]) -> Value | None:
        """The value with its axes permuted, where that takes no work."""
        if value.ndim == 0:
            return value
        constant = known(value, self.editor.producer)
        if constant is not None and constant.splat:
            return constant.scalar
        node = self.editor.producer(value)
        if node is None or node.op is not transpose_op or len(node.attrs["axes"]) != len(axes):
            return None
        back = [node.attrs["axes"][axis] for axis in axes]
        return node.inputs[0] if back == list(range(len(axes))) else None

    # --- slices ----------------------------------------------------------------------------------

    def slice(self, node: Node) -> None:
        """Before the work rather than after it, and of a piece rather than of the whole."""
        (source,) = node.inputs
        inner = self.editor.producer(source)
        if inner is not None and inner.op is concatenate_op:
            self._slice_of_piece(node, inner)
            return
        work = self.only_work(source)
        if work is None or _is_whole(node):
            return
        parts = [_part_of(operand, node) for operand in work.inputs]
        if any(cut is None for cut in parts) or not self.context.decide("slice-first", node):
            return
        operands = []
        with self.editor.rewriting(node, "slice-first"):
            for operand, cut in zip(work.inputs, parts, strict=True):
                assert cut is not None
                operands.append(sliced(operand, *cut))
        with self.editor.rewriting(work, "slice-first"):
            self.replace(node, apply(work.op, *operands, **work.attrs))

    def _slice_of_piece(self, node: Node, whole: Node) -> None:
        axis: int = whole.attrs["axis"]
        start, step, size = (list(node.attrs[name]) for name in ("start", "step", "size"))
        ends = (start[axis], start[axis] + (size[axis] - 1) * step[axis])
        low, high = ends if step[axis] > 0 else ends[::-1]
        begin: Dim = 0
        for piece in whole.inputs:
            end = begin + piece.shape[axis]
            if less_equal(begin, low) and less_equal(high, end - 1):
                if not self.context.decide("slice-of-piece", node):
                    return
                start[axis] = start[axis] - begin
                with self.editor.rewriting(node, "slice-of-piece"):
                    self.replace(node, sliced(piece, start, step, size))
                return
            begin = end

    # --- concatenations --------------------------------------------------------------------------

    def concatenate(self, node: Node) -> None:
        """Without empty pieces; slices of one tensor that lie side by side are one slice."""
        axis: int = node.attrs["axis"]
        runs: list[tuple[Value, Dim, Dim] | Value] = []
        for piece in node.inputs:
            if piece.shape[axis] == 0:
                continue
            run = self._run(piece, axis)
            last = runs[-1] if runs else None
            if isinstance(run, tuple) and isinstance(last, tuple) and last[0] is run[0]:
                source, begin, length = last
                if equal(begin + length, run[1]):
                    runs[-1] = (source, begin, length + run[2])
                    continue
            runs.append(run if run is not None else piece)
        if not runs or len(runs) == len(node.inputs):
            return
        if not self.context.decide("slices-joined", node):
            return
        with self.editor.rewriting(node, "slices-joined"):
            pieces = [
                run if isinstance(run, Value) else part(run[0], axis, run[1], run[2])
                for run in runs
            ]
            joined = pieces[0] if len(pieces) == 1 else apply(concatenate_op, *pieces, axis=axis)
            self.replace(node, joined)

    def _run(self, piece: Value, axis: int) -> tuple[Value, Dim, Dim] | None:
        """Tensor, beginning and length, if the piece is a slice of it along this axis alone."""
        node = self.editor.producer(piece)
        if node is None or node.op is not slice_op:
            return None
        (source,) = node.inputs
        sizes: tuple[Dim, ...] = node.attrs["size"]
        others = (a for a in range(source.ndim) if a != axis)
        if any(step != 1 for step in node.attrs["step"]) or not all(
            equal(sizes[a], source.shape[a]) for a in others
        ):
            return None
        return source, node.attrs["start"][axis], sizes[axis]

    # --- repeated elements -----------------------------------------------------------------------

    def pointwise(self, node: Node) -> None:
        """Work on repeated elements is done once and its result repeated."""
        wide = [value for value in node.inputs if value.ndim > 0]
        makers = [self.editor.producer(value) for value in wide]
        sources = [
            maker.inputs[0]
            for maker in makers
            if maker is not None and maker.op is broadcast_to_op
        ]
        if not wide or len(sources) < len(wide):
            return
        shape = node.output.shape
        once = max((source.shape for source in sources), key=len)
        if any(value.shape != shape for value in wide) or any(
            source.shape not in ((), once) for source in sources
        ):
            return
        if all(not source.ndim or known(source, self.editor.producer) for source in sources):
            return
        if not self.context.decide("repeat-last", node):
            return
        remaining = iter(sources)
        operands = [next(remaining) if value.ndim > 0 else value for value in node.inputs]
        with self.editor.rewriting(node, "repeat-last"):
            small = apply(node.op, *operands, **node.attrs)
            self.replace(node, apply(broadcast_to_op, small, shape=shape))


def _is_whole(node: Node) -> bool:
    """Whether a slice leaves no element out."""
    sizes = zip(node.attrs["size"], node.inputs[0].shape, strict=True)
    return all(equal(size, full) for size, full in sizes)


def _part_of(
    operand: Value, cut: Node
) -> tuple[list[Dim], list[int], list[Dim]] | None:
    """What of an operand a slice of the result needs; None if that is unknown."""
    full = cut.inputs[0].shape
    lead = len(full) - operand.ndim
    start: list[Dim] = []
    step: list[int] = []
    size: list[Dim] = []
    for axis, dim in enumerate(operand.shape, lead):
        if equal(dim, full[axis]):
            start.append(cut.attrs["start"][axis])
            step.append(cut.attrs["step"][axis])
            size.append(cut.attrs["size"][axis])
        elif dim == 1:
            start.append(0)
            step.append(1)
            size.append(1)
        else:
            return None
    return start, step, size


_STEPS: dict[OpDef, Callable[[_Walk, Node], None]] = {
    transpose_op: _Walk.transpose,
    slice_op: _Walk.slice,
    concatenate_op: _Walk.concatenate,
    broadcast_to_op: lambda walk, node: None,
}
