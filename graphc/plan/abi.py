"""What the words of a plan's tables mean, for who writes them and for native code that reads them.

**Steps as they are walked**, at one binding of the symbolic dims. A step is ``STEP_WORDS`` int64s:

    0  kind
    1  address of the kernel
    2  first entry in the pointer table
    3  first entry in the dims table
    4  target of a branch or jump; for a kernel its iterations (1 if it is not split)
    5  iterations a task
    6  how many threads may take part; negative where it is not worth waking them for
    7  address of the thread pool

``HOST`` calls ``void (buffers, sizes, status, callable, functions)``, which is of
``graphc.codegen.native.host_call``, at the address of a kernel: it has an object of Python in place
of the target, and the address of a table of CPython's functions in place of the iterations a task.

The last three are those of ``PARALLEL``, a launch that is cut into tasks. ``GROUP`` is the first
launch of steps that run side by side: it has the address of their bounds in place of the iterations
a task, which are numbers of steps counted from it: how many tasks there are, where each begins and
where the last one ends.

**Rows of a plan's tables** (``graphc.plan.tables``), the same for all bindings. A number is that
of a dim, whose value a binding computes:

    steps   kind, kernel (of FAIL the guard: the step is SKIP where that holds; of HOST its number
            among these), first entry, first cell, target
    guards  numbers of left and right, whether the left one may be 1 instead, message, and where the
            numbers that the message names begin among ``shown``, how many they are
    cuts    launches that may be cut into tasks: step, numbers of the iterations and of their work,
            how many threads may take part at most, iterations that a task has at least
    groups  steps that may run side by side: first step, where its bounds begin, tasks, where the
            numbers of their works begin, the first cut within, cuts within
    idle    launches that have nothing to do where all results are empty: step, where the numbers of
            these sizes begin, how many they are
"""

from __future__ import annotations

LAUNCH, BRANCH, JUMP, COPY, SKIP, PARALLEL, GROUP, FAIL, HOST = range(9)
"""Kinds of steps. A guard that is a step is SKIP where it holds, and FAIL where it does not."""

STEP_WORDS = 8
"""int64s a step takes."""

STEP_FIELDS, GUARD_FIELDS, CUT_FIELDS, GROUP_FIELDS, IDLE_FIELDS = 5, 6, 5, 6, 3
"""Integers of a row of each table."""

WALKER = "graphc_walk"
"""The symbol of the native loop over the table."""

WORKER = "graphc_worker"
"""The symbol of what the threads of the pool run; it stands beside the walker."""

TRIPS = "graphc_trips"
"""The symbol of the native loop over several runs of a program."""

POOL_ENTRY, POOL_WORKERS, POOL_THREADS = 16, 512, 256
"""In the record of the thread pool, in bytes: where the address of ``WORKER`` stands and where the
records of the threads begin; how many threads there may be, callers included."""

POOL_BYTES = POOL_WORKERS + 64 * POOL_THREADS
"""The size of the record."""

TASK_BITS, END_BITS = 32, 16
"""Of the word by which tasks of the pool are claimed: those of tasks that are taken, the others
number the job; of these, those of the first tasks, the upper ones are of the last. There are always
fewer tasks: some for each thread."""

INDEX_ERROR, HOST_ERROR = 1, 2
"""Status codes: an index of a kernel is out of range; Python raised an error, whose type,
value and traceback are the words behind."""


def kernel_symbols(count: int) -> tuple[str, ...]:
    """The functions of a program with so many kernels, in their order."""
    return tuple(f"kernel_{number}" for number in range(count))

TABLE_WORDS, INPUT_WORDS, OUTPUT_WORDS = 7, 6, 7
"""int64s of the table of a native entry: of its head, and of each input and each result."""

FRAME_WALKER, FRAME_RELEASES, FRAME_WORDS = 0, 6, 7
"""Of a frame's record: the loop over steps, followed by its arguments up to the status; whether the
interpreter lock is released while it runs; how many int64s there are."""
