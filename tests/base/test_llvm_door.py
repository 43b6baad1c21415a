"""LLVM where it can't be loaded, and where there are no threads to use it in."""

from __future__ import annotations

import _thread
import resource
import subprocess
import sys
import threading

import pytest
from tools import ROOT

from graphc.base import llvm

LIMITED = """
import resource, sys
import numpy as np
import graphc as gx
from graphc.base.errors import UnsupportedError

with gx.Graph():
    x = gx.placeholder((None,), name="x")
    y = gx.tanh(x)
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = in_use + int(sys.argv[1]) * (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        gx.Session(x.graph).run(y, {x: np.ones(3, np.float32)})
        print("it ran")
    except UnsupportedError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert gx.Session(x.graph).run(y, {x: np.zeros(3, np.float32)}).shape == (3,)
"""


def limited(megabytes: int) -> str:
    """What a process says whose address space may grow by so much before it loads LLVM."""
    command = [sys.executable, "-c", LIMITED, str(megabytes)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=300
    )
    return done.stdout


def test_fault_23_a_limit_of_memory_is_named_where_llvm_cannot_be_loaded() -> None:
    """And LLVM is loaded once there is room."""
    text = limited(40)
    assert text.count("LLVM, which compiles programs, can't be loaded") == 2, text
    assert "MB of address space" in text and "ulimit -v" in text and "find" not in text, text


def test_fault_23_a_missing_llvmlite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(llvm.UnsupportedError, match="pip install llvmlite"):
        llvm.binding()


def test_without_threads_llvm_is_used_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert llvm.within(threading.get_ident) == threading.get_ident()


def test_a_thread_that_dies_before_it_begins_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where there is no memory for its first call."""
    start = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", lambda job, given: start(int, ()))
    monkeypatch.setattr(llvm, "_LOOK_AGAIN", 0.05)
    assert llvm.within(threading.get_ident) == threading.get_ident()


def test_a_limit_is_only_told_where_there_is_one() -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    expected = None if limit == resource.RLIM_INFINITY else limit
    assert llvm._memory_limit() == expected
    assert "force-reinstall" in str(llvm._not_loaded(OSError("broken"))) or expected is not None
