"""System calls and instructions of the thread pool: Linux on x86-64 and 64-bit Arm.

Only this module depends on processor or operating system: by numbers of system calls, the pause
instruction, and functions of the C library, which every glibc from 2.17 on and musl have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.routine import Routine
from graphc.codegen.llvm.types import I32, I64, PTR


@dataclass(frozen=True, slots=True)
class _Machine:
    """What differs between processors.

    Attributes:
        futex: number of the system call by which threads wait for a word of memory.
        gettid: number of the system call that tells the number of a thread.
        pause: the intrinsic by which a loop tells the processor that it waits.
        operands: the operands of that intrinsic.
    """

    futex: int
    gettid: int
    pause: str
    operands: tuple[int, ...] = ()


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(202, 186, "llvm.x86.sse2.pause"),
    # the hint with number 1 is the instruction yield
    "aarch64": _Machine(98, 178, "llvm.aarch64.hint", (1,)),
}

_WAIT, _WAKE = 128 + 9, 128 + 10
"""Operations of the futex call: wait, and wake sleepers whose bits meet a mask; both private to one
process."""

ALL = -1
"""The bits of all groups of sleepers."""

_SIGNAL_BYTES = 128
"""The size of a set of signals."""

_SET_MASK = 2
"""SIG_SETMASK."""

_CPUS = 8192
"""CPUs that a mask has room for. Where the system knows more, threads stay where they are put."""

CPU_UNKNOWN = -1
"""In place of the number of a CPU: none."""


def pause(r: Routine) -> None:
    """Tells the processor that a loop waits."""
    machine = _machine(r)
    r.external(machine.pause, None, *(r.narrow(number) for number in machine.operands))


def process_number(r: Routine) -> Reg:
    """The number of this process."""
    return r.external("getpid", I32)


def present_cpu(r: Routine) -> Reg:
    """The number of the CPU that runs this, or ``CPU_UNKNOWN``."""
    return r.external("sched_getcpu", I32)


def sleep_while(r: Routine, place: Reg, value: Reg, group: Reg | int) -> None:
    """Sleeps, as one of a group, if an int32 has a value; it may wake up spuriously."""
    _futex(r, place, _WAIT, value, group)


def wake(r: Routine, place: Reg, groups: Reg | int) -> None:
    """Wakes those of some groups that sleep on an int32."""
    _futex(r, place, _WAKE, 2**31 - 1, groups)


def _futex(
    r: Routine, place: Reg, operation: int, value: Reg | int, groups: Reg | int
) -> None:
    null = r.const(0, PTR)
    operands = r.const(operation), r.narrow(value), null, null, r.narrow(groups)
    _system_call(r, _machine(r).futex, place, *operands)


def _system_call(r: Routine, number: int, *operands: Reg) -> Reg:
    return r.external_variadic("syscall", I64, 1, r.const(number), *operands)


def _machine(r: Routine) -> _Machine:
    return _MACHINES[r.module.target.architecture]


@contextmanager
def signals_blocked(r: Routine) -> Iterator[None]:
    """Blocks all signals in this thread, and in threads that are started inside."""
    every, before = (r.room(_SIGNAL_BYTES // 8) for _ in range(2))
    for n in range(_SIGNAL_BYTES // 8):
        every[n] = -1
    how, null = r.narrow(_SET_MASK), r.const(0, PTR)
    r.external("pthread_sigmask", I32, how, every.at(0), before.at(0))
    yield
    r.external("pthread_sigmask", I32, how, before.at(0), null)


def start_thread(r: Routine, code: Reg, argument: Reg) -> tuple[Reg, Reg]:
    """Starts a thread that nobody joins; its handle, and whether there is one."""
    place = r.room(1)
    result = r.external("pthread_create", I32, place.at(0), r.const(0, PTR), code, argument)
    is_made, handle = result.equals(0), place[0]
    with r.when(is_made):
        r.external("pthread_detach", I32, handle)
    return handle, is_made


def this_thread(r: Routine) -> Reg:
    """The handle of the thread that runs this."""
    return r.external("pthread_self", I64)


def thread_number(r: Routine) -> Reg:
    """The number by which the system knows this thread."""
    return _system_call(r, _machine(r).gettid)


def place_thread(r: Routine, handle: Reg, model: Reg, cpu: Reg) -> None:
    """Has a thread run wherever another one may, given by its number, but for one CPU.

    It stays as it is where that leaves no CPU, or the other one is gone.
    """
    mask, size = r.room(_CPUS // 64), r.const(_CPUS // 8)
    r.fill_bytes(mask.at(0), 0, size)
    known = r.external("sched_getaffinity", I32, r.narrow(model), size, mask.at(0))
    with r.when(known.equals(0)):
        with r.when((cpu >= 0) & (cpu < _CPUS)):
            number = cpu >> 6
            mask[number] = mask[number] & ((r.const(1) << (cpu & 63)) ^ -1)
        r.external("pthread_setaffinity_np", I32, handle, size, mask.at(0))


__all__ = [
    "ALL",
    "CPU_UNKNOWN",
    "pause",
    "place_thread",
    "present_cpu",
    "process_number",
    "signals_blocked",
    "sleep_while",
    "start_thread",
    "this_thread",
    "thread_number",
    "wake",
]
