"""Placing a plan's temporaries in one arena: liveness, the memory planner, the checker.

Symbolic sizes are planned at hint sizes; the solution's precedence order gives the offsets for
every other size, and the checker proves that it covers every overlapping pair.
"""

from __future__ import annotations

from dataclasses import replace

from graphc.plan.ir import Layout, Plan
from graphc.plan.memory import Buffer, MemoryProblem
from passes.liveness import live_intervals
from passes.memory_plan import solve
from passes.plan_check import check
from passes.sizes import hint_bytes

ALIGNMENT = 64
"""Temporaries start on cache lines."""


def place(plan: Plan, must_alias: tuple[tuple[int, ...], ...] = ()) -> Plan:
    """The plan with a layout; slots in a group of ``must_alias`` share their memory."""
    intervals = live_intervals(plan)
    slots = tuple(sorted(intervals))
    number = {slot: position for position, slot in enumerate(slots)}
    sizes = tuple(hint_bytes(plan.slots[slot].type.bytes) for slot in slots)
    buffers = tuple(
        Buffer(plan.slots[slot].name or f"slot {slot}", size, *intervals[slot], ALIGNMENT)
        for slot, size in zip(slots, sizes, strict=True)
    )
    groups = tuple(tuple(number[slot] for slot in group) for group in must_alias)
    problem = MemoryProblem(buffers, groups)
    solution = solve(problem)
    check(problem, solution)
    return replace(plan, layout=Layout(slots, solution, sizes))
