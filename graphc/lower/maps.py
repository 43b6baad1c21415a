"""Map kernels: loops over the shape of the results; their order, kinds and number.

All iterations are independent, so any nest gives the same values. The nest is built plain first.
Then axes that every load and store runs through as if they were one are collapsed, which makes the
innermost loop long. An axis along which loads are neighbours is interchanged: it becomes the
``across`` loop, right around the vector loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle

from graphc.ir.dims.expressions import compare, product
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph
from graphc.ir.types import Shape
from graphc.kernel.analysis.index_range import (
    Affine,
    index_forms,
    loads_across,
    places_used,
    runs_as_one,
)
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Block, Kernel, LoopKind, Var, walk
from graphc.kernel.statements.bodies import loops_in
from graphc.lower.concat_nests import nests
from graphc.lower.evaluate import Evaluator
from graphc.lower.region import Result, Slices, open_loop, open_region

Axes = list[int]
"""Neighbouring axes, those of one element each left out, that are one loop."""


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a nest by their axes, outermost first; the last is the vector loop."""

    groups: Sequence[Axes]
    across: int | None


def lower_map(region: Graph, slices: Slices) -> Kernel:
    """The kernel of a region without reductions whose results have one shape.

    One nest computes all of them, or one for each piece of a concatenation.
    """
    b, whole, results = open_region(region, slices)
    for part, part_slices in nests(region, slices):
        evaluator = Evaluator(b, part)
        evaluator.buffers.update(zip(part.inputs, whole.buffers.values(), strict=True))
        targets = [
            Result(value, result.buffer, slice_)
            for value, slice_, result in zip(part.outputs, part_slices, cycle(results))
        ]
        _nest(b, evaluator, targets, _loops(part, part_slices))
    return b.finish()


def _loops(region: Graph, slices: Slices) -> _Loops:
    """The loops that suit what the region reads and writes."""
    shape = region.outputs[0].shape
    axes = [axis for axis, dim in enumerate(shape) if not compare("eq", dim, 1)]
    plain = _Loops([[axis] for axis in axes], None)
    if len(axes) < 2:
        return plain
    b, evaluator, results = open_region(region, slices)
    _nest(b, evaluator, results, plain)
    kernel = b.finish()
    loops = loops_in(walk(kernel.body))
    forms, inner = index_forms(kernel), loops[-1]
    gain, across = max(
        (len(loads_across(forms, inner.body, loop.index, inner.index)), axis)
        for axis, loop in zip(axes, loops[:-1], strict=False)
    )
    return _Loops(_merged(kernel, forms, shape, axes, loops), across if gain else None)


def _nest(b: KernelBuilder, evaluator: Evaluator, results: Sequence[Result], loops: _Loops) -> None:
    """Builds the nest; the loop across the vector loop stands right around it."""
    shape = evaluator.region.outputs[0].shape
    index = [b.constant(0, int64)] * len(shape)
    *outer, last = loops.groups or [[]]
    with ExitStack() as opened:
        for group in (*sorted(outer, key=lambda group: loops.across in group), last):
            if group:
                kind: LoopKind = "vector" if group is last else "parallel"
                if loops.across in group:
                    kind = "across"
                # the last axis of a group runs through all of it, and the others stand at 0
                extent = product(shape[axis] for axis in group)
                index[group[-1]] = open_loop(b, evaluator, opened, extent, kind)
        place = tuple(index)
        elements = [evaluator.at(result.value, place) for result in results]
        for result, element in zip(results, elements, strict=True):
            result.store(b, place, element)


def _merged(
    kernel: Kernel,
    forms: Mapping[Var, Affine],
    shape: Shape,
    axes: Sequence[int],
    loops: Sequence[Block],
) -> list[Axes]:
    """The axes of a plain nest, one loop each, grouped as far as its uses of indices allow."""
    places = places_used(walk(kernel.body), forms)
    groups = [[axes[0]]]
    for axis, before, loop in zip(axes[1:], loops, loops[1:], strict=False):
        if runs_as_one(places, before.index, loop.index, shape[axis]):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups
