"""Calls that share variables, threads, processes and memory."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from at_once import at_once, meanwhile
from call_harness import counter, increment, warm

import graphc as gx
from graphc.base.errors import FeedError
from graphc.base.tuning.running import RUNNING

# --- state ---------------------------------------------------------------------------------------


def test_variables_are_read_as_they_are(careful_calls: list[Any]) -> None:
    session, first, second, _ = counter()
    executable = session.compile([first + second, first * 2], [])
    warm(executable)
    careful_calls.clear()
    session.set({first: [1, 2, 3], second: [10, 10, 10]})
    total, double = executable()
    np.testing.assert_array_equal(total, [11, 12, 13])
    np.testing.assert_array_equal(double, [2, 4, 6])
    assert not careful_calls


def test_variables_are_written_natively(careful_calls: list[Any]) -> None:
    session, first, second, step = counter()
    executable = session.compile([step, first], [session.graph.find("x")])
    one = np.ones(3, np.float32)
    for trip in range(10):
        careful_calls.clear()
        nothing, before = executable(one)
        assert nothing is None
        np.testing.assert_array_equal(before, np.full(3, trip))
        assert trip < 2 or not careful_calls
    np.testing.assert_array_equal(session.get(second), [-10, -10, -10])
    with pytest.raises(FeedError):
        executable(np.ones(4, np.float32))
    np.testing.assert_array_equal(session.get(first), [10, 10, 10])


def test_readers_see_all_of_a_write_or_nothing() -> None:
    session, first, second, step = counter()
    x = session.graph.find("x")
    total = session.compile(first + second, [])
    write = session.compile(step, [x])
    one = np.ones(3, np.float32)
    warm(total)
    warm(write, one)

    def read() -> None:
        assert not np.any(total())

    with meanwhile(read, read):
        for _ in range(3000):
            write(one)
    np.testing.assert_array_equal(session.get(first), [3003] * 3)


# --- threads, forks, memory ----------------------------------------------------------------------


def test_threads() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        y = gx.tanh(x @ x) @ x
    executable = gx.Session(graph).compile(y, [x])

    random = np.random.default_rng(7)
    arrays = [random.normal(size=(64, 64)).astype("f4") for _ in range(4)]
    expected = [executable(array) for array in arrays]

    def work(number: int) -> None:
        for _ in range(200):
            assert executable(arrays[number]).tobytes() == expected[number].tobytes(), number

    at_once(*(partial(work, number) for number in range(4)))
    assert len(executable.compiled.program.idle_frames) <= 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork() -> None:
    large = RUNNING.block_bytes // 4
    session, x, y = increment((large,))
    executable = session.compile(y, [x])
    array = np.ones(large, np.float32)
    warm(executable, array)
    kept = executable(array)
    child = os.fork()
    if child == 0:
        good = bool(np.all(executable(array * 2) == 4)) and bool(np.all(kept == 2))
        kept[:] = 7
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert np.all(kept == 2) and np.all(executable(array) == 2)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_nothing_leaks() -> None:
    session, first, second, step = counter()
    x = session.graph.find("x")
    reads, writes = session.compile([first + x, second], [x]), session.compile(step, [x])
    one, wrong = np.ones(3, np.float32), np.ones(3, np.float64)

    def work(calls: int) -> None:
        for _ in range(calls):
            reads(one)
            writes(one)
            reads(wrong)
            session.run(first, {x: one})

    work(200)
    watched: list[Any] = [one, np.dtype(np.float32), first, second, None, np.ndarray]
    watched += [reads.compiled.program.recent[0], reads.compiled.program.idle_frames[0]]
    gc.collect()
    references, memory = [sys.getrefcount(item) for item in watched], resident_bytes()
    work(20_000)
    gc.collect()
    # interned objects are used by whoever runs beside, so their counts may move a little
    for item, before in zip(watched, references, strict=True):
        assert abs(sys.getrefcount(item) - before) < 100, repr(item)
    assert resident_bytes() - memory < 4 << 20


def test_sessions_are_collected() -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    warm(executable, np.zeros(16, np.float32))
    for _ in range(4):
        session.run(y, {x: np.zeros(16, np.float32)})
    gone = weakref.ref(session)
    del session, executable, x, y
    gc.collect()
    assert gone() is None
