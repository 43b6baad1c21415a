"""All tests run under a watch that compares compiled kernels with their interpretation.

They run without a cache on disk, but for those of the cache: whatever is tested is compiled.
"""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_watch import KernelWatch
from slow_parameters import mark_slow_parameters
from task_sizes import group_small_work, share_small_work

import graphc.runtime.jit
from graphc.session.executable import Executable


def pytest_configure() -> None:
    """A shell that starts a job in the background ignores SIGINT in it; tests send that signal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collecting makes a million objects that stay: looking for garbage among them takes a fifth of
    it, and half a second in each test that asks for garbage to be collected."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected is left alone from now on."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under check mode (``make check-mode``) what looks at compiling itself is left out."""
    mark_slow_parameters(items)
    if "check" not in os.environ.get("GRAPHC", "").split(","):
        return
    for item in items:
        marker = item.get_closest_marker("without_check_mode")
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))


@pytest.fixture(scope="session", autouse=True)
def no_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that tests start have no cache either; a test that sets its own GRAPHC gets one
    that is empty."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    with pytest.MonkeyPatch.context() as patch:
        # zig keeps its own: it takes minutes to make the C libraries of other systems
        if not os.environ.get("ZIG_GLOBAL_CACHE_DIR"):
            patch.setenv("ZIG_GLOBAL_CACHE_DIR", os.path.join(caches, "zig"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        if not os.environ.get("GRAPHC"):
            patch.setenv("GRAPHC", "cache=off")
        yield


@pytest.fixture(scope="session", autouse=True)
def one_object_of_a_text() -> Iterator[None]:
    """A process makes machine code of the same LLVM text for the same target once: programs of
    several tests have kernels in common."""
    made, objects = graphc.runtime.jit._emitted, {}

    def emitted(text: str, target: Any, glue: bool) -> bytes:
        key = (hashlib.sha256(text.encode()).digest(), target, glue)
        if key not in objects:
            objects[key] = made(text, target, glue)
        return objects[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphc.runtime.jit, "_emitted", emitted)
        yield


@pytest.fixture(scope="session", autouse=True)
def bytecode_of_children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where no bytecode may be written beside the sources, processes that tests start share a place
    of their own for it: compiling the product's modules takes each of them a second."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield


@pytest.fixture(scope="session", autouse=True)
def kernel_watch() -> Iterator[KernelWatch]:
    """The watch of this process; see ``kernel_watch`` for what it does."""
    watch = KernelWatch()
    with pytest.MonkeyPatch.context() as patch:
        watch.install(patch)
        yield watch
    assert not watch.failures, "\n".join(watch.failures)


@pytest.fixture
def careful_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of the calls of executables that went the careful way."""
    found: list[tuple[Any, ...]] = []
    inner = Executable._careful

    def recorded(self: Executable, *arguments: Any, **named: Any) -> Any:
        found.append(arguments)
        return inner(self, *arguments, **named)

    monkeypatch.setattr(Executable, "_careful", recorded)
    return found


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels that can be split are, in as many tasks as possible."""
    share_small_work(monkeypatch)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can run side by side does, however little it is."""
    group_small_work(monkeypatch)
