"""Ctrl-C during a native run.

Python's own handler only notes the signal and acts when the interpreter gets control back, which a
long loop in machine code does not give. So while such a run is on in the main thread a native
handler sets the flag that the loop over steps polls; afterwards the signal is handed on to whoever
handled it before.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from graphc.runtime.jit import Library, load

_STRUCT_BYTES = 152
"""glibc's ``struct sigaction`` on x86-64: handler, mask of 128 bytes, flags, restorer."""

_IGNORED = 1
"""SIG_IGN."""

FLAG = np.zeros(1, np.int32)
"""Set by the native handler; polled by runs of the main thread."""


@cache
def handler() -> Library:
    """``void handler(int)`` that sets the flag; safe in a signal handler, unlike any Python."""
    text = (
        "@graphc_flag = external global i32\n"
        "define void @graphc_interrupt(i32 %signal) nounwind {\n"
        "  store volatile i32 1, ptr @graphc_flag, align 4\n"
        "  ret void\n}\n"
    )
    return load(text, ("graphc_interrupt",), imports={"graphc_flag": FLAG.ctypes.data})


@cache
def _sigaction() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).sigaction
    function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return function


@contextmanager
def interruptible() -> Iterator[int | None]:
    """Lets Ctrl-C stop the native run in the block; gives the address of the flag to poll.

    Gives None where signals don't arrive: outside the main thread, or where they are ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    sigaction = _sigaction()
    before = (ctypes.c_uint64 * (_STRUCT_BYTES // 8))()
    ours = (ctypes.c_uint64 * (_STRUCT_BYTES // 8))()
    ours[0] = handler().addresses["graphc_interrupt"]
    FLAG[0] = 0
    if sigaction(signal.SIGINT, ours, before) != 0 or before[0] == _IGNORED:
        sigaction(signal.SIGINT, before, None)
        yield None
        return
    try:
        yield FLAG.ctypes.data
    finally:
        sigaction(signal.SIGINT, before, None)
        if FLAG[0]:
            FLAG[0] = 0
            signal.raise_signal(signal.SIGINT)
