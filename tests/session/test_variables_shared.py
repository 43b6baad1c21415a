"""Variables that are read and written by whatever may run between two operations of a run.

Handlers of signals, destructors and interrupts come where the interpreter looks for them: as a
function of Python begins, and as one of C has returned. A profiling function comes there too.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from tools import FORKING

import graphc as gx
from graphc.base.errors import GraphError
from graphc.session import variable_store
from graphc.session.executable import Executable

LARGE, SMALL = 1 << 15, 4
"""Elements of variables that are written where they lie, and that take turns."""


class Pair:
    """Two variables that are always equal, and what reads and writes them."""

    def __init__(self, size: int) -> None:
        with gx.Graph() as graph:
            x = gx.placeholder((None,), name="x")
            self.both = tuple(gx.variable(np.zeros(size, np.float32)) for _ in range(2))
            first, second = self.both
            step = gx.group(*(one.assign(one + x[0]) for one in self.both))
            spread = gx.max(gx.abs(first - second))
        self.session = gx.Session(graph, threads=1)
        self.step: Executable = self.session.compile(step, [x])
        self._spread = self.session.compile(spread, [])
        self.one = np.ones(1, np.float32)
        for _ in range(4):
            self.step(self.one)
            self._spread()
        assert (self.step.compiled.plan.commit is None) == (size == SMALL)

    def value(self) -> float:
        """What all elements are."""
        assert self._spread() == 0
        first, second = self.session.get([*self.both])
        assert (first == second).all() and (first == first[0]).all()
        return float(first[0])


@pytest.fixture(params=[LARGE, SMALL], ids=["in place", "in turns"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


@contextmanager
def between_operations(work: Callable[[], None]) -> Iterator[None]:
    """Does something wherever a handler of signals may run while variables are handled."""
    busy = False

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal busy
        if busy or event not in ("call", "c_return") or frame.f_code.co_filename != own:
            return
        busy = True
        try:
            work()
        finally:
            busy = False

    own = variable_store.__file__
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


WAYS: dict[str, Callable[[Pair], Any]] = {
    "native": lambda pair: pair.step(pair.one),
    "careful": lambda pair: pair.step(x=pair.one),
    "set": lambda pair: pair.session.set(
        dict(zip(pair.both, [old + 1 for old in pair.session.get([*pair.both])], strict=True))
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_handlers_read_wherever_a_run_is(pair: Pair, way: str) -> None:
    before, seen = pair.value(), list[float]()
    with between_operations(lambda: seen.append(pair.value())):
        WAYS[way](pair)
    assert len(seen) > 3 and seen == sorted(seen) and {*seen} <= {before, before + 1}
    assert pair.value() == before + 1


def test_handlers_read_within_readers(pair: Pair) -> None:
    seen: list[float] = []
    with between_operations(lambda: seen.append(pair.value())):
        pair.value()
    assert len(seen) > 3 and len({*seen}) == 1


@pytest.mark.parametrize("inner", WAYS)
@pytest.mark.parametrize("outer", ["native", "careful"])
def test_what_handlers_write_is_refused_or_kept(pair: Pair, outer: str, inner: str) -> None:
    expected, refused = pair.value() + 1, 0

    def write() -> None:
        nonlocal expected, refused
        try:
            WAYS[inner](pair)
        except GraphError as error:
            assert "a run of the same thread" in str(error)
            refused += 1
        else:
            expected += 1

    with between_operations(write):
        WAYS[outer](pair)
    assert refused > 3 and pair.value() == expected


@pytest.mark.parametrize("way", WAYS)
def test_interrupts_leave_nothing_lent(pair: Pair, way: str) -> None:
    done = False
    for position in range(1000):
        passed = 0

        def interrupt(last: int = position) -> None:
            nonlocal passed
            passed += 1
            if passed > last:
                raise KeyboardInterrupt

        before = pair.value()
        try:
            with between_operations(interrupt):
                WAYS[way](pair)
            done = True
        except KeyboardInterrupt:
            pass
        assert pair.value() in (before, before + 1)
        at_once(pair.value)
        if done:
            break
    assert done and position > 3


def test_feeds_may_wait_for_other_threads_or_run_steps(pair: Pair) -> None:
    """Nothing is lent or locked while arguments are converted."""
    before = pair.value()

    class Late:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            at_once(pair.value, lambda: pair.step(pair.one))
            pair.step(pair.one)
            return pair.one

    pair.step(Late())
    assert pair.value() == before + 3


def test_memory_behind_a_pickle_stays_the_users() -> None:
    """Arrays may lie in buffers that were given to ``pickle.loads``."""
    for size in (LARGE, SMALL):
        pair = Pair(size)
        found: list[pickle.PickleBuffer] = []
        fetches = pair.session.graph.find("x"), pair.both
        whole = pickle.dumps((pair.session, fetches), protocol=5, buffer_callback=found.append)
        given = [bytearray(buffer.raw()) for buffer in found]
        kept = [bytes(buffer) for buffer in given]
        other, (x, (first, second)) = pickle.loads(whole, buffers=given)
        with other.graph:
            step = gx.group(first.assign(first + x), second.assign(second + x))
        run = other.compile(step, [x])
        for _ in range(4):
            run(pair.one)
        assert given and [bytes(buffer) for buffer in given] == kept
        assert (other.get(first) == 8).all() and (other.get(second) == 8).all()


FORKS = """
import os, sys, threading
import numpy as np
import graphc as gx

sys.setswitchinterval(1e-5)
with gx.Graph() as graph:
    a = gx.variable(np.zeros(3))
    step = a.assign(a + 1.0)
sessions = [gx.Session(graph) for _ in range(60)]
sessions[0].run(step)
codes = []
forking = [True]
def fork():
    for _ in range(8):
        child = os.fork()
        if not child:
            os._exit(0 if sessions[0].run(step)[0] == 2 else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
def make():
    while forking:
        sessions.append(gx.Session(graph))
        del sessions[40:50]
threads = [threading.Thread(target=work) for work in (fork, fork, make)]
for thread in threads:
    thread.start()
for thread in threads[:2]:
    thread.join()
forking.clear()
threads[2].join()
print(len(codes), *set(codes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_at_once_while_sessions_are_made() -> None:
    done = subprocess.run(
        [*FORKING, "-c", FORKS], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("16 0\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_readers_of_its_parent() -> None:
    pair = Pair(LARGE)
    reader, ended = threading.Event(), threading.Event()

    def run() -> Any:
        thread = threading.Thread(target=lambda: (reader.set(), pair.value(), ended.set()))
        thread.start()
        reader.wait()
        while not pair.session.holdings._waiting:
            ended.wait(0.001)
        child = os.fork()
        if not child:
            os._exit(len(pair.session.holdings._waiting))
        assert os.waitpid(child, 0)[1] == 0
        raise KeyboardInterrupt

    uses, plan = pair.step.extraction, pair.step.compiled.plan
    with pytest.raises(KeyboardInterrupt):
        pair.session.holdings.run_and_commit(run, (), uses, plan)
    assert ended.wait(60)
