"""The workloads, by what they exercise; each is defined once, for all peers."""

from __future__ import annotations

from fnmatch import fnmatchcase

from benchmarks.workloads import (
    calls,
    definitions,
    movement,
    networks,
    pointwise,
    products,
    recurrences,
    reductions,
    small_loops,
    transforms,
)
from benchmarks.workloads.base import Workload

_FAMILIES = (
    pointwise,
    reductions,
    movement,
    transforms,
    recurrences,
    small_loops,
    products,
    networks,
    calls,
    definitions,
)


def workloads(*, quick: bool = False) -> tuple[Workload, ...]:
    """All workloads; ``quick`` keeps their names, makes them tiny and asks nothing of them."""
    found = [workload for family in _FAMILIES for workload in family.workloads(quick)]
    return tuple(workload.without_goals() if quick else workload for workload in found)


def chosen(patterns: str, *, quick: bool = False) -> tuple[Workload, ...]:
    """The workloads whose name matches one of the patterns, which commas separate."""
    globs = [pattern.strip() for pattern in patterns.split(",")]
    return tuple(
        workload
        for workload in workloads(quick=quick)
        if any(fnmatchcase(workload.name, glob) for glob in globs)
    )
