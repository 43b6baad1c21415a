"""The programs of one compilation: the one that answers, and the better one on its way.

A large program answers first with small kernels of single operations, made at once; when it has
answered, a thread compiles the program that was asked for, which takes over between two runs. Both
come from one graph, in which everything that chooses bits is settled.

Invariant: ``current`` is a whole program at any time, and is replaced at most once. A run takes it
once, so no run sees two. One thread compiles in the background at a time, and none is left behind:
it ends with the interpreter, and after a fork the child starts its own when it needs one.
"""

from __future__ import annotations

import atexit
import copy
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from graphc.base.errors import GraphError
from graphc.base.forks import lock
from graphc.base.llvm import free
from graphc.base.source import Location, caller
from graphc.base.tuning.running import RUNNING
from graphc.base.waiting import Flag
from graphc.base.words import shown
from graphc.compiling.compiled import Compiled

Poll = Callable[[], None]
"""Is called while a program compiles, and raises where it should not go on."""

Later = Callable[[Poll], tuple[Compiled, str]]
"""Compiles a program, and says what the cache had to do with it."""

Tier = Literal["baseline", "full"]

MOST_BASELINE_BYTES = 256 << 20
"""Nothing is fused in a first program, so its temporaries may take far more than those of the one
that follows, for which a run waits that would need more than this."""


class _Stopped(BaseException):
    """Ends a compilation that nobody waits for any more."""


_LOOK_AGAIN = 1.0
"""Seconds after which who waits looks whether a fork has left it without the thread."""

_TURN = lock()
"""One compilation in the background at a time, so that others have half of the interpreter."""


def seconds_of(timeout: float | None) -> float | None:
    """What a user gave as the seconds to wait at most.

    Raises:
        GraphError: if that is no number.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or timeout != timeout:
        raise GraphError(
            f"the timeout is {shown(timeout)}",
            where=caller(),
            hint="give a number of seconds, or None to wait as long as it takes",
        )
    return min(max(timeout, 0.0), threading.TIMEOUT_MAX)


class Tiers:
    """What runs, and what will.

    Attributes:
        current: the program that answers.
        cache: what the cache on disk had to do with it: "hit", or why not.
    """

    def __init__(self, current: Compiled, cache: str, later: Later | None = None) -> None:
        """``later`` compiles the full program, and says what is then to say of the cache."""
        self.current = current
        self.cache = cache
        self._later = later
        self._error: BaseException | None = None
        self._told = False
        self._thread: threading.Thread | None = None
        self._starting = lock()
        self._ended, self._hurry, self._stop = (Flag() for _ in range(3))
        if later is None:
            self._ended.set()

    @property
    def tier(self) -> Tier:
        """Which program answers."""
        return "full" if self._ended.is_set and self._error is None else "baseline"

    @property
    def full(self) -> Compiled:
        """The full program, which this waits for."""
        self.wait()
        return self.current

    def answered(self) -> None:
        """A run is over: the full program may be compiled now, if it is not there yet."""
        if not self._ended.is_set:
            self._start()
        elif self._error is not None and not self._told:
            self._told = True
            warnings.warn(
                "the fused program could not be compiled, so kernels of single operations go on "
                f"answering; wait() raises why: {self._error}",
                RuntimeWarning,
                stacklevel=4,
            )

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the full program is there within ``timeout`` seconds; None waits for it.

        Raises:
            Exception: what compiling it raised.
        """
        if not self._ended.is_set:
            self._hurry.set()
            if self._stop.is_set:
                # asked while the interpreter ends, when there are no more threads
                self._stop.clear()
                self._compile()
            else:
                self._await(timeout)
        if self._error is not None:
            self._told = True
            # one of its own for each who asks: a traceback grows where an object is raised again
            raise copy.copy(self._error) from self._error
        return self._ended.is_set

    # --- in the background -----------------------------------------------------------------------

    def _await(self, timeout: float | None) -> None:
        """Waits for the thread, and starts it where there is none."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._start()
            rest = _LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - time.monotonic())
            if self._ended.wait(max(0.0, rest)) or rest <= 0:
                return

    def _start(self) -> None:
        """Starts the thread where there is none: in a forked child the parent's is missing."""
        with self._starting:
            if self._ended.is_set or self._stop.is_set:
                return
            thread = self._thread
            if thread is not None and thread.is_alive():
                return
            self._thread = threading.Thread(target=self._compile, name="graphc", daemon=True)
            atexit.register(self._leave)
            try:
                self._thread.start()
            except RuntimeError as error:  # the system has no more threads
                atexit.unregister(self._leave)
                self._fail(error)

    def _compile(self) -> None:
        later = self._later
        assert later is not None, "there is something to compile until it has ended"
        try:
            self._hurry.wait(RUNNING.rest_seconds)
            with self._turn():
                free()
                self.current, self.cache = later(self._poll)
        except _Stopped:
            pass
        except BaseException as error:
            self._fail(error)
        else:
            self._later = None
            self._ended.set()
        finally:
            # the thread's object ends with the thread, and in no other
            self._thread = None
            atexit.unregister(self._leave)

    def _fail(self, error: BaseException) -> None:
        """There will be no full program; ``wait`` raises why, or the next run tells."""
        self._error = error
        self._later = None
        self._ended.set()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Waits until no other compilation runs in the background, unless somebody waits for it."""
        while not _TURN.acquire(timeout=RUNNING.rest_seconds):
            self._poll()
            if self._hurry.is_set:
                yield
                return
        try:
            yield
        finally:
            _TURN.release()

    def _poll(self) -> None:
        if self._stop.is_set:
            raise _Stopped

    def _leave(self) -> None:
        """The interpreter ends: machine code must not be compiled while its modules are taken down.

        What is being done is finished, up to the next pass."""
        self._stop.set()
        self._hurry.set()
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a session; equal programs are compiled once.

    Attributes:
        reason: what was new: the fetches, or which values were fed.
        where: the user's line that asked for it.
        tiers: the programs it gave.
    """

    reason: str
    where: Location | None
    tiers: Tiers = field(repr=False)

    @property
    def compiled(self) -> Compiled:
        """What it gave, which this waits for."""
        return self.tiers.full

    @property
    def cache(self) -> str:
        """ "hit" if the program came from the cache on disk, else why it did not."""
        return self.tiers.cache

    def __str__(self) -> str:
        return f"{self.reason}, asked for at {self.where or 'no line'}"
