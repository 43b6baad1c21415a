"""Relaxation: what the flags ``approx`` and ``contract`` of fast math allow, on the finished graph.

    %2 = tanh(%0)                       ->      %2 = tanh_approx(%0)
    %3 = multiply(%2, %1)                       %4 = fma(%2, %1, %0)
    %4 = add(%3, %0)

The choice is one of the graph, so that interpreters, kernels and files all show it. Multiplications
are fused where the target has the instruction; elsewhere one fused would be a call.
"""

from __future__ import annotations

from graphc.ir.graph import Graph
from passes.infra.base import PassContext
from passes.rewriting.rewrite import rewrite
from passes.rules import RELAXED, RELAXED_WITHOUT_FMA


def relax(graph: Graph, context: PassContext) -> Graph:
    """The graph after all rules of ``passes.rules.relaxed`` that the target can make use of."""
    fuses = context.target is not None and context.target.has_fma
    return rewrite(graph, RELAXED if fuses else RELAXED_WITHOUT_FMA, context)
