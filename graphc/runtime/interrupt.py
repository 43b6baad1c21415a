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
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from graphc.runtime.code import Glue

if TYPE_CHECKING:
    from graphc.codegen.llvm.module import Module

_STRUCT_BYTES = 152
"""glibc's ``struct sigaction`` on x86-64: handler, mask of 128 bytes, flags, restorer."""

_IGNORED = 1
"""SIG_IGN."""

HANDLER, FLAG = "graphc_interrupt", "graphc_interrupted"
"""The symbols of the handler and of the flag that it sets and runs of the main thread poll."""


def handler_module(linkage: str = "") -> Module:
    """``void handler(i32)`` that sets the flag; safe in a signal handler, unlike any Python."""
    from graphc.codegen.llvm.module import Function, Line, Module, pieces_of, symbol

    flag = symbol(FLAG)
    body = f"  store volatile i32 1, ptr {flag}, align 4\n  ret void"
    return Module(
        (
            Line(FLAG, pieces_of(f"{flag} = {linkage} global i32 0")),
            Function(HANDLER, "void", "i32 %signal", "nounwind", pieces_of(body)),
        )
    )


class Handler(NamedTuple):
    """The native handler.

    Attributes:
        address: of its code.
        flag: what it sets.
        kept: keeps both loaded.
    """

    address: int
    flag: ctypes.c_int32
    kept: object


def handler(glue: Glue | None) -> Handler:
    """The handler that came with a program's code, or the one that the process compiles."""
    if glue is None:
        return _compiled()
    return Handler(glue.handler, ctypes.c_int32.from_address(glue.flag), None)


@cache
def _compiled() -> Handler:
    from graphc.runtime.jit import load

    library = load(handler_module().text, (HANDLER, FLAG))
    flag = ctypes.c_int32.from_address(library.addresses[FLAG])
    return Handler(library.addresses[HANDLER], flag, library)


@cache
def _sigaction() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).sigaction
    function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return function


class _Begun(NamedTuple):
    """A run that Ctrl-C can stop.

    Attributes:
        ours: the native handler, as sigaction takes it.
        before: whoever handled the signal before, and shall afterwards.
        flag: what the handler sets.
    """

    ours: ctypes.Array[ctypes.c_uint64]
    before: ctypes.Array[ctypes.c_uint64]
    flag: ctypes.c_int32


_BEGUN: list[_Begun] = []
"""The runs of the main thread that are on, each within a call of Python by the one before it."""


def in_python(call: Callable[[], None]) -> None:
    """Calls Python from a native run: meanwhile Ctrl-C goes to who handled it before the run."""
    is_main = threading.get_ident() == threading.main_thread().ident
    if not _BEGUN or not is_main:
        call()
        return
    sigaction, begun = _sigaction(), _BEGUN[-1]
    try:
        sigaction(signal.SIGINT, begun.before, None)
        if begun.flag.value:
            begun.flag.value = 0
            signal.raise_signal(signal.SIGINT)
        call()
    finally:
        # what is called may have chosen another handler
        sigaction(signal.SIGINT, begun.ours, begun.before)


def interruptible(native: Handler, run: Callable[[int | None], int]) -> int:
    """What a native run gives that Ctrl-C can stop; it gets the address of the flag to poll.

    It gets None where signals don't arrive: outside the main thread, or where they are ignored.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return run(None)
    sigaction, flag = _sigaction(), native.flag
    before = (ctypes.c_uint64 * (_STRUCT_BYTES // 8))()
    ours = (ctypes.c_uint64 * (_STRUCT_BYTES // 8))()
    ours[0] = native.address
    sigaction(signal.SIGINT, None, before)
    if before[0] == _IGNORED:
        return run(None)
    flag.value = 0
    # Python's own handler may have noted a signal, which is raised after any of these calls: never
    # between a call and the block it begins or ends
    outer = len(_BEGUN)
    try:
        sigaction(signal.SIGINT, ours, None)
        _BEGUN.append(_Begun(ours, before, flag))
        return run(ctypes.addressof(flag))
    finally:
        del _BEGUN[outer:]
        sigaction(signal.SIGINT, before, None)
        if flag.value:
            flag.value = 0
            signal.raise_signal(signal.SIGINT)
