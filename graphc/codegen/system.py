"""What the thread pool asks of processor and operating system: Linux on x86-64 and 64-bit Arm.

All that depends on either stands here: the numbers of system calls, an instruction, and functions
of the C library. They are in every glibc from 2.17 on, and in musl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.codegen.emitter import I8, I32, I64, PTR, FunctionEmitter, Reg


@dataclass(frozen=True, slots=True)
class _Machine:
    """What differs between processors.

    Attributes:
        futex: number of the system call by which threads wait for a word of memory.
        gettid: number of the system call that tells the number of a thread.
        pause: the intrinsic by which a loop tells the processor that it waits.
        operand: what it is called with.
    """

    futex: int
    gettid: int
    pause: str
    operand: Reg | None = None


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(202, 186, "llvm.x86.sse2.pause"),
    # the hint with number 1 is the instruction yield
    "aarch64": _Machine(98, 178, "llvm.aarch64.hint", Reg("1", I32)),
}

_WAIT, _WAKE = 128 + 9, 128 + 10
"""What the call for words of memory does: it waits, or wakes sleepers whose bits meet a mask; both
for words of one process."""

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


def pause(e: FunctionEmitter) -> None:
    """Tells the processor that a loop waits."""
    machine = _machine(e)
    operands = () if machine.operand is None else (machine.operand,)
    e.module.declare(machine.pause, "void", ", ".join(str(o.type) for o in operands))
    e.call(machine.pause, None, *operands)


def process_number(e: FunctionEmitter) -> Reg:
    """The number of this process."""
    e.module.declare("getpid", "i32", "")
    return e.call("getpid", I32)


def present_cpu(e: FunctionEmitter) -> Reg:
    """The number of the CPU that runs this, or ``CPU_UNKNOWN``."""
    e.module.declare("sched_getcpu", "i32", "")
    return e.call("sched_getcpu", I32)


def sleep_while(e: FunctionEmitter, word: Reg, value: Reg, group: Reg) -> None:
    """Sleeps, as one of a group, if an i32 has a value; there may be no reason to wake up."""
    _futex(e, word, _WAIT, value, group)


def wake(e: FunctionEmitter, word: Reg, groups: Reg) -> None:
    """Wakes those of some groups that sleep on a word."""
    _futex(e, word, _WAKE, e.const(2**31 - 1, I32), groups)


def _futex(e: FunctionEmitter, word: Reg, operation: int, value: Reg, groups: Reg) -> None:
    operands = f"{word}, i64 {operation}, {value}, ptr null, ptr null, {groups}"
    _system_call(e, _machine(e).futex, operands)


def _system_call(e: FunctionEmitter, number: int, operands: str) -> Reg:
    e.module.declare("syscall", "i64", "i64, ...")
    listed = f"i64 {number}, {operands}" if operands else f"i64 {number}"
    return e.assign(I64, f"call i64 (i64, ...) @syscall({listed})")


def _machine(e: FunctionEmitter) -> _Machine:
    return _MACHINES[e.module.target.architecture]


@contextmanager
def signals_blocked(e: FunctionEmitter) -> Iterator[None]:
    """No signal reaches this thread, nor one that the block starts."""
    e.module.declare("pthread_sigmask", "i32", "i32, ptr, ptr")
    every, before = (e.alloca(I8, _SIGNAL_BYTES) for _ in range(2))
    e.fill_bytes(every, -1, e.const(_SIGNAL_BYTES, I64))
    how, none = e.const(_SET_MASK, I32), Reg("null", PTR)
    e.call("pthread_sigmask", I32, how, every, before)
    yield
    e.call("pthread_sigmask", I32, how, before, none)


def start_thread(e: FunctionEmitter, code: Reg, argument: Reg) -> tuple[Reg, Reg]:
    """Starts a thread that nobody joins; its handle, and whether there is one."""
    e.module.declare("pthread_create", "i32", "ptr, ptr, ptr, ptr")
    e.module.declare("pthread_detach", "i32", "i64")
    place = e.alloca(I64, 1, 8)
    result = e.call("pthread_create", I32, place, Reg("null", PTR), code, argument)
    is_made = e.icmp("eq", result, 0)
    handle = e.load(place, I64, 8)
    with e.when(is_made):
        e.call("pthread_detach", I32, handle)
    return handle, is_made


def this_thread(e: FunctionEmitter) -> Reg:
    """The handle of the thread that runs this."""
    e.module.declare("pthread_self", "i64", "")
    return e.call("pthread_self", I64)


def thread_number(e: FunctionEmitter) -> Reg:
    """The number by which the system knows this thread."""
    return e.convert("trunc", _system_call(e, _machine(e).gettid, ""), "i32")


def place_thread(e: FunctionEmitter, handle: Reg, model: Reg, cpu: Reg) -> None:
    """Has a thread run wherever another one may, given by its number, but for one CPU.

    It stays as it is where that leaves no CPU, or the other one is gone.
    """
    e.module.declare("sched_getaffinity", "i32", "i32, i64, ptr")
    e.module.declare("pthread_setaffinity_np", "i32", "i64, i64, ptr")
    mask, size = e.alloca(I64, _CPUS // 64), e.const(_CPUS // 8, I64)
    e.fill_bytes(mask, 0, size)
    with e.region() as placing:
        placing.leave_if(e.icmp("ne", e.call("sched_getaffinity", I32, model, size, mask), 0))
        with e.when(e.icmp("ult", cpu, _CPUS)):
            number = e.convert("zext", cpu, "i64")
            word = e.element_pointer(mask, e.binary("lshr", number, 6), "i64")
            bit = e.binary("shl", e.const(1, I64), e.binary("and", number, 63))
            rest = e.binary("and", e.load(word, I64, 8), e.binary("xor", bit, -1))
            e.store(rest, word, 8)
        e.call("pthread_setaffinity_np", I32, handle, size, mask)


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
