"""Shared by all lowerings of regions: the builder with its buffers, loop nests, names.

An output that goes to a slice of a whole is lowered like any other output. Only its place differs,
and a ``Result`` knows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph, Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, LoopKind, Role, Size, Var
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import Index, flat_index
from graphc.ops.move.placing import PLACING, join_slices_op, place_slice_op
from graphc.ops.source import constant_op


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Where a piece lies in a whole of this type: from ``starts`` on, one for each axis.

    Attributes:
        lacks: the axis of the whole that the piece has not, if there is one.
        joined: the output that is this whole, where the kernel makes all of its pieces.
    """

    whole: TensorType
    starts: tuple[Dim, ...]
    lacks: int | None = None
    joined: Value | None = None


Slices = tuple[Slice | None, ...]
"""For each result of a region its slice, None if it is a whole value."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """An output of a region: its value, and the buffer that it is stored to."""

    value: Value
    buffer: Buffer
    slice: Slice | None

    def place(self, b: KernelBuilder, index: Sequence[Var]) -> Var:
        """Where the element of the value at an index goes."""
        if self.slice is None:
            return flat_index(b, index, self.value.shape)
        lacks = self.slice.lacks
        if lacks is not None:
            index = (*index[:lacks], b.constant(0, int64), *index[lacks:])
        return flat_index(b, index, self.slice.whole.shape, self.slice.starts)

    def store(self, b: KernelBuilder, index: Sequence[Var], element: Var) -> None:
        """Writes the element of the value at an index."""
        b.store(self.buffer, self.place(b, index), element)


def _slice(node: Node, joined: Value | None) -> Slice:
    return Slice(node.output.type, node.attrs["starts"], node.attrs.get("lacks"), joined)


def computed(region: Graph) -> tuple[Graph, Slices]:
    """The region without placing and joining: its outputs are the pieces, each with its slice."""
    placing = {n.output: n for n in region.nodes if n.op is place_slice_op}
    if not placing:
        return region, (None,) * len(region.outputs)
    joining = {n.output: n for n in region.nodes if n.op is join_slices_op}
    outputs: list[Value] = []
    slices: list[Slice | None] = []
    for value in region.outputs:
        join = joining.get(value)
        for part in (value,) if join is None else join.inputs:
            node = placing.get(part)
            outputs.append(part if node is None else node.inputs[0])
            slices.append(None if node is None else _slice(node, None if join is None else value))
    nodes = [node for node in region.nodes if node.op not in PLACING]
    return Graph(region.name, region.inputs, nodes, outputs), tuple(slices)


def kernel_name(region: Graph) -> str:
    """A label that says what the kernel computes."""
    names = [node.op.name for node in region.nodes if node.op is not constant_op]
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3}_more"]
    return "_".join(shown) or "copy"


def open_region(
    region: Graph, slices: Slices, role: Role = "out"
) -> tuple[KernelBuilder, Evaluator, list[Result]]:
    """A builder with the region's inputs and outputs as buffers, and an evaluator over it; whole
    values have the given role."""
    b = KernelBuilder(kernel_name(region))
    evaluator = Evaluator(b, region)
    for position, value in enumerate(region.inputs):
        evaluator.buffers[value] = b.buffer(f"x{position}", "in", value.type)
    results = []
    joined: dict[Value, Buffer] = {}
    n = 0
    for value, slice_ in zip(region.outputs, slices, strict=True):
        whole = None if slice_ is None else slice_.joined
        buffer = joined.get(whole) if whole is not None else None
        if buffer is None:
            is_part = slice_ is not None and whole is None
            kind = value.type if slice_ is None else slice_.whole
            buffer = b.buffer(f"y{n}", "part" if is_part else role, kind)
            n += 1
        if whole is not None:
            joined[whole] = buffer
        results.append(Result(value, buffer, slice_))
    return b, evaluator, results


def open_loop(
    b: KernelBuilder, evaluator: Evaluator, loops: ExitStack, extent: Size, kind: LoopKind
) -> Var:
    """Enters one loop for the rest of the stack; scalars inside are forgotten after it."""
    scope = loops.enter_context(b.loop(extent, kind))
    evaluator.push()
    loops.callback(evaluator.pop)
    return scope.index


def open_loops(
    b: KernelBuilder,
    evaluator: Evaluator,
    loops: ExitStack,
    shape: Sequence[Dim],
    innermost: LoopKind = "vector",
) -> Index:
    """A nest over a shape: parallel loops, the innermost one of the given kind."""
    last = len(shape) - 1
    return tuple(
        open_loop(b, evaluator, loops, dim, innermost if axis == last else "parallel")
        for axis, dim in enumerate(shape)
    )
