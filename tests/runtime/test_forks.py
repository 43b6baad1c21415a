"""Fault 11: a process forks while programs compile and run, and its children work as it does.

What a thread was about to do when the process forked is never finished in the child, so the locks
of such threads are either waited for or freed there (``graphc.base.forks``).
"""

from __future__ import annotations

import _frozen_importlib  # type: ignore[import-not-found]
import importlib
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tools import ROOT, in_child, script_output

import graphc
import passes
from graphc.base import forks
from graphc.base.forks import MACHINE_CODE, VARIABLES, held_lock, lock, tell
from graphc.base.waiting import Flag

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def stressed(count: int, seed: int) -> None:
    told = script_output("fork_stress.py", count, seed)
    assert told.startswith("0 failed"), told


def test_fault_11_children_of_random_moments_compile_and_answer() -> None:
    stressed(12, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_fault_11_200_children_of_random_moments_compile_and_answer(seed: int) -> None:
    stressed(200, seed)


def held_elsewhere(taken: forks.Lock) -> tuple[threading.Thread, Flag]:
    """A thread that has a lock until a flag is set."""
    has_it, may_go = Flag(), Flag()

    def hold() -> None:
        taken.acquire()
        has_it.set()
        may_go.wait(60)
        taken.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_it.wait(60)
    return thread, may_go


def test_fault_11_a_child_frees_the_locks_of_threads_that_it_lacks() -> None:
    free = lock()
    thread, may_go = held_elsewhere(free)
    assert in_child(lambda: free.acquire() and free.release()) == 0
    assert not free.acquire(blocking=False), "the parent's thread still has it"
    may_go.set()
    thread.join()


def test_fault_11_who_forks_keeps_its_locks_in_parent_and_child() -> None:
    for own in (lock(), held_lock(VARIABLES), held_lock(MACHINE_CODE)):
        with own, own:
            assert in_child(lambda own=own: (own.release(), own.release())) == 0  # type: ignore
        with pytest.raises(RuntimeError):
            own.release()


@pytest.mark.parametrize("kind", [VARIABLES, MACHINE_CODE])
def test_fault_11_a_fork_waits_for_what_must_be_finished(kind: int) -> None:
    held = held_lock(kind)
    thread, may_go = held_elsewhere(held)
    status: list[int] = []
    forking = threading.Thread(
        target=lambda: status.append(in_child(lambda: held.acquire() and held.release()))
    )
    forking.start()
    time.sleep(0.05)
    assert not status, "it waits"
    may_go.set()
    forking.join()
    thread.join()
    assert status == [0] and held.acquire(blocking=False)
    held.release()


def test_fault_11_a_fork_waits_for_the_lock_of_a_module() -> None:
    """A thread that waited for another one's import has the module's lock when the module is whole,
    as one that begins has it before the interpreter knows of the module."""
    name = "graphc.nowhere"
    thread, may_go = held_elsewhere(_frozen_importlib._get_module_lock(name))

    def import_it() -> None:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)

    threading.Timer(0.1, may_go.set).start()
    assert in_child(import_it) == 0
    assert may_go.is_set, "it waited"
    thread.join()


def test_fault_11_who_must_know_of_a_fork_is_told_in_the_child_alone() -> None:
    class Told:
        count = 0

        def forked(self) -> None:
            self.count += 1

    told = Told()
    tell(told)

    def once() -> None:
        assert told.count == 1

    assert in_child(once) == 0 and told.count == 0


def test_fault_11_a_flag_can_be_used_where_the_thread_that_had_it_is_gone() -> None:
    flag = Flag()
    waiting = threading.Thread(target=flag.wait)
    waiting.start()
    time.sleep(0.02)

    def use() -> None:
        assert not flag.wait(0.01)
        flag.set()
        assert flag.wait()
        flag.clear()
        assert not flag.wait(0)

    assert in_child(use) == 0
    flag.set()
    waiting.join()


def test_fault_11_all_locks_are_known_to_forks() -> None:
    """What could be locked in a child, or run code of Python where an object dies."""
    pattern = re.compile(
        r"threading\.(R?Lock|Condition|Event|Semaphore|Barrier)|cached_property|allocate_lock"
        r"|Weak(Value|Key)Dictionary|WeakSet|weakref\.finalize|def __del__|register_at_fork"
    )
    known = {
        "graphc/base/forks.py", "graphc/base/waiting.py",
    }  # fmt: skip
    found = set()
    for package in (graphc, passes):
        root = Path(next(iter(package.__path__)))
        for path in root.rglob("*.py"):
            if pattern.search(path.read_text(encoding="utf-8")):
                found.add(str(path.relative_to(root.parent)))
    assert found <= known, found - known


# --- threads nobody started ----------------------------------------------------------------------

WARNED = """
import os
import numpy as np
import graphc as gx

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

fork()
with gx.Graph():
    x = gx.placeholder((None, 4), name="x")
    y = gx.tanh(x * 2.0)
session = gx.Session(x.graph, threads=2)
fork()
for number in range(20):
    with gx.Graph():
        x = gx.placeholder((None, 4), name="x")
        y = gx.tanh(x * float(number))
    executable = gx.Session(x.graph, threads=2).compile(y, [x])
    fork()
    executable(np.ones((2, 4), np.float32))
    fork()
"""


def test_fault_34_forks_before_the_first_use_of_the_pool_are_silent() -> None:
    """From Python 3.12 on a fork of a process with threads warns; compiling leaves none behind."""
    command = [sys.executable, "-W", "always", "-c", WARNED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "multi-threaded" not in done.stderr, done.stderr
