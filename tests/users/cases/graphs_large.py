"""Graphs of the cases about size: long chains, thousands of pieces, large constants."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np

import graphc as gx
from cases.measure import MEGABYTE, memory_growth
from cases.registry import CaseRun, case
from graphc.ir.equal import structural_hash


@case("big-deep-chain")
def twenty_thousand_adds(run: CaseRun) -> list[Any]:
    assert sys.getrecursionlimit() <= 1000
    x = run.input("x")
    y = x
    for _ in range(20_000):
        y = y + 1.0
    gradient = gx.gradients(gx.sum(y), x)
    if not run.constants:
        with gx.Session() as session:
            executable = session.compile([y, gradient], [x])
        assert str(executable.source) and str(executable.graph)
        assert len(structural_hash(executable.source)) < 200
        loaded_y, loaded_x = run.save_and_load([y, x])
        twin_y, twin_x = pickle.loads(pickle.dumps((y, x)))
        for copied_y, copied_x in ((loaded_y, loaded_x), (twin_y, twin_x)):
            with gx.Session(copied_y.graph) as session:
                copied = session.run(copied_y, {copied_x: run.inputs["x"]})
            run.agree([copied], run.expected[:1])
    return run.fetch([y, gradient])


@case("big-concat")
def two_thousand_pieces(run: CaseRun) -> list[Any]:
    x = run.input("x")
    joined = gx.concatenate([x + k for k in range(2000)])
    outputs = run.fetch([joined, gx.sum(joined), gx.concatenate([joined, joined[:3]])])
    pieces = gx.split(joined, 2000)
    assert len(pieces) == 2000 and pieces[0].shape == (3,)
    swapped = gx.concatenate([pieces[k ^ 1] for k in range(2000)])
    expected = np.reshape(run.expected[0], (1000, 2, 3))[:, ::-1].reshape(-1)
    run.agree(run.fetch([swapped, pieces[1999]]), [expected, run.expected[0][-3:]])
    return outputs


@case("big-constant", feeds_only=True)
def large_constant(run: CaseRun) -> list[Any]:
    x = run.input("x")
    with gx.Session() as session:
        # Loads the code generator, whose own memory is not the point.
        session.run(x @ gx.constant(np.ones((2000, 3))), run.feeds)
    array = run.inputs["W"]
    with memory_growth() as growth:
        y = x @ run.input("W")
        with gx.Session() as session:
            executable = session.compile(y, [x])
            texts = [str(executable.source), str(executable.graph), executable.llvm_ir()]
            output = executable(run.inputs["x"])
            texts.append(structural_hash(executable.source))
    assert all(len(text) < 200_000 for text in texts)
    assert growth.peak < 2 * array.nbytes + 16 * MEGABYTE
    return [output]
