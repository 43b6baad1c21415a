"""The thread pool, as LLVM text: persistent workers that take the tasks of one launch at a time.

The pool is one record in memory (``POOL_BYTES``, zeros at first, never freed), whichever code works
on it: that of the process, or that inside of a loaded package. Whoever launches a kernel in tasks
owns the record meanwhile; a second thread that comes then runs its own launch alone, so that no
more threads run than were asked for.

* One word holds the number of the job and the next task. Tasks are claimed by compare-and-swap, so
  a thread that comes late finds the job over, whatever it read before. The caller takes tasks too,
  and waits for tasks that others took, never for threads: one that sleeps is not missed.
* A worker spins for a few microseconds and then sleeps in the kernel (a futex), by itself, so that
  only those are woken that may take part.
* Threads don't survive ``fork``: the record names the process whose threads serve it, and another
  one makes its own at its first launch. Signals are blocked in workers, so Ctrl-C arrives
  elsewhere.
* A kernel reports the first failing check of its task. Of several tasks the first one counts, which
  has what a run in order would report first.

Linux on x86-64: numbers of system calls, and ``pause``.
"""

from __future__ import annotations

from string import Template

from graphc.plan.table import POOL_ENTRY, POOL_THREADS, POOL_WORKERS, WORKER

RUN_TASKS = "graphc_run_tasks"
"""void (ptr pool, ptr kernel, ptr buffers, ptr dims, ptr status, i64 extent, i64 grain, i64 seats):
runs a kernel over [0, extent), by at most so many threads."""

SPIN = 2000
"""Rounds of waiting, 20 to 80 µs, before a thread sleeps: from one launch to the next it then
need not be woken, which takes 10 µs and more."""

_FIELDS = {
    # who owns the pool and whose threads they are; rarely written
    "OWNER": 0, "HOME": 4, "COUNT": 8, "REFUSED": 12, "ENTRY": POOL_ENTRY,
    # each on a cache line of its own: job and next task; tasks that are done; the job's signal
    "STATE": 64, "DONE": 128, "WAITING": 132, "SIGNAL": 192, "SLEEPERS": 256,
    # the job
    "KERNEL": 320, "BUFFERS": 328, "DIMS": 336, "EXTENT": 344, "GRAIN": 352, "TASKS": 360,
    "SEATS": 368,
    # the first failure
    "LOCK": 384, "FAILED": 392, "STATUS": 400,
    "WORKERS": POOL_WORKERS,
}  # fmt: skip

_TEXT = Template("""
declare i32 @getpid()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
declare void @llvm.x86.sse2.pause()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)

define internal i64 @graphc_sleep(ptr %word, i32 %value, i32 %group) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i64 137, i32 %value,
                                    ptr null, ptr null, i32 %group)
  ret i64 %r
}

define internal i64 @graphc_wake(ptr %word, i32 %groups) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 202, ptr %word, i64 138, i32 2147483647,
                                    ptr null, ptr null, i32 %groups)
  ret i64 %r
}

; the group of sleepers that a seat belongs to: a bit each, the last one for all beyond
define internal i32 @graphc_group(i64 %seat) nounwind {
  %place = call i64 @llvm.umin.i64(i64 %seat, i64 31)
  %bit = trunc i64 %place to i32
  %group = shl i32 1, %bit
  ret i32 %group
}

; claims and runs tasks of the present job until none is left
define internal void @graphc_drain(ptr %pool, i64 %seat) nounwind {
entry:
  %status = alloca [4 x i64], align 64
  %state_at = getelementptr i8, ptr %pool, i64 $STATE
  %kernel_at = getelementptr i8, ptr %pool, i64 $KERNEL
  %buffers_at = getelementptr i8, ptr %pool, i64 $BUFFERS
  %dims_at = getelementptr i8, ptr %pool, i64 $DIMS
  %extent_at = getelementptr i8, ptr %pool, i64 $EXTENT
  %grain_at = getelementptr i8, ptr %pool, i64 $GRAIN
  %tasks_at = getelementptr i8, ptr %pool, i64 $TASKS
  %seats_at = getelementptr i8, ptr %pool, i64 $SEATS
  %first = load atomic i64, ptr %state_at acquire, align 8
  ; read after the state: if they are of a later job, the state has changed and no claim succeeds
  %kernel = load atomic ptr, ptr %kernel_at acquire, align 8
  %buffers = load atomic ptr, ptr %buffers_at acquire, align 8
  %dims = load atomic ptr, ptr %dims_at acquire, align 8
  %extent = load atomic i64, ptr %extent_at acquire, align 8
  %grain = load atomic i64, ptr %grain_at acquire, align 8
  %tasks = load atomic i64, ptr %tasks_at acquire, align 8
  %seats = load atomic i64, ptr %seats_at acquire, align 8
  %job = lshr i64 %first, 32
  %invited = icmp ult i64 %seat, %seats
  br i1 %invited, label %look, label %nothing
look:
  %state = phi i64 [ %first, %entry ], [ %found, %claim ], [ %now, %ran ]
  %count = phi i32 [ 0, %entry ], [ %count, %claim ], [ %counted, %ran ]
  %this = lshr i64 %state, 32
  %task = and i64 %state, 4294967295
  %same = icmp eq i64 %this, %job
  %left = icmp ult i64 %task, %tasks
  %open = and i1 %same, %left
  br i1 %open, label %claim, label %over
claim:
  %taken = add i64 %state, 1
  %swap = cmpxchg ptr %state_at, i64 %state, i64 %taken acq_rel acquire
  %found = extractvalue { i64, i1 } %swap, 0
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %look
run:
  %begin = mul i64 %task, %grain
  %stop = add i64 %begin, %grain
  %end = call i64 @llvm.umin.i64(i64 %stop, i64 %extent)
  store i64 0, ptr %status, align 64
  call void %kernel(ptr %buffers, ptr %dims, ptr %status, i64 %begin, i64 %end, i64 %seat)
  %code = load i64, ptr %status, align 64
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %ran, label %failed
failed:
  call void @graphc_fail(ptr %pool, i64 %task, ptr %status)
  br label %ran
ran:
  %counted = add i32 %count, 1
  %now = load atomic i64, ptr %state_at acquire, align 8
  br label %look
over:
  %idle = icmp eq i32 %count, 0
  br i1 %idle, label %nothing, label %report
report:
  %done_at = getelementptr i8, ptr %pool, i64 $DONE
  %waiting_at = getelementptr i8, ptr %pool, i64 $WAITING
  %before = atomicrmw add ptr %done_at, i32 %count seq_cst
  %sum = add i32 %before, %count
  %all = trunc i64 %tasks to i32
  %last = icmp eq i32 %sum, %all
  br i1 %last, label %ask, label %nothing
ask:
  %waiting = load atomic i32, ptr %waiting_at seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %tell, label %nothing
tell:
  %r = call i64 @graphc_wake(ptr %done_at, i32 -1)
  ret void
nothing:
  ret void
}

; keeps a task's failure, if no earlier task has one
define internal void @graphc_fail(ptr %pool, i64 %task, ptr %status) nounwind {
entry:
  %lock_at = getelementptr i8, ptr %pool, i64 $LOCK
  %failed_at = getelementptr i8, ptr %pool, i64 $FAILED
  %kept_at = getelementptr i8, ptr %pool, i64 $STATUS
  br label %acquire
acquire:
  %held = atomicrmw xchg ptr %lock_at, i32 1 acquire
  %free = icmp eq i32 %held, 0
  br i1 %free, label %compare, label %wait
wait:
  call void @llvm.x86.sse2.pause()
  br label %acquire
compare:
  %known = load i64, ptr %failed_at, align 8
  %earlier = icmp ult i64 %task, %known
  br i1 %earlier, label %keep, label %release
keep:
  store i64 %task, ptr %failed_at, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %kept_at, ptr %status, i64 32, i1 false)
  br label %release
release:
  store atomic i32 0, ptr %lock_at release, align 4
  ret void
}

; a thread of the pool: its record holds the pool, its seat and the last signal it saw
define ptr @$WORKER(ptr %record) nounwind {
entry:
  %pool = load ptr, ptr %record, align 8
  %seat_at = getelementptr i8, ptr %record, i64 8
  %seat = load i64, ptr %seat_at, align 8
  %start_at = getelementptr i8, ptr %record, i64 16
  %start = load i32, ptr %start_at, align 8
  %group = call i32 @graphc_group(i64 %seat)
  %signal_at = getelementptr i8, ptr %pool, i64 $SIGNAL
  %sleepers_at = getelementptr i8, ptr %pool, i64 $SLEEPERS
  br label %idle
idle:
  %seen = phi i32 [ %start, %entry ], [ %present, %work ]
  br label %spin
spin:
  %round = phi i32 [ 0, %idle ], [ %next, %again ]
  %signal = load atomic i32, ptr %signal_at acquire, align 4
  %changed = icmp ne i32 %signal, %seen
  br i1 %changed, label %work, label %again
again:
  call void @llvm.x86.sse2.pause()
  %next = add i32 %round, 1
  %more = icmp ult i32 %next, $SPIN
  br i1 %more, label %spin, label %tired
tired:
  %o1 = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  br label %check
check:
  %latest = load atomic i32, ptr %signal_at seq_cst, align 4
  %called = icmp ne i32 %latest, %seen
  br i1 %called, label %awake, label %sleep
sleep:
  %r = call i64 @graphc_sleep(ptr %signal_at, i32 %seen, i32 %group)
  br label %check
awake:
  %o2 = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %work
work:
  %present = load atomic i32, ptr %signal_at acquire, align 4
  call void @graphc_drain(ptr %pool, i64 %seat)
  br label %idle
}

; makes workers until there are enough, as far as the system lets; the owner calls it
define internal void @graphc_staff(ptr %pool, i32 %process, i64 %seats) nounwind {
entry:
  %all = alloca [16 x i64], align 64
  %old = alloca [16 x i64], align 64
  %thread = alloca i64, align 64
  %home_at = getelementptr i8, ptr %pool, i64 $HOME
  %count_at = getelementptr i8, ptr %pool, i64 $COUNT
  %refused_at = getelementptr i8, ptr %pool, i64 $REFUSED
  %home = load i32, ptr %home_at, align 4
  %known = icmp eq i32 %home, %process
  br i1 %known, label %ready, label %found
found:
  ; a new process: no thread of another one is here
  %lock_at = getelementptr i8, ptr %pool, i64 $LOCK
  %sleepers_at = getelementptr i8, ptr %pool, i64 $SLEEPERS
  store i32 %process, ptr %home_at, align 4
  store i32 0, ptr %count_at, align 4
  store i32 0, ptr %refused_at, align 4
  store i32 0, ptr %lock_at, align 4
  store i32 0, ptr %sleepers_at, align 4
  br label %ready
ready:
  %most = call i64 @llvm.umin.i64(i64 %seats, i64 $THREADS)
  %wanted = trunc i64 %most to i32
  %count = load i32, ptr %count_at, align 4
  %refused = load i32, ptr %refused_at, align 4
  %taken = add i32 %count, 1
  %short = icmp ult i32 %taken, %wanted
  %may = icmp eq i32 %refused, 0
  %make = and i1 %short, %may
  br i1 %make, label %block, label %done
block:
  call void @llvm.memset.p0.i64(ptr align 64 %all, i8 -1, i64 128, i1 false)
  %b = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %create
create:
  %seat = phi i32 [ %taken, %block ], [ %following, %made ]
  %number = zext i32 %seat to i64
  %offset = mul i64 %number, 64
  %records = getelementptr i8, ptr %pool, i64 $WORKERS
  %record = getelementptr i8, ptr %records, i64 %offset
  %seat_at = getelementptr i8, ptr %record, i64 8
  %start_at = getelementptr i8, ptr %record, i64 16
  %signal_at = getelementptr i8, ptr %pool, i64 $SIGNAL
  %signal = load atomic i32, ptr %signal_at acquire, align 4
  store ptr %pool, ptr %record, align 8
  store i64 %number, ptr %seat_at, align 8
  store i32 %signal, ptr %start_at, align 8
  %entry_at = getelementptr i8, ptr %pool, i64 $ENTRY
  %code = load ptr, ptr %entry_at, align 8
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr %code, ptr %record)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %refuse
made:
  %handle = load i64, ptr %thread, align 8
  %d = call i32 @pthread_detach(i64 %handle)
  store i32 %seat, ptr %count_at, align 4
  %following = add i32 %seat, 1
  %further = icmp ult i32 %following, %wanted
  br i1 %further, label %create, label %restore
refuse:
  store i32 1, ptr %refused_at, align 4
  br label %restore
restore:
  %u = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %done
done:
  ret void
}

define internal void @$RUN_TASKS(ptr %pool, ptr %kernel, ptr %buffers, ptr %dims,
                                 ptr %status, i64 %extent, i64 %grain, i64 %seats) nounwind {
entry:
  %process = call i32 @getpid()
  %owner_at = getelementptr i8, ptr %pool, i64 $OWNER
  %owner = load atomic i32, ptr %owner_at monotonic, align 4
  %busy = icmp eq i32 %owner, %process
  br i1 %busy, label %alone, label %take
take:
  ; an owner of another process is what a fork left
  %swap = cmpxchg ptr %owner_at, i32 %owner, i32 %process acq_rel monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %publish, label %alone
alone:
  call void %kernel(ptr %buffers, ptr %dims, ptr %status, i64 0, i64 %extent, i64 0)
  ret void
publish:
  call void @graphc_staff(ptr %pool, i32 %process, i64 %seats)
  %state_at = getelementptr i8, ptr %pool, i64 $STATE
  %done_at = getelementptr i8, ptr %pool, i64 $DONE
  %waiting_at = getelementptr i8, ptr %pool, i64 $WAITING
  %signal_at = getelementptr i8, ptr %pool, i64 $SIGNAL
  %sleepers_at = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %failed_at = getelementptr i8, ptr %pool, i64 $FAILED
  %kept_at = getelementptr i8, ptr %pool, i64 $STATUS
  %kernel_at = getelementptr i8, ptr %pool, i64 $KERNEL
  %buffers_at = getelementptr i8, ptr %pool, i64 $BUFFERS
  %dims_at = getelementptr i8, ptr %pool, i64 $DIMS
  %extent_at = getelementptr i8, ptr %pool, i64 $EXTENT
  %grain_at = getelementptr i8, ptr %pool, i64 $GRAIN
  %tasks_at = getelementptr i8, ptr %pool, i64 $TASKS
  %seats_at = getelementptr i8, ptr %pool, i64 $SEATS
  %full = add i64 %extent, %grain
  %over = sub i64 %full, 1
  %tasks = udiv i64 %over, %grain
  %all = trunc i64 %tasks to i32
  ; no task can be claimed while the job is written
  %last = load atomic i64, ptr %state_at monotonic, align 8
  %old = lshr i64 %last, 32
  %job = add i64 %old, 1
  %fresh = shl i64 %job, 32
  %closed = or i64 %last, 4294967295
  store atomic i64 %closed, ptr %state_at seq_cst, align 8
  store atomic ptr %kernel, ptr %kernel_at release, align 8
  store atomic ptr %buffers, ptr %buffers_at release, align 8
  store atomic ptr %dims, ptr %dims_at release, align 8
  store atomic i64 %extent, ptr %extent_at release, align 8
  store atomic i64 %grain, ptr %grain_at release, align 8
  store atomic i64 %tasks, ptr %tasks_at release, align 8
  store atomic i64 %seats, ptr %seats_at release, align 8
  store i64 -1, ptr %failed_at, align 8
  store atomic i32 0, ptr %done_at monotonic, align 4
  store atomic i32 0, ptr %waiting_at monotonic, align 4
  store atomic i64 %fresh, ptr %state_at release, align 8
  %o = atomicrmw add ptr %signal_at, i32 1 seq_cst
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %wake, label %work
wake:
  ; all groups below that of the first seat too many; those beyond the last group share it
  %beyond = icmp ugt i64 %seats, 31
  %bit = call i32 @graphc_group(i64 %seats)
  %below = sub i32 %bit, 1
  %groups = select i1 %beyond, i32 -1, i32 %below
  %r1 = call i64 @graphc_wake(ptr %signal_at, i32 %groups)
  br label %work
work:
  call void @graphc_drain(ptr %pool, i64 0)
  br label %spin
spin:
  %round = phi i32 [ 0, %work ], [ %next, %again ]
  %done = load atomic i32, ptr %done_at acquire, align 4
  %complete = icmp eq i32 %done, %all
  br i1 %complete, label %finish, label %again
again:
  call void @llvm.x86.sse2.pause()
  %next = add i32 %round, 1
  %more = icmp ult i32 %next, $SPIN
  br i1 %more, label %spin, label %tired
tired:
  store atomic i32 1, ptr %waiting_at seq_cst, align 4
  br label %check
check:
  %latest = load atomic i32, ptr %done_at seq_cst, align 4
  %ended = icmp eq i32 %latest, %all
  br i1 %ended, label %finish, label %sleep
sleep:
  %r2 = call i64 @graphc_sleep(ptr %done_at, i32 %latest, i32 -1)
  br label %check
finish:
  %failed = load i64, ptr %failed_at, align 8
  %fine = icmp eq i64 %failed, -1
  br i1 %fine, label %leave, label %report
report:
  call void @llvm.memcpy.p0.p0.i64(ptr %status, ptr %kept_at, i64 32, i1 false)
  br label %leave
leave:
  store atomic i32 0, ptr %owner_at release, align 4
  ret void
}
""")


def pool_text() -> str:
    """The functions of the pool: ``RUN_TASKS``, internal, and ``WORKER``, which starts threads."""
    return _TEXT.substitute(
        _FIELDS, WORKER=WORKER, RUN_TASKS=RUN_TASKS, SPIN=SPIN, THREADS=POOL_THREADS
    )


__all__ = ["RUN_TASKS", "pool_text"]
