"""Derivatives that users say themselves: a rule becomes a branch that is always taken.

A rule for tangents gives gradients too, since it is linear in them: its own gradient by the
tangents. What a rule reads of the results is the results of the node, so that second derivatives
follow the rule and not what computes the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.base.errors import GradientError
from graphc.ir.graph import Graph, Node
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from passes.autodiff.branches import Vjp
from passes.autodiff.region_builder import Region, at_places, branched, or_zeros, read_inputs


def pulled(
    node: Node, cotangents: Sequence[Value | None], flows: Sequence[bool], vjp: Vjp
) -> list[Value | None]:
    """One cotangent per operand that the rules are about."""
    operands = _operands(node)
    wanted = [place for place in operands if flows[place]]
    rule = _rule(node, "gradient")
    if rule is not None:
        made = _Applied(
            rule.graph,
            rule.captures | dict(zip(rule.seeds, or_zeros(cotangents, node.outputs), strict=True)),
            [rule.graph.outputs[operands.index(place)] for place in wanted],
        )
    else:
        made = _transposed(node, cotangents, wanted, vjp)
    return at_places(len(node.inputs), wanted, made.taken(node, [node.inputs[p] for p in wanted]))


def pushed(node: Node, tangents: Sequence[Value | None]) -> list[Value | None]:
    """One tangent per result."""
    rule = _rule(node, "tangent")
    if rule is None:
        raise GradientError(
            "a rule of gx.custom_gradient is for gx.gradients alone",
            where=node.provenance.where,
            hint="gx.custom_jvp gives derivatives in both modes",
        )
    places = _operands(node)
    own = or_zeros([tangents[p] for p in places], [node.inputs[p] for p in places])
    given = rule.captures | dict(zip(rule.seeds, own, strict=True))
    return list(_Applied(rule.graph, given, rule.graph.outputs).taken(node, node.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """A rule of a node.

    Attributes:
        graph: its region.
        seeds: the region's inputs that cotangents or tangents stand for.
        captures: what stands for its other inputs.
    """

    graph: Graph
    seeds: tuple[Value, ...]
    captures: dict[Value, Value]


@dataclass(frozen=True, slots=True, eq=False)
class _Applied:
    """What is to be computed by a rule.

    Attributes:
        graph: the region of the rule, or what it has grown to.
        given: what stands for its inputs, those that are needed.
        results: values of it; None for zeros.
    """

    graph: Graph
    given: Mapping[Value, Value]
    results: Sequence[Value | None]

    def taken(self, node: Node, like: Sequence[Value]) -> Sequence[Value]:
        """The results, of the types of their likes, under the guards of the rule."""
        inner, operands = list(self.given), list(self.given.values())

        def written(name: str, is_taken: bool) -> Graph:
            made = Region(name, operands)
            here = dict(zip(inner, made.inputs, strict=True))

            def outputs() -> list[Value]:
                derived = made.derived(self.graph, here, self.results) if is_taken else ()
                return or_zeros(derived or [None] * len(like), like)

            return made.written(node, outputs)

        always = surface_function("constant")(True)
        regions = [written("then", True), written("else", False)]
        return branched(always, operands, regions)


def _rule(node: Node, name: str) -> _Rule | None:
    """The rule for "gradient" or "tangent", if there is one.

    A result that it captures is that of the node, unless that is an operand too.
    """
    graph = dict(zip(node.attrs["rules"], node.regions, strict=True)).get(name)
    if graph is None:
        return None
    places = _operands(node)
    count = len(node.outputs if name == "gradient" else places)
    operands = {node.inputs[place] for place in places}
    own = {
        value: output
        for value, output in zip(node.inputs, node.outputs, strict=False)
        if value not in operands
    }
    captured = [own.get(value, value) for value in node.inputs[places.stop :]]
    return _Rule(
        graph, graph.inputs[:count], dict(zip(graph.inputs[count:], captured, strict=True))
    )


def _transposed(
    node: Node, cotangents: Sequence[Value | None], wanted: Sequence[int], vjp: Vjp
) -> _Applied:
    """The gradient by the tangents of the rule for these.

    Raises:
        GradientError: for a rule that is not linear, whose gradient reads the tangents.
    """
    rule = _rule(node, "tangent")
    assert rule is not None, "there is one rule at least"
    given = [(place, value) for place, value in enumerate(cotangents) if value is not None]
    seeds = [Value(value.type) for _, value in given]
    ys = [rule.graph.outputs[place] for place, _ in given]
    xs = [rule.seeds[place - _operands(node).start] for place in wanted]
    graph = rule.graph.with_parts(inputs=(*rule.graph.inputs, *seeds))
    grown, found = vjp(graph, ys, xs, seeds)
    if not read_inputs(grown, [x for x in found if x is not None]).isdisjoint(rule.seeds):
        raise GradientError(
            "the rule of gx.custom_jvp is not linear in the tangents",
            where=node.provenance.where,
            hint="multiply tangents by values and add them; a function of them has no transpose",
        )
    return _Applied(
        grown, rule.captures | dict(zip(seeds, [value for _, value in given], strict=True)), found
    )


def _operands(node: Node) -> range:
    """The places of the operands that the rules are about."""
    first = node.attrs["results"]
    return range(first, first + node.attrs["operands"])
