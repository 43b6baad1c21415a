"""Task sizes for tests of threads: small programs are shared as large ones are."""

from __future__ import annotations

import pytest

from graphc.kernel.analysis import split, task_size
from graphc.runtime import tasks
from passes.plan import concurrent_steps, fork_join


def share_small_work(patch: pytest.MonkeyPatch) -> None:
    """All kernels that can be split are, in as many tasks as possible."""
    for module in (task_size, split):
        patch.setattr(module, "SERIAL_WORK", 1)
    patch.setattr(task_size, "TASK_WORK", 1)
    patch.setattr(task_size, "TASKS_PER_THREAD", 13)
    patch.setattr(split, "_LONG", 1)
    patch.setattr(split, "COLUMNS", 1)


def group_small_work(patch: pytest.MonkeyPatch) -> None:
    """Whatever can run side by side does, however little it is."""
    for module in (task_size, tasks, concurrent_steps, fork_join):
        patch.setattr(module, "GROUP_WORK", 0)
    patch.setattr(fork_join, "LEAST_TASK", 1)
