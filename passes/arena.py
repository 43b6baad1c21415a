"""Placing a plan's temporaries in one arena: liveness, the memory planner, the checker.

Symbolic sizes are planned at hint sizes; the solution's precedence order gives the offsets for
every other size, and the checker proves that it covers every overlapping pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from graphc.ir.dims import Dim
from graphc.ir.dims import evaluate as dims_evaluate
from graphc.plan.ir import Layout, Plan
from graphc.plan.memory import Buffer, MemoryProblem, offsets_for_sizes
from passes.liveness import live_intervals
from passes.memory_plan import lower_bound, solve
from passes.plan_check import check
from passes.sizes import hint_bytes

ALIGNMENT = 64
"""Temporaries start on cache lines."""

EFFORT_PER_BYTE = 100
"""How long to search for a byte less, in array elements touched: a megabyte is worth 0.3 s."""


def place(plan: Plan, must_alias: tuple[tuple[int, ...], ...] = ()) -> Plan:
    """The plan with a layout; slots in a group of ``must_alias`` share their memory."""
    slots, problem = _problem(plan, must_alias, hint_bytes)
    solution = solve(problem, effort_per_byte=EFFORT_PER_BYTE)
    check(problem, solution)
    sizes = tuple(buffer.size for buffer in problem.buffers)
    return replace(plan, layout=Layout(slots, solution, sizes))


def bytes_at(plan: Plan, dims: Mapping[str, int]) -> tuple[int, int, int]:
    """Peak, sum and lower bound of a placed plan's temporaries at given sizes of the dims."""
    layout = plan.layout
    assert layout is not None, "the plan is placed"
    groups: dict[int, list[int]] = {}
    for slot, root in zip(layout.slots, layout.solution.roots, strict=True):
        groups.setdefault(root, []).append(slot)
    together = tuple(tuple(group) for group in groups.values() if len(group) > 1)
    _, problem = _problem(plan, together, lambda size: dims_evaluate(size, dims))
    sizes = [buffer.size for buffer in problem.buffers]
    _, peak = offsets_for_sizes(layout.solution, sizes)
    return peak, sum(sizes), lower_bound(problem)


def _problem(
    plan: Plan, must_alias: tuple[tuple[int, ...], ...], size_of: Callable[[Dim], int]
) -> tuple[tuple[int, ...], MemoryProblem]:
    """The slots to place, and the planner's problem with one buffer for each."""
    intervals = live_intervals(plan)
    slots = tuple(sorted(intervals))
    number = {slot: position for position, slot in enumerate(slots)}
    buffers = tuple(
        Buffer(
            plan.slots[slot].name or f"slot {slot}",
            size_of(plan.slots[slot].type.bytes),
            *intervals[slot],
            ALIGNMENT,
        )
        for slot in slots
    )
    groups = tuple(tuple(number[slot] for slot in group) for group in must_alias)
    return slots, MemoryProblem(buffers, groups)
