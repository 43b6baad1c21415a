"""Which schedules the kernels of a program have."""

from __future__ import annotations

from collections import Counter
from typing import Any


def schedules_of(program: Any) -> Counter[str]:
    """How many loops, loads and stores of an executable have a schedule, by its name."""
    kernels = program.compiled.levels.plan.kernels
    return Counter(schedule.name for kernel in kernels for schedule in kernel.schedule.values())
