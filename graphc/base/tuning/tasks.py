"""How much work is worth a thread.

Work is in picoseconds of one core, as ``graphc.kernel.analysis.cost`` estimates it. The run time
reads these figures too, so this module imports nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class TaskTuning(NamedTuple):
    """Task sizes and waiting. A named tuple: it is made in a tenth of the time of a dataclass."""

    serial_work: int = 12_000_000
    """Picoseconds of work below which threads are left out. Handing out tasks takes 1 µs while
    threads are awake: one row by 512 x 512 takes 11.5 µs alone and 6.2 by two. Those that sleep
    are not woken at once for so little."""

    wake_work: int = 300_000_000
    """Picoseconds of work below which threads that sleep are not woken at once: a sum took 65 µs
    alone, 75 to 80 with a thread that had to be woken, and half as long with one that was awake."""

    task_work: int = 5_000_000
    """Picoseconds that a task lasts at least, so that claiming it (0.1 µs) does not count."""

    tasks_per_thread: int = 4
    """Tasks for each thread where there is enough work, so that a thread that is late costs
    little."""

    group_work: int = 4_000_000
    """Picoseconds that concurrent steps have to save: handing out tasks takes 1 µs while threads
    are awake, and the end of the last one is waited for."""

    spin_rounds: int = 2000
    """Rounds of waiting, 20 to 80 µs, before a thread sleeps: from one launch to the next it then
    need not be woken, which takes 10 µs and more."""

    launches_alone: int = 8
    """Short launches in a row that find all threads asleep and run alone, before the threads are
    woken. Calls with rests in between so don't pay for waking; of calls without rests only the
    first are slow."""

    brief_steps: int = 8
    """Steps above which a plan is not looked at: it is not brief."""

    brief_work: int = 5_000_000
    """Picoseconds that a brief plan takes at most, in which the interpreter's lock is held."""

    copied_byte: int = 50
    """Picoseconds that a copy between slots takes for a byte."""


TASKS = TaskTuning()
"""The figures, the same on every target."""


__all__ = ["TASKS", "TaskTuning"]
