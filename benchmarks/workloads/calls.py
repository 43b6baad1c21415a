"""What a call costs when there is nothing to compute."""

from __future__ import annotations

from benchmarks.workloads.base import Goal, Workload, normal


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family; it is tiny anyway."""
    return tuple(
        Workload(
            name,
            kind,
            f"x + 1 on 16 floats, {how}",
            lambda random: {"x": normal(random, 16)},
            lambda i: (i["x"] + 1,),
            flops=16,
            bytes=128,
            goals=(goal,),
        )
        for name, kind, how, goal in (
            ("call_16", "increment", "the ready callable", Goal(1.2, "numba")),
            (
                "run_16",
                "increment_by_name",
                "through session.run where there is one",
                Goal(2.0, "numpy"),
            ),
        )
    )
