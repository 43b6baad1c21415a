"""Graphs of the cases about finding what made a result wrong."""

from __future__ import annotations

from typing import Any

import planted
import pytest

import graphc as gx
from cases.registry import CaseRun, case


@case("dbg-nan-origin", feeds_only=True)
def origin_of_nan(run: CaseRun) -> list[Any]:
    x = run.input("x")
    inner = gx.log(x - 1)
    y = inner * 0 + gx.sqrt(x)
    with gx.Session(options=gx.Options(check_numerics=True)) as session:
        with pytest.raises(gx.NumericsError, match=r"log\(-0\.5\) gave nan at \[1\]") as caught:
            session.run(y, run.feeds)
        assert caught.value.where is not None
        assert caught.value.where.excerpt().split("\n")[0].strip() == "inner = gx.log(x - 1)"
        with pytest.raises(gx.NumericsError, match=r"'x' was fed nan at \[0\]"):
            session.run(gx.exp(y), {x: [float("nan"), 2.0]})
        session.run(x + float("nan"), run.feeds)
        session.run(gx.where(x > 1, gx.log(x - 1), 0), run.feeds)
        # a product with a slope that is infinite is 0 where nothing is asked of the slope
        session.run(gx.gradients((gx.sqrt(x) * 0).sum(), [x]), {x: [0.0, 1.0]})
    return run.fetch([y])


@case("dbg-bisect", feeds_only=True)
def bisecting(run: CaseRun) -> list[Any]:
    x = run.input("x")
    y = gx.abs(x - x)
    with pytest.MonkeyPatch.context() as patch:
        planted.wrong_difference(patch)
        finding = gx.debug.bisect(y, run.feeds)
    assert finding.decision.rule == planted.WRONG_DIFFERENCE
    assert finding.decision.where is not None
    assert finding.decision.where.filename == __file__
    text = str(finding)
    assert "y = gx.abs(x - x)" in text
    assert [node.op.name for node in finding.case.graph.nodes] == ["subtract"]
    return run.fetch([x - x])
