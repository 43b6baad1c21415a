"""How many threads this process may use: its CPU affinity and the quota of its control group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache


def usable_threads() -> int:
    """The CPUs this process may run on, fewer where a control group grants less time; at least 1.

    A quota of two and a half CPUs is two threads: a third would spend half of its time waiting.
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = _quota()
    return max(1, allowed if quota is None else min(allowed, int(quota)))


@cache
def _quota() -> float | None:
    """CPUs that the control groups around this process grant, or None without a limit."""
    limits = [limit for path in _limit_files() if (limit := _read_limit(path)) is not None]
    return min(limits, default=None)


def _limit_files(root: str = "/sys/fs/cgroup") -> Iterator[str]:
    """The files that may hold a limit: of this process's group and of those around it."""
    try:
        lines = _read("/proc/self/cgroup").splitlines()
    except OSError:
        lines = []
    groups = {"/"}
    for line in lines:
        _, _, group = line.split(":", 2)
        while group not in groups:
            groups.add(group)
            group = os.path.dirname(group)
    for group in groups:
        yield os.path.join(root, group.lstrip("/"), "cpu.max")
        yield os.path.join(root, "cpu", group.lstrip("/"), "cpu.cfs_quota_us")


def _read_limit(path: str | os.PathLike[str]) -> float | None:
    """CPUs granted by one file of either version of control groups; None for no limit."""
    try:
        words = _read(path).split()
        folder, name = os.path.split(path)
        if name != "cpu.max":
            words += _read(os.path.join(folder, "cpu.cfs_period_us")).split()
        quota, period = (int(word) for word in words[:2])
    except (OSError, ValueError):
        # no such file, or "max": nothing is limited here
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read(path: str | os.PathLike[str]) -> str:
    with open(path) as file:
        return file.read()


__all__ = ["usable_threads"]
