"""The one door to LLVM: all access to llvmlite, under one lock.

Invariant: objects of llvmlite are made, used and closed under one lock, which a fork waits for, and
out of reach of interrupts. An interrupt between two operations of llvmlite's Python code would
leave its lock taken or an object half made. Signals arrive in the main thread, so a temporary
thread does the work for it. The waiting main thread can be interrupted; an object that is then made
for nobody is closed.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from graphc.base.errors import UnsupportedError
from graphc.base.forks import MACHINE_CODE, ends_now, held_lock
from graphc.base.waiting import Flag
from graphc.base.weak import popped

T = TypeVar("T")

_LOCK = held_lock(MACHINE_CODE)

_LOOK_AGAIN = 1.0
"""Seconds after which who waits looks whether its thread is there, which a fork may have taken."""


class Resource(Protocol):
    """What must be ended under the lock."""

    def close(self) -> None: ...


_MOST_DEAD = 8
"""Resources without an owner that may wait to be closed. To close one takes 0.3 ms, which whoever
waits for a program should not pay for another program."""

_OWNED: dict[ref[Any], Resource] = {}
_DEAD: list[ref[Any]] = []


def binding() -> Any:
    """``llvmlite.binding``.

    Raises:
        UnsupportedError: if it can't be loaded.
    """
    try:
        import llvmlite.binding
    except (ImportError, OSError, MemoryError) as error:
        raise _not_loaded(error) from error
    return llvmlite.binding


def within(job: Callable[[], T]) -> T:
    """What a job gives that uses LLVM, while nobody else does."""
    return uninterrupted(partial(_alone, job))


def uninterrupted(job: Callable[[], T]) -> T:
    """What a job gives that uses LLVM several times, done where no signal arrives.

    Whoever waits for it can be interrupted, and nothing of it is then left but what it kept.
    """
    if threading.get_ident() != threading.main_thread().ident or _Exit.has_begun:
        return job()
    while True:
        home, task = os.getpid(), _Task(job)
        try:
            thread = _thread.start_new_thread(task.do, ())
        except (RuntimeError, MemoryError):  # there are no more threads
            return job()
        try:
            while not task.is_done.wait(_LOOK_AGAIN):
                if os.getpid() != home:
                    break
                if thread not in sys._current_frames() and not task.is_done.is_set:
                    # it has not even begun, as where there is no memory
                    return job()
            else:
                return task.outcome()
        finally:
            task.is_wanted = False


def ends_with(owner: object, resource: Resource) -> None:
    """Has a resource closed some time after its owner is gone.

    A thread in the background does that, or who next uses LLVM when many wait for it.
    """
    _OWNED[ref(owner, _DEAD.append)] = resource


def free() -> None:
    """Closes the resources whose owners are gone; for a thread that nobody waits for."""
    if _DEAD:
        within(_close_dead)


def _close_dead() -> None:
    while (dead := popped(_DEAD)) is not None:
        _OWNED.pop(dead).close()


def _alone(job: Callable[[], T]) -> T:
    with _LOCK:
        if _Exit.has_begun and threading.get_ident() != threading.main_thread().ident:
            raise RuntimeError("the interpreter ends")
        if len(_DEAD) >= _MOST_DEAD:
            _close_dead()
        return job()


class _Task(Generic[T]):
    """A job, and what came of it."""

    def __init__(self, job: Callable[[], T]) -> None:
        self.is_wanted = True
        self.is_done = Flag()
        self._job = job
        self._context = copy_context()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def do(self) -> None:
        """Does it, unless whoever wanted it was interrupted before it began."""
        try:
            if self.is_wanted:
                self._result.append(self._context.run(self._job))
        except BaseException as error:
            self._error = error
            _forget_frames(error)
        finally:
            # what it refers to ends here
            del self._job, self._context
            ends_now()
            self.is_done.set()

    def outcome(self) -> T:
        """What it gave, or raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]


def _forget_frames(error: BaseException | None) -> None:
    """Ends what the frames of an error hold here, and not where it will be caught."""
    import traceback

    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _not_loaded(error: BaseException) -> UnsupportedError:
    """The error where llvmlite is missing or can't be loaded."""
    if isinstance(error, ImportError) and error.name is not None:
        return UnsupportedError(
            f"LLVM, which compiles programs, can't be loaded: {error}",
            hint="install llvmlite: pip install llvmlite",
        )
    inner = error.__context__ if isinstance(error.__context__, OSError) else error
    limit = _memory_limit()
    if limit is not None:
        return UnsupportedError(
            f"LLVM, which compiles programs, can't be loaded: {str(inner) or 'no memory'}; "
            f"this process may have {limit >> 20:,} MB of address space",
            hint="LLVM takes 300 MB of that: raise the limit (ulimit -v), or limit the memory that "
            "is used, as by a control group",
        )
    return UnsupportedError(
        f"LLVM, which compiles programs, can't be loaded: {inner}",
        hint="install llvmlite anew: pip install --force-reinstall llvmlite",
    )


def _memory_limit() -> int | None:
    """The bytes of address space that this process may have; None for as many as there are."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


class _Exit:
    """LLVM goes down with the interpreter, and nobody may be inside of it then."""

    has_begun = False

    @classmethod
    def begin(cls) -> None:
        """Waits until nobody is; from now on only the main thread goes there."""
        cls.has_begun = True
        with _LOCK:
            pass


atexit.register(_Exit.begin)

__all__ = ["Resource", "binding", "ends_with", "free", "uninterrupted", "within"]
