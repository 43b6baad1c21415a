"""Sessions that are copied, forked, and used by several threads."""

from __future__ import annotations

import copy
import os
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from session_harness import counter, small

import graphc as gx

pytestmark = pytest.mark.check_mode


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_have_the_variables_and_a_life_of_their_own(duplicate: Any) -> None:
    session, v, step = counter()
    session.run(step)
    other, its_step = duplicate((session, step))
    np.testing.assert_array_equal(other.get("v"), [1, 1, 1])
    other.run(its_step)
    np.testing.assert_array_equal(other.get("v"), [2, 2, 2])
    np.testing.assert_array_equal(session.get(v), [1, 1, 1])


def test_a_copy_keeps_options_and_target() -> None:
    from graphc.base.target import host

    graph, *_ = small()
    session = gx.Session(graph, target=host().without_fma())
    other = pickle.loads(pickle.dumps(session))
    assert other.target == session.target


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_runs_after_a_fork() -> None:
    session, v, step = counter()
    with session.graph:
        late = gx.exp(v).sum()
    session.run(step)
    child = os.fork()
    if child == 0:
        right = session.run(step)[0] == 2 and session.run(late) > 3
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(session.get(v), [1, 1, 1])


def test_eight_threads_read_and_write() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        parts = [gx.variable(np.zeros(500, np.float32)) for _ in range(4)]
        write = gx.group(*[part.assign_add(1.0) for part in parts])
        spread = gx.stack([part[0] - parts[-1][-1] for part in parts])
        double = x * 2.0 + parts[0][0] * 0.0
    session = gx.Session(graph)

    def writer() -> None:
        for _ in range(100):
            session.run(write)

    def reader() -> None:
        for size in range(100):
            assert not session.run(spread).any(), "all of a write is seen or nothing"
            got = session.run(double, {x: np.full(size, size)})
            np.testing.assert_array_equal(got, np.full(size, 2 * size))

    at_once(*[writer, reader] * 4)
    for part in parts:
        np.testing.assert_array_equal(session.get(part), np.full(500, 400))


def test_threads_build_and_run_one_graph() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
    session = gx.Session(graph)

    def work(number: int) -> None:
        value = x
        for step in range(15):
            value = value * 1.0 + float(number)
            got = session.run(value, {x: [0, 0, 0]})
            np.testing.assert_array_equal(got, [number * (step + 1)] * 3)

    at_once(*(partial(work, number) for number in range(4)))
