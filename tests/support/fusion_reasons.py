"""Tests of fusion that name its decisions: what was joined, and why something was not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from check import check_pass

from graphc.base.options import Options
from graphc.ir.equal import difference
from graphc.ir.text.parser import parse_graph
from passes.fusion.fusion import Fuser, fusion
from passes.infra.base import PassContext


def check_fusion(
    before: str,
    after: str,
    *,
    made: Sequence[str] = (),
    refused: Sequence[str] = (),
    off: Collection[str] = (),
) -> None:
    """``check_pass`` for fusion, which also checks its decisions, in order, and its refusals.

    Fusion has nothing to do on its result, but makes the graph anew.
    """
    options = Options(off=frozenset(off))
    context = check_pass(fusion, before, after, options=options, idempotent=False)
    assert [decision.rule for decision in context.decisions] == [*made]
    reasons: list[str] = []
    context = PassContext(options)
    graph = parse_graph(before)
    fused = Fuser(graph, context, lambda node, group, why: reasons.append(why)).run()
    assert reasons == [*refused]
    assert difference(fusion(fused, context), fused) is None
