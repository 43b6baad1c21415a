"""Blame: which level is at fault where two levels differ, found by comparing the levels between.

A kernel that does not compute what its fused node means: is it that an operation by itself is
another one at the two levels, or the way that several are put together? A program that depends on
its arena: does a kernel read beyond its arrays, or what nothing has written, or is memory used
again too early?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc.base.errors import GraphcError, UnsupportedError, VerifyError
from graphc.base.target import Target
from graphc.checking.compare import Difference, same_bits
from graphc.checking.interpreter import evaluate_node
from graphc.checking.unexplained import unexplained
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import evaluate
from graphc.ir.graph import Graph, Node
from graphc.ir.types import TensorType
from graphc.kernel.interp import run_kernel
from graphc.lower.single import lower_single
from graphc.plan.interp import Launcher, blank, run_plan
from graphc.plan.ir import Plan

OTHER_FILL = 0x3C
"""A byte that memory nothing has written is filled with, for a second run."""


# --- kernels -------------------------------------------------------------------------------------


def guilty_operation(
    region: Graph, given: Sequence[Array], sizes: Mapping[str, int], target: Target
) -> tuple[Node, Difference] | None:
    """The first operation whose own kernel is another one than its reference, on these operands.

    None if each by itself is right, so that putting them together is at fault.
    """
    values = dict(zip(region.inputs, given, strict=True))
    for node in region.nodes:
        operands = [values[value] for value in node.inputs]
        with np.errstate(all="ignore"):
            results = evaluate_node(node, operands, sizes)
        values.update(zip(node.outputs, results, strict=True))
        made = _by_itself(node, operands, sizes, target)
        if made is None:
            continue
        known = dict(zip(node.inputs, operands, strict=True))
        loose = node.op.numerics != "E"
        for value, expected, array in zip(node.outputs, results, made, strict=True):
            found = unexplained(
                [node], known, sizes, value, expected, array, loose=loose, finite=True
            )
            if found is not None:
                return node, found
    return None


def _by_itself(
    node: Node, operands: Sequence[Array], sizes: Mapping[str, int], target: Target
) -> list[Array] | None:
    """What a kernel of this operation alone gives; None where it has none, or a check fails."""
    if not node.inputs:
        return None
    try:
        kernel = lower_single(node, target).whole
    except UnsupportedError:
        return None
    arguments = [
        array.reshape(tuple(evaluate(dim, sizes) for dim in buffer.type.shape)).copy()
        for buffer, array in zip(kernel.buffers, operands, strict=False)
    ]
    first = len(arguments)
    arguments += [blank(buffer.type, sizes) for buffer in kernel.buffers[first:]]
    if run_kernel(kernel, arguments, {name: sizes[name] for name in kernel.dims}):
        return None
    shapes = [tuple(evaluate(dim, sizes) for dim in value.shape) for value in node.outputs]
    made = arguments[first : first + len(shapes)]
    return [array.reshape(shape) for array, shape in zip(made, shapes, strict=True)]


# --- memory --------------------------------------------------------------------------------------


def memory_fault(
    plan: Plan,
    arrays: Sequence[Array],
    sizes: Mapping[str, int],
    expected: Sequence[Array],
    launch: Launcher,
) -> str | None:
    """Why results may differ though no memory is used again; None if that is what is left.

    Args:
        plan: the program.
        arrays: what is fed.
        sizes: of the symbolic dims.
        expected: the results of a run in which each value has memory of its own.
        launch: what runs kernels as they were run.
    """
    try:
        run_plan(plan, arrays, sizes)
    except VerifyError as error:
        return f"a kernel is at fault: {error.message}"
    except GraphcError:
        return None
    again = run_plan(plan, arrays, sizes, launch=launch, unwritten=_other_blank)
    if all(same_bits(one, two).all() for one, two in zip(expected, again, strict=True)):
        return None
    return "a kernel reads what nothing has written"


def _other_blank(type_: TensorType, binding: Mapping[str, int]) -> Array:
    array = blank(type_, binding)
    array.reshape(-1).view(np.uint8)[...] = OTHER_FILL % 2 if array.dtype == bool else OTHER_FILL
    return array


__all__ = ["guilty_operation", "memory_fault"]
