"""Waiting for what another thread does, with nothing that a fork or an interrupt leaves locked."""

from __future__ import annotations

import _thread
from contextlib import suppress


class Flag:
    """Is set once it is time, and waited for until then.

    It has no lock: a child that lost the thread which was setting it or waiting for it can use it.
    """

    __slots__ = ("_waiting", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: set[_thread.LockType] = set()

    def set(self) -> None:
        """Lets all go on that wait."""
        self.is_set = True
        for waiting in self._waiting.copy():
            with suppress(RuntimeError):  # somebody else has just done so
                waiting.release()

    def clear(self) -> None:
        """Lets them wait again."""
        self.is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is set within ``timeout`` seconds; None waits for it."""
        if self.is_set:
            return True
        waiting = _thread.allocate_lock()
        waiting.acquire()
        try:
            self._waiting.add(waiting)
            # who set it before that did not see who waits
            if not self.is_set:
                waiting.acquire(timeout=-1 if timeout is None else timeout)
        finally:
            self._waiting.discard(waiting)
        return self.is_set


__all__ = ["Flag"]
