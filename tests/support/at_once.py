"""Threads for tests: functions that run at once, or while a block does.

An error in a thread is an error of the test, the first one of several. The interpreter switches
between threads a hundred times as often as usual, so that races show.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SECONDS = 300
"""Whoever waits longer for a thread waits for one that hangs."""


def at_once(*work: Callable[[], Any]) -> None:
    """Runs each function in a thread of its own and waits for all."""
    with _threads(work):
        pass


@contextmanager
def meanwhile(*work: Callable[[], Any]) -> Iterator[None]:
    """Runs each function again and again, in a thread of its own, until the block ends."""
    done = threading.Event()

    def repeated(function: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            while not done.is_set():
                function()

        return run

    with _threads([repeated(function) for function in work]):
        try:
            yield
        finally:
            done.set()


@contextmanager
def _threads(work: Any) -> Iterator[None]:
    errors: list[BaseException] = []

    def guarded(function: Callable[[], Any]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    # one that hangs must not keep the interpreter from ending
    threads = [threading.Thread(target=guarded, args=(item,), daemon=True) for item in work]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval / 100)
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        for thread in threads:
            thread.join(_SECONDS)
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
