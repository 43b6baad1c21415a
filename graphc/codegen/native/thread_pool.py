"""The thread pool, as LLVM text: persistent workers that take the tasks of one launch at a time.

The pool is one record in memory (``POOL_BYTES``, zeros at first, never freed), which the code of
the process and that of exported libraries share. A thread that launches a kernel in tasks owns the
record meanwhile. A second thread that comes then runs its launch alone, so that no more threads run
than the user allows.

* One word holds the number of the job and how many tasks are taken. Tasks are claimed by
  compare-and-swap, so a thread that comes late finds the job over, whatever it read before. The
  caller takes tasks too, and waits for tasks that others took, never for threads.
* Tasks are taken from both ends: by even seats from the first on, by odd ones from the last. So
  two threads go through the same part of an array in each launch, which their own caches may still
  hold. Caches of virtual processors may be far from each other.
* A worker spins for a few microseconds and then sleeps on a futex. Each has a bit of its own, so
  that only workers that may take part are woken.
* A worker that sleeps keeps off the caller's CPU. Linux likes to wake a thread where its waker
  runs, and to leave it there for tens of milliseconds although another CPU idles; both threads then
  take turns. Once awake it may run anywhere, so that the system can give it the CPU of a caller
  that waits. A caller on another CPU than the last one moves all workers off it.
* Threads don't survive ``fork``: the record names the process whose threads serve it, and another
  one makes its own at its first launch. Signals are blocked in workers, so Ctrl-C arrives
  elsewhere.
* A kernel reports the first failing check of its task. If several tasks fail, the first of them
  counts, because a run in order would report it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from graphc.base.tuning.tasks import TASKS
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Record, RecordLayout, Routine, Shared
from graphc.codegen.llvm.types import I32, I64, PTR, LType
from graphc.codegen.native.linux import (
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
from graphc.plan.abi import (
    END_BITS,
    POOL_ENTRY,
    POOL_THREADS,
    POOL_WORKERS,
    TASK_BITS,
    WORKER,
)

RUN_TASKS = "graphc_run_tasks"
"""void (ptr pool, ptr kernel, ptr buffers, ptr dims, ptr status, i64 extent, i64 grain, i64 seats):
runs a kernel over [0, extent), on at most ``abs(seats)`` threads. If ``seats`` is negative, threads
that sleep are not woken at once."""

_JOB: Mapping[str, tuple[int, LType]] = {
    "kernel": (320, PTR), "buffers": (328, PTR), "dims": (336, PTR),
    "extent": (344, I64), "grain": (352, I64), "tasks": (360, I64), "seats": (368, I64),
}  # fmt: skip
"""The fields of a job; seats are the threads that may take part."""


def _layout(name: str, fields: Mapping[str, tuple[int, LType]]) -> RecordLayout:
    """A layout of fields, each given with its offset in bytes."""
    types = {field: type_ for field, (_, type_) in fields.items()}
    return RecordLayout(name, types, {field: place for field, (place, _) in fields.items()})


_POOL = _layout("pool", {
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
    # the first failure: its task, or _NO_TASK, and its status
    "lock": (384, I32), "failed": (392, I64), "status": (400, I64),
})  # fmt: skip

_NO_TASK = 2**62
"""Behind all tasks."""

_WORKER_BYTES = 64

_WORKER = _layout("worker", {
    "pool": (0, PTR), "seat": (8, I64), "seen": (16, I32), "confined": (20, I32),
    "handle": (24, I64),
})  # fmt: skip
"""A thread: its seat, from 1 on, the last signal before it was made, and whether it has to keep off
a CPU."""

_STATUS_WORDS = 4

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


def _copy(r: Routine, target: Reg, source: Reg) -> None:
    """Copies a status."""
    r.copy_bytes(target, source, 8 * _STATUS_WORDS)


def _group(r: Routine, seat: Reg) -> Reg:
    """The group of sleepers that a seat belongs to, as a bit."""
    return r.const(1) << r.least(seat, _GROUPS)


# --- doing tasks ---------------------------------------------------------------------------------


def _emit_drain(module: ModuleEmitter) -> None:
    """Claims and runs tasks of the present job until none is left."""
    r = Routine(module, "graphc_drain", {"pool": PTR, "seat": I64})
    at, seat = r.parameters
    pool = Record(_POOL, at)
    state, status = pool.shared("state"), r.room(_STATUS_WORDS)
    first = state.load("acquire")
    # read after the state: if they are of a later job, the state has changed and no claim succeeds
    job = {name: pool.shared(name).load("acquire") for name in _JOB}
    number = first >> TASK_BITS
    latest, did = r.cell(first), r.cell(0)
    is_even = (seat & 1).equals(0)
    step = r.select(is_even, 1, 1 << END_BITS)
    with r.region() as leave_if:
        leave_if(seat >= job["seats"])
        with r.repeat() as stop_if:
            present = latest.value
            lower = present & (2**END_BITS - 1)
            upper = (present >> END_BITS) & (2**END_BITS - 1)
            stop_if((present >> TASK_BITS).differs(number))
            stop_if(lower + upper >= job["tasks"])
            found, is_mine = state.compare_exchange(present, present + step)
            latest.value = found
            with r.when(is_mine):
                task = r.select(is_even, lower, job["tasks"] - 1 - upper)
                begin = task * job["grain"]
                end = r.least(begin + job["grain"], job["extent"])
                status[0] = 0
                call = job["buffers"], job["dims"], status.at(0), begin, end, seat
                r.call_at(job["kernel"], None, *call)
                with r.when(status[0].differs(0)):
                    r.call("graphc_fail", None, at, task, status.at(0))
                did.value = did.value + 1
                latest.value = state.load("acquire")
        leave_if(did.value.equals(0))
        done = pool.shared("done").add(did.value, "seq_cst") + did.value
        leave_if(done.differs(job["tasks"]))
        leave_if(pool.shared("waiting").load("seq_cst").equals(0))
        wake(r, pool.at("done"), ALL)
    r.finish()


def _emit_fail(module: ModuleEmitter) -> None:
    """Keeps the failure of a task, if no earlier task has one."""
    r = Routine(module, "graphc_fail", {"pool": PTR, "task": I64, "status": PTR})
    at, task, status = r.parameters
    pool = Record(_POOL, at)
    lock = pool.shared("lock")
    with r.repeat() as stop_if:
        stop_if(lock.exchange(1, "acquire").equals(0))
        pause(r)
    with r.when(task < pool["failed"]):
        pool["failed"] = task
        _copy(r, pool.at("status"), status)
    lock.store(0, "release")
    r.finish()


# --- waiting -------------------------------------------------------------------------------------


def _wait(
    r: Routine,
    place: Shared,
    is_over: Callable[[Reg], Reg],
    group: Reg | int,
    asleep: Callable[[], AbstractContextManager[None]],
) -> None:
    """Waits until the value of a place ends it: spins for a while, then sleeps.

    ``asleep`` surrounds the sleep.
    """
    rounds = r.cell(0)
    with r.repeat() as stop_if:
        stop_if(is_over(place.load("acquire")))
        pause(r)
        rounds.value = rounds.value + 1
        stop_if(rounds.value >= TASKS.spin_rounds)
    with r.when(~is_over(place.load("acquire"))), asleep(), r.repeat() as stop_if:
        value = place.load("seq_cst")
        stop_if(is_over(value))
        sleep_while(r, place.at, value, group)


def _emit_worker(module: ModuleEmitter) -> None:
    """The function of a worker thread: job after job."""
    r = Routine(module, WORKER, {"record": PTR}, linkage="")
    record = Record(_WORKER, r.parameters[0])
    at, seat = record["pool"], record["seat"]
    pool = Record(_POOL, at)
    group, last = _group(r, seat), r.cell(record["seen"])
    signal, sleepers = pool.shared("signal"), pool.shared("sleepers")
    caller, avoided = pool.shared("caller"), pool.shared("avoided")
    confined = record.shared("confined")

    @contextmanager
    def confined_and_counted() -> Iterator[None]:
        cpu = avoided.load("monotonic")
        r.call("graphc_place", None, this_thread(r), caller.load("monotonic"), cpu)
        confined.store(1, "monotonic")
        sleepers.add(1, "seq_cst")
        yield
        sleepers.add(-1, "seq_cst")

    with r.forever():
        seen = last.value
        _wait(r, signal, lambda found: found.differs(seen), group, confined_and_counted)
        with r.when(confined.load("monotonic").differs(0)):
            confined.store(0, "monotonic")
            anywhere = r.const(CPU_UNKNOWN)
            r.call("graphc_place", None, this_thread(r), caller.load("monotonic"), anywhere)
        last.value = signal.load("acquire")
        r.call("graphc_drain", None, at, seat)
    r.finish()


def _wait_for_tasks(r: Routine, pool: Record, tasks: Reg) -> None:
    """Waits until ``tasks`` tasks of the job are done."""

    @contextmanager
    def noted() -> Iterator[None]:
        pool.shared("waiting").store(1, "seq_cst")
        yield

    _wait(r, pool.shared("done"), lambda done: done.equals(tasks), ALL, noted)


# --- the owner's part ----------------------------------------------------------------------------


def _worker(r: Routine, pool: Reg, seat: Reg) -> Reg:
    """Where the record of a thread lies."""
    return r.at(pool, "i8", seat * _WORKER_BYTES + POOL_WORKERS)


def _emit_staff(module: ModuleEmitter) -> None:
    """Makes workers until there are enough, or the system refuses one."""
    r = Routine(module, "graphc_staff", {"pool": PTR, "process": I64, "seats": I64})
    at, process, seats = r.parameters
    pool = Record(_POOL, at)
    with r.when(pool["home"].differs(process)):
        # a new process: no thread of another one is here
        pool["home"] = process
        for field in ("count", "refused", "lock", "sleepers"):
            pool[field] = 0
    wanted = r.least(seats, POOL_THREADS)

    def are_enough() -> Reg:
        return (pool["count"] + 1 >= wanted) | pool["refused"].differs(0)

    with r.region() as leave_if:
        leave_if(are_enough())
        # they may run wherever this thread may
        pool["avoided"] = CPU_UNKNOWN
        with signals_blocked(r), r.repeat() as stop_if:
            stop_if(are_enough())
            seat = pool["count"] + 1
            record_at = _worker(r, at, seat)
            record = Record(_WORKER, record_at)
            record["pool"], record["seat"] = at, seat
            record["seen"] = pool.shared("signal").load("acquire")
            handle, is_made = start_thread(r, pool["entry"], record_at)
            pool["refused"] = r.select(is_made, 0, 1)
            with r.when(is_made):
                record["handle"], pool["count"] = handle, seat
    r.finish()


def _emit_place(module: ModuleEmitter) -> None:
    """Has a thread run wherever the caller may, but for one CPU."""
    r = Routine(module, "graphc_place", {"handle": I64, "caller": I64, "cpu": I64})
    place_thread(r, *r.parameters)
    r.finish()


def _emit_keep_apart(module: ModuleEmitter) -> None:
    """Has the workers keep off the CPU that runs this, if it is another one than before."""
    r = Routine(module, "graphc_keep_apart", {"pool": PTR})
    (at,) = r.parameters
    pool = Record(_POOL, at)
    avoided = pool.shared("avoided")
    cpu, caller = present_cpu(r), thread_number(r)
    pool.shared("caller").store(caller, "monotonic")
    with r.when(cpu.differs(avoided.load("monotonic"))):
        avoided.store(cpu, "monotonic")
        with r.each(pool["count"]) as n:
            record = Record(_WORKER, _worker(r, at, n + 1))
            r.call("graphc_place", None, record["handle"], caller, cpu)
            record.shared("confined").store(1, "monotonic")
    r.finish()


def _emit_run_tasks(module: ModuleEmitter) -> None:
    """Has the pool run a kernel, or runs it alone while the pool serves another thread."""
    addresses = dict.fromkeys(("pool", "kernel", "buffers", "dims", "status"), PTR)
    r = Routine(module, RUN_TASKS, addresses | dict.fromkeys(("extent", "grain", "seats"), I64))
    at, kernel, buffers, dims, status, extent, grain, seats = r.parameters
    pool = Record(_POOL, at)
    process, zero = process_number(r), r.const(0)

    def run_alone() -> None:
        r.call_at(kernel, None, buffers, dims, status, zero, extent, zero)

    # an owner of another process is what a fork left
    owner = pool.shared("owner")
    present = owner.load("monotonic")
    _, is_swapped = owner.compare_exchange(present, process)
    is_mine = present.differs(process) & is_swapped
    with r.when(is_mine):
        threads = r.most(seats, zero - seats)
        r.call("graphc_staff", None, at, process, threads)
        is_put_off = _is_put_off(r, pool, seats < 0)
        with r.when(is_put_off):
            run_alone()
        with r.when(~is_put_off):
            r.call("graphc_keep_apart", None, at)
            tasks = (extent + grain - 1) // grain
            job = (kernel, buffers, dims, extent, grain, tasks, threads)
            _publish(r, pool, dict(zip(_JOB, job, strict=True)))
            r.call("graphc_drain", None, at, zero)
            _wait_for_tasks(r, pool, tasks)
            with r.when(pool["failed"].differs(_NO_TASK)):
                _copy(r, status, pool.at("status"))
        owner.store(0, "release")
    with r.when(~is_mine):
        run_alone()
    r.finish()


def _is_put_off(r: Routine, pool: Record, is_short: Reg) -> Reg:
    """Whether a launch leaves threads asleep and runs alone."""
    before, sleepers = pool["put_off"], pool.shared("sleepers").load("monotonic")
    result = is_short & sleepers.equals(pool["count"]) & (before < TASKS.launches_alone)
    pool["put_off"] = r.select(result, before + 1, 0)
    return result


def _publish(r: Routine, pool: Record, job: Mapping[str, Reg]) -> None:
    """Opens a job, and wakes those who may take part."""
    state = pool.shared("state")
    last = state.load("monotonic")
    # no task can be claimed while the job is written
    state.store(last | (2**TASK_BITS - 1), "seq_cst")
    for name, value in job.items():
        pool.shared(name).store(value, "release")
    pool["failed"] = _NO_TASK
    for name in ("done", "waiting"):
        pool.shared(name).store(0, "monotonic")
    state.store(((last >> TASK_BITS) + 1) << TASK_BITS, "release")
    signal = pool.shared("signal")
    signal.add(1, "seq_cst")
    with r.when(pool.shared("sleepers").load("seq_cst").differs(0)):
        # all groups below that of the first seat too many; what is beyond the last shares it
        seats = job["seats"]
        wake(r, signal.at, r.select(seats > _GROUPS, ALL, _group(r, seats) - 1))


__all__ = ["RUN_TASKS", "emit_pool"]
