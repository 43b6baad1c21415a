"""Task sizes for tests of threads: small programs are shared as large ones are."""

from __future__ import annotations

import pytest

from graphc.base.tuning.sharing import Concurrency, Sharing
from graphc.base.tuning.tasks import Tasks


def share_small_work(patch: pytest.MonkeyPatch) -> None:
    """All kernels that can be split are, in as many tasks as possible."""
    patch.setattr(Tasks, "serial_work", 1)
    patch.setattr(Tasks, "task_work", 1)
    patch.setattr(Tasks, "tasks_per_thread", 13)
    patch.setattr(Sharing, "long_loop", 1)
    patch.setattr(Sharing, "reduced_columns", 1)


def group_small_work(patch: pytest.MonkeyPatch) -> None:
    """Whatever can run side by side does, however little it is."""
    patch.setattr(Tasks, "group_work", 0)
    patch.setattr(Concurrency, "least_task_work", 1)
