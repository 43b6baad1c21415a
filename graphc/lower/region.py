"""What all lowerings of regions share: the builder with its buffers, loop nests, names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from graphc.ir.dims import Dim
from graphc.ir.graph import Graph
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, LoopKind, Var
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import Index


def kernel_name(region: Graph) -> str:
    """A label that says what the kernel computes."""
    names = [node.op.name for node in region.nodes if node.op.name != "constant"]
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3}_more"]
    return "_".join(shown) or "copy"


def open_region(region: Graph) -> tuple[KernelBuilder, Evaluator, list[Buffer]]:
    """A builder with the region's inputs and outputs as buffers, and an evaluator over it."""
    b = KernelBuilder(kernel_name(region))
    evaluator = Evaluator(b, region)
    for position, value in enumerate(region.inputs):
        evaluator.buffers[value] = b.buffer(f"x{position}", "in", value.type)
    outputs = [b.buffer(f"y{n}", "out", value.type) for n, value in enumerate(region.outputs)]
    return b, evaluator, outputs


def open_loop(
    b: KernelBuilder, evaluator: Evaluator, loops: ExitStack, extent: Dim, kind: LoopKind
) -> Var:
    """Enters one loop for the rest of the stack; what is evaluated inside is forgotten after it."""
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
