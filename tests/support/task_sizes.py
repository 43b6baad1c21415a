"""Task sizes for tests of threads: small programs are shared as large ones are."""

from __future__ import annotations

import pytest

from graphc.base.tuning.sharing import ConcurrencyTuning, SharingTuning
from graphc.base.tuning.tasks import TaskTuning


def share_small_work(patch: pytest.MonkeyPatch) -> None:
    """All kernels that can be split are, in as many tasks as possible."""
    patch.setattr(TaskTuning, "serial_work", 1)
    patch.setattr(TaskTuning, "task_work", 1)
    patch.setattr(TaskTuning, "tasks_per_thread", 13)
    patch.setattr(SharingTuning, "long_loop", 1)
    patch.setattr(SharingTuning, "reduced_columns", 1)


def group_small_work(patch: pytest.MonkeyPatch) -> None:
    """Whatever can run side by side does, however little it is."""
    patch.setattr(TaskTuning, "group_work", 0)
    patch.setattr(ConcurrencyTuning, "least_task_work", 1)
