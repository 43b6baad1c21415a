"""Graphs of the cases about branches, loops and the folding of what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from cases.measure import MEGABYTE, memory_growth
from cases.registry import CaseRun, case


@case("cse-branches")
def same_expression_in_both_branches(run: CaseRun) -> list[Any]:
    x = run.input("x")
    choice = gx.placeholder((), "bool", name="choice")
    index = gx.placeholder((), "int64", name="index")
    before = x + 1
    branch = gx.cond(choice, lambda: (x + 1) * 2, lambda: (x + 1) * 3)
    # Both branches hold the same op, and it fails for an index that only one of them may use.
    guarded = gx.cond(
        choice,
        lambda: gx.take(x, index, axis=0) * 2,
        lambda: gx.where(index < 2, gx.take(x, gx.clip(index, 0, 1), axis=0), -1.0),
    )
    fetches = [branch, before]
    with gx.Session() as session:
        true, first = session.run(fetches, run.feeds | {choice: True})
        false, second = session.run(fetches, run.feeds | {choice: False})
        safe = session.run(guarded, run.feeds | {choice: False, index: 7})
        with pytest.raises(gx.IndexRangeError):
            session.run(guarded, run.feeds | {choice: True, index: 7})
        right = session.run(guarded, run.feeds | {choice: True, index: 1})
    run.agree([second, safe, right], [run.expected[2], np.array(-1.0), np.array(4.0)])
    return [true, false, first]


@case("fold-raises")
def failing_constant_in_a_branch(run: CaseRun) -> list[Any]:
    x = run.input("x")
    choice = gx.placeholder((), "bool", name="choice")
    one, zero = gx.constant(np.array(1)), gx.constant(np.array(0))
    table, index = gx.constant(np.array([1, 2])), gx.constant(np.array(7))
    quotient = gx.cond(choice, lambda: one // zero, lambda: x)
    gathered = gx.cond(choice, lambda: gx.take(table, index, axis=0), lambda: x)
    direct = gx.take(table, index, axis=0)
    with gx.Session() as session:
        output, other = session.run([quotient, gathered], run.feeds | {choice: False})
        # Division is total; only the gather can fail, and only when it runs.
        run.agree([session.run(one // zero, {})], [np.array(0)])
        executable = session.compile(direct, [])
        for attempt in (
            executable,
            lambda: session.run(direct, {}),
            lambda: session.run(gathered, run.feeds | {choice: True}),
        ):
            with pytest.raises(gx.IndexRangeError) as raised:
                attempt()
            message = str(raised.value)
            assert "take" in message and "7" in message and Path(__file__).name in message
        run.agree([session.run(gathered, run.feeds | {choice: False})], run.expected)
    run.agree([other], run.expected)
    return [output]


@case("cf-zero-trip", feeds_only=True)
def loop_without_a_trip(run: CaseRun) -> list[Any]:
    n = gx.placeholder((), "int64", name="n")
    index = gx.placeholder((), "int64", name="index")
    table = gx.constant(np.array([3, 4]))
    start = (gx.constant(np.array(0)), gx.constant(np.array(0)))
    steps, total = gx.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + 10 // n),
        start,
    )
    # An op that can fail and does not change within the loop must not run ahead of it.
    _, picked = gx.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, s + gx.take(table, index, axis=0)),
        start,
    )
    with gx.Session() as session:
        none, none_steps = session.run([total, steps], {n: run.inputs["n0"]})
        five, five_steps = session.run([total, steps], {n: run.inputs["n5"]})
        untouched = session.run(picked, {n: 0, index: 7})
        with pytest.raises(gx.IndexRangeError):
            session.run(picked, {n: 5, index: 7})
        sum_of_five = session.run(picked, {n: 5, index: 1})
    run.agree(
        [none_steps, five_steps, untouched, sum_of_five],
        [np.array(0), np.array(5), np.array(0), np.array(20)],
    )
    for result in (none, five, none_steps, five_steps):
        assert result.shape == () and result.dtype == np.int64
    return [none, five]


@case("cf-long-loop")
def million_iterations(run: CaseRun) -> list[Any]:
    s = run.input("s")
    _, last = gx.while_loop(
        lambda i, s: i < 1_000_000,
        lambda i, s: (i + 1, s * 0.999999 + i),
        (gx.constant(np.array(0)), s),
    )
    with gx.Session() as session:
        executable = session.compile(last, list(run.feeds))
        with memory_growth() as growth:
            output = executable(*run.feeds.values())
    assert growth.peak < 10 * MEGABYTE
    return [output]


@case("fold-huge", feeds_only=True)
def huge_constants(run: CaseRun) -> list[Any]:
    x = run.input("x")
    ones = gx.ones((20_000, 20_000), dtype="float64")
    zeros = gx.zeros((20_000, 20_000), dtype="float64")
    fetches = [x + ones[0, 0], gx.sum(zeros, axis=0)[:3]]
    large = gx.placeholder((100, 1000, 1000), "float64", name="large")
    path = run.directory / "ones.gir"
    with memory_growth() as growth, gx.Session() as session:
        outputs = session.run(fetches, run.feeds)
        session.compile(large + gx.ones_like(large), [large])
        gx.save(path, [large + gx.ones_like(large)])
    assert growth.peak < 200 * MEGABYTE
    assert sum(file.stat().st_size for file in run.directory.iterdir()) < 10_000
    return list(outputs)
