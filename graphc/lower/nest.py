"""The loops of a map kernel over the shape of its results: their order, kinds and number.

All iterations are independent, so any nest gives the same values. It is made plain first and looked
at: an axis along which loads are neighbours stands right around the vector loop ("across"), and
axes that every load and store runs through as if they were one become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from graphc.ir.dims import product
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph
from graphc.kernel.index_range import Affine, index_forms, loads_across
from graphc.kernel.ir import (
    Apply,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Store,
    Var,
    operands_of,
    walk,
)
from graphc.lower.region import Slices, open_loop, open_region


def lower_nest(region: Graph, slices: Slices) -> Kernel:
    """The kernel of a region without reductions whose results have one shape."""
    shape = region.outputs[0].shape
    last = len(shape) - 1
    kernel = _nest(region, slices, None, [[axis] for axis in range(len(shape))])
    nest = [statement for statement in walk(kernel.body) if isinstance(statement, Loop)]
    axes = [axis for axis, dim in enumerate(shape) if dim != 1]
    if len(nest) < 2 or len(nest) != len(axes) or axes[-1] != last:
        return kernel
    inner, forms = nest[-1], index_forms(kernel)
    counts = [
        (len(loads_across(forms, inner.body, loop.index, inner.index)), axis)
        for axis, loop in zip(axes, nest[:-1], strict=False)
    ]
    most, across = max(counts)
    if not most:
        return kernel
    return _nest(region, slices, across, _groups(kernel, nest[:-1], axes[:-1], last))


def _nest(
    region: Graph, slices: Slices, across: int | None, groups: Sequence[Sequence[int]]
) -> Kernel:
    """Loops over groups of axes; the one across the vector loop stands right around it."""
    b, evaluator, results = open_region(region, slices)
    shape = region.outputs[0].shape
    index: dict[int, Var] = {}
    last = len(shape) - 1
    with ExitStack() as loops:
        for group in sorted(groups, key=lambda group: (last in group, across in group)):
            kind: LoopKind = "vector" if last in group else "parallel"
            if across in group:
                kind = "across"
            # the last axis of a group runs through all of it, and the others stand at 0
            *others, axis = group
            extent = product(shape[n] for n in group)
            index[axis] = open_loop(b, evaluator, loops, extent, kind)
            index |= {other: b.constant(0, int64) for other in others}
        place = tuple(index[axis] for axis in range(len(shape)))
        values = [evaluator.at(value, place) for value in region.outputs]
        for result, value in zip(results, values, strict=True):
            result.store(b, place, value)
    return b.finish()


def _groups(
    kernel: Kernel, nest: Sequence[Loop], axes: Sequence[int], last: int
) -> list[list[int]]:
    """Axes that are one loop, those of one element each with what follows it."""
    forms = index_forms(kernel)
    accesses = [s.index for s in walk(kernel.body) if isinstance(s, (Load, Store))]
    places = [forms[index] for index in accesses if index in forms]
    fixed = _used_otherwise(kernel, forms)
    groups: list[list[int]] = []
    for position, (loop, axis) in enumerate(zip(nest, axes, strict=True)):
        before = nest[position - 1] if position else None
        joins = before is not None and not {before.index, loop.index} & fixed
        if joins and before is not None:
            extent = loop.extent
            assert not isinstance(extent, Var), "the loops of a map run over its shape"
            joins = all(
                form.coefficient(before.index) == form.coefficient(loop.index) * extent
                for form in places
            )
        if joins:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    missing = set(range(last + 1)).difference(axes, (last,))
    return [*groups, [last], *([axis] for axis in sorted(missing))]


def _used_otherwise(kernel: Kernel, forms: Mapping[Var, Affine]) -> set[Var]:
    """Indices that more depends on than the places of loads and stores, as affine forms."""
    result: set[Var] = set()
    for statement in walk(kernel.body):
        for operand in operands_of(statement):
            form = forms.get(operand)
            if form is None:
                continue
            if isinstance(statement, Apply) and statement.result in forms:
                continue
            if isinstance(statement, (Load, Store)) and operand is statement.index:
                continue
            result.update(form.terms)
    return result
