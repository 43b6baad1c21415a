"""Derivatives of ``cond``: another ``cond`` by the same predicate, of the branches' derivatives.

A branch's derivative computes again what it reads of the branch, so that nothing has to be kept of
the one that was not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from passes.autodiff.region_builder import Region, at_places, branched, or_zeros

Derived = tuple[Graph, list[Value | None]]
Vjp = Callable[[Graph, Sequence[Value], Sequence[Value], Sequence[Value | None]], Derived]
Jvp = Callable[[Graph, Sequence[Value], Sequence[Value], Sequence[Value]], Derived]


def pulled(
    node: Node, cotangents: Sequence[Value | None], flows: Sequence[bool], vjp: Vjp
) -> list[Value | None]:
    """One cotangent per operand of a ``cond`` that derivatives flow to."""
    given = [(place, c) for place, c in enumerate(cotangents) if c is not None]
    wanted = [place for place, is_active in enumerate(flows) if is_active]

    def branch(region: Graph, seeds: Sequence[Value]) -> Derived:
        ys = [region.outputs[place] for place, _ in given]
        xs = [region.inputs[place - 1] for place in wanted]
        return vjp(region.with_parts(inputs=(*region.inputs, *seeds)), ys, xs, seeds)

    results = _branches(node, [c for _, c in given], [node.inputs[p] for p in wanted], branch)
    return at_places(len(node.inputs), wanted, results)


def pushed(node: Node, tangents: Sequence[Value | None], jvp: Jvp) -> list[Value | None]:
    """One tangent per result of a ``cond``, None for those that are not differentiable."""
    given = [(place, t) for place, t in enumerate(tangents) if t is not None]
    wanted = [p for p, value in enumerate(node.outputs) if value.dtype.is_differentiable]

    def branch(region: Graph, directions: Sequence[Value]) -> Derived:
        ys = [region.outputs[place] for place in wanted]
        xs = [region.inputs[place - 1] for place, _ in given]
        return jvp(region.with_parts(inputs=(*region.inputs, *directions)), ys, xs, directions)

    results = _branches(node, [t for _, t in given], [node.outputs[p] for p in wanted], branch)
    return at_places(len(node.outputs), wanted, results)


def _branches(
    node: Node,
    beside: Sequence[Value],
    like: Sequence[Value],
    derived: Callable[[Graph, Sequence[Value]], Derived],
) -> Sequence[Value]:
    """The ``cond`` of what is derived from each branch.

    Args:
        node: a ``cond``.
        beside: what its branches get beside their own inputs.
        like: values of the types of its results, of which a branch gives zeros if it has none.
        derived: the branch over both, grown, and the results.
    """
    operands = [*node.inputs[1:], *beside]

    def written(region: Graph) -> Graph:
        seeds = [Value(value.type, value.name) for value in beside]
        grown, results = derived(region, seeds)
        made = Region(region.name, operands)
        given = dict(zip(grown.inputs, made.inputs, strict=True))
        return made.written(node, lambda: or_zeros(made.derived(grown, given, results), like))

    if not like:
        return ()
    regions = list(map(written, node.regions))
    return branched(node.inputs[0], operands, regions)
