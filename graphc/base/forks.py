"""Fork safety: the locks of the package, and the hooks that run when the process forks.

The child has the memory of that moment and only the thread that forked. Locks of other threads are
never released there, and work that they had begun stays half done. So there are two kinds of locks,
and this module makes all of them:

* ``lock`` guards data that is consistent between any two operations of the interpreter, as data
  must be that Ctrl-C may interrupt. If a thread had it that the child lacks, the child frees it.
* ``held_lock`` guards other data: LLVM, the values of variables. A fork waits until no other thread
  has it, and holds it meanwhile.

A fork also waits for modules that another thread imports, because the child could never import
them.

Python calls hooks of a fork where it can only print errors. An interrupt there would be lost, and
half of a hook would not be done. So hooks are steps of a generator, which catches exceptions and
has them raised where the process goes on after the fork.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import repeat
from operator import methodcaller
from typing import Any, Protocol

from graphc.base.weak import WeakBag

VARIABLES, MACHINE_CODE = 0, 1
"""What locks are around that a fork holds, in the order in which it takes them: who runs a program
may come to compile."""

_ROOTS = frozenset(("graphc", "passes", "llvmlite", "networkx", "numpy"))
"""Packages whose modules a fork waits for."""

_PATIENCE = 5.0
"""Seconds after which a fork no longer waits for modules that are being imported."""

_LAST_STEPS = 0.02
"""Seconds after which a fork no longer waits for threads that end."""

_ATTEMPTS = 8
"""How often in a row a hook goes on where it was interrupted."""

_MODULE_LOCKS: dict[str, Callable[[], Any]] = import_module("_frozen_importlib")._module_locks
"""Of modules that are being imported, as the interpreter has them: references, by names."""

_ACQUIRE, _RELEASE = methodcaller("acquire"), methodcaller("release")

_RAISE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)
"""Has an exception of a type raised in a thread when that next runs code of Python."""

Lock = Any
"""A ``threading.RLock``, whose type has no public name."""


class Forked(Protocol):
    """What has something to set right in a child."""

    def forked(self) -> None:
        """This process has lost all threads but the present one."""


def lock() -> Lock:
    """A reentrant lock around what is whole at any moment."""
    made = threading.RLock()
    _FORKS.free.add(made)
    return made


def held_lock(kind: int) -> Lock:
    """A reentrant lock around what a thread must finish before the process forks."""
    made = threading.RLock()
    _FORKS.held[kind].add(made)
    return made


def tell(item: Forked) -> None:
    """Has a child tell an object that it is one, as long as the object lives."""
    _FORKS.told.add(item)


def ends_now() -> None:
    """Says that the present thread is about to end, which it does within microseconds.

    A fork waits for that, so that Python does not warn of a thread that nobody started.
    """
    _ENDING.append(threading.get_native_id())


_ENDING: deque[int] = deque(maxlen=16)


class _Forks:
    """The locks there are, and those that a fork under way has taken.

    Attributes:
        held: the locks that it takes, by kind.
        free: the others.
        told: what children tell that they are such.
    """

    def __init__(self) -> None:
        self.held: tuple[WeakBag[Lock], ...] = (WeakBag(), WeakBag())
        self.free: WeakBag[Lock] = WeakBag()
        self.told: WeakBag[Forked] = WeakBag()
        self._wanted: list[Lock] = []
        self._taken: list[bool] = []
        if hasattr(os, "register_at_fork"):
            step = partial(next, self._steps())
            step()
            os.register_at_fork(before=step, after_in_parent=step, after_in_child=step)
            # what comes before a fork is called in the reverse order, so this surrounds the above
            turn = threading.RLock()
            os.register_at_fork(
                before=turn.acquire, after_in_parent=turn.release, after_in_child=turn.release
            )

    def _steps(self) -> Iterator[object]:
        """Two steps for each fork: before it, and in parent or child after it."""
        lost: list[type[BaseException]] = []
        while True:
            home = 0
            try:
                # nothing of Python runs between this and the end of the hook
                yield [*map(_RAISE, repeat(threading.get_ident()), lost)]
                lost = []
            except BaseException as error:
                lost = [type(error)]
            for _ in range(_ATTEMPTS):
                try:
                    home = os.getpid()
                    self._prepare()
                    break
                except BaseException as error:
                    lost.append(type(error))
            try:
                yield None
            except BaseException as error:
                lost.append(type(error))
            for _ in range(_ATTEMPTS):
                try:
                    if home and os.getpid() != home:
                        lost = []
                        self._renew()
                    self._finish()
                    break
                except BaseException as error:
                    lost.append(type(error))

    def _prepare(self) -> None:
        """Takes all locks that are held, however often it is begun anew."""
        for kind in self.held:
            # others may be made while this waits
            while True:
                for wanted in self._wanted[len(self._taken) :]:
                    # one operation takes the lock and notes it
                    self._taken.extend(map(_ACQUIRE, (wanted,)))
                known = set(map(id, self._wanted))
                new = [one for one in kind if id(one) not in known]
                if not new:
                    break
                self._wanted.extend(new)
        _wait_while(_others_import, _PATIENCE)
        _wait_while(_others_end, _LAST_STEPS)
        _ENDING.clear()

    def _finish(self) -> None:
        """Gives them back."""
        taken = self._wanted[: len(self._taken)]
        order = map(_RELEASE, reversed(taken))
        # two operations, and nothing of Python between them
        self._taken, _ = [], [*order]
        self._wanted = []

    def _renew(self) -> None:
        """Sets right what threads had that this child lacks."""
        for free in self.free:
            if free.acquire(blocking=False):
                free.release()
            else:
                free._at_fork_reinit()
        for item in self.told:
            item.forked()


def _wait_while(is_so: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while is_so() and time.monotonic() < end:
        time.sleep(0.0001)


def _others_end() -> bool:
    """Whether a thread that said so has not ended yet."""
    return any(os.path.exists(f"/proc/self/task/{thread}") for thread in list(_ENDING))


def _others_import() -> bool:
    """Whether another thread looks for or runs a module that a child may need.

    It has the module's lock then, which is taken before ``sys.modules`` knows of the module.
    """
    here = threading.get_ident()
    for name, reference in list(_MODULE_LOCKS.items()):
        taken = reference() if name.partition(".")[0] in _ROOTS else None
        if taken is None:
            continue
        # the lock of its fields, which a thread has while it takes or leaves the module's
        if taken.owner not in (None, here) or not taken.lock.acquire(blocking=False):
            return True
        taken.lock.release()
    return False


_FORKS = _Forks()

__all__ = ["MACHINE_CODE", "VARIABLES", "Forked", "Lock", "ends_now", "held_lock", "lock", "tell"]
