"""Moves, reductions and products that undo, repeat or contain each other: the rules about shapes.

    %1 = transpose(%0) {axes = (1, 0)}      ->      %2 = contract(%0, %b) {transpose_a = True, …}
    %2 = contract(%1, %b) {…}

The identities stand in ``passes.rules`` (shape, reduce, products). They run after ``stabilize``,
which follows what was moved forward to where its gradient moves it back.
"""

from __future__ import annotations

from graphc.ir.graph import Graph
from passes.infra.base import PassContext
from passes.rewriting.rewrite import rewrite
from passes.rules import SHAPES


def shapes(graph: Graph, context: PassContext) -> Graph:
    """The graph after all rules about shapes have been applied as often as they match."""
    return rewrite(graph, SHAPES, context)
