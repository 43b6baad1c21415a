"""Recompute: values that are made again where they are read late, so that fewer bytes are alive.

    %h = fused(%x)                    %h = fused(%x)
    ... much is alive ...      ->     ... less is alive ...
    %g = fused(%h, %d)                %h2 = fused(%x); %g = fused(%h2, %d)

What ``gx.checkpoint`` marks is dropped after its last use outside of the derivative. It runs on
fused nodes: a copy has the body of the first node, so it is the same kernel and gives the same
bits, and nothing behind it merges equal nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from passes.infra.base import Estimate, PassContext, Recomputed, has_open_regions, on_regions
from passes.recompute.copies import rewritten
from passes.recompute.order import order_of
from passes.recompute.problem import Drops, Problem, Run, simulated
from passes.recompute.search import planned
from passes.recompute.steps import Renewed, problem_of

RECOMPUTE = "recompute"


def recompute(graph: Graph, context: PassContext) -> Graph:
    """The graph, and those of its control flow, with repetitions; the identical one without."""
    context.recomputed = None
    copies: dict[Value, list[Value]] = {}
    if context.aim is None and not any(node.provenance.checkpoints for node in graph.walk()):
        return graph

    def within(region: Graph, context: PassContext) -> Graph:
        return _level(region, context, (), copies)

    nodes = [
        node.with_regions([on_regions(within)(region, context) for region in node.regions])
        if has_open_regions(node)
        else node
        for node in graph.nodes
    ]
    return _level(graph.rebuilt(nodes), context, context.renewed, copies)


def _level(
    graph: Graph, context: PassContext, renewed: Renewed, copies: dict[Value, list[Value]]
) -> Graph:
    """One level of a graph, whose copied values are added to others."""
    assert context.estimate is not None, "the compiler gives it"
    problem = problem_of(graph, context.estimate, renewed)
    natural = simulated(problem, problem.kept()).peak
    order = order_of(problem)
    problem = problem.reordered(order)
    nodes = [graph.nodes[step] for step in order]
    run, drops = planned(problem, context.aim)
    run = _decided(nodes, problem, run, drops, context)
    result = graph
    if run.again or context.aim is not None:
        result, own = rewritten(graph, nodes, run.sequence, run.stages)
        copies |= own
    work, more = (_work(each, context.estimate) for each in (graph, result))
    context.recomputed = Recomputed(natural, run.peak, work, more - work, copies)
    return result


def _work(graph: Graph, estimate: Callable[[Node], Estimate]) -> int:
    """The estimated time of the kernels of one level of a graph."""
    return sum(estimate(node).work for node in graph.nodes if node.op is fused_op)


def _decided(
    nodes: Sequence[Node], problem: Problem, run: Run, drops: Drops, context: PassContext
) -> Run:
    """The run without repetitions of nodes for which that is refused."""
    refused = False
    for step in dict.fromkeys(run.sequence[place] for place in run.again):
        if not context.decide(RECOMPUTE, nodes[step]):
            refused = True
            for value in problem.makes[step]:
                drops[value] = []
    return simulated(problem, drops) if refused else run
