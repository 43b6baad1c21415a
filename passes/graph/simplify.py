"""Simplification: algebraic identities that hold to the bit.

    %1 = negative(%0)
    %2 = negative(%1)           ->      %3 = abs(%0)
    %3 = abs(%2)

The identities stand in ``passes.rules``.
"""

from __future__ import annotations

from graphc.ir.graph import Graph
from passes.infra.base import PassContext
from passes.rewriting.rewrite import rewrite
from passes.rules import ALGEBRA


def simplify(graph: Graph, context: PassContext) -> Graph:
    """The graph after all rules of algebra have been applied as often as they match."""
    return rewrite(graph, ALGEBRA, context)
