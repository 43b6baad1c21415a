"""The thread pool, as LLVM text: persistent workers that take the tasks of one launch at a time.

The pool is one record in memory (``POOL_BYTES``, zeros at first, never freed), whichever code works
on it: that of the process, or that inside of an exported library. Whoever launches a kernel in
tasks owns the record meanwhile; a second thread that comes then runs its own launch alone, so that
no more threads run than were asked for.

* One word holds the number of the job and how many tasks are taken. They are claimed by
  compare-and-swap, so a thread that comes late finds the job over, whatever it read before. The
  caller takes tasks too, and waits for tasks that others took, never for threads: one that sleeps
  is not missed.
* Tasks are taken from both ends, by even seats from the first on and by odd ones from the last.
  Two threads so go through the same part of an array in each launch, where their own caches may
  still hold it: those of two processors that lie apart are far from each other.
* A worker spins for a few microseconds and then sleeps in the kernel (a futex), by itself, so that
  only those are woken that may take part.
* A worker that sleeps keeps off the caller's CPU. Linux likes to wake a thread where its waker
  runs, and to leave it there for tens of milliseconds although another CPU idles; both threads then
  take turns. Once awake it may run anywhere, so that the system can give it the CPU of a caller
  that waits. A caller on another CPU than the last one moves all workers off it.
* Threads don't survive ``fork``: the record names the process whose threads serve it, and another
  one makes its own at its first launch. Signals are blocked in workers, so Ctrl-C arrives
  elsewhere.
* A kernel reports the first failing check of its task. Of several tasks the first one counts, which
  has what a run in order would report first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphc.codegen.emitter import I32, I64, PTR, FunctionEmitter, LType, ModuleEmitter, Reg
from graphc.codegen.system import (
    ALL,
    CPU_UNKNOWN,
    pause,
    place_thread,
    present_cpu,
    process_number,
    signals_blocked,
    sleep_while,
    start_thread,
    this_thread,
    thread_number,
    wake,
)
from graphc.codegen.words import Layout, Record, Word, local, spin_until
from graphc.plan.table import (
    END_BITS,
    POOL_ENTRY,
    POOL_THREADS,
    POOL_WORKERS,
    TASK_BITS,
    WORKER,
)

RUN_TASKS = "graphc_run_tasks"
"""void (ptr pool, ptr kernel, ptr buffers, ptr dims, ptr status, i64 extent, i64 grain, i64 seats):
runs a kernel over [0, extent), by at most so many threads; by as many as the negative of a negative
number, for which those that sleep are not woken at once."""

SPIN = 2000
"""Rounds of waiting, 20 to 80 µs, before a thread sleeps: from one launch to the next it then
need not be woken, which takes 10 µs and more."""

PATIENCE = 8
"""So many short launches in a row find all threads asleep and run alone; then they are woken. Calls
with rests in between so don't pay for waking; of calls without rests only the first are slow."""

_JOB: dict[str, tuple[int, LType]] = {
    "kernel": (320, PTR), "buffers": (328, PTR), "dims": (336, PTR),
    "extent": (344, I64), "grain": (352, I64), "tasks": (360, I64), "seats": (368, I64),
}  # fmt: skip
"""What is to be done: seats are the threads that may take part."""

_POOL: Layout = {
    # whose it is for the time of a launch, and whose threads there are; how many, besides the
    # caller, and whether the system refused one; the last caller's CPU and thread; the short
    # launches in a row that ran alone
    "owner": (0, I32), "home": (4, I32), "count": (8, I32), "refused": (12, I32),
    "entry": (POOL_ENTRY, PTR), "avoided": (24, I32), "caller": (28, I32), "put_off": (32, I32),
    # each on a cache line of its own: job and tasks taken; tasks that are done, and whether the
    # caller sleeps until all are; the number of the job, for sleepers
    "state": (64, I64), "done": (128, I32), "waiting": (132, I32), "signal": (192, I32),
    "sleepers": (256, I32),
    **_JOB,
    # the first failure: its task, -1 for none, and its status
    "lock": (384, I32), "failed": (392, I64), "status": (400, I64),
}  # fmt: skip

_WORKER_BYTES = 64

_WORKER: Layout = {
    "pool": (0, PTR), "seat": (8, I64), "seen": (16, I32), "confined": (20, I32),
    "handle": (24, I64),
}  # fmt: skip
"""A thread: its seat, from 1 on, the last signal before it was made, and whether it has to keep off
a CPU."""

_STATUS_BYTES = 32

_GROUPS = 31
"""Each of the first seats is a group of sleepers, a bit, of its own; all further ones are one."""


def emit_pool(module: ModuleEmitter) -> None:
    """The functions of the pool: ``RUN_TASKS``, internal, and ``WORKER``, which starts threads."""
    _emit_fail(module)
    _emit_drain(module)
    _emit_worker(module)
    _emit_staff(module)
    _emit_place(module)
    _emit_keep_apart(module)
    _emit_run_tasks(module)


def _run(
    e: FunctionEmitter, call: Sequence[Reg], status: Reg, begin: Reg, end: Reg, seat: Reg
) -> None:
    """Calls a kernel, given with its buffers and dims, for iterations [begin, end)."""
    kernel, *operands = call
    words = ", ".join(map(str, (*operands, status, begin, end, seat)))
    e.line(f"call void {kernel.text}({words})")


def _function(
    module: ModuleEmitter, name: str, *parameters: tuple[LType, str], linkage: str = "internal"
) -> tuple[FunctionEmitter, list[Reg]]:
    """Begins a function without a result."""
    operands = [Reg(f"%{parameter}", kind) for kind, parameter in parameters]
    heads = [(str(operand.type), operand.text) for operand in operands]
    return FunctionEmitter(module, name, heads, linkage=linkage), operands


def _copy(e: FunctionEmitter, target: Reg, source: Reg) -> None:
    """Copies a status."""
    e.copy_bytes(target, source, e.const(_STATUS_BYTES, I64))


def _group(e: FunctionEmitter, seat: Reg) -> Reg:
    """The group of sleepers that a seat belongs to, as a bit."""
    place = e.intrinsic("umin", I64, seat, e.const(_GROUPS, I64))
    return e.convert("trunc", e.binary("shl", e.const(1, I64), place), "i32")


# --- doing tasks ---------------------------------------------------------------------------------


def _emit_drain(module: ModuleEmitter) -> None:
    """Claims and runs tasks of the present job until none is left."""
    e, (at, seat) = _function(module, "graphc_drain", (PTR, "pool"), (I64, "seat"))
    pool = Record(e, at, _POOL)
    status = e.alloca(I64, _STATUS_BYTES // 8)
    first = pool["state"].load("acquire")
    # read after the state: if they are of a later job, the state has changed and no claim succeeds
    job = {name: pool[name].load("acquire") for name in _JOB}
    call = job["kernel"], job["buffers"], job["dims"]
    number = e.binary("lshr", first, TASK_BITS)
    state, count = local(e, first), local(e, e.const(0, I32))
    is_even = e.icmp("eq", e.binary("and", seat, 1), 0)
    step = e.select(is_even, e.const(1, I64), e.const(1 << END_BITS, I64))
    with e.region() as work:
        work.leave_if(e.icmp("uge", seat, job["seats"]))
        with e.repeat() as claims:
            present = state.load()
            lower = e.binary("and", present, 2**END_BITS - 1)
            upper = e.binary("and", e.binary("lshr", present, END_BITS), 2**END_BITS - 1)
            claims.leave_if(e.icmp("ne", e.binary("lshr", present, TASK_BITS), number))
            claims.leave_if(e.icmp("uge", e.binary("add", lower, upper), job["tasks"]))
            taken = e.binary("add", present, step)
            found, is_mine = pool["state"].compare_exchange(present, taken)
            state.store(found)
            with e.when(is_mine):
                from_last = e.binary("sub", e.binary("sub", job["tasks"], 1), upper)
                task = e.select(is_even, lower, from_last)
                begin = e.binary("mul", task, job["grain"])
                end = e.binary("add", begin, job["grain"])
                e.store(e.const(0, I64), status, 64)
                end = e.intrinsic("umin", I64, end, job["extent"])
                _run(e, call, status, begin, end, seat)
                with e.when(e.icmp("ne", e.load(status, I64, 64), 0)):
                    e.call("graphc_fail", None, at, task, status)
                count.add(1)
                state.store(pool["state"].load("acquire"))
        did = count.load()
        work.leave_if(e.icmp("eq", did, 0))
        done = e.binary("add", pool["done"].fetch_add(did, "seq_cst"), did)
        work.leave_if(e.icmp("ne", done, e.convert("trunc", job["tasks"], "i32")))
        work.leave_if(e.icmp("eq", pool["waiting"].load("seq_cst"), 0))
        wake(e, pool["done"].at, e.const(ALL, I32))
    e.finish()


def _emit_fail(module: ModuleEmitter) -> None:
    """Keeps the failure of a task, if no earlier task has one."""
    e, (at, task, status) = _function(
        module, "graphc_fail", (PTR, "pool"), (I64, "task"), (PTR, "status")
    )
    pool = Record(e, at, _POOL)
    with e.repeat() as waiting:
        waiting.leave_if(e.icmp("eq", pool["lock"].exchange(1, "acquire"), 0))
        pause(e)
    with e.when(e.icmp("ult", task, pool["failed"].load())):
        pool["failed"].store(task)
        _copy(e, pool["status"].at, status)
    pool["lock"].store(0, "release")
    e.finish()


# --- waiting -------------------------------------------------------------------------------------


def _sleep_until(e: FunctionEmitter, word: Word, group: Reg, reached: Callable[[Reg], Reg]) -> None:
    """Sleeps until the value of a word is as it should be."""
    with e.repeat() as asleep:
        value = word.load("seq_cst")
        asleep.leave_if(reached(value))
        sleep_while(e, word.at, value, group)


def _emit_worker(module: ModuleEmitter) -> None:
    """What a thread of the pool runs: job after job."""
    e, (at,) = _function(module, WORKER, (PTR, "record"), linkage="")
    record = Record(e, at, _WORKER)
    pool_at, seat = record["pool"].load(), record["seat"].load()
    pool = Record(e, pool_at, _POOL)
    group = _group(e, seat)
    last = local(e, record["seen"].load())
    forever = e.label("forever")
    e.jump(forever)
    e.start(forever)
    seen = last.load()

    def is_new(signal: Reg) -> Reg:
        return e.icmp("ne", signal, seen)

    spin_until(e, lambda: is_new(pool["signal"].load("acquire")), lambda: pause(e), SPIN)
    with e.when(e.icmp("eq", pool["signal"].load("acquire"), seen)):
        me, avoided = this_thread(e), pool["avoided"].load("monotonic")
        e.call("graphc_place", None, me, pool["caller"].load("monotonic"), avoided)
        record["confined"].store(1, "monotonic")
        pool["sleepers"].fetch_add(1, "seq_cst")
        _sleep_until(e, pool["signal"], group, is_new)
        pool["sleepers"].fetch_add(-1, "seq_cst")
    with e.when(e.icmp("ne", record["confined"].load("monotonic"), 0)):
        record["confined"].store(0, "monotonic")
        me, anywhere = this_thread(e), e.const(CPU_UNKNOWN, I32)
        e.call("graphc_place", None, me, pool["caller"].load("monotonic"), anywhere)
    last.store(pool["signal"].load("acquire"))
    e.call("graphc_drain", None, pool_at, seat)
    e.finish(f"br label %{forever}")


def _wait_for_tasks(e: FunctionEmitter, pool: Record, tasks: Reg) -> None:
    """Waits until so many tasks of the job are done."""

    def are_done(done: Reg) -> Reg:
        return e.icmp("eq", done, tasks)

    spin_until(e, lambda: are_done(pool["done"].load("acquire")), lambda: pause(e), SPIN)
    with e.when(e.icmp("ne", pool["done"].load("acquire"), tasks)):
        pool["waiting"].store(1, "seq_cst")
        _sleep_until(e, pool["done"], e.const(ALL, I32), are_done)


# --- the owner's part ----------------------------------------------------------------------------


def _worker(e: FunctionEmitter, pool: Reg, seat: Reg) -> Reg:
    """Where the record of a thread lies."""
    offset = e.binary("add", e.binary("mul", seat, _WORKER_BYTES), POOL_WORKERS)
    return e.element_pointer(pool, offset, "i8")


def _emit_staff(module: ModuleEmitter) -> None:
    """Makes workers until there are enough, as far as the system lets."""
    e, (at, process, seats) = _function(
        module, "graphc_staff", (PTR, "pool"), (I32, "process"), (I64, "seats")
    )
    pool = Record(e, at, _POOL)
    with e.when(e.icmp("ne", pool["home"].load(), process)):
        # a new process: no thread of another one is here
        pool["home"].store(process)
        for word in ("count", "refused", "lock", "sleepers"):
            pool[word].store(0)
    wanted = e.convert("trunc", e.intrinsic("umin", I64, seats, e.const(POOL_THREADS, I64)), "i32")

    def are_enough() -> Reg:
        seat = e.binary("add", pool["count"].load(), 1)
        is_refused = e.icmp("ne", pool["refused"].load(), 0)
        return e.binary("or", e.icmp("uge", seat, wanted), is_refused)

    with e.region() as staffing:
        staffing.leave_if(are_enough())
        # they may run wherever this thread may
        pool["avoided"].store(CPU_UNKNOWN)
        with signals_blocked(e), e.repeat() as making:
            making.leave_if(are_enough())
            number = e.binary("add", pool["count"].load(), 1)
            seat = e.convert("zext", number, "i64")
            record_at = _worker(e, at, seat)
            record = Record(e, record_at, _WORKER)
            record["pool"].store(at)
            record["seat"].store(seat)
            record["seen"].store(pool["signal"].load("acquire"))
            handle, is_made = start_thread(e, pool["entry"].load(), record_at)
            pool["refused"].store(e.select(is_made, e.const(0, I32), e.const(1, I32)))
            with e.when(is_made):
                record["handle"].store(handle)
                pool["count"].store(number)
    e.finish()


def _emit_place(module: ModuleEmitter) -> None:
    """Has a thread run wherever the caller may, but for one CPU."""
    e, operands = _function(module, "graphc_place", (I64, "handle"), (I32, "caller"), (I32, "cpu"))
    place_thread(e, *operands)
    e.finish()


def _emit_keep_apart(module: ModuleEmitter) -> None:
    """Has the workers keep off the CPU that runs this, if it is another one than before."""
    e, (at,) = _function(module, "graphc_keep_apart", (PTR, "pool"))
    pool = Record(e, at, _POOL)
    cpu, caller = present_cpu(e), thread_number(e)
    pool["caller"].store(caller, "monotonic")
    with e.when(e.icmp("ne", cpu, pool["avoided"].load("monotonic"))):
        pool["avoided"].store(cpu, "monotonic")
        past = e.binary("add", e.convert("zext", pool["count"].load(), "i64"), 1)
        with e.loop(e.const(1, I64), past, 1) as seats:
            record = Record(e, _worker(e, at, seats.index), _WORKER)
            e.call("graphc_place", None, record["handle"].load(), caller, cpu)
            record["confined"].store(1, "monotonic")
    e.finish()


def _emit_run_tasks(module: ModuleEmitter) -> None:
    """Has the pool run a kernel, or runs it alone while the pool serves another thread."""
    e, (at, kernel, buffers, dims, status, extent, grain, seats) = _function(
        module, RUN_TASKS, (PTR, "pool"), (PTR, "kernel"), (PTR, "buffers"), (PTR, "dims"),
        (PTR, "status"), (I64, "extent"), (I64, "grain"), (I64, "seats"),
    )  # fmt: skip
    pool = Record(e, at, _POOL)
    process = process_number(e)
    # an owner of another process is what a fork left
    owner = pool["owner"].load("monotonic")
    _, is_swapped = pool["owner"].compare_exchange(owner, process)
    is_mine = e.binary("and", e.icmp("ne", owner, process), is_swapped)
    zero = e.const(0, I64)
    with e.when(is_mine):
        threads = e.intrinsic("smax", I64, seats, e.binary("sub", zero, seats))
        e.call("graphc_staff", None, at, process, threads)
        is_put_off = _is_put_off(e, pool, e.icmp("slt", seats, 0))
        with e.when(is_put_off):
            _run(e, (kernel, buffers, dims), status, zero, extent, zero)
        with e.when(e.binary("xor", is_put_off, 1)):
            e.call("graphc_keep_apart", None, at)
            tasks = e.binary("udiv", e.binary("sub", e.binary("add", extent, grain), 1), grain)
            job = (kernel, buffers, dims, extent, grain, tasks, threads)
            _publish(e, pool, dict(zip(_JOB, job, strict=True)))
            e.call("graphc_drain", None, at, zero)
            _wait_for_tasks(e, pool, e.convert("trunc", tasks, "i32"))
            with e.when(e.icmp("ne", pool["failed"].load(), -1)):
                _copy(e, status, pool["status"].at)
        pool["owner"].store(0, "release")
    with e.when(e.binary("xor", is_mine, 1)):
        _run(e, (kernel, buffers, dims), status, zero, extent, zero)
    e.finish()


def _is_put_off(e: FunctionEmitter, pool: Record, is_short: Reg) -> Reg:
    """Whether a launch leaves threads asleep and runs alone."""
    before = pool["put_off"].load()
    sleepers, count = pool["sleepers"].load("monotonic"), pool["count"].load()
    is_quiet = e.binary("and", e.icmp("eq", sleepers, count), e.icmp("ult", before, PATIENCE))
    result = e.binary("and", is_short, is_quiet)
    pool["put_off"].store(e.select(result, e.binary("add", before, 1), e.const(0, I32)))
    return result


def _publish(e: FunctionEmitter, pool: Record, job: Mapping[str, Reg]) -> None:
    """Opens a job, and wakes those who may take part."""
    last = pool["state"].load("monotonic")
    number = e.binary("add", e.binary("lshr", last, TASK_BITS), 1)
    # no task can be claimed while the job is written
    pool["state"].store(e.binary("or", last, 2**TASK_BITS - 1), "seq_cst")
    for name, value in job.items():
        pool[name].store(value, "release")
    pool["failed"].store(-1)
    pool["done"].store(0, "monotonic")
    pool["waiting"].store(0, "monotonic")
    pool["state"].store(e.binary("shl", number, TASK_BITS), "release")
    pool["signal"].fetch_add(1, "seq_cst")
    with e.when(e.icmp("ne", pool["sleepers"].load("seq_cst"), 0)):
        # all groups below that of the first seat too many; what is beyond the last shares it
        seats = job["seats"]
        below = e.binary("sub", _group(e, seats), 1)
        is_beyond = e.icmp("ugt", seats, _GROUPS)
        wake(e, pool["signal"].at, e.select(is_beyond, e.const(ALL, I32), below))


__all__ = ["RUN_TASKS", "emit_pool"]
